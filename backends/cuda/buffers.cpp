#include "backends/cuda/buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "backends/cuda/sizes.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"

namespace syncline::cuda {
namespace {

void raise(std::size_t& most, std::size_t bytes) {
  most = std::max(most, bytes);
}

/// Adds what one task after another needs.
class Sizing {
 public:
  Sizing(const RankProgram& program, ComputeBy compute, const ComputeLimits& limits)
      : program_(program), compute_(compute), limits_(limits) {
    bytes_.staging.resize(program.wires.size());
  }

  RankBytes run() {
    for (const Step& step : program_.steps) {
      if (step.stream.value() >= bytes_.streams.size()) bytes_.streams.resize(step.stream.value() + 1);
      StreamBytes& stream = bytes_.streams[step.stream.value()];
      std::visit([&](const auto& task) { add(stream, task); }, step.task);
    }
    return std::move(bytes_);
  }

 private:
  void add(StreamBytes& stream, const CollectiveTask& task) {
    const BufferBytes needed = buffer_bytes(task, program_.channels[task.channel].members.size());
    raise(stream.send, needed.send);
    raise(stream.receive, needed.receive);
  }
  void add(StreamBytes& stream, const TransferTask& task) {
    const std::size_t bytes = part_of(task.bytes, 1);
    raise(task.sends ? stream.send : stream.receive, bytes);
    if (!task.sends || !task.eager) return;
    Staging& staging = bytes_.staging[task.wire];
    raise(staging.slot, bytes);
    ++staging.slots;
  }
  void add(StreamBytes& stream, const ComputeTask& task) {
    if (compute_ != ComputeBy::Kernels) return;
    for (const Launch& launch : launches_of(task, limits_.scores)) {
      const LaunchBytes needed = bytes_of(launch);
      raise(stream.left, needed.left);
      raise(stream.right, needed.right);
      raise(stream.result, needed.result);
      if (needed.passed > 0) raise(stream.passed, std::min(limits_.passed, std::bit_ceil(needed.passed)));
      if (std::holds_alternative<Product>(launch)) stream.workspace = limits_.workspace;
    }
  }
  static void add(const StreamBytes&, const HostWork&) {}
  static void add(const StreamBytes&, const HostWait&) {}

  const RankProgram& program_;
  const ComputeBy compute_;
  const ComputeLimits& limits_;
  RankBytes bytes_;
};

}  // namespace

std::size_t RankBytes::total() const {
  std::size_t sum = 0;
  for (const StreamBytes& stream : streams) sum += stream.total();
  for (const Staging& wire : staging) sum += wire.slot * wire.slots;
  return sum;
}

RankBytes rank_bytes(const RankProgram& program, ComputeBy compute, const ComputeLimits& limits) {
  return Sizing(program, compute, limits).run();
}

void require_memory(const RankBytes& bytes, RankId rank, std::size_t free, std::size_t total,
                    std::size_t reserve) {
  const auto text = [](std::size_t size) { return to_text(Bytes(static_cast<double>(size))); };
  const std::size_t needed = bytes.total();
  if (needed + reserve <= free) return;
  throw EnvironmentError(fmt::format(
      "the buffers of rank {} take {}, and {} are kept for libraries, but of the {} of the GPU {} are free",
      rank.value(), text(needed), text(reserve), text(total), text(free)));
}

}  // namespace syncline::cuda
