// `syncline collective`: the time of a collective at many sizes, as nccl-tests prints it; beside a real log, or a table of
// measured ones.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "sim/calibrate/nccl_log.hpp"
#include "sim/collective/rounds.hpp"
#include "sim/config/catalogue.hpp"
#include "sim/config/scenario.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metrics.hpp"
#include "tools/build_info.hpp"
#include "tools/collective_arguments.hpp"
#include "tools/collective_measured.hpp"
#include "tools/collective_run.hpp"
#include "tools/options.hpp"
#include "tools/subcommand.hpp"
#include "tools/terminal.hpp"

namespace syncline {
namespace {

using Json = nlohmann::ordered_json;

constexpr double ElementBytes = 4;  // of float, nccl-tests' default

/// Elements as nccl-tests counts them: of all-gather, reduce-scatter, all-to-all, scatter and gather those of one rank.
double count_of(CollectiveKind kind, Bytes size, std::size_t ranks) {
  using enum CollectiveKind;
  const bool of_one =
      kind == AllGather || kind == ReduceScatter || kind == AllToAll || kind == Scatter || kind == Gather;
  return size.si() / ElementBytes / (of_one ? static_cast<double>(ranks) : 1);
}

/// Sizes that are no whole number of floats a rank have a count that is none either.
std::string count_text(double count) {
  return count == std::floor(count) ? fmt::format("{:.0f}", count) : fmt::format("{:.3f}", count);
}

class SimulateCollective : public Subcommand {
 public:
  std::string name() const override { return "collective"; }
  std::string summary() const override { return "Time a collective at many sizes, as nccl-tests does"; }
  std::string example() const override {
    return "  syncline collective --topology dgx-h100 --kind all-reduce --ranks 0-63 --sizes 8B:8GiB:x2\n"
           "  syncline collective --topology dgx-h100 --ranks 0-63 --group-size 8 --strided --sizes 64MiB "
           "--loads 5\n"
           "  syncline collective --topology dgx-h100 --compare all_reduce.log\n"
           "Columns, groups and keys of --json: docs/collectives.md.";
  }

  void add_options(CLI::App& app) override {
    app.add_option("--topology", topology_, "Name in the catalogue, or a file")->type_name("NAME|FILE");
    add_set_option(app, assignments_, "--set scale-out.oversubscription=4");
    app.add_option("--kind", kind_, "What is done")->capture_default_str();
    app.add_option("--algorithm", algorithm_, "How")->capture_default_str();
    app.add_option("--chunks", chunks_, "Pieces that follow one another through the rounds of an algorithm")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    app.add_option_function<std::string>(
        "--ranks", [this](const std::string& text) { ranks_ = text; },
        "Accelerators, as in 0-63 or 0,8,16-23 (default: all)");
    app.add_option("--sizes", sizes_, "S: FROM:TO:xFACTOR, FROM:TO:+STEP, or a list")->capture_default_str();
    CLI::Option* size = app.add_option("--group-size", group_size_, "Ranks a group; all groups run at once")
                            ->check(CLI::Range(1, MostCount));
    app.add_option("--groups", groups_, "So many groups")->check(CLI::Range(1, MostCount))->excludes(size);
    app.add_option("--stride", stride_, "Members of a group are so many ranks apart")
        ->check(CLI::Range(1, MostCount));
    app.add_flag("--strided", strided_,
                 "Members of a group are as far apart as can be: groups of one outer axis")
        ->excludes("--stride");
    app.add_option("--detail", detail_, "full: every transfer; aggregate: a collective is a few actions")
        ->check(CLI::IsMember({"full", "aggregate"}))
        ->capture_default_str();
    app.add_option("--network", network_, "fluid: ours; native: SimGrid's own, in full detail")
        ->check(CLI::IsMember({"fluid", "native"}))
        ->capture_default_str();
    app.add_option("--loads", loads_, "The busiest links of the largest size")
        ->check(CLI::Range(1, MostCount))
        ->type_name("N");
    CLI::Option* compare =
        app.add_option("--compare", compare_, "A log of nccl-tests: measured beside predicted")
            ->type_name("LOG");
    CLI::Option* table =
        app.add_option("--table", table_,
                       "A table of measured collectives: errors by system of score/collectives.yaml")
            ->type_name("FILE.csv")
            ->excludes(compare);
    app.add_flag("--uncalibrated", uncalibrated_,
                 "With --table: each system by what was fitted to the others")
        ->needs(table);
    app.add_flag("--json", json_, "Print one JSON object");
  }

