#include "backends/execute/clock_sync.hpp"

#include <algorithm>
#include <cstring>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

constexpr int Pings = 40;  // the fastest of them counts

void send_time(World& world, int to, Seconds time) {
  const double value = time.si();
  world.send(to, std::as_bytes(std::span(&value, 1)));
}

Seconds receive_time(World& world, int from) {
  const std::vector<std::byte> bytes = world.receive(from);
  double value = 0;
  SYNCLINE_CHECK(bytes.size() == sizeof value, "a time was expected from another rank");
  std::memcpy(&value, bytes.data(), sizeof value);
  return Seconds(value);
}

}  // namespace

ClockOffset offset_of(std::span<const Ping> pings) {
  const Ping& fastest = *std::ranges::min_element(pings, {}, [](const Ping& p) { return p.back - p.sent; });
  return {fastest.there - (fastest.sent + fastest.back) / 2, (fastest.back - fastest.sent) / 2, fastest.there};
}

std::vector<ClockOffset> measure_offsets(World& world, const std::function<Seconds()>& now) {
  if (world.rank() != 0) {
    for (int i = 0; i < Pings; ++i) {
      static_cast<void>(world.receive(0));
      send_time(world, 0, now());
    }
    return {};
  }
  std::vector<ClockOffset> offsets{{Seconds(0), Seconds(0), now()}};
  for (int rank = 1; rank < world.size(); ++rank) {
    std::vector<Ping> pings;
    for (int i = 0; i < Pings; ++i) {
      Ping& ping = pings.emplace_back();
      ping.sent = now();
      send_time(world, rank, ping.sent);
      ping.there = receive_time(world, rank);
      ping.back = now();
    }
    offsets.push_back(offset_of(pings));
  }
  return offsets;
}

Seconds on_rank_0(Seconds time, const ClockOffset& before, const ClockOffset& after) {
  const Seconds between = after.at - before.at;
  const double share = between > Seconds(0) ? (time - before.at) / between : 0;
  return time - (before.offset + (after.offset - before.offset) * share);
}

}  // namespace syncline
