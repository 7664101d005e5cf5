#include "sim/pipeline/search/v_blocks.hpp"

#include <algorithm>
#include <array>

#include "sim/core/random.hpp"

namespace syncline::pipeline::search {
namespace {

constexpr int Cells = 6;           // of a period: F, I and W of two stages
constexpr int SlowestDescent = 5;  // cells a rank; more would hold more than ZB-V
constexpr std::uint64_t Seed = 1;

/// In cells.
struct Block {
  int descent = 1;                    // from rank to rank on the first ranks, ...
  int late_descent = 1;               // ... and on the others
  int switch_rank = 0;                // the first of the others
  std::array<int, 3> turns{1, 1, 1};  // at the foot of the V, at its head, at its foot again
  double window = Cells;
  double weight_due = Guide::Never;
  bool fill_small_idle = true;
};

double busiest_rank(const Task& task) {
  std::vector<double> busy(task.ranks, 0);
  for (const Task::Step& step : task.path) busy[step.rank] += step.time + step.weight;
  return *std::ranges::max_element(busy);
}

Guide guide_of(const Block& block, const Task& task, double period) {
  const double cell = period / Cells;
  Guide guide;
  guide.period = period;
  guide.window = block.window * cell;
  guide.weight_due = block.weight_due * cell;
  guide.fill_small_idle = block.fill_small_idle;
  guide.due.push_back(0);
  for (std::size_t q = 1; q < task.path.size(); ++q) {
    const int leg = static_cast<int>(q) / task.ranks, rank = task.path[q].rank;
    const bool down = leg % 2 == 0;
    const int cells = static_cast<int>(q) % task.ranks == 0 ? block.turns[leg - 1]
                      : !down                               ? 1
                      : rank <= block.switch_rank           ? block.descent
                                                            : block.late_descent;
    guide.due.push_back(guide.due.back() + cells * cell);
  }
  return guide;
}

}  // namespace

std::vector<Guide> v_blocks(const Task& task, int count) {
  static constexpr std::array Windows{1.5, 3.0, 4.5, 6.0, 9.0, 12.0};
  static constexpr std::array WeightsDue{1.0, 2.0, 3.0, Guide::Never, Guide::Never};
  const double period = busiest_rank(task);
  Random random(Seed);
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
  };
  std::vector<Guide> guides;
  for (int i = 0; i < count; ++i) {
    Block block;
    block.descent = block.late_descent = 1 + i % SlowestDescent;
    block.switch_rank = task.ranks;
    if (i >= SlowestDescent) {
      if (below(4) == 0) {
        block.late_descent = 1 + below(block.descent);
        block.switch_rank = below(task.ranks);
      }
      for (int& turn : block.turns) turn = 1 + below(3);
      block.window = Windows[below(Windows.size())];
      block.weight_due = WeightsDue[below(WeightsDue.size())];
      block.fill_small_idle = below(2) == 0;
    }
    guides.push_back(guide_of(block, task, period));
  }
  return guides;
}

}  // namespace syncline::pipeline::search
