#include "sim/compare/align.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/compare/names.hpp"
#include "sim/core/error.hpp"

namespace syncline::compare {
namespace {

// Numbers for texts, equal ones for equal texts.
class Numbers {
 public:
  std::uint32_t of(std::string text) {
    return known_.try_emplace(std::move(text), static_cast<std::uint32_t>(known_.size())).first->second;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> known_;
};

// What tells ops apart, by op of a timeline.
struct Identity {
  std::uint32_t stream = 0, whole = 0;
};

std::vector<Identity> identities(const Timeline& timeline, Numbers& streams, Numbers& ops) {
  std::vector<Identity> all;
  all.reserve(timeline.ops.size());
  std::vector<bool> used(timeline.ops.size(), false);
  for (const Span& span : timeline.spans) used.at(span.op) = true;
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    if (!used[i]) {
      all.emplace_back();
      continue;
    }
    const TimelineOp& op = timeline.ops[i];
    const std::uint32_t stream = streams.of(std::string(stream_of(timeline, op)));
    all.push_back(
        {stream, ops.of(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", stream, static_cast<int>(op.kind),
                                    static_cast<int>(op.tag.phase), op.tag.layer, op.tag.microbatch,
                                    op.tag.chunk, op.tag.name, op.name, op.group))});
  }
  return all;
}

// A span with what it is sorted by.
struct Item {
  std::uint32_t rank = 0, identity = 0;
  double start = 0, end = 0;  // s
  std::uint32_t span = 0;
  [[nodiscard]] auto key() const { return std::tie(rank, identity); }
  [[nodiscard]] auto order() const { return std::tie(rank, identity, start, end, span); }
};

std::vector<Item> items_of(const Timeline& timeline, const std::vector<Identity>& identities) {
  std::vector<Item> items;
  items.reserve(timeline.spans.size());
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    items.push_back({span.rank.value(), identities[span.op].whole, span.start.si(), span.end.si(),
                     static_cast<std::uint32_t>(i)});
  }
  std::ranges::sort(items, {}, &Item::order);
  return items;
}

using Items = std::span<const Item>;

// Where paired ops stand in a stream of a rank, for places of others among them.
class Anchors {
 public:
  Anchors(const Timeline& a, const Timeline& b, const std::vector<Pair>& pairs,
          const std::vector<Identity>& streams) {
    for (const Pair& pair : pairs) {
      const Span& span = a.spans[pair.a];
      tracks_[{span.rank.value(), streams[span.op].stream}].push_back(
          {span.start.si(), b.spans[pair.b].start.si(), 0});
    }
    for (auto& [track, anchors] : tracks_) {
      std::ranges::sort(anchors, {}, [](const Anchor& anchor) { return std::pair(anchor.a, anchor.b); });
      std::uint32_t place = 0;
      for (Anchor& anchor : anchors) anchor.place = ++place;
      std::vector<Anchor>& by_b = by_b_[track];
      by_b = anchors;
      std::ranges::stable_sort(by_b, {}, &Anchor::b);
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> places_in_a(Items items, std::uint32_t stream) const {
    return places(tracks_, &Anchor::a, items, stream);
  }
  [[nodiscard]] std::vector<std::uint32_t> places_in_b(Items items, std::uint32_t stream) const {
    return places(by_b_, &Anchor::b, items, stream);
  }

 private:
  struct Anchor {
    double a, b;          // starts, s
    std::uint32_t place;  // in A, from 1
  };
  using Track = std::pair<std::uint32_t, std::uint32_t>;  // rank, stream
  using Tracks = std::map<Track, std::vector<Anchor>>;

  // Of each item, the place of the last anchor that starts before it; 0: none.
  static std::vector<std::uint32_t> places(const Tracks& tracks, double Anchor::*start, Items items,
                                           std::uint32_t stream) {
    std::vector<std::uint32_t> result(items.size(), 0);
    const auto track = tracks.find({items.front().rank, stream});
    if (track == tracks.end()) return result;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto next = std::ranges::lower_bound(track->second, items[i].start, {}, start);
      if (next != track->second.begin()) result[i] = std::prev(next)->place;
    }
    return result;
  }

  Tracks tracks_, by_b_;
};

// For each of the fewer places one of the others, ascending, so that the sum of the differences is least; of equal sums
// that with the earliest.
std::vector<std::size_t> nearest(const std::vector<std::uint32_t>& few,
                                 const std::vector<std::uint32_t>& many) {
  constexpr std::size_t MostCells = std::size_t{1} << 24;
  const std::size_t shifts = many.size() - few.size() + 1;
  std::vector<std::size_t> chosen(few.size(), 0);
  if (shifts < MostCells / few.size()) {
    std::vector<double> sum(shifts, 0);                            // of the best way to each shift
    std::vector<std::uint32_t> came_from(few.size() * shifts, 0);  // the shift before
    for (std::size_t i = 0; i < few.size(); ++i) {
      std::uint32_t best = 0;
      double best_sum = sum[0];
      for (std::uint32_t shift = 0; shift < shifts; ++shift) {
        if (sum[shift] < best_sum) best = shift, best_sum = sum[shift];
        came_from[i * shifts + shift] = best;
        sum[shift] = best_sum + std::abs(static_cast<double>(few[i]) - static_cast<double>(many[i + shift]));
      }
    }
    auto shift = static_cast<std::size_t>(std::ranges::min_element(sum) - sum.begin());
    for (std::size_t i = few.size(); i-- > 0; shift = came_from[i * shifts + shift]) chosen[i] = shift;
  }
  for (std::size_t i = 0; i < few.size(); ++i) chosen[i] += i;
  return chosen;
}

// Items of one rank and identity, from the front of sorted ones.
Items take_equals(Items& items) {
  const auto end =
      std::ranges::find_if(items, [&](const Item& item) { return item.key() != items.front().key(); });
  const Items taken = items.first(static_cast<std::size_t>(end - items.begin()));
  items = items.subspan(taken.size());
  return taken;
}

std::vector<std::uint32_t> not_paired(std::size_t spans, const std::vector<Pair>& pairs,
                                      std::uint32_t Pair::*side) {
  std::vector<bool> paired(spans, false);
  for (const Pair& pair : pairs) paired[pair.*side] = true;
  std::vector<std::uint32_t> rest;
  for (std::size_t i = 0; i < spans; ++i)
    if (!paired[i]) rest.push_back(static_cast<std::uint32_t>(i));
  return rest;
}

}  // namespace

