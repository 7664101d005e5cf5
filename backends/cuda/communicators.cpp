#include "backends/cuda/communicators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "sim/core/error.hpp"

namespace syncline::cuda {
namespace {

using Of = CommunicatorGroup::Of;

bool share_a_rank(const CommunicatorGroup& a, const CommunicatorGroup& b) {
  return std::ranges::any_of(
      a.members, [&](RankId rank) { return std::ranges::find(b.members, rank) != b.members.end(); });
}

bool fits(const SplitRound& round, const CommunicatorGroup& group) {
  return std::ranges::none_of(round,
                              [&](const CommunicatorGroup& other) { return share_a_rank(group, other); });
}

}  // namespace

std::vector<SplitRound> split_rounds(std::span<const RankProgram> programs) {
  std::map<std::pair<Of, std::uint32_t>, CommunicatorGroup> groups;  // channels come first
  for (const RankProgram& program : programs) {
    for (const Channel& channel : program.channels)
      groups.try_emplace({Of::Channel, channel.number},
                         CommunicatorGroup{Of::Channel, channel.number, channel.members});
    for (const Wire& wire : program.wires)
      groups.try_emplace({Of::Wire, wire.number},
                         CommunicatorGroup{Of::Wire, wire.number, {wire.sender, wire.receiver}});
  }
  std::vector<SplitRound> rounds;
  for (const auto& [key, group] : groups) {
    auto round = std::ranges::find_if(rounds, [&](const SplitRound& r) { return fits(r, group); });
    if (round == rounds.end()) round = rounds.insert(rounds.end(), SplitRound{});
    round->push_back(group);
  }
  return rounds;
}

int concurrent_kernels(const RankProgram& program) {
  std::set<std::pair<bool, std::uint32_t>> lanes;  // streams, and wires with a stream of their own
  for (const Step& step : program.steps) {
    const auto* transfer = std::get_if<TransferTask>(&step.task);
    if (transfer != nullptr && transfer->sends && transfer->eager)
      lanes.emplace(true, transfer->wire);
    else if (transfer != nullptr || std::holds_alternative<CollectiveTask>(step.task))
      lanes.emplace(false, step.stream.value());
  }
  return static_cast<int>(lanes.size());
}

int blocks_each(int multiprocessors, int kernels) {
  // NCCL rounds the channels of sends and receives up to a power of two (ncclTopoComputeP2pChannels).
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(multiprocessors / std::max(kernels, 1), 1))));
}

void require_same_order(std::span<const RankProgram> programs) {
  using Message = std::pair<int, int>;  // message, tag
  struct Ends {
    Wire wire;
    std::vector<Message> sent, received;
  };
  std::map<std::uint32_t, Ends> wires;
  for (const RankProgram& program : programs)
    for (const Step& step : program.steps) {
      const auto* transfer = std::get_if<TransferTask>(&step.task);
      if (transfer == nullptr) continue;
      Ends& ends = wires[program.wires[transfer->wire].number];
      ends.wire = program.wires[transfer->wire];
      (transfer->sends ? ends.sent : ends.received).emplace_back(transfer->message, transfer->tag);
    }
  for (const auto& [number, ends] : wires) {
    const auto [sent, received] = std::ranges::mismatch(ends.sent, ends.received);
    if (sent == ends.sent.end()) continue;
    refuse(
        "--backend cuda",
        fmt::format("rank {} sends rank {} message {} where {} is received first; NCCL matches messages by "
                    "their order "
                    "alone: have both ends in one order, or in different streams",
                    ends.wire.sender.value(), ends.wire.receiver.value(), sent->first,
                    received == ends.received.end() ? "none" : fmt::format("message {}", received->first)));
  }
}

}  // namespace syncline::cuda
