#include "tools/collective_measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "sim/calibrate/typical_figures.hpp"
#include "sim/config/scenario.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "tools/collective_run.hpp"

namespace syncline {
namespace {

using Systems = std::map<std::string, TopologySpec>;

Systems load_systems(const std::vector<MeasuredRow>& rows, const std::vector<Override>& overrides) {
  Systems systems;
  for (const MeasuredRow& row : rows)
    if (!systems.contains(row.system)) systems.emplace(row.system, load_topology(row.system, overrides));
  return systems;
}

Systems fitted_to_others(const Systems& systems) {
  Systems changed;
  for (const auto& [name, spec] : systems) {
    std::vector<TopologySpec> others;
    for (const auto& [other, its] : systems)
      if (other != name) others.push_back(its);
    changed.emplace(name, calibrate::never_measured(spec, calibrate::typical_figures(others)));
  }
  return changed;
}

/// Of one topology, op, ranks and nodes.
void predict_shape(std::vector<MeasuredRow*>& rows, TopologySpec spec, const RunOptions& options) {
  const MeasuredRow& one = *rows.front();
  const auto place = calibrate::place_of(spec, one.ranks, one.nodes, one.packing);
  const std::optional<CollectiveKind> kind = calibrate::collective_of(one.op);
  if (!place || !kind) return;
  spec.accelerators = place->nodes * spec.accelerators_per_node;
  const Topology topology = build_topology(spec);
  std::set<double> different;
  for (const MeasuredRow* row : rows) different.insert(row->size.si());
  std::vector<Bytes> sizes;
  for (const double size : different) sizes.emplace_back(size);
  const std::vector<CollectiveRow> predicted =
      one.op == calibrate::NcclOp::SendReceive
          ? run_send_receive(topology, place->members, sizes, options)
          : run_collectives(topology, {*kind, Algorithm::Auto, 1, {place->members}, sizes}, options);
  for (MeasuredRow* row : rows) {
    const auto found = std::ranges::find(predicted, row->size, &CollectiveRow::size);
    row->predicted = found->time;
    row->method = one.op == calibrate::NcclOp::SendReceive ? "send" : method_of(*found);
  }
}

double number(const CsvTable& table, std::size_t row, std::string_view column) {
  try {
    return parse_number(table.at(row, column));
  } catch (const std::invalid_argument& error) {
    throw InputError({table.place(row), fmt::format("column {}: {}", column, error.what())});
  }
}

}  // namespace

std::vector<MeasuredRow> rows_of_log(const calibrate::NcclLog& log, const std::string& topology) {
  calibrate::refuse_single_ranks(log);
  std::vector<MeasuredRow> rows;
  for (const calibrate::NcclRun& run : log.runs) {
    if (!calibrate::collective_of(run.op) || run.ranks < 2) continue;
    for (const calibrate::NcclRow& row : run.rows)
      if (row.size > Bytes(0) && row.out_of_place.time > Seconds(0))
        rows.push_back({topology,
                        run.op,
                        run.ranks,
                        std::max(1, run.nodes),
                        row.size,
                        row.out_of_place.time,
                        {},
                        {},
                        {}});
  }
  if (rows.empty())
    throw InputError({{log.file, 0, 0, ""}, "holds no row of a collective among two ranks or more"});
  return rows;
}

MeasuredTable rows_of_table(const CsvTable& table, const std::vector<calibrate::MeasuredSystem>& systems) {
  for (const std::string_view column : {"op", "gpu", "ranks", "nodes", "size_bytes", "time_us"})
    if (!table.has(column))
      throw InputError({{table.name(), 1, 0, ""}, fmt::format("there is no column {}", column)});
  MeasuredTable found;
  std::map<std::string, int> left_out;
  for (std::size_t r = 0; r < table.size(); ++r) {
    if (table.at(r, "time_us").empty() || table.at(r, "ranks").empty() || table.at(r, "size_bytes").empty()) {
      ++left_out["no ranks, size or time"];
      continue;
    }
    const calibrate::NcclOp op = calibrate::nccl_op(table.at(r, "op"));
    const calibrate::MeasuredSystem* system = calibrate::system_of(systems, table, r);
    const bool one_node = table.at(r, "nodes").empty();
    MeasuredRow row{system == nullptr ? "" : system->topology,
                    op,
                    static_cast<int>(number(table, r, "ranks")),
                    one_node ? 1 : static_cast<int>(number(table, r, "nodes")),
                    Bytes(number(table, r, "size_bytes")),
                    Seconds(number(table, r, "time_us") * 1e-6),
                    {},
                    {},
                    system == nullptr ? calibrate::Packing::AsMeasured : system->packing};
    if (system == nullptr || !system->leave_out.empty())
      ++left_out[fmt::format("{}: {}", table.at(r, "gpu"),
                             system == nullptr ? "no topology of the catalogue" : system->leave_out)];
    else if (!calibrate::collective_of(op) || row.ranks < 2 || row.size <= Bytes(0) ||
             row.measured <= Seconds(0))
      ++left_out["no collective among two ranks or more"];
    else
      found.rows.push_back(std::move(row));
  }
  for (const auto& [why, rows] : left_out)
    found.left_out.push_back(fmt::format("{} row{}: {}", rows, rows == 1 ? "" : "s", why));
  return found;
}

void predict(std::vector<MeasuredRow>& rows, const std::vector<Override>& overrides, FittedTo fitted,
             const RunOptions& options) {
  Systems systems = load_systems(rows, overrides);
  if (fitted == FittedTo::Others) {
    if (systems.size() < 2)
      refuse("--uncalibrated", "the rows are of one system, so there are no others to go by");
    systems = fitted_to_others(systems);
  }
  std::map<std::tuple<std::string, calibrate::NcclOp, int, int>, std::vector<MeasuredRow*>> shapes;
  for (MeasuredRow& row : rows) shapes[{row.system, row.op, row.ranks, row.nodes}].push_back(&row);
  for (auto& [shape, its] : shapes) predict_shape(its, systems.at(std::get<0>(shape)), options);
}

MeasuredError error_of(const std::vector<MeasuredRow>& rows, const std::string& system, bool large) {
  MeasuredError error;
  for (const MeasuredRow& row : rows) {
    if (!row.predicted || (!system.empty() && row.system != system) || (row.size >= LargeMessage) != large)
      continue;
    const double off = *row.predicted / row.measured - 1;
    ++error.rows;
    error.mean += std::abs(off);
    error.signed_mean += off;
  }
  if (error.rows > 0) {
    error.mean /= static_cast<double>(error.rows);
    error.signed_mean /= static_cast<double>(error.rows);
  }
  return error;
}

}  // namespace syncline
