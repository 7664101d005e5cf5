#include "backends/replay/program.hpp"

#include <algorithm>

namespace syncline {
namespace {

// What the host pays for a work, and how that bounds its end.
struct HostCost {
  Seconds all;       // issuing every kernel
  Seconds bound;     // from the host's arrival: no end before each kernel was issued and it and its followers have run
};

HostCost host_cost(const Work& work, const Device& device) {
  HostCost cost;
  cost.all = device.launch * static_cast<double>(work.kernels.size());
  Seconds followers;  // time of the kernels from the current one to the last
  for (std::size_t k = work.kernels.size(); k-- > 0;) {
    followers += kernel_time(work.kernels[k], device);
    cost.bound = std::max(cost.bound, device.launch * static_cast<double>(k + 1) + followers);
  }
  return cost;
}

std::uint32_t channel_of(FamilyId family, StreamId stream, std::vector<Channel>& channels) {
  for (std::uint32_t i = 0; i < channels.size(); ++i)
    if (channels[i].family == family && channels[i].stream == stream) return i;
  channels.push_back({family, stream});
  return static_cast<std::uint32_t>(channels.size() - 1);
}

}  // namespace

CompiledSchedule compile(const Schedule& schedule, const Device& device) {
  CompiledSchedule compiled;
  std::vector<Seconds> times;
  std::vector<HostCost> costs;
  for (const Work& work : schedule.works) {
    times.push_back(work_time(work, device));
    costs.push_back(host_cost(work, device));
  }
  for (const Role& role : schedule.roles) {
    Program& program = compiled.programs.emplace_back();
    program.role = &role;
    program.stream_ops.resize(schedule.streams.size());
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
      program.stream_ops[op.stream.value()].push_back(i);
      if (const auto* compute = std::get_if<Compute>(&op.body)) {
        out.work = times[compute->work.value()];
        out.earliest_end = clock + costs[compute->work.value()].bound;
        clock += costs[compute->work.value()].all;
      } else {
        clock += device.launch;
        if (const auto* collective = std::get_if<Collective>(&op.body))
          out.channel = channel_of(collective->family, op.stream, compiled.channels);
      }
    }
    program.segments = segment + 1;
  }
  return compiled;
}

}  // namespace syncline
