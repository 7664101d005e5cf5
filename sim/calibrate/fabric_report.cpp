// How good a fit is, and the file that comes of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "sim/calibrate/algorithm_lists.hpp"
#include "sim/calibrate/fabric_fit.hpp"
#include "sim/calibrate/typical_figures.hpp"
#include "sim/config/formats.hpp"
#include "sim/core/units.hpp"

namespace syncline::calibrate {
namespace {

constexpr std::size_t WorstRows = 8;

struct SizeClass {
  std::string_view name;
  double from, to;  // bytes
};
constexpr std::array<SizeClass, 4> SizeClasses{{{"below 64 KiB", 0, 65536},
                                                {"64 KiB to 1 MiB", 65536, 1048576},
                                                {"1 MiB to 32 MiB", 1048576, 33554432},
                                                {"32 MiB and more", 33554432, 1e30}}};
constexpr double Large = 1048576;  // bytes: from here on bandwidth counts

/// One line a protocol, in units that read well; the reader makes the same figures of it.
std::string figures_text(const CollectiveFigures& figures, std::string_view indent) {
  std::string text;
  for (std::size_t i = 0; i < AlgorithmLists.size(); ++i) {
    const std::vector<ProtocolFigures>& protocols = figures.*AlgorithmLists[i];
    if (!protocols.empty()) text += fmt::format("{}{}:\n", indent, AlgorithmKeys[i]);
    for (const ProtocolFigures& one : protocols)
      text += fmt::format(
          "{}  - {{protocol: {}, call: {:.4g}us, hop-inside: {:.4g}us, hop-between: {:.4g}us, "
          "share-inside: {:.4g}, share-between: {:.4g}{}{}}}\n",
          indent, one.protocol, one.call.si() * 1e6, one.hop_inside.si() * 1e6, one.hop_between.si() * 1e6,
          one.share_inside, one.share_between,
          one.own_block > 0 ? fmt::format(", own-block: {:.4g}", one.own_block) : "",
          one.wire != 1 ? fmt::format(", wire: {:.6g}", one.wire) : "");
  }
  if (figures.node_limit)
    text += fmt::format("{}node-limit: {:.4g}GBps\n", indent, figures.node_limit->si() / 1e9);
  return text;
}

double error_of(const FabricFit& fit, std::size_t row) {
  return fit.predicted[row] / fit.rows[row].time - 1;
}

std::string line_of(std::string_view name, const ErrorSummary& errors) {
  return fmt::format("  {:<34} {:>6}  {:>+7.1f} %  {:>6.1f} %  {:>6.1f} %\n", name, errors.rows,
                     100 * errors.signed_mean, 100 * errors.mean, 100 * errors.largest);
}

}  // namespace

ErrorSummary errors_of(const FabricFit& fit, const std::function<bool(const FabricRow&)>& wanted) {
  ErrorSummary errors;
  for (std::size_t i = 0; i < fit.rows.size(); ++i) {
    if (!wanted(fit.rows[i])) continue;
    const double error = error_of(fit, i);
    ++errors.rows;
    errors.signed_mean += error;
    errors.mean += std::abs(error);
    errors.largest = std::max(errors.largest, std::abs(error));
  }
  if (errors.rows > 0) {
    errors.signed_mean /= errors.rows;
    errors.mean /= errors.rows;
  }
  return errors;
}

std::string error_report(const FabricFit& fit) {
  std::string text =
      fmt::format("{} figures fitted to {} rows ({} left out)\n", fit.figures, fit.rows.size(), fit.left_out);
  text += "  predicted against measured time      rows     mean     mean |.|     max\n";
  text += line_of("all", errors_of(fit, [](const FabricRow&) { return true; }));
  for (const SizeClass& size : SizeClasses) {
    const ErrorSummary errors = errors_of(
        fit, [&size](const FabricRow& row) { return row.size.si() >= size.from && row.size.si() < size.to; });
    if (errors.rows > 0) text += line_of(size.name, errors);
  }
  std::set<std::tuple<NcclOp, int, int>> shapes;
  for (const FabricRow& row : fit.rows) shapes.insert({row.op, row.nodes, row.ranks});
  for (const auto& [op, nodes, ranks] : shapes) {
    for (const bool large : {false, true}) {
      const ErrorSummary errors = errors_of(fit, [&, op = op, nodes = nodes,
                                                  ranks = ranks](const FabricRow& row) {
        return row.op == op && row.nodes == nodes && row.ranks == ranks && (row.size.si() >= Large) == large;
      });
      if (errors.rows > 0)
        text += line_of(fmt::format("{} {} ranks, {} node{}, {}", name_of(op), ranks, nodes,
                                    nodes == 1 ? "" : "s", large ? ">= 1 MiB" : "< 1 MiB"),
                        errors);
    }
  }
  std::vector<std::size_t> order(fit.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&fit](std::size_t a, std::size_t b) {
    return std::abs(error_of(fit, a)) > std::abs(error_of(fit, b));
  });
  text += "worst rows\n";
  for (std::size_t i = 0; i < std::min(WorstRows, order.size()); ++i) {
    const FabricRow& row = fit.rows[order[i]];
    text += fmt::format("  {} {}, {} ranks, {} nodes: measured {}, predicted {} ({:+.0f} %){}\n",
                        name_of(row.op), to_text(row.size), row.ranks, row.nodes, to_text(row.time),
                        to_text(fit.predicted[order[i]]), 100 * error_of(fit, order[i]),
                        row.place.file.empty() ? "" : fmt::format("; {}:{}", row.place.file, row.place.line));
  }
  return text;
}

