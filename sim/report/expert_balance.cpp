#include "sim/report/expert_balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "sim/collective/exchange_rounds.hpp"
#include "sim/moe/capacity.hpp"
#include "sim/training/training.hpp"

namespace syncline {
namespace {

// --- tokens ------------------------------------------------------------------------------------------------

struct RoutingText {
  std::string operator()(const moe::Balanced&) const { return "balanced"; }
  std::string operator()(const moe::Uniform&) const { return "uniform"; }
  std::string operator()(const moe::Zipf& zipf) const { return fmt::format("zipf {}", zipf.exponent); }
  std::string operator()(const moe::Dirichlet& dirichlet) const {
    return fmt::format("dirichlet {}", dirichlet.alpha);
  }
  std::string operator()(const moe::Hot& hot) const {
    return fmt::format("{} hot with {:.4g} %", hot.experts, hot.share * 100);
  }
  std::string operator()(const moe::FromFile& measured) const { return "counts of " + measured.file; }
};

ExpertTokens::Layer layer_of(const TrainingJob& job, const moe::ExpertGroup& group, int number) {
  const moe::TokenCounts counts = tokens_of_layer(job.model, job.shape, job.routing, number);
  ExpertTokens::Layer layer{number, {}, moe::dropped_share(counts), 0};
  if (!std::holds_alternative<moe::Balanced>(job.routing.routing))
    layer.imbalance = moe::imbalance_of(counts, group);
  if (counts.padding > 0)
    layer.padding = static_cast<double>(counts.padding) / static_cast<double>(counts.experts.sum());
  return layer;
}

// --- ops ---------------------------------------------------------------------------------------------------

enum class Way : std::uint8_t { ToExperts, Back };
constexpr std::array<std::pair<std::string_view, Way>, 4> Exchanges{{{"dispatch", Way::ToExperts},
                                                                     {"combine", Way::Back},
                                                                     {"dispatch-gradient", Way::Back},
                                                                     {"combine-gradient", Way::ToExperts}}};

/// Of a collective that brings tokens to experts or back, or their gradients.
std::optional<Way> way_of(std::string_view tag) {
  for (const auto& [name, way] : Exchanges) {
    if (!tag.ends_with(name)) continue;
    if (tag.size() == name.size() || tag[tag.size() - name.size() - 1] == '-') return way;
  }
  return std::nullopt;
}

bool is_expert_work(std::string_view tag) {
  constexpr std::string_view Name = "experts";
  return tag.starts_with(Name) &&
         (tag.size() == Name.size() || tag[Name.size()] == '.' || tag[Name.size()] == '-');
}

/// The family of the ranks that share experts.
std::optional<FamilyId> expert_family(const Schedule& schedule) {
  for (const Role& role : schedule.roles)
    for (const Op& op : role.program)
      if (const auto* collective = std::get_if<Collective>(&op.body); collective && way_of(op.tag.name))
        return collective->family;
  return std::nullopt;
}

bool has_expert_work(const Schedule& schedule) {
  return std::ranges::any_of(schedule.roles, [](const Role& role) {
    return std::ranges::any_of(role.program, [](const Op& op) {
      return std::holds_alternative<Compute>(op.body) && is_expert_work(op.tag.name);
    });
  });
}

// --- bytes -------------------------------------------------------------------------------------------------

/// Adds up what all ranks send. Ops that share out their bytes alike are added up first.
class ByteCounter {
 public:
  ByteCounter(const Schedule& schedule, const Cluster& cluster) : schedule_(schedule), cluster_(cluster) {}

  void run() {
    for (std::size_t role = 0; role < schedule_.roles.size(); ++role) {
      std::map<Pattern, std::array<Bytes, 2>> sums;
      for (const Op& op : schedule_.roles[role].program) {
        const auto* collective = std::get_if<Collective>(&op.body);
        const std::optional<Way> way = way_of(op.tag.name);
        if (collective == nullptr || !way) continue;
        sums[pattern_of(*collective)][static_cast<std::size_t>(*way)] += collective->bytes;
      }
      if (!sums.empty()) add(RoleId(role), sums);
    }
    const auto ranks = static_cast<double>(schedule_.world_size());
    for (ExpertBytes& bytes : sent_) bytes = {bytes.inside / ranks, bytes.between / ranks};
  }
  [[nodiscard]] const ExpertBytes& sent(Way way) const { return sent_[static_cast<std::size_t>(way)]; }

