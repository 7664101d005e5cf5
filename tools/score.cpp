// `syncline score`: predicts rows of published and measured tables, and says how far off it is.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <thread>

#include "sim/config/catalogue.hpp"
#include "sim/core/csv.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/score/measured_time.hpp"
#include "sim/score/row_scenario.hpp"
#include "sim/score/score_json.hpp"
#include "sim/score/score_text.hpp"
#include "tools/build_info.hpp"
#include "tools/score_row.hpp"
#include "tools/options.hpp"
#include "tools/subcommand.hpp"
#include "tools/terminal.hpp"
#include "tools/workers.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;
using score::RowResult;
using score::Rule;
using score::TrainingRow;

constexpr std::string_view RuleFolder = "score";
// Systems last: they see what the others have read out of the row.
constexpr std::array<std::string_view, 2> RuleFiles{"rules.yaml", "systems.yaml"};
// What a table of training runs has. Others in a folder of tables are passed over.
constexpr std::array<std::string_view, 4> TrainingColumns{"id", "layers", "gpu", "n_gpus"};

CsvTable read_table(const std::string& file) {
  return CsvTable::parse(read_text_file(file, LargestTable), file);
}

bool is_training_table(const CsvTable& table) {
  return std::ranges::all_of(TrainingColumns, [&](std::string_view column) { return table.has(column); });
}

/// All tables in a folder and its two, by name.
std::vector<std::string> tables_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const fs::path& part : {folder, folder / "published", folder / "measured"}) {
    std::error_code ignored;
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(part, ignored))
      if (entry.path().extension() == ".csv") found.push_back(entry.path().string());
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::vector<Rule> all_rules(const std::string& folder) {
  const fs::path where = folder.empty() ? data_folder() / RuleFolder : fs::path(folder);
  std::vector<Rule> rules;
  for (const std::string_view file : RuleFiles)
    for (Rule& rule : score::read_rules((where / file).string())) rules.push_back(std::move(rule));
  return rules;
}

/// The file of rows: a line is on disk as soon as its row is done; in the end they stand in the tables' order.
class RowFile {
 public:
  explicit RowFile(const std::string& name) : name_(name) {
    if (!name_.empty()) open(), put(score::csv_header());
  }
  void add(const RowResult& row) {
    if (!name_.empty()) put(score::csv_line(row));
  }
  void finish(const std::vector<RowResult>& rows) {
    if (name_.empty()) return;
    file_.close();
    const std::string name = name_, part = name_ + ".part";
    name_ = part;
    open();
    put(score::csv_header());
    for (const RowResult& row : rows) put(score::csv_line(row));
    file_.close();
    fs::rename(part, name);
  }

 private:
  void open() {
    file_.open(name_, std::ios::trunc);
    if (!file_) throw EnvironmentError(fmt::format("cannot write {}", name_));
  }
  void put(const std::string& line) {
    file_ << line << std::flush;
    if (!file_) throw EnvironmentError(fmt::format("cannot write {}", name_));
  }
  std::string name_;
  std::ofstream file_;
};

class ScoreCommand : public Subcommand {
 public:
  std::string name() const override { return "score"; }
  std::string summary() const override {
    return "Predict rows of published and measured tables, and say how far off it is";
  }
  std::string example() const override {
    return "  syncline score --table runs.csv --csv rows.csv\n"
           "  syncline score --row sc21-t1-2 --scenario\n"
           "Tables, rules and keys of --json: docs/score.md.";
  }

  void add_options(CLI::App& app) override {
    app.add_option("--table", tables_, "A table of training runs; repeatable")->type_name("FILE.csv");
    app.add_option("--data", data_,
                   "Folder with tables, or with folders published and measured (default: ../shared/data "
                   "beside the program's data, if there is one)")
        ->type_name("DIR");
    app.add_option("--rules", rules_, "Folder with rules.yaml and systems.yaml (default: score)")
        ->type_name("DIR");
    CLI::Option* row = app.add_option("--row", row_, "Only the row with this id")->type_name("ID");
    app.add_option("--match", match_, "Only rows whose table, id, source or accelerator matches")
        ->type_name("REGEX");
    app.add_flag("--scenario", scenario_,
                 "Print the row as a scenario for `syncline run`, assumptions as comments")
        ->needs(row);
    app.add_option("--csv", csv_, "Write all rows; each is there as soon as it is done")->type_name("FILE");
    app.add_flag("--json", json_, "Print one JSON object instead of the tables");
    app.add_flag("--groups", text_.groups, "Tables by source, accelerator, model family and precision too");
    app.add_option("--worst", text_.worst, "Rows shown of each table, the farthest off")
        ->capture_default_str();
    app.add_option("--jobs", jobs_, "Processes (default: as many as there are processors)")
        ->check(CLI::Range(1, 1024));
    app.add_option("--time-limit", limit_, "Processor time a row in seconds; above it the row is too large")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
  }

