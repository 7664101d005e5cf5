#include "sim/score/score_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "sim/core/csv.hpp"
#include "sim/core/units.hpp"
#include "sim/report/text.hpp"

namespace syncline::score {
namespace {

using Cells = std::vector<std::string>;

std::string percent(double share, bool sign = false) {
  return sign ? fmt::format("{:+.1f} %", 100 * share) : fmt::format("{:.1f} %", 100 * share);
}

std::string whole_percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f} %", 100 * *share) : "-";
}

Cells cells_of(const GroupScore& group) {
  const bool timed = group.time.count > 0, memory = group.memory.count > 0;
  return {group.name,
          fmt::format("{}", group.rows),
          fmt::format("{}", group.predicted),
          whole_percent(group.coverage()),
          whole_percent(group.dense_coverage()),
          timed ? percent(group.time.mean_signed, true) : "-",
          timed ? percent(group.time.mean_absolute) : "-",
          timed ? percent(group.time.max_absolute) : "-",
          memory ? percent(group.memory.mean_absolute) : "-",
          group.order.pairs > 0 ? fmt::format("{}/{}", group.order.right, group.order.pairs) : "-"};
}

std::string group_table(const std::string& title, const std::vector<const GroupScore*>& groups) {
  std::vector<Cells> rows{
      {title, "rows", "predicted", "of all", "of dense", "signed", "mean", "max", "memory", "order"}};
  for (const GroupScore* group : groups) {
    rows.push_back(cells_of(*group));
    rows.back().front() = clipped(group->name, 44);
  }
  return aligned(std::move(rows), "lrrrrrrrrr");
}

std::vector<const GroupScore*> pointers(const std::vector<GroupScore>& groups) {
  std::vector<const GroupScore*> all;
  for (const GroupScore& group : groups) all.push_back(&group);
  return all;
}

std::string group_tables(const TableScore& table) {
  std::string text;
  for (const auto& [by, groups] :
       {std::pair{"by source", &table.by_source}, std::pair{"by accelerator", &table.by_gpu},
        std::pair{"by family", &table.by_family}, std::pair{"by precision", &table.by_precision}})
    if (groups->size() > 1)
      text += fmt::format("\n{}\n{}", table.whole.name, group_table(by, pointers(*groups)));
  return text;
}

std::string worst_rows(const std::string& table, std::span<const RowResult> rows, std::size_t count) {
  std::vector<const RowResult*> wrong;
  for (const RowResult& row : rows)
    if (row.table == table && row.error()) wrong.push_back(&row);
  const auto off = [](const RowResult* row) { return -std::abs(*row->error()); };
  std::ranges::stable_sort(wrong, {}, off);
  if (wrong.size() > count) wrong.resize(count);
  if (wrong.empty()) return "";
  std::vector<Cells> cells{{"row", "measured", "predicted", "error", "model", "accelerators"}};
  for (const RowResult* row : wrong)
    cells.push_back({clipped(row->id, 48), to_text(Seconds(*row->measured_s)),
                     to_text(Seconds(*row->predicted_s)), percent(*row->error(), true), row->family,
                     row->gpu});
  return fmt::format("\n{}: farthest off\n{}", table, aligned(std::move(cells), "lrrrll"));
}

