// A transformer cut into virtual stages: what each computes, holds and reduces.
#pragma once

#include <array>
#include <vector>

#include "sim/pipeline/generator.hpp"
#include "sim/training/training.hpp"

namespace syncline {

/// Parameters of experts are held, reduced and updated apart from all others: by other ranks.
enum class Share : std::uint8_t { Dense, Experts };
inline constexpr std::array Shares{Share::Dense, Share::Experts};
/// On one rank.
struct ParameterCount {
  double dense = 0, experts = 0;

  [[nodiscard]] double of(Share share) const { return share == Share::Dense ? dense : experts; }
  ParameterCount& operator+=(const ParameterCount& more) {
    dense += more.dense;
    experts += more.experts;
    return *this;
  }
};

/// One module of a stage.
struct Unit {
  enum class Kind : std::uint8_t { Embedding, DenseLayer, ExpertLayer, Prediction, Head };
  Kind kind = Kind::DenseLayer;
  int layer = -1;               // of the model, extra predictions after it; −1: none
  ParameterCount parameters{};  // on one rank
};

/// A model's modules as they stand on one rank. Of a kind of layer that the model lacks, nothing.
struct Modules {
  ModuleCost embedding, dense_layer, expert_layer, head;
  ModuleCost prediction;  // an extra one
  double table;           // parameters of the embedding table, which a tied head uses too; on one rank
  explicit Modules(const TrainingJob& job);

  [[nodiscard]] const ModuleCost& layer(LayerKind kind) const {
    return kind == LayerKind::Dense ? dense_layer : expert_layer;
  }
  [[nodiscard]] const ModuleCost& of(Unit::Kind kind) const;
};

/// One virtual stage: layers [first, first + count), the embedding before the first, the head behind the
/// last, and there extra predictions.
struct Stage {
  int first = 0, count = 0;
  bool embedding = false, head = false;
};

[[nodiscard]] std::vector<Stage> cut_into_stages(const std::vector<int>& layers);

/// In order of forward. A tied head has the table's parameters too where it keeps a copy, the embedding being
/// elsewhere.
[[nodiscard]] std::vector<Unit> units_of(const Stage& stage, const ModelSpec& model, const Modules& modules,
                                         bool copy_of_table);
[[nodiscard]] ParameterCount parameters_of(const std::vector<Unit>& units);

/// Time of a stage's kernels for one microbatch, collectives aside.
[[nodiscard]] pipeline::StageTimes times_of(const Stage& stage, const ModelSpec& model,
                                            const Modules& modules, const Device& device);

}  // namespace syncline
