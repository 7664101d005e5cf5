#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "sim/core/random.hpp"
#include "sim/schedule/check_parts.hpp"

namespace syncline::check {
namespace {

// --- collectives ---------------------------------------------------------------------------------

// What the members of a group must agree on.
using Signature = std::tuple<CollectiveKind, Algorithm, Bytes, int, std::optional<ExchangeId>, bool,
                             std::optional<LibraryId>, Seconds, Seconds>;

std::string text(const Schedule& schedule, const Collective& collective) {
  std::string kind = fmt::format("{} of {}", name_of(collective.kind), exact_bytes(collective.bytes));
  if (collective.chunks != 1) kind += fmt::format(" in {} chunks", collective.chunks);
  if (collective.exchange)
    kind += fmt::format(" {} exchange \"{}\"", collective.back ? "back from" : "with",
                        schedule.exchanges[collective.exchange->value()].name);
  if (collective.algorithm != Algorithm::Auto) kind += fmt::format(" by {}", name_of(collective.algorithm));
  if (collective.library)
    kind += fmt::format(" of library \"{}\"", schedule.libraries[collective.library->value()]);
  return kind;
}

class CollectiveCheck {
 public:
  CollectiveCheck(const Schedule& schedule, const Tables& tables, Findings& findings)
      : schedule_(schedule), tables_(tables), findings_(findings) {}

  void check_queue(std::uint32_t queue) {
    // Roles that issue equal sequences need no comparison by rank: each distinct sequence gets a number.
    std::map<std::vector<Signature>, std::uint32_t> numbers;
    std::vector<std::uint32_t> sequence;  // by role
    for (std::size_t role = 0; role < tables_.roles.size(); ++role)
      sequence.push_back(
          numbers.try_emplace(signatures(role, queue), static_cast<std::uint32_t>(numbers.size()))
              .first->second);
    if (numbers.size() == 1) return;

    std::set<std::pair<std::uint32_t, std::uint32_t>> told;  // pairs of roles
    const GroupFamily& family = schedule_.families[tables_.queues[queue].family.value()];
    for (std::size_t g = 0; g < family.group_count(); ++g) {
      const auto members = family.members(GroupId(g));
      const std::uint32_t first_role = schedule_.role_of[members.front().value()].value();
      for (const RankId member : members) {
        const std::uint32_t role = schedule_.role_of[member.value()].value();
        if (sequence[role] != sequence[first_role] && told.emplace(first_role, role).second)
          findings_.add([&] { return difference(queue, members.front(), member); });
      }
    }
  }

 private:
  [[nodiscard]] const Collective& collective(std::size_t role, std::size_t op) const {
    return std::get<Collective>(schedule_.roles[role].program[op].body);
  }

  [[nodiscard]] Signature signature(std::size_t role, std::size_t op) const {
    const Collective& body = collective(role, op);
    return {body.kind, body.algorithm, body.bytes, body.chunks, body.exchange,
            body.back, body.library,   body.call,  body.least};
  }

  [[nodiscard]] std::vector<Signature> signatures(std::size_t role, std::uint32_t queue) const {
    std::vector<Signature> list;
    for (const std::uint32_t op : tables_.roles[role].queue_ops[queue]) list.push_back(signature(role, op));
    return list;
  }

