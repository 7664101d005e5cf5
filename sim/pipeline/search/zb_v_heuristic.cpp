#include <algorithm>
#include <limits>

#include "sim/pipeline/search/zb_heuristic.hpp"

namespace syncline::pipeline::search {
namespace {

/// A rank's four steps of a microbatch: forward down the V (0) and up (1), backward down (2) and up (3).
class ZbV {
 public:
  ZbV(const Task& task, const ZbVRules& rules, std::vector<double> allowed)
      : task_(task), rules_(rules), allowed_(std::move(allowed)), last_(task.ranks - 1), plan_(task) {}

  Plan run() {
    warm_up();
    even_out();
    for (int round = 0; round < 2 * task_.microbatches; ++round) {
      put_backwards();
      put_forwards();
    }
    plan_.put_all_weights();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] int step(int leg, int rank) const {
    return leg * task_.ranks + (leg % 2 == 0 ? rank : last_ - rank);
  }
  [[nodiscard]] int done(int leg, int rank) const { return plan_.done(step(leg, rank)); }
  [[nodiscard]] bool all_done(int leg, int rank) const { return done(leg, rank) >= task_.microbatches; }
  [[nodiscard]] bool has_input(int leg, int rank) const {
    return plan_.arrival(step(leg, rank)) < std::numeric_limits<double>::infinity();
  }
  void put(int leg, int rank) { plan_.put(step(leg, rank)); }

  // The first microbatch down the V; then up, each rank with as many more on their way down as there is time
  // for.
  void warm_up() {
    for (int rank = 0; rank <= last_; ++rank) put(0, rank);
    for (int rank = last_; rank >= 0; --rank) {
      const double arrival = plan_.arrival(step(1, rank));
      while (rank < last_ && plan_.fits(rank, (2 + 2 * rank) * task_.memory.forward) &&
             plan_.now(rank) + task_.path[step(0, rank)].time <= arrival && !all_done(0, rank) &&
             !plan_.spoilt())
        for (int above = 0; above <= rank; ++above) put(0, above);
      put(1, rank);
    }
  }

  // Every rank has done as many forwards as the one before it, and more going up if there are any.
  void even_out() {
    int leg = 0;
    for (int rank = 1; rank <= last_; ++rank)
      while (!plan_.spoilt() && behind(rank)) {
        for (int below = last_; below >= rank; --below)
          if (!all_done(leg, below)) put(leg, below);
        leg = 1 - leg;
      }
  }

  bool behind(int rank) const {
    return done(0, rank) + done(1, rank) < done(0, rank - 1) + done(1, rank - 1) ||
           (done(1, rank) <= done(1, rank - 1) && !all_done(1, rank - 1));
  }

  void put_backwards() {
    for (int rank = 0; rank <= last_; ++rank) plan_.make_room(rank, task_.memory.backward_input);
    std::vector<bool> up(task_.ranks);
    for (int rank = 0; rank <= last_; ++rank) up[rank] = goes_up(rank);
    for (int rank = last_; rank >= 0; --rank)
      if (up[rank]) put_filled(3, rank, true);
    for (int rank = 0; rank <= last_; ++rank)
      if (!up[rank]) put_filled(2, rank, rules_.fill_before_backward);
  }

  bool goes_up(int rank) const {
    if (done(3, rank) >= done(2, rank)) return false;
    return rank == last_ || has_input(3, rank) || all_done(2, rank);
  }

  void put_forwards() {
    for (int rank = 0; rank <= last_; ++rank) {
      const int leg = next_forward(rank);
      if (leg < 0) continue;
      plan_.make_room(rank, task_.memory.forward);
      put_filled(leg, rank, rules_.fill_before_forward);
    }
  }

  // The leg of a rank's next forward, −1 for none.
  int next_forward(int rank) const {
    if (all_done(1, rank)) return -1;
    if (done(1, rank) >= done(0, rank)) return 0;
    if (rank == last_ || has_input(1, rank)) return 1;
    return has_input(0, rank) ? 0 : -1;
  }

  // Weight gradients while the rank waits: all that fit; one more with `fill`, unless the rank would idle no
  // longer than the one that idles most.
  void put_filled(int leg, int rank, bool fill) {
    if (comes_from_another(leg, rank)) {
      const double gap = plan_.fill_until(rank, plan_.arrival(step(leg, rank)));
      if (fill && gap > 0 && gap > allowed_idle(rank) - plan_.idle(rank)) plan_.put_weight(rank);
    }
    put(leg, rank);
  }

  [[nodiscard]] bool comes_from_another(int leg, int rank) const {
    return rank != (leg % 2 == 0 ? 0 : last_);
  }

  double allowed_idle(int rank) const {
    if (allowed_.empty()) return plan_.longest_idle();
    return std::max(plan_.longest_idle(), *std::ranges::max_element(allowed_) - allowed_[rank]);
  }

  const Task& task_;
  const ZbVRules rules_;
  const std::vector<double> allowed_;  // idle time of each rank in an earlier run; empty in the first
  const int last_;
  Plan plan_;
};

}  // namespace

Plan plan_zb_v(const Task& task, const ZbVRules& rules) {
  Plan best = ZbV(task, rules, {}).run();
  while (best.complete()) {
    std::vector<double> idle(task.ranks);
    for (int rank = 0; rank < task.ranks; ++rank) idle[rank] = best.idle(rank);
    Plan next = ZbV(task, rules, std::move(idle)).run();
    if (!next.complete() || next.longest_idle() >= best.longest_idle()) break;
    best = std::move(next);
  }
  return best;
}

std::vector<Plan> plan_zb_v_all(const Task& task) {
  std::vector<Plan> plans;
  for (const bool backward : {true, false})
    for (const bool forward : {true, false})
      if (Plan plan = plan_zb_v(task, {backward, forward}); plan.complete()) plans.push_back(std::move(plan));
  return plans;
}

}  // namespace syncline::pipeline::search
