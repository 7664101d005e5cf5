// k-ary n-dimensional torus, routed dimension by dimension, the shorter way round.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

/// One dimension. Cable x of a line joins coordinates x and x+1 (mod size); forward is upwards.
struct Dimension {
  std::uint32_t size;
  std::uint32_t stride;  // endpoints between neighbours along it
  bool wrap;             // with more than two: a dimension of 2 has one cable, not two
  std::uint32_t first_link;

  [[nodiscard]] std::uint32_t cables() const { return wrap ? size : size - 1; }  // of a line
  [[nodiscard]] std::uint32_t coordinate(std::uint32_t endpoint) const { return endpoint / stride % size; }
  /// Lines are counted by the endpoint's number with this coordinate left out.
  [[nodiscard]] std::uint32_t line(std::uint32_t endpoint) const {
    return endpoint / (stride * size) * stride + endpoint % stride;
  }
  [[nodiscard]] std::uint32_t line_start(std::uint32_t line) const {
    return line / stride * stride * size + line % stride;
  }
};

class Torus : public Fabric {
 public:
  Torus(Topology& topology, const TorusSpec& spec, const Endpoints& endpoints, LinkKind kind) {
    const auto count = static_cast<std::uint32_t>(endpoints.vertices.size());
    std::uint32_t stride = 1;
    for (std::size_t k = 0; k < spec.shape.size(); ++k) {
      const auto size = static_cast<std::uint32_t>(spec.shape[k]);
      dimensions_.push_back(
          {size, stride, spec.wrap[k] && size > 2, static_cast<std::uint32_t>(topology.links().size())});
      stride *= size;
      const Dimension& dimension = dimensions_.back();
      for (std::uint32_t line = 0; line < count / size; ++line) {
        const std::uint32_t start = dimension.line_start(line);
        for (std::uint32_t x = 0; x < dimension.cables(); ++x) {
          topology.add_cable(endpoints.vertices[start + x * dimension.stride],
                             endpoints.vertices[start + (x + 1) % size * dimension.stride], spec.link, kind);
        }
      }
    }
  }

  void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const override {
    std::uint32_t parity = 0;
    for (const Dimension& dimension : dimensions_) parity += dimension.coordinate(source);
    std::uint32_t at = source;
    for (const Dimension& dimension : dimensions_) at = walk(dimension, at, target, parity % 2 == 0, links);
  }

  [[nodiscard]] std::string description() const override {
    return "dimension order, the shorter way round; ties by the parity of the source's coordinates";
  }

 private:
  /// Walks along one dimension until the target's coordinate; returns the endpoint reached.
  static std::uint32_t walk(const Dimension& dimension, std::uint32_t at, std::uint32_t target,
                            bool ties_upwards, std::vector<LinkId>& links) {
    const std::uint32_t from = dimension.coordinate(at), to = dimension.coordinate(target),
                        size = dimension.size;
    const std::uint32_t upwards = (to + size - from) % size, downwards = (from + size - to) % size;
    const bool up = !dimension.wrap ? to > from : upwards == downwards ? ties_upwards : upwards < downwards;
    const std::uint32_t first = dimension.first_link + 2 * dimension.line(at) * dimension.cables();
    for (std::uint32_t x = from; x != to;) {
      const std::uint32_t next = (up ? x + 1 : x + size - 1) % size;
      links.emplace_back(up ? first + 2 * x : first + 2 * next + 1);
      x = next;
    }
    return at - from * dimension.stride + to * dimension.stride;
  }

  std::vector<Dimension> dimensions_;
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
  return {scale_up.shape, scale_up.wrap, scale_up.twist, scale_up.dimensions, scale_up.link};
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
  return resolved;
}

std::unique_ptr<const Fabric> build_torus(Topology& topology, const TorusSpec& spec,
                                          const Endpoints& endpoints, LinkKind kind) {
  return std::make_unique<Torus>(topology, resolve_torus(spec, static_cast<int>(endpoints.vertices.size())),
                                 endpoints, kind);
}

}  // namespace syncline
