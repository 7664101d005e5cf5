// Ids as types: a rank is not a link, and neither is an int.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace syncline {

/// A dense index, 0-based, into the table that `Kind` names.
template <class Kind>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::size_t value) : value_(static_cast<std::uint32_t>(value)) {}
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::uint32_t value_ = 0;
};

using RankId = Id<struct RankKind>;                // one process, one accelerator
using AcceleratorId = Id<struct AcceleratorKind>;  // position in Topology::accelerators()
using VertexId = Id<struct VertexKindTag>;         // vertex of the topology graph
using LinkId = Id<struct LinkKindTag>;             // directed link of the topology graph
using StreamId = Id<struct StreamKind>;            // position in Schedule::streams
using RoleId = Id<struct RoleKind>;                // position in Schedule::roles
using WorkId = Id<struct WorkKind>;                // position in Schedule::works
using FamilyId = Id<struct FamilyKind>;            // position in Schedule::families
using GroupId = Id<struct GroupKind>;              // group within its family
using OpIndex = Id<struct OpKindTag>;              // position in a role's program
using ExchangeId = Id<struct ExchangeKind>;        // position in Schedule::exchanges
using LoadId = Id<struct LoadKind>;                // position in Schedule::loads
using LibraryId = Id<struct LibraryKind>;          // position in Schedule::libraries

}  // namespace syncline

template <class Kind>
struct std::hash<syncline::Id<Kind>> {
  std::size_t operator()(syncline::Id<Kind> id) const noexcept { return id.value(); }
};
