#include "sim/calibrate/gemm_fit.hpp"

#include <algorithm>
#include <cmath>

#include "sim/calibrate/minimise.hpp"
#include "sim/core/error.hpp"

namespace syncline::calibrate {
namespace {

// A figure on its way through a fit: where it stands, the unknown, and what is kept of it in a file. Unknowns
// are of the order of 1, so that one measure of rest suits them all.
struct Figure {
  std::function<void(double)> set;
  Unknown unknown;
  double kept = 1e4;  // 1 ÷ the smallest difference that is kept
};

Figure share(double& at, double start, double step) {
  return {[&at](double value) { at = value; }, {start, step, 0.01, 1}};
}
Figure hundreds(double& at, double start) {
  return {[&at](double value) { at = 100 * value; }, {start / 100, 0.5, 0, 100}, 1e2};
}
Figure microseconds(Seconds& at, double start, double step, double high) {
  return {[&at](double value) { at = Seconds(value * 1e-6); }, {start, step, 0, high}, 1e2};
}

/// Finds the figures, and leaves them set as they are kept.
void fit(std::span<const KernelRow> rows, const std::vector<Figure>& figures, Explanation& explanation) {
  std::vector<double> measured, predicted(rows.size());
  for (const KernelRow& row : rows) measured.push_back(row.time.si());
  std::vector<Unknown> unknowns;
  for (const Figure& figure : figures) unknowns.push_back(figure.unknown);
  const auto cost = [&](std::span<const double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) figures[i].set(values[i]);
    for (std::size_t i = 0; i < rows.size(); ++i) predicted[i] = explanation.measured(rows[i]).si();
    return cost_of(error_of(measured, predicted));
  };
  const std::vector<double> best = minimise(cost, unknowns);
  for (std::size_t i = 0; i < best.size(); ++i)
    figures[i].set(std::round(best[i] * figures[i].kept) / figures[i].kept);
}

// Whether the rows of a table have what a figure shows in.
struct Told {
  bool k_half, gap, memory;
};

Told what_rows_tell(std::span<const KernelRow> rows, const Device& device) {
  constexpr Seconds Short(2e-5);  // of which the gap is a part that can be seen
  const auto few = static_cast<std::ptrdiff_t>(rows.size() / 25);
  const auto bound_by_memory = [&](const KernelRow& row) {
    return row.kernel.hbm / device.hbm_bandwidth > row.kernel.flop / device.peak_of(row.kernel.precision);
  };
  return {std::ranges::any_of(rows, [](const KernelRow& row) { return row.kernel.k != row.kernel.m; }),
          std::ranges::count_if(rows, [&](const KernelRow& row) { return row.time < Short; }) > few,
          std::ranges::count_if(rows, bound_by_memory) > few};
}

}  // namespace

double Throttle::clock(Seconds kernel) const {
  const double long_ago = kernel / settles;
  return sustained + (1 - sustained) / (1 + long_ago * long_ago);
}

Seconds Explanation::measured(const KernelRow& row) {
  const double training = device.sustained_clock;
  device.sustained_clock = throttle.clock(row.time);
  Seconds time = kernel_time(row.kernel, device);
  if (row.kernel.grouped) time = std::max(time, issue_time(row.kernel, device));
  device.sustained_clock = training;
  const auto cast = casts.find(row.kernel.precision);
  if (cast == casts.end()) return time;
  const double numbers =
      static_cast<double>(row.kernel.batch * row.kernel.m) * static_cast<double>(row.kernel.k);
  return time + Bytes(cast->second.bytes * numbers) / (device.hbm_bandwidth * device.hbm_efficiency) +
         cast->second.fixed;
}

FitError error_of(std::span<const double> measured, std::span<const double> predicted) {
  SYNCLINE_CHECK(measured.size() == predicted.size() && !measured.empty(),
                 "a prediction for every measured time");
  FitError error;
  error.rows = measured.size();
  const double rows = static_cast<double>(error.rows);
  std::vector<double> sizes;
  double time = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double off = std::log(predicted[i] / measured[i]);
    sizes.push_back(std::abs(off));
    error.mean += std::abs(off) / rows;
    error.signed_mean += off / rows;
    error.by_time += std::abs(off) * measured[i];
    error.signed_by_time += off * measured[i];
    time += measured[i];
  }
  error.by_time /= time;
  error.signed_by_time /= time;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  error.median = *middle;
  error.largest = *std::ranges::max_element(sizes);
  return error;
}

