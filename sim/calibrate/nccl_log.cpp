#include "sim/calibrate/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace syncline::calibrate {
namespace {

constexpr double BusTolerance = 0.02;   // of a printed busbw against the recomputed one
constexpr double BusRounding = 0.02e9;  // B/s: printed with two decimals of GB/s, from a rounded time
constexpr std::size_t MostTokens = 64;  // of a line that may be a row

struct OpName {
  NcclOp op;
  std::string_view name;
};
constexpr std::array<OpName, 9> OpNames{{{NcclOp::AllReduce, "all_reduce"},
                                         {NcclOp::AllGather, "all_gather"},
                                         {NcclOp::ReduceScatter, "reduce_scatter"},
                                         {NcclOp::AllToAll, "alltoall"},
                                         {NcclOp::SendReceive, "sendrecv"},
                                         {NcclOp::Broadcast, "broadcast"},
                                         {NcclOp::Reduce, "reduce"},
                                         {NcclOp::Gather, "gather"},
                                         {NcclOp::Scatter, "scatter"}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// --- one line ---

/// The length of "[1,0]<stdout>:" at the beginning of the text, or 0.
std::size_t mpirun_tag(std::string_view text) {
  std::size_t i = 1;
  if (text.empty() || text[0] != '[') return 0;
  while (i < text.size() && (is_digit(text[i]) || text[i] == ',')) ++i;
  if (text.substr(i, 5) != "]<std") return 0;
  const std::size_t end = text.find(">:", i);
  return end == std::string_view::npos || end > i + 16 ? 0 : end + 2;
}

/// The length of "12: " at the beginning of the text, as srun --label writes it, or 0.
std::size_t srun_label(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && text[i] == ' ') ++i;
  const std::size_t digits = i;
  while (i < text.size() && is_digit(text[i])) ++i;
  return i > digits && i < text.size() && text.substr(i, 2) == ": " ? i + 2 : 0;
}

/// Where a message of the library itself ("node1:25:25 [0] NCCL INFO ...") begins, or npos. A root of -1 before it, printed
/// without a space between, is the row's.
std::size_t library_message(std::string_view line) {
  std::size_t at = line.find(" NCCL ");
  if (at == std::string_view::npos) at = line.find(" RCCL ");
  if (at == std::string_view::npos) return at;
  const std::size_t bracket = line.rfind('[', at);
  if (bracket == std::string_view::npos || bracket == 0) return std::string_view::npos;
  std::size_t host = bracket;
  while (host > 0 && is_space(line[host - 1])) --host;
  while (host > 0 && !is_space(line[host - 1])) --host;
  return line.substr(host, 2) == "-1" ? host + 2 : host;
}

/// The line without what launchers and Markdown put into it.
std::string cleaned(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t tag = mpirun_tag(line.substr(i));
    if (tag > 0)
      i += tag;
    else
      text += line[i++];
  }
  std::string_view rest = text;
  rest.remove_prefix(srun_label(rest));
  while (!rest.empty() && (is_space(rest[0]) || rest[0] == '#' || rest[0] == '>' || rest[0] == '\\'))
    rest.remove_prefix(1);
  return std::string(rest);
}

std::vector<std::string_view> tokens_of(std::string_view line) {
  std::vector<std::string_view> tokens;
  std::size_t i = 0;
  while (tokens.size() < MostTokens) {
    while (i < line.size() && is_space(line[i])) ++i;
    if (i == line.size()) break;
    const std::size_t begin = i;
    while (i < line.size() && !is_space(line[i])) ++i;
    tokens.push_back(line.substr(begin, i - begin));
  }
  return tokens;
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value) || value < 0) return std::nullopt;
  }
  return value;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_';
  }) && !is_digit(text[0]);
}

bool is_figure(std::string_view text) {
  return text == "N/A" || number<double>(text).has_value();
}

/// size, count, type, redop, and figures only.
bool begins_row(const std::vector<std::string_view>& tokens) {
  if (tokens.size() < 4 || !is_word(tokens[2]) || !is_word(tokens[3])) return false;
  const auto size = number<std::int64_t>(tokens[0]), count = number<std::int64_t>(tokens[1]);
  if (!size || !count || *size < 0 || *count < 0) return false;
  return std::all_of(tokens.begin() + 4, tokens.end(), [](std::string_view token) {
    return is_figure(token) || number<int>(token).has_value();
  });
}

