// A role's program in the form that the replay walks: flat arrays, costs worked out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/device/device.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

/// What one work costs.
struct WorkCost {
  Seconds device;                  // its kernels one after another, on an undisturbed device of speed 1
  std::vector<Seconds> launched;   // by kernel: what the host takes to issue it and those before it
  std::vector<Seconds> followers;  // by kernel: its time and that of those after it

  Seconds bound;  // host_bound(1), which nearly every op asks for

  /// From the host's arrival: the work cannot end before each kernel was issued and it and its followers have
  /// run.
  [[nodiscard]] Seconds host_bound(double speed_factor) const;
};

/// The host of a rank issues ops in order; between two waits its times are known in advance. A *segment* is
/// such a stretch: the host's clock at its beginning, plus the op's offset, gives when the op is issued.
struct ProgramOp {
  std::uint32_t segment = 0;
  Seconds arrival;                   // offset at which the host comes to the op
  Seconds issued;                    // offset at which its first kernel is in the stream: it may start
  WorkId work;                       // compute
  std::uint32_t channel = 0;         // collective: which (family, stream)
  std::uint32_t stream = 0;          // not of host ops
  std::uint32_t waits = 0;           // ops that it stands after
  std::uint32_t first_follower = 0;  // in Program::followers, up to those of the next op
};

struct Program {
  const Role* role = nullptr;
  std::vector<ProgramOp> ops;
  std::vector<std::uint32_t> followers;                // op after op: the ops that stand after it
  std::vector<std::vector<std::uint32_t>> stream_ops;  // [stream] ops in order
  std::uint32_t segments = 1;

  [[nodiscard]] std::span<const std::uint32_t> followers_of(std::uint32_t op) const {
    const std::size_t first = ops[op].first_follower;
    const std::size_t end = op + 1 < ops.size() ? ops[op + 1].first_follower : followers.size();
    return std::span(followers).subspan(first, end - first);
  }
};

/// A family of groups used in one stream: its collectives follow one another, as on one communicator.
struct Channel {
  FamilyId family;
  StreamId stream;
};

struct CompiledSchedule {
  std::vector<Program> programs;  // by role
  std::vector<WorkCost> works;
  std::vector<Channel> channels;
};

[[nodiscard]] CompiledSchedule compile(const Schedule& schedule, const Device& device);

}  // namespace syncline