  ExitCode run() override {
    options_.detail = detail_ == "full" ? Detail::Full : Detail::Aggregate;
    options_.network = network_ == "native" ? NetworkModel::Native : NetworkModel::Fluid;
    if (!table_.empty()) return print_table();
    if (topology_.empty()) refuse("--topology", "name a topology of the catalogue, or a file");
    if (!compare_.empty()) return print_comparison();
    return simulate();
  }

 private:
  // --- the table of sizes ---

  ExitCode simulate() {
    CollectiveQuestion question;
    question.kind = value_named<CollectiveKind>("--kind", kind_);
    question.algorithm = value_named<Algorithm>("--algorithm", algorithm_);
    question.chunks = chunks_;
    question.sizes = parse_sizes(sizes_);
    const std::vector<Override> overrides = overrides_of(assignments_);
    TopologySpec spec = load_topology(topology_, overrides);
    const std::vector<AcceleratorId> ranks = wanted_ranks(spec, overrides);
    const Topology topology = built_for_ranks(spec);
    question.groups = split_ranks(ranks, size_of_group(ranks.size()), stride_of(ranks.size()));
    if (chunks_ > 1 && question.algorithm != Algorithm::Auto &&
        !goes_in_rounds(question.kind, question.algorithm))
      refuse("--chunks", fmt::format("{} by {} does not go in rounds, so that pieces of it change nothing",
                                     kind_, algorithm_));
    std::vector<CollectiveRow> rows;
    try {
      const WaitingLine waiting("simulating");
      rows = run_collectives(topology, question, options_);
    } catch (const std::invalid_argument& error) {
      refuse("--algorithm", error.what());
    }
    warn_of_chunks(question, rows);
    if (json_)
      fmt::print("{}\n", json_of(question, topology, rows).dump(2));
    else
      print(question, topology, rows);
    return Done;
  }

  /// With more accelerators than its file has a fabric may be too small, or of no such shape.
  static Topology built_for_ranks(const TopologySpec& spec) {
    try {
      return build_topology(spec);
    } catch (const std::invalid_argument& error) {
      refuse("--ranks", error.what());
    }
  }

  /// Where `auto` chose what does not go in rounds, pieces are nothing to it.
  static void warn_of_chunks(const CollectiveQuestion& question, const std::vector<CollectiveRow>& rows) {
    const auto whole = [&](const CollectiveRow& row) {
      return !goes_in_rounds(question.kind, row.algorithm);
    };
    const auto first = std::ranges::find_if(rows, whole);
    if (question.chunks == 1 || first == rows.end()) return;
    fmt::print(stderr,
               "--chunks: warning: changes nothing at {} of {} sizes, where auto chose what does not go in "
               "rounds, such as {}\n",
               std::ranges::count_if(rows, whole), rows.size(), name_of(first->algorithm));
  }

  template <class Enum>
  static Enum value_named(const char* flag, const std::string& text) {
    const std::optional<Enum> value = value_of<Enum>(text);
    if (!value) refuse(flag, unknown_name("value", text, names_of<Enum>()));
    return *value;
  }

  /// A file that says how many accelerators it has is for so many by default, not at most.
  std::vector<AcceleratorId> wanted_ranks(TopologySpec& spec, const std::vector<Override>& overrides) const {
    std::vector<AcceleratorId> ranks;
    if (!ranks_) {
      for (int i = 0; i < spec.accelerators; ++i) ranks.emplace_back(static_cast<std::uint32_t>(i));
      return ranks;
    }
    ranks = parse_ranks(*ranks_);
    const auto needed = static_cast<int>(std::ranges::max(ranks).value()) + 1;
    if (needed <= spec.accelerators) return ranks;
    const bool given =
        std::ranges::any_of(overrides, [](const Override& one) { return one.path == "accelerators"; });
    if (given || spec.graph)
      refuse("--ranks", fmt::format("rank {} is beyond the {} accelerators of {}", needed - 1,
                                    spec.accelerators, spec.name));
    spec.accelerators =
        (needed + spec.accelerators_per_node - 1) / spec.accelerators_per_node * spec.accelerators_per_node;
    return ranks;
  }

  std::size_t size_of_group(std::size_t ranks) const {
    if (group_size_ > 0) return static_cast<std::size_t>(group_size_);
    if (groups_ <= 0) return ranks;
    if (ranks % static_cast<std::size_t>(groups_) != 0)
      refuse("--groups", fmt::format("{} ranks do not divide into {} groups", ranks, groups_));
    return ranks / static_cast<std::size_t>(groups_);
  }
  std::size_t stride_of(std::size_t ranks) const {
    if (strided_) return ranks / size_of_group(ranks);
    return static_cast<std::size_t>(std::max(1, stride_));
  }

