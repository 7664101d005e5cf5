// The heuristic of the zero-bubble paper for one stage a rank, and the one for two stages a rank in V shape.
//
// Both put actions on the ranks in rounds, a forward and a backward a round, and fill idle time with weight
// gradients. Each is run under every combination of its rules; the first of the shortest span is the
// published answer.
//
// Sources: Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 3.1 and appendix; Qi et
// al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362); the authors' schedulers.
#pragma once

#include <vector>

#include "sim/pipeline/search/plan.hpp"

namespace syncline::pipeline::search {

struct ZbRules {
  bool idle_before_backward = true;  // no forward that would delay the first backward
  bool backward_first = true;        // no forward where it would delay a backward of the next rank
  bool fill_small_idle = true;       // a weight gradient even where the idle time is less than another rank's
};

/// One stage a rank. The plan is incomplete where memory does not suffice for these rules.
[[nodiscard]] Plan plan_zb(const Task& task, const ZbRules& rules);

struct ZbVRules {
  bool fill_before_backward = true;  // as above, before a backward of the first stage
  bool fill_before_forward = true;
};

/// Two stages a rank in V shape. Repeated with the idle time found as allowed from the start, while that
/// helps.
[[nodiscard]] Plan plan_zb_v(const Task& task, const ZbVRules& rules);

/// All combinations that are complete, in the published order.
[[nodiscard]] std::vector<Plan> plan_zb_all(const Task& task);
[[nodiscard]] std::vector<Plan> plan_zb_v_all(const Task& task);

}  // namespace syncline::pipeline::search
