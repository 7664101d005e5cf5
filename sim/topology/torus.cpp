// k-ary n-dimensional torus, routed dimension by dimension, the shorter way round.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

class Torus : public Fabric {
 public:
  Torus(Topology& topology, const TorusSpec& spec, const Endpoints& endpoints, LinkKind kind) {
    const auto count = static_cast<std::uint32_t>(endpoints.vertices.size());
    std::uint32_t stride = 1;
    for (std::size_t k = 0; k < spec.shape.size(); ++k) {
      const auto size = static_cast<std::uint32_t>(spec.shape[k]);
      dimensions_.push_back({size, stride, spec.wrap[k] && size > 2, 0, {}});
      stride *= size;
    }
    for (const TwistSpec& twist : spec.twist)
      dimensions_[static_cast<std::size_t>(twist.of)].twist = {static_cast<std::size_t>(twist.along),
                                                               twist.by};
    twisted_ = !spec.twist.empty();
    for (std::size_t k = 0; k < dimensions_.size(); ++k) {
      Dimension& dimension = dimensions_[k];
      dimension.first_link = static_cast<std::uint32_t>(topology.links().size());
      for (std::uint32_t line = 0; line < count / dimension.size; ++line) {
        const std::uint32_t start = dimension.line_start(line);
        for (std::uint32_t x = 0; x < dimension.cables(); ++x) {
          const std::uint32_t at = start + x * dimension.stride;
          topology.add_cable(endpoints.vertices[at], endpoints.vertices[neighbour(k, at, true)], spec.link,
                             kind);
        }
      }
    }
  }

  void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const override {
    std::uint32_t parity = 0;
    for (const Dimension& dimension : dimensions_) parity += dimension.coordinate(source);
    const bool ties_upwards = parity % 2 == 0;
    if (!twisted_) {
      std::uint32_t at = source;
      for (const Dimension& dimension : dimensions_)
        at = walk(dimension, at, dimension.steps(at, target, ties_upwards), links);
      return;
    }
    std::uint32_t at = source;
    const std::vector<int> steps = twisted_steps(source, target, ties_upwards);
    for (std::size_t k = 0; k < dimensions_.size(); ++k)
      for (int step = 0; step < std::abs(steps[k]); ++step) at = step_along(k, at, steps[k] > 0, links);
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("dimension order, {}; ties by the parity of the source's coordinates",
                       twisted_ ? "the shortest way over the twisted ends" : "the shorter way round");
  }

 private:
  struct Twist {
    std::size_t along = 0;
    int by = 0;
  };

  /// One dimension. Cable x of a line joins coordinates x and x+1 (mod size); forward is upwards.
  struct Dimension {
    std::uint32_t size;
    std::uint32_t stride;  // endpoints between neighbours along it
    bool wrap;             // with more than two: a dimension of 2 has one cable, not two
    std::uint32_t first_link;
    Twist twist;

    [[nodiscard]] std::uint32_t cables() const { return wrap ? size : size - 1; }  // of a line
    [[nodiscard]] std::uint32_t coordinate(std::uint32_t endpoint) const { return endpoint / stride % size; }
    /// Lines are counted by the endpoint's number with this coordinate left out.
    [[nodiscard]] std::uint32_t line(std::uint32_t endpoint) const {
      return endpoint / (stride * size) * stride + endpoint % stride;
    }
    [[nodiscard]] std::uint32_t line_start(std::uint32_t of) const {
      return of / stride * stride * size + of % stride;
    }
    /// The cable that leaves `endpoint` upwards; the link down over it is the next id.
    [[nodiscard]] std::uint32_t cable_up(std::uint32_t endpoint) const {
      return first_link + 2 * (line(endpoint) * cables() + coordinate(endpoint));
    }
    /// Upwards, or downwards below 0, until the target's coordinate.
    [[nodiscard]] int steps(std::uint32_t at, std::uint32_t target, bool ties_upwards) const {
      const int from = static_cast<int>(coordinate(at)), to = static_cast<int>(coordinate(target));
      const int span = static_cast<int>(size);
      if (!wrap) return to - from;
      const int upwards = (to + span - from) % span, downwards = (from + span - to) % span;
      return (upwards == downwards ? ties_upwards : upwards < downwards) ? upwards : -downwards;
    }
  };

  /// Walks along one dimension of a plain torus; returns the endpoint reached.
  static std::uint32_t walk(const Dimension& dimension, std::uint32_t at, int steps,
                            std::vector<LinkId>& links) {
    const std::uint32_t start = dimension.line_start(dimension.line(at));
    const std::uint32_t first = dimension.first_link + 2 * dimension.line(at) * dimension.cables();
    std::uint32_t x = dimension.coordinate(at);
    for (int step = 0; step < std::abs(steps); ++step) {
      const std::uint32_t next = (steps > 0 ? x + 1 : x + dimension.size - 1) % dimension.size;
      links.emplace_back(steps > 0 ? first + 2 * x : first + 2 * next + 1);
      x = next;
    }
    return start + x * dimension.stride;
  }

  /// Who is next along dimension k, over the end with its twist.
  [[nodiscard]] std::uint32_t neighbour(std::size_t k, std::uint32_t at, bool up) const {
    const Dimension& dimension = dimensions_[k];
    const std::uint32_t x = dimension.coordinate(at);
    const std::uint32_t next = (up ? x + 1 : x + dimension.size - 1) % dimension.size;
    const std::uint32_t there = at - x * dimension.stride + next * dimension.stride;
    const bool over_the_end = up ? next == 0 : x == 0;
    if (!over_the_end || dimension.twist.by == 0) return there;
    const Dimension& along = dimensions_[dimension.twist.along];
    const int size = static_cast<int>(along.size);
    const int shift = up ? dimension.twist.by : -dimension.twist.by;
    const std::uint32_t from = along.coordinate(there);
    const auto to = static_cast<std::uint32_t>(((static_cast<int>(from) + shift) % size + size) % size);
    return there - from * along.stride + to * along.stride;
  }