std::optional<NcclTiming> timing(const std::vector<std::string>& tokens, std::size_t from) {
  if (from + 3 > tokens.size()) return std::nullopt;
  const auto time = number<double>(tokens[from]), alg = number<double>(tokens[from + 1]),
             bus = number<double>(tokens[from + 2]);
  if (!time || !alg || !bus || !(*time > 0)) return std::nullopt;
  return NcclTiming{Seconds(*time * 1e-6), BytesPerSecond(*alg * 1e9), BytesPerSecond(*bus * 1e9)};
}

/// The op that a command line, a file name or a title names: the last "..._perf", or the longest name in it.
NcclOp op_in(std::string_view text) {
  OpName best{NcclOp::Unknown, ""};
  for (const OpName& candidate : OpNames)
    if (text.find(candidate.name) != std::string_view::npos && candidate.name.size() > best.name.size())
      best = candidate;
  if (best.op == NcclOp::Unknown || best.op == NcclOp::Reduce) {
    if (text.find("allreduce") != std::string_view::npos) return NcclOp::AllReduce;
    if (text.find("allgather") != std::string_view::npos) return NcclOp::AllGather;
  }
  return best.op;
}

// --- a whole log ---

class Reader {
 public:
  explicit Reader(std::string file) {
    log_.file = std::move(file);
    const std::size_t slash = log_.file.find_last_of('/');
    file_op_ = op_in(slash == std::string::npos ? log_.file : log_.file.substr(slash + 1));
  }

  void line(std::string_view raw, int line_number) {
    line_ = line_number;
    std::string text = cleaned(raw);
    const std::size_t message = library_message(text);
    if (message != std::string::npos) {
      note_version(std::string_view(text).substr(message));
      text.resize(message);
    }
    note_version(text);
    const std::vector<std::string_view> tokens = tokens_of(text);
    if (tokens.empty()) return;
    if (begins_row(tokens)) return begin_row(tokens);
    if (!row_.empty() &&
        std::ranges::all_of(tokens, [](auto token) { return is_figure(token) || token == "-1"; }))
      return row_.insert(row_.end(), tokens.begin(), tokens.end()), void();
    finish_row();
    read_header(text, tokens);
  }

  NcclLog finish() {
    finish_row();
    finish_run();
    // A header that nothing follows is another process's, printed in between.
    std::erase_if(log_.runs, [](const NcclRun& one) {
      return one.ranks == 0 && one.rows.empty() && one.devices.empty();
    });
    note_separate_runs();
    if (log_.runs.empty()) log_.warnings.push_back("no table of nccl-tests found");
    return std::move(log_);
  }

 private:
  struct Device {
    std::string node, name;
  };

  NcclRun& run() {
    if (!open_) start_run();
    return log_.runs.back();
  }
  void start_run() {
    finish_run();
    NcclRun& added = log_.runs.emplace_back();
    added.line = line_;
    added.op = std::exchange(next_op_, NcclOp::Unknown);
    open_ = true;
    rooted_.reset();
    dropped_ = 0;
  }

  void read_header(std::string_view text, const std::vector<std::string_view>& tokens) {
    if (text.find("_perf") != std::string_view::npos) {
      const NcclOp op = op_in(text);
      if (text.find("concluded") != std::string_view::npos) return;
      if (op != NcclOp::Unknown) {
        if (open_ && !log_.runs.back().rows.empty()) finish_run();
        named_op_ = next_op_ = op;
      }
      return;
    }
    if (tokens[0] == "nThread") return start_run();
    if (tokens[0] == "Rank" && tokens.size() > 2) return read_device(text, tokens);
    if (tokens[0] == "size" && tokens.size() > 4 && tokens[1] == "count")
      rooted_ = std::ranges::find(tokens, "root") != tokens.end();
    if (text.starts_with("Avg bus bandwidth") && open_) {
      log_.runs.back().complete = true;
      finish_run();
    }
  }

