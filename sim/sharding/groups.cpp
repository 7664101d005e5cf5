#include "sim/sharding/groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

Mesh mesh_of(const Degrees& degrees, bool hybrid) {
  std::vector<MeshAxis> axes;
  for (const std::string_view axis : degrees.order) {
    if (axis == "tp") axes.push_back({"tp", degrees.tensor});
    if (axis == "cp") axes.push_back({"cp", degrees.context});
    if (axis == "pp") axes.push_back({"pp", degrees.pipeline});
    if (axis == "dp" && !hybrid) axes.push_back({"dp", degrees.data});
    if (axis != "dp" || !hybrid) continue;
    const int across = degrees.shards / degrees.context;
    axes.push_back({"dp-shard", across});
    axes.push_back({"dp-replicate", degrees.data / across});
  }
  return {"dense", std::move(axes)};
}

Mesh expert_mesh_of(const Degrees& degrees) {
  std::vector<MeshAxis> axes;
  for (const std::string_view axis : degrees.order) {
    if (axis == "tp") axes.push_back({"etp", degrees.expert_tensor});
    if (axis == "pp") axes.push_back({"pp", degrees.pipeline});
    if (axis != "dp") continue;
    axes.push_back({"ep", degrees.expert.value_or(1)});
    axes.push_back({"edp", degrees.expert_copies()});
  }
  return {"expert", std::move(axes)};
}

void add_experts(Groups& groups, const Degrees& degrees) {
  groups.expert_mesh = expert_mesh_of(degrees);
  const Mesh& mesh = *groups.expert_mesh;
  groups.expert = groups.add("ep", mesh, {"ep"});
  groups.expert_tensor = groups.add("etp", mesh, {"etp"});
  groups.expert_data = groups.add("edp", mesh, {"edp"});
  groups.expert_copies = degrees.expert_copies();
}

/// The groups of a family, each with that of the mirrored pipeline rank; of ranks by themselves where there is none.
GroupFamily mirrored(const std::string& name, const Mesh& mesh, const GroupFamily* family) {
  const int axis = mesh.find_axis("pp"), stages = mesh.size(axis);
  std::vector<std::vector<RankId>> pairs;
  const auto add = [&](std::span<const RankId> members) {
    std::vector<RankId> both(members.begin(), members.end());
    for (const RankId rank : members)
      both.push_back(mesh.with_coordinate(rank, axis, stages - 1 - mesh.coordinate(rank, axis)));
    if (mesh.coordinate(both.front(), axis) < stages / 2) pairs.push_back(std::move(both));
  };
  if (family != nullptr) {
    for (std::size_t group = 0; group < family->group_count(); ++group) add(family->members(GroupId(group)));
  } else {
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const RankId alone(static_cast<std::size_t>(rank));
      add({&alone, 1});
    }
  }
  return GroupFamily::listed(name, mesh.world_size(), std::move(pairs));
}

/// Data-parallel groups of both pipeline ranks that hold the same stages.
void mirror(Groups& groups) {
  const auto both = [&](std::optional<FamilyId>& family, const Mesh& mesh, std::string name) {
    const GroupFamily* single = family ? &groups.families[family->value()] : nullptr;
    if (single != nullptr) name = single->name() + "-both";
    GroupFamily pairs = mirrored(name, mesh, single);
    groups.families.push_back(std::move(pairs));
    family = FamilyId(groups.families.size() - 1);
  };
  const bool sharded = groups.shards > 1;
  both(groups.data, groups.mesh, "both");
  if (sharded) groups.shard = groups.data;
  if (!groups.expert_mesh) return;
  both(groups.expert_data, *groups.expert_mesh, "edp-both");
  groups.expert_copies *= 2;
}

}  // namespace

std::optional<FamilyId> Groups::add(std::string name, const std::vector<std::string>& axes) {
  return add(std::move(name), mesh, axes);
}

