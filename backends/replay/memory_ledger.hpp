// Memory of every rank that is played, through a run, by category.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/schedule.hpp"
#include "sim/timeline/result.hpp"

namespace syncline {

class MemoryLedger {
 public:
  /// @param capacity  of one accelerator; 0: not checked
  MemoryLedger(std::size_t seats, Bytes capacity)
      : capacity_(capacity), held_(seats), total_(seats), report_(seats) {}

  /// What the rank of `seat` holds before its first op.
  void hold(std::uint32_t seat, const std::vector<MemoryEffect>& resident);
  /// Positive effects, when the op starts.
  /// @param load  factor of the rank on effects by load
  void take(std::uint32_t seat, const std::vector<MemoryEffect>& effects, double load, std::uint32_t op,
            Seconds now);
  /// Negative effects, when the op ends.
  void give_back(std::uint32_t seat, const std::vector<MemoryEffect>& effects, double load);

  [[nodiscard]] std::vector<RankMemory> report() && { return std::move(report_); }

 private:
  void note_peak(std::uint32_t seat, std::uint32_t op, Seconds now, bool at_start);

  Bytes capacity_;
  std::vector<MemoryByCategory> held_;
  std::vector<Bytes> total_;
  std::vector<RankMemory> report_;
};

}  // namespace syncline
