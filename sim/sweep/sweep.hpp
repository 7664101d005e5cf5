// A sweep as plain values: one scenario, the values laid over it, and what is read off each run.
//
// Its points are the cross product of the axes, the first axis outermost. Points count from 0 here, from 1 in
// files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sim/config/scenario_document.hpp"

namespace syncline::sweep {

struct Value {
  std::string label;  // what stands in the row: as given, else the value as YAML
  ConfigNode value;   // Nothing (`~`): the scenario's own value stays
};

struct Path {
  std::string path;
  ConfigMark mark;
};

/// Paths that change together: one of `cross`, or a group of `zip`.
struct Axis {
  std::vector<Path> paths;
  std::vector<std::vector<Value>> steps;  // steps[i][j] is for paths[j]
};

/// What is drawn; columns are paths or names of metrics. Empty where nothing was said.
struct PlotRequest {
  std::string kind, x, y, group;
};

struct Sweep {
  std::string file;  // as the user named it
  std::string question;
  std::string source;
  std::string scenario_file;       // from the working folder
  std::vector<Setting> fixed;      // `set`, then --set
  std::vector<std::string> flags;  // "path=value" of --set, as given
  std::vector<Axis> axes;
  std::vector<std::string> metrics;
  PlotRequest plot;

  [[nodiscard]] std::size_t size() const;  // points
};

/// Control characters as blanks: rows are lines.
[[nodiscard]] std::string one_line(std::string text);

/// Points of the largest sweep that is read.
inline constexpr std::size_t MostPoints = 1'000'000;

/// @param flags  "path=value" of --set
/// @throws InputError with the place of everything that is wrong
[[nodiscard]] Sweep parse_sweep(const std::string& text, const std::string& file,
                                const std::vector<Override>& flags = {});

[[nodiscard]] std::vector<Path> paths_of(const Sweep& sweep);
/// What is laid over the scenario at a point.
[[nodiscard]] std::vector<Setting> settings_of(const Sweep& sweep, std::size_t point);
/// Of the values at a point, in the order of paths_of().
[[nodiscard]] std::vector<std::string> labels_of(const Sweep& sweep, std::size_t point);

/// Reads the scenario at enough points to meet every value, so that a path that no point knows is refused
/// before anything runs. A point that is wrong in another way is left to be reported in its row.
/// @returns  hash of the first point that is right: of the scenario with all it takes from files
/// @throws InputError when a path is unknown, or no point is right
[[nodiscard]] std::uint64_t check_paths(const Sweep& sweep, const ScenarioDocument& scenario);

}  // namespace syncline::sweep
