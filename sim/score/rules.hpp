// What a row of a table does not say, as rules in a data file: conditions on its cells, and what then holds.
//
//   rules:
//     - rule: megatron-2021
//       when: {software: ^megatron-lm$, source: "2104.04473", pp: "> 1"}
//       fill: {vpp: 2}                     # cells, where blank
//       set: {attention: unfused}          # keys of the scenario
//       because: "section 4.2: fused by hand are bias, GeLU, dropout and the masked softmax"
//
// docs/score.md describes the file.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "sim/score/training_row.hpp"

namespace syncline::score {

/// On a column, or on a sum of columns.
struct Condition {
  enum class Kind : unsigned char { Blank, Given, Matches, MatchesNot, Compares };
  Kind kind = Kind::Matches;
  std::string left;      // column; Compares: a sum
  std::regex pattern{};  // Matches, MatchesNot
  std::string sign{};    // Compares: > < >= <= = !=
  std::string right{};   // Compares: a sum

  /// Compares is false where anything in it is blank.
  [[nodiscard]] bool holds(const TrainingRow& row) const;
};

/// A value is a text, or behind `=` a sum of columns, or a list: `= one_less_at_ends(layers, stages)` has equal numbers
/// but one less on the first and last, `= listed(layers_per_stage)` has the numbers that a column begins with.
struct Assignment {
  std::string target;  // a column, or a dotted path in a scenario
  std::string value;
};

struct Rule {
  std::string name;
  std::vector<Condition> when;   // all of them
  std::vector<Assignment> fill;  // columns, where blank
  std::vector<Assignment> read;  // columns, whatever they hold: what the row's words mean
  std::vector<Assignment> set;   // of the scenario; a later rule's counts
  std::string refuse;            // why such a row is not predicted
  std::string because;
  bool stated = false;  // the row says so itself: not counted as an assumption
};

/// In order.
/// @throws InputError with the place of whatever is wrong
[[nodiscard]] std::vector<Rule> read_rules(const std::string& file);

/// One value of the scenario, and where it is from.
struct Setting {
  std::string path;
  std::string value;
  const Rule* rule = nullptr;  // nullptr: from a cell
};

/// What a row comes to.
struct Reading {
  TrainingRow row;                // with what was filled in
  std::vector<Setting> settings;  // of rules, each path once
  std::vector<const Rule*> used;  // in order
  std::string refusal;            // empty: none
};

/// Walks the rules in order; each sees what the ones before have filled in.
/// @param rules  outlive the reading
[[nodiscard]] Reading read_row(TrainingRow row, const std::vector<Rule>& rules);

}  // namespace syncline::score
