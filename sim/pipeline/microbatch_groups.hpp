// The order in which an interleaved schedule takes microbatches through the chunks of a rank.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "sim/pipeline/generator.hpp"

namespace syncline::pipeline {

/// Groups of N microbatches pass chunk after chunk, the last group with what is left: v = 2, N = 2, m = 5:
/// chunk.microbatch 0.0 0.1 1.0 1.1 | 0.2 0.3 1.2 1.3 | 0.4 1.4. Backwards walk the same table with the
/// chunks the other way round.
struct MicrobatchGroups {
  int ranks, chunks, microbatches, group_size;

  [[nodiscard]] Action forward(int rank, int k) const { return at(rank, k, ActionKind::Forward); }
  [[nodiscard]] Action backward(int rank, int k, ActionKind kind) const { return at(rank, k, kind); }
  [[nodiscard]] int count() const { return chunks * microbatches; }

 private:
  [[nodiscard]] Action at(int rank, int k, ActionKind kind) const {
    const int group = k / (chunks * group_size), within = k % (chunks * group_size);
    const int first = group * group_size, size = std::min(group_size, microbatches - first);
    const int step = within / size;
    const int chunk = kind == ActionKind::Forward ? step : chunks - 1 - step;
    return {kind, chunk * ranks + rank, first + within % size};
  }
};

/// PyTorch's N = m / max(1, ⌊m / p⌋): p when p divides m, m when m < p; nothing when the groups are not
/// equal.
[[nodiscard]] std::optional<int> equal_groups(int ranks, int microbatches);

/// Why m microbatches do not part into equal groups, and what does.
[[nodiscard]] std::string unequal_groups(int ranks, int microbatches);

}  // namespace syncline::pipeline
