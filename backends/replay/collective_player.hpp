// Plays collectives on a network: in full, transfer by transfer, or each as a few actions (chains always in
// full).
//
// `auto` takes what is predicted to end first, alone on the network: where the topology has figures for the
// kind, of the algorithms and protocols that have them (the library has no others); else, by the links, of
// all that carry it out.
//
// Where the topology has figures of its communication library, a collective takes what these predict when it
// is alone: a latency, and its bytes no faster than its protocol's pace. What others contend with is what it
// puts on the links.
//
// An all-to-all with an exchange goes in the rounds of exchange_rounds.hpp; direct, and with figures, it takes by these
// what its own bytes on the fullest link do.
//
// In a folded run the collective of one group stands for those of all its siblings: the groups of its family
// that hold ranks that are alike. They run at the same time, so they are one action over the links of all.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/replay/bundle_book.hpp"
#include "backends/replay/paths.hpp"
#include "sim/collective/cost.hpp"
#include "sim/collective/exchange_rounds.hpp"
#include "sim/collective/link_cost.hpp"
#include "sim/schedule/fold.hpp"

namespace syncline {

class CollectivePlayer {
 public:
  /// @param folded  where bundles are entered when one group stands for its siblings; else null
  CollectivePlayer(const Schedule& schedule, const Cluster& cluster, const Cast& cast, Detail detail,
                   Network& network, BundleBook* folded);

  /// Looks up all that start() will need; of every collective of a folded run, before the book is closed.
  /// @throws std::invalid_argument  an algorithm that cannot carry out the kind in this group; in a folded run, a
  ///                                broadcast or reduce by ring: its pieces are never one action
  void prepare(const Collective& collective, GroupId group) { static_cast<void>(part_of(collective, group)); }

  /// All members have arrived. `owner` comes back from on_step() when it is over.
  /// @param uneven  factor on its latencies
  void start(const Collective& collective, GroupId group, std::uint32_t owner, double uneven = 1);

  /// One of our events; the owner of the collective when that ended it.
  [[nodiscard]] std::optional<std::uint32_t> on_step(std::uint32_t slot, std::uint32_t step);

  /// Routes or bandwidths of the topology have changed: what is known of them is looked up again. How collectives are
  /// carried out stays as it was chosen. Not of a folded run.
  void look_up_again();
  /// What an action under way, of this token, loads by what is known now; nothing for a transfer between two members.
  [[nodiscard]] const Bundle* bundle_of(std::uint32_t slot, std::uint32_t step) const;

  /// What was chosen for each (kind, family, size), in a fixed order.
  [[nodiscard]] std::vector<CollectiveChoice> choices() const;
  /// What all members of all collectives so far send.
  [[nodiscard]] Bytes bytes_sent_so_far() const { return bytes_sent_; }

 private:
  struct Progress {  // of one sender in a lane
    int sent = 0, received = 0;
    bool busy = false;
  };
  struct Piece {  // of a track
    std::size_t round = 0, outstanding = 0;
    int repeated = 0;
    bool busy = false;
  };
  /// Of something between nodes: in one group at most, and in all siblings together.
  template <class Amount>
  struct Sum {
    Amount most{}, total{};
    void add(Amount amount) {
      most = std::max(most, amount);
      total += amount;
    }
  };
  using Counts = Sum<std::size_t>;
  /// On which nodes the members are.
  struct Places {
    std::size_t nodes = 0;  // of one group, at most
    Counts pairs,
        far_from_first;  // ordered pairs of members on different nodes; members away from the first's
  };
  /// A round of a track: as one action, and what comes before its bytes.
  struct RoundPath {
    Bundle bundle;            // of all siblings, per byte that its largest flow moves
    double largest_flow = 0;  // share of S
    int repeat = 1;
    /// The different ones of its links, with no other traffic: mean latency of what crosses it, per byte of
    /// S; and of its flows, each alone. None is less than another in both.
    std::vector<HopCost> costs{};

    /// What comes before its bytes at the pace of the fullest link, for so much of S. Links of flows that have far to go
    /// begin late, but only the last to be done counts.
    [[nodiscard]] Seconds latency(Bytes bytes) const;
  };
  struct Rounds {
    std::size_t tracks = 0;
    std::shared_ptr<const std::vector<Track>> flows;  // in full detail
    std::vector<std::vector<RoundPath>> paths;        // [track][round]; in aggregate detail

    [[nodiscard]] std::size_t rounds_of(std::size_t track) const {
      return flows ? (*flows)[track].size() : paths[track].size();
    }
    [[nodiscard]] int repeat(std::size_t track, std::size_t round) const {
      return flows ? (*flows)[track][round].repeat : paths[track][round].repeat;
    }
  };
  struct Lanes {
    LanePaths paths;  // the group's own hops, and the bundle and costs of all siblings
    Counts between_nodes;
  };
  using FanOuts = std::vector<FanOut>;  // by source; when folded, one for all sources of all siblings

