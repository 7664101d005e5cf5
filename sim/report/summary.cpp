#include "sim/report/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"

namespace syncline {
namespace {

// --- memory ----------------------------------------------------------------------------------------------------------

// "F layer 3 all-gather": the tag for people, with the op's own name where the tag has none.
std::string op_text(const std::vector<TimelineOp>& ops, std::uint32_t index) {
  if (index >= ops.size()) return "an unknown op";
  Tag tag = ops[index].tag;
  if (tag.name.empty()) tag.name = ops[index].name;
  return to_text(tag);
}

Bytes resident_of(const Role& role) {
  Bytes sum;
  for (const MemoryEffect& effect : role.resident) sum += effect.bytes;
  return sum;
}

constexpr const char* BeforeAll = "before the first op";

std::optional<MemorySummary> summarise_memory(const RunResult& result, const Schedule& schedule,
                                              Bytes capacity) {
  const auto held = [](const RankMemory& memory) { return memory.peak > Bytes(0); };
  if (std::none_of(result.memory.begin(), result.memory.end(), held)) return std::nullopt;
  const std::vector<TimelineOp> named =
      result.timeline.ops.empty() ? timeline_ops(schedule) : std::vector<TimelineOp>();
  const std::vector<TimelineOp>& ops = named.empty() ? result.timeline.ops : named;

  const auto larger = [](const RankMemory& a, const RankMemory& b) { return a.peak < b.peak; };
  const auto peak = std::max_element(result.memory.begin(), result.memory.end(), larger);
  MemorySummary summary;
  summary.rank = RankId(static_cast<std::size_t>(peak - result.memory.begin()));
  summary.peak = peak->peak;
  summary.by_category = peak->at_peak;
  summary.peak_time = peak->peak_time;
  summary.peak_op = peak->peak_at_start ? BeforeAll : op_text(ops, peak->peak_op);
  if (capacity > Bytes(0)) summary.capacity = capacity;

  for (std::size_t rank = 0; rank < result.memory.size(); ++rank) {
    const RankMemory& memory = result.memory[rank];
    if (!memory.out_of_memory || summary.ranks_out_of_memory++ > 0) continue;
    summary.out_of_memory_rank = RankId(rank);
    const bool at_once = resident_of(schedule.role(RankId(rank))) > capacity;
    summary.out_of_memory_op = at_once ? BeforeAll : op_text(ops, memory.out_of_memory_op);
  }
  return summary;
}

// --- links -----------------------------------------------------------------------------------------------------------

std::string kind_text(const Topology& topology, const Link& link) {
  switch (link.kind) {
    case LinkKind::ScaleUp: return "scale-up";
    case LinkKind::HostBus: return "host-bus";
    case LinkKind::ScaleOut: break;
  }
  const int level = std::max(topology.vertex(link.from).level, topology.vertex(link.to).level);
  return level == 0 ? "scale-out" : fmt::format("scale-out level {}", level);
}

double utilisation(Bytes carried, BytesPerSecond bandwidth, Seconds step) {
  const Bytes possible = bandwidth * step;
  return possible > Bytes(0) ? carried / possible : 0;
}

std::vector<LinkSummary> busiest_links(const RunResult& result, const Topology& topology) {
  static constexpr std::size_t Most = 5;
  const auto share = [&](const LinkLoad& load) {
    return utilisation(load.carried, topology.link(load.link).bandwidth, result.step_time);
  };
  std::vector<std::pair<double, LinkLoad>> ranked;
  for (const LinkLoad& load : result.links)
    if (load.carried > Bytes(0)) ranked.emplace_back(share(load), load);
  // To nine digits, so that links with equal load stand in order of their ids.
  const auto busier = [](const auto& a, const auto& b) {
    const double left = std::round(a.first * 1e9), right = std::round(b.first * 1e9);
    return left != right ? left > right : a.second.link < b.second.link;
  };
  const std::size_t shown = std::min(Most, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(shown), ranked.end(),
                    busier);
  ranked.resize(shown);

  std::vector<LinkSummary> summaries;
  for (const auto& [used, load] : ranked) {
    const Link& link = topology.link(load.link);
    summaries.push_back(
        {topology.link_name(load.link), kind_text(topology, link), load.carried, link.bandwidth, used});
  }
  return summaries;
}

std::vector<LinkKindSummary> summarise_link_kinds(const RunResult& result, const Topology& topology) {
  std::map<std::pair<LinkKind, std::string>, LinkKindSummary> kinds;
  std::map<std::string, BytesPerSecond> bandwidth;
  const auto kind_of = [&](const Link& link) -> LinkKindSummary& {
    std::string text = kind_text(topology, link);
    LinkKindSummary& kind = kinds[{link.kind, text}];
    kind.kind = std::move(text);
    return kind;
  };
  for (const Link& link : topology.links()) {
    LinkKindSummary& kind = kind_of(link);
    ++kind.links;
    bandwidth[kind.kind] += link.bandwidth;
  }
  for (const LinkLoad& load : result.links) {
    if (load.carried <= Bytes(0)) continue;
    const Link& link = topology.link(load.link);
    LinkKindSummary& kind = kind_of(link);
    ++kind.used;
    kind.carried += load.carried;
    kind.highest = std::max(kind.highest, utilisation(load.carried, link.bandwidth, result.step_time));
  }
  std::vector<LinkKindSummary> summaries;
  for (auto& [key, kind] : kinds) {
    kind.mean = utilisation(kind.carried, bandwidth[kind.kind], result.step_time);
    summaries.push_back(std::move(kind));
  }
  return summaries;
}

// True for a link that leaves its node: one between two vertices of a node, such as neighbours on a torus that share a
// host, does not.
bool leaves_node(const Topology& topology, const Link& link) {
  if (link.kind != LinkKind::ScaleOut) return false;
  const Vertex &from = topology.vertex(link.from), &to = topology.vertex(link.to);
  return from.kind == VertexKind::Switch || to.kind == VertexKind::Switch || from.node != to.node;
}

// --- collectives -----------------------------------------------------------------------------------------------------

// "ring/tree" names both.
bool names(std::string_view algorithms, std::string_view one) {
  const std::size_t at = algorithms.find(one);
  if (at == std::string_view::npos) return false;
  const std::size_t end = at + one.size();
  return (at == 0 || algorithms[at - 1] == '/') && (end == algorithms.size() || algorithms[end] == '/');
}

std::vector<CollectiveSummary> summarise_collectives(const RunResult& result,
                                                     const std::optional<Metrics>& metrics) {
  std::vector<CollectiveSummary> summaries;
  for (const CollectiveChoice& choice : result.collectives) {
    CollectiveSummary& summary = summaries.emplace_back();
    summary.choice = choice;
    if (!metrics) continue;
    const auto traffic =
        std::find_if(metrics->traffic.begin(), metrics->traffic.end(), [&](const Traffic& t) {
          return t.op == name_of(choice.kind) && t.group == choice.family && t.bytes == choice.bytes &&
                 t.group_size == choice.group_size && names(t.algorithm, name_of(choice.algorithm));
        });
    if (traffic == metrics->traffic.end()) continue;
    summary.mean_time = traffic->mean_transfer;
    summary.mean_waiting = traffic->mean_waiting;
    summary.exposed_share = traffic->exposed_share;
    summary.algbw = traffic->algbw();
    if (summary.algbw) summary.busbw = *summary.algbw * bus_factor(choice.kind, choice.group_size);
  }
  return summaries;
}

// Answers from the schedule, whose ops the timeline's are.
GroupSizeOf group_sizes(const Schedule& schedule) {
  std::vector<const Collective*> collectives;
  for (const Role& role : schedule.roles)
    for (const Op& op : role.program) collectives.push_back(std::get_if<Collective>(&op.body));
  return [&schedule, collectives = std::move(collectives)](std::uint32_t op, RankId rank) -> std::size_t {
    if (op >= collectives.size() || collectives[op] == nullptr) return 0;
    const GroupFamily& family = schedule.families[collectives[op]->family.value()];
    return family.contains(rank) ? family.members(family.group_of(rank)).size() : 0;
  };
}

// "0-7", "0,8,16,…,56", "3,1,2".
std::string ranks_text(std::span<const RankId> ranks) {
  static constexpr std::size_t Listed = 4;  // ranks named one by one
  if (ranks.empty()) return "none";
  const auto follows = [](RankId a, RankId b) { return b.value() != a.value() + 1; };
  if (ranks.size() > 1 && std::adjacent_find(ranks.begin(), ranks.end(), follows) == ranks.end())
    return fmt::format("{}-{}", ranks.front().value(), ranks.back().value());
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks.size() > Listed && i >= Listed - 1 && i + 1 < ranks.size()) continue;
    if (ranks.size() > Listed && i + 1 == ranks.size()) text += ",…";
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i].value());
  }
  return text;
}

