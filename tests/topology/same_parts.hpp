// What a topology that went out and came back must agree in.
#pragma once

#include <doctest/doctest.h>

#include "sim/topology/measures.hpp"

namespace syncline {

inline void check_same_parts(const Measures& a, const Measures& b) {
  CHECK(a.accelerators == b.accelerators);
  CHECK(a.nodes == b.nodes);
  CHECK(a.nics == b.nics);
  CHECK(a.switches == b.switches);
  CHECK(a.cables == b.cables);
  CHECK(a.diameter == b.diameter);
}

}  // namespace syncline
