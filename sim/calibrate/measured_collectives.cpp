#include "sim/calibrate/measured_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/document.hpp"
#include "sim/core/error.hpp"

namespace syncline::calibrate {
namespace {

class SystemReader {
 public:
  explicit SystemReader(ConfigErrors& errors) : errors_(errors) {}

  MeasuredSystem system(const ConfigNode& node) {
    MeasuredSystem system;
    if (node.kind != ConfigNode::Kind::Map)
      return fail(node.mark, "expected a map with \"topology\" and \"when\""), system;
    for (const ConfigEntry& entry : node.entries) {
      if (entry.key == "topology")
        system.topology = text_of(entry);
      else if (entry.key == "leave-out")
        system.leave_out = text_of(entry);
      else if (entry.key == "because")
        static_cast<void>(text_of(entry));
      else if (entry.key == "fill-nodes")
        system.packing = text_of(entry) == "true" ? Packing::FillNodes : Packing::AsMeasured;
      else if (entry.key == "when")
        conditions(entry, system);
      else
        fail(entry.mark,
             unknown_name("key", entry.key, {"topology", "leave-out", "when", "fill-nodes", "because"}));
    }
    if (system.topology.empty() == system.leave_out.empty())
      fail(node.mark, "expected \"topology\" or \"leave-out\"");
    return system;
  }
  void fail(const ConfigMark& mark, std::string message) { errors_.add(mark.place(), std::move(message)); }

 private:
  void conditions(const ConfigEntry& entry, MeasuredSystem& system) {
    if (entry.value.kind != ConfigNode::Kind::Map) return fail(entry.mark, "\"when\": expected a map");
    for (const ConfigEntry& column : entry.value.entries) {
      try {
        system.when.emplace_back(column.key, std::regex(text_of(column), std::regex::icase));
      } catch (const std::regex_error& error) {
        fail(column.mark, fmt::format("is no regular expression: {}", error.what()));
      }
    }
  }
  std::string text_of(const ConfigEntry& entry) {
    if (entry.value.kind == ConfigNode::Kind::Scalar) return entry.value.text;
    fail(entry.mark, fmt::format("\"{}\": expected a text", entry.key));
    return "";
  }

  ConfigErrors& errors_;
};

}  // namespace

std::vector<MeasuredSystem> read_measured_systems(const std::string& file) {
  ConfigErrors errors;
  const ConfigNode root = read_yaml_file(file, errors);
  SystemReader reader(errors);
  std::vector<MeasuredSystem> systems;
  for (const ConfigEntry& entry : root.entries) {
    if (entry.key == "version") continue;
    if (entry.key != "systems" || entry.value.kind != ConfigNode::Kind::List) {
      reader.fail(entry.mark, "expected \"version\" and \"systems\", a list");
      continue;
    }
    for (const ConfigNode& item : entry.value.items) systems.push_back(reader.system(item));
  }
  errors.throw_if_any();
  return systems;
}

const MeasuredSystem* system_of(const std::vector<MeasuredSystem>& systems, const CsvTable& table,
                                std::size_t row) {
  const auto fits = [&](const MeasuredSystem& system) {
    return std::ranges::all_of(system.when, [&](const auto& condition) {
      return std::regex_search(table.has(condition.first) ? table.at(row, condition.first) : "",
                               condition.second);
    });
  };
  const auto found = std::ranges::find_if(systems, fits);
  return found == systems.end() ? nullptr : &*found;
}

std::optional<MeasuredPlace> place_of(const TopologySpec& spec, int ranks, int nodes, Packing packing) {
  const int capacity = spec.accelerators_per_node;
  if (packing == Packing::FillNodes) nodes = (ranks + capacity - 1) / capacity;
  const bool alone = std::holds_alternative<std::monostate>(spec.scale_out);
  if (nodes < 1 || ranks % nodes != 0 || ranks / nodes > capacity || (nodes > 1 && alone))
    return std::nullopt;
  MeasuredPlace place{{}, nodes};
  for (int node = 0; node < nodes; ++node)
    for (int i = 0; i < ranks / nodes; ++i)
      place.members.emplace_back(static_cast<std::uint32_t>(node * capacity + i));
  return place;
}

void refuse_single_ranks(const NcclLog& log) {
  const int single = single_rank_runs(log);
  if (single == 0) return;
  const auto run = std::ranges::find(log.runs, 1, &NcclRun::ranks);
  throw InputError(
      {{log.file, run->line, 0, ""},
       fmt::format(
           "{} separate run{} of 1 rank: nothing was communicated, so no cost can be taken from them; "
           "build nccl-tests with MPI=1, or give one process all GPUs with -g",
           single, single == 1 ? "" : "s")});
}

std::optional<CollectiveKind> collective_of(NcclOp op) {
  switch (op) {
    case NcclOp::AllReduce: return CollectiveKind::AllReduce;
    case NcclOp::AllGather: return CollectiveKind::AllGather;
    case NcclOp::ReduceScatter: return CollectiveKind::ReduceScatter;
    case NcclOp::AllToAll: return CollectiveKind::AllToAll;
    case NcclOp::SendReceive: return CollectiveKind::Shift;
    case NcclOp::Broadcast: return CollectiveKind::Broadcast;
    case NcclOp::Reduce: return CollectiveKind::Reduce;
    case NcclOp::Gather: return CollectiveKind::Gather;
    case NcclOp::Scatter: return CollectiveKind::Scatter;
    case NcclOp::Unknown: break;
  }
  return std::nullopt;
}

}  // namespace syncline::calibrate
