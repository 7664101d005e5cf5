#include "backends/replay/program.hpp"

#include <algorithm>
#include <utility>

namespace syncline {
namespace {

WorkCost cost_of(const Work& work, const Device& device) {
  WorkCost cost;
  Seconds launched;
  for (const Kernel& kernel : work.kernels) cost.launched.push_back(launched += issue_time(kernel, device));
  cost.followers.resize(work.kernels.size());
  for (std::size_t k = work.kernels.size(); k-- > 0;) {
    cost.device += kernel_time(work.kernels[k], device);
    cost.followers[k] = cost.device;
  }
  for (std::size_t k = 0; k < cost.followers.size(); ++k)
    cost.bound = std::max(cost.bound, cost.launched[k] + cost.followers[k]);
  return cost;
}

std::uint32_t channel_of(FamilyId family, StreamId stream, std::vector<Channel>& channels) {
  for (std::uint32_t i = 0; i < channels.size(); ++i)
    if (channels[i].family == family && channels[i].stream == stream) return i;
  channels.push_back({family, stream});
  return static_cast<std::uint32_t>(channels.size() - 1);
}

// Turns round who stands after whom.
void find_followers(const std::vector<Op>& ops, Program& program) {
  std::vector<std::uint32_t> count(ops.size() + 1, 0);
  for (const Op& op : ops)
    for (const OpIndex earlier : op.after) ++count[earlier.value()];
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    program.ops[i].waits = static_cast<std::uint32_t>(ops[i].after.size());
    program.ops[i].first_follower = first;
    first += std::exchange(count[i], first);
  }
  program.followers.resize(first);
  for (std::uint32_t i = 0; i < ops.size(); ++i)
    for (const OpIndex earlier : ops[i].after) program.followers[count[earlier.value()]++] = i;
}

}  // namespace

Seconds WorkCost::host_bound(double speed_factor) const {
  if (speed_factor == 1) return bound;
  Seconds slower;
  for (std::size_t k = 0; k < followers.size(); ++k)
    slower = std::max(slower, launched[k] + followers[k] * speed_factor);
  return slower;
}

CompiledSchedule compile(const Schedule& schedule, const Device& device) {
  CompiledSchedule compiled;
  for (const Work& work : schedule.works) compiled.works.push_back(cost_of(work, device));
  for (const Role& role : schedule.roles) {
    Program& program = compiled.programs.emplace_back();
    program.role = &role;
    program.stream_ops.resize(schedule.streams.size());
    program.ops.reserve(role.program.size());
    Seconds clock;  // of the host, since its segment began
    std::uint32_t segment = 0;
    for (std::uint32_t i = 0; i < role.program.size(); ++i) {
      const Op& op = role.program[i];
      ProgramOp& out = program.ops.emplace_back();
      out.segment = segment;
      out.arrival = clock;
      if (std::holds_alternative<HostWait>(op.body)) {
        ++segment;
        clock = Seconds(0);
        continue;
      }
      if (const auto* host = std::get_if<HostWork>(&op.body)) {
        clock += host->duration;
        continue;
      }
      out.issued = clock + device.launch;
      out.stream = op.stream.value();
      program.stream_ops[op.stream.value()].push_back(i);
      if (const auto* compute = std::get_if<Compute>(&op.body)) {
        out.work = compute->work;
        const WorkCost& cost = compiled.works[compute->work.value()];
        if (!cost.launched.empty()) clock += cost.launched.back();
      } else {
        clock += device.launch;
        if (const auto* collective = std::get_if<Collective>(&op.body))
          out.channel = channel_of(collective->family, op.stream, compiled.channels);
      }
    }
    program.segments = segment + 1;
    find_followers(role.program, program);
  }
  return compiled;
}

}  // namespace syncline
