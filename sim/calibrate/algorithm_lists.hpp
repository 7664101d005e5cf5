// Inside of the calibrate library: the lists of protocols that figures of a communication library consist of.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/topology/collective_figures.hpp"

namespace syncline::calibrate {

using AlgorithmList = std::vector<ProtocolFigures> CollectiveFigures::*;

/// All of them.
inline constexpr std::array<AlgorithmList, 9> AlgorithmLists{
    &CollectiveFigures::ring,           &CollectiveFigures::ring_all_reduce, &CollectiveFigures::ring_reduce_scatter,
    &CollectiveFigures::ring_broadcast, &CollectiveFigures::ring_reduce,     &CollectiveFigures::tree,
    &CollectiveFigures::in_network,     &CollectiveFigures::direct,          &CollectiveFigures::send};
/// As files name them, in the same order.
inline constexpr std::array<std::string_view, AlgorithmLists.size()> AlgorithmKeys{
    "ring", "ring-all-reduce", "ring-reduce-scatter", "ring-broadcast", "ring-reduce", "tree", "in-network", "direct",
    "send"};

/// Without these a library has figures, too: they are there where a file gives them.
constexpr bool is_extra(AlgorithmList list) {
  return list == &CollectiveFigures::ring_all_reduce || list == &CollectiveFigures::ring_reduce_scatter ||
         list == &CollectiveFigures::ring_broadcast || list == &CollectiveFigures::ring_reduce ||
         list == &CollectiveFigures::in_network;
}

}  // namespace syncline::calibrate
