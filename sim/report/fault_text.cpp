#include "sim/report/fault_text.hpp"

#include <fmt/format.h>

#include <vector>

#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

constexpr std::size_t NameColumns = 30;

std::string counted(std::size_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

// "down", "at 25.0 % of its bandwidth", "1.5 times slower"; and since when.
std::string state_of(const Fault& fault) {
  std::string state = "down";
  if (!fault.down)
    state = fault.part == Fault::Part::Accelerator
                ? fmt::format("{:g} times slower", fault.slowdown)
                : fmt::format("at {} of its bandwidth", percent(fault.bandwidth));
  if (fault.at) state += " from " + to_text(*fault.at);
  if (fault.down && fault.at) state += fmt::format(", rerouted after {}", to_text(fault.reroute));
  return state;
}

std::string effect_of(const FaultEffect& effect, const RunSummary& run) {
  const Fault& fault = effect.fault;
  if (fault.at && *fault.at >= run.step_time) return "after the step";
  if (fault.part == Fault::Part::Accelerator && fault.down) return "holds no rank";
  if (fault.part == Fault::Part::Accelerator)
    return effect.rank ? fmt::format("rank {}", effect.rank->value()) : "holds no rank";
  const std::string links = counted(effect.links, "link");
  return fault.down && fault.at ? fmt::format("{}, {} rerouted", links, counted(effect.rerouted, "flow"))
                                : links;
}

std::string noise_text(const RunSummary& run) {
  std::vector<std::string> parts;
  if (run.noise.compute > 0) parts.push_back("compute " + percent(run.noise.compute));
  if (run.noise.latency > 0) parts.push_back("latency " + percent(run.noise.latency));
  return fmt::format("\nNoise (standard deviation ÷ mean, lognormal): {}; seed {}\n", fmt::join(parts, ", "),
                     run.context.seed.value_or(0));
}

}  // namespace

std::string_view name_of(Fault::Part part) {
  switch (part) {
    case Fault::Part::Link: return "link";
    case Fault::Part::Nic: return "nic";
    case Fault::Part::Switch: return "switch";
    case Fault::Part::Accelerator: return "accelerator";
  }
  return "";
}

std::string fault_table(const RunSummary& run) {
  std::string text;
  if (!run.faults.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const FaultEffect& effect : run.faults)
      rows.push_back(
          {clipped(effect.fault.name, NameColumns), state_of(effect.fault), effect_of(effect, run)});
    text += "\nFaults\n" + aligned(rows, "lll");
    if (run.detours > 0)
      text += fmt::format("  {} of the pairs of ranks talk by another route\n", percent(run.detours));
    if (run.ranks_moved > 0)
      text += fmt::format(
          "  {} not on the accelerator of {} number: nodes or accelerators that are down hold none\n",
          run.ranks_moved == 1 ? "1 rank is" : fmt::format("{} ranks are", run.ranks_moved),
          run.ranks_moved == 1 ? "its" : "their");
  }
  if (!run.noise.none()) text += noise_text(run);
  return text;
}

}  // namespace syncline
