// `syncline sweep`: one scenario with many values, a row each, in parallel, and gone on with after a kill.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "sim/config/document.hpp"
#include "sim/core/error.hpp"
#include "sim/core/hash.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/text.hpp"
#include "sim/sweep/journal.hpp"
#include "sim/sweep/pareto.hpp"
#include "sim/sweep/picture.hpp"
#include "tools/build_info.hpp"
#include "tools/mpi_workers.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/subcommand.hpp"
#include "tools/sweep_point.hpp"
#include "tools/terminal.hpp"
#include "tools/workers.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;
using sweep::Row;

/// As a shell takes it.
std::string quoted(const std::string& word) {
  constexpr std::string_view Plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:+-";
  if (!word.empty() && word.find_first_not_of(Plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

/// The lines of CSV on standard output, in the order of points: each as soon as those before it are there.
class OrderedRows {
 public:
  explicit OrderedRows(const sweep::Sweep& sweep) { put(sweep::csv_header(sweep)); }
  void add(const Row& row) {
    waiting_.emplace(row.point, row);
    for (auto next = waiting_.find(next_); next != waiting_.end(); next = waiting_.find(++next_)) {
      put(sweep::csv_line(next->second));
      waiting_.erase(next);
    }
  }

 private:
  static void put(const std::string& line) {
    fmt::print("{}", line);
    std::fflush(stdout);
  }
  std::map<std::size_t, Row> waiting_;
  std::size_t next_ = 0;
};

std::string front_table(const sweep::Sweep& sweep, const std::vector<Row>& rows,
                        const std::vector<std::string>& metrics) {
  std::vector<std::string> head{"point"};
  for (const sweep::Path& path : paths_of(sweep)) head.push_back(path.path);
  std::string alignment = "r" + std::string(head.size() - 1, 'l') + std::string(metrics.size(), 'r');
  for (const std::string& metric : metrics) head.emplace_back(find_metric(metric).label);
  std::vector<std::vector<std::string>> table{head};
  for (const std::size_t i : sweep::pareto_rows(sweep, rows, metrics)) {
    std::vector<std::string> cells{fmt::format("{}", rows[i].point + 1)};
    cells.insert(cells.end(), rows[i].labels.begin(), rows[i].labels.end());
    for (const std::string& metric : metrics) {
      const auto at = std::ranges::find(sweep.metrics, metric) - sweep.metrics.begin();
      cells.push_back(metric_text(metric, *rows[i].values[static_cast<std::size_t>(at)]));
    }
    table.push_back(std::move(cells));
  }
  if (table.size() == 1) return fmt::format("no point has all of {}\n", fmt::join(metrics, ", "));
  return fmt::format("points that no other beats in {}:\n{}", fmt::join(metrics, " and "),
                     aligned(std::move(table), alignment));
}

class SweepCommand : public Subcommand {
 public:
  std::string name() const override { return "sweep"; }
  std::string summary() const override {
    return "Simulate a scenario with many values: a row of CSV each, a plot of all";
  }
  std::string example() const override {
    return "  syncline sweep scenarios/sweeps/oversubscription.yaml --output rows.csv --plot rows.svg\n"
           "  syncline sweep scenarios/sweeps/oversubscription.yaml --output rows.csv --resume\n"
           "  mpirun -n 9 --hostfile hosts syncline sweep big.yaml --output rows.csv\n"
           "The file, the columns and what --resume checks: docs/sweep.md.";
  }

  void add_options(CLI::App& app) override {
    app.add_option("sweep", file_, "What is swept")->required()->type_name("FILE.yaml");
    add_set_option(app, assignments_, "batch.global=64");
    CLI::Option* output = app.add_option("--output", output_,
                                         "Write the rows here, and each as soon as it is done into "
                                         "FILE.csv.journal (default: rows on standard output)")
                              ->type_name("FILE.csv");
    app.add_flag("--resume", resume_, "Go on with the rows of FILE.csv.journal")->needs(output);
    app.add_option("--jobs", jobs_, "Processes (default: as many as there are processors)")
        ->check(CLI::Range(1, 1024));
    app.add_option("--time-limit", limit_, "Processor time of a point in seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000000));
    CLI::Option* plot = app.add_option("--plot", plot_, "Draw the rows")->type_name("FILE.svg");
    app.add_option("--kind", request_.kind, "bars, lines, heat or pareto (default: the file's, else bars)")
        ->needs(plot);
    app.add_option("--x", request_.x, "Along x: a path; of pareto a metric (default: the first)")
        ->type_name("PATH")
        ->needs(plot);
    app.add_option("--y", request_.y, "Along y, or as colour of a heat map (default: the first metric)")
        ->type_name("METRIC")
        ->needs(plot);
    app.add_option("--group", request_.group,
                   "As colours of bars and lines, as rows of a heat map (default: the next path)")
        ->type_name("PATH")
        ->needs(plot);
    app.add_option("--pareto", pareto_, "Print the points that no other beats in all of these metrics")
        ->type_name("METRIC,METRIC")
        ->delimiter(',')
        ->allow_extra_args(false);
    app.add_flag("--json", json_, "Print one JSON object instead of rows");
  }

  ExitCode run() override {
    if (!started_by_mpi()) return run_here(nullptr);
    MpiJob job;
    if (job.rank() > 0) return serve(job);
    return run_here(job.size() > 1 ? &job : nullptr);
  }

 private:
  /// What the files hold, checked.
  struct Task {
    sweep::Sweep sweep;
    ScenarioDocument scenario;
    sweep::Identity identity;
  };

  Task read_task() const {
    const std::string text = read_text_file(file_);
    sweep::Sweep sweep = sweep::parse_sweep(text, file_, overrides_of(assignments_));
    const std::string scenario_text = read_text_file(sweep.scenario_file);
    ScenarioDocument scenario(scenario_text, sweep.scenario_file);
    const std::uint64_t data = check_paths(sweep, scenario);
    sweep::Identity identity = sweep::identity_of(sweep, text, scenario_text, data, build::Version);
    return {std::move(sweep), std::move(scenario), std::move(identity)};
  }

  ExitCode run_here(MpiJob* job) {
    const Task task = read_task();
    check_outputs(task.sweep);
    const sweep::PlotRequest request =
        plot_.empty() ? sweep::PlotRequest{} : completed(task.sweep, wanted_plot(task.sweep));
    const std::vector<Row> rows = rows_of(task, job);
    show(task.sweep, rows);
    if (!plot_.empty()) {
      write_text_file(plot_, picture_of(task.sweep, rows, request));
      spdlog::info("plot written to {}", plot_);
    }
    const auto failed = std::ranges::count_if(rows, [](const Row& row) { return !row.error.empty(); });
    if (failed == 0) return Done;
    const auto first = std::ranges::find_if(rows, [](const Row& row) { return !row.error.empty(); });
    spdlog::error("{} of {} points failed; the first is point {}: {}", failed, rows.size(), first->point + 1,
                  first->error);
    return CheckFailed;
  }

  /// The life of another rank than 0. What is wrong with the files is said by rank 0, which reads the same.
  ExitCode serve(MpiJob& job) const {
    std::optional<Task> task;
    std::string identity;
    try {
      task.emplace(read_task());
      identity = text_of(task->identity);
    } catch (const std::exception& error) {
      identity = error.what();
    }
    job.serve(
        worker_options(),
        {[&](std::size_t point) { return sweep::csv_line(run_point(task->sweep, task->scenario, point)); },
         {},
         {}},
        identity);
    return Done;
  }

  static std::string text_of(const sweep::Identity& identity) {
    std::string text;
    for (const auto& [name, value] : identity)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
    return text;
  }

  void check_outputs(const sweep::Sweep& sweep) const {
    std::error_code ignored;
    for (const auto& [flag, file] : {std::pair{"--output", output_}, {"--plot", plot_}})
      for (const std::string& input : {file_, sweep.scenario_file})
        if (!file.empty() && fs::equivalent(file, input, ignored))
          refuse(flag, fmt::format("{} is the input; name another file", file));
    if (!output_.empty() && output_ == plot_)
      refuse("--plot", fmt::format("{} is the output; name another file", plot_));
    const std::vector<std::string>& known = sweep.metrics;
    for (const std::string& metric : pareto_)
      if (std::ranges::find(known, metric) == known.end())
        refuse("--pareto", unknown_name("metric of the sweep", metric, known));
    if (pareto_.size() == 1)
      refuse("--pareto", "a front is of two metrics or more, as in --pareto step-time,peak-memory");
  }

  sweep::PlotRequest wanted_plot(const sweep::Sweep& sweep) const {
    // The file's columns go with its kind.
    sweep::PlotRequest wanted =
        request_.kind.empty() || request_.kind == sweep.plot.kind ? sweep.plot : sweep::PlotRequest{};
    const auto change = [](std::string& to, const std::string& given) {
      if (!given.empty()) to = given;
    };
    change(wanted.kind, request_.kind);
    change(wanted.x, request_.x);
    change(wanted.y, request_.y);
    change(wanted.group, request_.group);
    return wanted;
  }

  std::string command() const {
    std::string text = "syncline sweep " + quoted(file_);
    for (const std::string& assignment : assignments_) text += " --set " + quoted(assignment);
    return text + " --output " + quoted(output_);
  }

  WorkerOptions worker_options() const {
    WorkerOptions options;
    options.processes =
        jobs_ > 0 ? jobs_ : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    options.limit = std::chrono::seconds(limit_);
    return options;
  }

  /// Of all points, in their order; those in the journal are taken from there.
  std::vector<Row> rows_of(const Task& task, MpiJob* job) const {
    std::optional<sweep::Journal> journal;
    if (!output_.empty())
      journal.emplace(task.sweep, output_, task.identity, command(),
                      resume_ ? sweep::Journal::Open::Resume : sweep::Journal::Open::Anew);
    std::map<std::size_t, Row> rows, lost;
    if (journal) rows = journal->rows();
    std::optional<OrderedRows> printed;
    if (output_.empty() && !json_) printed.emplace(task.sweep);

    std::vector<std::size_t> open;
    for (std::size_t point = 0; point < task.sweep.size(); ++point)
      if (!rows.contains(point)) open.push_back(point);
    if (resume_) spdlog::info("{} of {} points are done already", rows.size(), task.sweep.size());
    ProgressBar bar("points", open.size());
    const auto keep = [&](Row row, bool is_lost) {
      if (is_lost) lost.emplace(row.point, row);  // not a result: tried again by --resume
      if (journal && !is_lost) journal->add(row);
      if (printed) printed->add(row);
      rows.insert_or_assign(row.point, std::move(row));
      bar.step();
    };
    const WorkerCalls calls{
        [&](std::size_t item) { return sweep::csv_line(run_point(task.sweep, task.scenario, open[item])); },
        [&](std::size_t, const std::string& line) {
          std::optional<Row> row = sweep::row_of_line(task.sweep, line);
          SYNCLINE_CHECK(row.has_value(), "a worker sent no row: " + line);
          keep(std::move(*row), false);
        },
        [&](std::size_t item, bool out_of_time, const std::string& how) {
          keep(sweep::failed_row(
                   task.sweep, open[item],
                   out_of_time ? fmt::format("not done in {} s of processor time; raise --time-limit", limit_)
                               : "its process was lost: " + how),
               true);
        }};
    if (job != nullptr)
      job->work_through(open, worker_options(), calls, text_of(task.identity));
    else
      work_through(open.size(), worker_options(), calls);
    if (journal) journal->finish(lost);
    std::vector<Row> in_order;
    for (auto& [point, row] : rows) in_order.push_back(std::move(row));
    return in_order;
  }

  void show(const sweep::Sweep& sweep, const std::vector<Row>& rows) const {
    if (json_) fmt::print("{}\n", sweep::rows_json(sweep, rows, build::Version));
    if (!output_.empty()) spdlog::info("{} points written to {}", rows.size(), output_);
    // Beside rows or JSON on standard output the front is no result but a remark.
    if (!pareto_.empty())
      fmt::print(output_.empty() || json_ ? stderr : stdout, "{}", front_table(sweep, rows, pareto_));
  }

  std::string file_, output_, plot_;
  std::vector<std::string> assignments_, pareto_;
  sweep::PlotRequest request_;
  bool resume_ = false, json_ = false;
  int jobs_ = 0;  // 0: as many as there are processors
  int limit_ = 3600;
};

}  // namespace

std::unique_ptr<Subcommand> make_sweep() {
  return std::make_unique<SweepCommand>();
}

}  // namespace syncline
