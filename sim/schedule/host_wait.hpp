// Waits of the host, as programs are written.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace syncline {

/// The host goes on when these earlier ops have ended: a wait each, tagged as what it holds up, with "-host".
inline void append_host_waits(std::vector<Op>& program, std::span<const OpIndex> ops, Tag tag) {
  tag.name += "-host";
  for (const OpIndex awaited : ops) {
    Op wait;
    wait.body = HostWait{awaited};
    wait.tag = tag;
    program.push_back(std::move(wait));
  }
}

}  // namespace syncline