  // The first place where two members of a group part ways.
  [[nodiscard]] std::string difference(std::uint32_t queue, RankId a, RankId b) const {
    const std::size_t role_a = schedule_.role_of[a.value()].value(),
                      role_b = schedule_.role_of[b.value()].value();
    const auto& ops_a = tables_.roles[role_a].queue_ops[queue];
    const auto& ops_b = tables_.roles[role_b].queue_ops[queue];
    const std::string where = fmt::format("family \"{}\" in stream \"{}\"",
                                          schedule_.families[tables_.queues[queue].family.value()].name(),
                                          schedule_.streams[tables_.queues[queue].stream.value()]);
    for (std::size_t i = 0; i < std::min(ops_a.size(), ops_b.size()); ++i) {
      if (signature(role_a, ops_a[i]) == signature(role_b, ops_b[i])) continue;
      return fmt::format("{}: as collective {} rank {} issues {}, {}, but rank {} of its group issues {}, {}",
                         where, i, a.value(), text(schedule_, collective(role_a, ops_a[i])),
                         op_text(schedule_, role_a, ops_a[i]), b.value(),
                         text(schedule_, collective(role_b, ops_b[i])), op_text(schedule_, role_b, ops_b[i]));
    }
    const bool a_has_more = ops_a.size() > ops_b.size();
    const std::string more = a_has_more ? op_text(schedule_, role_a, ops_a[ops_b.size()])
                                        : op_text(schedule_, role_b, ops_b[ops_a.size()]);
    return fmt::format(
        "{}: rank {} issues {} collectives, but rank {} of its group issues {}; the first that only rank {} "
        "issues is {}",
        where, a.value(), ops_a.size(), b.value(), ops_b.size(), a_has_more ? a.value() : b.value(), more);
  }

  const Schedule& schedule_;
  const Tables& tables_;
  Findings& findings_;
};

// --- sends and receives --------------------------------------------------------------------------

/// All messages of one number from one rank to another.
struct Channel {
  std::uint32_t sender, receiver;
  int message;
  friend bool operator==(const Channel&, const Channel&) = default;
};
struct ChannelHash {
  std::size_t operator()(const Channel& channel) const {
    return mix((std::uint64_t{channel.sender} << 32) | channel.receiver,
               static_cast<std::uint64_t>(channel.message));
  }
};
struct Traffic {
  std::uint32_t sends = 0, receives = 0;
  std::size_t first = 0;  // where the channel's sends begin
};

class Pairer {
 public:
  Pairer(const Schedule& schedule, const Tables& tables, const Cast& cast, Findings& findings)
      : schedule_(schedule), tables_(tables), cast_(cast), findings_(findings) {}

  Pairing pair() && {
    std::size_t transfers = 0;
    pairing_.first.resize(schedule_.world_size());
    for (const RankId rank : cast_.played) {
      pairing_.first[rank.value()] = transfers;
      transfers += role_of(rank.value()).transfers.size();
    }
    pairing_.partner_op.resize(transfers);
    each_transfer([&](std::size_t channel, std::size_t, bool is_send) {
      ++(is_send ? traffic_[channel].sends : traffic_[channel].receives);
    });
    check_counts();
    if (findings_.empty()) match();
    return std::move(pairing_);
  }

 private:
  [[nodiscard]] const RoleTables& role_of(std::size_t rank) const {
    return tables_.roles[schedule_.role_of[rank].value()];
  }

  std::uint32_t channel_number(const Channel& channel) {
    const auto [entry, added] = numbers_.try_emplace(channel, static_cast<std::uint32_t>(channels_.size()));
    if (added) {
      channels_.push_back(channel);
      traffic_.emplace_back();
    }
    return entry->second;
  }

  // Calls visit(channel, index of the transfer over all ranks, whether it sends), rank by rank in program
  // order.
  template <class Visit>
  void each_transfer(Visit visit) {
    std::vector<std::uint32_t> sends, receives;  // channel by endpoint
    for (const RankId played : cast_.played) {
      const std::uint32_t rank = played.value();
      const RoleTables& role = role_of(rank);
      if (role.transfers.empty()) continue;
      sends.clear();
      receives.clear();
      for (const Endpoint& to : role.sends)
        sends.push_back(channel_number({rank, schedule_.peer(RankId(rank), to.peer).value(), to.message}));
      for (const Endpoint& from : role.receives)
        receives.push_back(
            channel_number({schedule_.peer(RankId(rank), from.peer).value(), rank, from.message}));
      const std::vector<Op>& program = schedule_.role(RankId(rank)).program;
      for (std::size_t t = 0; t < role.transfers.size(); ++t) {
        const bool is_send = std::holds_alternative<Send>(program[role.transfers[t]].body);
        visit((is_send ? sends : receives)[role.endpoint[t]], pairing_.first[rank] + t, is_send);
      }
    }
  }

