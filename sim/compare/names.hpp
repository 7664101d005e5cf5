// What ops are called, in all that speaks of two timelines.
#pragma once

#include <string>
#include <string_view>

#include "sim/timeline/timeline.hpp"

namespace syncline::compare {

/// The name of the stream that an op stands in, "host" of a host's.
[[nodiscard]] std::string_view stream_of(const Timeline& timeline, const TimelineOp& op);

/// What ops are summed by: of compute what it is for ("forward", "backward-weight", "optimizer", "compute"), else the
/// op's name ("all-gather", "send", "host-wait").
[[nodiscard]] std::string_view kind_of(const TimelineOp& op);

/// Whether the op is a host's that only waits.
[[nodiscard]] bool is_host_wait(const TimelineOp& op);

/// "F layer 3 microbatch 0 all-gather": tag and name.
[[nodiscard]] std::string op_text(const TimelineOp& op);

/// "rank 2, compute: F layer 3 layer-forward".
[[nodiscard]] std::string span_text(const Timeline& timeline, const Span& span);

/// How long a span worked: of communication from when its data moves to its end, of a host that waits nothing, else from
/// start to end.
[[nodiscard]] Seconds work_of(const TimelineOp& op, const Span& span);
/// How long it waited for others: the rest.
[[nodiscard]] Seconds waiting_of(const TimelineOp& op, const Span& span);

}  // namespace syncline::compare
