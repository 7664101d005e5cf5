// Adds up what many transfers load, link by link, in one table that is used again and again.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/core/link_use.hpp"

namespace syncline {

class BundleSum {
 public:
  /// @param links  how many the topology has
  explicit BundleSum(std::size_t links) : sum_(links) {}
  void add(LinkId link, double coefficient);
  void add(std::span<const LinkUse> uses, double factor = 1);
  /// By link; the sum begins anew.
  [[nodiscard]] std::vector<LinkUse> take();

 private:
  std::vector<double> sum_;  // by link
  std::vector<LinkId> touched_;
};

}  // namespace syncline
