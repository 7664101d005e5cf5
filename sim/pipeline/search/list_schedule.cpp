#include "sim/pipeline/search/list_schedule.hpp"

#include <algorithm>

namespace syncline::pipeline::search {
namespace {

constexpr double Infinity = std::numeric_limits<double>::infinity();

class ListSchedule {
 public:
  ListSchedule(const Task& task, const Guide& guide)
      : task_(task),
        guide_(guide),
        plan_(task),
        steps_(task.ranks),
        start_(task.path.size()),
        earliest_end_(task.ranks) {
    for (int q = 0; q < 2 * task.stages; ++q) steps_[task.path[q].rank].push_back(q);
    for (int rank = 0; rank < task.ranks; ++rank) look(rank);
  }

  Plan run() {
    for (;;) {
      const auto soonest = std::ranges::min_element(earliest_end_);
      if (*soonest == Infinity) break;
      const int rank = static_cast<int>(soonest - earliest_end_.begin());
      const int step = choose(rank);
      put_due_weights(rank, step);
      const double gap = plan_.fill_until(rank, plan_.arrival(step));
      if (gap > 0 && (guide_.fill_small_idle || gap > plan_.longest_idle() - plan_.idle(rank)))
        plan_.put_weight(rank);
      plan_.put(step);
      if (plan_.spoilt()) return std::move(plan_);  // an I that takes memory did not fit
      look(rank);
      if (step + 1 < 2 * task_.stages) look(task_.path[step + 1].rank);
    }
    plan_.put_all_weights();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] double memory_of(int step) const {
    return task_.path[step].backward ? task_.memory.backward_input : task_.memory.forward;
  }
  [[nodiscard]] double due(int step) const { return guide_.due[step] + guide_.period * plan_.done(step); }
  [[nodiscard]] double weight_due(const Action& weight) const {
    return guide_.due[task_.backward(weight.stage)] + guide_.period * weight.microbatch + guide_.weight_due;
  }

  // What a rank may do next, and how soon it could be through with one of it. Holds until something is put on
  // the rank or an input comes.
  void look(int rank) {
    double horizon = Infinity;  // no step due later may be next
    for (const int q : steps_[rank]) {
      start_[q] = Infinity;
      if (!plan_.left(q) || !may_hold(q)) continue;
      start_[q] = plan_.arrival(q);
      horizon = std::min(horizon, due(q) + guide_.window);
    }
    earliest_end_[rank] = Infinity;
    for (const int q : steps_[rank]) {
      if (due(q) > horizon) start_[q] = Infinity;
      if (start_[q] == Infinity) continue;
      start_[q] = std::max(start_[q], plan_.now(rank) + time_to_make_room(rank, memory_of(q)));
      earliest_end_[rank] = std::min(earliest_end_[rank], start_[q] + task_.path[q].time);
    }
  }

  // Of the steps that could start before the rank's earliest end, the one due first.
  int choose(int rank) const {
    int chosen = -1;
    for (const int q : steps_[rank]) {
      const bool could =
          start_[q] < earliest_end_[rank] || start_[q] + task_.path[q].time <= earliest_end_[rank];
      if (could && (chosen < 0 || due(q) < due(chosen))) chosen = q;
    }
    return chosen;
  }

  [[nodiscard]] int in_flight(int stage) const {
    return plan_.done(task_.forward(stage)) - plan_.done(task_.backward(stage));
  }

  // With all waiting weight gradients done; one forward of each later stage of the rank must still fit.
  bool may_hold(int step) const {
    const Task::Step& s = task_.path[step];
    if (s.backward) return true;
    if (!guide_.most_in_flight.empty() && in_flight(s.stage) >= guide_.most_in_flight[s.stage]) return false;
    int forwards = 1;
    for (const int q : steps_[s.rank])
      if (!task_.path[q].backward) forwards += in_flight(task_.path[q].stage) + (q > step ? 1 : 0);
    return task_.within(forwards * task_.memory.forward);
  }

  double time_to_make_room(int rank, double more) const {
    int count = 0;
    for (; count < plan_.weights_waiting(rank) && !plan_.fits(rank, more); ++count)
      more += task_.memory.backward_weight;
    return count == 0 ? 0 : count * plan_.weight_time(rank);
  }

  void put_due_weights(int rank, int step) {
    plan_.make_room(rank, memory_of(step));
    while (plan_.weights_waiting(rank) > 0 && weight_due(plan_.next_weight(rank)) <= due(step))
      plan_.put_weight(rank);
  }

  const Task& task_;
  const Guide& guide_;
  Plan plan_;
  std::vector<std::vector<int>> steps_;  // by rank
  std::vector<double> start_;            // by step: the earliest; infinity where it may not be next
  std::vector<double> earliest_end_;     // by rank
};

}  // namespace

Plan list_schedule(const Task& task, const Guide& guide) {
  return ListSchedule(task, guide).run();
}

Guide one_at_a_time(const Task& task) {
  Guide guide;
  guide.due.assign(task.path.size(), 0);
  guide.most_in_flight.assign(task.stages, 1);
  return guide;
}

}  // namespace syncline::pipeline::search
