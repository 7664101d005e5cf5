// SimGrid's own network as the reference that our model is held to.
//
// A transfer waits its latency on a SimGrid timer, then runs as a zero-latency communication: with latencies inside
// SimGrid's solver shares are weighted by 1/latency, and its lazy solver can over-fill links. Plain flows only
// (coefficient 1), so collectives must be expanded in full. Slow with more than about a thousand live transfers.
#pragma once

#include <span>
#include <vector>

#include "backends/simgrid/session.hpp"
#include "backends/simgrid/zone.hpp"
#include "sim/network/network.hpp"

namespace syncline::simgrid_backend {

class NativeNetwork : public Network, private Session::Hooks {
 public:
  explicit NativeNetwork(std::span<const BytesPerSecond> capacities);
  ~NativeNetwork() override;

  [[nodiscard]] Seconds now() const override { return Seconds(session_.clock()); }
  void delay(Seconds duration, Token token) override;
  /// @throws std::invalid_argument on a coefficient other than 1, and on thousands of bounded transfers at a time
  void transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, Token token,
                BytesPerSecond most = AnyRate) override;
  /// @throws std::logic_error: links that change are the fluid network's; the backend refuses such faults
  void set_bandwidth(LinkId link, BytesPerSecond bandwidth) override;
  std::size_t reroute(const Rerouting& rerouting) override;
  void run(NetworkListener& listener) override;
  [[nodiscard]] std::vector<Bytes> carried() const override { return carried_; }
  [[nodiscard]] std::uint64_t event_count() const override { return events_; }
  [[nodiscard]] std::uint64_t transfer_count() const override { return transfers_; }

 private:
  struct Flow {
    std::vector<std::uint32_t> links;
    Bytes bytes;
    simgrid::s4u::Link* bound = nullptr;  // of its own, when it may not have any rate
    Token token = 0;
    simgrid::s4u::CommPtr communication;
  };

  void on_time_advance() override { finished_.clear(); }
  void on_completion(const simgrid::s4u::Activity& activity) override;
  void begin(std::size_t slot);
  /// A link of so much bandwidth that no other transfer has; null for any rate.
  simgrid::s4u::Link* bound_to(BytesPerSecond most);
  void at(double date, std::function<void()> action);

  Session session_;
  PathZone* zone_ = nullptr;              // SimGrid's
  simgrid::s4u::Host* source_ = nullptr;  // every communication is between the same two hosts;
  simgrid::s4u::Host* target_ = nullptr;  // what tells them apart is the path named for each
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links_;
  std::vector<simgrid::s4u::Link*> free_bounds_;
  std::vector<Flow> flows_;  // by slot
  std::vector<std::size_t> free_slots_;
  std::vector<simgrid::s4u::CommPtr> finished_;  // freed at the next step: not inside their own callback
  std::vector<Bytes> carried_;
  NetworkListener* listener_ = nullptr;
  std::uint64_t events_ = 0, transfers_ = 0;
};

}  // namespace syncline::simgrid_backend