  // "Rank 0 Group 0 Pid 25 on node1 device 0 [0x53] NVIDIA H100": a second rank 0 belongs to another run.
  void read_device(std::string_view text, const std::vector<std::string_view>& tokens) {
    const auto rank = number<int>(tokens[1]);
    const auto on = std::ranges::find(tokens, "on");
    if (!rank || on == tokens.end() || on + 1 == tokens.end()) return;
    if (open_ && devices_.contains(*rank)) start_run();
    NcclRun& current = run();
    Device device{std::string(*(on + 1)), ""};
    const std::size_t bracket = text.find("] ");
    if (bracket != std::string_view::npos) device.name = text.substr(bracket + 2);
    while (!device.name.empty() && is_space(device.name.back())) device.name.pop_back();
    devices_[*rank] = device;
    if (!device.name.empty() && std::ranges::find(current.devices, device.name) == current.devices.end())
      current.devices.push_back(device.name);
  }

  void begin_row(const std::vector<std::string_view>& tokens) {
    finish_row();
    static_cast<void>(run());
    row_.assign(tokens.begin(), tokens.end());
    row_line_ = line_;
  }

  void finish_row() {
    if (row_.empty()) return;
    const std::vector<std::string> tokens = std::exchange(row_, {});
    NcclRow row;
    row.size = Bytes(number<double>(tokens[0]).value_or(0));
    row.count = number<std::int64_t>(tokens[1]).value_or(0);
    row.datatype = tokens[2];
    row.redop = tokens[3];
    row.line = row_line_;
    const bool rooted = rooted_.value_or((tokens.size() - 4) % 4 == 1);
    if (rooted && tokens.size() > 4) row.root = number<int>(tokens[4]).value_or(-1);
    const std::size_t first = rooted ? 5 : 4;
    const auto out_of_place = timing(tokens, first);
    // A number that ends the text may have lost its last digits: what follows busbw must be there.
    if (!out_of_place || tokens.size() < first + 4) {
      ++dropped_;
      return;
    }
    row.out_of_place = *out_of_place;
    if (tokens.size() >= first + 8) row.in_place = timing(tokens, first + 4);
    run().rows.push_back(std::move(row));
  }

  void note_version(std::string_view text) {
    struct Mark {
      std::string_view text, library;
    };
    for (const Mark& mark : {Mark{"NCCL version ", "NCCL"},
                             {"RCCL version : ", "RCCL"},
                             {"RCCL version ", "RCCL"},
                             {"nccl-library=", "NCCL"}}) {
      const std::size_t at = text.find(mark.text);
      if (at == std::string_view::npos) continue;
      std::string_view rest = text.substr(at + mark.text.size());
      std::size_t end = 0;
      while (end < rest.size() && (is_digit(rest[end]) || rest[end] == '.')) ++end;
      if (end == 0) continue;
      std::string version(rest.substr(0, end));
      if (const auto code = number<int>(version); code && *code >= 10000)  // 22902 is 2.29.2
        version = fmt::format("{}.{}.{}", *code / 10000, *code / 100 % 100, *code % 100);
      library_ = std::string(mark.text.starts_with("RCCL") ? "RCCL" : mark.library);
      version_ = version;
      return;
    }
  }

  void finish_run() {
    if (!open_) return;
    open_ = false;
    NcclRun& done = log_.runs.back();
    std::map<std::string, int> per_node;
    for (const auto& [rank, device] : devices_) ++per_node[device.node];
    done.ranks = static_cast<int>(devices_.size());
    done.nodes = static_cast<int>(per_node.size());
    if (!per_node.empty()) {
      const int first = per_node.begin()->second;
      if (std::ranges::all_of(per_node, [first](const auto& node) { return node.second == first; }))
        done.per_node = first;
      const int highest = devices_.rbegin()->first;
      if (highest + 1 != done.ranks) {
        done.warnings.push_back(
            fmt::format("the list of devices has {} ranks but goes up to rank {}", done.ranks, highest));
        done.ranks = done.nodes = done.per_node = 0;
      }
    } else if (!done.rows.empty()) {
      done.warnings.push_back("no list of devices: the number of ranks is not known");
    }
    devices_.clear();
    done.library = library_;
    done.version = version_;
    if (done.op == NcclOp::Unknown) guess_op(done);
    check_bandwidths(done);
    if (dropped_ > 0)
      done.warnings.push_back(
          fmt::format("{} row{} broken off and left out", dropped_, dropped_ == 1 ? " is" : "s are"));
    if (!done.complete)
      done.warnings.push_back(
          fmt::format("cut off after {} rows: the closing average is missing", done.rows.size()));
  }

