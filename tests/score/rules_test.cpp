// The rule files' language, and a row as a scenario.
#include "sim/score/rules.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "sim/score/row_scenario.hpp"
#include "tests/score/table.hpp"

namespace syncline::score {
namespace {

using test::row_of;

std::vector<Rule> rules_from(const std::string& text) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "syncline-rules-test.yaml";
  std::ofstream(file) << text;
  struct Remove {
    const std::filesystem::path& file;
    ~Remove() { std::filesystem::remove(file); }
  } remove{file};
  return read_rules(file.string());
}

std::string error_of(const std::string& rule) {
  try {
    static_cast<void>(rules_from("rules:\n  - " + rule + "\n"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

const std::string Header =
    "id,model,layers,hidden,heads,seq,gpu,n_gpus,gbs,mbs,tp,pp,cp,vpp,recompute,experts";
const std::string Cells = "a,GPT-1B,24,2048,16,1024,a100-sxm-80gb,8,64,2,1,4,1,2,full,";

TEST_CASE("a column is blank again when a rule reads an empty text in it") {
  const auto rules = rules_from("rules:\n  - {rule: r, stated: true, read: {recompute: \"\"}}\n");
  CHECK(read_row(row_of(Header, Cells), rules).row.blank("recompute"));
}

TEST_CASE("a condition holds of what it says") {
  struct Row {
    const char* when;
    bool holds;
  };
  for (const Row& row :
       {Row{"{recompute: ^full}", true}, Row{"{recompute: ^FULL$}", true}, Row{"{recompute: none}", false},
        Row{"{recompute: not full}", false}, Row{"{recompute: not none}", true},
        Row{"{experts: blank}", true}, Row{"{experts: given}", false}, Row{"{gpu: given}", true},
        Row{"{pp: '> 1'}", true}, Row{"{pp: '>= 4'}", true}, Row{"{pp: '!= 4'}", false},
        Row{"{'layers % pp': '= 0'}", true}, Row{"{'layers / pp': '< vpp'}", false},
        Row{"{experts: '> 0'}", false}, Row{"{experts: '= 0'}", false},  // blank is not 0
        Row{"{pp: '> 1', recompute: none}", false}, Row{"{words: gpt.*a100}", true}}) {
    CAPTURE(row.when);
    const auto rules = rules_from("rules:\n  - {rule: r, because: b, when: " + std::string(row.when) +
                                  ", set: {recompute: none}}\n");
    CHECK(read_row(row_of(Header, Cells), rules).settings.size() == (row.holds ? 1 : 0));
  }
}

TEST_CASE(
    "rules are walked in order: blanks are filled once, readings and keys are replaced, later rules see it") {
  const auto rules = rules_from(R"yaml(rules:
  - {rule: one, because: b, fill: {vocab: 1000}, set: {recompute: full}}
  - {rule: two, because: b, fill: {vocab: 2000, mbs: 5}}
  - {rule: three, stated: true, read: {vocab: "= vocab + 24"}}
  - {rule: four, because: b, when: {vocab: "= 1024"}, set: {recompute: none}}
  - {rule: five, because: b, when: {experts: given}, set: {recompute: selective}}
)yaml");
  const Reading reading = read_row(row_of(Header, Cells), rules);
  CHECK(reading.row.number("vocab") == 1024);
  CHECK(reading.row.number("mbs") == 2);  // the row says so
  REQUIRE(reading.settings.size() == 1);
  CHECK(reading.settings.front().value == "none");
  CHECK(reading.settings.front().rule->name == "four");
  std::string used;
  for (const Rule* rule : reading.used) used += rule->name + " ";
  CHECK(used == "one three four ");
}

TEST_CASE(
    "a row becomes a scenario whose assumptions stand on their lines; what a rule takes back is left out") {
  const auto rules = rules_from(R"yaml(rules:
  - {rule: chip, stated: true, when: {gpu: a100}, set: {device: a100-sxm-80gb}}
  - {rule: few-words, because: such models have them, fill: {vocab: 51200}}
  - {rule: inner, because: GPT, set: {model.ffn: "= 4 * hidden", kernels: eager}}
  - {rule: says-full, stated: true, when: {recompute: ^full}, set: {recompute: full, kernels: default}}
  - {rule: chip, stated: true, set: {device.base: a100-sxm-80gb}}
  - {rule: ends, because: ends are heavy, set: {pipeline.split: "= one_less_at_ends(layers - 2 + 8, pp * vpp)"}}
)yaml");
  const RowScenario scenario = scenario_of(row_of(Header, Cells), rules);
  CHECK(scenario.refusal.empty());
  CHECK(scenario.assumptions == std::vector<std::string>{"few-words", "inner", "ends"});
  const auto has = [&](const std::string& text) { return scenario.text.find(text) != std::string::npos; };
  CAPTURE(scenario.text);
  CHECK(has("name: \"a\"\n"));
  CHECK(has("  layers: 24\n"));
  CHECK(has("  vocabulary: 51200"));
  CHECK(has("# assumed (few-words): such models have them\n"));
  CHECK(has("  ffn: 8192 "));
  CHECK(has("recompute: full "));
  CHECK(has("# read (says-full)\n"));
  CHECK(has("  dp: 2\n"));                          // 8 / (1 · 4 · 1)
  CHECK(has("  split: [3, 4, 4, 4, 4, 4, 4, 3]"));  // (30 + 2) / 8 = 4
  CHECK(has("  chunks: 2\n"));
  CHECK_FALSE(has("kernels"));
  CHECK_FALSE(has("tp:"));  // 1 says nothing
}

TEST_CASE("a rule refuses a row, and so does what a scenario cannot do without") {
  const auto rules = rules_from(
      "rules:\n"
      "  - {rule: no, when: {experts: '> 0'}, refuse: no experts}\n"
      "  - {rule: chip, stated: true, when: {gpu: ^a100}, set: {device.base: a100-sxm-80gb}}\n");
  struct Row {
    const char* cells;
    const char* refusal;
  };
  for (const Row& row :
       {Row{"a,GPT,24,2048,16,1024,a100-sxm-80gb,8,64,2,1,4,1,2,full,8", "no experts"},
        Row{"a,GPT,,2048,16,1024,a100-sxm-80gb,8,64,2,1,4,1,2,full,0", "no layer sizes"},
        Row{"a,GPT,24,2048,16,,a100-sxm-80gb,8,64,2,1,4,1,2,full,", "the sequence length is not known"},
        Row{"a,GPT,24,2048,16,1024,,8,64,2,1,4,1,2,full,", "the accelerator is not known"},
        Row{"a,GPT,24,2048,16,1024,a100-sxm-80gb,8,,2,1,4,1,2,full,", "the global batch is not known"},
        Row{"a,GPT,24,2048,16,1024,a100-sxm-80gb,8,64,2,1,4,1,2,full,", ""}}) {
    CAPTURE(row.cells);
    CHECK(scenario_of(row_of(Header, row.cells), rules).refusal == row.refusal);
  }
}

TEST_CASE("a mistake in a rule file is shown with its place") {
  struct Row {
    const char *rule, *message;
  };
  for (const Row& row :
       {Row{"{because: b}", "lacks \"rule\", its name"},
        Row{"{rule: r, set: {recompute: none}}", "lacks \"because\""},
        Row{"{rule: r, because: b, when: {gpus: x}}", "unknown column \"gpus\""},
        Row{"{rule: r, because: b, when: {gpu: '(x'}}", "is no regular expression"},
        Row{"{rule: r, because: b, when: {'tp *': '> 1'}}", "ends too early"},
        Row{"{rule: r, because: b, fill: {vocabulary: 3}}", "unknown column \"vocabulary\""},
        Row{"{rule: r, because: b, set: {a: '= layer'}}", "unknown column \"layer\""},
        Row{"{rule: r, because: b, set: {a: '= one_less_at_ends(layers)'}}", "expected one_less_at_ends("},
        Row{"{rule: r, becuase: b}", "did you mean \"because\""},
        Row{"{rule: r, because: b, set: 3}", "expected a map"}}) {
    CAPTURE(row.rule);
    const std::string error = error_of(row.rule);
    CAPTURE(error);
    CHECK(error.find(row.message) != std::string::npos);
    CHECK(error.find("syncline-rules-test.yaml:2:") != std::string::npos);
  }
}

}  // namespace
}  // namespace syncline::score
