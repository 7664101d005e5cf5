#include "sim/calibrate/device_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/config/formats.hpp"
#include "sim/core/units.hpp"

namespace syncline::calibrate {
namespace {

bool half(const KernelRow& row) {
  return row.kernel.precision == Precision::Bf16 || row.kernel.precision == Precision::Fp16;
}

std::string quoted(const std::map<std::string, std::size_t>& counts) {
  std::vector<std::string> all;
  for (const auto& [name, rows] : counts) all.push_back(fmt::format("\"{}\" ({} rows)", name, rows));
  return fmt::format("{}", fmt::join(all, ", "));
}

class Fitting {
 public:
  Fitting(const CsvTable& table, const DeviceFitRequest& request, const Device& base)
      : table_(table), request_(request), rows_(read_kernel_rows(table, request.chip)) {
    fit_.table = table.name();
    fit_.chip = request.chip;
    fit_.explanation.device = base;
    fit_.explanation.throttle.settles_within = request.settles_within;
    if (!request.attention_chip.empty())
      rows_.attention = read_kernel_rows(table, request.attention_chip).attention;
    if (request.precision)
      keep([&](const KernelRow& row) { return same(row.kernel.precision, *request.precision); });
    choose_source();
    check_peaks();
  }

  DeviceFit run() {
    std::erase_if(rows_.best, [&](const KernelRow& row) {  // told by many shapes already
      return std::ranges::any_of(rows_.products, [&](const KernelRow& product) {
        return same(product.kernel.precision, row.kernel.precision);
      });
    });
    fit_half();
    fit_others();
    if (!rows_.attention.empty()) {
      fit_attention(rows_.attention, fit_.explanation);
      group("attention", rows_.attention, Figures::All);
    }
    if (!rows_.grouped.empty()) {
      std::vector<KernelRow> told;
      std::ranges::copy_if(rows_.grouped, std::back_inserter(told), [&](const KernelRow& row) {
        return half(row) && row.bytes_said && !rows_.products.empty() &&
               row.source == rows_.products.front().source;
      });
      const bool enough = figures_for(told.size()) != Figures::Plateau;
      if (enough) fit_grouped(told, fit_.explanation);
      group("grouped", rows_.grouped, Figures::All);
      fit_.groups.back().fitted = enough;
    }
    if (fit_.groups.empty())
      fail(fmt::format("nothing to fit to: of chip \"{}\" there is no product and no attention",
                       request_.chip));
    if (std::ranges::none_of(fit_.groups, &FittedGroup::fitted))
      fail(fmt::format(
          "nothing to fit to: of chip \"{}\" there are grouped products alone, whose figure takes products "
          "in 16 bit of the same source beside them",
          request_.chip));
    for (FittedGroup& one : fit_.groups)
      for (const KernelRow& row : one.rows) one.predicted.push_back(fit_.explanation.measured(row).si());
    return std::move(fit_);
  }

 private:
  static bool same(Precision a, Precision b) {
    const auto plain = [](Precision p) { return p == Precision::Fp16 ? Precision::Bf16 : p; };
    return plain(a) == plain(b);
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(Diagnostic{{table_.name(), 0, 0, ""}, message});
  }

  template <class Wanted>
  void keep(const Wanted& wanted) {
    for (std::vector<KernelRow>* list : {&rows_.products, &rows_.grouped, &rows_.attention, &rows_.best})
      std::erase_if(*list, [&](const KernelRow& row) { return !wanted(row); });
    if (rows_.empty())
      fail(fmt::format("of chip \"{}\" there is no row in {}", request_.chip, name_of(*request_.precision)));
  }

