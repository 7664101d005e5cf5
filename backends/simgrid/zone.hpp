// A SimGrid zone whose routes are whatever list of links its owner names for the next communication.
#pragma once

#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace syncline::simgrid_backend {

/// Owned by SimGrid, like every zone. Zero latency: the callers pay it by a timer (see native_network.cpp).
class PathZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit PathZone(const std::string& name) : NetZoneImpl(name) {}

  std::vector<simgrid::kernel::resource::StandardLinkImpl*> next_path;

  void get_local_route(const simgrid::kernel::routing::NetPoint*, const simgrid::kernel::routing::NetPoint*,
                       simgrid::kernel::routing::Route* into, double*) override {
    into->link_list_ = next_path;
  }
};

}  // namespace syncline::simgrid_backend
