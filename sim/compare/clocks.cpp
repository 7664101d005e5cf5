#include "sim/compare/clocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "sim/compare/waits.hpp"

namespace syncline::compare {
namespace {

constexpr double Certain = 3;  // times the deviation

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// What nine of ten values keep to.
double deviation(std::vector<double> values, double from) {
  for (double& value : values) value = std::abs(value - from);
  const auto nine_tenths = values.begin() + static_cast<std::ptrdiff_t>(values.size() * 9 / 10);
  std::ranges::nth_element(values, nine_tenths);
  return *nine_tenths;
}

// How much more the clock of one rank has moved from A to B than that of another.
struct Difference {
  std::uint32_t from = 0, to = 0;  // ranks
  double offset = 0, deviation = 0;
};

// From the ends of the communications of one timeline, each member held against the first.
using Samples = std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>>;

// moved: by span of `timeline`, how much later it ends in B than in A; nan where it is in one only
void sample(const Timeline& timeline, const std::vector<double>& moved, Samples& samples) {
  for (const std::vector<std::uint32_t>& spans : meetings_of(timeline)) {
    const auto known = [&](std::uint32_t span) { return !std::isnan(moved[span]); };
    const auto first = std::ranges::find_if(spans, known);
    if (first == spans.end()) continue;
    const RankId from = timeline.spans[*first].rank;
    for (auto other = first + 1; other != spans.end(); ++other) {
      const RankId to = timeline.spans[*other].rank;
      if (known(*other) && to != from)
        samples[{from.value(), to.value()}].push_back(moved[*other] - moved[*first]);
    }
  }
}

std::vector<Difference> differences(const Timeline& a, const Timeline& b, std::span<const Pair> pairs) {
  constexpr double Unknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> moved_a(a.spans.size(), Unknown), moved_b(b.spans.size(), Unknown);
  for (const Pair& pair : pairs)
    moved_a[pair.a] = moved_b[pair.b] = b.spans[pair.b].end.si() - a.spans[pair.a].end.si();
  Samples samples;
  sample(a, moved_a, samples);  // where a clock of one timeline is off, the other one still knows who met
  sample(b, moved_b, samples);
  std::vector<Difference> all;
  for (auto& [ranks, values] : samples) {
    const double offset = median(values);
    all.push_back({ranks.first, ranks.second, offset, deviation(std::move(values), offset)});
  }
  return all;
}

// What is known of a rank's clock, all as B against A, s.
struct RankClock {
  std::uint32_t set = 0;  // ranks of one set are joined by communications
  double offset = 0;      // from another rank of the set
  double deviation = 0;   // of that
};

// Offsets in each set from the one of a rank in it, along the most certain differences (Kruskal's tree).
class Sets {
 public:
  explicit Sets(std::size_t ranks) : clocks_(ranks), members_(ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      clocks_[rank].set = rank;
      members_[rank] = {rank};
    }
  }

  void join(std::vector<Difference> known) {
    std::ranges::stable_sort(known, {}, &Difference::deviation);
    for (const Difference& difference : known) join(difference);
  }

  std::vector<RankClock>& clocks() { return clocks_; }
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& members() const { return members_; }

 private:
  void join(const Difference& difference) {
    const RankClock from = clocks_[difference.from], to = clocks_[difference.to];
    if (from.set == to.set) return;
    const bool moves_to = members_[to.set].size() <= members_[from.set].size();
    const std::uint32_t stays = moves_to ? from.set : to.set, goes = moves_to ? to.set : from.set;
    const double shift = from.offset + difference.offset - to.offset;
    for (const std::uint32_t rank : members_[goes]) {
      clocks_[rank].set = stays;
      clocks_[rank].offset += moves_to ? shift : -shift;
      members_[stays].push_back(rank);
    }
    members_[goes].clear();
    for (const std::uint32_t end : {difference.from, difference.to})
      clocks_[end].deviation = std::max(clocks_[end].deviation, difference.deviation);
  }

