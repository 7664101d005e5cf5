// What expert layers do where a job does not say it.
#pragma once

#include "sim/model/model.hpp"

namespace syncline {

/// ExpertOptions::host_waits as given; else whether Megatron's layers wait for counts: not where experts are padded, nor
/// in CUDA graphs of whole layers, which have no room for it.
[[nodiscard]] bool host_waits(const ModelSpec& model, const TrainingShape& shape);
/// ExpertOptions::fused_router as given; else where kernels are compiled.
[[nodiscard]] bool fused_router(const TrainingShape& shape);

}  // namespace syncline
