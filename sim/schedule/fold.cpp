#include "sim/schedule/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "sim/schedule/exchange.hpp"

namespace syncline {
namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("the ranks of a role cannot be folded: " + reason);
}

/// What a role's program names, each once.
struct Names {
  std::vector<bool> families;
  std::vector<Peer> peers;

  void add(const Peer& peer) {
    if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
};

Names names_in(const Role& role, std::size_t families) {
  Names names{std::vector<bool>(families), {}};
  for (const Op& op : role.program) {
    if (const auto* collective = std::get_if<Collective>(&op.body))
      names.families[collective->family.value()] = true;
    if (const auto* send = std::get_if<Send>(&op.body)) names.add(send->to);
    if (const auto* receive = std::get_if<Receive>(&op.body)) names.add(receive->from);
  }
  return names;
}

// --- who is alike ---

/// What tells ranks apart by their group and place: of each group its class (groups of one class have the same), and
/// whether its members differ.
struct Split {
  FamilyId family;
  std::vector<std::pair<std::uint32_t, bool>> groups;
  friend auto operator<=>(const Split&, const Split&) = default;
};

/// @param same   whether two groups have the same
/// @param alike  whether all members of a group do
template <class Same, class Alike>
Split split_by(FamilyId id, const GroupFamily& family, bool for_all, Same same, Alike alike) {
  Split split{id, {}};
  if (for_all) {
    split.groups.assign(family.group_count(), {0, !alike(GroupId(0))});
    return split;
  }
  std::vector<GroupId> first;  // of each class
  for (std::size_t g = 0; g < family.group_count(); ++g) {
    const auto known = std::ranges::find_if(first, [&](GroupId other) { return same(other, GroupId(g)); });
    split.groups.emplace_back(known - first.begin(), !alike(GroupId(g)));
    if (known == first.end()) first.emplace_back(g);
  }
  return split;
}

Split split_by(const Schedule& schedule, FamilyId family, const Exchange& exchange) {
  return split_by(
      family, schedule.families[family.value()], exchange.for_all(),
      [&](GroupId a, GroupId b) { return view_of(exchange, a).same_as(view_of(exchange, b)); },
      [&](GroupId group) { return view_of(exchange, group).alike(); });
}

Split split_by(const Schedule& schedule, const RankLoad& load) {
  const auto of = [&](GroupId group) { return factors_of(schedule, load, group); };
  return split_by(
      load.family, schedule.families[load.family.value()], false,
      [&](GroupId a, GroupId b) { return std::ranges::equal(of(a), of(b)); },
      [&](GroupId group) {
        return std::ranges::adjacent_find(of(group), std::not_equal_to<>()) == of(group).end();
      });
}

/// Ranks that are alike have the same number.
class Likeness {
 public:
  explicit Likeness(const Schedule& schedule) : schedule_(schedule) {
    for (const RoleId role : schedule.role_of) number_.push_back(role.value());
    for (std::size_t role = 0; role < schedule.roles.size(); ++role)
      for (const Split& split : splits_in(schedule.roles[role])) refine(RoleId(role), split);
  }
  [[nodiscard]] const std::vector<std::uint32_t>& numbers() const { return number_; }  // by rank
  [[nodiscard]] std::size_t count() const { return next_; }                            // numbers are less

 private:
  [[nodiscard]] std::set<Split> splits_in(const Role& role) const {
    std::set<Split> splits;  // many exchanges tell the same ranks apart
    std::set<LoadId> loads;
    std::set<std::pair<FamilyId, ExchangeId>> exchanges;
    for (const Op& op : role.program) {
      if (op.load && loads.insert(*op.load).second)
        splits.insert(split_by(schedule_, schedule_.loads[op.load->value()]));
      const auto* collective = std::get_if<Collective>(&op.body);
      if (collective == nullptr || !collective->exchange) continue;
      if (exchanges.emplace(collective->family, *collective->exchange).second)
        splits.insert(
            split_by(schedule_, collective->family, schedule_.exchanges[collective->exchange->value()]));
    }
    return splits;
  }

  void refine(RoleId role, const Split& split) {
    const GroupFamily& family = schedule_.families[split.family.value()];
    std::map<std::array<std::uint32_t, 3>, std::uint32_t> numbers;
    for (std::size_t g = 0; g < family.group_count(); ++g) {
      const auto members = family.members(GroupId(g));
      const auto [of_group, differ] = split.groups[g];
      for (std::uint32_t place = 0; place < members.size(); ++place) {
        const std::size_t rank = members[place].value();
        if (schedule_.role_of[rank] != role) continue;
        const auto [entry, added] = numbers.try_emplace({number_[rank], of_group, differ ? place : 0}, next_);
        if (added) ++next_;
        number_[rank] = entry->second;
      }
    }
  }

  const Schedule& schedule_;
  std::vector<std::uint32_t> number_;  // by rank
  std::uint32_t next_ = static_cast<std::uint32_t>(schedule_.roles.size());
};

class Check {
 public:
  Check(const Schedule& schedule, const Cast& cast) : schedule_(schedule), cast_(cast) {}