  void guess_op(NcclRun& done) const {
    done.op = named_op_ != NcclOp::Unknown ? named_op_ : file_op_;
    if (done.op != NcclOp::Unknown) return;
    done.op = op_by_ratio(done);
    done.warnings.push_back(
        done.op == NcclOp::Unknown
            ? "the log does not say which collective this is"
            : fmt::format("the log does not say which collective this is; {} by its busbw / algbw",
                          name_of(done.op)));
  }

  /// All-gather and all-to-all, broadcast and scatter and so on have the same ratio: those stay unknown.
  static NcclOp op_by_ratio(const NcclRun& done) {
    if (done.ranks < 3 || done.rows.empty()) return NcclOp::Unknown;
    const NcclTiming& largest = done.rows.back().out_of_place;
    if (!(largest.algbw.si() > 1e9)) return NcclOp::Unknown;
    const double ratio = largest.busbw / largest.algbw;
    const bool reduces = done.rows.back().redop != "none";
    for (const NcclOp op : {NcclOp::AllReduce, NcclOp::ReduceScatter})
      if (reduces && std::abs(ratio / bus_factor(op, done.ranks) - 1) < BusTolerance) return op;
    return NcclOp::Unknown;
  }

  static void check_bandwidths(NcclRun& done) {
    if (done.ranks < 2 || done.op == NcclOp::Unknown) return;
    int wrong = 0, first = 0;
    for (const NcclRow& row : done.rows) {
      const BytesPerSecond bus = row.size / row.out_of_place.time * bus_factor(done.op, done.ranks);
      const double off = std::abs((bus - row.out_of_place.busbw).si());
      if (off <= BusTolerance * row.out_of_place.busbw.si() + BusRounding) continue;
      if (wrong++ == 0) first = row.line;
    }
    if (wrong > 0)
      done.warnings.push_back(
          fmt::format("{} of {} rows print another busbw than {} among {} ranks has by its size and "
                      "time, the first in line {}",
                      wrong, done.rows.size(), name_of(done.op), done.ranks, first));
  }

  void note_separate_runs() {
    const int single = single_rank_runs(log_);
    if (single == 0) return;
    log_.warnings.push_back(
        fmt::format("{} separate run{} of 1 rank: nothing was communicated; build nccl-tests with MPI=1, "
                    "or give one process all GPUs with -g",
                    single, single == 1 ? "" : "s"));
  }

  NcclLog log_;
  int line_ = 0;
  bool open_ = false;              // the last run of the log goes on
  std::map<int, Device> devices_;  // of the open run, by rank
  std::optional<bool> rooted_;     // its table has a root column; nothing: its heading was not seen
  int dropped_ = 0;
  std::vector<std::string> row_;  // tokens of a row that may go on in the next line
  int row_line_ = 0;
  NcclOp file_op_ = NcclOp::Unknown;   // by the name of the file
  NcclOp named_op_ = NcclOp::Unknown;  // by a command line, for all that follow
  NcclOp next_op_ = NcclOp::Unknown;   // by a title, for the next run
  std::string library_, version_;
};

}  // namespace

std::string_view name_of(NcclOp op) {
  const auto found = std::ranges::find(OpNames, op, &OpName::op);
  return found == OpNames.end() ? "unknown" : found->name;
}

NcclOp nccl_op(std::string_view name) {
  if (name.ends_with("_perf")) name.remove_suffix(5);
  const auto found = std::ranges::find(OpNames, name, &OpName::name);
  return found == OpNames.end() ? NcclOp::Unknown : found->op;
}

double bus_factor(NcclOp op, int ranks) {
  const double n = ranks;
  switch (op) {
    case NcclOp::AllReduce: return 2 * (n - 1) / n;
    case NcclOp::AllGather:
    case NcclOp::ReduceScatter:
    case NcclOp::AllToAll:
    case NcclOp::Gather:
    case NcclOp::Scatter: return (n - 1) / n;
    case NcclOp::SendReceive:
    case NcclOp::Broadcast:
    case NcclOp::Reduce: return 1;
    case NcclOp::Unknown: return 0;
  }
  return 0;
}

NcclLog read_nccl_logs(std::string_view text, std::string file) {
  Reader reader(std::move(file));
  int line = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    reader.line(text.substr(0, end), ++line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.finish();
}

int single_rank_runs(const NcclLog& log) {
  return static_cast<int>(std::ranges::count(log.runs, 1, &NcclRun::ranks));
}

}  // namespace syncline::calibrate
