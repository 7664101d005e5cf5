// One collective at many sizes, in one group or in several at once: what `syncline collective` has simulated.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

struct CollectiveQuestion {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Algorithm algorithm = Algorithm::Auto;
  int chunks = 1;
  std::vector<std::vector<AcceleratorId>>
      groups;                // of equal size, no accelerator in two; all run at the same time
  std::vector<Bytes> sizes;  // one after another; the groups begin each size together
};

struct CollectiveRow {
  Bytes size;
  Seconds time;  // of the slowest group
  Algorithm algorithm = Algorithm::Auto;
  std::string protocol;        // empty where the topology has no figures for it
  std::vector<LinkUse> loads;  // bytes on each link, of all groups, by id
};

/// "ring Simple"
[[nodiscard]] std::string method_of(const CollectiveRow& row);
/// Bytes on a link over what it could carry in the row's time.
[[nodiscard]] double share_of(const LinkUse& load, const CollectiveRow& row, const Topology& topology);
/// The busiest link; null when nothing was loaded.
[[nodiscard]] const LinkUse* busiest_link(const CollectiveRow& row, const Topology& topology);

/// @throws std::invalid_argument when the algorithm cannot carry out the kind in such groups
[[nodiscard]] std::vector<CollectiveRow> run_collectives(const Topology& topology,
                                                         const CollectiveQuestion& question,
                                                         const RunOptions& options);

/// nccl-tests' sendrecv: each member sends all of a size to the next, and receives as much.
[[nodiscard]] std::vector<CollectiveRow> run_send_receive(const Topology& topology,
                                                          const std::vector<AcceleratorId>& members,
                                                          const std::vector<Bytes>& sizes,
                                                          const RunOptions& options);

}  // namespace syncline
