#include "sim/config/kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sim/pipeline/generator.hpp"

namespace syncline {
namespace {

using Keys = std::vector<std::string_view>;

const Keys TrainingKeys{"device",     "model",   "parallel",  "batch",   "precision",      "sharding",
                        "recompute",  "kernels", "attention", "dropout", "implementation", "weight-gradients",
                        "fused-loss", "graphs",  "frozen",    "moe"};
const Keys TrainingPipelineKeys{"scatter-gather", "split"};
const Keys TextbookPipelineKeys{"stages",         "microbatches",    "order",       "csv", "forward",
                                "backward-input", "backward-weight", "fused",       "hop", "bytes",
                                "bandwidth",      "memory",          "weight-order"};
const Keys MadeOrderKeys{"schedule", "chunks", "group-size", "memory-limit", "memory", "weight-order"};
const Keys UnpipedFsdpKeys{"backward-prefetch", "limit-all-gathers", "reshard-after-forward"};

/// Keys of `sharding` that not every kind has, and the kinds that do.
struct KindsOfKey {
  std::string_view key;
  Keys kinds;
};
const std::vector<KindsOfKey> ShardingKeys{{"forward-prefetch", {"fsdp"}},
                                           {"backward-prefetch", {"fsdp"}},
                                           {"limit-all-gathers", {"fsdp"}},
                                           {"reshard-after-forward", {"fsdp"}},
                                           {"group", {"zero-1", "zero-2", "fsdp"}},
                                           {"bucket", {"ddp", "zero-1", "zero-2"}},
                                           {"overlap-reduction", {"ddp", "zero-1", "zero-2"}},
                                           {"overlap-gather", {"zero-1", "zero-2"}},
                                           {"gather-by-optimizer", {"zero-1", "zero-2"}},
                                           {"gradient-passes", {"ddp", "zero-1"}},
                                           {"reduce-every-microbatch", {"ddp", "zero-1", "fsdp"}}};

const ConfigNode* below(const ConfigNode& root, std::string_view key) {
  const ConfigEntry* entry = root.find(key);
  return entry == nullptr ? nullptr : &entry->value;
}
ConfigNode* below(ConfigNode& root, std::string_view key) {
  ConfigEntry* entry = root.find(key);
  return entry == nullptr ? nullptr : &entry->value;
}

/// The single value at `block.key`, or `otherwise`.
std::string text_at(const ConfigNode& root, std::string_view block, std::string_view key,
                    const std::string& otherwise) {
  const ConfigNode* map = below(root, block);
  const ConfigNode* value = map == nullptr ? nullptr : below(*map, key);
  return value != nullptr && value->kind == ConfigNode::Kind::Scalar ? value->text : otherwise;
}

bool has_any(const ConfigNode& map, const Keys& keys) {
  return std::ranges::any_of(keys, [&](std::string_view key) { return map.find(key) != nullptr; });
}

class Refusal {
 public:
  Refusal(ConfigNode& root, ConfigErrors& errors) : root_(root), errors_(errors) {}

  /// @param block  "" for the root
  void operator()(std::string_view block, const Keys& keys, const std::string& why) {
    ConfigNode* map = block.empty() ? &root_ : below(root_, block);
    if (map == nullptr) return;
    std::erase_if(map->entries, [&](const ConfigEntry& entry) {
      const bool foreign = std::ranges::find(keys, entry.key) != keys.end();
      const std::string_view dot = block.empty() ? "" : ".";
      if (foreign) errors_.add(entry.mark.place(), fmt::format("\"{}{}{}\" {}", block, dot, entry.key, why));
      return foreign;
    });
  }