  struct PartKey {
    CollectiveKind kind;
    Algorithm algorithm;  // as asked for
    double bytes;
    int chunks;
    std::optional<ExchangeId> exchange;
    bool back;
    std::optional<LibraryId> library;
    double call, least;  // s
    auto operator<=>(const PartKey&) const = default;
  };
  /// How a collective is carried out.
  struct Method {
    Algorithm algorithm = Algorithm::Ring;
    const ProtocolFigures* figures = nullptr;  // null: it costs what its links cost
  };
  /// What plans, but for the size, depend on.
  struct Plans {
    CollectiveKind kind;
    Algorithm algorithm;
    std::optional<ExchangeId> exchange;
    bool back = false;
    auto operator<=>(const Plans&) const = default;
  };
  struct OwnLoad {
    std::vector<LinkUse> uses;
    Load load;  // of these
  };
  struct Group;
  /// What collectives of one kind, algorithm and size in one group have in common.
  struct Part {
    Group* group = nullptr;
    Collective collective;
    Method method;
    const Bundle* bundle = nullptr;         // of one action; null:
    CollectivePlan plan;                    // is played transfer by transfer, or fan-out by fan-out
    Lanes* lanes = nullptr;                 // null: of bursts, flows or
    Rounds* rounds = nullptr;               // rounds, gone through
    int chunks = 1;                         // piece by piece
    Bytes progress;                         // as one: of the bundle,
    Seconds latency;                        // and what comes before; with figures: of all its steps together
    Seconds bytes_time;                     // with figures: no less after the latency; else 0
    Stretch wire;                           // with figures: of what it moves
    bool idle = false;                      // nobody has anything for another
    Bytes bytes_sent, bytes_between_nodes;  // by all siblings
    CollectiveChoice* choice = nullptr;
  };
  struct Group {  // what is known of one group of one family
    GroupId id;
    std::vector<RankId> members;
    std::vector<GroupId> siblings;  // that it stands for, itself among them
    GroupShape shape;
    bool alike = true;                                    // all siblings lie as it does
    std::optional<Lanes> ring, chain, back_chain, shift;  // back: to the first member
    std::array<std::optional<FanOuts>, 2> fan_outs;       // by Burst::Pattern
    Places places;
    std::map<Plans, OwnLoad> loads;        // of this group alone, of a byte of S
    std::map<Plans, Sum<double>> between;  // bytes between nodes of a byte of S
    std::map<std::pair<Plans, const ProtocolFigures*>, Bundle> bundles;  // of all siblings, per byte of S
    std::map<Plans, LinkCost> costs;                                     // of this group alone, by the links
    std::map<Plans, Rounds> rounds;
    std::map<PartKey, Part> parts;
  };
  struct Live {  // one collective under way
    const Part* part = nullptr;
    std::vector<std::vector<Progress>> progress;  // [lane][position]
    std::vector<std::vector<Piece>> pieces;       // [track][piece]
    std::size_t phase = 0;
    std::size_t outstanding = 0;  // transfers or actions not yet over
    std::uint32_t owner = 0;
    double uneven = 1;  // factor on latencies
  };
  struct ChoiceKey {
    FamilyId family;
    CollectiveKind kind;
    double bytes;
    Algorithm algorithm;
    const ProtocolFigures* figures;
    std::size_t members;
    bool by_counts;
    auto operator<=>(const ChoiceKey&) const = default;
  };