std::vector<GroupSummary> summarise_groups(const RunResult& result, const Schedule& schedule,
                                           const Cluster& cluster) {
  std::vector<GroupSummary> summaries;
  for (const GroupFamily& family : schedule.families) {
    GroupSummary& summary = summaries.emplace_back();
    summary.family = family.name();
    summary.groups = family.group_count();
    for (std::size_t group = 0; group < family.group_count(); ++group) {
      const auto members = family.members(GroupId(group));
      if (group == 0) summary.members = ranks_text(members);
      std::set<std::uint32_t> nodes;
      for (const RankId rank : members)
        nodes.insert(cluster.topology.node_of(cluster.placement[rank.value()]));
      summary.size = std::max(summary.size, members.size());
      summary.nodes_spanned = std::max(summary.nodes_spanned, nodes.size());
    }
    for (const CollectiveChoice& choice : result.collectives) {
      if (choice.family != family.name()) continue;
      summary.collectives += choice.count;
      summary.bytes_between_nodes += choice.total_bytes_between_nodes;
    }
  }
  return summaries;
}

std::size_t ranks_simulated(const RunResult& result, std::size_t ranks) {
  if (result.player_of.empty()) return ranks;
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (result.player_of[rank] == RankId(rank)) ++count;
  return count;
}

