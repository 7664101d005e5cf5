#include "sim/pipeline/order.hpp"

#include <doctest/doctest.h>

#include "sim/core/error.hpp"
#include "sim/pipeline/generator.hpp"

using namespace syncline;
using namespace syncline::pipeline;

namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

}  // namespace

TEST_SUITE("pipeline orders") {
  TEST_CASE("an order is written as it was read") {
    const std::vector<std::string> ranks{"0F0 0F1 3F0 (0F2;3B0)OVERLAP_F_B 3I1 3W1 0B0",
                                         "1F0 2F0 2I0 2W0 1B0"};
    const Order order = parse_order("# two ranks\n" + ranks[0] + "\r\n\n  " + ranks[1] + "  \n", "o.txt");
    CHECK(order.stages == 4);
    CHECK(order.microbatches == 3);
    REQUIRE(order.ranks.size() == 2);
    CHECK(to_text(order.ranks[0]) == ranks[0]);
    CHECK(to_text(order.ranks[1]) == ranks[1]);
    CHECK(order.ranks[0][3] == Block(F(0, 2), B(3, 0)));
  }

  TEST_CASE("what is no action is refused with its place") {
    struct Row {
      const char* name;
      const char* text;
      int line, column;
      const char* word;
    };
    for (const Row& row : std::initializer_list<Row>{
             {"unknown kind", "0F0 0X0", 1, 5, "0X0"},
             {"lower case", "0f0", 1, 1, "0f0"},
             {"no stage", "0F0\n F0", 2, 2, "F0"},
             {"no microbatch", "0F", 1, 1, "0F"},
             {"negative", "0F-1", 1, 1, "0F-1"},
             {"too large", "0F99999999999999999999", 1, 1, "0F99999999999999999999"},
             {"half a fusion", "(0F0;0B0)", 1, 1, "(0F0;0B0)"},
             {"one in a fusion", "(0F0)OVERLAP_F_B", 1, 1, "(0F0)OVERLAP_F_B"},
             {"a fusion and more", "(0F0;0B1)OVERLAP_F_B2", 1, 1, "(0F0;0B1)OVERLAP_F_B2"},
         }) {
      CAPTURE(row.name);
      try {
        static_cast<void>(parse_order(row.text, "o.txt"));
        FAIL("not refused");
      } catch (const InputError& error) {
        REQUIRE(error.diagnostics().size() == 1);
        const Diagnostic& found = error.diagnostics().front();
        CHECK(found.place.file == "o.txt");
        CHECK(found.place.line == row.line);
        CHECK(found.place.column == row.column);
        CHECK(found.message.find("unknown action \"" + std::string(row.word) + "\"") == 0);
      }
    }
    CHECK_THROWS_AS(static_cast<void>(parse_order("# nothing\n", "o.txt")), InputError);
  }

  TEST_CASE("an order that is not sound is told so in a sentence") {
    struct Row {
      const char* name;
      const char* text;
      const char* says;  // the whole of it; empty: sound
    };
    for (const Row& row : std::initializer_list<Row>{
             {"one rank", "0F0 0B0", ""},
             {"split", "0F0 0I0 0W0", ""},
             {"two directions", "0F0 1F1 1B1 0B0\n1F0 0F1 1B0 0B1", ""},
             {"twice", "0F0 0F0 0B0", "rank 0: 0F0 stands twice\n"},
             {"backward twice", "0F0 0B0 0I0 0W0", "rank 0: 0I0 stands twice\n"},
             {"backward first", "0B0 0F0", "rank 0: 0B0 before its 0F0\n"},
             {"W before I", "0F0 0W0 0I0", "rank 0: 0W0 before its 0I0\n"},
             {"W after B", "0F0 0B0 0W0", "rank 0: 0W0 after a whole backward 0B0, which has it in it\n"},
             {"no W", "0F0 0F1 0I0 0B1", "0W0 is missing\n"},
             {"no backward", "0F0 0F1 0B0 0F2 0B1 0F3 0I3 0W3", "0B2 is missing, or 0I2\n"},
             {"two ranks", "0F0 0F1 0B1\n0B0",
              "rank 1: 0B0 is on another rank than the rest of stage 0 microbatch 0, which rank 0 runs\n"},
             {"too few", "0F0 0B0 999999F999999",
              "1000000 stages and 1000000 microbatches need 1000000000000 forwards and as many backwards, "
              "but there are "
              "3 actions in all\n"},
             {"wrong fusion", "(0F0;0I0)OVERLAP_F_B 0W0",
              "rank 0: (0F0;0I0)OVERLAP_F_B must fuse a forward F with a whole backward B\n"},
         }) {
      CAPTURE(row.name);
      CHECK(joined(check_order(parse_order(row.text, "o.txt"))) == row.says);
    }
    CHECK(check_order(Order{}).front() == "the order is empty");
  }

  TEST_CASE("what keeps a written order from running stands at the line of its rank") {
    struct Row {
      const char* name;
      const char* text;
      int line;  // 0: of the whole
      const char* says;
    };
    for (const Row& row : std::initializer_list<Row>{
             {"twice", "# two\n0F0 0B0\r\n\n1F0 1F0 1B0", 4, "it is not sound: rank 1: 1F0 stands twice"},
             {"W that is missing", "0F0 0F1 0B0 0B1\n1F0 1F1 1I0 1B1", 2, "it is not sound: 1W0 is missing"},
             {"too few", "0F0", 0,
              "it is not sound: 1 stages and 1 microbatches need 1 forwards and as many backwards, but there "
              "are "
              "1 actions in all"},
             {"deadlock", "0F0 0B0 0F1 0B1\n1F1 1B1 1F0 1B0", 1,
              "it deadlocks: rank 0 waits in 0B0 for 1B0 of rank 1, which comes after 1F1; rank 1 waits in "
              "1F1 "
              "for 0F1 of rank 0, which comes after 0B0"},
         }) {
      CAPTURE(row.name);
      const WrittenOrder written = parse_written_order(row.text, "o.txt");
      const std::vector<Diagnostic> found =
          check_written_order(written.order, written.ranks, "it", {"whole", 0, 0, ""});
      REQUIRE(found.size() == 1);
      CHECK(found[0].message == row.says);
      CHECK(found[0].place.line == row.line);
      CHECK(found[0].place.file == (row.line == 0 ? "whole" : "o.txt"));
    }
  }

  TEST_CASE("counts of any size are refused before anything is made of them") {
    const Generator& looped = *find_generator("looped-bfs");
    const auto refused = [&](int ranks, int chunks) {
      return refusal(looped, {.ranks = ranks, .microbatches = 8, .chunks = chunks}).value_or("");
    };
    CHECK(refused(2'147'483'647, 1024) ==  // more than an int holds
          "looped-bfs would have 2199023254528 virtual stages; at most 10000000 are simulated");
    CHECK(refused(262'144, 10'000) == "looped-bfs needs 1 to 1024 chunks a rank, not 10000");
    CHECK(refused(1024, 1024) == "");
    CHECK(most_actions(looped, {.ranks = 1 << 30, .microbatches = 1 << 30, .chunks = 4}) == 3 * 4 * 0x1p60);
    CHECK(most_actions(*find_generator("dualpipe"), {.ranks = 4, .microbatches = 8}) == 3 * 4 * 8);
  }

  TEST_CASE("a schedule has fused blocks where it says so") {
    for (const Generator& generator : generators()) {
      CAPTURE(std::string(generator.name));
      CHECK(has_fused_block(make_order(generator, {.ranks = 4, .microbatches = 8})) == generator.fuses);
    }
  }
}
