#include "sim/pipeline/search/zb_heuristic.hpp"

#include <algorithm>

namespace syncline::pipeline::search {
namespace {

class Zb {
 public:
  Zb(const Task& task, const ZbRules& rules)
      : task_(task), rules_(rules), last_(task.ranks - 1), plan_(task) {}

  Plan run() {
    warm_up();
    for (int round = 1; round < task_.microbatches; ++round) {
      put_forwards(wanted_forwards());
      put_backwards();
    }
    plan_.put_all_weights();
    return std::move(plan_);
  }

 private:
  // Steps of a rank, which has the stage of its own number.
  [[nodiscard]] int forward(int rank) const { return task_.forward(rank); }
  [[nodiscard]] int backward(int rank) const { return task_.backward(rank); }
  [[nodiscard]] double forward_time(int rank) const { return task_.path[forward(rank)].time; }
  [[nodiscard]] double backward_time(int rank) const { return task_.path[backward(rank)].time; }
  [[nodiscard]] double hop(int rank) const { return task_.path[backward(rank)].hop; }

  // One forward each, then as many as fit before the first gradient comes, then the first backward.
  void warm_up() {
    for (int rank = 0; rank <= last_; ++rank) plan_.put(forward(rank));
    const std::vector<int> more = warm_up_forwards();
    for (int rank = 0; rank <= last_; ++rank)
      for (int i = 0; i < more[rank]; ++i) plan_.put(forward(rank));
    for (int rank = last_; rank >= 0; --rank) plan_.put(backward(rank));
  }

  std::vector<int> warm_up_forwards() const {
    std::vector<int> more(task_.ranks, 0);
    double gradient = plan_.now(last_) + backward_time(last_);
    for (int rank = last_ - 1; rank >= 0; --rank) {
      const double arrival = gradient + hop(rank), time = forward_time(rank);
      double now = plan_.now(rank);
      const auto too_late = [&] {
        return rules_.idle_before_backward ? now + time > arrival : now >= arrival;
      };
      while (1 + more[rank] < task_.microbatches &&
             plan_.fits(rank, (more[rank] + 1) * task_.memory.forward) && !too_late()) {
        now += time;
        ++more[rank];
      }
      gradient = std::max(now, arrival) + backward_time(rank);
    }
    // A rank has at least one microbatch less than the one before, unless it has them all.
    for (int rank = 1; rank <= last_; ++rank)
      while (more[rank] > 0 && more[rank] >= more[rank - 1] && 1 + more[rank] < task_.microbatches)
        --more[rank];
    return more;
  }

  // Whether a rank should do a forward before its next backward; only if all behind it do.
  std::vector<bool> wanted_forwards() const {
    std::vector<bool> wanted(task_.ranks);
    for (int rank = last_; rank >= 0; --rank)
      wanted[rank] = plan_.left(forward(rank)) && !delays_next(rank) && (rank == last_ || wanted[rank + 1]);
    return wanted;
  }

  // Whether the next rank, which has forwards in store, would rather have this one's backward sooner.
  bool delays_next(int rank) const {
    if (!rules_.backward_first || rank == last_) return false;
    if (plan_.done(forward(rank)) < plan_.done(forward(rank + 1)) + 2) return false;
    const double next = plan_.now(rank + 1) + forward_time(rank + 1) + backward_time(rank + 1) + hop(rank);
    const double now = plan_.now(rank);
    if (now >= next) return true;
    if (now + forward_time(rank) + time_to_make_room(rank) <= next) return false;
    return next - now <= plan_.longest_idle() - plan_.idle(rank);
  }

  // Time of the weight gradients to be done before another forward fits.
  double time_to_make_room(int rank) const {
    double more = task_.memory.forward, time = 0;
    for (int i = 0; i < plan_.weights_waiting(rank) && !plan_.fits(rank, more); ++i) {
      more += task_.memory.backward_weight;
      time += task_.path[backward(rank)].weight;
    }
    return time;
  }

  // Weight gradients while the rank waits: all that fit, and one more unless the rank would idle no longer
  // than the one that idles most, and the rules leave it at that.
  void fill_until(int rank, double arrival) {
    const double gap = plan_.fill_until(rank, arrival);
    if (gap > 0 && (rules_.fill_small_idle || gap > plan_.longest_idle() - plan_.idle(rank)))
      plan_.put_weight(rank);
  }

  void put_forwards(const std::vector<bool>& wanted) {
    for (int rank = 0; rank <= last_; ++rank) {
      if (!wanted[rank]) continue;
      plan_.make_room(rank, task_.memory.forward);
      if (rank > 0) fill_until(rank, plan_.arrival(forward(rank)));
      plan_.put(forward(rank));
    }
  }

  void put_backwards() {
    for (int rank = last_; rank >= 0; --rank) {
      plan_.make_room(rank, task_.memory.backward_input);
      if (rank < last_) fill_until(rank, plan_.arrival(backward(rank)));
      if (rank == 0 && !plan_.left(forward(0)))
        while (plan_.weights_waiting(0) > 0) plan_.put_weight(0);
      plan_.put(backward(rank));
    }
  }

  const Task& task_;
  const ZbRules rules_;
  const int last_;
  Plan plan_;
};

}  // namespace

Plan plan_zb(const Task& task, const ZbRules& rules) {
  return Zb(task, rules).run();
}

std::vector<Plan> plan_zb_all(const Task& task) {
  std::vector<Plan> plans;
  for (const bool idle : {true, false})
    for (const bool first : {true, false})
      for (const bool fill : {true, false})
        if (Plan plan = plan_zb(task, {idle, first, fill}); plan.complete()) plans.push_back(std::move(plan));
  return plans;
}

}  // namespace syncline::pipeline::search
