#include "backends/replay/load_factors.hpp"

#include "sim/schedule/exchange.hpp"

namespace syncline {

LoadFactors::LoadFactors(const Schedule& schedule, const Cast& cast)
    : schedule_(schedule), places_(schedule.families.size()) {
  for (const GroupFamily& family : schedule.families) members_.push_back(members_of_all(family));
  for (const RankLoad& load : schedule.loads) {
    std::vector<Place>& places = places_[load.family.value()];
    if (!places.empty()) continue;
    places.resize(cast.seats());
    const GroupFamily& family = schedule.families[load.family.value()];
    std::uint32_t of_all = 0;
    for (std::size_t g = 0; g < family.group_count(); ++g) {
      std::uint32_t in_group = 0;
      for (const RankId rank : family.members(GroupId(g))) {
        if (cast.plays(rank)) places[cast.seat_of[rank.value()]] = {in_group, of_all};
        ++in_group;
        ++of_all;
      }
    }
  }
}

double LoadFactors::of(const Op& op, std::uint32_t seat) const {
  if (!op.load) return 1;
  const RankLoad& load = schedule_.loads[op.load->value()];
  const Place& place = places_[load.family.value()][seat];
  const bool of_each = load.factors.size() == members_[load.family.value()];
  return load.factors[of_each ? place.of_all : place.in_group];
}

}  // namespace syncline