  ExitCode run() override {
    const std::vector<Rule> rules = all_rules(rules_);
    const std::vector<TrainingRow> rows = wanted_rows();
    if (scenario_) return print_scenario(rows.front(), rules);
    const std::vector<RowResult> results = predict(rows, rules);
    const score::Score score = score::score_of(results);
    if (json_)
      fmt::print("{}\n", score::score_json(score, results, build::Version));
    else
      fmt::print("{}", score::score_text(score, results, rules, text_));
    return Done;
  }

 private:
  std::vector<std::string> table_files() const {
    if (!tables_.empty()) return tables_;
    const fs::path folder =
        !data_.empty() ? fs::path(data_) : data_folder().parent_path() / "shared" / "data";
    if (!fs::is_directory(folder))
      refuse("--data",
             fmt::format("there is no folder {}; name a folder of tables with --data DIR, or a table with "
                         "--table FILE.csv",
                         folder.lexically_normal().string()));
    return tables_in(folder);
  }

  std::vector<TrainingRow> wanted_rows() const {
    const bool named = !tables_.empty();
    std::vector<TrainingRow> wanted;
    std::vector<std::string> ids;
    for (const std::string& file : table_files()) {
      const CsvTable table = read_table(file);
      if (!is_training_table(table)) {
        if (named)
          refuse(file, fmt::format("is no table of training runs; its columns must have {}",
                                   fmt::join(TrainingColumns, ", ")));
        continue;
      }
      const std::vector<TrainingRow> rows = score::read_training_rows(table);
      if (!named && std::ranges::none_of(rows, score::has_measured_time)) continue;  // set-ups
      for (const TrainingRow& row : rows) {
        ids.push_back(row.id());
        if (matches(row)) wanted.push_back(row);
      }
    }
    if (wanted.empty() && !row_.empty()) refuse("--row", unknown_name("row", row_, ids));
    if (wanted.empty()) refuse(match_.empty() ? "--data" : "--match", "no row of a training run was found");
    return wanted;
  }

  bool matches(const TrainingRow& row) const {
    if (!row_.empty()) return row.id() == row_;
    if (match_.empty()) return true;
    try {
      const std::regex pattern(match_, std::regex::icase);
      const std::string text =
          fmt::format("{} {} {} {}", row.table(), row.id(), row.text("source"), row.text("gpu"));
      return std::regex_search(text, pattern);
    } catch (const std::regex_error& error) {
      refuse("--match", fmt::format("\"{}\" is no regular expression: {}", match_, error.what()));
    }
  }

  static ExitCode print_scenario(const TrainingRow& row, const std::vector<Rule>& rules) {
    const score::RowScenario scenario = score::scenario_of(row, rules);
    if (!scenario.refusal.empty())
      refuse(fmt::format("row {}", row.id()), "is not predicted: " + scenario.refusal);
    fmt::print("{}", scenario.text);
    return Done;
  }

  std::vector<RowResult> predict(const std::vector<TrainingRow>& rows, const std::vector<Rule>& rules) const {
    std::vector<RowResult> results(rows.size());
    RowFile file(csv_);
    ProgressBar bar("rows", rows.size());
    const auto keep = [&](std::size_t item, RowResult result) {
      if (result.our_bug) spdlog::error("{}: a bug in syncline: {}", result.id, result.refusal);
      file.add(result);
      results[item] = std::move(result);
      bar.step();
    };
    WorkerOptions options;
    options.processes =
        jobs_ > 0 ? jobs_ : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    options.limit = std::chrono::seconds(limit_);
    work_through(rows.size(), options,
                 {[&](std::size_t item) { return score::row_line(predict_row(rows[item], rules)); },
                  [&](std::size_t item, const std::string& line) { keep(item, score::row_of_line(line)); },
                  [&](std::size_t item, bool out_of_time, const std::string& how) {
                    keep(item, refused_row(rows[item], rules,
                                           out_of_time ? fmt::format("too large: not done in {} s", limit_)
                                                       : "its process ended by " + how,
                                           !out_of_time));
                  }});
    file.finish(results);
    return results;
  }

  std::vector<std::string> tables_;
  std::string data_, rules_, row_, match_, csv_;
  bool scenario_ = false, json_ = false;
  score::TextOptions text_;
  int jobs_ = 0;  // 0: as many as there are processors
  int limit_ = 60;
};

}  // namespace

std::unique_ptr<Subcommand> make_score() {
  return std::make_unique<ScoreCommand>();
}

}  // namespace syncline
