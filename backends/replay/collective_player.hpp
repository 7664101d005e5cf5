// Plays collectives on a network: in full, transfer by transfer, or each as a few actions (chains always in full).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.hpp"
#include "backends/replay/paths.hpp"

namespace syncline {

class CollectivePlayer {
 public:
  CollectivePlayer(const Schedule& schedule, const Cluster& cluster, Detail detail, Network& network);

  /// All members have arrived. `owner` comes back from on_step() when it is over.
  void start(const Collective& collective, GroupId group, std::uint32_t owner);

  /// One of our events; the owner of the collective when that ended it.
  [[nodiscard]] std::optional<std::uint32_t> on_step(std::uint32_t slot, std::uint32_t step);

  /// What was chosen for each (kind, family, size), in a fixed order.
  [[nodiscard]] std::vector<CollectiveChoice> choices() const;
  /// What all members of all collectives so far send.
  [[nodiscard]] Bytes bytes_sent_so_far() const { return bytes_sent_; }

 private:
  struct Progress {  // of one sender in a lane
    int sent = 0, received = 0;
    bool busy = false;
  };
  struct Group {  // what is known of one group of one family
    std::vector<RankId> members;
    std::vector<std::vector<std::uint32_t>> rings;
    std::optional<LanePaths> ring_paths, chain_paths;
    std::vector<Bundle> fan_out;  // by source; empty until a direct collective asks
    std::size_t nodes = 0;
    std::size_t pairs_between_nodes = 0;  // ordered pairs of members on different nodes
    std::size_t far_from_first = 0;       // members on another node than the first
  };
  struct Live {  // one collective under way
    Group* group = nullptr;
    std::shared_ptr<const CollectivePlan> plan;
    const LanePaths* lanes = nullptr;
    std::vector<std::vector<Progress>> progress;  // [lane][position]
    std::size_t phase = 0;
    std::size_t outstanding = 0;                  // transfers or actions not yet over
    std::uint32_t owner = 0;
  };
  struct PlanKey {
    CollectiveKind kind;
    Algorithm algorithm;
    FamilyId family;
    GroupId group;
    double bytes;
    auto operator<=>(const PlanKey&) const = default;
  };
  struct ChoiceKey {
    FamilyId family;
    CollectiveKind kind;
    double bytes;
    Algorithm algorithm;
    std::size_t members;
    auto operator<=>(const ChoiceKey&) const = default;
  };

  Group& group_of(FamilyId family, GroupId group);
  const LanePaths& lane_paths(Group& group, const CollectivePlan& plan);
  [[nodiscard]] bool expanded(const CollectivePlan& plan) const;
  void play_lanes(std::uint32_t slot);
  void play_phase(std::uint32_t slot);
  void try_send(std::uint32_t slot, std::uint32_t lane, std::uint32_t position);
  void note_choice(const Collective& collective, const Group& group, const CollectivePlan& plan,
                   const LanePaths* lanes);
  void transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, std::uint32_t slot, std::uint32_t step);

  const Schedule& schedule_;
  Detail detail_;
  Network& network_;
  PathFinder paths_;
  std::map<std::uint64_t, std::unique_ptr<Group>> groups_;
  std::map<PlanKey, std::shared_ptr<const CollectivePlan>> plans_;
  std::map<ChoiceKey, CollectiveChoice> choices_;
  Bytes bytes_sent_;
  std::vector<Live> live_;
  std::vector<std::uint32_t> free_;
  std::vector<LinkUse> scratch_;
};

}  // namespace syncline
