#include "sim/training/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

using pipeline::ActionKind;
using pipeline::Step;
using pipeline::StepStream;

/// Takes bytes with the first step and gives some back (below zero) with the last.
void hold(Steps& steps, Bytes taken, Bytes given_back) {
  if (steps.empty()) return;
  if (taken > Bytes(0)) steps.front().memory.push_back({MemoryCategory::Activations, taken});
  if (given_back != Bytes(0)) steps.back().memory.push_back({MemoryCategory::Activations, given_back});
}

struct Place {
  std::optional<FamilyId> family;
  StepStream stream;
};
Place place_of(LayerGroup group, const Groups& groups) {
  switch (group) {
    case LayerGroup::Tensor: return {groups.tensor, StepStream::Tensor};
    case LayerGroup::Context: return {groups.context, StepStream::Context};
    case LayerGroup::Expert: return {groups.expert, StepStream::Expert};
    case LayerGroup::ExpertTensor: break;
  }
  return {groups.expert_tensor, StepStream::Tensor};
}

/// With the first op of experts, or the last.
void hold_by_load(Steps& steps, Bytes taken, Bytes given_back) {
  const auto loaded = [](const Step& step) { return step.load.has_value(); };
  const auto first = std::ranges::find_if(steps, loaded);
  if (first == steps.end()) return;
  if (taken > Bytes(0)) first->memory.push_back({MemoryCategory::Activations, taken, true});
  const auto last = std::find_if(steps.rbegin(), steps.rend(), loaded);
  if (given_back < Bytes(0)) last->memory.push_back({MemoryCategory::Activations, given_back, true});
}

Step between_kernels(const LayerCollective& what, Phase phase, const Groups& groups) {
  const Place place = place_of(what.group, groups);
  SYNCLINE_CHECK(place.family, "a collective between kernels has a group of ranks");
  Step step = collective(*place.family, place.stream, what.kind, what.bytes, phase, what.name);
  step.awaited = what.awaited;
  step.host_waits = what.host_waits;
  if (what.way == TokenWay::None) return step;
  auto& exchange = std::get<Collective>(step.body);
  exchange.exchange = ExpertTraffic::AnyExchange;
  exchange.back = what.way == TokenWay::Back;
  return step;
}

}  // namespace

void append(Steps& to, const Steps& more) {
  to.insert(to.end(), more.begin(), more.end());
}

Step collective(FamilyId family, StepStream stream, CollectiveKind kind, Bytes bytes, Phase phase,
                std::string name) {
  Step step;
  step.body = Collective{kind, family, Algorithm::Auto, bytes};
  step.stream = stream;
  step.tag = {phase, -1, -1, -1, std::move(name)};
  return step;
}

ModuleSteps::ModuleSteps(std::string name, const ModuleCost& cost, const Groups& groups, Works& works,
                         const ExpertTraffic* traffic)
    : name_(std::move(name)), traffic_(traffic) {
  const Bytes saved = cost.saved - cost.saved_by_load, during = saved + cost.transient;
  forward_ = segments(Phase::Forward, "", cost.forward, groups, works);
  hold(forward_, saved, Bytes(0));
  hold_by_load(forward_, cost.saved_by_load, Bytes(0));

  Steps input = segments(Phase::BackwardInput, "recompute", cost.recompute, groups, works);
  append(input, segments(Phase::BackwardInput, "", cost.backward_input, groups, works));
  Steps weight = segments(Phase::BackwardWeight, "weight",
                          {{cost.expert_weight, std::nullopt, true}, {cost.backward_weight, std::nullopt}},
                          groups, works);

  backward_ = input;
  append(backward_, weight);
  for (Step& step : backward_) step.tag.phase = Phase::Backward;
  hold(backward_, cost.transient, -during);
  hold_by_load(backward_, Bytes(0), -cost.saved_by_load);
  input_ = std::move(input);
  weight_ = std::move(weight);
  const Bytes kept = input_.empty() ? during : weight_.empty() ? Bytes(0) : cost.kept_for_weight;
  hold(input_, cost.transient, kept - during);
  hold_by_load(input_, Bytes(0), -cost.saved_by_load);
  hold(weight_, input_.empty() ? cost.transient : Bytes(0), -kept);
}

Steps ModuleSteps::steps(ActionKind kind, int layer) const {
  Steps steps = of(kind);
  for (Step& step : steps) {
    step.tag.layer = layer;
    if (traffic_ == nullptr) continue;
    traffic_->place(layer, step.load);
    if (!step.load)
      for (MemoryEffect& effect : step.memory) effect.by_load = false;
    if (auto* exchange = std::get_if<Collective>(&step.body)) traffic_->place(layer, *exchange);
  }
  return steps;
}

const Steps& ModuleSteps::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::Forward: return forward_;
    case ActionKind::Backward: return backward_;
    case ActionKind::BackwardInput: return input_;
    case ActionKind::BackwardWeight: break;
  }
  return weight_;
}

/// Kernels and collectives in turn: "layer", "layer.2"; "layer-recompute"; of experts "experts".
Steps ModuleSteps::segments(Phase phase, std::string_view what, const std::vector<Segment>& segments,
                            const Groups& groups, Works& works) const {
  const auto named = [what](std::string_view name) {
    return what.empty() ? std::string(name) : fmt::format("{}-{}", name, what);
  };
  std::map<std::string, int> count;
  Steps steps;
  for (const Segment& segment : segments) {
    if (!segment.kernels.empty()) {
      const std::string name = named(segment.by_load ? "experts" : name_);
      const int number = ++count[name];
      const std::string numbered = number > 1 ? fmt::format("{}.{}", name, number) : name;
      Step step;
      step.body = Compute{works.add(fmt::format("{}-{}", numbered, name_of(phase)), segment.kernels)};
      step.tag = {phase, -1, -1, -1, numbered};
      if (segment.by_load) step.load = ExpertTraffic::AnyLoad;
      steps.push_back(std::move(step));
    }
    if (segment.then) steps.push_back(between_kernels(*segment.then, phase, groups));
  }
  return steps;
}

}  // namespace syncline
