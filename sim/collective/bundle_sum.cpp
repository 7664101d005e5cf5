#include "sim/collective/bundle_sum.hpp"

#include <algorithm>

namespace syncline {

void BundleSum::add(LinkId link, double coefficient) {
  double& sum = sum_[link.value()];
  if (sum == 0) touched_.push_back(link);
  sum += coefficient;
}

void BundleSum::add(std::span<const LinkUse> uses, double factor) {
  for (const LinkUse& use : uses) add(use.link, use.coefficient * factor);
}

std::vector<LinkUse> BundleSum::take() {
  if (!std::ranges::is_sorted(touched_)) std::ranges::sort(touched_);
  std::vector<LinkUse> uses;
  uses.reserve(touched_.size());
  for (const LinkId link : touched_) {
    uses.push_back({link, sum_[link.value()]});
    sum_[link.value()] = 0;
  }
  touched_.clear();
  return uses;
}

}  // namespace syncline
