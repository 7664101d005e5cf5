// What a command line asks to have run: a scenario, or a schedule on a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "sim/config/scenario.hpp"
#include "sim/device/cluster.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

struct Question {
  std::string file;
  std::optional<Scenario> scenario;  // nothing for a schedule file
  Schedule schedule;
  Cluster cluster;
  std::optional<pipeline::Order> order{};  // of a textbook: what the schedule is made from
};

/// Where a schedule file runs; a scenario says so itself.
struct ScheduleCluster {
  std::string topology;  // name or file
  std::string device;    // name or file; empty: ideal
};

/// The schedule that a scenario asks for.
[[nodiscard]] Schedule make_schedule(const Scenario& scenario);

/// What a scenario that has been read asks to have run, checked so that it can.
/// @param fold  as below
/// @throws InputError
[[nodiscard]] Question question_of(Scenario scenario, bool fold = false);

/// Reads a scenario or a schedule, whichever the file begins as, and checks that it can run. The file is read
/// once and may be a pipe.
/// @param fold  ranks are going to be folded: the schedule is checked so far as that needs
/// @throws InputError
[[nodiscard]] Question read_question(const std::string& file, const std::vector<Override>& overrides,
                                     const ScheduleCluster& where, bool fold = false);

}  // namespace syncline