std::string fitted_topology_file(const FabricFit& fit, const std::string& base_name) {
  const ErrorSummary large = errors_of(fit, [](const FabricRow& row) { return row.size.si() >= Large; });
  const ErrorSummary small = errors_of(fit, [](const FabricRow& row) { return row.size.si() < Large; });
  std::string text = fmt::format(
      "# Links and nodes of {}; efficiencies and `collectives` fitted by `syncline calibrate fabric`: {} "
      "figures to {} rows.\n"
      "# Mean |error| of time: {:.1f} % of {} rows of 1 MiB and more, {:.1f} % of {} below (largest {:.0f} "
      "%, {:.0f} %).\n"
      "# Rows:\n",
      base_name, fit.figures, fit.rows.size(), 100 * large.mean, large.rows, 100 * small.mean, small.rows,
      100 * large.largest, 100 * small.largest);
  std::map<std::tuple<std::string, std::string, NcclOp, int, int>, int> counts;
  for (const FabricRow& row : fit.rows) ++counts[{row.source, row.gpu, row.op, row.ranks, row.nodes}];
  for (const auto& [key, count] : counts) {
    const auto& [source, gpu, op, ranks, nodes] = key;
    text += fmt::format("# - {}{}{}: {} on {} ranks of {} node{}, {} rows\n", source, gpu.empty() ? "" : ", ", gpu, name_of(op), ranks,
                        nodes, nodes == 1 ? "" : "s", count);
  }
  TopologySpec spec = fit.topology;
  const CollectiveFigures figures = *std::exchange(spec.collectives, std::nullopt);
  return text + fmt::format("version: {}\n", ConfigVersion) + to_yaml(write_fields(fields_of(spec))) + "collectives:\n" + figures_text(figures, "  ");
}

std::string library_file(const TypicalFigures& typical, const std::string& name,
                         const std::vector<std::string>& of) {
  return fmt::format(
      "# Medians by `syncline calibrate library` of what was fitted to measurements of {}.\n"
      "# Their links reach (median) {:.3g} of the data sheet's bandwidth inside nodes, {:.3g} between them.\n"
      "version: 1\nname: {}\nsource: \"medians of {} measured systems: {}\"\n{}",
      fmt::join(of, ", "), typical.efficiency_inside, typical.efficiency_between, name, of.size(),
      fmt::join(of, ", "), figures_text(typical.collectives, ""));
}

}  // namespace syncline::calibrate
