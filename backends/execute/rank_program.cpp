#include "backends/execute/rank_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/schedule/exchange.hpp"

namespace syncline {
namespace {

/// How the ranks of a schedule are joined. Walked through in the same order by every rank, so all number alike.
class Wiring {
 public:
  explicit Wiring(const Schedule& schedule) : schedule_(schedule) {
    for (std::size_t rank = 0; rank < schedule.world_size(); ++rank) add(RankId(rank));
    for (const auto& [pair, ends] : ends_) join(pair, ends);
  }

  [[nodiscard]] std::uint32_t channel(FamilyId family, GroupId group, StreamId stream) const {
    return channels_.at({stream, family, group});
  }
  /// Of the `count`-th send, or receive, between the ranks with this message.
  [[nodiscard]] std::uint32_t wire(RankId sender, RankId receiver, int message, std::size_t count) const {
    const Ends& ends = ends_.at({sender, receiver, message});
    return wires_.at({sender, receiver, ends.sent_on[count], ends.received_on[count]});
  }

 private:
  using Pair = std::tuple<RankId, RankId, int>;  // sender, receiver, message
  struct Ends {  // by the how-manieth
    std::vector<StreamId> sent_on, received_on;
  };

  void add(RankId rank) {
    for (const Op& op : schedule_.role(rank).program) {
      if (const auto* collective = std::get_if<Collective>(&op.body)) {
        const GroupFamily& family = schedule_.families[collective->family.value()];
        const std::tuple key{op.stream, collective->family, family.group_of(rank)};
        channels_.try_emplace(key, static_cast<std::uint32_t>(channels_.size()));
      } else if (const auto* send = std::get_if<Send>(&op.body)) {
        ends_[{rank, schedule_.peer(rank, send->to), send->message}].sent_on.push_back(op.stream);
      } else if (const auto* receive = std::get_if<Receive>(&op.body)) {
        ends_[{schedule_.peer(rank, receive->from), rank, receive->message}].received_on.push_back(op.stream);
      }
    }
  }

  void join(const Pair& pair, const Ends& ends) {
    SYNCLINE_CHECK(ends.sent_on.size() == ends.received_on.size(), "a send has no receive");
    const auto& [sender, receiver, message] = pair;
    for (std::size_t i = 0; i < ends.sent_on.size(); ++i)
      wires_.try_emplace({sender, receiver, ends.sent_on[i], ends.received_on[i]},
                         static_cast<std::uint32_t>(wires_.size()));
  }

  const Schedule& schedule_;
  std::map<std::tuple<StreamId, FamilyId, GroupId>, std::uint32_t> channels_;
  std::map<Pair, Ends> ends_;
  std::map<std::tuple<RankId, RankId, StreamId, StreamId>, std::uint32_t> wires_;
};

class Builder {
 public:
  Builder(const ExecutionPlan& plan, const Wiring& wiring, RankId rank)
      : plan_(plan), schedule_(plan.schedule), wiring_(wiring) {
    SYNCLINE_CHECK(plan.work_times.size() == schedule_.works.size(), "a work has no planned time");
    program_.rank = rank;
    for (const RankSpeed& speed : schedule_.speeds)
      if (speed.rank == rank) speed_ = speed.factor;
  }

  RankProgram build() {
    const std::vector<Op>& ops = schedule_.role(program_.rank).program;
    for (const Op& op : ops) {
      Step& step = program_.steps.emplace_back();
      step.stream = op.stream;
      step.task = std::visit([&](const auto& body) { return Task(task_of(op, body)); }, op.body);
      for (const OpIndex earlier : op.after) {
        const Op& other = ops[earlier.value()];
        if (!other.on_host() && other.stream != op.stream) step.after.push_back(earlier.value());
      }
    }
    return std::move(program_);
  }

 private:
  ComputeTask task_of(const Op& op, const Compute& compute) const {
    const double load = op.load ? factor_of(schedule_, schedule_.loads[op.load->value()], program_.rank) : 1;
    const double factor = speed_ * load;
    return {&schedule_.works[compute.work.value()], factor, plan_.work_times[compute.work.value()] * factor};
  }

  CollectiveTask task_of(const Op& op, const Collective& collective) {
    const GroupFamily& family = schedule_.families[collective.family.value()];
    const GroupId group = family.group_of(program_.rank);
    CollectiveTask task{collective.kind, channel(op.stream, collective.family, group), 0, collective.bytes};
    const std::vector<RankId>& members = program_.channels[task.channel].members;
    task.position =
        static_cast<std::uint32_t>(std::ranges::find(members, program_.rank) - members.begin());
    if (collective.kind == CollectiveKind::AllToAll) share_out(collective, group, members.size(), task);
    return task;
  }

