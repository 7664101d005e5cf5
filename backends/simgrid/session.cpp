#include "backends/simgrid/session.hpp"

#include <fmt/format.h>
#include <simgrid/version.h>

#include <array>

#include "sim/core/error.hpp"

namespace syncline::simgrid_backend {
namespace {

namespace s4u = simgrid::s4u;

Session::Hooks* current = nullptr;  // SimGrid's signals are static, so is who they reach

// The settings under which SimGrid 3.32's network is plain max-min sharing: the default LV08 model rescales latency and
// bandwidth, charges reverse traffic and caps the rate by window and latency. `precision` is far below any latency.
// SimGrid takes them once per process, before its first zone.
constexpr std::array Settings{"network/model:CM02",         "network/crosstraffic:0",
                              "network/TCP-gamma:1e300",    "network/weight-S:0",
                              "network/bandwidth-factor:1", "network/loopback-bw:1e18",
                              "surf/precision:1e-12",       "maxmin/precision:1e-9"};

void configure_process() {
  static const bool done = [] {
    for (const char* setting : Settings) s4u::Engine::set_config(setting);
    s4u::Engine::on_time_advance_cb([](double) {
      if (current != nullptr) current->on_time_advance();
    });
    s4u::Activity::on_completion_cb([](const s4u::Activity& activity) {
      if (current != nullptr) current->on_completion(activity);
    });
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

Session::Session(Hooks& hooks) {
  SYNCLINE_CHECK(current == nullptr, "two simulations at a time in one process");
  static std::string name = "syncline";
  std::array<char*, 2> arguments{name.data(), nullptr};
  int count = 1;
  xbt_log_control_set("xbt_cfg.thres:warning");  // or every setting prints a line
  engine_ = std::make_unique<s4u::Engine>(&count, arguments.data());
  configure_process();
  start_ = s4u::Engine::get_clock();
  current = &hooks;
}

Session::~Session() {
  current = nullptr;
}

std::string simgrid_version() {
  int major = 0, minor = 0, patch = 0;
  sg_version_get(&major, &minor, &patch);
  return patch == 0 ? fmt::format("simgrid {}.{}", major, minor)
                    : fmt::format("simgrid {}.{}.{}", major, minor, patch);
}

}  // namespace syncline::simgrid_backend
