// `syncline run`: simulates scenarios or schedules and shows what came out.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <stdexcept>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/report/gantt.hpp"
#include "sim/report/pipeline_picture.hpp"
#include "sim/report/summary.hpp"
#include "sim/timeline/trace.hpp"
#include "sim/training/remedies.hpp"
#include "tools/build_info.hpp"
#include "tools/network_prices.hpp"
#include "tools/options.hpp"
#include "tools/question.hpp"
#include "tools/subcommand.hpp"
#include "tools/terminal.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

RunContext context_of(const Question& question, const std::vector<std::string>& overrides) {
  RunContext context;
  context.overrides = overrides;
  context.version = std::string(build::Version);
  if (!question.scenario) {
    const std::string& name = question.schedule.name;
    context.scenario = name.empty() ? fs::path(question.file).stem().string() : name;
    context.title = fmt::format("{} on {}", context.scenario, question.cluster.topology.name());
    return context;
  }
  const Scenario& scenario = *question.scenario;
  context.title = scenario.question.empty() ? scenario.name : scenario.question;
  context.scenario = scenario.name;
  context.model = scenario.job.model.name;
  context.hash = scenario.hash;
  context.seed = scenario.seed;
  context.published = scenario.published;
  context.expect = scenario.expect;
  if (!scenario.is_training()) return context;
  context.experts = expert_tokens(scenario.job);
  if (scenario.job.model.experts && scenario.job.shape.experts.overlap == ExpertOverlap::Batch &&
      scenario.job.gradient_accumulation == 1)
    context.warnings.push_back(
        "moe.overlap is batch, and a rank has one microbatch a step (batch.global / (parallel.dp × "
        "batch.microbatch)): there is no other for it to run beside");
  return context;
}

/// What a backend cannot run is the input's fault.
RunResult simulate(const Question& question, RunOptions options) {
  ProgressLine line;
  options.progress = [&line](double seconds, std::uint64_t events) { line.show(seconds, events); };
  try {
    return make_simgrid_backend()->run(question.schedule, question.cluster, options);
  } catch (const std::invalid_argument& error) {
    throw InputError(Diagnostic{{question.file, 0, 0, ""}, error.what()});
  }
}

/// Says on stderr what was expected and is not so.
void report_expectations(const RunSummary& summary) {
  for (const ExpectationSummary& item : summary.expect)
    if (!item.holds)
      spdlog::error(
          "{}: {} is {}, expected {}", summary.context.scenario, item.expected.metric,
          item.simulated ? metric_text(item.expected.metric, *item.simulated) : "not known in this run",
          expectation_text(item.expected));
}

/// @throws std::logic_error when the result breaks physics: that is our bug
void report_physics(const RunSummary& summary) {
  std::string broken;
  for (const Check& check : summary.checks)
    if (!check.violation.empty()) broken += fmt::format("\n  {}: {}", check.name, check.violation);
  SYNCLINE_CHECK(broken.empty(), "the result breaks a physics check:" + broken);
}

/// Of a training run that does not fit: what would.
std::string way_out(const Question& question, const RunSummary& summary) {
  const bool training = question.scenario && question.scenario->is_training();
  if (!training || !summary.memory || summary.memory->ranks_out_of_memory == 0) return "";
  const TrainingJob& job = question.scenario->job;
  const Device& device = question.cluster.device;
  return "\n" + remedies_text(remedies(job, device), summary.memory->peak, device.memory);
}

std::string json_of(const std::vector<RunSummary>& runs) {
  if (runs.size() == 1) return summary_json(runs.front());
  std::vector<std::string> objects;
  for (const RunSummary& run : runs) objects.push_back(summary_json(run));
  return fmt::format("{{\"schema\": 1, \"runs\": [\n{}\n]}}", fmt::join(objects, ",\n"));
}

class Run : public Subcommand {
 public:
  std::string name() const override { return "run"; }
  std::string summary() const override {
    return "Simulate a scenario or a schedule; several are shown side by side";
  }
  std::string example() const override {
    return "  syncline run scenarios/runs/llama3-8b-fsdp-h100-64.yaml --gantt\n"
           "  syncline run scenarios/runs/llama3-8b-fsdp-h100-64.yaml --set batch.global=256 --json\n"
           "Exit code: 0 done, 1 an `expect` of the scenario does not hold, 2 bad input, 3 the environment "
           "lacks something, 4 a bug in syncline.";
  }

