// One interface over everything that can run a schedule.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/device/cluster.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/result.hpp"

namespace syncline {

/// How closely collectives are simulated. Full: every transfer of every round is a flow. Aggregate: a collective is one
/// action over all its links (all-to-all: one a source rank), with the number of member flows as coefficient.
enum class Detail : std::uint8_t { Full, Aggregate };
/// Which network model answers: ours (max-min fluid), or SimGrid's own, the reference.
enum class NetworkModel : std::uint8_t { Fluid, Native };

struct RunOptions {
  Detail detail = Detail::Aggregate;
  NetworkModel network = NetworkModel::Fluid;
  /// The lowest rank of each role plays for all of its ranks (sim/schedule/fold.hpp has the conditions). Needs
  /// aggregate detail.
  bool fold = false;
  /// Without it the result's timeline is empty, and its metrics unknown: for those who want step time and memory only.
  bool timeline = true;
  /// Called now and then while the fluid network runs. It must not change the run.
  std::function<void(double simulated_seconds, std::uint64_t events)> progress = {};
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Runs a schedule that passed check_schedule().
  /// @throws std::invalid_argument when it needs something that the cluster lacks (more ranks than accelerators, a
  ///         precision without a figure), or cannot be folded
  [[nodiscard]] virtual RunResult run(const Schedule& schedule, const Cluster& cluster,
                                      const RunOptions& options) = 0;
};

}  // namespace syncline
