#include "tools/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>

#include "sim/schedule/check.hpp"
#include "sim/schedule/text.hpp"
#include "sim/topology/apply_faults.hpp"
#include "sim/training/training.hpp"
#include "tools/pipeline_run.hpp"

namespace syncline {
namespace {

/// Whatever its version: the reader of schedules says which it reads.
bool is_schedule(std::string_view text) {
  return text.starts_with(ScheduleTextHeader.substr(0, ScheduleTextHeader.find(' ')));
}

void check_sound(const Schedule& schedule, const std::string& file, bool fold) {
  std::vector<Diagnostic> wrong;
  for (const std::string& message : check_schedule(schedule, fold))
    wrong.push_back({{file, 0, 0, ""}, message});
  if (!wrong.empty()) throw InputError(std::move(wrong));
}

/// Every kernel must have a time on the device.
void check_costs(const Schedule& schedule, const Device& device, const std::string& file) {
  std::vector<std::string> works;
  std::string reason;
  for (const Work& work : schedule.works) {
    try {
      static_cast<void>(work_time(work, device));
    } catch (const std::invalid_argument& error) {
      works.push_back(fmt::format("\"{}\"", work.name));
      if (reason.empty()) reason = error.what();
    }
  }
  if (works.empty()) return;
  constexpr std::size_t MostNamed = 3;
  const std::string more =
      works.size() > MostNamed ? fmt::format(" and {} more", works.size() - MostNamed) : "";
  works.resize(std::min(works.size(), MostNamed));
  refuse(file, fmt::format("has kernels without a time on this device: {}{}: {}; add --device with a name or "
                           "file that has one, such as --device h100-sxm",
                           fmt::join(works, ", "), more, reason));
}

Cluster cluster_for(const Schedule& schedule, const TopologySpec& topology, Device device) {
  return {build_topology(topology), std::move(device), placement_in_order(schedule.world_size())};
}

Question read_schedule_question(std::string_view text, const std::string& file,
                                const std::vector<Override>& overrides, const ScheduleCluster& where,
                                bool fold) {
  if (!overrides.empty()) refuse(file, "is a schedule; --set changes scenarios only");
  if (where.topology.empty())
    refuse(file,
           "is a schedule, which does not say what it runs on; add --topology with a name or file, such as "
           "--topology dgx-h100");
  Schedule schedule = read_schedule(text, file);
  check_sound(schedule, file, fold);
  const TopologySpec topology = load_topology(where.topology);
  if (schedule.world_size() > static_cast<std::size_t>(topology.accelerators))
    refuse(file, fmt::format("has {} ranks, more than the {} accelerators of topology {}; give a larger one",
                             schedule.world_size(), topology.accelerators, topology.name));
  Device device = load_device(where.device.empty() ? "ideal" : where.device);
  check_costs(schedule, device, file);
  Cluster cluster = cluster_for(schedule, topology, std::move(device));
  return {file, std::nullopt, std::move(schedule), std::move(cluster)};
}

Schedule textbook_schedule(const TextbookPipeline& textbook, const pipeline::Order& order) {
  return lower_textbook(order, costs_of(textbook), *textbook.transfers, textbook.bytes.value_or(Bytes(0)),
                        textbook.activation.value_or(Bytes(0)))
      .schedule;
}

/// @param order  of a textbook
Schedule schedule_of(const Scenario& scenario, const std::optional<pipeline::Order>& order) {
  if (scenario.given) return scenario.given->schedule;
  Schedule schedule = order ? textbook_schedule(*scenario.textbook, *order)
                            : training_schedule(scenario.job, scenario.device);
  schedule.name = scenario.name;
  return schedule;
}

/// Ranks in order on what is not down. Where they fill whole nodes, a node with one that is down holds none,
/// so that ranks that share a node still do.
std::vector<AcceleratorId> placement_beside(const std::vector<AcceleratorId>& down, const Topology& topology,
                                            std::size_t ranks, const std::string& file) {
  const bool whole_nodes = ranks >= static_cast<std::size_t>(topology.shape().accelerators_per_node);
  std::set<std::uint32_t> nodes;
  for (const AcceleratorId id : down) nodes.insert(topology.node_of(id));
  std::vector<AcceleratorId> placement;
  for (std::size_t id = 0; id < topology.accelerators().size() && placement.size() < ranks; ++id) {
    const AcceleratorId next(id);
    if (whole_nodes ? nodes.contains(topology.node_of(next)) : std::ranges::find(down, next) != down.end())
      continue;
    placement.push_back(next);
  }
  if (placement.size() == ranks) return placement;
  const char* const left_out = !whole_nodes        ? "those that are down"
                               : nodes.size() == 1 ? "the node of what is down"
                                                   : "the nodes of those that are down";
  refuse(file,
         fmt::format("has {} ranks, {} more than there are accelerators without {}; add spare ones (raise "
                     "topology.accelerators and keep parallel.dp), or take fewer ranks",
                     ranks, ranks - placement.size(), left_out));
}

/// Puts the scenario's faults and noise into the cluster.
Cluster with_faults(Cluster cluster, const Scenario& scenario) {
  cluster.noise = scenario.noise;
  cluster.seed = scenario.seed;
  if (scenario.faults.empty()) return cluster;
  cluster.faults = scenario.faults;
  apply_faults(cluster.topology, cluster.faults);
  const std::vector<AcceleratorId> down = accelerators_down(cluster.topology, cluster.faults);
  if (!down.empty())
    cluster.placement = placement_beside(down, cluster.topology, cluster.placement.size(), scenario.file);
  return cluster;
}

Cluster cluster_of(const Scenario& scenario, const Schedule& schedule) {
  if (!scenario.textbook)
    return with_faults(cluster_for(schedule, scenario.topology, scenario.device), scenario);
  const TextbookPipeline& textbook = *scenario.textbook;
  if (textbook.topology)
    return with_faults(cluster_for(schedule, *textbook.topology, ideal_device()), scenario);
  const PipelineTransfers transfers{*textbook.transfers, textbook.bytes.value_or(Bytes(0)),
                                    textbook.bandwidth};
  return with_faults(pipeline_cluster(schedule.world_size(), transfers, textbook.hop), scenario);
}

}  // namespace

Schedule make_schedule(const Scenario& scenario) {
  return schedule_of(scenario,
                     scenario.textbook ? std::optional(order_of(*scenario.textbook)) : std::nullopt);
}

Question question_of(Scenario scenario, bool fold) {
  const std::string file = scenario.file;
  std::optional<pipeline::Order> order;
  if (scenario.textbook) order = order_of(*scenario.textbook);
  Schedule schedule = schedule_of(scenario, order);
  if (scenario.given) {
    check_sound(schedule, scenario.given->file, fold || scenario.fold);
    check_costs(schedule, scenario.device, scenario.given->file);
  }
  const std::vector<std::string> wrong = check_schedule(schedule, fold || scenario.fold);
  SYNCLINE_CHECK(wrong.empty(), "the schedule made from " + file + " is not sound: " + wrong.front());
  Cluster cluster = cluster_of(scenario, schedule);
  return {file, std::move(scenario), std::move(schedule), std::move(cluster), std::move(order)};
}

Question read_question(const std::string& file, const std::vector<Override>& overrides,
                       const ScheduleCluster& where, bool fold) {
  const std::string text = read_text_file(file, [](std::string_view begin) {
    return is_schedule(begin) ? LargestScheduleFile : LargestConfigFile;
  });
  if (is_schedule(text)) return read_schedule_question(text, file, overrides, where, fold);
  Scenario scenario = parse_scenario(text, file, overrides);
  if (!where.topology.empty() || !where.device.empty())
    refuse(
        file,
        "is no schedule, and a scenario says itself what it runs on; change that by --set topology=NAME or "
        "--set device=NAME");
  return question_of(std::move(scenario), fold);
}

}  // namespace syncline
