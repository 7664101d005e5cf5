// ZB-H2: no bubble at all at equal times, for twice the memory. Qi et al., Zero Bubble Pipeline Parallelism,
// ICLR 2024, section 2.2 and figure 3.
#include "sim/pipeline/schedules.hpp"
#include "sim/pipeline/zero_bubble.hpp"

namespace syncline::pipeline {
namespace {

/// From m ≥ 2p − 1 on the span of a rank has a bubble of (p − 1)·max(F + B − 2W, B − F, 0) without hop time
/// (the paper's (p − 1)(F + B − 2W) holds where that is the largest). Every rank holds 2p − 1 microbatches.
Order make(const Request& request) {
  return handcrafted_zero_bubble(request, 2);
}

}  // namespace

Generator zb_h2() {
  return {.name = "zb-h2",
          .title = "ZB-H2",
          .summary = "no bubble inside a rank's span at equal times; every rank holds 2p − 1 microbatches",
          .accepts = "any p, any m (the bubble closes from m ≥ 2p − 1 on)",
          .source = "Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024), section 2.2",
          .takes_weight_order = true,
          .make = make};
}

}  // namespace syncline::pipeline
