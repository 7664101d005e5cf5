#include "backends/cuda/meeting_place.hpp"

#include <algorithm>

#include "backends/cuda/call.hpp"

namespace syncline::cuda {
namespace {

constexpr std::size_t FlagBytes = 64;  // a flag each, so that none shares a sector with one that others write

}  // namespace

MeetingPlace::MeetingPlace(std::span<const RankProgram> programs) {
  std::size_t flags = 0;
  for (const RankProgram& program : programs) {
    for (const Channel& channel : program.channels)
      if (channels_.try_emplace(channel.number, channel.members.size()).second)
        flags += channel.members.size();
    for (const Wire& wire : program.wires)
      if (wires_.try_emplace(wire.number).second) flags += 2;
    for (const Step& step : program.steps)
      if (const auto* task = std::get_if<CollectiveTask>(&step.task))
        channels_.at(program.channels[task->channel].number)[task->position].tasks.push_back(task);
  }
  flags_ = allocate(std::max<std::size_t>(flags, 1) * FlagBytes);
  check(cudaMemset(flags_.get(), 0, std::max<std::size_t>(flags, 1) * FlagBytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  auto next = reinterpret_cast<CUdeviceptr>(flags_.get());
  const auto take = [&next] {
    const CUdeviceptr flag = next;
    next += FlagBytes;
    return flag;
  };
  for (auto& [number, seats] : channels_)
    for (Seat& seat : seats) {
      if (seat.tasks.size() != seats.front().tasks.size())
        refuse("--virtual-ranks", "the members of a channel take part in different numbers of collectives");
      seat.flag = take();
    }
  for (auto& [number, wire] : wires_) {
    wire.sent = take();
    wire.received = take();
  }
}

}  // namespace syncline::cuda