  void add_options(CLI::App& app) override {
    app.add_option("files", files_, "Scenario or schedule files")->required()->type_name("SCENARIO|SCHEDULE");
    add_set_option(app, assignments_, "--set topology.scale-out.oversubscription=4");
    app.add_option("--detail", detail_,
                   "How closely collectives are simulated (default: the scenario's run.detail)")
        ->check(CLI::IsMember({"full", "aggregate"}));
    app.add_flag(
        "--fold", fold_,
        "Simulate one rank of each role for all of them: the same figures where they stand alike on the "
        "fabric");
    app.add_option("--network", network_, "Network model: ours, or SimGrid's own as reference")
        ->capture_default_str()
        ->check(CLI::IsMember({"fluid", "native"}));
    app.add_option("--topology", where_.topology, "What a schedule runs on: name or file")
        ->type_name("NAME|FILE");
    app.add_option("--device", where_.device,
                   "Accelerators that a schedule runs on: name or file (default: ideal, which knows kernels "
                   "of fixed time only)")
        ->type_name("NAME|FILE");
    app.add_option("--trace", trace_, "Write the timeline for ui.perfetto.dev; gzip when it ends in .gz")
        ->type_name("FILE")
        ->check([](const std::string& file) { return file.empty() ? "a file name is needed" : ""; });
    CLI::Option* json = app.add_flag("--json", json_, "Print one JSON object instead of the table");
    CLI::Option* gantt = app.add_flag("--gantt", gantt_, "Draw the timeline")->excludes(json);
    app.add_option("--columns", columns_, "Width of the drawing (default: the terminal's, else 100)")
        ->check(CLI::Range(40, 1000))
        ->needs(gantt);
  }

  ExitCode run() override {
    const std::vector<Override> overrides = overrides_of(assignments_);
    check_trace();
    std::vector<RunSummary> runs;
    for (const std::string& file : files_)
      runs.push_back(run_one(read_question(file, overrides, where_, fold_)));
    if (json_)
      fmt::print("{}\n", json_of(runs));
    else if (runs.size() > 1)
      fmt::print("{}", comparison_table(runs));

    ExitCode code = Done;
    for (const RunSummary& summary : runs) {
      report_physics(summary);
      report_expectations(summary);
      if (!summary.expectations_hold()) code = CheckFailed;
    }
    return code;
  }

 private:
  /// A trace holds one run, and must not replace what the run is made from.
  void check_trace() const {
    const auto refuse = [](const std::string& message) {
      throw InputError(Diagnostic{{"--trace", 0, 0, ""}, message});
    };
    if (trace_.empty()) return;
    if (files_.size() > 1) refuse("a trace holds one run; give one file");
    std::error_code ignored;
    for (const std::string& input : {files_.front(), where_.topology, where_.device})
      if (fs::equivalent(trace_, input, ignored))
        refuse(fmt::format("{} is the input {}; name another file", trace_, input));
    const fs::path ending = fs::path(trace_).extension();
    if (ending == ".yaml" || ending == ".yml")  // a topology, a device or a model that a scenario names
      refuse(fmt::format("{} would be a YAML file, a trace is JSON; name it .json or .json.gz", trace_));
  }

  /// Simulates, and shows what is shown of each run by itself.
  RunSummary run_one(const Question& question) {
    const RunResult result = simulate(question, options_for(question));
    RunContext context = context_of(question, assignments_);
    add_network_cost(context, question);
    RunSummary summary = summarise(result, question.schedule, question.cluster, context);
    if (!trace_.empty()) {
      write_trace(trace_, result.timeline);
      spdlog::info("trace written to {}; open it at https://ui.perfetto.dev", trace_);
    }
    if (!json_ && files_.size() == 1) fmt::print("{}{}", summary_table(summary), way_out(question, summary));
    if (gantt_) fmt::print("\n{}\n{}", summary.context.scenario, drawing(question, result.timeline));
    return summary;
  }

  RunOptions options_for(const Question& question) const {
    const std::string& detail = !detail_.empty() || !question.scenario ? detail_ : question.scenario->detail;
    RunOptions options;
    options.detail = detail == "full" ? Detail::Full : Detail::Aggregate;
    options.fold = fold_ || (question.scenario && question.scenario->fold);
    options.network = network_ == "native" ? NetworkModel::Native : NetworkModel::Fluid;
    return options;
  }

  /// Of a pipeline without a model the blocks, else what every stream does.
  std::string drawing(const Question& question, const Timeline& timeline) const {
    const Terminal terminal = standard_output();
    const int columns = columns_ > 0 ? columns_ : terminal.columns;
    if (!question.order || timeline.spans.empty()) {
      GanttOptions options;
      options.columns = columns;
      options.colour = terminal.colour;
      return gantt(timeline, options);
    }
    PipelinePicture picture = picture_of_textbook(*question.order, question.schedule, timeline);
    if (question.scenario->textbook->transfers == pipeline::TransferMode::Eager) picture.transfers.clear();
    PictureOptions options;
    options.columns = columns;
    options.colour = terminal.colour;
    options.time = [](Seconds time) { return to_text(time); };
    return pipeline_picture(picture, options);
  }

  std::vector<std::string> files_, assignments_;
  ScheduleCluster where_;
  std::string detail_, trace_, network_ = "fluid";
  bool json_ = false, fold_ = false, gantt_ = false;
  int columns_ = 0;  // 0: as wide as the output is
};

}  // namespace

std::unique_ptr<Subcommand> make_run() {
  return std::make_unique<Run>();
}

}  // namespace syncline
