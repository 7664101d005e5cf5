// The keys of a scenario that say how its model is run: precisions, kernels, what is kept.
#include <fmt/format.h>

#include <algorithm>

#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"

namespace syncline {
namespace {

using Module = bool RecomputedModules::*;
const std::vector<std::pair<std::string, Module>> ModuleNames{
    {"norms", &RecomputedModules::norms},
    {"core", &RecomputedModules::core},
    {"activation", &RecomputedModules::activation},
    {"mlp", &RecomputedModules::mlp},
    {"experts", &RecomputedModules::experts},
    {"expert-activation", &RecomputedModules::expert_activation},
    {"shared-experts", &RecomputedModules::shared},
    {"latent", &RecomputedModules::latent}};

std::string module_names() {
  std::vector<std::string_view> words;
  for (const auto& [word, module] : ModuleNames) words.push_back(word);
  return fmt::format("{}", fmt::join(words, ", "));
}

/// One of the modules, to be recomputed.
Codec module_codec(RecomputedModules& modules) {
  std::vector<std::string> words;
  for (const auto& [word, module] : ModuleNames) words.push_back(word);
  return word_codec(
      std::move(words), [&modules](std::size_t i) { modules.*ModuleNames[i].second = true; },
      [] { return std::size_t{0}; });
}

void read_modules(const ConfigValue& value, RecomputedModules& modules) {
  modules = {};
  if (value.node.items.empty())
    return value.fail(fmt::format("lists no module; give some of {}, or none", module_names()));
  for (const ConfigValue& item : list_items(value)) module_codec(modules).read(item);
}

/// A word, or a list of modules.
Codec recompute_codec(Recompute& recompute, RecomputedModules& modules) {
  const Names<Recompute> words{{"none", Recompute::None},
                               {"selective", Recompute::Selective},
                               {"selective-op", Recompute::SelectiveOp},
                               {"full", Recompute::Full}};
  const auto read = [&recompute, &modules, words](const ConfigValue& value) {
    if (value.node.kind != ConfigNode::Kind::List) return codec(recompute, words).read(value);
    recompute = Recompute::Modules;
    read_modules(value, modules);
  };
  const auto write = [&recompute, &modules, words] {
    if (recompute != Recompute::Modules) return codec(recompute, words).write();
    std::vector<ConfigNode> items;
    for (const auto& [word, module] : ModuleNames) {
      std::string kept = word;
      if (modules.*module) items.push_back(codec(kept).write());
    }
    return list_node(std::move(items));
  };
  return {codec(recompute, words).expects + ", or a list of " + module_names(), read, write};
}

Names<KeptPrecision> kept_precisions() {
  return {{"e5m6", KeptPrecision::E5m6}, {"fp8", KeptPrecision::Fp8}};
}

}  // namespace

Fields precision_fields(TrainingJob& job) {
  TrainingShape& shape = job.shape;
  return {optional("compute", shape.compute, precisions()),
          optional("linear", shape.linear, precisions()),
          printed_if(shape.linear.has_value(), optional("scaling", shape.scaling,
                                                        Names<Scaling>{{"tensor", Scaling::Tensor},
                                                                       {"current", Scaling::Current},
                                                                       {"block", Scaling::Block}})),
          optional("reduce", job.sharding.fsdp.reduce_precision, precisions()),
          printed_if(!shape.frozen, optional("moments", job.sharding.fsdp.moments,
                                             Names<Precision>{{"fp32", Precision::Fp32},
                                                              {"bf16", Precision::Bf16},
                                                              {"fp16", Precision::Fp16},
                                                              {"fp8", Precision::Fp8}})),
          optional("kept-activation-input", shape.kept_activation_input, kept_precisions()),
          optional("kept-attention-output", shape.kept_attention_output, kept_precisions())};
}

Fields kernel_fields(TrainingShape& shape) {
  return {{"recompute", false, recompute_codec(shape.recompute, shape.modules)},
          optional("implementation", shape.implementation,
                   Names<Implementation>{{"megatron", Implementation::Megatron},
                                         {"torchtitan", Implementation::Torchtitan}}),
          optional("kernels", shape.fusion,
                   Names<Fusion>{{"eager", Fusion::Eager}, {"compiled", Fusion::Compiled}}),
          optional("attention", shape.attention,
                   Names<AttentionKernels>{{"flash", AttentionKernels::Flash},
                                           {"unfused", AttentionKernels::Unfused}}),
          optional("weight-gradients", shape.weight_gradients,
                   Names<WeightGradients>{{"plain", WeightGradients::Plain},
                                          {"added", WeightGradients::Added},
                                          {"fused", WeightGradients::Fused}}),
          optional("graphs", shape.graphs,
                   Names<Graphs>{{"none", Graphs::None},
                                 {"router", Graphs::Router},
                                 {"attention-and-router", Graphs::Attention},
                                 {"layers", Graphs::WholeLayers},
                                 {"step", Graphs::Step}}),
          optional("fused-loss", shape.fused_loss),
          optional("frozen", shape.frozen),
          optional("dropout", shape.dropout)};
}

}  // namespace syncline