  void check_counts() {
    std::size_t first = 0;
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      traffic_[c].first = first;
      first += traffic_[c].sends;
      if (traffic_[c].sends != traffic_[c].receives) findings_.add([&] { return unequal_counts(c); });
    }
    sends_.resize(first);
  }

  [[nodiscard]] std::string unequal_counts(std::size_t c) const {
    const Channel& channel = channels_[c];
    const Traffic& traffic = traffic_[c];
    const bool lacks_receive = traffic.sends > traffic.receives;
    const std::uint32_t rank = lacks_receive ? channel.sender : channel.receiver;
    const std::uint32_t op = nth_transfer(c, lacks_receive, std::min(traffic.sends, traffic.receives));
    return fmt::format(
        "rank {} sends {} times to rank {} (message {}), which receives {} times; the first {} is {}",
        channel.sender, traffic.sends, channel.receiver, channel.message, traffic.receives,
        lacks_receive ? "send without its receive" : "receive without its send",
        op_text(schedule_, schedule_.role_of[rank].value(), op));
  }

  // The n-th op of a channel at one of its ends.
  [[nodiscard]] std::uint32_t nth_transfer(std::size_t c, bool at_sender, std::uint32_t n) const {
    const Channel& channel = channels_[c];
    const RankId rank(at_sender ? channel.sender : channel.receiver),
        other(at_sender ? channel.receiver : channel.sender);
    for (const std::uint32_t op : role_of(rank.value()).transfers) {
      const OpBody& body = schedule_.role(rank).program[op].body;
      const auto* send = std::get_if<Send>(&body);
      if ((send != nullptr) != at_sender) continue;
      const Endpoint end = send != nullptr
                               ? Endpoint{send->to, send->message}
                               : Endpoint{std::get<Receive>(body).from, std::get<Receive>(body).message};
      if (end.message == channel.message && schedule_.peer(rank, end.peer) == other && n-- == 0) return op;
    }
    return 0;
  }

  // The k-th receive of a channel meets its k-th send.
  void match() {
    std::vector<std::uint32_t> next(channels_.size(), 0);
    each_transfer([&](std::size_t channel, std::size_t transfer, bool is_send) {
      if (is_send) sends_[traffic_[channel].first + next[channel]++] = transfer;
    });
    std::fill(next.begin(), next.end(), 0);
    each_transfer([&](std::size_t channel, std::size_t transfer, bool is_send) {
      if (!is_send) meet(channels_[channel], sends_[traffic_[channel].first + next[channel]++], transfer);
    });
  }

  void meet(const Channel& channel, std::size_t send_transfer, std::size_t receive_transfer) {
    const std::uint32_t send_op =
        role_of(channel.sender).transfers[send_transfer - pairing_.first[channel.sender]];
    const std::uint32_t receive_op =
        role_of(channel.receiver).transfers[receive_transfer - pairing_.first[channel.receiver]];
    pairing_.partner_op[send_transfer] = receive_op;
    pairing_.partner_op[receive_transfer] = send_op;
    const Send& send = std::get<Send>(schedule_.role(RankId(channel.sender)).program[send_op].body);
    const Receive& receive =
        std::get<Receive>(schedule_.role(RankId(channel.receiver)).program[receive_op].body);
    if (send.bytes != receive.bytes)
      findings_.add([&] {
        return disagreement(channel, send_op, receive_op, exact_bytes(send.bytes),
                            exact_bytes(receive.bytes));
      });
    if (send.eager != receive.eager) {
      const auto way = [](bool eager) { return std::string(eager ? "eagerly" : "by rendezvous"); };
      findings_.add(
          [&] { return disagreement(channel, send_op, receive_op, way(send.eager), way(receive.eager)); });
    }
  }

  [[nodiscard]] std::string disagreement(const Channel& channel, std::uint32_t send_op,
                                         std::uint32_t receive_op, const std::string& sent,
                                         const std::string& received) const {
    return fmt::format("rank {} sends {}, {}, but rank {} receives {}, {}", channel.sender, sent,
                       op_text(schedule_, schedule_.role_of[channel.sender].value(), send_op),
                       channel.receiver, received,
                       op_text(schedule_, schedule_.role_of[channel.receiver].value(), receive_op));
  }

