// Casts of weights that are made once a step, not with each product.
#pragma once

#include "sim/model/model.hpp"

namespace syncline {

/// Bytes read and written for each parameter to have it in the precision of the layers' products, both ways round; 0
/// where those have 16 bit or more, or weights are cast with each product (torchtitan). Of Megatron's layers: Transformer
/// Engine keeps what it cast in the first microbatch of a step (is_first_microbatch: Megatron-LM core_v0.16.0,
/// extensions/transformer_engine.py), and parameters that are in fp8 themselves are written so by the optimizer.
[[nodiscard]] double weight_cast_bytes(const ModelSpec& model, const TrainingShape& shape);

}  // namespace syncline
