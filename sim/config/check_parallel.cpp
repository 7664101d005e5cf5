// Checks of how a training run is spread over ranks.
#include <fmt/format.h>

#include <numeric>

#include "sim/config/checks.hpp"
#include "sim/training/stages.hpp"

namespace syncline {
namespace {

constexpr double MostOps = 200e6;  // of a step, all ranks: about as many as memory holds

const KeyOfFlag Keys{{"--stages", "parallel.pp"},
                     {"--microbatches", "batch.global / (parallel.dp × batch.microbatch) ="},
                     {"--chunks", "pipeline.chunks"},
                     {"--group-size", "pipeline.group-size"},
                     {"--memory-limit", "pipeline.memory-limit"}};

bool stands_in(const ConfigNode& root, std::string_view block, std::string_view key) {
  const ConfigEntry* entry = root.find(block);
  return entry != nullptr && entry->value.find(key) != nullptr;
}

/// "tp × pp = 8 × 2 = 16", without what is 1.
std::string replica_text(const TrainingJob& job) {
  std::vector<std::string_view> names;
  std::vector<int> sizes;
  std::int64_t ranks = 1;
  const auto add = [&](std::string_view name, int size) {
    if (size == 1) return;
    names.push_back(name);
    sizes.push_back(size);
    ranks *= size;
  };
  add("tp", job.shape.tensor_parallel);
  add("cp", job.shape.context_parallel);
  add("pp", job.pipeline_parallel);
  if (names.empty()) return "tp = 1";
  if (names.size() == 1) return fmt::format("{} = {}", names.front(), ranks);
  return fmt::format("{} = {} = {}", fmt::join(names, " × "), fmt::join(sizes, " × "), ranks);
}

/// The key of the last axis that adds ranks to a replica.
std::string path_of_replica(const TrainingJob& job) {
  if (job.pipeline_parallel > 1) return "parallel.pp";
  return job.shape.context_parallel > 1 ? "parallel.cp" : "parallel.tp";
}

/// Each tensor-parallel rank has whole heads, and an equal part of the rest.
void check_tensor_parallel(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const ModelSpec& model = scenario.job.model;
  const TrainingShape& shape = scenario.job.shape;
  struct Part {
    std::string_view path;
    std::int64_t count;
  };
  std::vector<Part> parts{{"model.heads", model.heads},
                          {"model.kv-heads", model.kv_heads},
                          {"model.ffn", model.ffn},
                          {"model.vocabulary", model.vocabulary}};
  if (model.experts && model.experts->shared_ffn > 0)
    parts.push_back({"model.experts.shared-ffn", model.experts->shared_ffn});
  if (shape.sequence_parallel) parts.push_back({"batch.sequence", shape.sequence});
  std::int64_t common = 0;
  for (const Part& part : parts) common = std::gcd(common, part.count);
  const int ranks = shape.tensor_parallel;
  for (const Part& part : parts) {
    if (part.count % ranks == 0) continue;
    return errors.add(place_of(root, "parallel.tp"),
                      fmt::format("\"parallel.tp\" is {}, which does not divide {} ({}); try {}", ranks,
                                  part.path, part.count, divisors_near(ranks, common)));
  }
}

/// Each context-parallel rank has two chunks of the sequence, an equal part of them for each tensor-parallel rank
/// under sequence parallelism; with all-to-all, whole heads as well.
void check_context_parallel(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const ModelSpec& model = scenario.job.model;
  const TrainingShape& shape = scenario.job.shape;
  const std::int64_t ranks = shape.context_parallel, tensor = shape.tensor_parallel;
  if (ranks == 1) return;
  const auto refuse = [&](std::string_view what, std::int64_t divisor, std::string_view path,
                          std::int64_t whole) {
    errors.add(place_of(root, "parallel.cp"),
               fmt::format("\"parallel.cp\" is {}: {} = {} do not divide {} ({})", ranks, what, divisor, path,
                           whole));
  };
  const std::int64_t chunks = 2 * ranks * (shape.sequence_parallel ? tensor : 1);
  if (shape.sequence % chunks != 0)
    return refuse(shape.sequence_parallel ? "2 × cp × tp" : "2 × cp", chunks, "batch.sequence",
                  shape.sequence);
  if (shape.context_exchange != ContextExchange::AllToAll) return;
  if (model.heads % (tensor * ranks) != 0)
    return refuse("tp × cp", tensor * ranks, "model.heads", model.heads);
  if (model.kv_heads % (tensor * ranks) != 0)
    refuse("tp × cp", tensor * ranks, "model.kv-heads", model.kv_heads);
}

/// A set of shards is on some of the data-parallel ranks with all their context-parallel ones.
void check_shard_group(const TrainingJob& job, const ConfigNode& root, ConfigErrors& errors) {
  const std::int64_t group = job.sharding.group, context = job.shape.context_parallel;
  if (group == 0) return;
  const std::int64_t all = context * job.data_parallel;
  if (group == 1)
    return errors.add(place_of(root, "sharding.group"),
                      "\"sharding.group\" is 1, and nothing is sharded; set sharding.kind to ddp");
  if (all % group != 0)
    return errors.add(place_of(root, "sharding.group"),
                      fmt::format("\"sharding.group\" is {}, which does not divide {} ({}); try {}", group,
                                  context > 1 ? "parallel.cp × parallel.dp" : "parallel.dp", all,
                                  divisors_near(group, all)));
  if (group % context != 0)
    errors.add(place_of(root, "sharding.group"),
               fmt::format("\"sharding.group\" is {}, which is not a multiple of parallel.cp ({}); try {}",
                           group, context, multiples_near(group, context)));
}

/// Of what is gathered after the update, by ranks with experts.
void check_gather_by_optimizer(const TrainingJob& job, const ConfigNode& root, ConfigErrors& errors) {
  if (!job.sharding.gather_by_optimizer) return;
  if (job.sharding.overlap_gather)
    errors.add(place_of(root, "sharding.gather-by-optimizer"),
               "\"sharding.gather-by-optimizer\" is of what is gathered after the update, and "
               "sharding.overlap-gather gathers in the next step; leave one of them out");
  else if (!job.model.experts)
    errors.add(place_of(root, "sharding.gather-by-optimizer"),
               "\"sharding.gather-by-optimizer\" is of models with experts; leave it out");
}

double ops_of(const ModuleCost& cost) {
  double ops = cost.backward_weight.empty() ? 0 : 1;
  for (const auto* segments : {&cost.forward, &cost.recompute, &cost.backward_input})
    for (const Segment& segment : *segments)
      ops += (segment.kernels.empty() ? 0 : 1) + (segment.then ? 1 : 0);
  return ops;
}

/// Of a step over all ranks, about.
double ops_of(const TrainingJob& job) {
  constexpr double Gathers = 3;    // of a layer by fsdp: two gathers and a reduction
  constexpr double Transfers = 4;  // of a microbatch between two stages: sends and receives, both ways
  const Modules modules(job);
  const bool fsdp = !job.pipelined();
  const double boundaries = job.pipeline_parallel > 1 ? 1.0 * job.pipeline_parallel * job.pipeline.chunks : 0;
  double microbatch = ops_of(modules.embedding) + ops_of(modules.head) + Transfers * boundaries;
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Experts})
    microbatch += layers_of(job.model, kind) * (ops_of(modules.layer(kind)) + (fsdp ? Gathers : 0));
  return microbatch * job.gradient_accumulation * job.shape.tensor_parallel * job.shape.context_parallel *
         job.data_parallel;
}

}  // namespace

