#include "sim/schedule/text_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "sim/core/error.hpp"
#include "sim/core/units.hpp"

namespace syncline::text {
namespace {

template <class Enum>
void read_enum(LineCursor& in, std::string_view what, Enum& value) {
  const std::size_t start = in.position();
  const std::string_view word = in.word(fmt::format("a {}", what));
  const std::optional<Enum> found = value_of<Enum>(word);
  if (!found) in.fail(start, unknown_name(what, shown(word), names_of<Enum>()));
  value = *found;
}

std::vector<std::string> names_in(const NameTable& table) {
  std::vector<std::string> names;
  for (const auto& [name, index] : table) names.push_back(name);
  return names;
}

template <class Id>
void read_reference(LineCursor& in, std::string_view what, const NameTable& table, Id& value) {
  const std::size_t start = in.position();
  const std::string name = in.name(fmt::format("the name of a {}", what));
  const auto found = table.find(name);
  if (found == table.end()) {
    if (table.empty()) in.fail(start, fmt::format("no {} is declared above this line", what));
    in.fail(start, unknown_name(what, shown(name), names_in(table)));
  }
  value = Id(found->second);
}

std::uint32_t read_rank(LineCursor& in, const Scope& scope) {
  const std::size_t start = in.position();
  if (scope.world == 0) in.fail(start, "a mesh line must come before any rank");
  const auto rank = static_cast<std::size_t>(in.integer(std::numeric_limits<std::uint32_t>::max()));
  if (rank >= scope.world)
    in.fail(start, fmt::format("rank {} is outside the mesh of {} ranks", rank, scope.world));
  return static_cast<std::uint32_t>(rank);
}

// first, first-last or first-last:step, appended to `ranks`; `room` more may be listed in all.
void read_range(LineCursor& in, const Scope& scope, Ranks& ranks, std::size_t& room) {
  const std::size_t start = in.position();
  const std::uint32_t first = read_rank(in, scope);
  const std::uint32_t last = in.accept('-') ? read_rank(in, scope) : first;
  const auto step =
      in.accept(':') ? static_cast<std::uint32_t>(in.integer(std::numeric_limits<std::int32_t>::max())) : 1U;
  if (last < first || step == 0) in.fail(start, "a range must ascend, as in 0-7 or 0-14:2");
  const std::size_t count = (last - first) / step + 1;
  if (count > room) in.fail(start, fmt::format("more ranks are listed than the mesh has ({})", scope.world));
  room -= count;
  for (std::size_t i = 0; i < count; ++i) ranks.push_back(RankId(first + i * step));
}

void read_ranges(LineCursor& in, const Scope& scope, Ranks& ranks, std::size_t& room) {
  do read_range(in, scope, ranks, room);
  while (in.accept(','));
}

// Calls `read_item` for each item of a list with commas, which may be empty.
template <class ReadItem>
void read_list(LineCursor& in, ReadItem read_item) {
  if (in.between_fields()) return;
  do read_item();
  while (in.accept(','));
}

template <class List, class WriteItem>
void write_list(std::string& out, const List& list, char separator, WriteItem write_item) {
  bool first = true;
  for (const auto& item : list) {
    if (!first) out += separator;
    first = false;
    write_item(item);
  }
}

void write_index(std::string& out, std::size_t index) {
  fmt::format_to(std::back_inserter(out), "{}", index);
}

// How many ids from `begin` on ascend by one step.
std::size_t run_length(const Ranks& ranks, std::size_t begin) {
  if (begin + 1 >= ranks.size() || ranks[begin + 1] <= ranks[begin]) return 1;
  const std::uint32_t step = ranks[begin + 1].value() - ranks[begin].value();
  std::size_t end = begin + 2;
  while (end < ranks.size() && ranks[end] > ranks[end - 1] &&
         ranks[end].value() - ranks[end - 1].value() == step)
    ++end;
  return end - begin;
}

constexpr std::size_t ShortestRange = 3;  // 0,1 but 0-2

// --- numbers of exchanges and loads ---

// How often what stands before `mark` is meant; once without it.
std::size_t read_times(LineCursor& in, char mark, std::size_t most) {
  if (!in.accept(mark)) return 1;
  const std::size_t start = in.position();
  const auto times = static_cast<std::size_t>(in.integer(std::numeric_limits<std::int64_t>::max()));
  if (times == 0) in.fail(start, "0 times is never; expected 1 or more");
  if (times > most)
    in.fail(start, fmt::format("exchanges and loads have more than {} numbers", limits::MostNumbers));
  return times;
}

// One row, appended; `room` for so many more.
void read_row(LineCursor& in, double most, Numbers& numbers, std::size_t& room) {
  do {
    const std::size_t start = in.position();
    const double number = in.number();
    if (number > most) fail_too_large(in, start, most);
    if (room == 0)
      in.fail(start, fmt::format("exchanges and loads have more than {} numbers", limits::MostNumbers));
    const std::size_t times = read_times(in, '*', room);
    numbers.insert(numbers.end(), times, number);
    room -= times;
  } while (in.accept(','));
}

void write_row(std::string& out, const double* begin, const double* end) {
  for (const double* first = begin; first != end;) {
    const double* last = std::find_if(first, end, [&](double other) { return other != *first; });
    const auto length = static_cast<std::size_t>(last - first);
    const std::size_t times = length < ShortestRange ? 1 : length;
    if (first != begin) out += ',';
    out += exact_text(*first == 0 ? 0 : *first);
    if (times > 1) fmt::format_to(std::back_inserter(out), "*{}", times);
    first += times;
  }
}

}  // namespace

void fail_too_large(const LineCursor& in, std::size_t start, double most) {
  in.fail(start, fmt::format("too large; at most {} is possible", exact_text(most)));
}

void read_value(LineCursor& in, const Scope&, double& value) {
  value = in.number();
}
void read_value(LineCursor& in, const Scope&, int& value) {
  value = static_cast<int>(in.integer(std::numeric_limits<int>::max()));
}
void read_value(LineCursor& in, const Scope&, std::int64_t& value) {
  value = in.integer(std::numeric_limits<std::int64_t>::max());
}
void read_value(LineCursor& in, const Scope&, std::string& value) {
  value = in.name("a name");
}

void read_value(LineCursor& in, const Scope& scope, RankId& value) {
  value = RankId(read_rank(in, scope));
}
void read_value(LineCursor& in, const Scope& scope, StreamId& value) {
  read_reference(in, "stream", scope.streams, value);
}
void read_value(LineCursor& in, const Scope& scope, FamilyId& value) {
  read_reference(in, "family", scope.families, value);
}

void read_value(LineCursor& in, const Scope& scope, ExchangeId& value) {
  read_reference(in, "exchange", scope.exchanges, value);
}
void read_value(LineCursor& in, const Scope& scope, LoadId& value) {
  read_reference(in, "load", scope.loads, value);
}
void read_value(LineCursor& in, const Scope& scope, LibraryId& value) {
  read_reference(in, "library", scope.libraries, value);
}

void read_value(LineCursor& in, const Scope& scope, Numbers& value) {
  std::size_t room = limits::MostNumbers - scope.numbers;
  read_row(in, limits::MostFactor, value, room);
}

void read_value(LineCursor& in, const Scope& scope, NumberRows& value) {
  std::size_t room = limits::MostNumbers - scope.numbers;
  do {
    const std::size_t start = in.position();
    Numbers row;
    read_row(in, limits::MostItems, row, room);
    if (value.columns == 0) value.columns = row.size();
    if (row.size() != value.columns)
      in.fail(start, fmt::format("this row has {} numbers, the first has {}", row.size(), value.columns));
    const std::size_t times = read_times(in, ':', room / row.size() + 1);
    for (std::size_t i = 0; i < times; ++i) value.numbers.insert(value.numbers.end(), row.begin(), row.end());
    room -= row.size() * (times - 1);
  } while (in.accept('/'));
}

void read_value(LineCursor& in, const Scope& scope, WorkId& value) {
  const std::size_t start = in.position();
  const auto work = static_cast<std::size_t>(in.integer(std::numeric_limits<std::uint32_t>::max()));
  if (work >= scope.schedule.works.size())
    in.fail(start, fmt::format("work {} is not declared above this line; there are {} so far", work,
                               scope.schedule.works.size()));
  value = WorkId(work);
}

void read_value(LineCursor& in, const Scope& scope, OpIndex& value) {
  const std::size_t start = in.position();
  const auto op = static_cast<std::size_t>(in.integer(std::numeric_limits<std::uint32_t>::max()));
  if (op >= scope.op)
    in.fail(start, fmt::format("op {} cannot wait for op {}; only earlier ops of its role", scope.op, op));
  value = OpIndex(op);
}

void read_value(LineCursor& in, const Scope& scope, Peer& value) {
  const std::size_t start = in.position();
  if (scope.schedule.meshes.empty()) in.fail(start, "a mesh line must come before any peer");
  const std::string axis = in.name("a rank, or an axis and coordinate such as pp:1");
  if (!in.accept(':')) {
    in.rewind(start);
    value = {-1, static_cast<int>(read_rank(in, scope))};
    return;
  }
  const Mesh& mesh = scope.schedule.meshes.front();
  value.axis = mesh.find_axis(axis);
  if (value.axis < 0) {
    std::vector<std::string> known;
    for (const MeshAxis& candidate : mesh.axes()) known.push_back(candidate.name);
    in.fail(start, unknown_name("axis", shown(axis), known));
  }
  const std::size_t at = in.position();
  read_value(in, scope, value.coordinate);
  if (value.coordinate >= mesh.size(value.axis))
    in.fail(at, fmt::format("coordinate {} is outside axis \"{}\" of size {}", value.coordinate, axis,
                            mesh.size(value.axis)));
}

void read_value(LineCursor& in, const Scope& scope, Ranks& value) {
  std::size_t room = scope.world;
  if (!in.between_fields()) read_ranges(in, scope, value, room);
}

void read_value(LineCursor& in, const Scope& scope, Groups& value) {
  std::size_t room = scope.world;
  if (in.between_fields()) return;
  do read_ranges(in, scope, value.emplace_back(), room);
  while (in.accept('/'));
}

void read_value(LineCursor& in, const Scope&, AxisNames& value) {
  read_list(in, [&] {
    const std::size_t start = in.position();
    std::string axis = in.name("the name of an axis");
    if (std::find(value.begin(), value.end(), axis) != value.end())
      in.fail(start, fmt::format("axis \"{}\" stands twice", shown(axis)));
    value.push_back(std::move(axis));
  });
}

void read_value(LineCursor& in, const Scope&, std::vector<MeshAxis>& value) {
  read_list(in, [&] {
    const std::size_t start = in.position();
    MeshAxis axis{in.name("an axis such as dp:8"), 1};
    if (!in.accept(':')) in.fail_expecting("\":\" and the size of the axis");
    axis.size = static_cast<int>(in.integer(std::numeric_limits<int>::max()));
    if (axis.size == 0)
      in.fail(start, fmt::format("axis \"{}\" has size 0; expected 1 or more", shown(axis.name)));
    const auto same = [&](const MeshAxis& other) { return other.name == axis.name; };
    if (std::any_of(value.begin(), value.end(), same))
      in.fail(start, fmt::format("axis \"{}\" stands twice", shown(axis.name)));
    value.push_back(std::move(axis));
  });
}

void read_value(LineCursor& in, const Scope& scope, std::vector<OpIndex>& value) {
  read_list(in, [&] {
    const std::size_t start = in.position();
    OpIndex op;
    read_value(in, scope, op);
    if (!value.empty() && op <= value.back()) in.fail(start, "the ops waited for must ascend");
    value.push_back(op);
  });
}

void read_value(LineCursor& in, const Scope& scope, std::vector<MemoryEffect>& value) {
  read_list(in, [&] {
    MemoryEffect effect{};
    read_value(in, scope, effect.category);
    if (!in.accept(':')) in.fail_expecting("\":\" and signed bytes, such as :+1024");
    const bool taken = in.accept('+');
    if (!taken && !in.accept('-')) in.fail_expecting("\"+\" (taken) or \"-\" (given back) before the bytes");
    const std::size_t start = in.position();
    const double bytes = in.number();
    if (bytes > limits::MostBytes.si()) fail_too_large(in, start, limits::MostBytes.si());
    effect.bytes = Bytes(taken ? bytes : -bytes);
    if (in.accept('*')) {
      const std::size_t factor = in.position();
      if (in.word("\"load\"") != "load") in.fail(factor, "bytes may be times the rank's load only: *load");
      effect.by_load = true;
    }
    value.push_back(effect);
  });
}

void read_value(LineCursor& in, const Scope&, KernelClass& value) {
  read_enum(in, "kernel class", value);
}
void read_value(LineCursor& in, const Scope&, Precision& value) {
  read_enum(in, "precision", value);
}
void read_value(LineCursor& in, const Scope&, Phase& value) {
  read_enum(in, "phase", value);
}
void read_value(LineCursor& in, const Scope&, MemoryCategory& value) {
  read_enum(in, "memory category", value);
}
void read_value(LineCursor& in, const Scope&, CollectiveKind& value) {
  read_enum(in, "collective", value);
}
void read_value(LineCursor& in, const Scope&, Algorithm& value) {
  read_enum(in, "algorithm", value);
}

void write_value(std::string& out, const Schedule&, double value) {
  out += exact_text(value);
}
void write_value(std::string& out, const Schedule&, std::int64_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}
void write_value(std::string& out, const Schedule&, const std::string& value) {
  append_name(out, value);
}
void write_value(std::string& out, const Schedule&, RankId value) {
  write_index(out, value.value());
}
void write_value(std::string& out, const Schedule& schedule, StreamId value) {
  SYNCLINE_CHECK(value.value() < schedule.streams.size(), "no such stream");
  append_name(out, schedule.streams[value.value()]);
}
void write_value(std::string& out, const Schedule& schedule, FamilyId value) {
  SYNCLINE_CHECK(value.value() < schedule.families.size(), "no such family");
  append_name(out, schedule.families[value.value()].name());
}
void write_value(std::string& out, const Schedule& schedule, ExchangeId value) {
  SYNCLINE_CHECK(value.value() < schedule.exchanges.size(), "no such exchange");
  append_name(out, schedule.exchanges[value.value()].name);
}
void write_value(std::string& out, const Schedule& schedule, LoadId value) {
  SYNCLINE_CHECK(value.value() < schedule.loads.size(), "no such load");
  append_name(out, schedule.loads[value.value()].name);
}
void write_value(std::string& out, const Schedule& schedule, LibraryId value) {
  SYNCLINE_CHECK(value.value() < schedule.libraries.size(), "no such library");
  append_name(out, schedule.libraries[value.value()]);
}

void write_value(std::string& out, const Schedule&, const Numbers& value) {
  write_row(out, value.data(), value.data() + value.size());
}
void write_value(std::string& out, const Schedule&, const NumberRows& value) {
  SYNCLINE_CHECK(value.columns > 0 && value.numbers.size() % value.columns == 0, "rows of unlike length");
  const std::span<const double> numbers(value.numbers);
  for (std::size_t row = 0; row < value.rows();) {
    const auto first = numbers.subspan(row * value.columns, value.columns);
    std::size_t next = row + 1;
    while (next < value.rows() &&
           std::ranges::equal(first, numbers.subspan(next * value.columns, value.columns)))
      ++next;
    if (row > 0) out += '/';
    write_row(out, first.data(), first.data() + first.size());
    if (next > row + 1) fmt::format_to(std::back_inserter(out), ":{}", next - row);
    row = next;
  }
}

void write_value(std::string& out, const Schedule&, WorkId value) {
  write_index(out, value.value());
}
void write_value(std::string& out, const Schedule&, OpIndex value) {
  write_index(out, value.value());
}

void write_value(std::string& out, const Schedule& schedule, const Peer& value) {
  if (value.axis >= 0) {
    const auto axis = static_cast<std::size_t>(value.axis);
    SYNCLINE_CHECK(!schedule.meshes.empty() && axis < schedule.meshes.front().axes().size(), "no such axis");
    append_name(out, schedule.meshes.front().axes()[axis].name);
    out += ':';
  }
  write_value(out, schedule, value.coordinate);
}

void write_value(std::string& out, const Schedule&, const Ranks& value) {
  for (std::size_t i = 0; i < value.size();) {
    if (i > 0) out += ',';
    write_index(out, value[i].value());
    const std::size_t length = run_length(value, i);
    if (length < ShortestRange) {
      ++i;
      continue;
    }
    const std::uint32_t step = value[i + 1].value() - value[i].value();
    (out += '-') += fmt::format("{}", value[i + length - 1].value());
    if (step > 1) (out += ':') += fmt::format("{}", step);
    i += length;
  }
}

void write_value(std::string& out, const Schedule& schedule, const Groups& value) {
  write_list(out, value, '/', [&](const Ranks& group) { write_value(out, schedule, group); });
}
void write_value(std::string& out, const Schedule&, const AxisNames& value) {
  write_list(out, value, ',', [&](const std::string& axis) { append_name(out, axis); });
}
void write_value(std::string& out, const Schedule& schedule, const std::vector<MeshAxis>& value) {
  write_list(out, value, ',', [&](const MeshAxis& axis) {
    append_name(out, axis.name);
    out += ':';
    write_value(out, schedule, axis.size);
  });
}
void write_value(std::string& out, const Schedule&, const std::vector<OpIndex>& value) {
  write_list(out, value, ',', [&](OpIndex op) { write_index(out, op.value()); });
}
void write_value(std::string& out, const Schedule&, const std::vector<MemoryEffect>& value) {
  write_list(out, value, ',', [&](const MemoryEffect& effect) {
    const double bytes = effect.bytes.si();
    ((out += name_of(effect.category)) += bytes < 0 ? ":" : ":+") += exact_text(bytes == 0 ? 0 : bytes);
    if (effect.by_load) out += "*load";
  });
}

}  // namespace syncline::text
