#include "backends/simgrid/fluid_network.hpp"

#include <algorithm>
#include <simgrid/kernel/resource/Model.hpp>
#include <utility>

#include "backends/simgrid/zone.hpp"

namespace syncline::simgrid_backend {

// The fluid core seen by the engine. SimGrid adds up steps; the core keeps its own dates, so that a run gives the same
// bits whatever ran before it in the process.
class FluidModel : public simgrid::kernel::resource::Model {
 public:
  FluidModel(Fluid& fluid, std::vector<Token>& ended)
      : Model("SynclineFluid"), fluid_(fluid), ended_(ended) {}

  double next_occurring_event(double) override {
    const std::optional<Seconds> next = fluid_.next_event();
    if (!next) return -1.0;  // SimGrid's word for "nothing to wait for"
    next_ = *next;
    step_ = (next_ - fluid_.now()).si();
    return step_;
  }

  void update_actions_state(double, double step) override {
    if (fluid_.next_event()) fluid_.advance_to(step >= step_ ? next_ : fluid_.now() + Seconds(step), ended_);
  }

 private:
  Fluid& fluid_;
  std::vector<Token>& ended_;
  Seconds next_;
  double step_ = 0;
};

namespace {

constexpr std::uint64_t EventsBetweenProgress = 4096;  // a few milliseconds

}  // namespace

FluidNetwork::FluidNetwork(std::span<const BytesPerSecond> capacities, Progress progress)
    : FluidBacked(capacities),
      session_(*this),
      model_(std::make_shared<FluidModel>(fluid_, ended_)),
      progress_(std::move(progress)) {
  (new PathZone("syncline"))->seal();  // the engine does not run without a zone
  session_.engine().add_model(model_);
}

FluidNetwork::~FluidNetwork() = default;

void FluidNetwork::run(NetworkListener& listener) {
  listener_ = &listener;
  session_.engine().run();
  listener_ = nullptr;
}

void FluidNetwork::on_time_advance() {
  firing_.clear();
  firing_.swap(ended_);
  for (const Token token : firing_) listener_->on_done(token);
  if (!progress_ || fluid_.event_count() < told_ + EventsBetweenProgress) return;
  told_ = fluid_.event_count();
  progress_(fluid_.now().si(), told_);
}

}  // namespace syncline::simgrid_backend