std::vector<Mesh> Groups::meshes() const {
  std::vector<Mesh> all{mesh};
  if (expert_mesh) all.push_back(*expert_mesh);
  return all;
}

std::optional<FamilyId> Groups::add(std::string name, const Mesh& view,
                                    const std::vector<std::string>& axes) {
  std::vector<std::string> with_ranks;
  for (const std::string& axis : axes)
    if (view.size(view.find_axis(axis)) > 1) with_ranks.push_back(axis);
  if (with_ranks.empty()) return std::nullopt;
  for (std::size_t id = 0; id < families.size(); ++id)
    if (families[id].axes() == with_ranks && families[id].mesh() == view.name()) return FamilyId(id);
  families.push_back(GroupFamily::along(std::move(name), view, with_ranks));
  return FamilyId(families.size() - 1);
}

Groups groups_of(const Degrees& degrees) {
  SYNCLINE_CHECK(!expert_refusal(degrees), "ranks can be dealt to experts so");
  const int all = degrees.context * degrees.data * (degrees.mirrored ? 2 : 1);
  SYNCLINE_CHECK(degrees.shards == 1 || (all % degrees.shards == 0 && degrees.shards % degrees.context == 0),
                 "a shard group is some of the data-parallel ranks with all their context-parallel ones");
  const bool sharded = degrees.shards > 1, hybrid = sharded && degrees.shards < all;
  const bool context = degrees.context > 1;
  Groups groups;
  groups.mesh = mesh_of(degrees, hybrid);
  groups.shards = degrees.shards;
  groups.replicas = all / degrees.shards;
  groups.tensor = groups.add("tp", {"tp"});
  groups.context = groups.add("cp", {"cp"});
  std::vector<std::string> different{"tp"};
  if (hybrid) {
    groups.shard = groups.add(context ? "dp-shard-cp" : "dp-shard", {"cp", "dp-shard"});
    groups.replicate = groups.add("dp-replicate", {"dp-replicate"});
    different.insert(different.end(), {"cp", "dp-shard"});
  } else {
    groups.data = groups.add(context ? "dp-cp" : "dp", {"cp", "dp"});
    if (sharded) {
      groups.shard = groups.data;
      different.insert(different.end(), {"cp", "dp"});
    }
  }
  different.emplace_back("pp");
  groups.norm = groups.add("norm", different);
  if (degrees.expert) add_experts(groups, degrees);
  if (degrees.mirrored) mirror(groups);
  return groups;
}

std::optional<std::string> expert_refusal(const Degrees& degrees) {
  if (!degrees.expert) return std::nullopt;
  const int of_stage = degrees.tensor * degrees.context * degrees.data;
  const int each = *degrees.expert * degrees.expert_tensor;
  if (of_stage % each != 0)
    return fmt::format("ep × etp = {} × {} = {} does not divide tp × cp × dp = {} × {} × {} = {}",
                       *degrees.expert, degrees.expert_tensor, each, degrees.tensor, degrees.context,
                       degrees.data, of_stage);
  const Mesh dense = mesh_of(degrees, false), expert = expert_mesh_of(degrees);
  const auto same_stage = [&](std::size_t rank) {
    return dense.coordinate(RankId(rank), dense.find_axis("pp")) ==
           expert.coordinate(RankId(rank), expert.find_axis("pp"));
  };
  for (int rank = 0; rank < dense.world_size(); ++rank)
    if (!same_stage(static_cast<std::size_t>(rank)))
      return fmt::format(
          "in the order {} the ranks of a pipeline stage are others for experts than for all else; "
          "put pp last, or set etp to tp",
          fmt::join(degrees.order, "-"));
  if (degrees.shards > 1 && degrees.shards < degrees.context * degrees.data * (degrees.mirrored ? 2 : 1))
    return std::string("experts have no replicas of sets of shards; leave out sharding.group");
  return std::nullopt;
}

}  // namespace syncline
