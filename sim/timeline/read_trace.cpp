#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <tuple>

#include "sim/core/error.hpp"
#include "sim/timeline/trace.hpp"
#include "sim/timeline/trace_format.hpp"

namespace syncline {
namespace {

using nlohmann::json;

// Characters of a file, plain or gzip, that knows line and column of the one read last.
class InputFile : public std::streambuf {
 public:
  explicit InputFile(const std::string& path) : file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr) throw InputError({{path, 0, 0, ""}, "cannot open the trace; is the name right?"});
    gzbuffer(file_, 1U << 18);
  }
  ~InputFile() override { gzclose(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] int line() const { return line_ + static_cast<int>(std::count(eback(), gptr(), '\n')); }
  [[nodiscard]] int column() const {
    const char* start = gptr();
    while (start != eback() && start[-1] != '\n') --start;
    return static_cast<int>(gptr() - start) + (start == eback() ? column_ : 0);
  }
  // What zlib found wrong with the file, empty when nothing.
  [[nodiscard]] std::string failure() const { return failure_; }

 protected:
  int_type underflow() override {
    column_ = column();
    line_ = line();
    const int count = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    setg(buffer_.data(), buffer_.data(), buffer_.data() + std::max(count, 0));
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code != Z_OK) failure_ = code == Z_ERRNO ? std::strerror(errno) : text;
    return count > 0 ? traits_type::to_int_type(buffer_[0]) : traits_type::eof();
  }

 private:
  gzFile file_;
  std::array<char, 1U << 16> buffer_;
  int line_ = 1, column_ = 0;  // of what came before the buffer
  std::string failure_;
};

// What is wrong with the JSON's content, thrown where it is found; read_trace adds the place.
struct Unfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const json& member(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) throw Unfit(fmt::format("\"{}\" is missing", key));
  return object.at(key);
}

std::string text(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_string()) throw Unfit(fmt::format("\"{}\" is not a text", key));
  return value.get<std::string>();
}

double number(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_number()) throw Unfit(fmt::format("\"{}\" is not a number", key));
  return value.get<double>();
}

double number_or_zero(const json& object, const char* key) {
  return object.contains(key) ? number(object, key) : 0.0;
}
std::string text_or_empty(const json& object, const char* key) {
  return object.contains(key) ? text(object, key) : "";
}

