// Checks over several fields of a scenario, each with a value that would do.
#pragma once

#include <string_view>

#include "sim/config/document.hpp"
#include "sim/config/scenario.hpp"

namespace syncline {

/// @param root    the file, for places
/// @param prefix  path of the block in it: "model." in a scenario, "" in a file of its own
void check_model(const ModelSpec& model, const ConfigNode& root, std::string_view prefix,
                 ConfigErrors& errors);
/// Builds the topology to see whether it can be built, when the counts fit.
void check_topology(const TopologySpec& topology, const ConfigNode& root, std::string_view prefix,
                    ConfigErrors& errors);
/// Ranks against accelerators, batch against ranks, precision against device.
void check_job(const Scenario& scenario, const ConfigNode& root, ConfigErrors& errors);

}  // namespace syncline
