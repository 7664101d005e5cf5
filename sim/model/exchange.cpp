// The collectives of tensor parallelism, and segments between them.
#include <fmt/format.h>

#include <utility>

#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

LayerCollective collective(CollectiveKind kind, double bytes, std::string_view part, bool awaited = true) {
  return {LayerGroup::Tensor, kind, Bytes(bytes), fmt::format("{}-{}", name_of(kind), part), awaited};
}

/// Of the residual stream of all tokens.
LayerCollective of_stream(const Slice& slice, CollectiveKind kind, std::string_view part,
                           bool awaited = true) {
  return collective(kind, slice.whole() * slice.e, part, awaited);
}

/// Gathers kernels until a collective ends the segment.
class Segments {
 public:
  void add(const std::vector<Kernel>& kernels) { append(open_, kernels); }
  void add(const std::optional<LayerCollective>& then) {
    if (then) done_.push_back({std::exchange(open_, {}), then});
  }
  std::vector<Segment> take() {
    if (!open_.empty()) done_.push_back({std::move(open_), {}});
    return std::move(done_);
  }

 private:
  std::vector<Segment> done_;
  std::vector<Kernel> open_;
};

bool runs_again(Again again, Recompute recompute) {
  switch (recompute) {
    case Recompute::None:
      return false;
    case Recompute::Selective:
      return again == Again::Core;
    case Recompute::SelectiveOp:
      return again == Again::Op;
    case Recompute::Full:
      return true;
  }
  return false;
}

}  // namespace

Step enter(const Slice& slice, std::string_view part, Again again) {
  Step step{.again = again};
  if (slice.t == 1) return step;
  if (slice.sequence_parallel) {
    step.after_forward = of_stream(slice, CollectiveKind::AllGather, part);
    step.before_backward = of_stream(slice, CollectiveKind::ReduceScatter, part);
  } else {
    step.before_backward = of_stream(slice, CollectiveKind::AllReduce, part);
  }
  return step;
}

Step leave(const Slice& slice, std::string_view part, Again again) {
  Step step{.again = again};
  if (slice.t == 1) return step;
  if (slice.sequence_parallel) {
    step.after_forward = of_stream(slice, CollectiveKind::ReduceScatter, part);
    step.before_backward = of_stream(slice, CollectiveKind::AllGather, part);
  } else {
    step.after_forward = of_stream(slice, CollectiveKind::AllReduce, part);
  }
  return step;
}

Step gather_again(const Slice& slice, std::string_view part) {
  Step step{.again = Again::No};
  if (slice.sequence_parallel)
    step.before_backward = of_stream(slice, CollectiveKind::AllGather, fmt::format("{}-input", part), false);
  return step;
}

LayerCollective all_reduce_of_tokens(const Slice& slice, std::string_view part) {
  return collective(CollectiveKind::AllReduce, slice.tokens * Fp32, part);
}

ModuleCost cost_of(const std::vector<Step>& steps, Recompute recompute) {
  Segments forward, again, input;
  ModuleCost cost;
  for (const Step& step : steps) {
    forward.add(step.forward);
    forward.add(step.after_forward);
    if (!runs_again(step.again, recompute)) continue;
    again.add(step.forward);
    again.add(step.after_forward);
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    input.add(step->before_backward);
    input.add(step->input);
    append(cost.backward_weight, step->weight);
  }
  cost.forward = forward.take();
  cost.recompute = again.take();
  cost.backward_input = input.take();
  return cost;
}

}  // namespace syncline::transformer
