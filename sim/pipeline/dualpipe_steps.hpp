// The eight steps that DualPipe and DualPipeV share.
#pragma once

#include "sim/pipeline/rank_writer.hpp"

namespace syncline::pipeline {

/// The order of a rank with a near virtual stage (close to where its microbatches come in) and a far one. In
/// DualPipe the two belong to opposite directions, in DualPipeV to the two legs of a V.
///
/// DeepSeek-V3 (arXiv 2412.19437), section 3.2.1 and figure 5; the steps follow DeepSeek's public DualPipe.
/// @param depth         P ranks from an end to the turning point: p/2, or p in a V
/// @param position      of the rank, from 0 at the end to P − 1 at the turning point
/// @param microbatches  of each lane, ≥ 2P
[[nodiscard]] RankOrder dualpipe_steps(int depth, int position, int microbatches, Lane near, Lane far);

}  // namespace syncline::pipeline
