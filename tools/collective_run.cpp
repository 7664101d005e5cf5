#include "tools/collective_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/collective/cost.hpp"

namespace syncline {
namespace {

/// All ranks of all groups, group after group, playing one role.
Schedule empty_schedule(std::size_t ranks) {
  Schedule schedule;
  schedule.name = "collectives";
  schedule.meshes.emplace_back("world", std::vector<MeshAxis>{{"rank", static_cast<int>(ranks)}});
  schedule.streams = {"comm", "back"};
  schedule.roles.push_back({"all", {}, {}});
  schedule.role_of.assign(ranks, RoleId(0));
  return schedule;
}

OpIndex add(Role& role, OpBody body, StreamId stream, std::vector<OpIndex> after) {
  Op& op = role.program.emplace_back();
  op.body = std::move(body);
  op.stream = stream;
  op.after = std::move(after);
  return OpIndex(role.program.size() - 1);
}

/// Op `index` of every role, from its first transfer's beginning to its end.
Seconds longest(const RunResult& result, const std::vector<std::uint32_t>& first_op, OpIndex index,
                OpIndex last) {
  Seconds time;
  const auto in = [&](const Span& span) {
    const auto role = std::ranges::upper_bound(first_op, span.op) - first_op.begin() - 1;
    const std::uint32_t op = span.op - first_op[static_cast<std::size_t>(role)];
    return op >= index.value() && op <= last.value();
  };
  for (const Span& span : result.timeline.spans)
    if (in(span)) time = std::max(time, span.end - span.transfer);
  return time;
}

/// Of a byte of S in all groups.
std::vector<LinkUse> loads_of_byte(const Topology& topology, const CollectiveQuestion& question,
                                   Algorithm algorithm) {
  BundleSum sum(topology.links().size()), all(topology.links().size());
  for (const std::vector<AcceleratorId>& members : question.groups)
    all.add(link_uses(plan_collective(question.kind, algorithm, Bytes(1), shape_of(members, topology)),
                      members, topology, sum));
  return all.take();
}

std::vector<LinkUse> scaled(std::vector<LinkUse> uses, double factor) {
  for (LinkUse& use : uses) use.coefficient *= factor;
  return uses;
}

}  // namespace

std::string method_of(const CollectiveRow& row) {
  return row.protocol.empty() ? std::string(name_of(row.algorithm))
                              : fmt::format("{} {}", name_of(row.algorithm), row.protocol);
}

double share_of(const LinkUse& load, const CollectiveRow& row, const Topology& topology) {
  const Seconds alone = Bytes(load.coefficient) / topology.link(load.link).bandwidth;
  return row.time > Seconds(0) ? alone / row.time : 0;
}

const LinkUse* busiest_link(const CollectiveRow& row, const Topology& topology) {
  const auto pace = [&](const LinkUse& load) {
    return load.coefficient / topology.link(load.link).bandwidth.si();
  };
  const auto busiest = std::ranges::max_element(row.loads, {}, pace);
  return busiest == row.loads.end() ? nullptr : &*busiest;
}

std::vector<CollectiveRow> run_collectives(const Topology& topology, const CollectiveQuestion& question,
                                           const RunOptions& options) {
  std::vector<std::vector<RankId>> groups;
  std::vector<AcceleratorId> placement;
  for (const std::vector<AcceleratorId>& group : question.groups) {
    std::vector<RankId>& members = groups.emplace_back();
    for (const AcceleratorId accelerator : group) {
      members.emplace_back(placement.size());
      placement.push_back(accelerator);
    }
  }
  Schedule schedule = empty_schedule(placement.size());
  schedule.families = {GroupFamily::listed("groups", static_cast<int>(placement.size()), groups),
                       GroupFamily::along("everybody", schedule.meshes.front(), {"rank"})};
  std::vector<OpIndex> ops, last;
  for (const Bytes size : question.sizes) {
    ops.push_back(add(schedule.roles.front(),
                      Collective{question.kind, FamilyId(0), question.algorithm, size, question.chunks},
                      StreamId(0), last));
    last = {ops.back()};
    // So that no group is ahead of the others.
    if (groups.size() > 1 && ops.size() < question.sizes.size())
      last = {add(schedule.roles.front(),
                  Collective{CollectiveKind::Shift, FamilyId(1), Algorithm::Ring, Bytes(1)}, StreamId(0),
                  last)};
  }
  const RunResult result =
      make_simgrid_backend()->run(schedule, {topology, ideal_device(), placement}, options);

  std::vector<CollectiveRow> rows;
  std::map<Algorithm, std::vector<LinkUse>> loads;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    CollectiveRow& row = rows.emplace_back();
    row.size = question.sizes[i];
    row.time = longest(result, {0}, ops[i], ops[i]);
    for (const CollectiveChoice& choice : result.collectives) {
      if (choice.family != "groups" || choice.bytes != row.size) continue;
      row.algorithm = choice.algorithm;
      row.protocol = choice.protocol;
    }
    if (ops.size() == 1 &&
        row.protocol.empty()) {  // what was carried is known: no way needs to be followed again
      for (const LinkLoad& load : result.links)
        if (load.carried > Bytes(0)) row.loads.push_back({load.link, load.carried.si()});
      continue;
    }
    const auto [known, added] = loads.try_emplace(row.algorithm);
    if (added && row.algorithm != Algorithm::Auto)
      known->second = loads_of_byte(topology, question, row.algorithm);
    row.loads = scaled(known->second, row.size.si());
  }
  return rows;
}

std::vector<CollectiveRow> run_send_receive(const Topology& topology,
                                            const std::vector<AcceleratorId>& members,
                                            const std::vector<Bytes>& sizes, const RunOptions& options) {
  const std::size_t n = members.size();
  Schedule schedule = empty_schedule(n);
  schedule.families = {GroupFamily::along("everybody", schedule.meshes.front(), {"rank"})};
  schedule.roles.assign(n, {"one", {}, {}});
  BundleSum sum(topology.links().size());
  std::vector<std::pair<OpIndex, OpIndex>> ops;
  std::vector<std::uint32_t> first_op;
  for (std::size_t r = 0; r < n; ++r) {
    schedule.role_of[r] = RoleId(r);
    std::vector<OpIndex> last;
    const auto next = static_cast<int>((r + 1) % n), previous = static_cast<int>((r + n - 1) % n);
    first_op.push_back(static_cast<std::uint32_t>(r * 3 * sizes.size()));
    for (const Bytes size : sizes) {
      const OpIndex send = add(schedule.roles[r], Send{{-1, next}, size, 0, false}, StreamId(0), last);
      const OpIndex receive =
          add(schedule.roles[r], Receive{{-1, previous}, size, 0, false}, StreamId(1), last);
      last = {add(schedule.roles[r],
                  Collective{CollectiveKind::Shift, FamilyId(0), Algorithm::Ring, Bytes(1)}, StreamId(0),
                  {send, receive})};
      if (r == 0) ops.emplace_back(send, receive);
    }
    std::vector<LinkUse> way;
    topology.router().load(members[r], members[static_cast<std::size_t>(next)], way);
    sum.add(way);
  }
  const RunResult result =
      make_simgrid_backend()->run(schedule, {topology, ideal_device(), members}, options);
  const std::vector<LinkUse> of_byte = sum.take();
  std::vector<CollectiveRow> rows;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    rows.push_back({sizes[i], longest(result, first_op, ops[i].first, ops[i].second), Algorithm::Auto, "",
                    scaled(of_byte, sizes[i].si())});
  return rows;
}

}  // namespace syncline
