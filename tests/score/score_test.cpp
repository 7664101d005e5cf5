// The arithmetic of a score, by hand.
#include "sim/score/score.hpp"

#include <doctest/doctest.h>

#include "sim/score/score_json.hpp"
#include "sim/score/score_text.hpp"

namespace syncline::score {
namespace {

RowResult row(const char* id, const char* table, std::optional<double> measured,
              std::optional<double> predicted) {
  RowResult result;
  result.id = id;
  result.table = table;
  result.gpu = "A100";
  result.family = "gpt";
  result.job = "same";
  result.plan = id;
  result.measured_s = measured;
  result.predicted_s = predicted;
  if (!predicted) result.refusal = "not modelled";
  return result;
}

TEST_CASE(
    "errors are relative to what was measured; coverage counts refused rows, of dense rows only dense ones") {
  std::vector<RowResult> rows{row("a", "t", 2, 2.2), row("b", "t", 4, 3.2), row("c", "t", 1, std::nullopt),
                              row("d", "t", 1, std::nullopt)};
  rows[3].dense = false;
  const Score score = score_of(rows);
  REQUIRE(score.tables.size() == 1);
  const GroupScore& table = score.tables.front().whole;
  CHECK(table.rows == 4);
  CHECK(table.predicted == 2);
  CHECK(table.coverage() == 0.5);
  CHECK(*table.dense_coverage() == doctest::Approx(2.0 / 3));
  CHECK(table.time.mean_signed == doctest::Approx(-0.05));   // (0.1 - 0.2) / 2
  CHECK(table.time.mean_absolute == doctest::Approx(0.15));  // (0.1 + 0.2) / 2
  CHECK(table.time.max_absolute == doctest::Approx(0.2));
  CHECK(table.time.worst == "b");
  CHECK(table.memory.count == 0);
  CHECK(score.all.rows == 4);
}

TEST_CASE("a memory that several rows repeat counts once") {
  std::vector<RowResult> rows{row("a", "t", 1, 1), row("b", "t", 1, 1), row("c", "t", 1, 1)};
  for (RowResult& r : rows) r.measured_memory_bytes = 10;
  rows[0].predicted_memory_bytes = rows[1].predicted_memory_bytes = 11;
  rows[2].predicted_memory_bytes = 8;
  rows[0].memory_run = rows[1].memory_run = "a";
  const Score score = score_of(rows);
  CHECK(score.all.memory.count == 2);
  CHECK(score.all.memory.mean_absolute == doctest::Approx(0.15));  // (0.1 + 0.2) / 2
}

TEST_CASE("pairs are of one job and table, of different plans, and measured apart by more than 2 %") {
  // a 1.00, b 1.10, c 1.105: a-b and a-c differ by 10 %, b-c by 0.5 %. Predicted: a 1.0, b 0.9 (wrong), c 1.2 (right).
  std::vector<RowResult> rows{row("a", "t", 1.0, 1.0), row("b", "t", 1.1, 0.9), row("c", "t", 1.105, 1.2)};
  PairOrder order = score_of(rows).all.order;
  CHECK(order.pairs == 2);
  CHECK(order.right == 1);
  CHECK(order.accuracy() == 0.5);

  SUBCASE("another table, job or an equal plan makes no pair") {
    rows[1].table = "u";
    rows[2].job = "other";
    CHECK(score_of(rows).all.order.pairs == 0);
    rows[1].table = "t";
    rows[1].plan = "a";
    CHECK(score_of(rows).all.order.pairs == 0);
    CHECK_FALSE(score_of(rows).all.order.accuracy());
  }
  SUBCASE("two that are predicted equal are not in the right order") {
    rows[2].predicted_s = 1.0;
    CHECK(score_of(rows).all.order.right == 0);
  }
  SUBCASE("less than 2 % is not enough") {
    rows[1].measured_s = 1.0199;
    rows[2].measured_s = 1.0;
    CHECK(score_of(rows).all.order.pairs == 0);
  }
}

TEST_CASE("a group scores its own rows") {
  std::vector<RowResult> rows{row("a", "t", 1, 1.1), row("b", "t", 1, 1.3)};
  rows[1].gpu = "H100";
  const Score score = score_of(rows);
  REQUIRE(score.tables.front().by_gpu.size() == 2);
  CHECK(score.tables.front().by_gpu[0].name == "A100");
  CHECK(score.tables.front().by_gpu[1].time.mean_signed == doctest::Approx(0.3));
}

TEST_CASE("a family is what a model's name begins with") {
  struct Row {
    const char *model, *family;
  };
  for (const Row& r :
       {Row{"Llama3.1-8B", "llama"}, Row{"LLAMA2-7B", "llama"}, Row{"GPT-3.6B", "gpt"}, Row{"", ""}})
    CHECK(family_of(r.model) == r.family);
}

TEST_CASE("a row survives its way through a line of JSON; the CSV line has as many fields as the header") {
  RowResult before = row("a\"b,\n", "t", 1.0 / 3, std::nullopt);
  before.assumptions = {"one", "two"};
  before.our_bug = true;
  before.measured_memory_bytes = 3e9;
  const std::string line = row_line(before);
  CHECK(line.find('\n') == line.size() - 1);
  const RowResult after = row_of_line(line);
  CHECK(row_line(after) == line);
  CHECK(after.measured_s == before.measured_s);
  CHECK(after.assumptions == before.assumptions);
  CHECK_THROWS_AS(static_cast<void>(row_of_line("{}")), std::logic_error);

  const CsvTable table = CsvTable::parse(csv_header() + csv_line(before), "rows.csv");
  CHECK(table.at(0, "id") == before.id);
  CHECK(table.at(0, "assumptions") == "one;two");
  CHECK(table.at(0, "refusal") == "bug: not modelled");
}

TEST_CASE("the text names tables, the farthest rows, reasons and assumptions") {
  std::vector<RowResult> rows{row("good", "t", 1, 1.01), row("bad", "t", 1, 2),
                              row("none", "u", 1, std::nullopt)};
  rows[0].assumptions = {"usual"};
  Rule rule;
  rule.name = "usual";
  rule.because = "most do";
  const std::string text = score_text(score_of(rows), rows, {rule}, {.worst = 1, .groups = false});
  CAPTURE(text);
  for (const char* part :
       {"+50.5 %", "100.0 %", "t: farthest off", "bad ", "1  not modelled", "1  usual: most do", "all"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(text.find("good ") == std::string::npos);
}

}  // namespace
}  // namespace syncline::score
