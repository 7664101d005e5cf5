#include "sim/calibrate/minimise.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace syncline::calibrate {
namespace {

constexpr int MostRounds = 2000;   // of one descent
constexpr double Settled = 1e-10;  // spread of a simplex that has come to rest, and gain that is none

using Point = std::vector<double>;

class Simplex {
 public:
  Simplex(const std::function<double(std::span<const double>)>& function,
          const std::vector<Unknown>& unknowns)
      : function_(function), unknowns_(unknowns) {}

  Point descend(const Point& start) {
    corners_.assign(1, rated(start));
    for (std::size_t i = 0; i < unknowns_.size(); ++i) {
      if (unknowns_[i].step == 0) continue;
      Point corner = start;
      const double there = corner[i] + unknowns_[i].step;
      const bool inside = there >= unknowns_[i].low && there <= unknowns_[i].high;
      corner[i] = inside ? there : corner[i] - unknowns_[i].step;
      corners_.push_back(rated(corner));
    }
    for (int round = 0; round < MostRounds; ++round) {
      std::ranges::stable_sort(corners_, {}, &Corner::value);
      if (corners_.size() == 1 || corners_.back().value - corners_.front().value < Settled) break;
      step();
    }
    return corners_.front().point;
  }
  [[nodiscard]] double value() const { return corners_.front().value; }

 private:
  struct Corner {
    Point point;
    double value = 0;
  };

  Corner rated(Point point) const {
    double value = std::numeric_limits<double>::infinity();
    bool inside = true;
    for (std::size_t i = 0; i < point.size(); ++i)
      inside = inside && point[i] >= unknowns_[i].low && point[i] <= unknowns_[i].high;
    if (inside) value = function_(point);
    return {std::move(point), value};
  }

  /// The worst corner moved along its line through the middle of the others; -1: as far behind it.
  Corner moved(const Point& middle, double by) const {
    Point point(middle.size());
    for (std::size_t i = 0; i < point.size(); ++i)
      point[i] = middle[i] + by * (corners_.back().point[i] - middle[i]);
    return rated(std::move(point));
  }

  void step() {
    Point middle(unknowns_.size());
    for (std::size_t c = 0; c + 1 < corners_.size(); ++c)
      for (std::size_t i = 0; i < middle.size(); ++i)
        middle[i] += corners_[c].point[i] / static_cast<double>(corners_.size() - 1);
    Corner& worst = corners_.back();
    Corner reflected = moved(middle, -1);
    if (reflected.value < corners_.front().value) {
      Corner further = moved(middle, -2);
      worst = further.value < reflected.value ? std::move(further) : std::move(reflected);
    } else if (reflected.value < corners_[corners_.size() - 2].value) {
      worst = std::move(reflected);
    } else {
      Corner nearer = moved(middle, reflected.value < worst.value ? -0.5 : 0.5);
      if (nearer.value < std::min(reflected.value, worst.value))
        worst = std::move(nearer);
      else
        shrink();
    }
  }

  void shrink() {
    const Point& best = corners_.front().point;
    for (std::size_t c = 1; c < corners_.size(); ++c) {
      Point point = corners_[c].point;
      for (std::size_t i = 0; i < point.size(); ++i) point[i] = (point[i] + best[i]) / 2;
      corners_[c] = rated(std::move(point));
    }
  }

  const std::function<double(std::span<const double>)>& function_;
  const std::vector<Unknown>& unknowns_;
  std::vector<Corner> corners_;
};

}  // namespace

std::vector<double> minimise(const std::function<double(std::span<const double>)>& function,
                             const std::vector<Unknown>& unknowns, int restarts) {
  Point best;
  for (const Unknown& unknown : unknowns) best.push_back(unknown.start);
  Simplex simplex(function, unknowns);
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < restarts; ++run) {
    best = simplex.descend(best);
    if (least - simplex.value() < Settled) break;
    least = simplex.value();
  }
  return best;
}

}  // namespace syncline::calibrate
