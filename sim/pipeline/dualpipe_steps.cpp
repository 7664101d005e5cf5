#include "sim/pipeline/dualpipe_steps.hpp"

namespace syncline::pipeline {

RankOrder dualpipe_steps(int depth, int position, int microbatches, Lane near, Lane far) {
  const int behind = depth - 1 - position;  // ranks between here and the turning point
  const int here = position + 1;
  RankWriter writer;

  // 1: fill the pipeline behind.
  for (int k = 0; k < 2 * behind; ++k) writer.forward(near);
  // 2: both lanes forward.
  for (int k = 0; k < here; ++k) {
    writer.forward(near);
    writer.forward(far);
  }
  // 3: the first gradients of the far lane; W at once, while the next forward is on its way.
  for (int k = 0; k < behind; ++k) {
    writer.backward_input(far);
    writer.weight();
    writer.forward(far);
  }
  // 4, the main step: a forward of either lane together with a backward of the other. At the turning point
  // the first pair is not fused, as its backward would delay the forward that the same pair waits for.
  for (int k = 0; k < microbatches - 2 * depth + here; ++k) {
    if (k == 0 && behind == 0) {
      writer.forward(near);
      writer.backward(far);
    } else {
      writer.fused(near, far);
    }
    writer.fused(far, near);
  }
  // 5: no forwards are left in the near lane.
  for (int k = 0; k < behind; ++k) {
    writer.backward(far);
    writer.fused(far, near);
  }
  // 6: backwards of both; from the middle on (half a pair earlier on odd ranks) only I.
  const auto late_backward = [&](Lane& lane, bool split) {
    split ? writer.backward_input(lane) : writer.backward(lane);
  };
  for (int k = 0; k < here; ++k) {
    late_backward(far, k > here / 2 || (k == here / 2 && position % 2 == 1));
    late_backward(near, k >= here / 2);
  }
  // 7: what is left of the near lane, with the weight gradients held back in between.
  for (int k = 0; k < behind; ++k) {
    writer.weight();
    writer.backward_input(near);
  }
  // 8: the rest of the weight gradients.
  writer.all_weights();
  return writer.finish();
}

}  // namespace syncline::pipeline
