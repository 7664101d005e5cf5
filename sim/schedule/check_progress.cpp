#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "sim/schedule/check_parts.hpp"

namespace syncline::check {
namespace {

// How an op ends once nothing on its own rank holds it up.
enum class Ending : std::uint8_t {
  AtOnce,        // compute, host ops: time passes, but nobody else is needed
  EagerSend,     // at once too, and the receive may be waiting for it
  EagerReceive,  // when its send has started
  Rendezvous,    // with its partner
  Collective     // with all of its group
};

Ending ending_of(const OpBody& body) {
  if (std::holds_alternative<Collective>(body)) return Ending::Collective;
  if (const auto* send = std::get_if<Send>(&body))
    return send->eager ? Ending::EagerSend : Ending::Rendezvous;
  if (const auto* receive = std::get_if<Receive>(&body))
    return receive->eager ? Ending::EagerReceive : Ending::Rendezvous;
  return Ending::AtOnce;
}

/// Why an op waits for an earlier one of its rank.
enum class Cause : std::uint8_t { HostBlocked, StreamOrder, After, HostWaits };

constexpr std::uint32_t None = std::numeric_limits<std::uint32_t>::max();

/// Calls visit(op, earlier op, cause) for each op and everything on its own rank that it waits for. The host
/// issues in order, so an op waits for the last host wait before it, which itself waits for the one before.
template <class Visit>
void for_each_wait(const std::vector<Op>& program, std::size_t streams, Visit visit) {
  std::vector<std::uint32_t> last_in_stream(streams, None);
  std::uint32_t last_host_wait = None;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const Op& op = program[i];
    if (last_host_wait != None) visit(i, last_host_wait, Cause::HostBlocked);
    if (!op.on_host()) {
      std::uint32_t& last = last_in_stream[op.stream.value()];
      if (last != None) visit(i, last, Cause::StreamOrder);
      last = i;
    }
    for (const OpIndex awaited : op.after) visit(i, awaited.value(), Cause::After);
    if (const auto* wait = std::get_if<HostWait>(&op.body)) {
      visit(i, wait->op.value(), Cause::HostWaits);
      last_host_wait = i;
    }
  }
}

/// A role's program as the play needs it.
struct Part {
  std::vector<Ending> endings;          // by op
  std::vector<std::uint32_t> waits;     // by op: how many of its rank's ops it waits for
  std::vector<std::uint32_t> first;     // by op: where its followers begin; one more at the end
  std::vector<std::uint32_t> follower;  // ops that wait for it
};

Part make_part(const std::vector<Op>& program, std::size_t streams) {
  Part part;
  part.waits.assign(program.size(), 0);
  part.first.assign(program.size() + 1, 0);
  for (const Op& op : program) part.endings.push_back(ending_of(op.body));
  for_each_wait(program, streams, [&](std::uint32_t op, std::uint32_t earlier, Cause) {
    ++part.waits[op];
    ++part.first[earlier + 1];
  });
  for (std::size_t i = 1; i < part.first.size(); ++i) part.first[i] += part.first[i - 1];
  part.follower.resize(part.first.back());
  std::vector<std::uint32_t> next(part.first.begin(), part.first.end() - 1);
  for_each_wait(program, streams,
                [&](std::uint32_t op, std::uint32_t earlier, Cause) { part.follower[next[earlier]++] = op; });
  return part;
}

/// Plays a schedule through without times. Nothing in it chooses, so the order of play does not change what
/// ends.
class Play {
 public:
  Play(const Schedule& schedule, const Tables& tables, const Pairing& pairing, const Cast& cast)
      : schedule_(schedule), tables_(tables), pairing_(pairing), cast_(cast), first_(schedule.world_size()) {
    for (const Role& role : schedule.roles)
      parts_.push_back(make_part(role.program, schedule.streams.size()));
    for (const RankId rank : cast.played) {
      first_[rank.value()] = waits_.size();
      const std::vector<std::uint32_t>& waits = part(rank.value()).waits;
      waits_.insert(waits_.end(), waits.begin(), waits.end());
    }
    number_joins();
  }

  void run() {
    for (const RankId rank : cast_.played) {
      const std::vector<std::uint32_t>& waits = part(rank.value()).waits;
      for (std::uint32_t op = 0; op < waits.size(); ++op)
        if (waits[op] == 0) start({rank.value(), op});
      drain();
    }
  }

  [[nodiscard]] bool complete() const { return ended_count_ == waits_.size(); }
  /// Who waits for whom, round a cycle, beginning at the cycle's lowest rank. Only when not complete.
  [[nodiscard]] std::string diagnosis() const;

 private:
  struct Instance {
    std::uint32_t rank, op;
    friend auto operator<=>(const Instance&, const Instance&) = default;
  };
  struct Gathering {                   // the members of a group who play
    std::size_t first_join = 0;        // in joined_, of the collectives of a queue
    std::size_t first = 0, count = 0;  // in players_
  };
  struct Wait {  // one step of the diagnosis
    Instance waiting, awaited;
    std::string text;
  };

