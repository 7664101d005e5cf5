// How many bytes of device memory the messages of a task take.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backends/execute/rank_program.hpp"

namespace syncline::cuda {

/// The widest load of a thread, in bytes: all parts of buffers begin and end at multiples of it.
inline constexpr std::size_t Word = 16;

/// Whole words; nothing stays nothing.
[[nodiscard]] std::size_t padded(Bytes bytes);

/// The part that one of `members` has of a whole: at least a word, so that a collective of no bytes is one,
/// too.
[[nodiscard]] std::size_t part_of(Bytes whole, std::size_t members);

/// Where padded parts begin that stand one behind the other, and behind the last of them the length of all.
[[nodiscard]] std::vector<std::size_t> offsets_of(std::span<const Bytes> parts);

/// What a member needs in its buffers for a collective.
struct BufferBytes {
  std::size_t send = 0;
  std::size_t receive = 0;
  friend bool operator==(const BufferBytes&, const BufferBytes&) = default;
};
[[nodiscard]] BufferBytes buffer_bytes(const CollectiveTask& task, std::size_t members);

}  // namespace syncline::cuda
