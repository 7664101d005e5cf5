#include "sim/pipeline/search/candidates.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/pipeline/search/improve.hpp"
#include "sim/pipeline/search/sequences.hpp"

namespace syncline::pipeline::search {
namespace {

constexpr std::size_t MostKept = 3;
constexpr long LeastTimings = 8;  // of the whole order, for which improve() is worth its preparations

/// The guides in the order of how well they do on the task.
std::vector<const Guide*> ranked(const Task& task, std::span<const Guide> guides) {
  std::vector<std::pair<Score, const Guide*>> scores;
  for (const Guide& guide : guides)
    if (const Plan plan = list_schedule(task, guide); plan.complete())
      scores.emplace_back(plan.score(), &guide);
  std::ranges::stable_sort(scores, [](const auto& a, const auto& b) { return better(a.first, b.first); });
  std::vector<const Guide*> best;
  for (const auto& [score, guide] : scores) best.push_back(guide);
  return best;
}

}  // namespace

Candidates::Candidates(const Task& task) : task_(task), least_makespan_(least_makespan(task)) {}

void Candidates::set_baseline(const Plan& plan) {
  offer(plan);
  most_ = plan.score();
}

void Candidates::offer(const Plan& plan) {
  if (!plan.complete()) return;
  const Score score = plan.score();
  if (wanted(score)) keep({score, plan.order()});
}

void Candidates::offer(const Order& order) {
  Sequences sequences(task_, order);
  Score score = sequences.update() ? sequences.score() : most_;
  score.peak = sequences.peak();
  if (task_.within(score.peak) && wanted(score)) keep({score, sequences.order()});
}

void Candidates::offer_guided(std::span<const Guide> guides, long effort) {
  if (shortest()) return;
  const long column = 3L * task_.stages;  // actions of a microbatch
  const long microbatches = effort / (column * static_cast<long>(guides.size()));
  if (microbatches >= task_.microbatches) {
    for (const Guide& guide : guides) offer(list_schedule(task_, guide));
    return;
  }
  Task part = task_;
  part.microbatches = static_cast<int>(
      std::clamp<long>(microbatches, std::min(task_.ranks, task_.microbatches), task_.microbatches));
  const long affordable = std::max(1L, effort / (column * part.microbatches));
  const auto some = guides.first(std::min<std::size_t>(guides.size(), affordable));
  const std::vector<const Guide*> best = ranked(part, some);
  const std::size_t whole = std::clamp<long>(effort / (column * task_.microbatches), 1, MostKept);
  for (std::size_t i = 0; i < std::min(best.size(), whole); ++i) offer(list_schedule(task_, *best[i]));
}

bool Candidates::shortest(const Score& score) const {
  return score.makespan <= least_makespan_ * (1 + Rounding);
}

bool Candidates::wanted(const Score& score) const {
  const auto no_longer = [](double time, double most) { return time <= most * (1 + Rounding); };
  return no_longer(score.makespan, most_.makespan) && no_longer(score.span, most_.span) &&
         (kept_.size() < MostKept || better(score, kept_.back().score));
}

void Candidates::keep(Kept candidate) {
  const auto place =
      std::ranges::find_if(kept_, [&](const Kept& k) { return better(candidate.score, k.score); });
  kept_.insert(place, std::move(candidate));
  if (kept_.size() > MostKept) kept_.pop_back();
}

Order Candidates::best(long budget) {
  SYNCLINE_CHECK(!kept_.empty(), "no order was found");
  const bool worth_it = budget / LeastTimings >= 3L * task_.stages * task_.microbatches;
  for (Kept& candidate : kept_) {
    if (!worth_it || shortest(candidate.score)) continue;
    Kept improved = candidate;
    improved.score = improve(task_, improved.order, budget, most_.span);
    if (better(improved.score, candidate.score)) candidate = std::move(improved);
  }
  return std::ranges::min_element(kept_,
                                  [](const Kept& a, const Kept& b) { return better(a.score, b.score); })
      ->order;
}

}  // namespace syncline::pipeline::search
