// Our max-min network as a model plugged into SimGrid's engine: SimGrid keeps the clock and the loop, the fluid core
// says when its next event is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/simgrid/session.hpp"
#include "sim/network/fluid.hpp"

namespace syncline::simgrid_backend {

class FluidModel;

class FluidNetwork : public FluidBacked, private Session::Hooks {
 public:
  using Progress = std::function<void(double simulated_seconds, std::uint64_t events)>;

  /// @param progress  called now and then during run(); may be empty
  explicit FluidNetwork(std::span<const BytesPerSecond> capacities, Progress progress = {});
  ~FluidNetwork() override;

  void run(NetworkListener& listener) override;

 private:
  void on_time_advance() override;
  void on_completion(const simgrid::s4u::Activity&) override {}

  std::vector<Token> ended_, firing_;
  NetworkListener* listener_ = nullptr;
  Session session_;
  std::shared_ptr<FluidModel> model_;
  Progress progress_;
  std::uint64_t told_ = 0;  // events when progress_ was last called
};

}  // namespace syncline::simgrid_backend
