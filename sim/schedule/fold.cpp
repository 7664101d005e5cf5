#include "sim/schedule/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

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

class Check {
 public:
  Check(const Schedule& schedule, const Cast& cast) : schedule_(schedule), cast_(cast) {}

  void run() {
    if (!schedule_.speeds.empty())
      refuse(fmt::format("rank {} has a speed of its own", schedule_.speeds.front().rank.value()));
    ranks_of_role_.resize(schedule_.roles.size());
    for (std::size_t rank = 0; rank < schedule_.world_size(); ++rank)
      ranks_of_role_[schedule_.role_of[rank].value()].emplace_back(rank);
    std::vector<bool> families(schedule_.families.size());
    for (const RankId player : cast_.played) {
      const Names names = names_in(schedule_.role(player), schedule_.families.size());
      for (std::size_t f = 0; f < families.size(); ++f) families[f] = families[f] || names.families[f];
      for (const Peer& peer : names.peers) check_peer(schedule_.role_of[player.value()], peer);
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

  void check_peer(RoleId role, const Peer& peer) const {
    const std::string& name = schedule_.roles[role.value()].name;
    const std::vector<RankId>& ranks = ranks_of_role_[role.value()];
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
  std::vector<std::vector<RankId>> ranks_of_role_;  // ascending
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
  std::vector<std::uint32_t> seat_of_role(schedule.roles.size(), None);
  for (std::size_t rank = 0; rank < schedule.world_size(); ++rank) {
    std::uint32_t& seat = seat_of_role[schedule.role_of[rank].value()];
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
