// What a scenario says about its own result: figures others published, and what is expected.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace syncline {

/// A measured figure from a publication, shown beside the simulated one with its error.
struct PublishedFigure {
  std::string metric;    // a name of metric_names(), e.g. "tokens-per-s-per-accelerator"
  double value = 0;      // SI
  int accelerators = 0;  // it was measured on; 0: as many as the scenario has
  std::string source;
};

/// Checked after a run; exit code 1 when it does not hold.
struct Expectation {
  std::string metric;
  std::optional<double> value, within;  // |simulated − value| ≤ within
  std::optional<double> at_least, at_most;
};

}  // namespace syncline
