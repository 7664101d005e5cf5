#include "sim/pipeline/microbatch_groups.hpp"

#include <fmt/format.h>

namespace syncline::pipeline {

std::optional<int> equal_groups(int ranks, int microbatches) {
  const int rounds = std::max(1, microbatches / ranks);
  if (microbatches % rounds != 0) return std::nullopt;
  return microbatches / rounds;
}

std::string unequal_groups(int ranks, int microbatches) {
  const int rounds = microbatches / ranks;  // over 1: one round always goes
  int less = microbatches, more = microbatches;
  while (!equal_groups(ranks, less)) --less;
  while (!equal_groups(ranks, more)) ++more;
  return fmt::format(
      "needs rounds of equal size, but {} microbatches on {} ranks make ⌊m / p⌋ = {} rounds; "
      "try --microbatches {} or {}",
      microbatches, ranks, rounds, less, more);
}

}  // namespace syncline::pipeline
