// `moe.routing` of a scenario: which experts tokens go to.
#pragma once

#include "sim/config/reader.hpp"
#include "sim/moe/routing.hpp"

namespace syncline {

/// `balanced`, `uniform`, or a map of one key:
///   {zipf: 1.2}, {dirichlet: 0.5}, {hot: {experts: 4, share: 0.5}}, {counts: FILE}.
/// The file (sim/moe/counts_file.hpp) is found from the folder of the one that names it, and read here; that
/// it has the model's experts is for a check of the whole scenario.
[[nodiscard]] Codec routing_codec(moe::Routing& routing);

}  // namespace syncline