// A whole number from 0 to `most`.
std::size_t index(const json& object, const char* key, std::size_t most) {
  const json& value = member(object, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    throw Unfit(fmt::format("\"{}\" is {}, expected a whole number from 0 to {}", key, value.dump(), most));
  return value.get<std::size_t>();
}

SpanKind kind_of(const std::string& category) {
  const auto found = std::find(SpanKindNames.begin(), SpanKindNames.end(), category);
  if (found == SpanKindNames.end())
    throw Unfit(unknown_name("category", category, {SpanKindNames.begin(), SpanKindNames.end()}));
  return static_cast<SpanKind>(found - SpanKindNames.begin());
}

Phase phase_of(const std::string& name) {
  const auto phase = value_of<Phase>(name);
  if (!phase) throw Unfit(unknown_name("phase", name, names_of<Phase>()));
  return *phase;
}

class TraceReader {
 public:
  // The file's events one by one as they are parsed, so that only one is in memory at a time.
  void add_event(const json& event) {
    if (text(event, "ph") != "X") return;  // names and sort orders: all in the header too
    const json& args = member(event, "args");
    TimelineOp op = op_of(event, args);
    const std::size_t number_of_op = index(args, "op", MostOps);
    const auto [known, is_new] = ops_.try_emplace(number_of_op, op);
    if (!is_new && !same(known->second, op))
      throw Unfit(fmt::format("op {} differs from an earlier event of the same number", number_of_op));

    Span span;
    span.rank = RankId(index(event, "pid", MostRanks));
    span.op = static_cast<std::uint32_t>(number_of_op);
    const double start = number(event, "ts"), length = number(event, "dur"),
                 waiting = number_or_zero(args, "waiting_us");
    if (!(length >= 0 && waiting >= 0 && waiting <= length))
      throw Unfit(
          fmt::format("\"dur\" is {} and \"waiting_us\" {}, expected 0 ≤ waiting_us ≤ dur", length, waiting));
    span.start = Seconds(start / 1e6);
    span.transfer = Seconds((start + waiting) / 1e6);
    span.end = Seconds((start + length) / 1e6);
    timeline_.spans.push_back(span);
  }

  // The header's `about` keeps the order of the file, which parsed JSON forgets.
  void add_about(const std::string& key) {
    if (std::ranges::find(about_keys_, key) != about_keys_.end())
      throw Unfit(fmt::format("\"about\" has \"{}\" twice", key));
    about_keys_.push_back(key);
  }

  Timeline finish(const json& root) {
    const json& header = member(root, "otherData");
    const std::string schema = text_or_empty(header, "schema");
    if (schema != TraceSchema)
      throw Unfit(fmt::format("not a trace of this program: \"otherData.schema\" is \"{}\", expected \"{}\"",
                              schema, TraceSchema));
    if (index(header, "version", 1000) != static_cast<std::size_t>(TraceVersion))
      throw Unfit(fmt::format("version {} of the trace format is not known, only {}",
                              member(header, "version").dump(), TraceVersion));
    timeline_.source = text(header, "source");
    timeline_.ranks = static_cast<std::uint32_t>(index(header, "ranks", MostRanks));
    for (const json& stream : member(header, "streams")) {
      if (!stream.is_string()) throw Unfit("\"streams\" holds something that is not a text");
      timeline_.streams.push_back(stream.get<std::string>());
    }
    if (header.contains("about") && !header.at("about").is_object())
      throw Unfit("\"about\" is not an object");
    for (const std::string& key : about_keys_)
      timeline_.about.emplace_back(key, text(header.at("about"), key.c_str()));
    place_ops();
    check_spans();
    return std::move(timeline_);
  }

 private:
  static constexpr std::size_t MostRanks = (1U << 24) - 1;
  static constexpr std::size_t MostOps = (1U << 28) - 1;
  static constexpr std::size_t MostMissingOps = 1U << 20;

  static TimelineOp op_of(const json& event, const json& args) {
    TimelineOp op;
    op.kind = kind_of(text(event, "cat"));
    op.name = text(event, "name");
    if (op.kind != SpanKind::Host) op.stream = StreamId(index(event, "tid", MostRanks));
    op.tag.phase = phase_of(text(args, "phase"));
    for (const auto& [key, field] : TagNumbers)
      if (args.contains(key)) op.tag.*field = static_cast<int>(index(args, key.data(), 1U << 30));
    op.tag.name = text_or_empty(args, "tag");
    op.bytes = Bytes(number_or_zero(args, "bytes"));
    op.flop = Flop(number_or_zero(args, "flop"));
    op.group = text_or_empty(args, "group");
    op.algorithm = text_or_empty(args, "algorithm");
    op.exchange = text_or_empty(args, "exchange");
    return op;
  }

  static bool same(const TimelineOp& a, const TimelineOp& b) {
    return std::tie(a.kind, a.stream, a.tag, a.name, a.bytes, a.flop, a.group, a.algorithm, a.exchange) ==
           std::tie(b.kind, b.stream, b.tag, b.name, b.bytes, b.flop, b.group, b.algorithm, b.exchange);
  }

  void place_ops() {
    if (ops_.empty()) return;
    const std::size_t count = ops_.rbegin()->first + 1;
    if (count - ops_.size() > MostMissingOps)
      throw Unfit(
          fmt::format("op numbers go up to {} but only {} of them have events", count - 1, ops_.size()));
    timeline_.ops.resize(count);
    for (auto& [position, op] : ops_) timeline_.ops[position] = std::move(op);
  }

  void check_spans() {
    for (const Span& span : timeline_.spans) {
      if (span.rank.value() >= timeline_.ranks)
        throw Unfit(fmt::format("an event has \"pid\" {}, but there are {} ranks", span.rank.value(),
                                timeline_.ranks));
      const TimelineOp& op = timeline_.ops[span.op];
      if (op.kind != SpanKind::Host && op.stream.value() >= timeline_.streams.size())
        throw Unfit(fmt::format("an event has \"tid\" {}, but there are {} streams", op.stream.value(),
                                timeline_.streams.size()));
    }
    const auto by_rank = [](const Span& a, const Span& b) { return a.rank < b.rank; };
    if (!std::is_sorted(timeline_.spans.begin(), timeline_.spans.end(), by_rank))
      std::stable_sort(timeline_.spans.begin(), timeline_.spans.end(), by_rank);
  }

  Timeline timeline_;
  std::map<std::size_t, TimelineOp> ops_;
  std::vector<std::string> about_keys_;
};

// The library's own words without their prefix "[…] parse error at line 1, column 2: ".
std::string reason_of(const json::exception& error) {
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

Timeline read_trace(const std::string& path) {
  InputFile file(path);
  std::istream stream(&file);
  TraceReader reader;
  std::string section, part;  // keys of the outermost object and of one in it that are being parsed
  bool parsed = false;
  const auto on_parsed = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key) {
      if (depth == 1) section = value.get<std::string>();
      if (depth == 2) part = value.get<std::string>();
      if (depth == 3 && part == "about" && section == "otherData") reader.add_about(value.get<std::string>());
    }
    const bool is_event = event == json::parse_event_t::object_end && depth == 2 && section == "traceEvents";
    if (is_event) reader.add_event(value);
    return !is_event;  // false: forget it
  };
  try {
    const json root = json::parse(stream, on_parsed);
    parsed = true;
    if (!file.failure().empty())
      throw Unfit("the file is damaged: " + file.failure());  // such as a wrong check sum after the last byte
    return reader.finish(root);
  } catch (const Unfit& error) {
    const Place place = parsed ? Place{path, 0, 0, ""} : Place{path, file.line(), file.column(), ""};
    throw InputError({place, error.what()});
  } catch (const json::exception& error) {
    if (!file.failure().empty())
      throw InputError({{path, 0, 0, ""}, "the file cannot be read to its end: " + file.failure()});
    throw InputError({{path, file.line(), file.column(), ""}, "not a JSON trace: " + reason_of(error)});
  }
}

}  // namespace syncline
