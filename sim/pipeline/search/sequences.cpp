#include "sim/pipeline/search/sequences.hpp"

#include <algorithm>

namespace syncline::pipeline::search {

Sequences::Sequences(const Task& task, const Order& order) : task_(&task) {
  const std::size_t count = 3 * static_cast<std::size_t>(task.stages) * task.microbatches;
  times_.resize(count);
  memory_.resize(count);
  inputs_.resize(count);
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
}

void Sequences::add_step(int step, int microbatch) {
  const Task::Step& s = task_->path[step];
  const int a = step * task_->microbatches + microbatch;
  times_[a] = s.time;
  memory_[a] = s.backward ? task_->memory.backward_input : task_->memory.forward;
  if (step > 0) inputs_[a] = {a - task_->microbatches, s.hop};
  if (!s.backward) return;
  const int weight = number(W(s.stage, microbatch));
  times_[weight] = s.weight;
  memory_[weight] = task_->memory.backward_weight;
  inputs_[weight] = {a, 0};
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

bool Sequences::update() {
  constexpr double NotYet = -1;
  std::ranges::fill(ends_, NotYet);
  std::vector<std::size_t> next(ranks_.size(), 0);
  std::vector<double> now(ranks_.size(), 0);
  std::vector<int> awake(ranks_.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) awake[rank] = static_cast<int>(rank);
  std::size_t done = 0;
  while (!awake.empty()) {
    const int rank = awake.back();
    awake.pop_back();
    const std::vector<int>& sequence = ranks_[rank];
    for (; next[rank] < sequence.size(); ++next[rank], ++done) {
      const int a = sequence[next[rank]];
      const Input& input = inputs_[a];
      double start = now[rank];
      if (input.action != None) {
        if (ends_[input.action] == NotYet) break;
        start = std::max(start, ends_[input.action] + input.lag);
      }
      places_[a] = static_cast<int>(next[rank]);
      now[rank] = ends_[a] = start + times_[a];
      // The next step may be what its rank waits for.
      const int step = a / task_->microbatches;
      if (step + 1 >= 2 * task_->stages) continue;
      const int other = task_->path[step + 1].rank;
      if (other != rank && next[other] < ranks_[other].size() &&
          ranks_[other][next[other]] == a + task_->microbatches)
        awake.push_back(other);
    }
  }
  if (done < times_.size()) return false;
  score_ = {};
  sum_of_ends_ = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int first = ranks_[rank].front();
    score_.makespan = std::max(score_.makespan, now[rank]);
    score_.span = std::max(score_.span, now[rank] - (ends_[first] - times_[first]));
    sum_of_ends_ += now[rank];
  }
  return true;
}

double Sequences::peak(int rank) const {
  double held = 0, most = 0;
  for (const int a : ranks_[rank]) most = std::max(most, held += memory_[a]);
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
    const double start = ends_[a] - times_[a];
    const int step = a / task_->microbatches;
    const int rank =
        step < 2 * task_->stages ? task_->path[step].rank : task_->path[step - 2 * task_->stages].rank;
    const int at = places_[a];
    if (at > 0 && ends_[ranks_[rank][at - 1]] >= start - Rounding * ends_[a]) {
      places.push_back({rank, at});
      a = ranks_[rank][at - 1];
    } else {
      a = inputs_[a].action;
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
