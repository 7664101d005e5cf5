#include "sim/compare/comparison_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/compare/names.hpp"

namespace syncline::compare {
namespace {

using Json = nlohmann::ordered_json;

constexpr int Schema = 1;

Json json_of(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// What tells an op: rank, stream, tag and name.
Json op_of(const Timeline& timeline, const Span& span) {
  const TimelineOp& op = timeline.ops[span.op];
  Json json{{"rank", span.rank.value()},
            {"stream", stream_of(timeline, op)},
            {"kind", kind_of(op)},
            {"name", op.name},
            {"phase", name_of(op.tag.phase)}};
  for (const auto& [key, number] :
       {std::pair("layer", op.tag.layer), std::pair("microbatch", op.tag.microbatch),
        std::pair("chunk", op.tag.chunk)})
    if (number >= 0) json[key] = number;
  if (!op.tag.name.empty()) json["tag"] = op.tag.name;
  if (!op.group.empty()) json["group"] = op.group;
  return json;
}

Json pair_of(const Comparison& c, std::uint32_t pair) {
  const OpTimes& op = c.ops[pair];
  Json json = op_of(c.a.timeline, c.span_a(pair));
  json["a_s"] = op.work_a.si();
  json["b_s"] = op.work_b.si();
  json["error"] = json_of(op.error);
  json["waiting_a_s"] = op.waiting_a.si();
  json["waiting_b_s"] = op.waiting_b.si();
  json["exposed_a_s"] = op.exposed_a.si();
  json["exposed_b_s"] = op.exposed_b.si();
  json["start_a_s"] = c.span_a(pair).start.si();
  json["start_b_s"] = c.span_b(pair).start.si();
  return json;
}

Json group_of(const Comparison& c, const Group& group) {
  Json json{{"name", group.name},
            {"ops", group.ops},
            {"counted", group.counted},
            {"a_s", group.work_a.si()},
            {"b_s", group.work_b.si()},
            {"error", json_of(group.error)},
            {"mean_absolute_error", json_of(group.mean_absolute)}};
  const bool any = group.counted > 0;
  for (const auto& [key, value] : {std::pair("median_absolute_error", group.median_absolute),
                                   std::pair("p90_absolute_error", group.p90_absolute),
                                   std::pair("max_absolute_error", group.max_absolute)})
    json[key] = any ? Json(value) : Json(nullptr);
  json["worst"] = group.worst ? op_of(c.a.timeline, c.span_a(*group.worst)) : Json(nullptr);
  json["waiting_a_s"] = group.waiting_a.si();
  json["waiting_b_s"] = group.waiting_b.si();
  return json;
}

// The first `most` items.
template <class Items, class Make>
Json list(const Items& items, std::size_t most, const Make& make) {
  Json json = Json::array();
  for (std::size_t i = 0; i < std::min(most, items.size()); ++i) json.push_back(make(items[i]));
  return json;
}
template <class Items, class Make>
Json list(const Items& items, const Make& make) {
  return list(items, items.size(), make);
}

Json waits_of(const Side& side, std::size_t most) {
  const Timeline& timeline = side.timeline;
  const auto kind_json = [](const WaitsOfKind& kind) {
    return Json{{"kind", kind.kind},
                {"kernels", kind.kernels},
                {"without_partner", kind.alone},
                {"kernel_time_s", kind.kernel_time.si()},
                {"waiting_s", kind.waiting.si()}};
  };
  const auto meeting_json = [&](const Meeting& meeting) {
    Json json{{"op", op_of(timeline, timeline.spans[meeting.last])},
              {"cost_at_most_s", meeting.cost.si()},
              {"kernel_time_s", meeting.kernel_time.si()},
              {"waiting_s", meeting.waiting.si()},
              {"last_rank", timeline.spans[meeting.last].rank.value()},
              {"before", meeting.before ? op_of(timeline, timeline.spans[*meeting.before]) : Json(nullptr)}};
    json["ranks"] = list(meeting.spans, [&](std::uint32_t position) {
      const Span& span = timeline.spans[position];
      return Json{{"rank", span.rank.value()},
                  {"kernel_time_s", (span.end - span.start).si()},
                  {"waiting_s", (span.transfer - span.start).si()}};
    });
    return json;
  };
  return {{"all", kind_json(side.waits.all)},
          {"kinds", list(side.waits.kinds, kind_json)},
          {"waiting_by_rank_s", list(side.waits.by_rank, [](Seconds waiting) { return waiting.si(); })},
          {"longest", list(side.waits.worst, most, meeting_json)}};
}

Json side_of(const Side& side, const std::string& file, std::size_t most) {
  Json about = Json::object();
  for (const auto& [key, text] : side.timeline.about) about[key] = text;
  return {{"file", file},
          {"source", side.timeline.source},
          {"about", about},
          {"ranks", side.timeline.ranks},
          {"ops", side.timeline.spans.size()},
          {"step_time_s", side.step_time.si()},
          {"exposed_communication_s", side.exposed.si()},
          {"overlap_share", side.overlap_share},
          {"waits", waits_of(side, most)}};
}

Json clocks_of(const Clocks& clocks) {
  Json json{{"offset_s", clocks.offset.si()}};
  json["ranks"] = list(clocks.ranks, [](const Clocks::Differing& rank) {
    return Json{{"rank", rank.rank.value()}, {"offset_s", rank.offset.si()}};
  });
  return json;
}

}  // namespace

std::string comparison_json(const Comparison& c, const TextOptions& options,
                            const std::vector<Broken>& broken, std::string_view version) {
  const std::size_t most = options.worst;
  const auto pair_json = [&](std::uint32_t pair) { return pair_of(c, pair); };
  const auto group_json = [&](const Group& group) { return group_of(c, group); };
  const auto only = [&](const Timeline& timeline, const std::vector<std::uint32_t>& spans) {
    return list(spans, most, [&](std::uint32_t span) {
      Json json = op_of(timeline, timeline.spans[span]);
      json["start_s"] = timeline.spans[span].start.si();
      return json;
    });
  };
  const auto after = [&](std::uint32_t pair) {
    return pair == c.ops.size() ? Json(nullptr) : op_of(c.a.timeline, c.span_a(pair));
  };
  const std::vector<std::uint32_t> differing = farthest_off(c, Notable), overlap = overlapped_differently(c);

  Json json{{"schema", Schema}, {"version", version}};
  json["a"] = side_of(c.a, options.name_a, most);
  json["b"] = side_of(c.b, options.name_b, most);
  json["floor_s"] = c.floor.si();
  json["step_error"] = json_of(c.step_error);
  json["clocks"] = clocks_of(c.clocks);
  json["starts"] = {{"median_absolute_difference_s", c.median_start_difference.si()},
                    {"max_difference_s", c.worst_start ? c.start_difference(*c.worst_start).si() : 0.0},
                    {"worst", c.worst_start ? pair_json(*c.worst_start) : Json(nullptr)}};
  json["all"] = group_json(c.all);
  json["kinds"] = list(c.kinds, group_json);
  json["streams"] = list(c.streams, group_json);
  json["ranks"] = list(c.ranks, group_json);
  json["ops_differing"] = differing.size();
  json["worst_ops"] = list(differing, most, pair_json);
  json["missing"] = c.alignment.only_a.size();
  json["missing_ops"] = only(c.a.timeline, c.alignment.only_a);
  json["extra"] = c.alignment.only_b.size();
  json["extra_ops"] = only(c.b.timeline, c.alignment.only_b);
  json["moved"] = c.moved.size();
  json["moved_ops"] = list(c.moved, most, [&](const Moved& moved) {
    Json op = op_of(c.a.timeline, c.span_a(moved.pair));
    op["after_in_a"] = after(moved.after_in_a);
    op["after_in_b"] = after(moved.after_in_b);
    return op;
  });
  json["overlap"] = list(c.overlaps, [](const Overlap& kind) {
    return Json{{"kind", kind.kind},
                {"kernel_time_a_s", kind.kernel_a.si()},
                {"exposed_a_s", kind.exposed_a.si()},
                {"kernel_time_b_s", kind.kernel_b.si()},
                {"exposed_b_s", kind.exposed_b.si()}};
  });
  json["overlapped_differently"] = overlap.size();
  json["overlapped_differently_ops"] = list(overlap, most, pair_json);
  json["broken"] = list(broken, [](const Broken& item) {
    return Json{{"what", item.what}, {"value", item.value}, {"limit", item.most}, {"message", item.message}};
  });
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace syncline::compare
