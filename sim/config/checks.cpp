#include "sim/config/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/topology/graph_error.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {
namespace {

// Counts of tiles stay exact whole numbers below these.
constexpr std::int64_t WidestProjection = 16777216;
constexpr std::int64_t MostTokens = 100'000'000'000;  // of a microbatch

// A step with more ops than this on one rank is more than memory holds.
constexpr std::int64_t MostMicrobatches = 10000;

/// One count that must divide another, both by their path below the block.
struct Division {
  std::string_view part;
  std::int64_t part_value;
  std::string_view whole;
  std::int64_t whole_value;
  std::string_view hint;  // a further way out
};

bool check_divides(const Division& d, const ConfigNode& root, std::string_view prefix, ConfigErrors& errors) {
  if (d.whole_value % d.part_value == 0) return true;
  const std::string path = fmt::format("{}{}", prefix, d.part);
  errors.add(place_of(root, path),
             fmt::format("\"{}\" is {}, which does not divide {}{} ({}); try {}{}", path, d.part_value,
                         prefix, d.whole, d.whole_value, divisors_near(d.part_value, d.whole_value), d.hint));
  return false;
}

/// Of an item of the list at that path; of the list, where the item has none.
Place place_of_item(const ConfigNode& root, const std::string& path, std::size_t index) {
  const ConfigNode* node = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const ConfigEntry* entry = node->find(path.substr(begin, end - begin));
    if (entry == nullptr) return place_of(root, path);
    node = &entry->value;
    begin = end + 1;
  }
  const bool known = index < node->items.size() && node->items[index].mark.source != nullptr;
  return known ? node->items[index].mark.place() : place_of(root, path);
}

}  // namespace

void check_model(const ModelSpec& model, const ConfigNode& root, std::string_view prefix,
                 ConfigErrors& errors) {
  check_divides({"kv-heads", model.kv_heads, "heads", model.heads, ""}, root, prefix, errors);
  check_latent(model, root, prefix, errors);
  check_experts(model, root, prefix, errors);
  if (model.head_size == 0 && !model.latent)
    check_divides({"heads", model.heads, "hidden", model.hidden, ", or give head-size"}, root, prefix,
                  errors);
  if (!model.output_projection && model.tied_embedding) {
    const std::string path = fmt::format("{}output-projection", prefix);
    errors.add(
        place_of(root, path),
        fmt::format("\"{}\" is false, but {}tied-embedding is true; leave out one of the two", path, prefix));
  }
  const std::int64_t width = std::int64_t{model.heads} * model.head_size;
  if (width > WidestProjection) {
    const std::string path = fmt::format("{}head-size", prefix);
    errors.add(place_of(root, path),
               fmt::format("\"{}\" is {}: with {} heads a projection {} wide, at most {} are simulated", path,
                           model.head_size, model.heads, width, WidestProjection));
  }
  const bool learned = model.position == Position::Learned;
  if (learned != (model.max_sequence > 0)) {
    const std::string path = fmt::format("{}{}", prefix, learned ? "position" : "max-sequence");
    errors.add(
        place_of(root, path),
        learned
            ? fmt::format("\"{}\" is learned, which needs the rows of its table; add max-sequence", path)
            : fmt::format("\"{}\" is of learned positions; leave it out, or set position to learned", path));
  }
}

std::optional<Topology> check_topology(const TopologySpec& topology, const ConfigNode& root,
                                       std::string_view prefix, ConfigErrors& errors) {
  const int count = topology.accelerators;
  const int per_node = topology.accelerators_per_node;
  if (!topology.graph && count % per_node != 0) {
    const std::string path = fmt::format("{}accelerators", prefix);
    errors.add(place_of(root, path),
               fmt::format("\"{}\" is {}, which is not a multiple of {}accelerators-per-node ({}); try {}",
                           path, count, prefix, per_node, multiples_near(count, per_node)));
    return std::nullopt;
  }
  if (topology.nic &&
      !check_divides({"nic.per-node", topology.nic->per_node, "accelerators-per-node", per_node, ""}, root,
                     prefix, errors))
    return std::nullopt;
  const std::string_view block = prefix.substr(0, prefix.find('.'));
  try {
    return build_topology(topology);
  } catch (const GraphError& error) {
    errors.add(place_of_item(root, fmt::format("{}graph.{}", prefix, error.list()), error.index()),
               error.what());
  } catch (const std::invalid_argument& error) {
    errors.add(place_of(root, block), error.what());
  }
  return std::nullopt;
}

void check_job(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const TrainingJob& job = scenario.job;
  if (job.model.position == Position::Learned && job.shape.sequence > job.model.max_sequence)
    errors.add(place_of(root, "batch.sequence"),
               fmt::format("\"batch.sequence\" is {}, more than model.max-sequence ({}); try {}",
                           job.shape.sequence, job.model.max_sequence, job.model.max_sequence));

  const std::int64_t tokens = std::int64_t{job.shape.microbatch} * job.shape.sequence;
  if (tokens > MostTokens)
    errors.add(
        place_of(root, "batch.sequence"),
        fmt::format("\"batch.sequence\" is {}: {} tokens a microbatch, at most {} are simulated; lower "
                    "it or batch.microbatch",
                    job.shape.sequence, tokens, MostTokens));

  const std::int64_t step = job.data_parallel * job.shape.microbatch;
  if (scenario.global_batch % step != 0)
    errors.add(
        place_of(root, "batch.global"),
        fmt::format("\"batch.global\" is {}, which is not a multiple of parallel.dp × batch.microbatch "
                    "({} × {} = {}); try {}",
                    scenario.global_batch, job.data_parallel, job.shape.microbatch, step,
                    multiples_near(scenario.global_batch, step)));
  else if (scenario.global_batch / step > MostMicrobatches)
    errors.add(place_of(root, "batch.global"),
               fmt::format("\"batch.global\" is {}: {} microbatches a step, at most {} are simulated; raise "
                           "batch.microbatch",
                           scenario.global_batch, scenario.global_batch / step, MostMicrobatches));

  check_shape(scenario, root, errors);
}

std::string multiples_near(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  return below == 0 ? fmt::format("{}", step) : fmt::format("{} or {}", below, below + step);
}

std::string divisors_near(std::int64_t value, std::int64_t whole) {
  std::int64_t below = 1;
  std::int64_t above = whole;
  for (std::int64_t i = 1; i * i <= whole; ++i) {
    if (whole % i != 0) continue;
    for (const std::int64_t divisor : {i, whole / i}) {
      if (divisor < value) below = std::max(below, divisor);
      if (divisor > value) above = std::min(above, divisor);
    }
  }
  return value > whole ? fmt::format("{}", whole) : fmt::format("{} or {}", below, above);
}

std::string in_keys(std::string reason, const KeyOfFlag& keys) {
  for (const auto& [flag, key] : keys) {
    const std::size_t at = reason.find(flag);
    if (at != std::string::npos) reason.replace(at, flag.size(), key);
  }
  return reason;
}

}  // namespace syncline
