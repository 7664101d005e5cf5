// The mesh of a training step, and the groups of it whose ranks communicate.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/parallel/mesh.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

/// The axes of a training run's mesh, the fastest first.
using AxisOrder = std::array<std::string_view, 4>;
inline constexpr AxisOrder DefaultOrder{"tp", "cp", "dp", "pp"};

/// Ranks by axis.
struct Degrees {
  int tensor = 1, context = 1, data = 1, pipeline = 1;
  /// Ranks that have one set of shards between them: 1, or a multiple of `context` that divides context ·
  /// data.
  int shards = 1;
  AxisOrder order = DefaultOrder;
};

/// Axes: tp, cp, dp, pp, in the order that is asked for. Where there are several sets of shards dp is cut in two: "dp-shard", the faster, and
/// "dp-replicate". Families that would have one rank a group are left out.
struct Groups {
  Mesh mesh;
  std::vector<GroupFamily> families;
  int shards = 1;                     // ranks of a shard group
  int replicas = 1;                   // sets of shards
  std::optional<FamilyId> tensor;     // share every layer
  std::optional<FamilyId> context;    // share every sequence
  std::optional<FamilyId> data;       // have the same part of the model: dp × cp
  std::optional<FamilyId> shard;      // ... of which these hold one set of shards; all of data, or fewer
  std::optional<FamilyId> replicate;  // hold the same shard of different sets
  std::optional<FamilyId> norm;       // hold different gradients: tp × pp, and shard

  /// A family along those axes that have ranks; one that is there already serves again.
  std::optional<FamilyId> add(std::string name, const std::vector<std::string>& axes);
};

[[nodiscard]] Groups groups_of(const Degrees& degrees);

}  // namespace syncline
