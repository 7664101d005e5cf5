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
          time_of(module.backward_weight, device)};
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

/// Layers are alike: each goes to the stage that is the least loaded with it.
std::vector<int> balanced(int layers, std::vector<Seconds> load, Seconds layer) {
  std::vector<int> counts(load.size());
  for (int i = 0; i < layers; ++i) {
    const auto least = std::ranges::min_element(load) - load.begin();
    load[static_cast<std::size_t>(least)] += layer;
    ++counts[static_cast<std::size_t>(least)];
  }
  return counts;
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

std::vector<Unit> units_of(const Stage& stage, const Modules& modules, bool copy_of_table) {
  std::vector<Unit> units;
  if (stage.embedding) units.push_back({Unit::Kind::Embedding, -1, modules.embedding.parameters});
  for (int i = 0; i < stage.count; ++i)
    units.push_back({Unit::Kind::Layer, stage.first + i, modules.layer.parameters});
  if (stage.head)
    units.push_back({Unit::Kind::Head, -1, modules.head.parameters + (copy_of_table ? modules.table : 0)});
  return units;
}

double parameters_of(const std::vector<Unit>& units) {
  double sum = 0;
  for (const Unit& unit : units) sum += unit.parameters;
  return sum;
}

pipeline::StageTimes times_of(const Stage& stage, const Modules& modules, const Device& device) {
  pipeline::StageTimes sum{Seconds(0), Seconds(0), Seconds(0)};
  const pipeline::StageTimes layer = times_of(modules.layer, device);
  for (int i = 0; i < stage.count; ++i) sum += layer;
  if (stage.embedding) sum += times_of(modules.embedding, device);
  if (stage.head) sum += times_of(modules.head, device);
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
  return balanced(job.model.layers, std::move(load), times_of(modules.layer, device).total());
}

std::optional<std::string> pipeline_refusal(const TrainingJob& job) {
  const PipelineOptions& options = job.pipeline;
  const pipeline::Generator& generator = generator_of(job);
  if (generator.placement == pipeline::Placement::Both)
    return fmt::format(
        "{} holds every stage on two ranks, which is not simulated with a model; try dualpipe-v",
        options.schedule);
  pipeline::Request request;
  request.ranks = job.pipeline_parallel;
  request.microbatches = job.gradient_accumulation;
  request.chunks = options.chunks;
  request.group_size = options.group_size;
  request.memory_limit = options.memory_limit;
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