  // What waits_ holds of an op that waits for nothing on its rank any more.
  static constexpr std::uint32_t Ended = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t Started = Ended - 1;
  static constexpr std::size_t MostWaitsTold = 24;

  [[nodiscard]] const Part& part(std::size_t rank) const { return parts_[schedule_.role_of[rank].value()]; }
  [[nodiscard]] const RoleTables& role(std::size_t rank) const {
    return tables_.roles[schedule_.role_of[rank].value()];
  }
  [[nodiscard]] const Op& op_of(Instance at) const { return schedule_.role(RankId(at.rank)).program[at.op]; }
  [[nodiscard]] std::uint32_t& waits(Instance at) { return waits_[first_[at.rank] + at.op]; }
  [[nodiscard]] bool started(Instance at) const { return waits_[first_[at.rank] + at.op] >= Started; }
  [[nodiscard]] bool ended(Instance at) const { return waits_[first_[at.rank] + at.op] == Ended; }

  [[nodiscard]] Instance partner(Instance at) const {
    const OpBody& body = op_of(at).body;
    const auto* send = std::get_if<Send>(&body);
    const Peer& peer = send != nullptr ? send->to : std::get<Receive>(body).from;
    return {schedule_.peer(RankId(at.rank), peer).value(),
            pairing_.partner_op[pairing_.first[at.rank] + role(at.rank).position[at.op]]};
  }

  // --- collectives: a counter for each, queue by queue and group by group ------------------------

  [[nodiscard]] const GroupFamily& family_of(std::uint32_t queue) const {
    return schedule_.families[tables_.queues[queue].family.value()];
  }

  void number_joins() {
    std::size_t count = 0;
    for (std::uint32_t queue = 0; queue < tables_.queues.size(); ++queue) {
      const GroupFamily& family = family_of(queue);
      std::vector<Gathering>& gatherings = gatherings_.emplace_back();
      for (std::size_t g = 0; g < family.group_count(); ++g) {
        Gathering& gathering = gatherings.emplace_back();
        gathering.first_join = count;
        gathering.first = players_.size();
        for (const RankId member : family.members(GroupId(g)))
          if (cast_.plays(member)) players_.push_back(member.value());
        gathering.count = players_.size() - gathering.first;
        if (gathering.count > 0) count += role(players_.back()).queue_ops[queue].size();
      }
    }
    joined_.resize(count);
  }

  [[nodiscard]] const Gathering& gathering_of(std::uint32_t queue, std::uint32_t rank) const {
    return gatherings_[queue][family_of(queue).group_of(RankId(rank)).value()];
  }
  [[nodiscard]] std::span<const std::uint32_t> players_of(const Gathering& gathering) const {
    return std::span(players_).subspan(gathering.first, gathering.count);
  }

  void join(Instance at) {
    const RoleTables& tables = role(at.rank);
    const std::uint32_t queue = tables.queue[at.op], position = tables.position[at.op];
    const Gathering& gathering = gathering_of(queue, at.rank);
    if (++joined_[gathering.first_join + position] < gathering.count) return;
    for (const std::uint32_t player : players_of(gathering))
      end({player, role(player).queue_ops[queue][position]});
  }

  // --- the play ----------------------------------------------------------------------------------

  void start(Instance at) {
    waits(at) = Started;
    switch (part(at.rank).endings[at.op]) {
      case Ending::AtOnce: end(at); break;
      case Ending::EagerSend: {
        end(at);
        const Instance receive = partner(at);
        if (started(receive)) end(receive);
        break;
      }
      case Ending::EagerReceive:
        if (started(partner(at))) end(at);
        break;
      case Ending::Rendezvous: {
        const Instance other = partner(at);
        if (!started(other)) break;
        end(at);
        end(other);
        break;
      }
      case Ending::Collective: join(at); break;
    }
  }

  void end(Instance at) {
    waits(at) = Ended;
    ++ended_count_;
    ended_.push_back(at);
  }

  // Starts all that ended ops set free, and what those set free in turn.
  void drain() {
    while (!ended_.empty()) {
      const Instance at = ended_.back();
      ended_.pop_back();
      const Part& tables = part(at.rank);
      for (std::uint32_t i = tables.first[at.op]; i < tables.first[at.op + 1]; ++i) {
        const Instance next{at.rank, tables.follower[i]};
        if (--waits(next) == 0) start(next);
      }
    }
  }

  // --- the diagnosis -----------------------------------------------------------------------------

  [[nodiscard]] Instance first_stuck() const;
  [[nodiscard]] Wait next_wait(Instance at) const;
  [[nodiscard]] Wait wait_for_others(Instance at) const;
  [[nodiscard]] Wait wait_on_own_rank(Instance at) const;
  [[nodiscard]] std::string describe(Instance at) const;