double cost_of(const FitError& error) {
  return error.mean + error.by_time + std::abs(error.signed_by_time);
}

Figures figures_for(std::size_t rows) {
  constexpr std::size_t Few = 4, Many = 30;
  return rows < Few ? Figures::Plateau : rows < Many ? Figures::Some : Figures::All;
}

void fit_products(std::span<const KernelRow> rows, Explanation& explanation) {
  Device& device = explanation.device;
  GemmModel& gemm = device.gemm;
  const Figures figures = figures_for(rows.size());
  const Told told = what_rows_tell(rows, device);
  std::vector<Figure> unknown{share(gemm.plateau, 0.8, -0.1)};
  if (figures != Figures::Plateau && told.k_half) unknown.push_back(hundreds(gemm.k_half, 100));
  if (figures != Figures::Plateau && told.gap) unknown.push_back(microseconds(device.kernel_gap, 3, 1, 100));
  if (figures == Figures::All) {
    unknown.push_back(share(gemm.small_rate, 0.9, -0.2));
    if (told.memory) unknown.push_back(share(device.hbm_efficiency, 0.75, -0.1));
    unknown.push_back({[&gemm](double value) { gemm.exposed_memory = value; }, {0.1, 0.1, 0, 1}});
    unknown.push_back(share(explanation.throttle.sustained, 0.9, -0.1));
    Throttle& throttle = explanation.throttle;
    constexpr double Shortest = 1e-4;  // of settles ÷ the longest that it may be
    unknown.push_back(
        {[&throttle](double value) { throttle.settles = throttle.settles_within * std::exp(value); },
         {-1, 1, std::log(Shortest), 0},
         1e2});
  }
  fit(rows, unknown, explanation);
  if (figures != Figures::All) return;
  const Seconds longest = std::ranges::max(rows, {}, &KernelRow::time).time;
  device.sustained_clock = std::round(1e4 * explanation.throttle.clock(longest)) / 1e4;
}

void fit_precision(std::span<const KernelRow> rows, Precision precision, Explanation& explanation) {
  const GemmRates before = explanation.device.gemm.rates_of(precision);
  GemmRates& rates = explanation.device.gemm.own[precision] = before;
  const Figures figures = figures_for(rows.size());
  std::vector<Figure> unknown{share(rates.plateau, 0.7, -0.1)};
  if (figures != Figures::Plateau) unknown.push_back(hundreds(rates.k_half, 200));
  if (figures == Figures::All) {
    Cast& cast = explanation.casts[precision];
    unknown.push_back(share(rates.small_rate, 0.9, -0.2));
    unknown.push_back({[&cast](double value) { cast.bytes = value; }, {4, 1, 0, 20}, 1e2});
    unknown.push_back(microseconds(cast.fixed, 2, 1, 50));
  }
  fit(rows, unknown, explanation);
}

void fit_grouped(std::span<const KernelRow> rows, Explanation& explanation) {
  GemmModel& gemm = explanation.device.gemm;
  fit(rows, {{[&gemm](double value) { gemm.grouped_exposed_memory = value; }, {0.5, 0.2, 0, 1}}},
      explanation);
}

void fit_attention(std::span<const KernelRow> rows, Explanation& explanation) {
  Device& device = explanation.device;
  std::vector<Figure> unknown{share(device.attention_forward, 0.6, -0.1),
                              share(device.attention_backward, 0.5, -0.1),
                              microseconds(device.attention_ramp, 30, 20, 1000)};
  if (std::ranges::any_of(rows, [](const KernelRow& row) { return row.kernel.k > 128; }))
    unknown.push_back(share(device.attention_wide_head, 0.9, -0.1));
  fit(rows, unknown, explanation);
}

}  // namespace syncline::calibrate
