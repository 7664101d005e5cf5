// Inside of the topology library: what is asked of the graph itself, answered by Boost.Graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/topology/topology.hpp"

namespace syncline {

/// The topology as a graph in compressed sparse rows: its links leave each vertex in order of their ids.
class Graph {
 public:
  explicit Graph(const Topology& topology);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  struct Distances {               // by vertex
    std::vector<int> links;        // fewest links from the source; -1: not reached
    std::vector<Seconds> latency;  // least sum of latencies over the paths of so few links
    std::vector<double> paths;     // how many of so few links there are
  };
  [[nodiscard]] Distances distances_from(VertexId source) const;

  /// True when each of the vertices reaches each other one.
  [[nodiscard]] bool connects(std::span<const VertexId> vertices) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum class Side : std::uint8_t { Source, Target, Neither };

/// Most bandwidth from the vertices on the source's side to those on the target's, over any paths; by the
/// theorem of max flow and min cut the least bandwidth of links whose removal parts the two.
/// @param side  by vertex
[[nodiscard]] BytesPerSecond largest_flow(const Topology& topology, std::span<const Side> side);

}  // namespace syncline
