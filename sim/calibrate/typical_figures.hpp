// What a system that was never measured can be taken to have: medians of what measured ones have.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/topology/spec.hpp"

namespace syncline::calibrate {

struct TypicalFigures {
  CollectiveFigures collectives;  // without a limit of the node, which is one system's own
  double efficiency_inside = 1, efficiency_between = 1;  // of scale-up and scale-out links
};

/// Of each figure of each algorithm and protocol the median over the systems that have it. A value that several share, to
/// all digits, was taken over from one to the others, and counts once.
/// @param measured  with `collectives`; others are passed over
/// @throws std::invalid_argument when there is none
[[nodiscard]] TypicalFigures typical_figures(std::span<const TopologySpec> measured);

/// The system with these in place of what was fitted to measurements of it. In-network reduction stays the affair of its
/// switches: it is there where it was.
[[nodiscard]] TopologySpec never_measured(TopologySpec spec, const TypicalFigures& typical);

/// The file of a library: what it is of in comments, then the figures.
/// @param of  names of the measured topologies
[[nodiscard]] std::string library_file(const TypicalFigures& typical, const std::string& name,
                                       const std::vector<std::string>& of);

}  // namespace syncline::calibrate