// --- claims ----------------------------------------------------------------------------------------------------------

ClaimSummary compare(const PublishedFigure& published, const RunSummary& run) {
  ClaimSummary claim{published, metric_value(run, published.metric), std::nullopt, false};
  if (claim.simulated && published.value != 0)
    claim.error = (*claim.simulated - published.value) / published.value;
  claim.other_size =
      published.accelerators > 0 && static_cast<std::size_t>(published.accelerators) != run.ranks;
  return claim;
}

ExpectationSummary judge(const Expectation& expected, const RunSummary& run) {
  ExpectationSummary verdict{expected, metric_value(run, expected.metric), false};
  if (!verdict.simulated) return verdict;
  const double value = *verdict.simulated;
  const bool near = !expected.value || std::abs(value - *expected.value) <= expected.within.value_or(0);
  verdict.holds = near && (!expected.at_least || value >= *expected.at_least) &&
                  (!expected.at_most || value <= *expected.at_most);
  return verdict;
}

// --- warnings --------------------------------------------------------------------------------------------------------

// The first rank that gives back more of a category than it holds, for each category.
void warn_of_memory(const RunResult& result, std::vector<std::string>& warnings) {
  for (std::size_t category = 0; category < MemoryCategoryCount; ++category) {
    const auto below = [&](const RankMemory& memory) {
      const Bytes rounding = std::max(Bytes(1), memory.peak * 1e-9);
      return memory.least[category] < -rounding;
    };
    const auto first = std::find_if(result.memory.begin(), result.memory.end(), below);
    if (first == result.memory.end()) continue;
    warnings.push_back(
        fmt::format("rank {} gives back {} of {} more than it has taken: its peak may be more than this",
                    first - result.memory.begin(), to_text(-first->least[category]),
                    name_of(static_cast<MemoryCategory>(category))));
  }
}

void warn_of_utilisation(const RunSummary& run, std::vector<std::string>& warnings) {
  const double dropped = run.experts && run.experts->tokens ? run.experts->tokens->dropped : 0;
  if (dropped > 0 && run.throughput.mfu > 1)
    warnings.push_back(fmt::format("MFU is {}: it counts the copies of tokens that were dropped, too ({})",
                                   percent(*run.throughput.mfu), percent(dropped)));
  for (const auto& [name, share] :
       {std::pair{"MFU", dropped > 0 ? std::nullopt : run.throughput.mfu}, {"HFU", run.throughput.hfu}})
    if (share && *share > 1)
      warnings.push_back(
          fmt::format("{} is {}: the job's FLOP are more than the kernels of this schedule can be", name,
                      percent(*share)));
}

// Of each member of a group the node, numbered in order of their first members.
std::vector<std::size_t> nodes_of(std::span<const RankId> members, const Cluster& cluster) {
  std::vector<std::uint32_t> known;
  std::vector<std::size_t> nodes;
  for (const RankId rank : members) {
    const std::uint32_t node = cluster.topology.node_of(cluster.placement[rank.value()]);
    const auto found = std::find(known.begin(), known.end(), node);
    nodes.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) known.push_back(node);
  }
  return nodes;
}

