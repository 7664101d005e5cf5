#include "backends/simgrid/simgrid_backend.hpp"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

#include "backends/replay/replay.hpp"
#include "backends/simgrid/fluid_network.hpp"
#include "backends/simgrid/native_network.hpp"

namespace syncline {
namespace {

void check_native(const Cluster& cluster) {
  for (const Fault& fault : cluster.faults)
    if (fault.at && fault.part != Fault::Part::Accelerator)
      throw std::invalid_argument(
          fmt::format("\"{}\" fails within the step, and the links of SimGrid's native network stay "
                      "as they are; ask for the fluid network, or leave out \"at\"",
                      fault.name));
}

/// Parts of the network that are down or narrow from the start are no hindrance: the slowest of the siblings counts for all.
void check_fold(const Cluster& cluster) {
  if (!cluster.noise.none())
    throw std::invalid_argument(
        "with noise every rank is different, and none can stand for others; leave out noise, or "
        "do not fold");
  for (const Fault& fault : cluster.faults)
    if (fault.at || (fault.part == Fault::Part::Accelerator && !fault.down))
      throw std::invalid_argument(
          fmt::format("\"{}\" makes ranks of a role differ, so that none can stand for the others; "
                      "leave out that fault, or do not fold",
                      fault.name));
}

class SimgridBackend : public Backend {
 public:
  RunResult run(const Schedule& schedule, const Cluster& cluster, const RunOptions& options) override {
    const auto begin = std::chrono::steady_clock::now();
    const bool native = options.network == NetworkModel::Native;
    if (native && options.detail != Detail::Full)
      throw std::invalid_argument("SimGrid's native network carries plain flows only; ask for full detail");
    if (options.fold && options.detail != Detail::Aggregate)
      throw std::invalid_argument(
          "full detail plays every transfer of every rank and cannot be folded; ask for aggregate detail");
    if (native) check_native(cluster);
    if (options.fold) check_fold(cluster);
    const Cast cast = options.fold ? one_a_role(schedule) : everybody(schedule);
    const std::vector<BytesPerSecond> capacities = link_capacities(cluster.topology);
    std::unique_ptr<Network> network;
    if (native)
      network = std::make_unique<simgrid_backend::NativeNetwork>(capacities);
    else
      network = std::make_unique<simgrid_backend::FluidNetwork>(capacities, options.progress);
    RunResult result = replay(schedule, cluster, cast, options.detail, *network, options.timeline);
    result.engine.name =
        fmt::format("{}, {} network, {} detail", simgrid_version(), native ? "native" : "fluid",
                    options.detail == Detail::Full ? "full" : "aggregate");
    result.engine.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }
};

}  // namespace

std::unique_ptr<Backend> make_simgrid_backend() {
  return std::make_unique<SimgridBackend>();
}

std::string simgrid_version() {
  return simgrid_backend::simgrid_version();
}

}  // namespace syncline
