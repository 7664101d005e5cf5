// A transformer cut into virtual stages: what each computes, holds and reduces.
#pragma once

#include <vector>

#include "sim/pipeline/generator.hpp"
#include "sim/training/training.hpp"

namespace syncline {

/// Embedding, layer and head as they stand on one rank.
struct Modules {
  ModuleCost embedding, layer, head;
  double table;  // parameters of the embedding table, which a tied head uses too; on one rank
  explicit Modules(const TrainingJob& job)
      : embedding(embedding_cost(job.model, job.shape)),
        layer(layer_cost(job.model, job.shape)),
        head(head_cost(job.model, job.shape)),
        table(static_cast<double>(job.model.vocabulary) * job.model.hidden / job.shape.tensor_parallel) {}
};

/// One virtual stage: layers [first, first + count), the embedding before the first, the head behind the
/// last.
struct Stage {
  int first = 0, count = 0;
  bool embedding = false, head = false;
};

[[nodiscard]] std::vector<Stage> cut_into_stages(const std::vector<int>& layers);

/// One module of a stage.
struct Unit {
  enum class Kind : std::uint8_t { Embedding, Layer, Head };
  Kind kind = Kind::Layer;
  int layer = -1;         // of the model; −1: none
  double parameters = 0;  // on one rank
};

/// In order of forward. A tied head has the table's parameters too where it keeps a copy, the embedding being
/// elsewhere.
[[nodiscard]] std::vector<Unit> units_of(const Stage& stage, const Modules& modules, bool copy_of_table);
[[nodiscard]] double parameters_of(const std::vector<Unit>& units);

/// Time of a stage's kernels for one microbatch, collectives aside.
[[nodiscard]] pipeline::StageTimes times_of(const Stage& stage, const Modules& modules, const Device& device);

}  // namespace syncline
