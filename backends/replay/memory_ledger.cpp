#include "backends/replay/memory_ledger.hpp"

#include <algorithm>

namespace syncline {
namespace {

Bytes bytes_of(const MemoryEffect& effect, double load) {
  return effect.by_load ? effect.bytes * load : effect.bytes;
}

}  // namespace

void MemoryLedger::hold(std::uint32_t seat, const std::vector<MemoryEffect>& resident) {
  for (const MemoryEffect& effect : resident) {
    held_[seat][static_cast<std::size_t>(effect.category)] += effect.bytes;
    total_[seat] += effect.bytes;
  }
  note_peak(seat, 0, Seconds(0), true);
}

void MemoryLedger::take(std::uint32_t seat, const std::vector<MemoryEffect>& effects, double load,
                        std::uint32_t op, Seconds now) {
  bool grown = false;
  for (const MemoryEffect& effect : effects) {
    if (effect.bytes <= Bytes(0)) continue;
    const Bytes bytes = bytes_of(effect, load);
    held_[seat][static_cast<std::size_t>(effect.category)] += bytes;
    total_[seat] += bytes;
    grown = true;
  }
  if (grown) note_peak(seat, op, now, false);
}

void MemoryLedger::give_back(std::uint32_t seat, const std::vector<MemoryEffect>& effects, double load) {
  for (const MemoryEffect& effect : effects) {
    if (effect.bytes >= Bytes(0)) continue;
    const Bytes bytes = bytes_of(effect, load);
    held_[seat][static_cast<std::size_t>(effect.category)] += bytes;
    total_[seat] += bytes;
    const auto category = static_cast<std::size_t>(effect.category);
    Bytes& least = report_[seat].least[category];
    least = std::min(least, held_[seat][category]);
  }
}

void MemoryLedger::note_peak(std::uint32_t seat, std::uint32_t op, Seconds now, bool at_start) {
  RankMemory& report = report_[seat];
  const Bytes total = total_[seat];
  if (total > report.peak) {
    report.peak = total;
    report.peak_time = now;
    report.peak_op = op;
    report.peak_at_start = at_start;
    report.at_peak = held_[seat];
  }
  if (capacity_ > Bytes(0) && total > capacity_ && !report.out_of_memory) {
    report.out_of_memory = true;
    report.out_of_memory_op = op;
  }
}

}  // namespace syncline