  TransferTask task_of(const Op&, const Send& send) {
    return transfer(true, schedule_.peer(program_.rank, send.to), send);
  }
  TransferTask task_of(const Op&, const Receive& receive) {
    return transfer(false, schedule_.peer(program_.rank, receive.from), receive);
  }
  static HostWork task_of(const Op&, const HostWork& work) { return work; }
  static HostWait task_of(const Op&, const HostWait& wait) { return wait; }

  template <class End>
  TransferTask transfer(bool sends, RankId peer, const End& end) {
    const RankId sender = sends ? program_.rank : peer, receiver = sends ? peer : program_.rank;
    const int tag = counts_[{sender, receiver, end.message}]++;
    const std::uint32_t number = wiring_.wire(sender, receiver, end.message, static_cast<std::size_t>(tag));
    const auto [place, is_new] =
        wire_places_.try_emplace(number, static_cast<std::uint32_t>(program_.wires.size()));
    if (is_new) program_.wires.push_back({number, sender, receiver});
    return {sends, peer, place->second, tag, end.message, end.bytes, end.eager};
  }

  std::uint32_t channel(StreamId stream, FamilyId family_id, GroupId group) {
    const std::uint32_t number = wiring_.channel(family_id, group, stream);
    const auto [place, is_new] =
        channel_places_.try_emplace(number, static_cast<std::uint32_t>(program_.channels.size()));
    if (is_new) {
      const GroupFamily& family = schedule_.families[family_id.value()];
      const std::span<const RankId> members = family.members(group);
      program_.channels.push_back(
          {number,
           {members.begin(), members.end()},
           fmt::format("{} {} on {}", family.name(), group.value(), schedule_.streams[stream.value()])});
    }
    return place->second;
  }

  void share_out(const Collective& collective, GroupId group, std::size_t members, CollectiveTask& task) const {
    const auto parts = static_cast<double>(members);
    if (!collective.exchange) {
      task.to = task.from = std::vector<Bytes>(members, collective.bytes / parts);
      return;
    }
    const ExchangeView exchange = view_of(schedule_.exchanges[collective.exchange->value()], group);
    const double items = exchange.items();
    const Bytes item = items > 0 ? collective.bytes * (parts / items) : Bytes(0);
    for (std::size_t other = 0; other < members; ++other) {
      task.to.push_back(item * exchange.count(task.position, other));
      task.from.push_back(item * exchange.count(other, task.position));
    }
    if (collective.back) std::swap(task.to, task.from);
  }

  const ExecutionPlan& plan_;
  const Schedule& schedule_;
  const Wiring& wiring_;
  double speed_ = 1;
  RankProgram program_;
  std::map<std::uint32_t, std::uint32_t> channel_places_, wire_places_;  // by number
  std::map<std::tuple<RankId, RankId, int>, int> counts_;                // of transfers so far
};

}  // namespace

RankProgram rank_program(const ExecutionPlan& plan, RankId rank) {
  return Builder(plan, Wiring(plan.schedule), rank).build();
}

std::vector<RankProgram> rank_programs(const ExecutionPlan& plan) {
  const Wiring wiring(plan.schedule);
  std::vector<RankProgram> programs;
  for (std::size_t rank = 0; rank < plan.schedule.world_size(); ++rank)
    programs.push_back(Builder(plan, wiring, RankId(rank)).build());
  return programs;
}

std::string describe(const ExecutionPlan& plan, const RankProgram& program, std::uint32_t op) {
  struct Text {
    const RankProgram& program;
    std::string operator()(const ComputeTask& task) const {
      return fmt::format("{} for {}", task.work->name, to_text(task.planned));
    }
    std::string operator()(const CollectiveTask& task) const {
      return fmt::format("{} of {} with {}", name_of(task.kind), to_text(task.bytes),
                         program.channels[task.channel].name);
    }
    std::string operator()(const TransferTask& task) const {
      return fmt::format("{} of {} {} rank {}", task.sends ? "send" : "receive", to_text(task.bytes),
                         task.sends ? "to" : "from", task.peer.value());
    }
    std::string operator()(const HostWork& work) const {
      return fmt::format("host work for {}", to_text(work.duration));
    }
    std::string operator()(const HostWait& wait) const {
      return fmt::format("host wait for op {}", wait.op.value());
    }
  };
  const Tag& tag = plan.schedule.role(program.rank).program[op].tag;
  const std::string what = std::visit(Text{program}, program.steps[op].task);
  return tag == Tag{} ? what : what + ", " + to_text(tag);
}

}  // namespace syncline