  std::uint32_t step_along(std::size_t k, std::uint32_t at, bool up, std::vector<LinkId>& links) const {
    const std::uint32_t next = neighbour(k, at, up);
    links.emplace_back(up ? dimensions_[k].cable_up(at) : dimensions_[k].cable_up(next) + 1);
    return next;
  }

  /// Of a twisted torus the same place is at many displacements: going round dimension j once is the same as its twist.
  /// The shortest of those that go round no dimension more than twice; of equal ones the first or the last.
  [[nodiscard]] std::vector<int> twisted_steps(std::uint32_t source, std::uint32_t target,
                                               bool ties_first) const {
    const std::size_t n = dimensions_.size();
    constexpr int MostRounds = 2;
    std::vector<int> rounds(n, -MostRounds), best;
    int least = 0;
    for (;;) {
      std::vector<int> steps(n);
      bool possible = true;
      for (std::size_t k = 0; k < n; ++k) {
        const Dimension& dimension = dimensions_[k];
        steps[k] += static_cast<int>(dimension.coordinate(target)) -
                    static_cast<int>(dimension.coordinate(source)) +
                    rounds[k] * static_cast<int>(dimension.size);
        if (rounds[k] != 0) steps[dimension.twist.along] -= rounds[k] * dimension.twist.by;
        possible = possible && (dimension.wrap || rounds[k] == 0);
      }
      int length = 0;
      for (const int step : steps) length += std::abs(step);
      if (possible && (best.empty() || length < least || (length == least && !ties_first))) {
        best = steps;
        least = length;
      }
      std::size_t k = 0;
      while (k < n && rounds[k] == MostRounds) rounds[k++] = -MostRounds;
      if (k == n) return best;
      ++rounds[k];
    }
  }

  std::vector<Dimension> dimensions_;
  bool twisted_ = false;
};

/// The factors of `count` with the least sum, shortest first: the box nearest to a cube.
std::vector<int> nearest_cube(int count, int dimensions, int at_least = 1) {
  if (dimensions == 1) return {count};
  std::vector<int> best;
  int best_sum = 0;
  for (int first = at_least; first <= count / first; ++first) {
    if (count % first != 0) continue;
    std::vector<int> shape = nearest_cube(count / first, dimensions - 1, first);
    if (shape.empty()) continue;  // no factor of the rest is large enough
    shape.insert(shape.begin(), first);
    int sum = 0;
    for (const int size : shape) sum += size;
    if (best.empty() || sum < best_sum) {
      best = shape;
      best_sum = sum;
    }
  }
  return best;
}

}  // namespace

TorusSpec torus_of(const ScaleUpSpec& scale_up) {
  return {scale_up.shape, scale_up.wrap, scale_up.dimensions, scale_up.link, scale_up.twist};
}

TorusSpec resolve_torus(const TorusSpec& spec, int endpoints) {
  TorusSpec resolved = spec;
  if (resolved.shape.empty()) resolved.shape = nearest_cube(endpoints, spec.dimensions);
  std::int64_t product = 1;
  for (const int size : resolved.shape) {
    if (size < 1)
      refuse(fmt::format("a torus of shape [{}]: sizes must be at least 1", fmt::join(spec.shape, ", ")));
    product = std::min<std::int64_t>(product * size, INT32_MAX);
  }
  if (product != endpoints) {
    refuse(fmt::format("a torus of shape [{}] holds {}{} vertices, but there are {} to place",
                       fmt::join(spec.shape, ", "), product == INT32_MAX ? "at least " : "", product,
                       endpoints));
  }
  if (resolved.wrap.empty()) resolved.wrap.assign(resolved.shape.size(), true);
  std::vector<bool> twisted(resolved.shape.size(), false);
  for (const TwistSpec& twist : spec.twist) {
    const auto of = static_cast<std::size_t>(twist.of), along = static_cast<std::size_t>(twist.along);
    if (twist.of < 0 || twist.along < 0 || of >= resolved.shape.size() || along >= resolved.shape.size() ||
        of == along)
      refuse(fmt::format("a twist is of one dimension along another, out of 0 to {}, not of {} along {}",
                         resolved.shape.size() - 1, twist.of, twist.along));
    if (twisted[of]) refuse(fmt::format("dimension {} is twisted twice", twist.of));
    twisted[of] = true;
    if (resolved.shape[of] < 3 || !resolved.wrap[of] || !resolved.wrap[along] || resolved.shape[along] < 3)
      refuse(fmt::format("a twist of dimension {} along {} needs both to be wrapped, of size 3 or more",
                         twist.of, twist.along));
    if (std::abs(twist.by) >= resolved.shape[along])
      refuse(fmt::format("a twist by {} is as long as its dimension of {}; make it shorter", twist.by,
                         resolved.shape[along]));
  }
  return resolved;
}

std::unique_ptr<const Fabric> build_torus(Topology& topology, const TorusSpec& spec,
                                          const Endpoints& endpoints, LinkKind kind) {
  return std::make_unique<Torus>(topology, resolve_torus(spec, static_cast<int>(endpoints.vertices.size())),
                                 endpoints, kind);
}

}  // namespace syncline
