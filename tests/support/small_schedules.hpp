// Short ways to write small schedules and clusters in tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/device/cluster.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline::testing {

/// Ranks on one mesh axis "dp"; by default all play role 0. Ops are appended to a role with what follows `op`.
class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(int ranks, std::size_t roles = 1) {
    schedule.name = "test";
    schedule.meshes.emplace_back("dense", std::vector<MeshAxis>{{"dp", ranks}});
    schedule.families.push_back(GroupFamily::along("dp", schedule.meshes.front(), {"dp"}));
    schedule.role_of.assign(static_cast<std::size_t>(ranks), RoleId(0));
    for (std::size_t r = 0; r < roles; ++r) schedule.roles.push_back({"role" + std::to_string(r), {}, {}});
  }

  /// Every rank plays the role of its own number (give as many roles as ranks).
  ScheduleBuilder& one_role_a_rank() {
    for (std::size_t r = 0; r < schedule.role_of.size(); ++r) schedule.role_of[r] = RoleId(r);
    return *this;
  }

  StreamId stream(const std::string& name) {
    for (std::size_t i = 0; i < schedule.streams.size(); ++i)
      if (schedule.streams[i] == name) return StreamId(i);
    schedule.streams.push_back(name);
    return StreamId(schedule.streams.size() - 1);
  }

  /// A compute op of one kernel, or several, of fixed times.
  OpIndex compute(std::size_t role, const std::string& stream_name, std::vector<Seconds> kernels,
                  std::vector<OpIndex> after = {}, std::vector<MemoryEffect> memory = {}) {
    Work work;
    work.name = "work" + std::to_string(schedule.works.size());
    for (const Seconds time : kernels) {
      Kernel kernel;
      kernel.kind = KernelClass::Fixed;
      kernel.fixed = time;
      work.kernels.push_back(kernel);
    }
    schedule.works.push_back(work);
    return op(role, Compute{WorkId(schedule.works.size() - 1)}, stream_name, std::move(after),
              std::move(memory));
  }

  OpIndex collective(std::size_t role, const std::string& stream_name, CollectiveKind kind, Bytes bytes,
                     std::vector<OpIndex> after = {}, Algorithm algorithm = Algorithm::Auto) {
    return op(role, Collective{kind, FamilyId(0), algorithm, bytes}, stream_name, std::move(after));
  }

  OpIndex send(std::size_t role, const std::string& stream_name, int to, Bytes bytes, bool eager = false,
               std::vector<OpIndex> after = {}) {
    return op(role, Send{{-1, to}, bytes, 0, eager}, stream_name, std::move(after));
  }
  OpIndex receive(std::size_t role, const std::string& stream_name, int from, Bytes bytes, bool eager = false,
                  std::vector<OpIndex> after = {}) {
    return op(role, Receive{{-1, from}, bytes, 0, eager}, stream_name, std::move(after));
  }
  OpIndex host_work(std::size_t role, Seconds duration) { return op(role, HostWork{duration}, ""); }
  OpIndex host_wait(std::size_t role, OpIndex awaited) { return op(role, HostWait{awaited}, ""); }

  OpIndex op(std::size_t role, OpBody body, const std::string& stream_name, std::vector<OpIndex> after = {},
             std::vector<MemoryEffect> memory = {}) {
    Op one;
    one.body = std::move(body);
    if (!stream_name.empty()) one.stream = stream(stream_name);
    one.after = std::move(after);
    one.memory = std::move(memory);
    std::vector<Op>& program = schedule.roles[role].program;
    one.tag.name = "op" + std::to_string(program.size());
    program.push_back(std::move(one));
    return OpIndex(program.size() - 1);
  }

  Schedule schedule;
};

/// `n` accelerators on one ideal switch: a link of `bandwidth` and `latency` to the switch and one back.
inline Cluster star(int n, BytesPerSecond bandwidth, Seconds latency, Device device = ideal_device()) {
  TopologySpec spec;
  spec.name = "star";
  spec.accelerators = n;
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {bandwidth, 1.0, latency}};
  return {build_topology(spec), std::move(device), placement_in_order(static_cast<std::size_t>(n))};
}

}  // namespace syncline::testing
