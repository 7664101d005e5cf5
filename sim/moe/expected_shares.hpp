// How likely a token goes to an expert, a rank or a node: in closed form.
#pragma once

#include <span>
#include <vector>

#include "sim/moe/token_counts.hpp"

namespace syncline::moe {

/// By expert, by rank, by node: the share of a rank's tokens with at least one copy there. That of experts
/// sums to k.
struct Shares {
  std::vector<double> experts, ranks, nodes;
};
inline constexpr std::vector<double> Shares::*ShareLists[]{&Shares::experts, &Shares::ranks, &Shares::nodes};

/// Of k out of `experts` chosen at random, the likelihood that at least one is among `block` given ones:
/// 1 − C(E−block, k)/C(E, k).
[[nodiscard]] double uniform_hit(int experts, int k, int block);

/// The same for each block of `block` consecutive experts, when a token chooses k one after another, each in
/// proportion to its popularity among those that are left.
///
/// That is the order of first arrivals of independent Poisson processes with the popularities as rates. A
/// block of rate P is hit when it arrives before k of the others have: ∫ P·e^(−Pt) · Pr(fewer than k others
/// by t) dt, the likelihood a sum over independent events of likelihood 1 − e^(−pt). Integrated over log t by
/// the trapezoid rule; relative error below 1e-8. Held by tests/moe/expected_shares_test.cpp against
/// enumeration.
[[nodiscard]] std::vector<double> hit_shares(std::span<const double> popularity, int k, int block);

/// Without a limit to groups.
[[nodiscard]] Shares uniform_shares(const ExpertGroup& group);
[[nodiscard]] Shares expected_shares(std::span<const double> popularity, const ExpertGroup& group);

}  // namespace syncline::moe
