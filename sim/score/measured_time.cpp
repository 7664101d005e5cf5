#include "sim/score/measured_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/model/model.hpp"

namespace syncline::score {
namespace {

/// A speed counts only above 0.
std::optional<double> speed(const TrainingRow& row, std::string_view column) {
  const std::optional<double> value = row.number(column);
  return value && *value > 0 ? value : std::nullopt;
}

/// FLOP/s that a share of 1 stands for.
double peak_of(const Scenario& scenario) {
  const TrainingShape& shape = scenario.job.shape;
  return scenario.device.peak_of(shape.linear.value_or(shape.compute)).si();
}

double flop_of(const TrainingRow& row, const Scenario& scenario) {
  try {
    return counted_flop(scenario, row.text("flop_count")).si();
  } catch (const std::invalid_argument& error) {
    throw InputError(Diagnostic{row.place(), error.what()});
  }
}

}  // namespace

Flop counted_flop(const Scenario& scenario, const std::string& count) {
  const ModelSpec& model = scenario.job.model;
  const std::int64_t sequence = scenario.job.shape.sequence;
  const auto sequences = static_cast<double>(scenario.global_batch);
  const double tokens = sequences * static_cast<double>(sequence);
  const Flop causal = model_flop(model, sequence, tokens);
  if (count == "causal") return causal;
  if (count == "recomputed") return megatron_flop(model, sequence, sequences);
  if (count == "full-square") {
    ModelSpec whole = model;  // windows are not seen
    whole.window = 0;
    const double widths = model.heads * (model.head_dim() + model.value_dim()) / 2.0;
    const double triangle =
        6.0 * (model.layers + model.extra_predictions) * widths * static_cast<double>(sequence);
    return model_flop(whole, sequence, tokens) + Flop(triangle * tokens);
  }
  throw std::invalid_argument(
      fmt::format("only a rate of FLOP is given, and how its source counts them is \"{}\"; expected causal, "
                  "full-square or "
                  "recomputed, set by a rule that fills flop_count",
                  count));
}

bool has_measured_time(const TrainingRow& row) {
  constexpr std::array Figures{
      "step_time", "tokens_per_s_per_gpu", "samples_per_s", "samples_per_s_per_gpu", "flops_per_gpu", "mfu"};
  return std::ranges::any_of(Figures, [&](const char* figure) { return speed(row, figure).has_value(); });
}

std::optional<MeasuredTime> measured_time(const TrainingRow& row, const Scenario& scenario) {
  const auto sequences = static_cast<double>(scenario.global_batch);
  const double tokens = sequences * static_cast<double>(scenario.job.shape.sequence);
  const double accelerators = row.number("n_gpus").value_or(scenario.job.ranks());
  if (const auto time = speed(row, "step_time")) return MeasuredTime{Seconds(*time), "step_time"};
  if (const auto rate = speed(row, "tokens_per_s_per_gpu"))
    return MeasuredTime{Seconds(tokens / (*rate * accelerators)), "tokens_per_s_per_gpu"};
  if (const auto rate = speed(row, "samples_per_s"))
    return MeasuredTime{Seconds(sequences / *rate), "samples_per_s"};
  if (const auto rate = speed(row, "samples_per_s_per_gpu"))
    return MeasuredTime{Seconds(sequences / (*rate * accelerators)), "samples_per_s_per_gpu"};
  if (const auto rate = speed(row, "flops_per_gpu"))
    return MeasuredTime{Seconds(flop_of(row, scenario) / (*rate * accelerators)), "flops_per_gpu"};
  if (const auto share = speed(row, "mfu"))
    return MeasuredTime{Seconds(flop_of(row, scenario) / (*share * peak_of(scenario) * accelerators)), "mfu"};
  return std::nullopt;
}

}  // namespace syncline::score
