// A row of a table as a scenario: the text of a file as any user could have written it.
#pragma once

#include <string>
#include <vector>

#include "sim/score/rules.hpp"

namespace syncline::score {

struct RowScenario {
  TrainingRow row;      // with what rules filled in
  std::string text;     // of the file; empty where the row is refused
  std::string refusal;  // why it is not predicted; empty: it can be tried
  std::string plan;     // all values that decide how it runs, without name and source: equal for equal plans
  std::vector<std::string> assumptions;  // names of the rules that assumed something, in order
};

/// Cells become keys, rules fill in the rest. Each assumption stands on its line as a comment.
[[nodiscard]] RowScenario scenario_of(const TrainingRow& row, const std::vector<Rule>& rules);

}  // namespace syncline::score
