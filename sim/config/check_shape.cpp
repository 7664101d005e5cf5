// Checks of how a model is run: precisions, of what is kept too, recomputed modules, chunks, latent attention.
#include <fmt/format.h>

#include "sim/config/checks.hpp"

namespace syncline {
namespace {

std::string known_peaks(const Device& device) {
  std::vector<std::string_view> known;
  for (const auto& [precision, rate] : device.peak) known.push_back(name_of(precision));
  return fmt::format("for which device {} has no peak rate; it has {}", device.name, fmt::join(known, ", "));
}

void check_precision(std::string_view path, Precision precision, const Device& device, const ConfigNode& root,
                     ConfigErrors& errors) {
  if (device.peak.contains(precision)) return;
  errors.add(place_of(root, path),
             fmt::format("\"{}\" is {}, {}", path, name_of(precision), known_peaks(device)));
}

void check_linear(const TrainingShape& shape, const ConfigNode& root, ConfigErrors& errors) {
  if (!shape.linear) return;
  if (size_of(*shape.linear) > size_of(shape.compute))
    errors.add(place_of(root, "precision.linear"),
               fmt::format("\"precision.linear\" is {}, wider than precision.compute ({}); leave it out, or "
                           "raise precision.compute",
                           name_of(*shape.linear), name_of(shape.compute)));
  if (shape.linear == Precision::Fp4 && shape.scaling != Scaling::Block)
    errors.add(place_of(root, "precision.linear"),
               "\"precision.linear\" is fp4, which has scales by block; set precision.scaling to block");
}

/// Why nothing is kept in less than it is computed in; nothing where it may be.
std::string_view kept_refusal(const TrainingJob& job) {
  const TrainingShape& shape = job.shape;
  if (implementation_of(job.model, shape) != Implementation::Megatron)
    return "is of Megatron's layers; set implementation to megatron, or leave it out";
  if (size_of(shape.compute).si() < 2) return "is not less than precision.compute; leave it out";
  if (shape.recompute == Recompute::Full)
    return "is of what layers keep, and recompute is full, which keeps but their input; leave it out";
  if (shape.recompute == Recompute::SelectiveOp)
    return "is not simulated with recompute selective-op; try selective or a list";
  return {};
}

std::string_view kept_input_refusal(const TrainingJob& job) {
  if (job.model.activation != Activation::Swiglu)
    return "is of SwiGLU, which the model has not; leave it out";
  if (job.shape.fusion == Fusion::Eager) return "is of one kernel for SwiGLU; set kernels to compiled";
  if (job.model.bias && job.model.experts)
    return "is of one kernel for SwiGLU, which experts with biases have not; leave it out";
  const RecomputedModules& again = job.shape.modules;
  const bool dense = layers_of(job.model, LayerKind::Dense) > 0;
  if (job.shape.recompute == Recompute::Modules && (again.mlp || !dense) &&
      (again.experts || !job.model.experts))
    return "is of what layers keep, and recompute names all that would keep it; leave it out";
  return kept_refusal(job);
}

std::string_view kept_output_refusal(const TrainingJob& job) {
  if (job.shape.attention == AttentionKernels::Unfused)
    return "is read by flash attention, and attention is unfused; set that to flash, or leave it out";
  return kept_refusal(job);
}

void check_kept(const TrainingJob& job, const ConfigNode& root, ConfigErrors& errors) {
  const auto refuse = [&](std::string_view path, std::string_view why) {
    if (!why.empty()) errors.add(place_of(root, path), fmt::format("\"{}\" {}", path, why));
  };
  if (job.shape.kept_activation_input) refuse("precision.kept-activation-input", kept_input_refusal(job));
  if (job.shape.kept_attention_output) refuse("precision.kept-attention-output", kept_output_refusal(job));
  if (job.shape.frozen && job.sharding.fsdp.moments != Precision::Fp32)
    refuse("precision.moments", "is of an optimizer, and nothing is trained (frozen); leave it out");
}

/// Chunks of the tokens that a rank gathers, beside each other only where it gathers them.
void check_chunks(const TrainingShape& shape, const ConfigNode& root, ConfigErrors& errors) {
  const std::int64_t chunks = shape.tensor_chunks;
  if (chunks == 1) return;
  if (shape.tensor_parallel == 1 || !shape.sequence_parallel)
    return errors.add(place_of(root, "parallel.tensor-chunks"),
                      fmt::format("\"parallel.tensor-chunks\" is {}, but nothing is gathered to be cut; set "
                                  "parallel.tp above 1 and parallel.sequence-parallel to true",
                                  chunks));
  const std::int64_t tokens = shape.tokens() / shape.context_parallel / shape.tensor_parallel;
  if (tokens % chunks != 0)
    errors.add(
        place_of(root, "parallel.tensor-chunks"),
        fmt::format("\"parallel.tensor-chunks\" is {}, which does not divide the {} tokens of a rank; try {}",
                    chunks, tokens, divisors_near(chunks, tokens)));
}

}  // namespace

void check_latent(const ModelSpec& model, const ConfigNode& root, std::string_view prefix,
                  ConfigErrors& errors) {
  if (!model.latent) return;
  const auto refuse = [&](std::string_view key, std::string_view why) {
    const std::string path = fmt::format("{}{}", prefix, key);
    errors.add(place_of(root, path), fmt::format("\"{}\" {}", path, why));
  };
  if (model.kv_heads != model.heads)
    refuse("kv-heads",
           fmt::format("is {}, but latent attention has a key for each of its heads; set it to {}",
                       model.kv_heads, model.heads));
  if (model.head_size != 0)
    refuse("head-size", "is given by latent.plain, latent.rotary and latent.value; leave it out");
  if (model.position == Position::Learned)
    refuse("position", "is learned, but latent attention has rotary embedding; leave it out");
  if (model.bias) refuse("bias", "is not simulated with latent attention; leave it out");
}

void check_shape(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  const TrainingJob& job = scenario.job;
  const TrainingShape& shape = job.shape;
  check_precision("precision.compute", shape.compute, scenario.device, root, errors);
  if (shape.linear) check_precision("precision.linear", *shape.linear, scenario.device, root, errors);
  check_linear(shape, root, errors);
  check_kept(job, root, errors);
  check_chunks(shape, root, errors);
  if (!job.model.latent && shape.recompute == Recompute::Modules && shape.modules.latent)
    errors.add(place_of(root, "recompute"),
               "\"recompute\" names latent, and the model has no latent attention; leave it out");
  if (job.model.latent && shape.recompute == Recompute::SelectiveOp)
    errors.add(
        place_of(root, "recompute"),
        "\"recompute\" is selective-op, which is not simulated with latent attention; try selective or full");
  if (shape.context_parallel > 1 && shape.attention == AttentionKernels::Unfused)
    errors.add(
        place_of(root, "attention"),
        fmt::format("\"attention\" is unfused, but {} ranks share a sequence (parallel.cp), which takes "
                    "flash",
                    shape.context_parallel));
}

}  // namespace syncline
