// Checks over several fields of a scenario, each with a value that would do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/config/document.hpp"
#include "sim/config/scenario.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// That the parts that faults name are there, and that the others can still reach each other.
void check_faults(const Scenario& scenario, const Topology& topology, const ConfigNode& root,
                  ConfigErrors& errors);

/// @param root    the file, for places
/// @param prefix  path of the block in it: "model." in a scenario, "" in a file of its own
void check_model(const ModelSpec& model, const ConfigNode& root, std::string_view prefix,
                 ConfigErrors& errors);
/// What latent attention leaves no room for; of check_model.
void check_latent(const ModelSpec& model, const ConfigNode& root, std::string_view prefix,
                  ConfigErrors& errors);
/// Expert layers, and windows of attention; of check_model.
void check_experts(const ModelSpec& model, const ConfigNode& root, std::string_view prefix,
                   ConfigErrors& errors);
/// How experts are spread over ranks and run; of check_parallel.
void check_expert_job(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors);
/// Builds the topology to see whether it can be built, when the counts fit; nullopt, and an error, when not.
std::optional<Topology> check_topology(const TopologySpec& topology, const ConfigNode& root,
                                       std::string_view prefix, ConfigErrors& errors);
/// Batch against ranks, sequence against model.
void check_job(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors);
/// Precisions against the device and each other, and how layers are run; of check_job.
void check_shape(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors);

/// What sharding allows; ranks of a replica, before there are data-parallel ones: no more than accelerators,
/// and a divisor of them where the file leaves parallel.dp open.
void check_replica(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors);
/// Ranks against accelerators, and what the model's shape allows.
void check_parallel(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors);
/// What the pipeline's schedule accepts, and the ops of a step.
/// @pre the job's gradient_accumulation is known
void check_pipeline(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors);

// --- values that would do, for messages ---

/// "56 or 64": the multiples of `step` on both sides of `value`.
[[nodiscard]] std::string multiples_near(std::int64_t value, std::int64_t step);
/// "4 or 8": the divisors of `whole` on both sides of `value`.
[[nodiscard]] std::string divisors_near(std::int64_t value, std::int64_t whole);

/// Flags of `syncline pipeline` with the keys that stand for them in a file.
using KeyOfFlag = std::vector<std::pair<std::string_view, std::string_view>>;
/// A schedule's reason in the words of a file: "try --microbatches 8" becomes "try pipeline.microbatches 8".
[[nodiscard]] std::string in_keys(std::string reason, const KeyOfFlag& keys);

}  // namespace syncline
