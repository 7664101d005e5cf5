// What something that moves through a network loads: links, each with a coefficient.
#pragma once

#include "sim/core/ids.hpp"

namespace syncline {

/// One link that a transfer loads: `coefficient` bytes cross it per byte of progress (1 for a plain flow; 1/k on each
/// of k sprayed paths; the number of member flows for a whole collective).
struct LinkUse {
  LinkId link;
  double coefficient = 1.0;
};

}  // namespace syncline
