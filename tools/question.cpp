#include "tools/question.hpp"

#include <fmt/format.h>

#include <fstream>

#include "sim/schedule/check.hpp"
#include "sim/schedule/text.hpp"
#include "sim/sharding/fsdp.hpp"

namespace syncline {
namespace {

constexpr std::size_t LargestScheduleFile = std::size_t{1} << 30;

[[noreturn]] void refuse(const std::string& file, const std::string& message) {
  throw InputError({{file, 0, 0, ""}, message});
}

void check_sound(const Schedule& schedule, const std::string& file) {
  std::vector<Diagnostic> wrong;
  for (const std::string& message : check_schedule(schedule)) wrong.push_back({{file, 0, 0, ""}, message});
  if (!wrong.empty()) throw InputError(std::move(wrong));
}

Cluster cluster_for(const Schedule& schedule, const TopologySpec& topology, Device device) {
  return {build_topology(topology), std::move(device), placement_in_order(schedule.world_size())};
}

Question read_schedule_question(const std::string& file, const std::vector<Override>& overrides,
                                const ScheduleCluster& where) {
  if (!overrides.empty()) refuse(file, "is a schedule; --set changes scenarios only");
  if (where.topology.empty())
    refuse(file,
           "is a schedule, which does not say what it runs on; add --topology with a name or file, such as "
           "--topology dgx-h100");
  Schedule schedule = read_schedule(read_text_file(file, LargestScheduleFile), file);
  check_sound(schedule, file);
  const TopologySpec topology = load_topology(where.topology);
  if (schedule.world_size() > static_cast<std::size_t>(topology.accelerators))
    refuse(file, fmt::format("has {} ranks, more than the {} accelerators of topology {}; give a larger one",
                             schedule.world_size(), topology.accelerators, topology.name));
  Cluster cluster =
      cluster_for(schedule, topology, load_device(where.device.empty() ? "ideal" : where.device));
  return {file, std::nullopt, std::move(schedule), std::move(cluster)};
}

}  // namespace

Schedule make_schedule(const Scenario& scenario) {
  Schedule schedule = fsdp_schedule(scenario.job, scenario.device);
  schedule.name = scenario.name;
  return schedule;
}

bool is_schedule_file(const std::string& file) {
  std::string start(ScheduleTextHeader.size(), '\0');
  std::ifstream stream(file, std::ios::binary);
  return stream.read(start.data(), static_cast<std::streamsize>(start.size())) && start == ScheduleTextHeader;
}

Question read_question(const std::string& file, const std::vector<Override>& overrides,
                       const ScheduleCluster& where) {
  if (is_schedule_file(file)) return read_schedule_question(file, overrides, where);
  Scenario scenario = load_scenario(file, overrides);
  if (!where.topology.empty() || !where.device.empty())
    refuse(
        file,
        "is no schedule, and a scenario says itself what it runs on; change that by --set topology=NAME or "
        "--set device=NAME");
  Schedule schedule = make_schedule(scenario);
  const std::vector<std::string> wrong = check_schedule(schedule);
  SYNCLINE_CHECK(wrong.empty(), "the schedule made from " + file + " is not sound: " + wrong.front());
  Cluster cluster = cluster_for(schedule, scenario.topology, scenario.device);
  return {file, std::move(scenario), std::move(schedule), std::move(cluster)};
}

}  // namespace syncline
