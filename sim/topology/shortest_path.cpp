#include "sim/topology/shortest_path.hpp"

#include "sim/topology/graph.hpp"

namespace syncline {
namespace {

class ShortestPathRouter : public Router {
 public:
  explicit ShortestPathRouter(const Topology& topology)
      : graph_(topology), accelerators_(topology.accelerators().begin(), topology.accelerators().end()) {}

  void route(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const override {
    const std::vector<LinkId> path =
        graph_.shortest_path(accelerators_[source.value()], accelerators_[target.value()]);
    links.insert(links.end(), path.begin(), path.end());
  }

  [[nodiscard]] std::string description() const override {
    return "a shortest path, by breadth-first search";
  }

 private:
  Graph graph_;
  std::vector<VertexId> accelerators_;
};

}  // namespace

std::unique_ptr<const Router> shortest_path_router(const Topology& topology) {
  return std::make_unique<ShortestPathRouter>(topology);
}

}  // namespace syncline
