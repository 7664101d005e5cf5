// `syncline pipeline`: pipeline schedules without a file, drawn, timed and compared.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "sim/config/document.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/pipeline/generator.hpp"
#include "sim/pipeline/torch_csv.hpp"
#include "tools/build_info.hpp"
#include "tools/output_file.hpp"
#include "tools/pipeline_run.hpp"
#include "tools/subcommand.hpp"
#include "tools/terminal.hpp"

namespace syncline {
namespace {

using namespace pipeline;

constexpr double LeastAmount = 1e-18, MostAmount = 1e18;
constexpr int PlainColumns = 120;  // of a picture that goes to a file
constexpr std::size_t LargestFile = std::size_t{1} << 28;

void throw_any(std::vector<Diagnostic> wrong) {
  if (!wrong.empty()) throw InputError(std::move(wrong));
}

/// Decimal: CLI11 alone would take 010 for 8.
CLI::Validator whole_number(long long most) {
  const auto check = [most](const std::string& text) -> std::string {
    try {
      const long long value = parse_integer(text);
      return 1 <= value && value <= most ? "" : fmt::format("{} is not in range 1 to {}", text, most);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  return {check, fmt::format("INT in [1 - {}]", most)};
}

/// Plain numbers, or quantities with units; a command line must not mix the two, since a plain number is then
/// ambiguous.
class Amounts {
 public:
  template <class Parse>
  double read(const char* flag, const std::string& text, const Parse& with_unit) {
    try {
      const bool plain = text.find_first_not_of("0123456789.+-eE") == std::string::npos;
      const double value = plain ? parse_number(text) : with_unit(text).si();
      if (value < 0) refuse(flag, fmt::format("{} is negative", text));
      if (value != 0 && (value < LeastAmount || value > MostAmount))
        refuse(flag,
               fmt::format("{} is not simulated; give 0, or {:g} to {:g}", text, LeastAmount, MostAmount));
      if (value != 0) note(flag, text, plain);
      return value;
    } catch (const std::invalid_argument& error) {
      refuse(flag, error.what());
    }
  }

  [[nodiscard]] bool have_units() const { return !first_.empty() && !plain_; }

 private:
  void note(const char* flag, const std::string& text, bool plain) {
    const std::string said = fmt::format("{} {}", flag, text);
    if (first_.empty()) {
      first_ = said;
      plain_ = plain;
    } else if (plain != plain_) {
      refuse(flag, fmt::format("{} has {} unit, {} has {}; give all amounts with units or all without", said,
                               plain ? "no" : "a", first_, plain_ ? "none" : "one"));
    }
  }

  std::string first_;  // amount that was given
  bool plain_ = true;
};

class Pipeline : public Subcommand {
 public:
  std::string name() const override { return "pipeline"; }
  std::string summary() const override { return "Draw, time and compare pipeline schedules"; }
  std::string example() const override {
    return "  syncline pipeline --schedule 1f1b,zb-h1,zb-v --stages 4 --microbatches 8 --F 1 --B 1 --W 1\n"
           "  syncline pipeline --schedule interleaved-1f1b --stages 4 --microbatches 8 --chunks 2 --F 2 --B "
           "2 --W 2 --comm 1\n"
           "  syncline pipeline --schedule zb-auto --memory-limit 1.5p --stages 8 --microbatches 32 --F 10 "
           "--B 12 --W 7 --json\n"
           "  syncline pipeline --schedule 1f1b --stages 4 --microbatches 8 --csv 1f1b.csv\n"
           "  syncline pipeline --from-csv 1f1b.csv --blocking --comm 0.2";
  }

  void add_options(CLI::App& app) override {
    const CLI::Validator positive = whole_number(10'000'000);
    app.add_flag("--list", list_, "Print the schedules and what each accepts");
    app.add_option("--schedule", schedules_, "Schedules by name, several by commas")
        ->delimiter(',')
        ->type_name("NAME,...");
    app.add_option("--stages", stages_, "Pipeline ranks p (default 4)")->check(positive);
    app.add_option("--microbatches", microbatches_, "Microbatches m of a step (default 8)")->check(positive);
    app.add_option("--chunks", chunks_, "Virtual stages a rank v (default: the schedule's own)")
        ->check(positive);
    app.add_option(
           "--group-size", request_.group_size,
           "Interleaved: microbatches that pass a chunk before the next one's turn (default: about p)")
        ->check(positive);
    const auto times = [&app](const char* flag, std::vector<std::string>& texts, const char* what) {
      app.add_option(flag, texts, what)->delimiter(',')->type_name("TIME,...");
    };
    times("--F", forward_,
          "Forward time of a virtual stage: one for all, or one for each by commas (default 1)");
    times("--B", input_, "Backward for inputs, likewise");
    times("--W", weight_, "Backward for weights, likewise; a whole backward takes B + W");
    app.add_option("--FB", fused_, "Time of a fused forward and backward block (default: F + B + W)")
        ->type_name("TIME");
    app.add_option("--comm", comm_, "Latency from rank to rank (default 0)")->type_name("TIME");
    app.add_option("--bytes", bytes_,
                   "Bytes of activations between two stages; sent beside compute, on streams of their own")
        ->type_name("SIZE");
    app.add_option("--bandwidth", bandwidth_, "Bandwidth between any two ranks")->type_name("RATE");
    app.add_flag("--blocking", blocking_, "Compute stands still while the rank sends and receives");
    app.add_option(
           "--memory-limit", memory_limit_,
           "zb-auto, zb-v, v-search: most activations a rank holds, in microbatches of a chunk: 8, or 1.5p")
        ->type_name("M");
    app.add_option("--memory", memory_, "What F adds to them, and what B and W then add (default 2,-1,-1)")
        ->delimiter(',')
        ->expected(3)
        ->type_name("F,B,W");
    app.add_option("--weight-order", weight_order_, "ZB-H1, ZB-H2: which of the held-back W comes first")
        ->check(CLI::IsMember({"oldest-first", "newest-first"}));
    app.add_flag(
        "--split-backward", split_backward_,
        "ZB-H1, ZB-H2: every backward in two halves, as in the paper; else adjacent halves are one, as "
        "its runtime has them");
    CLI::Option* from_order =
        app.add_option("--from-order", from_order_,
                       "Take the order from a file: a line a rank, such as \"0F0 0F1 0B0 0B1\"")
            ->type_name("FILE");
    CLI::Option* from_csv = app.add_option("--from-csv", from_csv_,
                                           "Take the order from a schedule file of PyTorch's, either form")
                                ->type_name("FILE");
    from_order->excludes(from_csv);
    CLI::Option* csv = app.add_option("--csv", csv_, "Write the schedule for PyTorch")->type_name("FILE");
    app.add_option("--csv-form", csv_form_,
                   "compute_comms: with sends and receives; compute_only: PyTorch adds them")
        ->capture_default_str()
        ->check(CLI::IsMember({"compute_comms", "compute_only"}))
        ->needs(csv);
    app.add_option("--csv-notation", csv_notation_, "new: I and B; old (before 2025): B and BW")
        ->capture_default_str()
        ->check(CLI::IsMember({"new", "old"}))
        ->needs(csv);
    CLI::Option* order =
        app.add_flag("--order", order_, "Print the orders alone, as --from-order reads them");
    app.add_flag("--json", json_, "Print one JSON object")->excludes(order);
    app.add_option("--columns", columns_, "Width of the drawing (default: the terminal's, else 120)")
        ->check(CLI::Range(40, 1000));
  }

  ExitCode run() override {
    if (list_) return print_list();
    check_taken();
    read_request();
    std::vector<PipelineRun> runs;
    if (from_file())
      runs.push_back(run_file());
    else
      for (const std::string& schedule : schedules()) runs.push_back(run_generated(schedule));
    if (!csv_.empty()) write_csv(runs);
    if (order_)
      print_orders(runs);
    else if (json_)
      fmt::print("{}", pipeline_json(runs, std::string(build::Version)));
    else
      print_text(runs);
    return Done;
  }

 private:
  [[nodiscard]] const std::string& file() const { return from_csv_.empty() ? from_order_ : from_csv_; }
  [[nodiscard]] bool from_file() const { return !file().empty(); }

  // --- what is asked ---

  [[nodiscard]] const std::vector<std::string>& schedules() const {
    if (schedules_.empty())
      refuse("--schedule", fmt::format("name one, or give --from-order or --from-csv (known: {})",
                                       fmt::join(generator_names(), ", ")));
    if (std::ranges::find(schedules_, "custom") != schedules_.end())
      refuse("--schedule", "custom comes from a file: give --from-order FILE or --from-csv FILE");
    return schedules_;
  }

  void read_request() {
    request_.ranks = stages_.value_or(4);
    request_.microbatches = microbatches_.value_or(8);
    request_.chunks = chunks_.value_or(0);
    request_.weight_order =
        weight_order_ == "newest-first" ? WeightOrder::NewestFirst : WeightOrder::OldestFirst;
    request_.merge_backward = !split_backward_;
    if (!memory_.empty()) request_.memory = {memory_[0], memory_[1], memory_[2]};
    if (!memory_limit_.empty()) request_.memory_limit = read_memory_limit();
    read_amounts();
  }

  void read_amounts() {
    Amounts amounts;
    const auto read_times = [&amounts](const char* flag, const std::vector<std::string>& texts) {
      std::vector<Seconds> times;
      for (const std::string& text : texts) times.emplace_back(amounts.read(flag, text, parse_seconds));
      return times.empty() ? std::vector{Seconds(1)} : times;
    };
    forward_times_ = read_times("--F", forward_);
    input_times_ = read_times("--B", input_);
    weight_times_ = read_times("--W", weight_);
    if (!fused_.empty()) request_.costs.fused = Seconds(amounts.read("--FB", fused_, parse_seconds));
    if (!comm_.empty()) request_.costs.hop = Seconds(amounts.read("--comm", comm_, parse_seconds));
    if (bytes_.empty() != bandwidth_.empty())
      refuse(bytes_.empty() ? "--bandwidth" : "--bytes", "needs the other: give --bytes and --bandwidth");
    if (!bytes_.empty()) {
      transfers_.bytes = Bytes(amounts.read("--bytes", bytes_, parse_bytes));
      transfers_.bandwidth = BytesPerSecond(amounts.read("--bandwidth", bandwidth_, parse_bytes_per_second));
      if (*transfers_.bandwidth <= BytesPerSecond(0)) refuse("--bandwidth", "must be above 0");
      transfers_.mode = TransferMode::Overlapped;
    }
    if (blocking_) transfers_.mode = TransferMode::Blocking;
    units_ = amounts.have_units();
    if (units_ && (forward_.empty() || input_.empty() || weight_.empty()))
      refuse(
          forward_.empty() ? "--F"
          : input_.empty() ? "--B"
                           : "--W",
          "is 1 by default, which has no unit, but other amounts have one; give --F, --B and --W with units");
  }

  /// "8", or "1.5p" for one and a half times as many as there are ranks.
  [[nodiscard]] double read_memory_limit() const {
    const bool of_ranks = memory_limit_.ends_with('p');
    try {
      const std::string digits = memory_limit_.substr(0, memory_limit_.size() - (of_ranks ? 1 : 0));
      const double value = digits.empty() && of_ranks ? 1 : parse_number(digits);
      if (value <= 0) refuse("--memory-limit", "must be above 0");
      return of_ranks ? value * request_.ranks : value;
    } catch (const std::invalid_argument& error) {
      refuse("--memory-limit", fmt::format("{}; expected a number such as 8, or 1.5p", error.what()));
    }
  }

  /// One time for all stages, or one for each.
  void fill_costs(int stages, const std::string& what, Costs& costs) const {
    costs.stages.assign(static_cast<std::size_t>(stages), {});
    const auto fill = [&](const char* flag, const std::vector<Seconds>& times, Seconds StageTimes::*field) {
      if (times.size() != 1 && times.size() != costs.stages.size())
        refuse(flag, fmt::format("gives {} times, but {} has {} virtual stages; give one, or {}",
                                 times.size(), what, stages, stages));
      for (std::size_t i = 0; i < costs.stages.size(); ++i)
        costs.stages[i].*field = times.size() == 1 ? times[0] : times[i];
    };
    fill("--F", forward_times_, &StageTimes::forward);
    fill("--B", input_times_, &StageTimes::backward_input);
    fill("--W", weight_times_, &StageTimes::backward_weight);
  }

  /// An option that some of the schedules take goes to those alone.
  [[nodiscard]] Request request_for(const Generator& generator) const {
    Request request = request_;
    if (!generator.searched) request.memory_limit.reset();
    if (!generator.takes_group_size) request.group_size = 0;
    if (request.chunks == 0) request.chunks = generator.default_chunks;
    return request;
  }

  /// Before anything is made that grows with the counts.
  static void check_counts(const Generator& generator, const Request& request) {
    if (request.ranks > MostRanks)
      refuse("--stages", fmt::format("is {}; at most {} ranks are simulated", request.ranks, MostRanks));
    if (const auto reason = refusal(generator, request)) refuse("--schedule", *reason);
    const double actions = most_actions(generator, request);
    if (actions > MostActions)
      refuse("--microbatches",
             fmt::format("is {}: {} would have up to {:.3g} actions; at most {:g} are simulated",
                         request.microbatches, generator.name, actions, MostActions));
  }

  /// Options that nothing takes would be ignored without a word.
  void check_taken() const {
    struct Option {
      const char* flag;
      bool given;
      bool (*taken)(const Generator&);
    };
    const auto weights = [](const Generator& generator) { return generator.takes_weight_order; };
    const auto searched = [](const Generator& generator) { return generator.searched; };
    const auto fuses = [](const Generator& generator) { return generator.fuses; };
    if (from_file()) check_counts_left_out();
    for (const Option& option :
         {Option{"--memory-limit", !memory_limit_.empty(), searched},
          Option{"--memory", !memory_.empty(), searched},
          Option{"--weight-order", !weight_order_.empty(), weights},
          Option{"--split-backward", split_backward_, weights},
          Option{"--FB", !fused_.empty() && !from_file(), fuses},
          Option{"--group-size", request_.group_size > 0,
                 [](const Generator& generator) { return generator.takes_group_size; }}}) {
      if (!option.given) continue;
      std::vector<std::string_view> takers;
      for (const Generator& generator : generators())
        if (option.taken(generator)) takers.push_back(generator.name);
      const auto takes = [&takers](const std::string& name) {
        return std::ranges::find(takers, name) != takers.end();
      };
      if (from_file() || std::ranges::none_of(schedules_, takes))
        refuse(option.flag, fmt::format("is for {}; leave it out", fmt::join(takers, ", ")));
    }
  }

  /// A file says them.
  void check_counts_left_out() const {
    const std::pair<const char*, bool> counts[] = {{"--stages", stages_.has_value()},
                                                   {"--microbatches", microbatches_.has_value()},
                                                   {"--chunks", chunks_.has_value()}};
    for (const auto& [flag, given] : counts)
      if (given)
        refuse(flag,
               fmt::format("is of schedules that are made by name; {} has its order: leave it out", file()));
  }

  // --- running ---

  [[nodiscard]] PipelineRun run_generated(const std::string& schedule) const {
    const Generator* generator = find_generator(schedule);
    if (generator == nullptr) refuse("--schedule", unknown_name("schedule", schedule, generator_names()));
    Request request = request_for(*generator);
    check_counts(*generator, request);
    fill_costs(stage_count(*generator, request.ranks, request.chunks), schedule, request.costs);
    try {
      return simulate(schedule, make_order(*generator, request), std::move(request.costs));
    } catch (const std::invalid_argument& error) {
      refuse("--schedule", error.what());
    }
  }

  [[nodiscard]] PipelineRun run_file() const {
    for (const std::string& schedule : schedules_)
      if (schedule != "custom")
        refuse("--schedule", fmt::format("{} comes without a file; {} is custom", schedule, file()));
    Order order = from_csv_.empty() ? read_order() : read_csv();
    if (!fused_.empty() && !has_fused_block(order))
      refuse("--FB", fmt::format("is of fused blocks, of which {} has none; leave it out", file()));
    Costs costs = request_.costs;
    fill_costs(order.stages, file(), costs);
    return simulate("custom", std::move(order), std::move(costs));
  }

  [[nodiscard]] PipelineRun simulate(const std::string& schedule, Order order, Costs costs) const {
    const auto takes_time = [&costs](const Block& block) { return costs.of(block) > Seconds(0); };
    if (std::ranges::none_of(order.ranks,
                             [&](const RankOrder& rank) { return std::ranges::any_of(rank, takes_time); }))
      refuse("--F", "is 0, and so is every backward: nothing takes time; give one that does");
    ProgressLine line;
    RunOptions options;
    options.progress = [&line](double seconds, std::uint64_t events) { line.show(seconds, events); };
    return run_pipeline(schedule, std::move(order), std::move(costs), transfers_, options);
  }

  /// Lines of order text, or JSON that has them under "order", such as --json prints.
  [[nodiscard]] Order read_order() const {
    std::string text = read_text_file(from_order_, [](std::string_view) { return LargestFile; });
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    const bool is_json = begin != std::string::npos && (text[begin] == '{' || text[begin] == '[');
    if (is_json) text = lines_of_json(text);
    WrittenOrder written = parse_written_order(text, from_order_ + (is_json ? ", \"order\"" : ""));
    throw_any(check_written_order(written.order, written.ranks, "the order", {from_order_, 0, 0, ""}));
    return std::move(written.order);
  }

  [[nodiscard]] std::string lines_of_json(const std::string& text) const {
    const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
    const nlohmann::json* list = &document;
    if (document.is_object() && document.contains("order")) list = &document["order"];
    const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
    if (!list->is_array() || !std::ranges::all_of(*list, is_text))
      refuse(from_order_, "is JSON, but has no list of strings, one a rank, under \"order\"");
    std::string lines;
    for (const auto& line : *list) lines += line.get<std::string>() + "\n";
    return lines;
  }

  [[nodiscard]] Order read_csv() const {
    const TorchCsv csv =
        read_torch_csv(read_text_file(from_csv_, [](std::string_view) { return LargestFile; }), from_csv_);
    if (const auto size = too_large(csv.order)) refuse(from_csv_, *size);
    throw_any(check_communication(csv, CsvTransfers::Posted));
    spdlog::info("{}: {}", from_csv_, describe(csv));
    for (const Diagnostic& danger : check_communication(csv, CsvTransfers::Rendezvous))
      spdlog::warn("{}, if sends wait for their receives", format_diagnostic(danger));
    return csv.order;
  }

  // --- showing ---

  static ExitCode print_list() {
    for (const Generator& generator : generators())
      fmt::print("  {:<18}{}\n  {:<18}accepts {}\n", generator.name, generator.summary, "",
                 generator.accepts);
    fmt::print("  {:<18}from a file: --from-order, --from-csv\n", "custom");
    return Done;
  }

  static void print_orders(const std::vector<PipelineRun>& runs) {
    for (const PipelineRun& run : runs) {
      if (runs.size() > 1) fmt::print("# {}\n", run.name);
      for (const RankOrder& rank : run.order.ranks) fmt::print("{}\n", to_text(rank));
    }
  }

  void print_text(const std::vector<PipelineRun>& runs) const {
    const Terminal terminal = standard_output();
    PictureOptions options;
    options.columns = columns_ > 0 ? columns_ : terminal.interactive ? terminal.columns : PlainColumns;
    options.colour = terminal.colour;
    for (const PipelineRun& run : runs) options.end = std::max(options.end, run.metrics.makespan);
    options.time = plain_time;
    if (units_) options.time = [](Seconds time) { return to_text(time); };
    for (const PipelineRun& run : runs) fmt::print("{}\n", pipeline_text(run, options));
    if (runs.size() > 1) fmt::print("{}", pipeline_table(runs, options.time));
  }

  void write_csv(const std::vector<PipelineRun>& runs) const {
    if (runs.size() > 1) refuse("--csv", "a file holds one schedule; name one");
    const CsvForm form = csv_form_ == "compute_only" ? CsvForm::ComputeOnly : CsvForm::ComputeComms;
    const CsvNotation notation = csv_notation_ == "old" ? CsvNotation::Old : CsvNotation::New;
    TorchCsv csv;
    try {
      csv = to_torch_csv(runs.front().order, form, notation);
    } catch (const std::invalid_argument& error) {
      refuse("--csv", error.what());
    }
    write_text_file(csv_, write_torch_csv(csv));
    spdlog::info("{} written: {}", csv_, describe(csv));
  }

  bool units_ = false;  // amounts were given with units
  bool list_ = false, blocking_ = false, split_backward_ = false, order_ = false, json_ = false;
  std::vector<std::string> schedules_, forward_, input_, weight_;
  std::vector<double> memory_;
  std::string fused_, comm_, bytes_, bandwidth_, memory_limit_, weight_order_;
  std::string from_order_, from_csv_, csv_, csv_form_ = "compute_comms", csv_notation_ = "new";
  std::optional<int> stages_, microbatches_, chunks_;
  int columns_ = 0;
  Request request_;
  std::vector<Seconds> forward_times_, input_times_, weight_times_;
  PipelineTransfers transfers_;
};

}  // namespace

std::unique_ptr<Subcommand> make_pipeline() {
  return std::make_unique<Pipeline>();
}

}  // namespace syncline