  void print(const CollectiveQuestion& question, const Topology& topology,
             const std::vector<CollectiveRow>& rows) const {
    const std::size_t n = question.groups.front().size();
    fmt::print("# {}, {} among {} ranks{}\n", topology.name(), name_of(question.kind), n,
               question.groups.size() == 1
                   ? ""
                   : fmt::format(" in each of {} groups at once", question.groups.size()));
    fmt::print("# {:>12} {:>13} {:>6} {:>12} {:>9} {:>9}  {:<16} {:>6}  {}\n", "size (B)", "count", "type",
               "time (us)", "algbw", "busbw", "algorithm", "load", "busiest link");
    for (const CollectiveRow& row : rows) {
      const double algbw = row.size / row.time / BytesPerSecond(1e9);
      const LinkUse* link = busiest_link(row, topology);
      fmt::print("  {:>12.0f} {:>13} {:>6} {:>12.2f} {:>9.2f} {:>9.2f}  {:<16} {:>4.0f} %  {}\n",
                 row.size.si(), count_text(count_of(question.kind, row.size, n)), "float",
                 row.time.si() * 1e6, algbw, algbw * bus_factor(question.kind, n), method_of(row),
                 link == nullptr ? 0 : 100 * share_of(*link, row, topology),
                 link == nullptr ? "" : topology.link_name(link->link));
    }
    fmt::print(
        "# algbw and busbw in GB/s of 1e9 B; load: bytes on the busiest link over what it could carry in "
        "that time\n");
    if (loads_ > 0) print_loads(topology, rows.back());
  }

  void print_loads(const Topology& topology, const CollectiveRow& row) const {
    fmt::print("\n# busiest links at {}\n", to_text(row.size));
    for (const LinkUse& load : busiest(topology, row))
      fmt::print("  {:<40} {:>12}  {:>5.1f} %\n", topology.link_name(load.link),
                 to_text(Bytes(load.coefficient)), 100 * share_of(load, row, topology));
  }

  std::vector<LinkUse> busiest(const Topology& topology, const CollectiveRow& row) const {
    std::vector<LinkUse> loads = row.loads;
    std::ranges::stable_sort(loads, std::greater<>(),
                             [&](const LinkUse& load) { return share_of(load, row, topology); });
    loads.resize(std::min(loads.size(), static_cast<std::size_t>(loads_)));
    return loads;
  }

  Json json_of(const CollectiveQuestion& question, const Topology& topology,
               const std::vector<CollectiveRow>& rows) const {
    const std::size_t n = question.groups.front().size();
    Json object{{"schema", Schema},
                {"version", build::Version},
                {"topology", topology.name()},
                {"kind", name_of(question.kind)},
                {"ranks", n},
                {"groups", question.groups.size()},
                {"rows", Json::array()}};
    for (const CollectiveRow& row : rows) {
      const double algbw = (row.size / row.time).si();
      Json one{{"size_bytes", row.size.si()},
               {"count", count_of(question.kind, row.size, n)},
               {"type", "float"},
               {"time_s", row.time.si()},
               {"algbw_bytes_per_s", algbw},
               {"busbw_bytes_per_s", algbw * bus_factor(question.kind, n)},
               {"algorithm", name_of(row.algorithm)},
               {"protocol", row.protocol}};
      if (const LinkUse* link = busiest_link(row, topology)) {
        one["busiest_link"] = topology.link_name(link->link);
        one["busiest_link_bytes"] = link->coefficient;
        one["busiest_link_load"] = share_of(*link, row, topology);
      }
      object["rows"].push_back(std::move(one));
    }
    for (const LinkUse& load : busiest(topology, rows.back()))
      object["loads"].push_back({{"link", topology.link_name(load.link)},
                                 {"bytes", load.coefficient},
                                 {"load", share_of(load, rows.back(), topology)}});
    return object;
  }

  // --- beside measurements ---

  ExitCode print_comparison() {
    const calibrate::NcclLog log =
        calibrate::read_nccl_logs(read_text_file(compare_, LargestTable), compare_);
    for (const std::string& warning : log.warnings)
      fmt::print(stderr, "{}: warning: {}\n", compare_, warning);
    std::vector<MeasuredRow> rows = rows_of_log(log, topology_);
    {
      const WaitingLine waiting("predicting");
      predict(rows, overrides_of(assignments_), FittedTo::Itself, options_);
    }
    if (std::ranges::none_of(rows, [](const MeasuredRow& row) { return row.predicted.has_value(); }))
      refuse("--topology",
             fmt::format("{} cannot hold the {} ranks on {} node{} of {}", topology_, rows.front().ranks,
                         rows.front().nodes, rows.front().nodes == 1 ? "" : "s", compare_));
    if (json_) return print_json(rows, {});
    fmt::print("# {} beside {}\n", topology_, compare_);
    fmt::print("# {:>14} {:>6} {:>6} {:>13} {:>14} {:>14} {:>9}  {}\n", "op", "ranks", "nodes", "size (B)",
               "measured (us)", "predicted (us)", "error", "algorithm");
    for (const MeasuredRow& row : rows) {
      if (!row.predicted) continue;
      fmt::print("  {:>14} {:>6} {:>6} {:>13.0f} {:>14.2f} {:>14.2f} {:>+7.1f} %  {}\n", name_of(row.op),
                 row.ranks, row.nodes, row.size.si(), row.measured.si() * 1e6, row.predicted->si() * 1e6,
                 100 * (*row.predicted / row.measured - 1), row.method);
    }
    print_errors("all", error_of(rows, "", true), error_of(rows, "", false));
    return Done;
  }

