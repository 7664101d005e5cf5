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
  bool down = false;       // no traffic crosses it; no work runs on it (an accelerator: from the start only)
  double bandwidth = 1.0;  // share of its links' bandwidth that is left, in (0, 1]; not of accelerators
  double slowdown = 1.0;   // accelerators: time of their compute is multiplied by this
  std::optional<Seconds> at;  // none: from the start
  Seconds reroute;  // with `at` and `down`: what crosses it stands still for so long, then everything goes on
                    // over the routes that avoid it
};

/// Random unevenness: each op's time is multiplied by a factor of its own, lognormal with mean 1 and this coefficient of
/// variation; 0: none. Drawn from (seed, rank, op), so that nothing else of a run changes the draw.
struct Noise {
  double compute = 0;  // of compute ops
  double latency = 0;  // of the latency of transfers and collectives
  [[nodiscard]] bool none() const { return compute == 0 && latency == 0; }
};

}  // namespace syncline
