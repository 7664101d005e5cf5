// Which topology of the catalogue a row of a table of measured collectives belongs to, as a data file says it:
//
//   systems:
//     - topology: polaris
//       when: {gpu: "A100-40GB", inter_network: Slingshot}   # columns of the table: regular expressions, case aside
//       fill-nodes: true    # ranks fill the topology's nodes, whatever the rows call a node
//     - leave-out: the network is not stated                 # in place of `topology`: why such rows are not predicted
//       when: {inter_network: "not stated"}
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "sim/calibrate/fabric_fit.hpp"

namespace syncline::calibrate {

struct MeasuredSystem {
  std::string topology;                                  // name in the catalogue; empty:
  std::string leave_out;                                 // why such rows are not predicted
  std::vector<std::pair<std::string, std::regex>> when;  // column and what it must hold; all of them
  Packing packing = Packing::AsMeasured;
};

/// In order: the first that fits a row counts.
/// @throws InputError with the place of whatever is wrong
[[nodiscard]] std::vector<MeasuredSystem> read_measured_systems(const std::string& file);

/// Null when none fits. A column that the table lacks is blank.
[[nodiscard]] const MeasuredSystem* system_of(const std::vector<MeasuredSystem>& systems,
                                              const CsvTable& table, std::size_t row);

/// The accelerators that `ranks` measured ranks are: the first of each of `nodes` nodes, or whole nodes.
struct MeasuredPlace {
  std::vector<AcceleratorId> members;
  int nodes = 0;  // of the topology
};
/// Nothing when the topology cannot hold them.
[[nodiscard]] std::optional<MeasuredPlace> place_of(const TopologySpec& spec, int ranks, int nodes,
                                                    Packing packing);

/// @throws InputError when a run is of a single rank: nothing was communicated
void refuse_single_ranks(const NcclLog& log);

/// The kind that an op of nccl-tests is; Shift for sendrecv; nothing for an unknown one.
[[nodiscard]] std::optional<CollectiveKind> collective_of(NcclOp op);

}  // namespace syncline::calibrate
