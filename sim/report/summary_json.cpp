#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/fault_text.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/summary.hpp"

namespace syncline {
namespace {

using Json = nlohmann::ordered_json;  // keys in the order they are set

constexpr int Schema = 1;

Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

// To the next whole one: shares of a byte come of means.
Json bytes(std::optional<double> value) {
  const bool exact = value && std::abs(*value) < 0x1p53;
  return exact ? Json(static_cast<std::int64_t>(std::llround(*value))) : number(value);
}
Json number(Bytes value) {
  return bytes(value.si());
}
Json number(const std::optional<Bytes>& value) {
  return value ? number(*value) : Json(nullptr);
}

template <class Unit>
Json number(const std::optional<Quantity<Unit>>& value) {
  return value ? number(value->si()) : Json(nullptr);
}
template <class Unit>
Json number(Quantity<Unit> value) {
  return number(value.si());
}

Json text(const std::string& value) {
  return value.empty() ? Json(nullptr) : Json(value);
}

Json memory_json(const MemorySummary& memory) {
  Json object = Json::object();
  for (std::size_t i = 0; i < MemoryCategoryCount; ++i) {
    std::string key(name_of(static_cast<MemoryCategory>(i)));
    for (char& c : key)
      if (c == '-') c = '_';
    object[key + "_bytes"] = number(memory.by_category[i]);
  }
  return object;
}

void add_memory(Json& object, const std::optional<MemorySummary>& memory) {
  object["memory"] = memory ? memory_json(*memory) : Json(nullptr);
  object["memory_capacity_bytes"] = memory ? number(memory->capacity) : Json(nullptr);
  object["peak_memory_rank"] = memory ? Json(memory->rank.value()) : Json(nullptr);
  object["peak_memory_time_s"] = memory ? number(memory->peak_time) : Json(nullptr);
  object["peak_memory_op"] = memory ? Json(memory->peak_op) : Json(nullptr);
  const bool checked = memory && memory->capacity, over = checked && memory->ranks_out_of_memory > 0;
  object["out_of_memory"] = checked ? Json(over) : Json(nullptr);
  object["out_of_memory_ranks"] = checked ? Json(memory->ranks_out_of_memory) : Json(nullptr);
  object["out_of_memory_rank"] = over ? Json(memory->out_of_memory_rank.value()) : Json(nullptr);
  object["out_of_memory_op"] = over ? Json(memory->out_of_memory_op) : Json(nullptr);
}

Json idle_json(const Idle& idle) {
  return {{"neighbour_s", number(idle.neighbour)},
          {"transfer_s", number(idle.transfer)},
          {"other_s", number(idle.other)}};
}

Json pipeline_json(const PipelineMetrics& pipeline) {
  Json ranks = Json::array();
  for (const PipelineRank& rank : pipeline.ranks)
    ranks.push_back({{"busy_s", number(rank.busy)},
                     {"internal_idle_s", number(rank.internal_idle)},
                     {"peak_activations", rank.peak_activations}});
  return {{"stages", pipeline.stages},
          {"max_rank_span_s", number(pipeline.max_rank_span)},
          {"ideal_s", number(pipeline.mean_busy)},
          {"bubble_s", number(pipeline.bubble())},
          {"bubble_by_cause",
           {{"warm_up", idle_json(pipeline.idle[0])},
            {"steady", idle_json(pipeline.idle[1])},
            {"cool_down", idle_json(pipeline.idle[2])}}},
          {"ranks", ranks}};
}

Json levels_json(const moe::LayerImbalance& imbalance) {
  return {{"experts", number(imbalance.experts.max_over_mean)},
          {"ranks", number(imbalance.ranks.max_over_mean)},
          {"nodes", number(imbalance.nodes.max_over_mean)}};
}

void add_tokens(Json& object, const std::optional<ExpertTokens>& tokens) {
  object["routing"] = tokens ? Json(tokens->routing) : Json(nullptr);
  object["experts"] = tokens ? Json(tokens->experts) : Json(nullptr);
  object["top_k"] = tokens ? Json(tokens->top_k) : Json(nullptr);
  object["ranks"] = tokens ? Json(tokens->ranks) : Json(nullptr);
  object["nodes"] = tokens ? Json(tokens->nodes) : Json(nullptr);
  object["imbalance_mean"] = tokens ? levels_json(tokens->imbalance.mean) : Json(nullptr);
  object["imbalance_worst"] = tokens ? levels_json(tokens->imbalance.largest) : Json(nullptr);
  object["dropped_share"] = tokens ? number(tokens->dropped) : Json(nullptr);
  object["padding_share"] = tokens ? number(tokens->padding) : Json(nullptr);
}

Json layers_json(const std::vector<ExpertTokens::Layer>& layers) {
  Json list = Json::array();
  for (const ExpertTokens::Layer& layer : layers)
    list.push_back({{"layer", layer.number},
                    {"imbalance", levels_json(layer.imbalance)},
                    {"dropped_share", number(layer.dropped)},
                    {"padding_share", number(layer.padding)}});
  return list;
}

Json experts_json(const ExpertBalance& experts) {
  Json object;
  add_tokens(object, experts.tokens);
  for (const auto& [name, bytes] : {std::pair("to_experts", &experts.to_experts), {"back", &experts.back}}) {
    object[fmt::format("{}_inside_nodes_bytes", name)] = number(bytes->inside);
    object[fmt::format("{}_between_nodes_bytes", name)] = number(bytes->between);
  }
  const std::optional<ExpertTimes>& times = experts.times;
  const auto time = [&](Seconds ExpertTimes::*which) {
    return times ? number((*times).*which) : Json(nullptr);
  };
  const auto rank = [&](RankId ExpertTimes::*which) {
    return times ? Json(((*times).*which).value()) : Json(nullptr);
  };
  object["work_s"] = time(&ExpertTimes::work);
  object["longest_work_s"] = time(&ExpertTimes::longest_work);
  object["longest_work_rank"] = rank(&ExpertTimes::longest_work_rank);
  object["work_of_fullest_s"] = time(&ExpertTimes::of_fullest);
  object["transfer_s"] = time(&ExpertTimes::transfer);
  object["wait_s"] = time(&ExpertTimes::wait);
  object["longest_wait_s"] = time(&ExpertTimes::longest_wait);
  object["longest_wait_rank"] = rank(&ExpertTimes::longest_wait_rank);
  object["layers"] = experts.tokens ? layers_json(experts.tokens->layers) : Json::array();
  return object;
}

Json links_json(const std::vector<LinkSummary>& links) {
  Json list = Json::array();
  for (const LinkSummary& link : links)
    list.push_back({{"name", link.name},
                    {"kind", link.kind},
                    {"utilisation", number(link.utilisation)},
                    {"carried_bytes", number(link.carried)},
                    {"bandwidth_bytes_per_s", number(link.bandwidth)}});
  return list;
}

Json link_kinds_json(const std::vector<LinkKindSummary>& kinds) {
  Json list = Json::array();
  for (const LinkKindSummary& kind : kinds)
    list.push_back({{"kind", kind.kind},
                    {"links", kind.links},
                    {"used", kind.used},
                    {"carried_bytes", number(kind.carried)},
                    {"highest_utilisation", number(kind.highest)},
                    {"mean_utilisation", number(kind.mean)}});
  return list;
}

Json collectives_json(const std::vector<CollectiveSummary>& collectives) {
  Json list = Json::array();
  for (const CollectiveSummary& collective : collectives) {
    const CollectiveChoice& choice = collective.choice;
    list.push_back({{"kind", name_of(choice.kind)},
                    {"group", choice.family},
                    {"group_size", choice.group_size},
                    {"algorithm", name_of(choice.algorithm)},
                    {"protocol", choice.protocol},
                    {"channels", choice.channels},
                    {"size_bytes", number(choice.bytes)},
                    {"count", choice.count},
                    {"mean_time_s", number(collective.mean_time)},
                    {"mean_waiting_s", number(collective.mean_waiting)},
                    {"algbw_bytes_per_s", number(collective.algbw)},
                    {"busbw_bytes_per_s", number(collective.busbw)},
                    {"exposed_share", number(collective.exposed_share)},
                    {"nodes_spanned", choice.nodes_spanned},
                    {"between_nodes_bytes", number(choice.bytes_between_nodes)}});
    if (choice.by_counts) list.back()["imbalance"] = number(choice.imbalance);
  }
  return list;
}

Json groups_json(const std::vector<GroupSummary>& groups) {
  Json list = Json::array();
  for (const GroupSummary& group : groups)
    list.push_back({{"group", group.family},
                    {"groups", group.groups},
                    {"group_size", group.size},
                    {"first_members", group.members},
                    {"nodes_spanned", group.nodes_spanned},
                    {"collectives", group.collectives},
                    {"between_nodes_bytes", number(group.bytes_between_nodes)}});
  return list;
}

Json faults_json(const std::vector<FaultEffect>& faults) {
  Json list = Json::array();
  for (const FaultEffect& effect : faults) {
    const Fault& fault = effect.fault;
    list.push_back({{"part", name_of(fault.part)},
                    {"name", fault.name},
                    {"down", fault.down},
                    {"bandwidth_share", number(fault.bandwidth)},
                    {"slowdown", number(fault.slowdown)},
                    {"at_s", number(fault.at)},
                    {"reroute_s", number(fault.reroute)},
                    {"links", effect.links},
                    {"rank", effect.rank ? Json(effect.rank->value()) : Json(nullptr)},
                    {"rerouted_transfers", effect.rerouted}});
  }
  return list;
}

Json published_json(const std::vector<ClaimSummary>& claims) {
  Json list = Json::array();
  for (const ClaimSummary& claim : claims)
    list.push_back({{"metric", claim.published.metric},
                    {"published", number(claim.published.value)},
                    {"simulated", number(claim.simulated)},
                    {"error", number(claim.error)},
                    {"accelerators",
                     claim.published.accelerators > 0 ? Json(claim.published.accelerators) : Json(nullptr)},
                    {"other_size", claim.other_size},
                    {"source", text(claim.published.source)}});
  return list;
}

Json expect_json(const std::vector<ExpectationSummary>& verdicts) {
  Json list = Json::array();
  for (const ExpectationSummary& verdict : verdicts)
    list.push_back({{"metric", verdict.expected.metric},
                    {"simulated", number(verdict.simulated)},
                    {"value", number(verdict.expected.value)},
                    {"within", number(verdict.expected.within)},
                    {"at_least", number(verdict.expected.at_least)},
                    {"at_most", number(verdict.expected.at_most)},
                    {"holds", verdict.holds}});
  return list;
}

Json checks_json(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks)
    list.push_back(
        {{"check", check.name}, {"holds", check.violation.empty()}, {"violation", text(check.violation)}});
  return list;
}

}  // namespace

