#include "backends/execute/clock_sync.hpp"

#include <algorithm>
#include <cstring>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

constexpr int Pings = 40;

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
  Seconds least = pings[0].there - pings[0].back, most = pings[0].there - pings[0].sent;
  for (const Ping& ping : pings) {
    least = std::max(least, ping.there - ping.back);
    most = std::min(most, ping.there - ping.sent);
  }
  if (most < least) {  // the clocks drifted meanwhile: what the fastest says by itself
    const Ping& fastest = *std::ranges::min_element(pings, {}, [](const Ping& one) { return one.back - one.sent; });
    least = fastest.there - fastest.back;
    most = fastest.there - fastest.sent;
  }
  return {(least + most) / 2, (most - least) / 2, pings.back().there};
}

std::vector<ClockOffset> measure_offsets(World& world, const std::string& clock,
                                         const std::function<Seconds()>& now) {
  if (world.rank() != 0) {
    world.send(0, std::as_bytes(std::span(clock)));
    while (!world.receive(0).empty()) send_time(world, 0, now());
    return {};
  }
  std::vector<ClockOffset> offsets{{Seconds(0), Seconds(0), now()}};
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::vector<std::byte> theirs = world.receive(rank);
    const bool same = std::ranges::equal(theirs, std::as_bytes(std::span(clock)));
    std::vector<Ping> pings;
    for (int i = 0; !same && i < Pings; ++i) {
      Ping& ping = pings.emplace_back();
      ping.sent = now();
      send_time(world, rank, ping.sent);
      ping.there = receive_time(world, rank);
      ping.back = now();
    }
    world.send(rank, {});  // that was all
    offsets.push_back(same ? ClockOffset{Seconds(0), Seconds(0), now()} : offset_of(pings));
  }
  return offsets;
}

Seconds on_rank_0(Seconds time, const ClockOffset& before, const ClockOffset& after) {
  const Seconds between = after.at - before.at;
  const double share = between > Seconds(0) ? (time - before.at) / between : 0;
  return time - (before.offset + (after.offset - before.offset) * share);
}

}  // namespace syncline
