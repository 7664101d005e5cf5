#include "sim/parallel/mesh.hpp"

#include <algorithm>

#include "sim/core/error.hpp"

namespace syncline {

Mesh::Mesh(std::string name, std::vector<MeshAxis> axes) : name_(std::move(name)), axes_(std::move(axes)) {
  for (const MeshAxis& axis : axes_) {
    SYNCLINE_CHECK(axis.size >= 1, "mesh axis " + axis.name + " has no extent");
    SYNCLINE_CHECK(&axes_[static_cast<std::size_t>(find_axis(axis.name))] == &axis,
                   "repeated axis " + axis.name);
    strides_.push_back(world_size_);
    world_size_ *= axis.size;
  }
}

int Mesh::find_axis(std::string_view name) const {
  const auto found =
      std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& axis) { return axis.name == name; });
  return found == axes_.end() ? -1 : static_cast<int>(found - axes_.begin());
}

int Mesh::coordinate(RankId rank, int axis) const {
  const auto index = static_cast<std::size_t>(axis);
  return static_cast<int>(rank.value()) / strides_[index] % axes_[index].size;
}

RankId Mesh::with_coordinate(RankId rank, int axis, int coordinate) const {
  const int shift = (coordinate - this->coordinate(rank, axis)) * strides_[static_cast<std::size_t>(axis)];
  return RankId(static_cast<std::size_t>(static_cast<int>(rank.value()) + shift));
}

GroupFamily GroupFamily::along(std::string name, const Mesh& mesh, const std::vector<std::string>& axes) {
  std::vector<int> moving;
  for (const std::string& axis : axes) {
    moving.push_back(mesh.find_axis(axis));
    SYNCLINE_CHECK(moving.back() >= 0, "mesh " + mesh.name() + " has no axis " + axis);
  }
  // The group of a rank is named by the rank whose moving coordinates are all 0; groups are numbered as they appear.
  const auto world = static_cast<std::size_t>(mesh.world_size());
  std::vector<std::uint32_t> group_of_leader(world, None);
  std::vector<std::vector<RankId>> groups;
  for (std::size_t r = 0; r < world; ++r) {
    RankId leader(r);
    for (const int axis : moving) leader = mesh.with_coordinate(leader, axis, 0);
    std::uint32_t& group = group_of_leader[leader.value()];
    if (group == None) {
      group = static_cast<std::uint32_t>(groups.size());
      groups.emplace_back();
    }
    groups[group].push_back(RankId(r));
  }
  GroupFamily family = listed(std::move(name), mesh.world_size(), std::move(groups));
  family.mesh_ = mesh.name();
  family.axes_ = axes;
  return family;
}

GroupFamily GroupFamily::listed(std::string name, int world_size, std::vector<std::vector<RankId>> groups) {
  GroupFamily family;
  family.name_ = std::move(name);
  family.group_of_.assign(static_cast<std::size_t>(world_size), None);
  family.starts_.push_back(0);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const RankId rank : groups[g]) {
      SYNCLINE_CHECK(rank.value() < family.group_of_.size(), "group member outside the world");
      SYNCLINE_CHECK(family.group_of_[rank.value()] == None,
                     "a rank stands in two groups of family " + family.name_);
      family.group_of_[rank.value()] = static_cast<std::uint32_t>(g);
      family.members_.push_back(rank);
    }
    family.starts_.push_back(static_cast<std::uint32_t>(family.members_.size()));
  }
  return family;
}

std::span<const RankId> GroupFamily::members(GroupId group) const {
  const std::size_t begin = starts_[group.value()];
  return std::span(members_).subspan(begin, starts_[group.value() + 1] - begin);
}

}  // namespace syncline
