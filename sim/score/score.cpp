#include "sim/score/score.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace syncline::score {
namespace {

std::optional<double> relative(std::optional<double> predicted, std::optional<double> measured) {
  if (!predicted || !measured || *measured <= 0) return std::nullopt;
  return *predicted / *measured - 1;
}

void add(Spread& spread, double error, const std::string& id) {
  ++spread.count;
  spread.mean_signed += error;
  spread.mean_absolute += std::abs(error);
  if (spread.worst.empty() || std::abs(error) > spread.max_absolute) {
    spread.max_absolute = std::abs(error);
    spread.worst = id;
  }
}

void finish(Spread& spread) {
  if (spread.count == 0) return;
  spread.mean_signed /= static_cast<double>(spread.count);
  spread.mean_absolute /= static_cast<double>(spread.count);
}

using Rows = std::vector<const RowResult*>;

/// A score for each value that a text of the rows has.
std::vector<GroupScore> grouped(const Rows& rows, std::string RowResult::*by) {
  std::map<std::string, Rows> groups;
  for (const RowResult* row : rows) groups[row->*by].push_back(row);
  std::vector<GroupScore> scores;
  for (const auto& [name, members] : groups) scores.push_back(group_score(name, members));
  return scores;
}

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::optional<double> RowResult::error() const {
  return relative(predicted_s, measured_s);
}

std::optional<double> RowResult::memory_error() const {
  return relative(predicted_memory_bytes, measured_memory_bytes);
}

std::optional<double> PairOrder::accuracy() const {
  return pairs == 0 ? std::nullopt : std::optional(share(right, pairs));
}

double GroupScore::coverage() const {
  return share(predicted, rows);
}

std::optional<double> GroupScore::dense_coverage() const {
  return dense_rows == 0 ? std::nullopt : std::optional(share(dense_predicted, dense_rows));
}

PairOrder pair_order(std::span<const RowResult* const> rows) {
  std::map<std::string, Rows> jobs;
  for (const RowResult* row : rows)
    if (row->error()) jobs[row->table + '\n' + row->job].push_back(row);
  PairOrder order;
  for (const auto& [job, members] : jobs)
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t j = i + 1; j < members.size(); ++j) {
        const RowResult &a = *members[i], &b = *members[j];
        const double faster = std::min(*a.measured_s, *b.measured_s);
        if (a.plan == b.plan || std::abs(*a.measured_s - *b.measured_s) <= PairsDiffer * faster) continue;
        ++order.pairs;
        const double measured = *a.measured_s - *b.measured_s, predicted = *a.predicted_s - *b.predicted_s;
        if (measured * predicted > 0) ++order.right;
      }
  return order;
}

GroupScore group_score(const std::string& name, std::span<const RowResult* const> rows) {
  GroupScore score;
  score.name = name;
  std::set<std::string> memory_runs;
  for (const RowResult* row : rows) {
    const std::optional<double> error = row->error();
    ++score.rows;
    score.dense_rows += row->dense ? 1 : 0;
    score.predicted += error ? 1 : 0;
    score.dense_predicted += error && row->dense ? 1 : 0;
    score.out_of_memory += row->out_of_memory ? 1 : 0;
    if (error) add(score.time, *error, row->id);
    const std::optional<double> memory = row->memory_error();
    if (memory && (row->memory_run.empty() || memory_runs.insert(row->memory_run).second))
      add(score.memory, *memory, row->id);
  }
  finish(score.time);
  finish(score.memory);
  score.order = pair_order(rows);
  return score;
}

Score score_of(std::span<const RowResult> rows) {
  std::vector<std::string> names;
  std::map<std::string, Rows> tables;
  Rows all;
  for (const RowResult& row : rows) {
    if (!tables.contains(row.table)) names.push_back(row.table);
    tables[row.table].push_back(&row);
    all.push_back(&row);
  }
  Score score;
  for (const std::string& name : names) {
    const Rows& members = tables[name];
    score.tables.push_back({group_score(name, members), grouped(members, &RowResult::source),
                            grouped(members, &RowResult::gpu), grouped(members, &RowResult::family),
                            grouped(members, &RowResult::precision)});
  }
  score.all = group_score("all", all);
  return score;
}

std::string family_of(const std::string& model) {
  std::string family;
  for (const char c : model) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) break;
    family += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return family;
}

}  // namespace syncline::score
