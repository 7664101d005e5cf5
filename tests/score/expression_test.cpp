// Sums in rule files.
#include "sim/score/expression.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

namespace syncline::score {
namespace {

std::optional<double> value_of(const std::string& text) {
  return evaluate(text, [](std::string_view name) -> std::optional<double> {
    if (name == "layers") return 96;
    if (name == "pp") return 8;
    if (name == "vpp") return std::nullopt;
    throw std::invalid_argument("unknown column");
  });
}

TEST_CASE("a sum is worked out as on paper") {
  struct Row {
    const char* text;
    double value;
  };
  for (const Row& row :
       {Row{"1 + 2 * 3", 7}, Row{"(1 + 2) * 3", 9}, Row{"layers / pp", 12}, Row{"layers % 7", 5},
        Row{"10 - 4 - 3", 3}, Row{"ceil(layers / 7) * 7", 98}, Row{"floor(2.5)", 2},
        Row{"min(layers, pp)", 8}, Row{"max(layers,pp)", 96}, Row{" 1.5*2 ", 3}}) {
    CAPTURE(row.text);
    CHECK(value_of(row.text) == row.value);
  }
}

TEST_CASE("a sum with a blank column, or divided by 0, has no value") {
  for (const char* text : {"vpp", "layers * vpp", "ceil(vpp)", "min(1, vpp)", "layers / 0", "layers % 0"}) {
    CAPTURE(text);
    CHECK(value_of(text) == std::nullopt);
  }
}

TEST_CASE("what is no sum is refused with the place of the mistake") {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row :
       {Row{"1 +", "ends too early"}, Row{"(1", "lacks a ')'"}, Row{"1 2", "expected an operator"},
        Row{"root(4)", "has no function \"root\""}, Row{"min(1)", "lacks a ','"},
        Row{"$", "expected a number or a name"}, Row{"layer", "unknown column"}}) {
    CAPTURE(row.text);
    std::string message;
    try {
      static_cast<void>(value_of(row.text));
    } catch (const std::invalid_argument& error) {
      message = error.what();
    }
    CHECK(message.find(row.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace syncline::score
