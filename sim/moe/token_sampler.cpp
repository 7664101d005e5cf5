#include "sim/moe/token_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/error.hpp"

namespace syncline::moe {
namespace {

constexpr double Never = std::numeric_limits<double>::infinity();

}  // namespace

Urn::Urn(std::span<const double> weights) {
  while (leaves_ < weights.size()) leaves_ *= 2;
  full_.resize(2 * leaves_);
  std::ranges::copy(weights, full_.begin() + static_cast<std::ptrdiff_t>(leaves_));
  for (std::size_t i = leaves_; i-- > 1;) full_[i] = full_[2 * i] + full_[2 * i + 1];
  sums_ = full_;
}

int Urn::take(double point) {
  double left = point * total();
  std::size_t i = 1;
  while (i < leaves_) {
    i *= 2;
    const bool right = (left >= sums_[i]) & (sums_[i + 1] > 0);  // no branch: half the guesses would be wrong
    left -= right ? sums_[i] : 0.0;
    i += right ? 1 : 0;
  }
  const int item = static_cast<int>(i - leaves_);
  sums_[i] = 0;
  for (i /= 2; i > 0; i /= 2) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
  return item;
}

TokenSampler::TokenSampler(std::span<const double> popularity, const ExpertGroup& group)
    : k_(static_cast<std::size_t>(group.top_k)),
      top_groups_(group.limited() ? static_cast<std::size_t>(group.top_groups) : 1),
      counted_(std::max<std::size_t>(1, k_ / top_groups_)),
      experts_(group.experts) {
  const std::size_t groups = group.limited() ? static_cast<std::size_t>(group.groups) : 1;
  const std::size_t size = popularity.size() / groups;
  for (std::size_t g = 0; g < groups; ++g)
    groups_.push_back({Urn(popularity.subspan(g * size, size)), static_cast<int>(g * size), size, {}});
  for (Group& each : groups_) chosen_.push_back(&each);
}

// The next expert of the group in order of time; false when there is none.
bool TokenSampler::arrive(Group& group, Random& random) {
  if (group.arrived.size() == group.size) return false;
  const double since = group.arrived.empty() ? 0 : group.arrived.back().time;
  const double gap =
      groups_.size() > 1 ? -std::log1p(-random.uniform()) / group.urn.total() : 1;  // else the order does
  group.arrived.push_back({group.first + group.urn.take(random.uniform()), since + gap});
  return true;
}

// The first `top_groups_` of `chosen_` are those with the largest affinity.
void TokenSampler::choose_groups(Random& random) {
  for (Group& group : groups_) {
    group.affinity = 0;
    while (group.arrived.size() < counted_ && arrive(group, random))
      group.affinity += 1 / (1 + group.arrived.back().time / experts_);
  }
  std::ranges::partial_sort(chosen_, chosen_.begin() + static_cast<std::ptrdiff_t>(top_groups_),
                            [](const Group* a, const Group* b) {
                              return a->affinity != b->affinity ? a->affinity > b->affinity
                                                                : a->first < b->first;
                            });
}

std::span<const int> TokenSampler::next(Random& random) {
  for (Group& group : groups_) {
    group.urn.refill();
    group.arrived.clear();
    group.merged = 0;
  }
  if (groups_.size() > 1) choose_groups(random);
  token_.clear();
  while (token_.size() < k_) {
    Group* first = nullptr;
    double time = Never;
    for (Group* group : std::span(chosen_).first(top_groups_)) {
      if (group->merged == group->arrived.size() && !arrive(*group, random)) continue;
      const double t = group->arrived[group->merged].time;
      if (first == nullptr || t < time) {
        first = group;
        time = t;
      }
    }
    SYNCLINE_CHECK(first != nullptr, "the groups of a token have fewer experts than it chooses");
    token_.push_back(first->arrived[first->merged++].expert);
  }
  return token_;
}

}  // namespace syncline::moe
