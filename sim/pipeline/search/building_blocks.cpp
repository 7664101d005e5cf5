#include "sim/pipeline/search/building_blocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/pipeline/search/block_schedule.hpp"

namespace syncline::pipeline::search {
namespace {

constexpr int SlowestDescent = 5;   // slots a rank
using Passes = std::array<int, 4>;  // slots of F0, F1, B1, B0, or their places in the period
using Cells = std::vector<Passes>;  // by rank

/// Slots by which F0 and B1 go on from rank to rank: up to the rank `turn`, and from there.
struct Descent {
  int early, late, turn;
};

bool meet(Passes cells) {
  std::ranges::sort(cells);
  return std::ranges::adjacent_find(cells) != cells.end();
}

/// Places in the period by rank; nothing where two passes of a rank meet.
std::optional<Cells> cells_of(const Passes& first, const Descent& descent, int ranks) {
  Cells cells{first};
  for (int rank = 1; rank < ranks; ++rank) {
    const int down = rank <= descent.turn ? descent.early : descent.late;
    Passes next = cells.back();
    for (const int pass : {0, 2}) next[pass] = (next[pass] + down) % BlockPeriod;
    for (const int pass : {1, 3}) next[pass] = (next[pass] + BlockPeriod - 1) % BlockPeriod;
    if (meet(next)) return std::nullopt;
    cells.push_back(next);
  }
  return cells;
}

/// Down and up the V twice, each pass at its next place after the one before.
BuildingBlock block_of(const Cells& cells) {
  const int ranks = static_cast<int>(cells.size());
  BuildingBlock block(cells.size());
  int slot = 0;
  for (int pass = 0; pass < 4; ++pass) {
    for (int i = 0; i < ranks; ++i) {
      const int rank = pass % 2 == 0 ? i : ranks - 1 - i;
      while (slot % BlockPeriod != cells[rank][pass]) ++slot;
      block[rank][pass] = slot++;
    }
  }
  return block;
}

/// Activations that a rank holds at most when its passes are repeated without end.
int most_held_by(const Passes& passes) {
  const std::array<int, 6> first = first_slots(passes);
  int most = 0;
  for (const int forward : {0, 1}) {
    const int now = first[forward] + BlockPeriod * *std::ranges::max_element(first);  // all have begun
    const auto done = [&](Slot what) { return (now - first[index(what)]) / BlockPeriod; };
    most = std::max(most, done(Slot::F0) + done(Slot::F1) - done(Slot::W0) - done(Slot::W1));
  }
  return most;
}

std::vector<Passes> first_ranks() {
  std::vector<Passes> all;
  for (int f1 = 1; f1 < BlockPeriod; ++f1)
    for (int b1 = 1; b1 < BlockPeriod; ++b1)
      for (int b0 = 1; b0 < BlockPeriod; ++b0)
        if (const Passes passes{0, f1, b1, b0}; !meet(passes)) all.push_back(passes);
  return all;
}

std::vector<Descent> descents(int ranks) {
  std::vector<Descent> all;
  for (int early = 1; early <= SlowestDescent; ++early) {
    all.push_back({early, early, 0});
    for (int late = 1; late < early; ++late)
      for (int turn = 1; turn + 1 < ranks; ++turn) all.push_back({early, late, turn});
  }
  return all;
}

/// Of the task's limit in whole activations, as the blocks count them.
int activations(const Task& task) {
  const double limit = task.limit / task.memory.forward;
  const int most = 2 * task.ranks;  // what ZB-V holds; more does not help
  return limit < most ? static_cast<int>(std::floor(limit + Rounding)) : most;
}

struct Scored {
  Score score;
  const BuildingBlock* block;
};

/// The blocks that can be made, best first.
std::vector<Scored> ranked(const Task& task, const std::vector<BuildingBlock>& blocks, std::size_t stride) {
  std::vector<Scored> scored;
  BlockSchedule schedule(task);
  for (std::size_t i = 0; i < blocks.size(); i += stride)
    if (schedule.make(blocks[i], activations(task)))
      if (const auto score = schedule.score()) scored.push_back({*score, &blocks[i]});
  std::ranges::stable_sort(scored, [](const Scored& a, const Scored& b) { return better(a.score, b.score); });
  return scored;
}

}  // namespace

std::vector<BuildingBlock> building_blocks(int ranks, int most_held) {
  std::vector<BuildingBlock> blocks;
  for (const Descent& descent : descents(ranks)) {
    for (const Passes& first : first_ranks()) {
      const auto cells = cells_of(first, descent, ranks);
      if (!cells) continue;
      BuildingBlock block = block_of(*cells);
      if (std::ranges::all_of(block, [&](const Passes& p) { return most_held_by(p) <= most_held; }))
        blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

std::vector<Order> block_orders(const Task& task, std::size_t count, long effort) {
  // With less than 2p microbatches the repeated block holds more than what becomes of it.
  const int most = task.microbatches < 2 * task.ranks ? 2 * task.ranks : activations(task);
  const std::vector<BuildingBlock> blocks = building_blocks(task.ranks, most);
  if (blocks.empty()) return {};
  const long column = 3L * task.stages;  // slots of a microbatch
  Task part = task;
  part.microbatches =
      static_cast<int>(std::clamp<long>(effort / (column * std::ssize(blocks)),
                                        std::min(2 * task.ranks, task.microbatches), task.microbatches));
  const long affordable = std::max(1L, effort / (column * std::max(part.microbatches, 2 * task.ranks)));
  const std::size_t stride = 1 + (blocks.size() - 1) / affordable;

  const std::size_t whole = std::clamp<long>(effort / (column * task.microbatches), 1, count);
  std::vector<Order> orders;
  BlockSchedule schedule(task);
  for (const Scored& found : ranked(part, blocks, stride)) {
    if (orders.size() == whole) break;
    if (schedule.make(*found.block, activations(task))) orders.push_back(schedule.order());
  }
  return orders;
}

}  // namespace syncline::pipeline::search
