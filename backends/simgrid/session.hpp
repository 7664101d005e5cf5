// One SimGrid engine, from construction to destruction.
//
// SimGrid keeps its engine, its signals and its settings once per process. This class is the one place that knows so:
// at most one Session lives at a time, callbacks are registered once and handed to whoever is current.
#pragma once

#include <memory>
#include <simgrid/s4u.hpp>
#include <string>

namespace syncline::simgrid_backend {

class Session {
 public:
  /// What SimGrid's signals are handed to while the session lives.
  class Hooks {
   public:
    virtual ~Hooks() = default;
    /// The clock has moved, and every model has been brought to the new date.
    virtual void on_time_advance() = 0;
    /// A communication of ours is over (native network only).
    virtual void on_completion(const simgrid::s4u::Activity& activity) = 0;
  };

  explicit Session(Hooks& hooks);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] simgrid::s4u::Engine& engine() { return *engine_; }
  /// Seconds since this session began. (SimGrid's own clock goes on from one engine to the next.)
  [[nodiscard]] double clock() const { return simgrid::s4u::Engine::get_clock() - start_; }

 private:
  std::unique_ptr<simgrid::s4u::Engine> engine_;
  double start_ = 0;
};

/// "simgrid 3.32"
[[nodiscard]] std::string simgrid_version();

}  // namespace syncline::simgrid_backend