void check_replica(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const TrainingJob& job = scenario.job;
  const int accelerators = scenario.topology.accelerators;
  const std::int64_t replica =
      std::int64_t{job.shape.tensor_parallel} * job.shape.context_parallel * job.pipeline_parallel;
  const std::string path = path_of_replica(job);
  if (replica > accelerators)
    errors.add(
        place_of(root, path),
        fmt::format("\"{}\" is too large: {} ranks, more than topology.accelerators ({}); lower it, or set "
                    "topology.accelerators to {}",
                    path, replica_text(job), accelerators, replica));
  else if (accelerators % replica != 0 && !stands_in(root, "parallel", "dp"))
    errors.add(
        place_of(root, path),
        fmt::format("\"{}\": {} ranks do not divide topology.accelerators ({}); add parallel.dp, which says "
                    "how many are used (at most {})",
                    path, replica_text(job), accelerators, accelerators / replica));
}

void check_parallel(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const TrainingJob& job = scenario.job;
  const std::int64_t accelerators = scenario.topology.accelerators;
  const std::int64_t replica = job.model_parallel();
  const std::int64_t ranks = replica * job.data_parallel;
  if (ranks > accelerators && replica == 1)
    errors.add(
        place_of(root, "parallel.dp"),
        fmt::format("\"parallel.dp\" is {}, more ranks than topology.accelerators ({}); lower it, or set "
                    "topology.accelerators to {}",
                    job.data_parallel, accelerators, job.data_parallel));
  else if (ranks > accelerators)
    errors.add(place_of(root, "parallel.dp"),
               fmt::format(
                   "\"parallel.dp\" is {}: with {} that are {} ranks, more than topology.accelerators ({}); "
                   "try {}, or set topology.accelerators to {}",
                   job.data_parallel, replica_text(job), ranks, accelerators, accelerators / replica, ranks));
  check_tensor_parallel(scenario, root, errors);
  check_context_parallel(scenario, root, errors);
  check_shard_group(job, root, errors);
  check_gather_by_optimizer(job, root, errors);
  check_expert_job(scenario, root, errors);
}

void check_pipeline(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const TrainingJob& job = scenario.job;
  const auto reason = job.pipelined() ? pipeline_refusal(job) : std::nullopt;
  if (reason) {
    TrainingJob even = job;
    even.pipeline.split = StageSplit::Even;
    if (const auto of_counts = pipeline_refusal(even))
      return errors.add(
          place_of(root, root.find("pipeline") != nullptr ? "pipeline.schedule" : "parallel.pp"),
          in_keys(*of_counts, Keys));
    return errors.add(place_of(root, "pipeline.split"), fmt::format("\"pipeline.split\" {}", *reason));
  }
  // Folded, one rank of each role is simulated.
  const double alike = scenario.fold ? 1.0 * job.ranks() / job.pipeline_parallel : 1;
  const double ops = ops_of(job) / alike;
  if (ops > MostOps)
    errors.add(
        place_of(root, "batch.global"),
        fmt::format("\"batch.global\" is {}: about {:.2g} ops a step over all ranks, at most {:.2g} are "
                    "simulated; lower it or parallel.dp, or raise batch.microbatch{}",
                    scenario.global_batch, ops, MostOps, scenario.fold ? "" : ", or set run.fold to true"));
}

}  // namespace syncline