  const Schedule& schedule_;
  const Tables& tables_;
  const Pairing& pairing_;
  const Cast& cast_;
  std::vector<Part> parts_;           // by role
  std::vector<std::size_t> first_;    // by rank that plays: where its ops begin in waits_
  std::vector<std::uint32_t> waits_;  // by op of each of them: how many it still waits for; Started, Ended
  std::vector<std::vector<Gathering>> gatherings_;  // by queue and group
  std::vector<std::uint32_t> players_;              // ranks, group after group
  std::vector<std::uint32_t> joined_;               // members that have reached each collective
  std::vector<Instance> ended_;                     // whose followers have not been told
  std::size_t ended_count_ = 0;
};

Play::Instance Play::first_stuck() const {
  Instance at{0, 0};
  for (const RankId rank : cast_.played) {
    at.rank = rank.value();
    for (at.op = 0; at.op < part(at.rank).waits.size(); ++at.op)
      if (!ended(at)) return at;
  }
  return at;
}

// `send "F microbatch 1" in stream pp-send, op 7`
std::string Play::describe(Instance at) const {
  const Op& op = op_of(at);
  static constexpr std::string_view Words[] = {"compute", "collective", "send",
                                               "receive", "host work",  "host wait"};
  const auto* collective = std::get_if<Collective>(&op.body);
  const std::string_view word = collective != nullptr ? name_of(collective->kind) : Words[op.body.index()];
  const std::string stream =
      op.on_host() ? "" : fmt::format(" in stream {}", schedule_.streams[op.stream.value()]);
  return fmt::format("{} \"{}\"{}, op {}", word, to_text(op.tag), stream, at.op);
}

Play::Wait Play::next_wait(Instance at) const {
  return started(at) ? wait_for_others(at) : wait_on_own_rank(at);
}

Play::Wait Play::wait_for_others(Instance at) const {
  if (part(at.rank).endings[at.op] != Ending::Collective) {
    const Instance other = partner(at);
    const bool sends = std::holds_alternative<Send>(op_of(at).body);
    return {at, other, fmt::format("waits for rank {} to {}", other.rank, sends ? "receive" : "send")};
  }
  const RoleTables& tables = role(at.rank);
  const std::uint32_t queue = tables.queue[at.op], position = tables.position[at.op];
  for (const std::uint32_t player : players_of(gathering_of(queue, at.rank))) {
    const Instance other{player, role(player).queue_ops[queue][position]};
    if (!started(other)) return {at, other, fmt::format("waits for rank {} to join", other.rank)};
  }
  return {at, at, "waits for nobody"};  // not reached: the last to join ends it
}

Play::Wait Play::wait_on_own_rank(Instance at) const {
  Wait found{at, at, "waits for nothing"};
  for_each_wait(schedule_.role(RankId(at.rank)).program, schedule_.streams.size(),
                [&](std::uint32_t op, std::uint32_t earlier, Cause cause) {
                  const Instance awaited{at.rank, earlier};
                  if (op != at.op || found.awaited != at || ended(awaited)) return;
                  found.awaited = awaited;
                  switch (cause) {
                    case Cause::HostBlocked:
                      found.text = fmt::format("is not issued before the host is past op {}", earlier);
                      break;
                    case Cause::StreamOrder:
                      found.text = fmt::format("stands behind op {} in its stream", earlier);
                      break;
                    case Cause::After: found.text = fmt::format("comes after op {}", earlier); break;
                    case Cause::HostWaits: found.text = fmt::format("waits for op {} to end", earlier); break;
                  }
                });
  return found;
}

std::string Play::diagnosis() const {
  // Whatever has not ended waits for something that has not ended, so following it leads into a cycle.
  std::vector<Wait> chain;
  std::vector<bool> visited(waits_.size());
  Instance at = first_stuck();
  for (; !visited[first_[at.rank] + at.op]; at = chain.back().awaited) {
    visited[first_[at.rank] + at.op] = true;
    chain.push_back(next_wait(at));
  }
  const auto begin =
      std::find_if(chain.begin(), chain.end(), [&](const Wait& wait) { return wait.waiting == at; });
  std::vector<Wait> cycle(begin, chain.end());
  const auto lowest = std::min_element(cycle.begin(), cycle.end(),
                                       [](const Wait& a, const Wait& b) { return a.waiting < b.waiting; });
  std::rotate(cycle.begin(), lowest, cycle.end());

  std::string text = "deadlock: ";
  for (std::size_t i = 0; i < std::min(cycle.size(), MostWaitsTold); ++i)
    text += fmt::format("{}rank {} ({}) {}", i > 0 ? "; " : "", cycle[i].waiting.rank,
                        describe(cycle[i].waiting), cycle[i].text);
  if (cycle.size() > MostWaitsTold)
    text += fmt::format("; and so on, {} more waits back to the first", cycle.size() - MostWaitsTold);
  return text;
}

}  // namespace

void check_progress(const Schedule& schedule, const Tables& tables, const Pairing& pairing, const Cast& cast,
                    Findings& findings) {
  Play play(schedule, tables, pairing, cast);
  play.run();
  if (!play.complete()) findings.add([&] { return play.diagnosis(); });
}

}  // namespace syncline::check
