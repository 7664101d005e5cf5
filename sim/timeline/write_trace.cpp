#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/timeline/trace.hpp"
#include "sim/timeline/trace_format.hpp"

namespace syncline {
namespace {

// A file written through zlib, which passes bytes on unchanged unless asked to compress.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    errno = 0;
    file_ = gzopen(path.c_str(), path.ends_with(".gz") ? CompressFast : PassThrough);
    if (file_ == nullptr) fail(errno == 0 ? "out of memory" : std::strerror(errno));
    gzbuffer(file_, 1U << 18);
  }
  ~OutputFile() {
    if (file_ != nullptr) gzclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text) {
    if (text.empty()) return;
    if (gzwrite(file_, text.data(), static_cast<unsigned>(text.size())) == 0) fail(reason());
  }

  // The last bytes reach the disk here, so this is where a full one shows.
  void close() {
    gzFile file = std::exchange(file_, nullptr);
    errno = 0;
    const int status = gzclose(file);
    if (status != Z_OK) fail(status == Z_ERRNO ? std::strerror(errno) : "zlib error");
  }

 private:
  static constexpr const char* CompressFast = "wb3";  // half the time of zlib's default, a seventh larger
  static constexpr const char* PassThrough = "wbT";

  std::string reason() {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    return code == Z_ERRNO ? std::strerror(errno) : text;
  }
  [[noreturn]] void fail(const std::string& why) {
    throw EnvironmentError(fmt::format("cannot write the trace \"{}\": {}", path_, why));
  }

  std::string path_;
  gzFile file_ = nullptr;
};

// Quoted and escaped; bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The decimal grid of a timeline's times: fine enough to lose nothing that matters, coarse enough (14 digits, a double
// holds 15) that every step survives being read and written again.
class TimeGrid {
 public:
  explicit TimeGrid(const Timeline& timeline) {
    double latest = 0;  // µs
    for (const Span& span : timeline.spans)
      latest = std::max({latest, std::abs(span.start.si()) * 1e6, std::abs(span.end.si()) * 1e6});
    while (decimals_ > 0 && std::round(latest * scale_) >= MostSteps) {
      --decimals_;
      scale_ /= 10;
    }
  }

  [[nodiscard]] std::int64_t steps(Seconds time) const { return std::llround(time.si() * 1e6 * scale_); }

  // Microseconds without trailing zeros: "12.25".
  void append(std::string& out, std::int64_t steps) const {
    if (steps < 0) out += '-';
    const std::uint64_t size = static_cast<std::uint64_t>(std::abs(steps));
    const std::uint64_t unit = static_cast<std::uint64_t>(scale_);
    append_integer(out, size / unit);
    std::uint64_t fraction = size % unit;
    if (fraction == 0) return;
    int digits = decimals_;
    for (; fraction % 10 == 0; fraction /= 10) --digits;
    const std::size_t start = out.size();
    append_integer(out, fraction);
    out.insert(start, 1 + static_cast<std::size_t>(digits) - (out.size() - start), '0');
    out[start] = '.';
  }

 private:
  static void append_integer(std::string& out, std::uint64_t value) {
    char buffer[20];
    out.append(buffer, std::to_chars(std::begin(buffer), std::end(buffer), value).ptr);
  }

  static constexpr double MostSteps = 1e14;
  int decimals_ = 15;
  double scale_ = 1e15;  // steps in a microsecond: 10^decimals
};

class TraceWriter {
 public:
  TraceWriter(OutputFile& file, const Timeline& timeline)
      : file_(file), timeline_(timeline), grid_(timeline) {
    for (const TimelineOp& op : timeline.ops) op_text_.push_back(text_of(op, op_text_.size()));
  }

  void write() {
    out_ = "{\"displayTimeUnit\":\"ms\",\n\"otherData\":" + header() + ",\n\"traceEvents\":[";
    for (auto begin = timeline_.spans.begin(); begin != timeline_.spans.end();) {
      const RankId rank = begin->rank;
      const auto end =
          std::find_if(begin, timeline_.spans.end(), [&](const Span& span) { return span.rank != rank; });
      write_names(rank, {begin, end});
      for (auto span = begin; span != end; ++span) write_event(*span);
      begin = end;
    }
    out_ += "\n]}\n";
    file_.write(out_);
  }