  const Schedule& schedule_;
  const Tables& tables_;
  const Cast& cast_;
  Findings& findings_;
  Pairing pairing_;
  std::unordered_map<Channel, std::uint32_t, ChannelHash> numbers_;  // looked up only, never walked
  std::vector<Channel> channels_;
  std::vector<Traffic> traffic_;    // by channel
  std::vector<std::size_t> sends_;  // transfers that send, channel after channel
};

// Nobody sends to or receives from itself. A peer given by axis is another rank for each, so all ranks are
// asked.
void check_peers(const Schedule& schedule, std::size_t role, const RoleTables& tables, Findings& findings) {
  std::vector<bool> sends_asked(tables.sends.size()), receives_asked(tables.receives.size());
  for (std::size_t t = 0; t < tables.transfers.size(); ++t) {
    const std::uint32_t op = tables.transfers[t], end = tables.endpoint[t];
    const bool is_send = std::holds_alternative<Send>(schedule.roles[role].program[op].body);
    if ((is_send ? sends_asked : receives_asked)[end]) continue;
    (is_send ? sends_asked : receives_asked)[end] = true;
    const Peer& peer = (is_send ? tables.sends : tables.receives)[end].peer;
    for (const std::uint32_t rank : tables.ranks) {
      if (schedule.peer(RankId(rank), peer) != RankId(rank)) continue;
      findings.add([&] {
        return fmt::format("rank {} {} itself, {}", rank, is_send ? "sends to" : "receives from",
                           op_text(schedule, role, op));
      });
      break;
    }
  }
}

// Each rank of a role has its part of the loads that the program uses.
void check_loads(const Schedule& schedule, std::size_t role, const RoleTables& tables, Findings& findings) {
  std::set<FamilyId> asked;
  const std::vector<Op>& program = schedule.roles[role].program;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (!program[i].load) continue;
    const RankLoad& load = schedule.loads[program[i].load->value()];
    if (!asked.insert(load.family).second) continue;
    const GroupFamily& family = schedule.families[load.family.value()];
    const auto outside = std::ranges::find_if(
        tables.ranks, [&](std::uint32_t rank) { return !family.contains(RankId(rank)); });
    if (outside != tables.ranks.end())
      findings.add([&] {
        return fmt::format("rank {} is in no group of family \"{}\", but has load \"{}\" of it, {}", *outside,
                           family.name(), load.name, op_text(schedule, role, i));
      });
  }
}

}  // namespace

void check_membership(const Schedule& schedule, const Tables& tables, Findings& findings) {
  for (std::size_t r = 0; r < tables.roles.size(); ++r) {
    const RoleTables& role = tables.roles[r];
    for (std::size_t queue = 0; queue < tables.queues.size(); ++queue) {
      if (role.queue_ops[queue].empty()) continue;
      const GroupFamily& family = schedule.families[tables.queues[queue].family.value()];
      const auto outside = std::find_if(role.ranks.begin(), role.ranks.end(),
                                        [&](std::uint32_t rank) { return !family.contains(RankId(rank)); });
      if (outside != role.ranks.end())
        findings.add([&] {
          return fmt::format("rank {} is in no group of family \"{}\", but issues a collective of it, {}",
                             *outside, family.name(), op_text(schedule, r, role.queue_ops[queue].front()));
        });
    }
    check_loads(schedule, r, role, findings);
    check_peers(schedule, r, role, findings);
  }
}

void check_collectives(const Schedule& schedule, const Tables& tables, Findings& findings) {
  CollectiveCheck check(schedule, tables, findings);
  for (std::uint32_t queue = 0; queue < tables.queues.size(); ++queue) check.check_queue(queue);
}

Pairing pair_transfers(const Schedule& schedule, const Tables& tables, const Cast& cast, Findings& findings) {
  return Pairer(schedule, tables, cast, findings).pair();
}

}  // namespace syncline::check
