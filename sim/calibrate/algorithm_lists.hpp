// Inside of the calibrate library: the lists of protocols that figures of a communication library consist of.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/topology/collective_figures.hpp"

namespace syncline::calibrate {

using AlgorithmList = std::vector<ProtocolFigures> CollectiveFigures::*;

/// All of them.
inline constexpr std::array<AlgorithmList, 5> AlgorithmLists{
    &CollectiveFigures::ring, &CollectiveFigures::tree, &CollectiveFigures::in_network,
    &CollectiveFigures::direct, &CollectiveFigures::send};
/// As files name them, in the same order.
inline constexpr std::array<std::string_view, AlgorithmLists.size()> AlgorithmKeys{
    "ring", "tree", "in-network", "direct", "send"};

}  // namespace syncline::calibrate
