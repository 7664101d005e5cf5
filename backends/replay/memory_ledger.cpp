#include "backends/replay/memory_ledger.hpp"

#include <algorithm>

namespace syncline {

void MemoryLedger::hold(RankId rank, const std::vector<MemoryEffect>& resident) {
  for (const MemoryEffect& effect : resident) {
    held_[rank.value()][static_cast<std::size_t>(effect.category)] += effect.bytes;
    total_[rank.value()] += effect.bytes;
  }
  note_peak(rank, 0, Seconds(0), true);
}

void MemoryLedger::take(RankId rank, const std::vector<MemoryEffect>& effects, std::uint32_t op, Seconds now) {
  bool grown = false;
  for (const MemoryEffect& effect : effects) {
    if (effect.bytes <= Bytes(0)) continue;
    held_[rank.value()][static_cast<std::size_t>(effect.category)] += effect.bytes;
    total_[rank.value()] += effect.bytes;
    grown = true;
  }
  if (grown) note_peak(rank, op, now, false);
}

void MemoryLedger::give_back(RankId rank, const std::vector<MemoryEffect>& effects) {
  for (const MemoryEffect& effect : effects) {
    if (effect.bytes >= Bytes(0)) continue;
    held_[rank.value()][static_cast<std::size_t>(effect.category)] += effect.bytes;
    total_[rank.value()] += effect.bytes;
    const auto category = static_cast<std::size_t>(effect.category);
    Bytes& least = report_[rank.value()].least[category];
    least = std::min(least, held_[rank.value()][category]);
  }
}

void MemoryLedger::note_peak(RankId rank, std::uint32_t op, Seconds now, bool at_start) {
  RankMemory& report = report_[rank.value()];
  const Bytes total = total_[rank.value()];
  if (total > report.peak) {
    report.peak = total;
    report.peak_time = now;
    report.peak_op = op;
    report.peak_at_start = at_start;
    report.at_peak = held_[rank.value()];
  }
  if (capacity_ > Bytes(0) && total > capacity_ && !report.out_of_memory) {
    report.out_of_memory = true;
    report.out_of_memory_op = op;
  }
}

}  // namespace syncline