  ExitCode print_table() {
    const CsvTable table = CsvTable::parse(read_text_file(table_, LargestTable), table_);
    const auto systems =
        calibrate::read_measured_systems((data_folder() / "score" / "collectives.yaml").string());
    MeasuredTable measured = rows_of_table(table, systems);
    const FittedTo fitted = uncalibrated_ ? FittedTo::Others : FittedTo::Itself;
    {
      const WaitingLine waiting("predicting");
      predict(measured.rows, overrides_of(assignments_), fitted, options_);
    }
    if (json_) return print_json(measured.rows, measured.left_out);
    for (const std::string& system : systems_of(measured.rows))
      print_errors(system, error_of(measured.rows, system, true), error_of(measured.rows, system, false));
    print_errors("all", error_of(measured.rows, "", true), error_of(measured.rows, "", false));
    const auto unheld =
        std::ranges::count_if(measured.rows, [](const MeasuredRow& row) { return !row.predicted; });
    if (unheld > 0)
      measured.left_out.push_back(fmt::format("{} rows: their topology cannot hold the ranks", unheld));
    for (const std::string& line : measured.left_out) fmt::print("# left out: {}\n", line);
    return Done;
  }

  static std::vector<std::string> systems_of(const std::vector<MeasuredRow>& rows) {
    std::set<std::string> names;
    for (const MeasuredRow& row : rows) names.insert(row.system);
    return {names.begin(), names.end()};
  }

  static void print_errors(const std::string& system, const MeasuredError& large,
                           const MeasuredError& small) {
    const auto text = [](const MeasuredError& error) {
      return error.rows == 0 ? std::string("           no rows")
                             : fmt::format("{:>5} rows {:>6.1f} % ({:+.1f} %)", error.rows, 100 * error.mean,
                                           100 * error.signed_mean);
    };
    fmt::print("# {:<16} mean |error| (mean error)  from 1 MiB {}   below {}\n", system, text(large),
               text(small));
  }

  ExitCode print_json(const std::vector<MeasuredRow>& rows, const std::vector<std::string>& left_out) const {
    Json object{
        {"schema", Schema}, {"version", build::Version}, {"systems", Json::array()}, {"rows", Json::array()}};
    for (const std::string& system : systems_of(rows)) {
      Json one{{"system", system}};
      for (const bool large : {true, false}) {
        const MeasuredError error = error_of(rows, system, large);
        one[large ? "from_1_mib" : "below_1_mib"] = {{"rows", error.rows},
                                                     {"mean_absolute_error", error.mean},
                                                     {"mean_signed_error", error.signed_mean}};
      }
      object["systems"].push_back(std::move(one));
    }
    for (const MeasuredRow& row : rows) {
      Json one{{"system", row.system}, {"op", calibrate::name_of(row.op)}, {"ranks", row.ranks},
               {"nodes", row.nodes},   {"size_bytes", row.size.si()},      {"measured_s", row.measured.si()}};
      one["predicted_s"] = row.predicted ? Json(row.predicted->si()) : Json(nullptr);
      one["algorithm"] = row.method;
      object["rows"].push_back(std::move(one));
    }
    object["left_out"] = left_out;
    fmt::print("{}\n", object.dump(2));
    return Done;
  }

  std::string topology_, kind_ = "all-reduce", algorithm_ = "auto", sizes_ = "8B:8GiB:x2";
  std::string detail_ = "aggregate", network_ = "fluid", compare_, table_;
  std::vector<std::string> assignments_;
  std::optional<std::string> ranks_;
  int chunks_ = 1, group_size_ = 0, groups_ = 0, stride_ = 1, loads_ = 0;
  bool strided_ = false, json_ = false, uncalibrated_ = false;
  RunOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_collective() {
  return std::make_unique<SimulateCollective>();
}

}  // namespace syncline