  void run() {
    if (!schedule_.speeds.empty())
      refuse(fmt::format("rank {} has a speed of its own", schedule_.speeds.front().rank.value()));
    ranks_of_seat_.resize(cast_.seats());
    for (std::size_t rank = 0; rank < schedule_.world_size(); ++rank)
      ranks_of_seat_[cast_.seat_of[rank]].emplace_back(rank);
    std::vector<bool> families(schedule_.families.size());
    std::vector<std::optional<Names>> names_of_role(schedule_.roles.size());
    for (const std::vector<RankId>& ranks : ranks_of_seat_) {
      const RoleId role = schedule_.role_of[ranks.front().value()];
      std::optional<Names>& names = names_of_role[role.value()];
      if (!names) names = names_in(schedule_.roles[role.value()], schedule_.families.size());
      for (std::size_t f = 0; f < families.size(); ++f) families[f] = families[f] || names->families[f];
      for (const Peer& peer : names->peers) check_peer(ranks, peer);
    }
    for (std::size_t f = 0; f < families.size(); ++f)
      if (families[f]) check_family(schedule_.families[f]);
  }

 private:
  [[nodiscard]] RankId player(RankId rank) const { return cast_.played[cast_.seat_of[rank.value()]]; }
  [[nodiscard]] const std::string& role_name(RankId rank) const { return schedule_.role(rank).name; }

  void check_family(const GroupFamily& family) const {
    for (std::size_t g = 0; g < family.group_count(); ++g) {
      const auto members = family.members(GroupId(g));
      const RankId first = player(members.front());
      if (!family.contains(first))  // nobody of that role issues its collectives
        continue;
      const GroupId model = family.group_of(first);
      const auto same_role = [&](RankId a, RankId b) { return player(a) == player(b); };
      if (!std::ranges::equal(members, family.members(model), same_role))
        refuse(fmt::format(
            "in family \"{}\" the group of rank {} does not hold the roles of the group of rank {}, "
            "which stands for it, in their order",
            family.name(), members.front().value(), first.value()));
      for (const RankId member : members)
        if (family.group_of(player(member)) != model)
          refuse(fmt::format(
              "in family \"{}\" roles \"{}\" and \"{}\" meet, but ranks {} and {}, which stand for "
              "them, are in different groups",
              family.name(), role_name(first), role_name(member), first.value(), player(member).value()));
    }
  }

  /// @param ranks  that are alike
  void check_peer(const std::vector<RankId>& ranks, const Peer& peer) const {
    const std::string& name = role_name(ranks.front());
    if (peer.axis < 0 && ranks.size() > 1)
      refuse(fmt::format("role \"{}\" of {} ranks names a peer by its number, rank {}", name, ranks.size(),
                         peer.coordinate));
    const RankId model = ranks.front(), models_peer = schedule_.peer(model, peer);
    if (!cast_.plays(models_peer))
      refuse(fmt::format(
          "rank {}, which stands for role \"{}\", exchanges with rank {}, but rank {} stands for role "
          "\"{}\"",
          model.value(), name, models_peer.value(), player(models_peer).value(), role_name(models_peer)));
    for (const RankId rank : ranks) {
      check_place(rank, model, peer.axis);
      const RankId other = schedule_.peer(rank, peer);
      if (player(other) != models_peer)
        refuse(fmt::format(
            "rank {} exchanges with role \"{}\", but rank {}, which stands for it, with role \"{}\"",
            rank.value(), role_name(other), model.value(), role_name(models_peer)));
    }
  }

  /// Else two ranks of a role could have one peer.
  void check_place(RankId rank, RankId model, int axis) const {
    if (axis < 0) return;
    const Mesh& mesh = schedule_.meshes.front();
    const int own = mesh.coordinate(rank, axis), models = mesh.coordinate(model, axis);
    if (own != models)
      refuse(fmt::format(
          "rank {} exchanges along axis \"{}\" from {}, but rank {}, which stands for it, from {}",
          rank.value(), mesh.axes()[static_cast<std::size_t>(axis)].name, own, model.value(), models));
  }

  const Schedule& schedule_;
  const Cast& cast_;
  std::vector<std::vector<RankId>> ranks_of_seat_;  // ascending
};

}  // namespace

Cast everybody(const Schedule& schedule) {
  Cast cast;
  for (std::size_t rank = 0; rank < schedule.world_size(); ++rank) cast.played.emplace_back(rank);
  cast.seat_of.resize(schedule.world_size());
  std::iota(cast.seat_of.begin(), cast.seat_of.end(), 0U);
  return cast;
}

Cast one_a_role(const Schedule& schedule) {
  constexpr auto None = static_cast<std::uint32_t>(-1);
  Cast cast;
  const Likeness likeness(schedule);
  std::vector<std::uint32_t> seat_of_like(likeness.count(), None);
  for (std::size_t rank = 0; rank < schedule.world_size(); ++rank) {
    std::uint32_t& seat = seat_of_like[likeness.numbers()[rank]];
    if (seat == None) {
      seat = static_cast<std::uint32_t>(cast.played.size());
      cast.played.emplace_back(rank);
    }
    cast.seat_of.push_back(seat);
  }
  Check(schedule, cast).run();
  return cast;
}

}  // namespace syncline