  std::vector<RankClock> clocks_;
  std::vector<std::vector<std::uint32_t>> members_;  // by set
};

// How far a rank's starts have moved.
struct Move {
  bool known = false;
  double median = 0, deviation = 0;
};

std::vector<Move> moves_of(const Timeline& a, const Timeline& b, std::span<const Pair> pairs,
                           std::size_t ranks) {
  std::vector<std::vector<double>> by_rank(ranks);
  for (const Pair& pair : pairs) {
    const Span& span = a.spans[pair.a];
    by_rank[span.rank.value()].push_back((b.spans[pair.b].start - span.start).si());
  }
  std::vector<Move> moves;
  for (std::vector<double>& values : by_rank) {
    Move& move = moves.emplace_back();
    if (values.empty()) continue;
    move.known = true;
    move.median = median(values);
    move.deviation = deviation(std::move(values), move.median);
  }
  return moves;
}

// What most have: the median, of two in the middle that of the lower rank.
double common(std::vector<std::pair<double, std::uint32_t>> values) {
  std::ranges::sort(values);
  const auto &low = values[(values.size() - 1) / 2], &high = values[values.size() / 2];
  return low.second < high.second ? low.first : high.first;
}

// Makes offsets in each set those from what most of its ranks have, and adds those between sets, where they are certain.
void centre(Sets& sets, const std::vector<Move>& moves) {
  std::vector<RankClock>& clocks = sets.clocks();
  struct SetMove {
    double moved = 0, deviation = 0;
  };
  std::vector<SetMove> of_set(clocks.size());
  std::vector<std::pair<double, std::uint32_t>> all;
  for (const std::vector<std::uint32_t>& members : sets.members()) {
    if (members.empty() || !moves[members.front()].known) continue;
    std::vector<std::pair<double, std::uint32_t>> offsets;
    for (const std::uint32_t rank : members) offsets.emplace_back(clocks[rank].offset, rank);
    const double most = common(std::move(offsets));
    std::vector<double> moved, deviations;
    for (const std::uint32_t rank : members) {
      clocks[rank].offset -= most;
      moved.push_back(moves[rank].median - clocks[rank].offset);
      deviations.push_back(moves[rank].deviation);
    }
    SetMove& move = of_set[clocks[members.front()].set];
    move = {median(std::move(moved)), median(std::move(deviations))};
    for (const std::uint32_t rank : members) all.emplace_back(move.moved, rank);
  }
  const double most = common(std::move(all));
  for (RankClock& clock : clocks) {
    const SetMove& move = of_set[clock.set];
    if (std::abs(move.moved - most) > Certain * move.deviation) clock.offset += move.moved - most;
  }
}

}  // namespace

Clocks find_clocks(const Timeline& a, const Timeline& b, std::span<const Pair> pairs, Seconds least) {
  if (pairs.empty()) return {};
  const std::size_t ranks = std::max(a.ranks, b.ranks);
  const std::vector<Move> moves = moves_of(a, b, pairs, ranks);
  Sets sets(ranks);
  sets.join(differences(a, b, pairs));
  centre(sets, moves);

  Clocks result;
  std::vector<double> own(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const RankClock& clock = sets.clocks()[rank];
    if (!moves[rank].known || std::abs(clock.offset) <= std::max(least.si(), Certain * clock.deviation))
      continue;
    result.ranks.push_back({RankId(rank), Seconds(clock.offset)});
    own[rank] = clock.offset;
  }
  double first_a = std::numeric_limits<double>::infinity(), first_b = first_a;
  for (const Pair& pair : pairs) {
    const Span& span = b.spans[pair.b];
    first_a = std::min(first_a, a.spans[pair.a].start.si());
    first_b = std::min(first_b, span.start.si() - own[span.rank.value()]);
  }
  result.offset = Seconds(first_b - first_a);
  return result;
}

void set_clocks(Timeline& b, const Clocks& clocks) {
  std::vector<Seconds> later(b.ranks, clocks.offset);
  for (const Clocks::Differing& rank : clocks.ranks)
    if (rank.rank.value() < later.size()) later[rank.rank.value()] += rank.offset;
  for (Span& span : b.spans)
    for (const auto time : {&Span::start, &Span::transfer, &Span::end})
      span.*time -= later[span.rank.value()];
}

}  // namespace syncline::compare
