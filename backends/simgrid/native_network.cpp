#include "backends/simgrid/native_network.hpp"

#include <fmt/format.h>

#include <cmath>
#include <simgrid/kernel/Timer.hpp>
#include <stdexcept>

#include "sim/core/error.hpp"

namespace syncline::simgrid_backend {
namespace {

// SimGrid's payloads are whole bytes; sizes and bandwidths are both multiplied so that a part of a byte still counts.
constexpr double Scale = 1024;

// A rate set on a communication between hosts is ignored (SimGrid 3.32), and links cannot be made while it runs: so many are
// there from the start, each to be on the way of one bounded transfer at a time.
constexpr std::size_t MostBounded = 4096;

}  // namespace

NativeNetwork::NativeNetwork(std::span<const BytesPerSecond> capacities) : session_(*this) {
  zone_ = new PathZone("syncline");
  source_ = zone_->create_host("source", {1e9});
  target_ = zone_->create_host("target", {1e9});
  for (std::size_t i = 0; i < capacities.size(); ++i)
    links_.push_back(
        zone_->create_link(fmt::format("link{}", i), {capacities[i].si() * Scale})->seal()->get_impl());
  for (std::size_t i = 0; i < MostBounded; ++i)
    free_bounds_.push_back(zone_->create_link(fmt::format("bound{}", i), {Scale})->seal());
  zone_->seal();
  carried_.resize(capacities.size());
}

NativeNetwork::~NativeNetwork() = default;

void NativeNetwork::at(double date, std::function<void()> action) {
  simgrid::kernel::timer::Timer::set(date, [this, action = std::move(action)] {
    ++events_;
    action();
  });
}

void NativeNetwork::delay(Seconds duration, Token token) {
  at(simgrid::s4u::Engine::get_clock() + duration.si(), [this, token] { listener_->on_done(token); });
}

void NativeNetwork::set_bandwidth(LinkId, BytesPerSecond) {
  SYNCLINE_CHECK(false, "links of the native network stay");
}

std::size_t NativeNetwork::reroute(const Rerouting&) {
  SYNCLINE_CHECK(false, "routes of the native network stay");
}

void NativeNetwork::transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, Token token,
                             BytesPerSecond most) {
  if (uses.empty() || bytes.si() <= 0) return delay(latency, token);
  ++transfers_;
  std::size_t slot = flows_.size();
  if (free_slots_.empty()) {
    flows_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Flow& flow = flows_[slot];
  flow.links.clear();
  for (const LinkUse& use : uses) {
    if (use.coefficient != 1.0)
      throw std::invalid_argument(
          "SimGrid's native network carries plain flows only, and traffic is sprayed over several "
          "paths; choose routing d-mod-k or ecmp");
    flow.links.push_back(use.link.value());
  }
  flow.bytes = bytes;
  flow.bound = bound_to(most);
  flow.token = token;
  at(simgrid::s4u::Engine::get_clock() + latency.si(), [this, slot] { begin(slot); });
}

simgrid::s4u::Link* NativeNetwork::bound_to(BytesPerSecond most) {
  if (most == AnyRate) return nullptr;
  if (free_bounds_.empty())
    throw std::invalid_argument(
        fmt::format("SimGrid's native network carries up to {} transfers of protocols with figures at a "
                    "time; choose the fluid network",
                    MostBounded));
  simgrid::s4u::Link* bound = free_bounds_.back();
  free_bounds_.pop_back();
  bound->set_bandwidth(most.si() * Scale);
  return bound;
}

void NativeNetwork::begin(std::size_t slot) {
  Flow& flow = flows_[slot];
  zone_->next_path.clear();
  for (const std::uint32_t link : flow.links) zone_->next_path.push_back(links_[link]);
  if (flow.bound != nullptr) zone_->next_path.push_back(flow.bound->get_impl());
  flow.communication = simgrid::s4u::Comm::sendto_init(source_, target_);
  flow.communication->set_payload_size(static_cast<std::uint64_t>(std::llround(flow.bytes.si() * Scale)));
  flow.communication->set_data(reinterpret_cast<void*>(slot));
  flow.communication->vetoable_start();  // asks the zone for its route now
}

void NativeNetwork::on_completion(const simgrid::s4u::Activity& activity) {
  const auto* communication = dynamic_cast<const simgrid::s4u::Comm*>(&activity);
  if (communication == nullptr) return;
  ++events_;
  const auto slot = reinterpret_cast<std::size_t>(communication->get_data<void>());
  Flow& flow = flows_[slot];
  for (const std::uint32_t link : flow.links) carried_[link] += flow.bytes;
  if (flow.bound != nullptr) free_bounds_.push_back(flow.bound);
  finished_.push_back(std::move(flow.communication));
  free_slots_.push_back(slot);
  listener_->on_done(flow.token);
}

void NativeNetwork::run(NetworkListener& listener) {
  listener_ = &listener;
  session_.engine().run();
  finished_.clear();
  listener_ = nullptr;
}

}  // namespace syncline::simgrid_backend
