// `syncline execute`: a schedule carried out for real, by processes of this machine or of several.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "backends/execute/plan.hpp"
#include "backends/execute/scale.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/device/device.hpp"
#include "sim/schedule/text.hpp"
#include "sim/timeline/trace.hpp"
#include "tools/backend_run.hpp"
#include "tools/build_info.hpp"
#include "tools/execution_report.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/question.hpp"
#include "tools/simulated_execution.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

/// What it is simulated to come to; nothing where the cluster lacks what it needs.
std::optional<RunResult> simulate_beside(const Question& question, ComputeBy compute) {
  try {
    return simulate_executed(question, compute);
  } catch (const std::invalid_argument& error) {
    spdlog::warn("not simulated: {}", error.what());
    return std::nullopt;
  }
}

constexpr double LeastScale = 1e-9, MostScale = 1e6;

class Execute : public Subcommand {
 public:
  std::string name() const override { return "execute"; }
  std::string summary() const override {
    return "Carry a schedule out for real: by processes and MPI, or by GPUs";
  }
  std::string example() const override {
    return "  syncline execute scenarios/labs/9-for-real/1-1f1b.yaml --simulated simulated.json --trace "
           "measured.json\n"
           "  syncline compare simulated.json measured.json\n"
           "Exit code: 0 done, 1 a rank died or hung, 2 bad input, 3 the environment lacks something, 4 a "
           "bug "
           "in syncline.";
  }

  void add_options(CLI::App& app) override {
    app.add_option("file", file_, "Scenario or schedule file")->required()->type_name("SCENARIO|SCHEDULE");
    add_set_option(app, assignments_, "--set pipeline.microbatches=4");
    app.add_option("--topology", where_.topology, "What a schedule is simulated on: name or file")
        ->type_name("NAME|FILE");
    app.add_option("--device", where_.device,
                   "Accelerators whose times a schedule's ops take: name or file (default: ideal)")
        ->type_name("NAME|FILE");
    add_backend_options(app, backend_);
    app.add_option("--compute", compute_,
                   "How ops of compute take their time: they wait for the planned time, or compute kernels "
                   "of their shape")
        ->capture_default_str()
        ->check(CLI::IsMember({"time", "kernels"}));
    app.add_option("--scale", scale_, "Work of every op, times this: rows, FLOP, bytes, times")
        ->capture_default_str();
    app.add_option("--repeats", plan_.repeats, "Steps that are measured")
        ->capture_default_str()
        ->check(CLI::Range(1, 10000));
    app.add_option("--warmup", plan_.warmup, "Steps before them")
        ->capture_default_str()
        ->check(CLI::Range(0, 10000));
    app.add_option("--timeout", timeout_,
                   "A rank of which no op ends for so long is taken for hung (default: a minute, and all compute of the "
                   "rank that has most)")
        ->type_name("TIME");
    app.add_option("--trace", trace_,
                   "Write the measured timeline for ui.perfetto.dev; gzip when it ends in .gz")
        ->type_name("FILE");
    app.add_option("--simulated", simulated_,
                   "Write the simulated timeline of what is executed, for syncline compare")
        ->type_name("FILE");
    app.add_option("--schedule", schedule_, "Write the schedule as it is executed, for syncline run")
        ->type_name("FILE");
    app.add_flag("--json", json_, "Print one JSON object instead of the tables");
  }

  ExitCode run() override {
    check_options();
    Question question = read_question(file_, overrides_of(assignments_), where_);
    if (!question.cluster.faults.empty() || !question.cluster.noise.none())
      spdlog::warn("faults and noise are simulated, but not carried out; leave them out to compare like with like");
    question.schedule = scaled(std::move(question.schedule), scale_);
    if (!schedule_.empty()) write_text_file(schedule_, schedule_text(question.schedule));
    std::optional<Measured> measured = BackendRun(backend_).run(plan_for(question), file_);
    if (!measured) return CheckFailed;
    report(question, std::move(*measured));
    return Done;
  }

 private:
  void check_options() {
    try {
      if (!timeout_.empty()) plan_.timeout = parse_seconds(timeout_);
    } catch (const std::invalid_argument& error) {
      refuse("--timeout", error.what());
    }
    if (plan_.timeout <= Seconds(0)) refuse("--timeout", "must be above 0");
    if (!(scale_ >= LeastScale && scale_ <= MostScale))
      refuse("--scale", fmt::format("must be {} to {}, not {}", LeastScale, MostScale, scale_));
    check_output("--trace", trace_);
    check_output("--simulated", simulated_);
    check_output("--schedule", schedule_);
    backend_.rescue = trace_;
    plan_.compute = compute_ == "kernels" ? ComputeBy::Kernels : ComputeBy::PlannedTime;
  }

  ExecutionPlan plan_for(const Question& question) const {
    ExecutionPlan plan = plan_;
    plan.schedule = question.schedule;
    for (const Work& work : plan.schedule.works)
      plan.work_times.push_back(work_time(work, question.cluster.device));
    if (timeout_.empty()) plan.timeout += longest_compute(plan);
    return plan;
  }

  /// So long a rank may wait for another that computes. The sum of the ops of a role, at the slowest rank's speed.
  static Seconds longest_compute(const ExecutionPlan& plan) {
    Seconds longest;
    for (const Role& role : plan.schedule.roles) {
      Seconds sum;
      for (const Op& op : role.program)
        if (const auto* compute = std::get_if<Compute>(&op.body)) sum += plan.work_times[compute->work.value()];
      longest = std::max(longest, sum);
    }
    double slowest = 1;
    for (const RankSpeed& speed : plan.schedule.speeds) slowest = std::max(slowest, speed.factor);
    return longest * slowest;
  }

  void report(const Question& question, Measured measured) const {
    ExecutionReport report;
    report.context = context_of(question);
    report.backend = backend_.backend;
    report.ranks = question.schedule.world_size();
    report.scale = scale_;
    report.compute = plan_.compute;
    report.record = std::move(measured.record);
    report.timeline = std::move(measured.timeline);
    if (!trace_.empty()) write_trace(trace_, report.timeline);  // first: what was measured is not to be had again
    const std::optional<RunResult> simulated = simulate_beside(question, plan_.compute);
    if (simulated) report.simulated_step = simulated->step_time;
    fmt::print("{}\n", json_ ? execution_json(report) : execution_table(report));
    if (simulated && !simulated_.empty()) write_trace(simulated_, simulated->timeline);
    if (!trace_.empty() && !simulated_.empty())
      spdlog::info("compare op by op: syncline compare {} {}", simulated_, trace_);
    else
      spdlog::info(
          "to compare op by op, add --simulated simulated.json --trace measured.json, then: syncline compare "
          "simulated.json measured.json");
  }

  RunContext context_of(const Question& question) const {
    RunContext context;
    context.version = std::string(build::Version);
    context.overrides = assignments_;
    if (question.scenario) {
      context.scenario = question.scenario->name;
      context.title = question.scenario->question.empty() ? context.scenario : question.scenario->question;
      context.hash = question.scenario->hash;
      context.seed = question.scenario->seed;
    } else {
      context.scenario =
          question.schedule.name.empty() ? fs::path(file_).stem().string() : question.schedule.name;
      context.title = context.scenario;
    }
    return context;
  }

  std::string file_, compute_ = "time", timeout_, trace_, simulated_, schedule_;
  std::vector<std::string> assignments_;
  ScheduleCluster where_;
  BackendOptions backend_;
  ExecutionPlan plan_;  // but for the schedule and its times
  double scale_ = 1;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_execute() {
  return std::make_unique<Execute>();
}

}  // namespace syncline
