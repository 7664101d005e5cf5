// Checks of expert layers: of a model, and of how they are spread and run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "sim/config/checks.hpp"
#include "sim/moe/counts_file.hpp"
#include "sim/pipeline/generator.hpp"

namespace syncline {
namespace {

class Refusals {
 public:
  Refusals(const ConfigNode& root, std::string_view prefix, ConfigErrors& errors)
      : root_(root), prefix_(prefix), errors_(errors) {}

  void add(std::string_view key, std::string_view why) {
    const std::string path = fmt::format("{}{}", prefix_, key);
    errors_.add(place_of(root_, path), fmt::format("\"{}\" {}", path, why));
  }

 private:
  const ConfigNode& root_;
  const std::string_view prefix_;
  ConfigErrors& errors_;
};

/// Groups of experts for node-limited routing.
void check_groups(const ExpertSpec& experts, Refusals& refuse) {
  if (experts.count % experts.groups != 0)
    return refuse.add("experts.groups",
                      fmt::format("is {}, which does not divide experts.count ({}); try {}", experts.groups,
                                  experts.count, divisors_near(experts.groups, experts.count)));
  if (experts.top_groups > experts.groups)
    return refuse.add("experts.top-groups", fmt::format("is {}, more than experts.groups ({}); lower it",
                                                        experts.top_groups, experts.groups));
  const int within_reach = experts.count / experts.groups * experts.top_groups;
  if (experts.groups > 1 && experts.top_k > within_reach)
    refuse.add("experts.top-groups",
               fmt::format("is {}, with {} experts together, fewer than experts.top-k ({}); raise it",
                           experts.top_groups, within_reach, experts.top_k));
}

}  // namespace

void check_experts(const ModelSpec& model, const ConfigNode& root, std::string_view prefix,
                   ConfigErrors& errors) {
  Refusals refuse(root, prefix, errors);
  if (model.window == 0 && model.window_every > 1)
    refuse.add("sliding-every", "says which layers have a window, and there is none; add sliding-window");
  if (!model.experts) return;
  const ExpertSpec& experts = *model.experts;
  if (experts.top_k > experts.count)
    refuse.add("experts.top-k",
               fmt::format("is {}, more experts than a layer has (experts.count {}); lower it", experts.top_k,
                           experts.count));
  // Likelihoods of uneven choices take so many numbers, a hundred times over for each layer.
  constexpr std::int64_t MostChoices = 1 << 18;
  if (const std::int64_t choices = std::int64_t{experts.count} * experts.top_k; choices > MostChoices)
    refuse.add("experts.top-k",
               fmt::format(
                   "is {}: experts.count × experts.top-k = {} × {} = {}, and at most {} are simulated; lower "
                   "one of them",
                   experts.top_k, experts.count, experts.top_k, choices, MostChoices));
  if (experts.dense_layers >= model.layers)
    refuse.add("experts.dense-layers",
               fmt::format("is {}, and the model has {} layers; lower it, or leave out experts",
                           experts.dense_layers, model.layers));
  else if (layers_of(model, LayerKind::Experts) == 0)
    refuse.add("experts.every", fmt::format("is {}, so that none of the {} layers has experts; lower it",
                                            experts.every, model.layers));
  if (experts.shared_gate && experts.shared_ffn == 0)
    refuse.add("experts.shared-gate", "scales shared experts, and there are none; add experts.shared-ffn");
  check_groups(experts, refuse);
}

namespace {

void check_spread(const Scenario& scenario, Refusals& refuse) {
  const TrainingJob& job = scenario.job;
  const ExpertSpec& experts = *job.model.experts;
  const ExpertOptions& options = job.shape.experts;
  if (experts.count % options.parallel != 0)
    return refuse.add(
        "parallel.ep",
        fmt::format("is {}, which does not divide model.experts.count ({}); try {}", options.parallel,
                    experts.count, divisors_near(options.parallel, experts.count)));
  constexpr double MostPairs = 1 << 24;
  if (1.0 * options.parallel * std::max(options.parallel, experts.count) > MostPairs)
    return refuse.add("parallel.ep",
                      fmt::format("is {}: with {} experts more than {:.0f} pairs of ranks, or of ranks "
                                  "and experts, in every layer; lower it",
                                  options.parallel, experts.count, MostPairs));
  if (experts.ffn % options.tensor != 0)
    return refuse.add("parallel.etp",
                      fmt::format("is {}, which does not divide model.experts.ffn ({}); try {}",
                                  options.tensor, experts.ffn, divisors_near(options.tensor, experts.ffn)));
  if (job.sharding.group > 0)
    return refuse.add("sharding.group",
                      "is of replicas of sets of shards, which experts do not have; leave it out");
  if (const auto reason = expert_refusal(job.degrees()))
    return refuse.add("parallel.ep", fmt::format("is {}: {}", options.parallel, *reason));
  if (job.shape.tensor_parallel > 1 && !job.shape.sequence_parallel)
    refuse.add("parallel.sequence-parallel",
               "is false, but each of the ranks that share a layer routes tokens of its own; set it to true");
}

/// That no rank sends an expert more than a copy of each of its tokens.
void check_counts(const TrainingJob& job, const moe::MeasuredCounts& counts, Refusals& refuse) {
  constexpr double Rounding = 1.01;  // of measured counts that are means
  const int k = job.model.experts->top_k;
  for (const int number : expert_layers(job.model)) {
    const int layer = number % counts.layers;
    for (int rank = 0; rank < counts.ranks; ++rank) {
      const auto sent = counts.sent(job.routing.step, layer, rank);
      const auto most = std::ranges::max_element(sent);
      const auto all = std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
      if (static_cast<double>(*most) * k <= static_cast<double>(all) * Rounding) continue;
      return refuse.add(
          "moe.routing",
          fmt::format(
              "has counts ({}) that cannot be: in layer {} rank {} sends {} of its {} copies to expert {}, "
              "but a token goes to {} different experts, so that one gets at most a share of 1/{}; set "
              "model.experts.top-k to that of the measurement, and count copies before any are dropped",
              counts.file, layer, rank, *most, all, most - sent.begin(), k, k));
    }
  }
}

/// What a routing names, against the model's experts.
void check_routing(const TrainingJob& job, Refusals& refuse) {
  const int count = job.model.experts->count;
  if (const auto* hot = std::get_if<moe::Hot>(&job.routing.routing); hot != nullptr && hot->experts >= count)
    refuse.add("moe.routing", fmt::format("has {} hot experts, but model.experts.count is {}; lower it",
                                          hot->experts, count));
  const auto* file = std::get_if<moe::FromFile>(&job.routing.routing);
  if (file == nullptr) return;
  if (file->counts->experts > count)
    return refuse.add(
        "moe.routing",
        fmt::format("has counts of {} experts ({}), but model.experts.count is {}; leave out the "
                    "others, or raise it",
                    file->counts->experts, file->counts->file, count));
  check_counts(job, *file->counts, refuse);
}

/// Keys of exchanges between ranks, where there are none.
/// @param several_nodes  whether all ranks together are on more than one
void check_exchange(const TrainingJob& job, bool several_nodes, Refusals& refuse) {
  const ExpertOptions& options = job.shape.experts;
  const bool alone = options.parallel == 1, gathers = options.dispatch == Dispatch::AllGather;
  const std::string_view why =
      alone ? "is of exchanges between ranks, and parallel.ep is 1; leave it out"
            : "is of exchanges by all-to-all, and moe.dispatch is all-gather; leave it out";
  if (!job.routing.library.empty() && (alone || gathers)) refuse.add("moe.library", why);
  if (options.overlap == ExpertOverlap::Batch && alone)
    refuse.add("moe.overlap",
               "is batch, which hides exchanges between ranks, and parallel.ep is 1; leave it out");
  const moe::ExpertGroup group = expert_group_of(job.model, job.shape, job.routing);
  const int in_node = job.routing.node_members;
  const bool by_nodes = options.dispatch == Dispatch::TwoHop || !job.routing.library.empty();
  if (by_nodes && in_node > 0 && in_node < group.ranks && group.ranks % in_node != 0)
    refuse.add("parallel.ep",
               fmt::format("is {}, with {} of them on a node, which does not divide it; moe.dispatch "
                           "two-hop and moe.library go by whole nodes; try {}",
                           group.ranks, in_node, multiples_near(group.ranks, in_node)));
  if (by_nodes && in_node > group.ranks && in_node % group.ranks != 0 && several_nodes)
    refuse.add(
        "parallel.ep",
        fmt::format("is {}, which does not divide the {} of them that a node has room for, so that some "
                    "groups lie on two nodes; moe.dispatch two-hop and moe.library go by whole nodes; try {}",
                    group.ranks, in_node,
                    divisors_near(group.ranks, std::gcd(in_node, job.model.experts->count))));
}

/// What a device has no room for, and a CUDA graph not.
void check_launch(const Scenario& scenario, Refusals& refuse) {
  const TrainingShape& shape = scenario.job.shape;
  const int units = scenario.device.gemm.units;
  if (units > 1 && shape.experts.units >= units)
    refuse.add("moe.units", fmt::format("is {}, and device {} has {}; leave some for compute",
                                        shape.experts.units, scenario.device.name, units));
  if (shape.experts.host_waits.value_or(false) && shape.graphs >= Graphs::WholeLayers)
    refuse.add("moe.host-waits",
               "is true, but a CUDA graph of whole layers has no room for a host that waits for counts; set "
               "graphs to attention-and-router, router or none, or leave it out");
}

void check_options(const Scenario& scenario, Refusals& refuse) {
  const TrainingJob& job = scenario.job;
  const ExpertOptions& options = job.shape.experts;
  check_routing(job, refuse);
  check_exchange(job, job.ranks() > scenario.topology.accelerators_per_node, refuse);
  check_launch(scenario, refuse);
  const ExpertSpec& experts = *job.model.experts;
  const double all = static_cast<double>(experts.count) / experts.top_k;
  if (options.capacity && *options.capacity > all)
    refuse.add("moe.capacity",
               fmt::format("is {}, more than all tokens for every expert, which is experts.count / "
                           "experts.top-k = {}; lower it, or leave it out",
                           *options.capacity, all));
  if (options.pad && !options.capacity)
    refuse.add("moe.pad", "fills experts up to their capacity, and there is none; add moe.capacity");
  if (job.routing.node_limited && job.model.experts->groups == 1)
    refuse.add("moe.node-limited",
               "goes by groups of experts, and the model has none; add model.experts.groups");
  if (options.overlap == ExpertOverlap::SharedExperts && job.model.experts->shared_ffn == 0)
    refuse.add("moe.overlap", "is shared-experts, and the model has none; set it to none or batch");
  const pipeline::Generator* generator = pipeline::find_generator(job.pipeline.schedule);
  const bool in_turn =
      job.pipelined() && generator != nullptr && (generator->fuses || generator->takes_paired);
  if (options.overlap == ExpertOverlap::Batch && !in_turn)
    refuse.add(
        "moe.overlap",
        "is batch, which needs a pipeline that runs a forward and a backward as one; set pipeline.schedule "
        "to 1f1b, interleaved-1f1b, dualpipe or dualpipe-v");
  if (job.shape.recompute == Recompute::SelectiveOp)
    refuse.add("recompute",
               "is selective-op, which is not simulated with experts; try selective, full or a list");
}

}  // namespace

void check_expert_job(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const TrainingJob& job = scenario.job;
  Refusals refuse(root, "", errors);
  if (job.model.experts) {
    check_spread(scenario, refuse);
    return check_options(scenario, refuse);
  }
  constexpr std::string_view None = "is of expert layers, and the model has none; leave it out";
  if (root.find("moe") != nullptr) refuse.add("moe", None);
  if (job.shape.experts.parallel > 1) refuse.add("parallel.ep", None);
  if (job.shape.experts.tensor > 1) refuse.add("parallel.etp", None);
}

}  // namespace syncline
