#include "sim/pipeline/search/sequences.hpp"

#include <algorithm>

namespace syncline::pipeline::search {

Sequences::Sequences(const Task& task, const Order& order) : task_(&task) {
  const std::size_t count = 3 * static_cast<std::size_t>(task.stages) * task.microbatches;
  fixed_.resize(count);
  ends_.resize(count);
  places_.resize(count);
  for (int step = 0; step < 2 * task.stages; ++step)
    for (int i = 0; i < task.microbatches; ++i) add_step(step, i);
  for (const RankOrder& rank : order.ranks) {
    std::vector<int>& sequence = ranks_.emplace_back();
    for (const Block& block : rank) {
      const auto& [kind, stage, microbatch] = block.first;
      if (kind != ActionKind::Backward) {
        sequence.push_back(number(block.first));
        continue;
      }
      sequence.push_back(number(I(stage, microbatch)));
      sequence.push_back(number(W(stage, microbatch)));
    }
  }
  for (const auto& sequence : ranks_) {
    double& work = work_.emplace_back(0);
    for (const int a : sequence) work += fixed_[a].time;
  }
}

void Sequences::add_step(int step, int microbatch) {
  const Task::Step& s = task_->path[step];
  const int a = step * task_->microbatches + microbatch;
  Fixed& fixed = fixed_[a];
  fixed = {s.time, s.backward ? task_->memory.backward_input : task_->memory.forward, s.hop, None, s.rank,
           None};
  if (step > 0) fixed.input = a - task_->microbatches;
  if (step + 1 < 2 * task_->stages && task_->path[step + 1].rank != s.rank)
    fixed.wakes = task_->path[step + 1].rank;
  if (s.backward)
    fixed_[number(W(s.stage, microbatch))] = {s.weight, task_->memory.backward_weight, 0, a, s.rank, None};
}

int Sequences::number(const Action& action) const {
  const int line = action.kind == ActionKind::Forward         ? task_->forward(action.stage)
                   : action.kind == ActionKind::BackwardInput ? task_->backward(action.stage)
                                                              : 2 * task_->stages + action.stage;
  return line * task_->microbatches + action.microbatch;
}

Action Sequences::action(int number) const {
  const int line = number / task_->microbatches, microbatch = number % task_->microbatches;
  if (line >= 2 * task_->stages) return W(line - 2 * task_->stages, microbatch);
  const Task::Step& s = task_->path[line];
  return s.backward ? I(s.stage, microbatch) : F(s.stage, microbatch);
}

void Sequences::move(int rank, int from, int to) {
  const auto at = ranks_[rank].begin();
  if (from < to)
    std::rotate(at + from, at + from + 1, at + to + 1);
  else
    std::rotate(at + to, at + from, at + from + 1);
}

bool Sequences::update(double most) {
  constexpr double NotYet = -1;
  std::ranges::fill(ends_, NotYet);
  std::vector<std::size_t> next(ranks_.size(), 0);
  std::vector<double> now(ranks_.size(), 0);
  std::vector<int> awake(ranks_.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) awake[rank] = static_cast<int>(rank);
  std::vector<double> left = work_;
  std::size_t done = 0;
  while (!awake.empty()) {
    const int rank = awake.back();
    awake.pop_back();
    const std::vector<int>& sequence = ranks_[rank];
    for (; next[rank] < sequence.size(); ++next[rank], ++done) {
      const int a = sequence[next[rank]];
      const Fixed& fixed = fixed_[a];
      double start = now[rank];
      if (fixed.input != None) {
        if (ends_[fixed.input] == NotYet) break;
        start = std::max(start, ends_[fixed.input] + fixed.lag);
      }
      places_[a] = static_cast<int>(next[rank]);
      now[rank] = ends_[a] = start + fixed.time;
      ++timed_;
      if (now[rank] + (left[rank] -= fixed.time) > most) return false;
      const int other = fixed.wakes;
      if (other != None && next[other] < ranks_[other].size() &&
          ranks_[other][next[other]] == a + task_->microbatches)
        awake.push_back(other);
    }
  }
  if (done < fixed_.size()) return false;
  score_ = {};
  sum_of_ends_ = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int first = ranks_[rank].front();
    score_.makespan = std::max(score_.makespan, now[rank]);
    score_.span = std::max(score_.span, now[rank] - (ends_[first] - fixed_[first].time));
    sum_of_ends_ += now[rank];
  }
  return true;
}

double Sequences::peak(int rank) const {
  double held = 0, most = 0;
  for (const int a : ranks_[rank]) most = std::max(most, held += fixed_[a].memory);
  return most;
}

double Sequences::peak() const {
  double most = 0;
  for (int rank = 0; rank < task_->ranks; ++rank) most = std::max(most, peak(rank));
  return most;
}

std::vector<Place> Sequences::critical() const {
  int a = ranks_.front().back();
  for (const auto& sequence : ranks_)
    if (ends_[sequence.back()] > ends_[a]) a = sequence.back();
  std::vector<Place> places;
  while (a != None) {
    const double start = ends_[a] - fixed_[a].time;
    const int rank = fixed_[a].rank;
    const int at = places_[a];
    if (at > 0 && ends_[ranks_[rank][at - 1]] >= start - Rounding * ends_[a]) {
      places.push_back({rank, at});
      a = ranks_[rank][at - 1];
    } else {
      a = fixed_[a].input;
    }
  }
  return places;
}

Order Sequences::order() const {
  Order order{task_->stages, task_->microbatches, {}};
  for (const auto& sequence : ranks_) {
    RankOrder& rank = order.ranks.emplace_back();
    for (const int a : sequence) rank.emplace_back(action(a));
  }
  return order;
}

}  // namespace syncline::pipeline::search
