#include "sim/pipeline/search/plan.hpp"

#include <algorithm>
#include <limits>

namespace syncline::pipeline::search {
namespace {

constexpr double Infinity = std::numeric_limits<double>::infinity();

}  // namespace

Plan::Plan(const Task& task)
    : task_(&task),
      done_(task.path.size(), 0),
      ends_(task.path.size() * task.microbatches, Infinity),
      ranks_(task.ranks) {
  const std::size_t stages_a_rank = task.stages / task.ranks;
  for (Rank& rank : ranks_) {
    rank.actions.reserve(3 * stages_a_rank * task.microbatches);
    rank.inputs.reserve(stages_a_rank * task.microbatches);
  }
}

double Plan::arrival(int step) const {
  if (!left(step)) return Infinity;
  return step == 0 ? 0 : ends_[cell(step - 1, done_[step])] + task_->path[step].hop;
}

int Plan::weights_waiting(int rank) const {
  return static_cast<int>(ranks_[rank].inputs.size()) - ranks_[rank].weights;
}

double Plan::weight_time(int rank) const {
  return task_->path[task_->backward(next_weight(rank).stage)].weight;
}

Action Plan::next_weight(int rank) const {
  const Action& input = ranks_[rank].inputs[ranks_[rank].weights];
  return W(input.stage, input.microbatch);
}

bool Plan::fits(int rank, double more) const {
  return task_->within(ranks_[rank].held + more);
}

void Plan::add(Rank& rank, Action action, double start, double time, double memory) {
  if (rank.first_start < 0)
    rank.first_start = start;
  else
    rank.idle += start - rank.now;
  longest_idle_ = std::max(longest_idle_, rank.idle);
  rank.now = start + time;
  rank.held += memory;
  rank.peak = std::max(rank.peak, rank.held);
  rank.actions.push_back(action);
}

void Plan::put(int step) {
  const Task::Step& s = task_->path[step];
  const double memory = s.backward ? task_->memory.backward_input : task_->memory.forward;
  const double ready = arrival(step);
  if (ready == Infinity || !fits(s.rank, memory)) {
    spoilt_ = true;
    return;
  }
  Rank& rank = ranks_[s.rank];
  const int microbatch = done_[step]++;
  const Action action = s.backward ? I(s.stage, microbatch) : F(s.stage, microbatch);
  add(rank, action, std::max(ready, rank.now), s.time, memory);
  ends_[cell(step, microbatch)] = rank.now;
  if (s.backward) rank.inputs.push_back(action);
}

void Plan::put_weight(int rank) {
  Rank& r = ranks_[rank];
  if (weights_waiting(rank) == 0) {
    spoilt_ = true;
    return;
  }
  const Action weight = next_weight(rank);
  add(r, weight, r.now, weight_time(rank), task_->memory.backward_weight);
  ++r.weights;
}

void Plan::make_room(int rank, double more) {
  while (weights_waiting(rank) > 0 && !fits(rank, more)) put_weight(rank);
}

double Plan::fill_until(int rank, double arrival) {
  while (weights_waiting(rank) > 0 && now(rank) + weight_time(rank) <= arrival) put_weight(rank);
  return weights_waiting(rank) > 0 ? std::max(0.0, arrival - now(rank)) : 0;
}

void Plan::put_all_weights() {
  for (int rank = 0; rank < task_->ranks; ++rank)
    while (weights_waiting(rank) > 0) put_weight(rank);
}

bool Plan::complete() const {
  if (spoilt_) return false;
  for (int step = 0; step < 2 * task_->stages; ++step)
    if (left(step)) return false;
  for (int rank = 0; rank < task_->ranks; ++rank)
    if (weights_waiting(rank) > 0) return false;
  return true;
}

Score Plan::score() const {
  Score score;
  for (const Rank& rank : ranks_) {
    score.makespan = std::max(score.makespan, rank.now);
    score.span = std::max(score.span, rank.now - rank.first_start);
    score.peak = std::max(score.peak, rank.peak);
  }
  return score;
}

Order Plan::order() const {
  Order order{task_->stages, task_->microbatches, {}};
  for (const Rank& rank : ranks_) order.ranks.emplace_back(rank.actions.begin(), rank.actions.end());
  return order;
}

}  // namespace syncline::pipeline::search