std::string summary_json(const RunSummary& run) {
  Json object;
  object["schema"] = Schema;
  object["version"] = text(run.context.version);
  object["scenario"] = text(run.context.scenario);
  object["title"] = text(run.context.title);
  object["model"] = text(run.context.model);
  object["overrides"] = run.context.overrides;
  object["hash"] = run.context.hash ? Json(fmt::format("{:016x}", *run.context.hash)) : Json(nullptr);
  object["seed"] = run.context.seed ? Json(*run.context.seed) : Json(nullptr);
  object["ranks"] = run.ranks;
  object["nodes"] = run.nodes;
  object["ranks_simulated"] = run.ranks_simulated;
  object["topology"] = text(run.topology);
  object["device"] = text(run.device);
  object["precision"] = text(run.precision);
  for (const MetricInfo& metric : metric_table()) {
    const std::optional<double> value = metric.value(run);
    object[std::string(metric.json_key)] = metric.unit == MetricUnit::Size ? bytes(value) : number(value);
  }
  object["pipeline"] = run.pipeline ? pipeline_json(*run.pipeline) : Json(nullptr);
  object["experts"] = run.experts ? experts_json(*run.experts) : Json(nullptr);
  add_memory(object, run.memory);
  object["busiest_links"] = links_json(run.busiest_links);
  object["link_kinds"] = link_kinds_json(run.link_kinds);
  object["collectives"] = collectives_json(run.collectives);
  object["groups"] = groups_json(run.groups);
  object["crosses_nodes"] = run.crosses_nodes;
  object["faults"] = faults_json(run.faults);
  object["detour_share"] = number(run.detours);
  object["ranks_moved"] = run.ranks_moved;
  object["noise"] = {{"compute", number(run.noise.compute)}, {"latency", number(run.noise.latency)}};
  object["published"] = published_json(run.published);
  object["expect"] = expect_json(run.expect);
  object["warnings"] = run.warnings;
  object["checks"] = checks_json(run.checks);
  object["engine"] = {{"name", text(run.engine.name)},
                      {"events", run.engine.events},
                      {"flows", run.engine.flows},
                      {"wall_s", number(run.engine.wall_s)}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace syncline