Alignment align(const Timeline& a, const Timeline& b) {
  constexpr std::size_t MostSpans = std::numeric_limits<std::uint32_t>::max();
  SYNCLINE_CHECK(a.spans.size() < MostSpans && b.spans.size() < MostSpans, "a timeline has too many spans");
  Numbers streams, ops;
  const std::vector<Identity> of_a = identities(a, streams, ops), of_b = identities(b, streams, ops);
  const std::vector<Item> items_a = items_of(a, of_a), items_b = items_of(b, of_b);

  Alignment result;
  std::vector<std::pair<Items, Items>> uneven;  // equals of which one timeline has more
  for (Items in_a = items_a, in_b = items_b; !in_a.empty() && !in_b.empty();) {
    if (in_a.front().key() < in_b.front().key()) {
      take_equals(in_a);
    } else if (in_b.front().key() < in_a.front().key()) {
      take_equals(in_b);
    } else {
      const Items equals_a = take_equals(in_a), equals_b = take_equals(in_b);
      if (equals_a.size() != equals_b.size()) {
        uneven.emplace_back(equals_a, equals_b);
        continue;
      }
      for (std::size_t i = 0; i < equals_a.size(); ++i)
        result.pairs.push_back({equals_a[i].span, equals_b[i].span});
    }
  }
  if (!uneven.empty()) {
    const Anchors anchors(a, b, result.pairs, of_a);
    for (const auto& [equals_a, equals_b] : uneven) {
      const std::uint32_t stream = of_a[a.spans[equals_a.front().span].op].stream;
      const auto places_a = anchors.places_in_a(equals_a, stream),
                 places_b = anchors.places_in_b(equals_b, stream);
      const bool more_in_b = equals_b.size() > equals_a.size();
      const auto chosen = more_in_b ? nearest(places_a, places_b) : nearest(places_b, places_a);
      for (std::size_t i = 0; i < chosen.size(); ++i)
        result.pairs.push_back(
            {equals_a[more_in_b ? i : chosen[i]].span, equals_b[more_in_b ? chosen[i] : i].span});
    }
  }
  std::ranges::sort(result.pairs, {}, &Pair::a);
  result.only_a = not_paired(a.spans.size(), result.pairs, &Pair::a);
  result.only_b = not_paired(b.spans.size(), result.pairs, &Pair::b);
  return result;
}

}  // namespace syncline::compare
