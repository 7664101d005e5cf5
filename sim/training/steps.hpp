// The ops of a transformer's modules, in every direction.
#pragma once

#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/pipeline/lower.hpp"
#include "sim/sharding/expert_traffic.hpp"
#include "sim/sharding/groups.hpp"

namespace syncline {

using Steps = std::vector<pipeline::Step>;

void append(Steps& to, const Steps& more);

[[nodiscard]] pipeline::Step collective(FamilyId family, pipeline::StepStream stream, CollectiveKind kind,
                                        Bytes bytes, Phase phase, std::string name);

/// The works of a step, each kept once.
class Works {
 public:
  WorkId add(std::string name, std::vector<Kernel> kernels) {
    all_.push_back({std::move(name), std::move(kernels)});
    return WorkId(all_.size() - 1);
  }
  [[nodiscard]] const std::vector<Work>& all() const { return all_; }

 private:
  std::vector<Work> all_;
};

/// A module's steps in every direction, with the activations they take and give back; a layer's differ from
/// layer to layer by their tags alone.
class ModuleSteps {
 public:
  /// @param traffic  of the model's expert layers; null: it has none. Kept
  ModuleSteps(std::string name, const ModuleCost& cost, const Groups& groups, Works& works,
              const ExpertTraffic* traffic);

  /// @param layer  for the tags; −1: none
  [[nodiscard]] Steps steps(pipeline::ActionKind kind, int layer) const;

 private:
  [[nodiscard]] const Steps& of(pipeline::ActionKind kind) const;
  [[nodiscard]] Steps segments(Phase phase, std::string_view what, const std::vector<Segment>& segments,
                               const Groups& groups, Works& works) const;

  std::string name_;
  const ExpertTraffic* traffic_;
  Steps forward_, backward_, input_, weight_;
};

}  // namespace syncline
