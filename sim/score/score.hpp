// How far predictions are from what was measured.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace syncline::score {

/// What came of one row.
struct RowResult {
  std::string table, id, source, gpu, precision;
  std::string family;  // of the model: "llama", "gpt"
  bool dense = true;   // of a dense model, with a measured step time: what coverage of dense rows counts
  std::string job;     // equal for rows of one job: sizes, accelerators, batch and sequence
  std::string plan;    // equal where the same was run in the same way

  std::optional<double> measured_s;
  std::string measured_from;  // the column
  std::optional<double> predicted_s;
  std::optional<double> measured_memory_bytes, predicted_memory_bytes;  // of the fullest accelerator
  std::string memory_run;  // the run that the memory was read from, where several rows repeat it
  bool out_of_memory = false;
  std::string scenario_hash;
  std::vector<std::string> assumptions;  // rules
  std::string refusal;                   // why nothing is predicted; empty: predicted
  bool our_bug = false;                  // refused by a mistake of the program's

  /// predicted / measured − 1
  [[nodiscard]] std::optional<double> error() const;
  [[nodiscard]] std::optional<double> memory_error() const;
};

/// Errors of many rows, as fractions.
struct Spread {
  std::size_t count = 0;
  double mean_signed = 0, mean_absolute = 0;
  double max_absolute = 0;
  std::string worst;  // id of the row with the largest error
};

/// Of pairs of rows of one job with different plans whose measured times differ by more than PairsDiffer: how many are
/// predicted in the right order.
struct PairOrder {
  std::size_t pairs = 0, right = 0;
  [[nodiscard]] std::optional<double> accuracy() const;
};
inline constexpr double PairsDiffer = 0.02;  // of the faster one's time: less is noise

struct GroupScore {
  std::string name;
  std::size_t rows = 0, dense_rows = 0, predicted = 0, dense_predicted = 0, out_of_memory = 0;
  Spread time;
  Spread memory;  // each measured memory once
  PairOrder order;
  [[nodiscard]] double coverage() const;
  [[nodiscard]] std::optional<double> dense_coverage() const;
};

struct TableScore {
  GroupScore whole;  // name: the table's
  std::vector<GroupScore> by_source, by_gpu, by_family, by_precision;
};

struct Score {
  std::vector<TableScore> tables;  // in order of appearance
  GroupScore all;
};

[[nodiscard]] GroupScore group_score(const std::string& name, std::span<const RowResult* const> rows);
[[nodiscard]] Score score_of(std::span<const RowResult> rows);

/// Pairs within each table only.
[[nodiscard]] PairOrder pair_order(std::span<const RowResult* const> rows);

/// Letters that a model's name begins with: "Llama3.1-8B" and "LLAMA2" are both "llama".
[[nodiscard]] std::string family_of(const std::string& model);

}  // namespace syncline::score