 private:
  /// How bytes are shared out in a group.
  struct Pattern {
    FamilyId family;
    std::optional<ExchangeId> exchange;  // none: all have as much for each other
    Algorithm algorithm = Algorithm::Direct;
    auto operator<=>(const Pattern&) const = default;
  };
  using Nodes = std::vector<std::vector<std::uint32_t>>;  // as of Layout
  /// Of S, what a member sends in the mean.
  struct Shares {
    double inside = 0, between = 0;
  };

  [[nodiscard]] static Pattern pattern_of(const Collective& collective) {
    const bool hops =
        collective.algorithm == Algorithm::TwoHop || collective.algorithm == Algorithm::Hierarchical;
    const bool by_hops = hops && collective.kind == CollectiveKind::AllToAll;
    return {collective.family, collective.exchange, by_hops ? collective.algorithm : Algorithm::Direct};
  }

  void add(RoleId role, const std::map<Pattern, std::array<Bytes, 2>>& sums) {
    for (const auto& [pattern, bytes] : sums) {
      const GroupFamily& family = schedule_.families[pattern.family.value()];
      std::map<GroupId, double> members;  // of the role
      for (std::size_t rank = 0; rank < schedule_.world_size(); ++rank)
        if (schedule_.role_of[rank] == role) ++members[family.group_of(RankId(rank))];
      for (const auto& [group, count] : members) {
        const Shares shares = shares_of(pattern, group);
        for (std::size_t way = 0; way < sent_.size(); ++way) {
          sent_[way].inside += bytes[way] * (shares.inside * count);
          sent_[way].between += bytes[way] * (shares.between * count);
        }
      }
    }
  }

  /// Groups that have the same and lie alike on the cluster share one entry.
  const Shares& shares_of(const Pattern& pattern, GroupId group) {
    const Layout layout = layout_of(schedule_.families[pattern.family.value()].members(group));
    const auto [entry, added] =
        known_.try_emplace({pattern, for_all(pattern) ? GroupId(0) : group, layout.nodes});
    if (added) entry->second = counted(pattern, group, layout);
    return entry->second;
  }

  [[nodiscard]] bool for_all(const Pattern& pattern) const {
    return !pattern.exchange || schedule_.exchanges[pattern.exchange->value()].for_all();
  }

  [[nodiscard]] Layout layout_of(std::span<const RankId> members) const {
    std::vector<AcceleratorId> places;
    for (const RankId rank : members) places.push_back(cluster_.placement[rank.value()]);
    return {places.size(), positions_by_node(places, cluster_.topology), std::nullopt};
  }

  [[nodiscard]] Shares counted(const Pattern& pattern, GroupId group, const Layout& layout) const {
    Exchange alike;
    alike.members = static_cast<int>(layout.members);
    alike.counts.assign(alike.pairs(), 1.0);
    const ExchangeView view =
        view_of(pattern.exchange ? schedule_.exchanges[pattern.exchange->value()] : alike, group);
    std::vector<std::size_t> node_of(layout.members);
    for (std::size_t node = 0; node < layout.nodes.size(); ++node)
      for (const std::uint32_t member : layout.nodes[node]) node_of[member] = node;
    Shares shares;
    const bool fits = !exchange_refusal_of(pattern.algorithm, view, layout);
    for (const Track& track :
         exchange_rounds(fits ? pattern.algorithm : Algorithm::Direct, view, false, layout))
      for (const Round& round : track)
        for (const Flow& flow : round.flows)
          (node_of[flow.from] == node_of[flow.to] ? shares.inside : shares.between) += flow.share;
    const auto members = static_cast<double>(layout.members);
    return {shares.inside / members, shares.between / members};
  }