  // What is known of groups and of what they run: collective_player.cpp.
  Group& group_of(FamilyId family, GroupId group);
  void add_places(std::span<const RankId> members, Places& places) const;
  const Part& part_of(const Collective& collective, GroupId group);
  // How it is carried out: collective_choice.cpp.
  [[nodiscard]] Method method_of(const Collective& collective, Group& group);
  [[nodiscard]] Algorithm library_algorithm(const Collective& collective, const Group& group) const;
  [[nodiscard]] Method by_figures(const Collective& collective, Group& group,
                                  const CollectiveFigures& figures);
  [[nodiscard]] Algorithm by_links(const Collective& collective, Group& group);
  [[nodiscard]] Algorithm exchange_by_links(const Collective& collective, Group& group);
  [[nodiscard]] std::optional<std::string> refusal(const Collective& collective, Algorithm algorithm,
                                                   const Group& group) const;
  [[nodiscard]] bool goes_by_layout(const Collective& collective, Algorithm algorithm,
                                    const Group& group) const;
  [[nodiscard]] ExchangeView exchange_of(const Collective& collective, GroupId group) const;
  [[nodiscard]] Seconds time_by_links(const Collective& collective, Algorithm algorithm, Group& group,
                                      Seconds to_beat);
  [[nodiscard]] Seconds rehearsed_time(const Collective& collective, Algorithm algorithm,
                                       const Group& group) const;
  [[nodiscard]] bool may_choose(const Collective& collective, Algorithm algorithm, const Group& group) const;
  [[nodiscard]] const LinkCost& cost_of(const Collective& collective, Algorithm algorithm, Group& group);
  [[nodiscard]] const OwnLoad& own_load(const Collective& collective, Algorithm algorithm, Group& group);
  // Back in collective_player.cpp.
  [[nodiscard]] static Plans plans_of(const Collective& collective, Algorithm algorithm) {
    return {collective.kind, algorithm, collective.exchange, collective.back};
  }
  [[nodiscard]] CollectivePlan plan_of(const Collective& collective, Algorithm algorithm, Bytes bytes,
                                       const Group& group, GroupId sibling) const;
  void lay_out(Part& part);
  void add_idle(const Collective& collective, Part& part);
  void add_figures(const Collective& collective, Part& part);
  void add_library(const Collective& collective, Part& part);
  void play_at_pace(const Collective& collective, Part& part);
  const Sum<double>& between_nodes_of_byte(const Collective& collective, const Part& part);
  const Bundle& wire_bundle(const Collective& collective, const Part& part);
  void add_lanes(const Collective& collective, Part& part);
  void add_bursts(const Collective& collective, Part& part);
  void add_rounds(const Collective& collective, Part& part);
  void add_flows(const Collective& collective, Part& part);
  Rounds& rounds_of_group(const Collective& collective, const Part& part);
  /// @param all  of flows alone
  [[nodiscard]] std::vector<HopCost> round_costs(const RoundPath& path, const std::vector<LinkUse>& waits,
                                                 std::vector<HopCost> all) const;
  [[nodiscard]] Rounds look_up_rounds(const Collective& collective, const Part& part);
  void add_choice(const Collective& collective, Part& part, Bytes between_nodes_at_most);
  Lanes& lanes_of(const Collective& collective, const Part& part);
  void add_siblings(const Collective& collective, const Part& part, Lanes& lanes);
  [[nodiscard]] static std::size_t sources_of(Burst::Pattern pattern, std::size_t members) {
    return pattern == Burst::Pattern::AllPairs ? members : 1;
  }
  const FanOuts& fan_outs_of(const Collective& collective, Group& group, Burst::Pattern pattern);
  [[nodiscard]] FanOut merged_fan_out(const Collective& collective, const Group& group,
                                      Burst::Pattern pattern);
  [[nodiscard]] std::span<const RankId> members_of(const Collective& collective, GroupId group) const;
  [[nodiscard]] std::vector<AcceleratorId> accelerators_of(std::span<const RankId> members) const;
  [[nodiscard]] GroupShape shape_of_group(std::span<const RankId> members) const;
  // The play: collective_play.cpp.
  void play_lanes(std::uint32_t slot);
  void play_flows(std::uint32_t slot);
  void play_phase(std::uint32_t slot);
  void play_rounds(std::uint32_t slot);
  void try_round(std::uint32_t slot, std::size_t track, std::size_t piece);
  void play_repeat(std::uint32_t slot, std::size_t track, std::size_t piece);
  void on_round_step(std::uint32_t slot, std::size_t track, std::size_t piece);
  void try_send(std::uint32_t slot, std::uint32_t lane, std::uint32_t position);
  void move(const Bundle& bundle, Bytes bytes, Seconds latency, std::uint32_t slot, std::uint32_t step = 0);
  void transfer_between(const Part& part, std::uint32_t from, std::uint32_t to, Bytes bytes,
                        std::size_t steps, std::uint32_t slot);
  void transfer(std::span<const LinkUse> uses, Bytes bytes, Bytes whole, Seconds latency, std::uint32_t slot,
                std::uint32_t step);

  const Schedule& schedule_;
  const Cluster& cluster_;
  const Cast& cast_;
  Detail detail_;
  Network& network_;
  BundleBook* book_;
  PathFinder paths_;
  BundleSum sum_, waits_;
  std::map<std::uint64_t, std::unique_ptr<Group>> groups_;
  std::map<ChoiceKey, CollectiveChoice> choices_;
  Bytes bytes_sent_;
  std::vector<Live> live_;
  std::vector<std::uint32_t> free_;
  std::vector<LinkUse> scratch_;
};

}  // namespace syncline
