// Names that the writer and the reader of traces share.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "sim/schedule/schedule.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

inline constexpr std::string_view TraceSchema = "syncline-trace";
inline constexpr int TraceVersion = 1;
inline constexpr std::string_view HostTrack = "host";

/// `cat` of an event, by SpanKind.
inline constexpr std::array<std::string_view, 3> SpanKindNames{"compute", "communication", "host"};
[[nodiscard]] inline std::string_view name_of(SpanKind kind) {
  return SpanKindNames[static_cast<std::size_t>(kind)];
}

/// The tag's numbers by their key in `args`; absent when -1.
inline constexpr std::array<std::pair<std::string_view, int Tag::*>, 3> TagNumbers{
    {{"layer", &Tag::layer}, {"microbatch", &Tag::microbatch}, {"chunk", &Tag::chunk}}};

}  // namespace syncline