 private:
  [[nodiscard]] std::string header() const {
    std::string streams;
    for (const std::string& stream : timeline_.streams)
      streams += (streams.empty() ? "" : ",") + json_text(stream);
    std::string about;
    for (const auto& [key, text] : timeline_.about)
      about += (about.empty() ? ",\"about\":{" : ",") + json_text(key) + ":" + json_text(text);
    if (!about.empty()) about += "}";
    return fmt::format("{{\"schema\":\"{}\",\"version\":{},\"source\":{},\"ranks\":{},\"streams\":[{}]{}}}",
                       TraceSchema, TraceVersion, json_text(timeline_.source), timeline_.ranks, streams,
                       about);
  }

  // All of an event that is the same on every rank, with its `args` left open.
  [[nodiscard]] std::string text_of(const TimelineOp& op, std::size_t index) const {
    std::string text = fmt::format("\"name\":{},\"cat\":\"{}\",\"args\":{{\"op\":{},\"phase\":\"{}\"",
                                   json_text(op.name), name_of(op.kind), index, name_of(op.tag.phase));
    for (const auto& [key, field] : TagNumbers)
      if (op.tag.*field >= 0) text += fmt::format(",\"{}\":{}", key, op.tag.*field);
    if (!op.tag.name.empty()) text += ",\"tag\":" + json_text(op.tag.name);
    if (op.bytes.si() != 0) text += ",\"bytes\":" + exact_text(op.bytes.si());
    if (op.flop.si() != 0) text += ",\"flop\":" + exact_text(op.flop.si());
    if (!op.group.empty()) text += ",\"group\":" + json_text(op.group);
    if (!op.algorithm.empty()) text += ",\"algorithm\":" + json_text(op.algorithm);
    if (!op.exchange.empty()) text += ",\"exchange\":" + json_text(op.exchange);
    return text;
  }

  [[nodiscard]] std::size_t track_of(const Span& span) const {
    SYNCLINE_CHECK(span.op < timeline_.ops.size(), "a span names an op that is not in the table");
    const TimelineOp& op = timeline_.ops[span.op];
    return op.kind == SpanKind::Host ? timeline_.streams.size() : op.stream.value();
  }

  // Names the process and those of its threads that have spans.
  void write_names(RankId rank, std::span<const Span> spans) {
    std::vector<bool> used(timeline_.streams.size() + 1, false);
    for (const Span& span : spans) used.at(track_of(span)) = true;
    write_metadata("process_name", rank, 0, fmt::format("\"name\":\"rank {}\"", rank.value()));
    write_metadata("process_sort_index", rank, 0, fmt::format("\"sort_index\":{}", rank.value()));
    for (std::size_t track = 0; track < used.size(); ++track) {
      if (!used[track]) continue;
      const bool host = track == timeline_.streams.size();
      write_metadata("thread_name", rank, track,
                     "\"name\":" + json_text(host ? HostTrack : std::string_view(timeline_.streams[track])));
      write_metadata("thread_sort_index", rank, track, fmt::format("\"sort_index\":{}", track));
    }
  }

  void write_metadata(std::string_view name, RankId rank, std::size_t track, std::string_view argument) {
    start_event();
    fmt::format_to(std::back_inserter(out_),
                   "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{{}}}}}", rank.value(),
                   track, name, argument);
  }

  void write_event(const Span& span) {
    start_event();
    const std::int64_t start = grid_.steps(span.start), end = grid_.steps(span.end);
    fmt::format_to(std::back_inserter(out_),
                   "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":", span.rank.value(), track_of(span));
    grid_.append(out_, start);
    out_ += ",\"dur\":";
    grid_.append(out_, end - start);
    out_ += ',';
    out_ += op_text_[span.op];
    if (timeline_.ops[span.op].kind == SpanKind::Communication) {
      out_ += ",\"waiting_us\":";
      grid_.append(out_, grid_.steps(span.transfer) - start);
    }
    out_ += "}}";
  }

  void start_event() {
    if (out_.size() > FlushAt) {
      file_.write(out_);
      out_.clear();
    }
    out_ += first_event_ ? "\n" : ",\n";
    first_event_ = false;
  }

  static constexpr std::size_t FlushAt = 1U << 18;

  OutputFile& file_;
  const Timeline& timeline_;
  TimeGrid grid_;
  std::vector<std::string> op_text_;  // by op
  std::string out_;                   // not yet written
  bool first_event_ = true;
};

}  // namespace

void write_trace(const std::string& path, const Timeline& timeline) {
  OutputFile file(path);
  TraceWriter(file, timeline).write();
  file.close();
}

}  // namespace syncline
