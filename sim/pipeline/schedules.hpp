// Every generator, a file each. The name of the function is that of the schedule.
#pragma once

#include "sim/pipeline/generator.hpp"

namespace syncline::pipeline {

Generator naive();
Generator gpipe();
Generator one_forward_one_backward();
Generator interleaved_1f1b();
Generator looped_bfs();
Generator zb_h1();
Generator zb_h2();
Generator interleaved_zb();
Generator one_forward_one_backward_v();
Generator zb_v_handcrafted();
Generator v_half();
Generator v_min();
Generator dualpipe();
Generator dualpipe_v();
// Searched: the order depends on the times.
Generator zb_auto();
Generator zb_v();
Generator v_search();

}  // namespace syncline::pipeline
