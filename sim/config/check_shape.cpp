// Checks of how a model is run: precisions, recomputed modules, chunks, latent attention.
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
  check_chunks(shape, root, errors);
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
