// What a rank is at, in a file that outlives it: so that who started the ranks can say which died, and where.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backends/execute/plan.hpp"

namespace syncline {

inline constexpr const char* ProgressFilePrefix = "progress-";  // then the rank

/// How far a rank's process has come.
enum class RankStage : std::uint32_t {
  Absent,   // it never began
  Running,  // ... and if it runs no more, it died
  Told,     // it was told to end, by a signal
  Failed,   // it has said on stderr why it ends
  Done,
};

/// The rank's own side. Memory that is a file: what is noted stays, however the process ends.
class RankProgress {
 public:
  /// The rank runs, and no stream is at an op.
  /// @throws EnvironmentError when the file cannot be made
  RankProgress(const std::filesystem::path& folder, std::size_t rank, std::size_t streams);
  ~RankProgress();
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;

  // From any thread.
  void set(RankStage stage);
  void begins(StreamId stream, std::uint32_t op);
  void ends(StreamId stream);

 private:
  std::size_t size_;
  std::uint32_t* words_;  // the stage, then by stream: the op + 1, or 0
};

/// What is left of a rank.
struct RankTrace {
  RankStage stage = RankStage::Absent;
  std::vector<std::optional<std::uint32_t>> at;  // by stream: op
};
[[nodiscard]] std::vector<RankTrace> read_progress(const std::filesystem::path& folder,
                                                   const Schedule& schedule);

/// A line for each rank that died without a word: "rank 2 died at: F mb 3, ... (compute); ...". Empty where
/// none did.
[[nodiscard]] std::string who_died(const std::filesystem::path& folder, const ExecutionPlan& plan);

}  // namespace syncline
