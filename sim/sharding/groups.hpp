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
  /// Ranks that have one set of shards between them: 1, or a multiple of `context` that divides context · data (twice
  /// that where stages are mirrored).
  int shards = 1;
  AxisOrder order = DefaultOrder;
  /// ep and etp: of the tensor-, context- and data-parallel ranks of a stage, so many share the experts of a layer, and so
  /// many each expert; their product divides that of the three. None: no rank has experts.
  std::optional<int> expert{};
  int expert_tensor = 1;
  /// Pipeline ranks r and p − 1 − r hold the same stages (DualPipe), and so share data-parallel groups.
  bool mirrored = false;

  /// edp: ranks of a stage that hold the same experts.
  [[nodiscard]] int expert_copies() const {
    return tensor * context * data / (expert.value_or(1) * expert_tensor);
  }
};

/// Axes: tp, cp, dp, pp, in the order that is asked for. Where there are several sets of shards dp is cut in two:
/// "dp-shard", the faster, and "dp-replicate". Families that would have one rank a group are left out.
struct Groups {
  Mesh mesh;
  /// The same ranks as they hold experts: axes etp, ep, edp and pp, in the places of tp, dp and pp (Megatron-LM's
  /// parallel_state; MoE Parallel Folding, arXiv 2504.14960).
  std::optional<Mesh> expert_mesh{};
  std::vector<GroupFamily> families;
  int shards = 1;                         // ranks of a shard group
  int replicas = 1;                       // sets of shards
  std::optional<FamilyId> tensor;         // share every layer
  std::optional<FamilyId> context;        // share every sequence
  std::optional<FamilyId> data;           // have the same part of the model: dp × cp
  std::optional<FamilyId> shard;          // ... of which these hold one set of shards; all of data, or fewer
  std::optional<FamilyId> replicate;      // hold the same shard of different sets
  std::optional<FamilyId> norm;           // hold different gradients: tp × pp, and shard
  std::optional<FamilyId> expert;         // share the experts of a layer
  std::optional<FamilyId> expert_tensor;  // share each expert
  std::optional<FamilyId> expert_data;    // hold the same experts: edp
  int expert_copies = 1;                  // ranks of such a group

  /// A family along those axes that have ranks; one that is there already serves again.
  std::optional<FamilyId> add(std::string name, const std::vector<std::string>& axes);
  std::optional<FamilyId> add(std::string name, const Mesh& view, const std::vector<std::string>& axes);
  /// All meshes, the dense one first.
  [[nodiscard]] std::vector<Mesh> meshes() const;
};

[[nodiscard]] Groups groups_of(const Degrees& degrees);

/// Why ranks cannot be dealt to experts so; nothing when they can.
[[nodiscard]] std::optional<std::string> expert_refusal(const Degrees& degrees);

}  // namespace syncline
