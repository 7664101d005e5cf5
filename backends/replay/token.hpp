// What the replay's events mean: a kind and two numbers, packed into a network token.
#pragma once

#include <cstdint>

#include "sim/network/network.hpp"

namespace syncline {

enum class EventKind : std::uint8_t {
  StreamWake,      // a = seat, b = stream: the host has now issued the stream's next op
  OpEnd,           // a = seat, b = stream | generation << 8: the running op is over
  CollectiveStep,  // a = slot of the collective, b = lane << 20 | position
  TransferEnd,     // a = slot of the send/receive pair
  ClusterChange,   // a = position in changes_of()
};

/// 8 bits of kind, 24 of a, 32 of b.
struct Event {
  EventKind kind;
  std::uint32_t a = 0;
  std::uint32_t b = 0;

  [[nodiscard]] Token token() const {
    return static_cast<Token>(kind) << 56 | static_cast<Token>(a) << 32 | b;
  }
  [[nodiscard]] static Event of(Token token) {
    return {static_cast<EventKind>(token >> 56), static_cast<std::uint32_t>(token >> 32 & 0xFFFFFF),
            static_cast<std::uint32_t>(token)};
  }
  static constexpr std::uint32_t LargestA = 0xFFFFFF;
};

}  // namespace syncline