 private:
  ConfigNode& root_;
  ConfigErrors& errors_;
};

/// Names of the schedules for which `has` holds: "zb-auto, zb-v, v-search".
std::string schedules_with(bool pipeline::Generator::*has) {
  Keys names;
  for (const pipeline::Generator& generator : pipeline::generators())
    if (generator.*has) names.push_back(generator.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Keys without effect on the schedule's order.
void refuse_idle_keys(const ConfigNode& root, Refusal& refuse) {
  const std::string name = text_at(root, "pipeline", "schedule", "1f1b");
  const pipeline::Generator* generator = pipeline::find_generator(name);
  if (generator == nullptr) return;  // reported where it is read
  if (!generator->searched)
    refuse("pipeline", {"memory-limit", "memory"},
           fmt::format(
               "is of schedules that are searched for ({}); {} is the same whatever the memory: leave it out",
               schedules_with(&pipeline::Generator::searched), name));
  if (!generator->takes_weight_order)
    refuse("pipeline", {"weight-order"},
           fmt::format("is of {}; {} does not have it: leave it out",
                       schedules_with(&pipeline::Generator::takes_weight_order), name));
  if (!generator->fuses)
    refuse("pipeline", {"fused"},
           fmt::format("is of schedules with fused blocks ({}); {} has none: leave it out",
                       schedules_with(&pipeline::Generator::fuses), name));
}

void refuse_beside_schedule(Refusal& refuse) {
  Keys keys = TrainingKeys;
  std::erase(keys, "device");
  keys.emplace_back("pipeline");
  refuse("", keys, "is what a schedule is made from; this one stands in a file: leave it out");
}

void refuse_in_textbook(ConfigNode& root, Refusal& refuse) {
  const std::string training =
      "is of a training run; this is a textbook pipeline, which has no model: leave it out, or add a model";
  refuse("", TrainingKeys, training);
  refuse("pipeline", TrainingPipelineKeys, training);
  if (root.find("topology") != nullptr)
    refuse("pipeline", {"hop", "bandwidth"}, "is what the topology says already; leave out one of the two");
  if (has_order(root))
    refuse("pipeline", MadeOrderKeys,
           "is of schedules that are made by name; this one has its order: leave it out");
  else
    refuse_idle_keys(root, refuse);
}

void refuse_in_training(ConfigNode& root, Refusal& refuse) {
  refuse("pipeline", TextbookPipelineKeys,
         "is of a textbook pipeline, which has no model; here stages are parallel.pp, microbatches come of "
         "batch, times of the device: leave it out");
  refuse_idle_keys(root, refuse);
  const std::string kind = text_at(root, "sharding", "kind", "fsdp");
  for (const auto& [key, kinds] : ShardingKeys)
    if (std::ranges::find(kinds, kind) == kinds.end())
      refuse("sharding", {key},
             fmt::format("is of sharding.kind {}; leave it out, or set sharding.kind to {}",
                         fmt::join(kinds, ", "), kinds.front()));
  if (kind != "fsdp") return;
  if (text_at(root, "parallel", "pp", "1") == "1")
    refuse("", {"pipeline"},
           "is of fsdp with parallel.pp above 1, and of all other kinds of sharding: leave it out");
  else
    refuse("sharding", UnpipedFsdpKeys,
           "is of fsdp without a pipeline; a stage of one keeps its weights from their first use to its last "
           "backward: leave it out");
}

}  // namespace

bool is_given(const ConfigNode& root) {
  return root.find("schedule") != nullptr;
}

bool is_textbook(const ConfigNode& root) {
  const ConfigNode* pipeline = below(root, "pipeline");
  return !is_given(root) && root.find("model") == nullptr && pipeline != nullptr &&
         (has_any(*pipeline, TextbookPipelineKeys) || !has_any(root, TrainingKeys));
}

bool has_order(const ConfigNode& root) {
  const ConfigNode* pipeline = below(root, "pipeline");
  return pipeline != nullptr && has_any(*pipeline, {"order", "csv"});
}

void refuse_foreign_keys(ConfigNode& root, ConfigErrors& errors) {
  Refusal refuse(root, errors);
  if (is_given(root))
    refuse_beside_schedule(refuse);
  else if (is_textbook(root))
    refuse_in_textbook(root, refuse);
  else
    refuse_in_training(root, refuse);
}

}  // namespace syncline
