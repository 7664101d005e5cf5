// Fully sharded data parallelism (ZeRO-3) as a schedule.
//
// Zhao et al., PyTorch FSDP, VLDB 2023 (arXiv 2304.11277); FSDP2 as torchtitan runs it (arXiv 2410.06511).
#pragma once

#include "sim/device/device.hpp"
#include "sim/model/model.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

struct FsdpOptions {
  int forward_prefetch = 1;         // gathers that may run ahead of the compute that needs them; 0: none
  int backward_prefetch = 1;
  int limit_all_gathers = 0;        // at most so many gathered layers at once, held by a wait of the host; 0: no limit
  bool reshard_after_forward = true;  // free a layer's full weights after its forward and gather them again
  Precision reduce_precision = Precision::Fp32;  // of gradients on the wire
};

struct TrainingJob {
  ModelSpec model;
  TrainingShape shape;
  int data_parallel = 1;
  int gradient_accumulation = 1;    // microbatches a step
  FsdpOptions fsdp;
};

/// One training step of every rank.
[[nodiscard]] Schedule fsdp_schedule(const TrainingJob& job, const Device& device);

}  // namespace syncline