// Folded: that a group lies on nodes as the one does that stands for it.
void warn_of_places(const RunResult& result, const Schedule& schedule, const Cluster& cluster,
                    std::vector<std::string>& warnings) {
  if (result.player_of.empty()) return;
  for (const GroupFamily& family : schedule.families) {
    const auto of_family = [&](const CollectiveChoice& choice) { return choice.family == family.name(); };
    if (std::none_of(result.collectives.begin(), result.collectives.end(), of_family)) continue;
    for (std::size_t group = 0; group < family.group_count(); ++group) {
      const auto members = family.members(GroupId(group));
      const RankId player = result.player_of[members.front().value()];
      if (!family.contains(player)) continue;
      const auto model = family.members(family.group_of(player));
      if (model.data() == members.data() || nodes_of(model, cluster) == nodes_of(members, cluster)) continue;
      warnings.push_back(fmt::format(
          "folded, but groups \"{}\" do not all lie on nodes alike: the slowest counts for all, and "
          "times of ranks are not those of each; run it without folding",
          family.name()));
      break;
    }
  }
}

void warn_of_late_faults(const RunResult& result, std::vector<std::string>& warnings) {
  for (const FaultEffect& effect : result.faults)
    if (effect.fault.at && *effect.fault.at >= result.step_time)
      warnings.push_back(fmt::format("the fault of \"{}\" is from {} on, after the step: it changes nothing",
                                     effect.fault.name, to_text(*effect.fault.at)));
}

}  // namespace

bool RunSummary::expectations_hold() const {
  return std::all_of(expect.begin(), expect.end(),
                     [](const ExpectationSummary& verdict) { return verdict.holds; });
}

bool RunSummary::checks_hold() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.violation.empty(); });
}

RunSummary summarise(const RunResult& result, const Schedule& schedule, const Cluster& cluster,
                     const RunContext& context) {
  const Topology& topology = cluster.topology;
  RunSummary run;
  run.context = context;
  run.topology = topology.name();
  run.device = cluster.device.name;
  if (schedule.job.hardware_flop > Flop(0)) run.precision = name_of(schedule.job.precision);
  run.ranks = schedule.world_size();
  run.ranks_simulated = ranks_simulated(result, run.ranks);
  std::set<std::uint32_t> nodes;
  for (std::size_t rank = 0; rank < run.ranks; ++rank)
    nodes.insert(topology.node_of(cluster.placement[rank]));
  run.nodes = nodes.size();

  const auto figure = cluster.device.peak.find(schedule.job.precision);
  const FlopPerSecond peak = figure == cluster.device.peak.end() ? FlopPerSecond() : figure->second;
  run.step_time = result.step_time;
  run.throughput = throughput(schedule.job, result.step_time, run.ranks, peak);
  if (cluster.device.power) run.accelerator_power = *cluster.device.power * static_cast<double>(run.ranks);
  if (!result.timeline.spans.empty())
    run.metrics =
        compute_metrics(result.timeline, schedule.job, peak, group_sizes(schedule), result.player_of);
  // A textbook of one stage is a pipeline without a bubble; a training run on one stage is none.
  const bool textbook = schedule.job.hardware_flop <= Flop(0);
  if (auto pipeline = pipeline_metrics(schedule, result.timeline);
      pipeline && (pipeline->stages > 1 || textbook))
    run.pipeline = std::move(pipeline);
  run.experts = expert_balance(result, schedule, cluster, context.experts);
  run.memory = summarise_memory(result, schedule, cluster.device.memory);
  run.busiest_links = busiest_links(result, topology);
  run.link_kinds = summarise_link_kinds(result, topology);
  run.collectives = summarise_collectives(result, run.metrics);
  run.groups = summarise_groups(result, schedule, cluster);
  run.crosses_nodes = std::any_of(result.links.begin(), result.links.end(), [&](const LinkLoad& load) {
    return load.carried > Bytes(0) && leaves_node(topology, topology.link(load.link));
  });
  run.faults = result.faults;
  run.detours = result.detours;
  run.ranks_moved = result.ranks_moved;
  run.noise = cluster.noise;
  for (const PublishedFigure& published : context.published) run.published.push_back(compare(published, run));
  for (const Expectation& expected : context.expect) run.expect.push_back(judge(expected, run));
  run.warnings = context.warnings;
  warn_of_memory(result, run.warnings);
  warn_of_utilisation(run, run.warnings);
  warn_of_places(result, schedule, cluster, run.warnings);
  warn_of_late_faults(result, run.warnings);
  run.checks = check_physics(result, schedule, cluster);
  run.engine = result.engine;
  return run;
}

}  // namespace syncline
