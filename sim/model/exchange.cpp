// The collectives of tensor parallelism.
#include <fmt/format.h>

#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// Of a stream `width` wide, of all tokens.
LayerCollective of_stream(const Slice& slice, double width, CollectiveKind kind, std::string_view part,
                          bool awaited = true) {
  return collective(LayerGroup::Tensor, kind, slice.tokens * width * slice.e, part, awaited);
}

bool runs_again(const Step& step, const TrainingShape& shape) {
  switch (shape.recompute) {
    case Recompute::None: return false;
    case Recompute::Selective: return step.again == Again::Core;
    case Recompute::SelectiveOp: return step.again == Again::Op;
    case Recompute::Full: return true;
    case Recompute::Modules: break;
  }
  const RecomputedModules& modules = shape.modules;
  if (step.again == Again::Core) return modules.core;
  switch (step.part) {
    case Part::Norm: return modules.norms;
    case Part::Activation: return modules.activation || modules.mlp;
    case Part::Mlp: return modules.mlp;
    case Part::Experts: return modules.experts;
    case Part::ExpertActivation: return modules.experts || modules.expert_activation;
    case Part::Shared: return modules.experts || modules.shared;
    case Part::SharedActivation: return modules.experts || modules.shared || modules.activation;
    case Part::Latent: return modules.latent;
    case Part::Other: break;
  }
  return false;
}

}  // namespace

LayerCollective collective(LayerGroup group, CollectiveKind kind, double bytes, std::string_view part,
                           bool awaited) {
  return {group, kind, Bytes(bytes), fmt::format("{}-{}", name_of(kind), part), awaited};
}

Step enter(const Slice& slice, double width, std::string_view part, Again again) {
  Step step{.again = again};
  if (slice.t == 1) return step;
  if (slice.sequence_parallel) {
    step.after_forward = of_stream(slice, width, CollectiveKind::AllGather, part);
    step.before_backward = of_stream(slice, width, CollectiveKind::ReduceScatter, part);
  } else {
    step.before_backward = of_stream(slice, width, CollectiveKind::AllReduce, part);
  }
  return step;
}

Step leave(const Slice& slice, std::string_view part, Again again) {
  Step step{.again = again};
  if (slice.t == 1) return step;
  if (slice.sequence_parallel) {
    step.after_forward = of_stream(slice, slice.hidden, CollectiveKind::ReduceScatter, part);
    step.before_backward = of_stream(slice, slice.hidden, CollectiveKind::AllGather, part);
  } else {
    step.after_forward = of_stream(slice, slice.hidden, CollectiveKind::AllReduce, part);
  }
  return step;
}

Step gather_again(const Slice& slice, double width, std::string_view part) {
  Step step{.again = Again::No};
  if (slice.sequence_parallel && !slice.frozen)
    step.before_backward =
        of_stream(slice, width, CollectiveKind::AllGather, fmt::format("{}-input", part), false);
  return step;
}

std::optional<LayerCollective> all_reduce_of_tokens(const Slice& slice, std::string_view part) {
  if (slice.t == 1) return std::nullopt;
  return collective(LayerGroup::Tensor, CollectiveKind::AllReduce, slice.tokens * Fp32, part);
}

namespace {

/// Kernels in a row that are in a graph are begun by one call.
void begin_graphs(std::vector<Kernel>& kernels) {
  int before = 1;
  for (Kernel& kernel : kernels) {
    const int own = kernel.launches;
    if (own == 0 && before != 0) kernel.launches = 1;
    before = own;
  }
}

/// The steps, with those of a graph marked.
std::vector<Step> captured(std::vector<Step> steps, Graphs graphs) {
  for (Step& step : steps) {
    if (graphs < step.graph) continue;
    for (auto* kernels : {&step.forward, &step.input, &step.weight})
      for (Kernel& kernel : *kernels) kernel.launches = 0;
  }
  return steps;
}

}  // namespace

ModuleCost cost_of(const std::vector<Step>& all, const TrainingShape& shape) {
  std::vector<Piece> forward, again, input;
  ModuleCost cost;
  const std::vector<Step> steps = shape.graphs == Graphs::None ? all : captured(all, shape.graphs);
  for (const Step& step : steps) {
    const std::vector<Piece> pieces{{step.forward, {}, step.by_tokens, step.ends_forward, step.by_load},
                                    {{}, step.after_forward}};
    forward.insert(forward.end(), pieces.begin(), pieces.end());
    if (runs_again(step, shape)) again.insert(again.end(), pieces.begin(), pieces.end());
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    input.push_back({{}, step->before_backward});
    input.push_back({step->input, {}, step->by_tokens, step->ends_input, step->by_load});
    input.push_back({{}, step->after_backward});
    append(step->by_load ? cost.expert_weight : cost.backward_weight, step->weight);
  }
  cost.forward = join(std::move(forward), shape.tensor_chunks);
  cost.recompute = join(std::move(again), shape.tensor_chunks);
  cost.backward_input = join(std::move(input), shape.tensor_chunks);
  if (shape.graphs == Graphs::None) return cost;
  for (auto* segments : {&cost.forward, &cost.recompute, &cost.backward_input})
    for (Segment& segment : *segments) begin_graphs(segment.kernels);
  for (auto* kernels : {&cost.expert_weight, &cost.backward_weight}) begin_graphs(*kernels);
  return cost;
}

}  // namespace syncline::transformer
