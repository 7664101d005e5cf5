#include "sim/score/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <stdexcept>

namespace syncline::score {
namespace {

using Value = std::optional<double>;

bool starts_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool in_name(char c) {
  return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool in_number(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
}

Value combined(char sign, Value left, Value right) {
  if (!left || !right) return std::nullopt;
  switch (sign) {
    case '+': return *left + *right;
    case '-': return *left - *right;
    case '*': return *left * *right;
    case '/': return *right == 0 ? Value{} : *left / *right;
    default: return *right == 0 ? Value{} : std::fmod(*left, *right);
  }
}

class Evaluator {
 public:
  Evaluator(std::string_view text, const Lookup& lookup) : text_(text), lookup_(lookup) {}

  Value whole() {
    const Value value = sum();
    if (!at_end()) fail("expected an operator");
    return value;
  }

 private:
  Value sum() {
    Value value = product();
    while (const char sign = taken_of("+-")) value = combined(sign, value, product());
    return value;
  }

  Value product() {
    Value value = factor();
    while (const char sign = taken_of("*/%")) value = combined(sign, value, factor());
    return value;
  }

  Value factor() {
    if (taken_of("(") != 0) {
      const Value value = sum();
      need(')');
      return value;
    }
    if (at_end()) fail("ends too early");
    if (in_number(text_[at_])) return std::stod(std::string(run_of(in_number)));
    if (!starts_name(text_[at_])) fail("expected a number or a name");
    const std::string_view name = run_of(in_name);
    return taken_of("(") != 0 ? call(name) : lookup_(name);
  }

  Value call(std::string_view name) {
    const Value first = sum();
    if (name == "ceil" || name == "floor") {
      need(')');
      if (!first) return first;
      return name == "ceil" ? std::ceil(*first) : std::floor(*first);
    }
    if (name != "min" && name != "max") fail(fmt::format("has no function \"{}\"", name));
    need(',');
    const Value second = sum();
    need(')');
    if (!first || !second) return std::nullopt;
    return name == "min" ? std::min(*first, *second) : std::max(*first, *second);
  }

  bool at_end() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ == text_.size();
  }

  /// The next character, taken, when it is one of these; else 0.
  char taken_of(std::string_view characters) {
    if (at_end() || characters.find(text_[at_]) == std::string_view::npos) return 0;
    return text_[at_++];
  }

  void need(char c) {
    if (taken_of({&c, 1}) == 0) fail(fmt::format("lacks a '{}'", c));
  }

  std::string_view run_of(bool (*belongs)(char)) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw std::invalid_argument(fmt::format("\"{}\": {} at character {}", text_, what, at_ + 1));
  }

  std::string_view text_;
  const Lookup& lookup_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<double> evaluate(std::string_view expression, const Lookup& lookup) {
  return Evaluator(expression, lookup).whole();
}

}  // namespace syncline::score
