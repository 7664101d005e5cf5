// GPT models as Megatron-LM's papers run them.
#pragma once

#include "sim/model/model.hpp"

namespace syncline::test {

/// LayerNorm, GeLU of width 4h, learned positions, biases, tied embedding; V = 51200, s = 2048.
inline ModelSpec gpt(int layers, int hidden, int heads) {
  return {.name = "gpt",
          .source = {},
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocabulary = 51200,
          .tied_embedding = true,
          .norm = Norm::Layer,
          .activation = Activation::Gelu,
          .position = Position::Learned,
          .max_sequence = 2048,
          .bias = true};
}

/// 2048 tokens in 16 bit, Megatron-LM's fused kernels, unfused attention, dropout.
inline TrainingShape megatron_shape(int microbatch, int t) {
  return {.sequence = 2048,
          .microbatch = microbatch,
          .compute = Precision::Fp16,
          .fusion = Fusion::Compiled,
          .tensor_parallel = t,
          .attention = AttentionKernels::Unfused,
          .dropout = true};
}

}  // namespace syncline::test
