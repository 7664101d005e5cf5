#include "sim/compare/names.hpp"

#include <fmt/format.h>

#include "sim/timeline/trace_format.hpp"

namespace syncline::compare {
namespace {

std::string_view compute_kind(Phase phase) {
  switch (phase) {
    case Phase::Forward: return "forward";
    case Phase::Backward: return "backward";
    case Phase::BackwardInput: return "backward-input";
    case Phase::BackwardWeight: return "backward-weight";
    case Phase::ForwardBackward: return "forward-backward";
    case Phase::Optimizer: return "optimizer";
    case Phase::Other: break;
  }
  return "compute";
}

}  // namespace

std::string_view stream_of(const Timeline& timeline, const TimelineOp& op) {
  return op.kind == SpanKind::Host ? HostTrack : std::string_view(timeline.streams.at(op.stream.value()));
}

std::string_view kind_of(const TimelineOp& op) {
  return op.kind == SpanKind::Compute ? compute_kind(op.tag.phase) : std::string_view(op.name);
}

bool is_host_wait(const TimelineOp& op) {
  return op.kind == SpanKind::Host && op.name == "host-wait";
}

std::string op_text(const TimelineOp& op) {
  std::string text = op.tag == Tag{} ? "" : to_text(op.tag);
  if (op.name != op.tag.name) text += (text.empty() ? "" : " ") + op.name;
  return text;
}

std::string span_text(const Timeline& timeline, const Span& span) {
  const TimelineOp& op = timeline.ops[span.op];
  return fmt::format("rank {}, {}: {}", span.rank.value(), stream_of(timeline, op), op_text(op));
}

Seconds work_of(const TimelineOp& op, const Span& span) {
  if (is_host_wait(op)) return {};
  return span.end - (op.kind == SpanKind::Communication ? span.transfer : span.start);
}

Seconds waiting_of(const TimelineOp& op, const Span& span) {
  if (is_host_wait(op)) return span.end - span.start;
  return op.kind == SpanKind::Communication ? span.transfer - span.start : Seconds();
}

}  // namespace syncline::compare
