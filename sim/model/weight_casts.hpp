// Casts of weights that are made once a step, not with each product.
#pragma once

#include "sim/model/model.hpp"

namespace syncline {

/// Bytes read and written for each parameter to have it in the precision of the layers' products, both ways round; 0
/// where those have 16 bit or more, or weights are cast with each product (torchtitan, fsdp). Of Megatron's layers:
/// Transformer Engine keeps what it cast in the first microbatch of a step (is_first_microbatch: Megatron-LM
/// core_v0.16.0, extensions/transformer_engine.py), but nothing of weights that FSDP gathers (linear.py, is_fsdp2). Of
/// frozen weights nothing is counted, though they are cast, too.
[[nodiscard]] double weight_cast_bytes(const ModelSpec& model, const TrainingShape& shape);

}  // namespace syncline
