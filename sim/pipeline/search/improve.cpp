#include "sim/pipeline/search/improve.hpp"

#include <limits>

#include "sim/core/random.hpp"
#include "sim/pipeline/search/sequences.hpp"

namespace syncline::pipeline::search {
namespace {

constexpr int Farthest = 6;      // places by which a descent moves an action
constexpr int FarthestKick = 4;  // ... and a random move
constexpr int MostKicks = 4;     // random moves before the next descent
constexpr int TriesPerKick = 8;  // to find one that can run
constexpr std::uint64_t Seed = 1;

/// First the makespan; then the sum of the ranks' ends, which falls while the makespan waits for more than
/// one move.
struct Cost {
  explicit Cost(const Sequences& s) : makespan(s.score().makespan), ends(s.sum_of_ends()) {}
  [[nodiscard]] bool less(const Cost& other) const {
    const double slack = Rounding * other.makespan;
    if (makespan < other.makespan - slack) return true;
    return makespan <= other.makespan + slack && ends < other.ends - slack;
  }
  double makespan, ends;
};

class Improver {
 public:
  Improver(const Task& task, const Order& order, long budget, double longest_span)
      : task_(task), now_(task, order), budget_(budget), longest_span_(longest_span * (1 + Rounding)) {}

  Sequences run() {
    time();
    Sequences best = now_;
    for (bool going = true; going; going = budget_ > 0 && kick()) {
      descend();
      if (!Cost(best).less(Cost(now_)) && now_.score().span <= longest_span_)
        best = now_;
      else
        now_ = best;
    }
    return best;
  }

 private:
  bool time(double most = std::numeric_limits<double>::infinity()) {
    const long before = now_.timed();
    const bool timed = now_.update(most);
    budget_ -= now_.timed() - before +
               now_.actions() / 8;  // forgetting an action costs about an eighth of timing it
    return timed;
  }

  // To where no action of the critical path gains by going earlier, nor the one before it by going later.
  void descend() {
    Cost cost(now_);
    for (bool gained = true; gained && budget_ > 0;) {
      gained = false;
      for (const Place& place : now_.critical()) {
        gained = gain_near(place, cost);
        if (gained || budget_ <= 0) break;
      }
    }
    time();  // the last tries failed
  }

  bool gain_near(const Place& place, Cost& cost) {
    for (int by = 1; by <= Farthest && budget_ > 0; ++by)
      if (gain(place.rank, place.at, place.at - by, cost) ||
          gain(place.rank, place.at - 1, place.at - 1 + by, cost))
        return true;
    return false;
  }

  bool gain(int rank, int from, int to, Cost& cost) {
    if (!move(rank, from, to, cost.makespan * (1 + Rounding))) return false;
    if (const Cost moved(now_); moved.less(cost)) {
      cost = moved;
      return true;
    }
    now_.move(rank, to, from);
    return false;
  }

  // False, and nothing moved, where the result cannot run within the limit and `most` time; times are void
  // then.
  bool move(int rank, int from, int to, double most = std::numeric_limits<double>::infinity()) {
    if (to < 0 || to >= now_.size(rank)) return false;
    now_.move(rank, from, to);
    if (task_.within(now_.peak(rank)) && time(most)) return true;
    now_.move(rank, to, from);
    return false;
  }

  // Random moves on the critical path; false when nothing is there to move.
  bool kick() {
    for (int kicks = 1 + below(MostKicks); kicks > 0; --kicks) {
      const std::vector<Place> places = now_.critical();
      if (places.empty()) return false;
      bool moved = false;
      for (int tries = 0; tries < TriesPerKick && !moved; ++tries) {
        const Place& place = places[below(static_cast<int>(places.size()))];
        const int by = 1 + below(FarthestKick);
        moved = move(place.rank, place.at, below(2) == 0 ? place.at - by : place.at + by);
      }
      if (!moved) time();
    }
    return true;
  }

  int below(int bound) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(bound))); }

  const Task& task_;
  Sequences now_;
  long budget_;
  const double longest_span_;
  Random random_{Seed};
};

}  // namespace

Score improve(const Task& task, Order& order, long budget, double longest_span) {
  const Sequences best = Improver(task, order, budget, longest_span).run();
  order = best.order();
  Score score = best.score();
  score.peak = best.peak();
  return score;
}

}  // namespace syncline::pipeline::search
