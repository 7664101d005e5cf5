// What is to be executed: a schedule, how its compute is carried out, and how often.
//
// The program `syncline` writes a plan into a folder and starts the programs of a backend there, one process a rank or
// a node; they read it, and leave what they measured in the same folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace syncline {

/// How an op of compute takes its time on the machine that executes it.
enum class ComputeBy : std::uint8_t {
  PlannedTime,  // nothing is computed: it ends when the planned time is over
  Kernels,      // real products, attention and passes over memory, of the op's shape
};
[[nodiscard]] std::string_view name_of(ComputeBy value);  // "time", "kernels"
inline constexpr const char* ComputeKey = "compute";       // under which the header of a timeline has it

struct ExecutionPlan {
  Schedule schedule;
  std::vector<Seconds> work_times;  // by WorkId: on an undisturbed device of speed 1, as it is simulated
  ComputeBy compute = ComputeBy::PlannedTime;
  int warmup = 1;   // steps before those that are measured
  int repeats = 5;  // measured steps
  Seconds timeout{60};  // no op of a rank ends for so long: all ranks are ended
  friend bool operator==(const ExecutionPlan&, const ExecutionPlan&) = default;
};

/// Writes `plan.json` and `schedule.txt`.
/// @throws EnvironmentError when they cannot be written
void write_plan(const std::filesystem::path& folder, const ExecutionPlan& plan);
/// @throws InputError when a file is missing or broken
[[nodiscard]] ExecutionPlan read_plan(const std::filesystem::path& folder);

// What a backend's programs leave in the folder.
inline constexpr const char* TimelineFile = "timeline.json";    // written anew after each repeat
inline constexpr const char* ExecutionFile = "execution.json";  // so is this: ExecutionRecord

/// What the repeats were.
struct ExecutionRecord {
  std::vector<Seconds> step_times;  // of the measured repeats, in their order
  int shown = 0;                    // the repeat whose timeline was written: the one of the median step
  Seconds clock_error;              // of the worst rank's clock against that of rank 0
  friend bool operator==(const ExecutionRecord&, const ExecutionRecord&) = default;
};
void write_record(const std::filesystem::path& folder, const ExecutionRecord& record);
/// @throws InputError when the file is missing or broken
[[nodiscard]] ExecutionRecord read_record(const std::filesystem::path& folder);

}  // namespace syncline
