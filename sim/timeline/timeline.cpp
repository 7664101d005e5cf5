#include "sim/timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/collective/collective.hpp"
#include "sim/core/error.hpp"

namespace syncline {
namespace {

std::string peer_text(const Schedule& schedule, const Peer& peer) {
  if (peer.axis < 0) return fmt::format("rank {}", peer.coordinate);
  return fmt::format("{} {}", schedule.meshes.front().axes()[static_cast<std::size_t>(peer.axis)].name,
                     peer.coordinate);
}

// Fills in what depends on the kind of op.
struct Describe {
  const Schedule& schedule;
  TimelineOp& out;

  void operator()(const Compute& compute) const {
    const Work& work = schedule.works[compute.work.value()];
    out.kind = SpanKind::Compute;
    out.name = work.name;
    for (const Kernel& kernel : work.kernels) out.flop += kernel.flop;
  }
  void operator()(const Collective& collective) const {
    out.kind = SpanKind::Communication;
    out.name = name_of(collective.kind);
    out.bytes = collective.bytes;
    out.group = schedule.families[collective.family.value()].name();
    if (collective.exchange) {
      out.exchange = schedule.exchanges[collective.exchange->value()].name;
      if (collective.back) out.exchange += " back";
    }
    const bool chosen = collective.algorithm != Algorithm::Auto;  // else a run says what it chose
    out.algorithm = name_of(chosen ? collective.algorithm : algorithms_of(collective.kind).front());
  }
  void operator()(const Send& send) const {
    transfer("send", "to " + peer_text(schedule, send.to), send.bytes);
  }
  void operator()(const Receive& receive) const {
    transfer("recv", "from " + peer_text(schedule, receive.from), receive.bytes);
  }
  void operator()(const HostWork&) const { host("host-work"); }
  void operator()(const HostWait&) const { host("host-wait"); }

 private:
  void transfer(const char* name, std::string group, Bytes bytes) const {
    out.kind = SpanKind::Communication;
    out.name = name;
    out.group = std::move(group);
    out.bytes = bytes;
  }
  void host(const char* name) const {
    out.kind = SpanKind::Host;
    out.name = name;
  }
};

}  // namespace

std::vector<TimelineOp> timeline_ops(const Schedule& schedule) {
  std::size_t count = 0;
  for (const Role& role : schedule.roles) count += role.program.size();
  std::vector<TimelineOp> ops;
  ops.reserve(count);
  for (const Role& role : schedule.roles) {
    for (const Op& op : role.program) {
      TimelineOp& out = ops.emplace_back();
      out.stream = op.stream;
      out.tag = op.tag;
      std::visit(Describe{schedule, out}, op.body);
    }
  }
  return ops;
}

std::vector<std::uint32_t> first_op_of_role(const Schedule& schedule) {
  std::vector<std::uint32_t> first;
  std::uint32_t next = 0;
  for (const Role& role : schedule.roles) {
    first.push_back(next);
    next += static_cast<std::uint32_t>(role.program.size());
  }
  return first;
}

void arrive_together(Timeline& timeline, std::span<const std::size_t> members) {
  if (members.empty()) return;
  SYNCLINE_CHECK(std::ranges::max(members) < timeline.spans.size(), "a member is no span of the timeline");
  const auto start_of = [&](std::size_t member) { return timeline.spans[member].start; };
  const Seconds last = start_of(std::ranges::max(members, {}, start_of));
  for (const std::size_t member : members) {
    Span& span = timeline.spans[member];
    span.transfer = std::min(last, span.end);
  }
}

}  // namespace syncline
