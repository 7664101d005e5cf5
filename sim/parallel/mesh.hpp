// World ranks laid out on named axes, and the groups that communicate.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/ids.hpp"

namespace syncline {

struct MeshAxis {
  std::string name;  // "tp", "cp", "dp", "pp"; in the expert view "etp", "ep", "edp", "pp"
  int size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

/// Ranks on a grid, first axis fastest: rank = Σ coordinate[i] · Π size[j<i].
class Mesh {
 public:
  Mesh() = default;
  /// @throws std::logic_error on a size < 1 or a repeated name
  Mesh(std::string name, std::vector<MeshAxis> axes);

  [[nodiscard]] const std::string& name() const { return name_; }  // "dense", "expert"
  [[nodiscard]] const std::vector<MeshAxis>& axes() const { return axes_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  /// Position of an axis, or -1.
  [[nodiscard]] int find_axis(std::string_view name) const;
  [[nodiscard]] int size(int axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  [[nodiscard]] int coordinate(RankId rank, int axis) const;
  /// The rank with the same coordinates but `coordinate` on `axis`.
  [[nodiscard]] RankId with_coordinate(RankId rank, int axis, int coordinate) const;
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::string name_;
  std::vector<MeshAxis> axes_;
  std::vector<int> strides_;
  int world_size_ = 1;
};

/// A partition of ranks into groups, each an ordered list: "the data-parallel groups". One collective op in a role's
/// program names the family; each rank takes part in its own group of it.
class GroupFamily {
 public:
  /// Ranks that differ only on `axes` of `mesh` form a group, in rank order.
  static GroupFamily along(std::string name, const Mesh& mesh, const std::vector<std::string>& axes);
  /// Explicit groups; disjoint; need not cover all ranks.
  static GroupFamily listed(std::string name, int world_size, std::vector<std::vector<RankId>> groups);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Ranks it was made for, whether in a group or not.
  [[nodiscard]] std::size_t world_size() const { return group_of_.size(); }
  [[nodiscard]] std::size_t group_count() const { return starts_.size() - 1; }
  [[nodiscard]] bool contains(RankId rank) const { return group_of_[rank.value()] != None; }
  [[nodiscard]] GroupId group_of(RankId rank) const { return GroupId(group_of_[rank.value()]); }
  /// Members in order; view into the family.
  [[nodiscard]] std::span<const RankId> members(GroupId group) const;
  /// The axes it was made from ("dp", "cp"), empty when listed.
  [[nodiscard]] const std::vector<std::string>& axes() const { return axes_; }
  /// Name of the mesh it was made from, empty when listed.
  [[nodiscard]] const std::string& mesh() const { return mesh_; }
  friend bool operator==(const GroupFamily&, const GroupFamily&) = default;

 private:
  static constexpr std::uint32_t None = 0xFFFFFFFF;
  std::string name_, mesh_;
  std::vector<std::string> axes_;
  std::vector<std::uint32_t> group_of_;  // by rank
  std::vector<RankId> members_;          // group after group
  std::vector<std::uint32_t> starts_;    // group g is members_[starts_[g] .. starts_[g+1])
};

}  // namespace syncline
