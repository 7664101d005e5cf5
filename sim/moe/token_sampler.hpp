// The experts of one token after another.
#pragma once

#include <span>
#include <vector>

#include "sim/core/random.hpp"
#include "sim/moe/token_counts.hpp"

namespace syncline::moe {

/// Draws experts without replacement, each in proportion to its weight: a tree of sums, so that nothing is
/// lost when a heavy one is taken out.
class Urn {
 public:
  explicit Urn(std::span<const double> weights);
  [[nodiscard]] double total() const { return sums_[1]; }
  /// Takes one out; `point` in [0, 1) says which. total() > 0.
  int take(double point);
  /// Puts all back.
  void refill() { sums_ = full_; }

 private:
  std::size_t leaves_ = 1;    // a power of 2
  std::vector<double> sums_;  // node i has children 2i and 2i + 1; item j is node leaves_ + j
  std::vector<double> full_;  // with all items
};

/// An expert's affinity to a token is s = 1/(1 + t/E), t exponential with the expert's popularity as rate:
/// the sigmoid of log(popularity) plus Gumbel noise, up to a constant. The k highest are those of a draw
/// without replacement by popularity.
///
/// With a limit the M groups are chosen whose ⌊k/M⌋ highest affinities have the largest sum, and the k
/// highest in these. DeepSeek-V3 (arXiv 2412.19437, section 2.1.2) and Megatron-LM's group_limited_topk
/// choose so from affinities that a network computes.
class TokenSampler {
 public:
  TokenSampler(std::span<const double> popularity, const ExpertGroup& group);
  TokenSampler(const TokenSampler&) = delete;  // it points into itself
  TokenSampler& operator=(const TokenSampler&) = delete;
  /// The k experts of a token, in order of affinity. Valid until the next call.
  [[nodiscard]] std::span<const int> next(Random& random);

 private:
  struct Choice {
    int expert;
    double time;  // t
  };
  struct Group {
    Urn urn;
    int first;  // expert
    std::size_t size;
    std::vector<Choice> arrived;  // in order of time
    std::size_t merged = 0;       // of these
    double affinity = 0;
  };
  bool arrive(Group& group, Random& random);
  void choose_groups(Random& random);

  std::size_t k_, top_groups_, counted_;
  double experts_;
  std::vector<Group> groups_;
  std::vector<Group*> chosen_;
  std::vector<int> token_;
};

}  // namespace syncline::moe
