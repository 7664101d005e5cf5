// What is broken, slow or uneven in a cluster, as plain values.
#pragma once

#include <optional>
#include <string>

#include "sim/core/quantity.hpp"

namespace syncline {

/// Of one part of the cluster, from the start or from a time on. Parts are named as reports name them: a link
/// "leaf0 → spine1 #0" (or "leaf0 -> spine1 #0": that direction; "leaf0 - spine1 #0": both), a NIC "node3.nic2", a switch
/// "spine0", an accelerator "node1.gpu3". A NIC or switch that is down or degraded is so with all of its links.
struct Fault {
  enum class Part { Link, Nic, Switch, Accelerator };
  Part part = Part::Link;
  std::string name;
  bool down = false;            // from the start: no traffic crosses it; no work runs on it
  double bandwidth = 1.0;       // share of its links' bandwidth that is left, in (0, 1]; not of accelerators
  double slowdown = 1.0;        // accelerators: time of their compute is multiplied by this
  std::optional<Seconds> at;    // none: from the start. A compute op that began before goes on at its old pace
};

/// Random unevenness: every compute op takes longer by a share of its time that is drawn from an exponential
/// distribution with mean `compute`; 0: none. Drawn from (seed, rank, op), so that nothing else of a run changes the draw.
struct Noise {
  double compute = 0;
  [[nodiscard]] bool none() const { return compute == 0; }
};

}  // namespace syncline
