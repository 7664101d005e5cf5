// Collectives among virtual ranks, which share one device: every member fetches from the buffers of the
// others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/sizes.hpp"

namespace syncline::cuda {

enum class Side : std::uint8_t { Send, Receive };  // a rank's buffers

/// Into this rank's receive buffer, from `side` of the member's.
struct Copy {
  std::uint32_t member = 0;
  Side side = Side::Send;
  std::size_t source = 0, target = 0, bytes = 0;
  friend bool operator==(const Copy&, const Copy&) = default;
};

/// Into this rank's receive buffer at `target`: the sum of what all members have in their send buffers at
/// `source`.
struct Sum {
  std::size_t source = 0, target = 0, bytes = 0;
  friend bool operator==(const Sum&, const Sum&) = default;
};

/// All members meet before a round, and after the last.
struct Round {
  std::vector<Copy> copies;
  std::vector<Sum> sums;
};

/// What a member does in a collective; each has as many rounds. An all-reduce is a reduce-scatter and an all-
/// gather.
/// @param tasks     of all members, by position
/// @param position  the member's
[[nodiscard]] std::vector<Round> rounds_of(std::span<const CollectiveTask* const> tasks,
                                           std::uint32_t position);

/// The number that a member's flag counts up to, when it comes to a meeting: 1, 2, ... through all of a
/// channel's meetings, in this step and those before. A member goes on when all flags have come so far.
class Meetings {
 public:
  [[nodiscard]] std::uint32_t next() { return ++last_; }

 private:
  std::uint32_t last_ = 0;
};

}  // namespace syncline::cuda
