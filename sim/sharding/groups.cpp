#include "sim/sharding/groups.hpp"

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

}  // namespace

std::optional<FamilyId> Groups::add(std::string name, const std::vector<std::string>& axes) {
  std::vector<std::string> with_ranks;
  for (const std::string& axis : axes)
    if (mesh.size(mesh.find_axis(axis)) > 1) with_ranks.push_back(axis);
  if (with_ranks.empty()) return std::nullopt;
  for (std::size_t id = 0; id < families.size(); ++id)
    if (families[id].axes() == with_ranks) return FamilyId(id);
  families.push_back(GroupFamily::along(std::move(name), mesh, with_ranks));
  return FamilyId(families.size() - 1);
}

Groups groups_of(const Degrees& degrees) {
  const int all = degrees.context * degrees.data;
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
  return groups;
}

}  // namespace syncline
