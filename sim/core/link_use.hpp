// What something that moves through a network loads: links, each with a coefficient.
#pragma once

#include <span>
#include <vector>

#include "sim/core/ids.hpp"

namespace syncline {

/// One link that a transfer loads: `coefficient` bytes cross it per byte of progress (1 for a plain flow; 1/k on each
/// of k sprayed paths; the number of member flows for a whole collective).
struct LinkUse {
  LinkId link;
  double coefficient = 1.0;
};

/// Appends what a plain flow over these links loads.
inline void add_plain(std::span<const LinkId> links, std::vector<LinkUse>& uses) {
  for (const LinkId link : links) uses.push_back({link, 1.0});
}

}  // namespace syncline
