#include "sim/training/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

Seconds time_of(const std::vector<Kernel>& kernels, const Device& device) {
  return work_time(Work{"", kernels}, device);
}

pipeline::StageTimes times_of(const ModuleCost& module, const Device& device) {
  return {time_of(kernels_of(module.forward), device),
          time_of(kernels_of(module.recompute), device) + time_of(kernels_of(module.backward_input), device),
          time_of(module.expert_weight, device) + time_of(module.backward_weight, device)};
}

pipeline::StageTimes& operator+=(pipeline::StageTimes& sum, const pipeline::StageTimes& more) {
  sum.forward += more.forward;
  sum.backward_input += more.backward_input;
  sum.backward_weight += more.backward_weight;
  return sum;
}

std::vector<int> even(int layers, int stages) {
  std::vector<int> counts(static_cast<std::size_t>(stages), layers / stages);
  for (int i = 0; i < layers % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

/// Layers that are alike: each goes to the stage that is the least loaded with it.
std::vector<int> balanced(int layers, std::vector<Seconds> load, Seconds layer) {
  std::vector<int> counts(load.size());
  for (int i = 0; i < layers; ++i) {
    const auto least = std::ranges::min_element(load) - load.begin();
    load[static_cast<std::size_t>(least)] += layer;
    ++counts[static_cast<std::size_t>(least)];
  }
  return counts;
}

/// Layers that differ: stages of layers in a row, the heaviest as light as can be. Stages take what fits under a bound,
/// which is searched among all sums of layers in a row.
std::vector<int> balanced(const std::vector<Seconds>& layers, const std::vector<Seconds>& load) {
  const auto fill = [&](Seconds bound) {
    std::vector<int> counts(load.size());
    std::size_t next = 0;
    for (std::size_t stage = 0; stage < load.size(); ++stage)
      for (Seconds sum = load[stage]; next < layers.size() && sum + layers[next] <= bound; ++next) {
        sum += layers[next];
        ++counts[stage];
      }
    return std::pair{next == layers.size(), counts};
  };
  std::vector<Seconds> bounds;
  for (std::size_t first = 0; first < layers.size(); ++first)
    for (const Seconds before : {Seconds(0), load.front(), load.back()}) {
      Seconds sum = before;
      for (std::size_t last = first; last < layers.size(); ++last) bounds.push_back(sum += layers[last]);
    }
  std::ranges::sort(bounds);
  const auto enough = std::ranges::partition_point(bounds, [&](Seconds bound) { return !fill(bound).first; });
  SYNCLINE_CHECK(enough != bounds.end(), "one stage takes all layers");
  return fill(*enough).second;
}

const pipeline::Generator& generator_of(const TrainingJob& job) {
  const pipeline::Generator* generator = pipeline::find_generator(job.pipeline.schedule);
  SYNCLINE_CHECK(generator != nullptr, "a known schedule");
  return *generator;
}

int stages_of(const TrainingJob& job) {
  const pipeline::Generator& generator = generator_of(job);
  const int chunks = job.pipeline.chunks > 0 ? job.pipeline.chunks : generator.default_chunks;
  return stage_count(generator, job.pipeline_parallel, chunks);
}

}  // namespace

std::vector<Stage> cut_into_stages(const std::vector<int>& layers) {
  std::vector<Stage> stages;
  int first = 0;
  for (const int count : layers) {
    stages.push_back({first, count, stages.empty(), stages.size() + 1 == layers.size()});
    first += count;
  }
  return stages;
}

Modules::Modules(const TrainingJob& job)
    : embedding(embedding_cost(job.model, job.shape)),
      head(head_cost(job.model, job.shape)),
      table(static_cast<double>(job.model.vocabulary) * job.model.hidden / job.shape.tensor_parallel) {
  if (layers_of(job.model, LayerKind::Dense) > 0)
    dense_layer = layer_cost(job.model, job.shape, LayerKind::Dense);
  if (job.model.experts) expert_layer = layer_cost(job.model, job.shape, LayerKind::Experts);
  if (job.model.extra_predictions > 0) prediction = prediction_cost(job.model, job.shape);
}

const ModuleCost& Modules::of(Unit::Kind kind) const {
  switch (kind) {
    case Unit::Kind::Embedding: return embedding;
    case Unit::Kind::DenseLayer: return dense_layer;
    case Unit::Kind::ExpertLayer: return expert_layer;
    case Unit::Kind::Prediction: return prediction;
    case Unit::Kind::Head: break;
  }
  return head;
}

std::vector<Unit> units_of(const Stage& stage, const ModelSpec& model, const Modules& modules,
                           bool copy_of_table) {
  std::vector<Unit> units;
  const auto add = [&](Unit::Kind kind, int layer) {
    const ModuleCost& module = modules.of(kind);
    units.push_back({kind, layer, {module.parameters, module.expert_parameters}});
  };
  if (stage.embedding) add(Unit::Kind::Embedding, -1);
  for (int layer = stage.first; layer < stage.first + stage.count; ++layer) {
    const bool dense = layer_kind(model, layer) == LayerKind::Dense;
    add(dense ? Unit::Kind::DenseLayer : Unit::Kind::ExpertLayer, layer);
  }
  if (!stage.head) return units;
  for (int i = 0; i < model.extra_predictions; ++i) add(Unit::Kind::Prediction, model.layers + i);
  add(Unit::Kind::Head, -1);
  if (copy_of_table) units.back().parameters.dense += modules.table;
  return units;
}

ParameterCount parameters_of(const std::vector<Unit>& units) {
  ParameterCount sum;
  for (const Unit& unit : units) sum += unit.parameters;
  return sum;
}

pipeline::StageTimes times_of(const Stage& stage, const ModelSpec& model, const Modules& modules,
                              const Device& device) {
  pipeline::StageTimes sum{Seconds(0), Seconds(0), Seconds(0)};
  const std::array layers{times_of(modules.dense_layer, device), times_of(modules.expert_layer, device)};
  for (int layer = stage.first; layer < stage.first + stage.count; ++layer)
    sum += layers[static_cast<std::size_t>(layer_kind(model, layer))];
  if (stage.embedding) sum += times_of(modules.embedding, device);
  if (!stage.head) return sum;
  for (int i = 0; i < model.extra_predictions; ++i) sum += times_of(modules.prediction, device);
  sum += times_of(modules.head, device);
  return sum;
}

std::vector<int> stage_layers(const TrainingJob& job, const Device& device) {
  const int stages = stages_of(job);
  switch (job.pipeline.split) {
    case StageSplit::Even: return even(job.model.layers, stages);
    case StageSplit::Listed: return job.pipeline.layers;
    case StageSplit::Balanced: break;
  }
  const Modules modules(job);
  std::vector<Seconds> load(static_cast<std::size_t>(stages));
  load.front() += times_of(modules.embedding, device).total();
  load.back() += times_of(modules.head, device).total();
  load.back() += times_of(modules.prediction, device).total() * job.model.extra_predictions;
  const int dense = layers_of(job.model, LayerKind::Dense);
  if (dense == 0 || dense == job.model.layers) {
    const LayerKind kind = layer_kind(job.model, 0);
    return balanced(job.model.layers, std::move(load), times_of(modules.layer(kind), device).total());
  }
  std::vector<Seconds> layers;
  for (int layer = 0; layer < job.model.layers; ++layer)
    layers.push_back(times_of(modules.layer(layer_kind(job.model, layer)), device).total());
  return balanced(layers, load);
}

std::optional<std::string> pipeline_refusal(const TrainingJob& job) {
  const PipelineOptions& options = job.pipeline;
  const pipeline::Generator& generator = generator_of(job);
  if (generator.placement == pipeline::Placement::Both && job.model.tied_embedding)
    return fmt::format(
        "{} has both ends of the model on one rank, twice, which is not simulated with a tied "
        "embedding; try dualpipe-v",
        options.schedule);
  if (job.mirrored() && (job.sharding.kind == DataSharding::Fsdp || job.reduces_every_microbatch()))
    return fmt::format(
        "{} has microbatches in another order on the two ranks of a stage, which reduce gradients "
        "together only when all have gone through; set sharding.kind to zero-1 or ddp",
        options.schedule);
  if (job.mirrored() && job.sharding.group > 0)
    return fmt::format("{} has one set of shards on both ranks of every stage; leave out sharding.group",
                       options.schedule);
  pipeline::Request request;
  request.ranks = job.pipeline_parallel;
  request.microbatches = job.gradient_accumulation;
  request.chunks = options.chunks;
  request.group_size = options.group_size;
  request.memory_limit = options.memory_limit;
  request.paired = job.shape.experts.overlap == ExpertOverlap::Batch && generator.takes_paired;
  if (const auto reason = refusal(generator, request)) return reason;
  const int stages = stages_of(job);
  if (stages > job.model.layers && options.split != StageSplit::Listed)
    return fmt::format("{} has {} virtual stages, more than the model has layers ({})", options.schedule,
                       stages, job.model.layers);
  if (options.split != StageSplit::Listed) return std::nullopt;
  const int listed = std::accumulate(options.layers.begin(), options.layers.end(), 0);
  if (options.layers.size() != static_cast<std::size_t>(stages) || listed != job.model.layers)
    return fmt::format("lists {} layers on {} virtual stages, but the model has {} and {} has {}", listed,
                       options.layers.size(), job.model.layers, options.schedule, stages);
  return std::nullopt;
}

}  // namespace syncline