  const Schedule& schedule_;
  const Cluster& cluster_;
  std::map<std::tuple<Pattern, GroupId, Nodes>, Shares> known_;
  std::array<ExpertBytes, 2> sent_{};  // by Way: of all ranks, then of one
};

// --- times -------------------------------------------------------------------------------------------------

/// Of a rank that was played.
struct RankTimes {
  std::vector<double> work;  // s, of its expert ops in order
  double wait = 0, transfer = 0;
  [[nodiscard]] double all_work() const {
    double sum = 0;
    for (const double time : work) sum += time;
    return sum;
  }
};

std::vector<RankTimes> times_by_rank(const Timeline& timeline) {
  enum class Kind : std::uint8_t { Other, Work, Exchange };
  std::vector<Kind> kinds;
  for (const TimelineOp& op : timeline.ops) {
    const bool work = op.kind == SpanKind::Compute && is_expert_work(op.tag.name);
    const bool exchange = op.kind == SpanKind::Communication && way_of(op.tag.name);
    kinds.push_back(work ? Kind::Work : exchange ? Kind::Exchange : Kind::Other);
  }
  std::vector<RankTimes> ranks(timeline.ranks);
  for (const Span& span : timeline.spans) {
    RankTimes& rank = ranks[span.rank.value()];
    if (kinds[span.op] == Kind::Work) rank.work.push_back((span.end - span.start).si());
    if (kinds[span.op] != Kind::Exchange) continue;
    rank.wait += (span.transfer - span.start).si();
    rank.transfer += (span.end - span.transfer).si();
  }
  return ranks;
}

/// Members of a group run the same expert ops in the same order: of each the longest, added up.
double work_of_fullest(std::span<const RankTimes* const> members) {
  double sum = 0;
  std::size_t ops = 0;
  for (const RankTimes* member : members) ops = std::max(ops, member->work.size());
  for (std::size_t op = 0; op < ops; ++op) {
    double longest = 0;
    for (const RankTimes* member : members)
      if (op < member->work.size()) longest = std::max(longest, member->work[op]);
    sum += longest;
  }
  return sum;
}

/// The lowest rank of those that have the longest.
void keep_longest(Seconds time, RankId rank, Seconds& longest, RankId& its_rank) {
  if (time <= longest) return;
  longest = time;
  its_rank = rank;
}

/// @param family  of the ranks that share experts; null: none do
ExpertTimes expert_times(const RunResult& result, const GroupFamily* family) {
  const std::vector<RankTimes> played = times_by_rank(result.timeline);
  const auto times_of = [&](std::size_t rank) -> const RankTimes& {
    return played[result.player_of.empty() ? rank : result.player_of[rank].value()];
  };
  ExpertTimes times;
  const std::size_t ranks = played.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const RankTimes& own = times_of(rank);
    const Seconds work(own.all_work()), wait(own.wait);
    times.work += work;
    times.wait += wait;
    times.transfer += Seconds(own.transfer);
    keep_longest(work, RankId(rank), times.longest_work, times.longest_work_rank);
    keep_longest(wait, RankId(rank), times.longest_wait, times.longest_wait_rank);
    if (family == nullptr || !family->contains(RankId(rank))) times.of_fullest += work;
  }
  for (std::size_t group = 0; family != nullptr && group < family->group_count(); ++group) {
    std::vector<const RankTimes*> members;
    for (const RankId rank : family->members(GroupId(group))) members.push_back(&times_of(rank.value()));
    times.of_fullest += Seconds(work_of_fullest(members)) * static_cast<double>(members.size());
  }
  for (Seconds* sum : {&times.work, &times.wait, &times.transfer, &times.of_fullest})
    *sum = *sum / static_cast<double>(ranks);
  return times;
}

}  // namespace

std::optional<ExpertTokens> expert_tokens(const TrainingJob& job) {
  if (!job.model.experts) return std::nullopt;
  const moe::ExpertGroup group = expert_group_of(job.model, job.shape, job.routing);
  ExpertTokens tokens;
  tokens.routing = std::visit(RoutingText{}, job.routing.routing);
  tokens.experts = group.experts;
  tokens.top_k = group.top_k;
  tokens.ranks = group.ranks;
  tokens.nodes = group.nodes();
  tokens.tensor = job.shape.experts.tensor;
  tokens.gathered = job.shape.experts.dispatch == Dispatch::AllGather;
  const bool alike = std::holds_alternative<moe::Balanced>(job.routing.routing);
  std::vector<moe::LayerImbalance> imbalance;
  for (const int layer : expert_layers(job.model)) {
    tokens.layers.push_back(alike && !tokens.layers.empty() ? tokens.layers.front()
                                                            : layer_of(job, group, layer));
    tokens.layers.back().number = layer;
    imbalance.push_back(tokens.layers.back().imbalance);
    tokens.dropped += tokens.layers.back().dropped;
    tokens.padding += tokens.layers.back().padding;
  }
  tokens.imbalance = moe::over_layers(imbalance);
  tokens.dropped /= static_cast<double>(tokens.layers.size());
  tokens.padding /= static_cast<double>(tokens.layers.size());
  return tokens;
}

std::optional<ExpertBalance> expert_balance(const RunResult& result, const Schedule& schedule,
                                            const Cluster& cluster, std::optional<ExpertTokens> tokens) {
  const std::optional<FamilyId> family = expert_family(schedule);
  if (!tokens && !family && !has_expert_work(schedule)) return std::nullopt;
  ByteCounter bytes(schedule, cluster);
  bytes.run();
  ExpertBalance balance{std::move(tokens), bytes.sent(Way::ToExperts), bytes.sent(Way::Back), std::nullopt};
  if (!result.timeline.spans.empty())
    balance.times = expert_times(result, family ? &schedule.families[family->value()] : nullptr);
  return balance;
}

}  // namespace syncline