  /// Sources time differently, so their products are not mixed.
  void choose_source() {
    const auto other = [&](const KernelRow& row) {
      return row.source.find(request_.source) == std::string::npos;
    };
    std::erase_if(rows_.best, other);
    std::map<std::string, std::size_t> counts;
    for (const KernelRow& row : rows_.products) ++counts[row.source];
    if (counts.empty()) return;
    std::string chosen;
    if (request_.source.empty()) {
      chosen = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })->first;
      if (counts.size() > 1)
        fit_.notes.push_back(
            fmt::format("products of {} sources: {}; \"{}\" is taken, --source takes another", counts.size(),
                        quoted(counts), chosen));
    } else {
      const auto has = [&](const auto& count) {
        return count.first.find(request_.source) != std::string::npos;
      };
      if (std::ranges::none_of(counts, has))
        fail(fmt::format("of chip \"{}\" no product is from a source with \"{}\" in its name; there are {}",
                         request_.chip, request_.source, quoted(counts)));
    }
    std::erase_if(rows_.products,
                  [&](const KernelRow& row) { return chosen.empty() ? other(row) : row.source != chosen; });
  }

  void check_peaks() {
    Device& device = fit_.explanation.device;
    for (std::vector<KernelRow>* list : {&rows_.products, &rows_.grouped, &rows_.attention, &rows_.best}) {
      for (KernelRow& row : *list) {
        const Precision precision = row.kernel.precision;
        try {
          const FlopPerSecond peak = device.peak_of(precision);
          if (request_.share_of_peak && row.peak.si() > 0) row.time *= row.peak / peak;
        } catch (const std::invalid_argument&) {
          fail(fmt::format(
              "row {} is in {}, for which the base \"{}\" has no peak; add it there, or leave it out with "
              "--dtype",
              row.id, name_of(precision), device.name));
        }
      }
    }
  }

  void group(std::string name, std::span<const KernelRow> rows, Figures figures) {
    fit_.groups.push_back(
        {std::move(name), rows.front().source, figures, true, {rows.begin(), rows.end()}, {}});
  }

  void fit_half() {
    std::vector<KernelRow> rows;
    std::ranges::copy_if(rows_.products, std::back_inserter(rows), half);
    if (rows.empty()) std::ranges::copy_if(rows_.best, std::back_inserter(rows), half);
    if (rows.empty()) return;
    fit_products(rows, fit_.explanation);
    group("bf16", rows, figures_for(rows.size()));
  }

  void fit_others() {
    for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Fp8, Precision::Fp8Block,
                                      Precision::Int8, Precision::Fp4}) {
      const auto wanted = [precision](const KernelRow& row) { return row.kernel.precision == precision; };
      std::vector<KernelRow> rows;
      std::ranges::copy_if(rows_.products, std::back_inserter(rows), wanted);
      if (rows.empty()) std::ranges::copy_if(rows_.best, std::back_inserter(rows), wanted);
      if (rows.empty()) continue;
      fit_precision(rows, precision, fit_.explanation);
      group(std::string(name_of(precision)), rows, figures_for(rows.size()));
    }
  }

  const CsvTable& table_;
  const DeviceFitRequest& request_;
  KernelRows rows_;
  DeviceFit fit_;
};

// --- report ---

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string line_of(std::string_view name, const FitError& error) {
  return fmt::format("{:<22}{:>6}{:>8}{:>8}{:>8}{:>8}{:>10}{:>8}\n", name, error.rows, percent(error.mean),
                     percent(error.median), percent(error.largest), percent(error.signed_mean),
                     percent(error.by_time), percent(error.signed_by_time));
}

struct SizeClass {
  std::string_view name;
  double below;  // s
};
constexpr std::array<SizeClass, 5> Sizes{{{"  below 50 us", 5e-5},
                                          {"  to 0.2 ms", 2e-4},
                                          {"  to 1 ms", 1e-3},
                                          {"  to 10 ms", 1e-2},
                                          {"  longer", 1e9}}};