/// How often each text was there, most often first.
std::string counted(const std::string& title, const std::map<std::string, std::size_t>& counts,
                    const std::function<std::string(const std::string&)>& more) {
  if (counts.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> order(counts.begin(), counts.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "\n" + title + "\n";
  for (const auto& [name, count] : order) text += fmt::format("  {:>5}  {}{}\n", count, name, more(name));
  return text;
}

std::string refusals(std::span<const RowResult> rows) {
  std::map<std::string, std::size_t> counts;
  for (const RowResult& row : rows)
    if (!row.refusal.empty())
      ++counts[(row.our_bug ? "a bug in syncline: " : "") + clipped(row.refusal, 160)];
  return counted("not predicted (rows, why)", counts, [](const std::string&) { return std::string(); });
}

std::string assumptions(std::span<const RowResult> rows, const std::vector<Rule>& rules) {
  std::map<std::string, std::size_t> counts;
  for (const RowResult& row : rows)
    if (row.error())
      for (const std::string& rule : row.assumptions) ++counts[rule];
  return counted("assumed where rows do not say (rows, rule)", counts, [&rules](const std::string& name) {
    const auto rule = std::ranges::find(rules, name, &Rule::name);
    return rule == rules.end() ? std::string() : ": " + rule->because;
  });
}

std::string optional_text(const std::optional<double>& value) {
  return value ? exact_text(*value) : "";
}

/// A column of the file of rows.
struct CsvColumn {
  std::string_view name;
  std::string (*text)(const RowResult& row);
};
constexpr std::array CsvColumns{
    CsvColumn{"table", [](const RowResult& r) { return r.table; }},
    CsvColumn{"id", [](const RowResult& r) { return r.id; }},
    CsvColumn{"source", [](const RowResult& r) { return r.source; }},
    CsvColumn{"gpu", [](const RowResult& r) { return r.gpu; }},
    CsvColumn{"family", [](const RowResult& r) { return r.family; }},
    CsvColumn{"precision", [](const RowResult& r) { return r.precision; }},
    CsvColumn{"dense", [](const RowResult& r) { return std::string(r.dense ? "1" : "0"); }},
    CsvColumn{"measured_s", [](const RowResult& r) { return optional_text(r.measured_s); }},
    CsvColumn{"measured_from", [](const RowResult& r) { return r.measured_from; }},
    CsvColumn{"predicted_s", [](const RowResult& r) { return optional_text(r.predicted_s); }},
    CsvColumn{"error", [](const RowResult& r) { return optional_text(r.error()); }},
    CsvColumn{"measured_memory_bytes",
              [](const RowResult& r) { return optional_text(r.measured_memory_bytes); }},
    CsvColumn{"predicted_memory_bytes",
              [](const RowResult& r) { return optional_text(r.predicted_memory_bytes); }},
    CsvColumn{"memory_error", [](const RowResult& r) { return optional_text(r.memory_error()); }},
    CsvColumn{"out_of_memory", [](const RowResult& r) { return std::string(r.out_of_memory ? "1" : "0"); }},
    CsvColumn{"scenario_hash", [](const RowResult& r) { return r.scenario_hash; }},
    CsvColumn{"assumptions",
              [](const RowResult& r) { return fmt::format("{}", fmt::join(r.assumptions, ";")); }},
    CsvColumn{"refusal", [](const RowResult& r) { return (r.our_bug ? "bug: " : "") + r.refusal; }},
};

}  // namespace

std::string score_text(const Score& score, std::span<const RowResult> rows, const std::vector<Rule>& rules,
                       const TextOptions& options) {
  std::vector<const GroupScore*> tables;
  for (const TableScore& table : score.tables) tables.push_back(&table.whole);
  if (score.tables.size() > 1) tables.push_back(&score.all);
  std::string text =
      "error of the predicted step time: predicted / measured - 1\n" + group_table("table", tables);
  if (options.groups)
    for (const TableScore& table : score.tables) text += group_tables(table);
  for (const TableScore& table : score.tables) text += worst_rows(table.whole.name, rows, options.worst);
  text += refusals(rows);
  text += assumptions(rows, rules);
  text += fmt::format(
      "\norder: of two plans of one job whose measured times differ by more than {:.0f} %, the faster one is "
      "predicted faster\n",
      100 * PairsDiffer);
  return text;
}

std::string csv_header() {
  std::string line;
  for (const CsvColumn& column : CsvColumns)
    line += fmt::format("{}{}", line.empty() ? "" : ",", column.name);
  return line + "\n";
}

std::string csv_line(const RowResult& row) {
  std::string line;
  for (const CsvColumn& column : CsvColumns)
    line += fmt::format("{}{}", &column == CsvColumns.data() ? "" : ",", csv_field(column.text(row)));
  return line + "\n";
}

}  // namespace syncline::score