std::string by_size(const FittedGroup& group) {
  std::string text;
  double from = 0;
  for (const SizeClass& size : Sizes) {
    std::vector<double> measured, predicted;
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      const double time = group.rows[i].time.si();
      if (time < from || time >= size.below) continue;
      measured.push_back(time);
      predicted.push_back(group.predicted[i]);
    }
    if (!measured.empty()) text += line_of(size.name, error_of(measured, predicted));
    from = size.below;
  }
  return text;
}

std::string worst_rows(const FittedGroup& group) {
  constexpr std::size_t Shown = 5;
  std::vector<std::size_t> order(group.rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto off = [&](std::size_t i) { return std::log(group.predicted[i] / group.rows[i].time.si()); };
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return std::abs(off(a)) > std::abs(off(b)); });
  std::string text;
  for (std::size_t i = 0; i < std::min(Shown, order.size()); ++i) {
    const KernelRow& row = group.rows[order[i]];
    text += fmt::format("  {:<14}{:>8} x{:>7} x{:>7} x{:>7}  measured {:>9}, fitted {:>9} ({:+.0f} %)\n",
                        row.id, row.kernel.batch, row.kernel.m, row.kernel.n, row.kernel.k, to_text(row.time),
                        to_text(Seconds(group.predicted[order[i]])), 100 * (std::exp(off(order[i])) - 1));
  }
  return text;
}

std::string_view fitted_figures(const FittedGroup& group) {
  if (!group.fitted) return "compared only";
  switch (group.figures) {
    case Figures::Plateau: return "plateau only";
    case Figures::Some: return "plateau, k-half, gap only";
    case Figures::All: return "fitted";
  }
  return "";
}

}  // namespace

std::vector<double> FittedGroup::measured() const {
  std::vector<double> times;
  for (const KernelRow& row : rows) times.push_back(row.time.si());
  return times;
}

DeviceFit fit_device(const CsvTable& table, const DeviceFitRequest& request, const Device& base) {
  return Fitting(table, request, base).run();
}

std::string report(const DeviceFit& fit) {
  std::string text = fmt::format("{:<22}{:>6}{:>8}{:>8}{:>8}{:>8}{:>10}{:>8}   [% of time]\n", "rows",
                                 "count", "mean", "median", "largest", "signed", "by time", "signed");
  for (const FittedGroup& group : fit.groups) {
    text += line_of(group.name, error_of(group.measured(), group.predicted));
    if (group.rows.size() > 1) text += by_size(group);
  }
  for (const FittedGroup& group : fit.groups)
    text += fmt::format("\n{}: {}, {}; worst rows (batch x m x n x k):\n{}", group.name,
                        fitted_figures(group), group.source, worst_rows(group));
  const Explanation& told = fit.explanation;
  if (told.throttle.sustained < 1)
    text += fmt::format("\nlong products ran at {:.3f} of the clock of short ones, half way at {}\n",
                        told.throttle.sustained, to_text(told.throttle.settles));
  for (const auto& [precision, cast] : told.casts)
    text += fmt::format("{} rows hold a cast of {:.2f} B a number of the left operand and {}\n",
                        name_of(precision), cast.bytes, to_text(cast.fixed));
  for (const std::string& note : fit.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string device_yaml(const DeviceFit& fit, const std::string& base) {
  std::string text =
      fmt::format("# Fitted by `syncline calibrate device` to rows of \"{}\" in {}; all else is from {}.\n",
                  fit.chip, fit.table, base);
  for (const FittedGroup& group : fit.groups) {
    if (!group.fitted) continue;
    const FitError error = error_of(group.measured(), group.predicted);
    text += fmt::format(
        "# {}: {} rows ({}), {}; error of time: mean {} %, median {} %, largest {} %, by time {} %.\n",
        group.name, error.rows, group.source, fitted_figures(group), percent(error.mean),
        percent(error.median), percent(error.largest), percent(error.by_time));
  }
  Device device = fit.explanation.device;
  return text + fmt::format("version: {}\n", ConfigVersion) + to_yaml(write_fields(fields_of(device)));
}

}  // namespace syncline::calibrate
