// How each type of value stands in a schedule's text form: one pair of functions a type, read and written
// alike.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/schedule/limits.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/text_cursor.hpp"

namespace syncline::text {

/// Names declared so far and what they stand for.
using NameTable = std::map<std::string, std::uint32_t, std::less<>>;

/// What a line being read may refer to.
struct Scope {
  const Schedule& schedule;  // as far as it has been read
  NameTable meshes, families, streams, exchanges, loads, libraries;
  std::size_t numbers = 0;  // in exchanges and loads so far
  std::size_t op = 0;       // index of the op being read
  std::size_t world = 0;    // ranks; 0 before the first mesh
};

// A rank list is written in ranges: 0,3,8-15,16-30:2 (to 30 in steps of 2).
using Ranks = std::vector<RankId>;
using Groups = std::vector<Ranks>;
using AxisNames = std::vector<std::string>;

/// Of a matrix, written row by row, runs of equal numbers and equal rows as one: 1*3,0/2*4:7 is a row of 1,1,1,0 and seven
/// of 2,2,2,2.
struct NumberRows {
  std::size_t columns = 0;
  std::vector<double> numbers;
  friend bool operator==(const NumberRows&, const NumberRows&) = default;

  [[nodiscard]] std::size_t rows() const { return columns == 0 ? 0 : numbers.size() / columns; }
};
/// In one row: 1*3,0.
using Numbers = std::vector<double>;

[[noreturn]] void fail_too_large(const LineCursor& in, std::size_t start, double most);

// Each reader throws LineError.
void read_value(LineCursor& in, const Scope& scope, bool& value) = delete;  // a flag has no value
void read_value(LineCursor& in, const Scope& scope, double& value);
void read_value(LineCursor& in, const Scope& scope, int& value);
void read_value(LineCursor& in, const Scope& scope, std::int64_t& value);
void read_value(LineCursor& in, const Scope& scope, std::string& value);
void read_value(LineCursor& in, const Scope& scope, RankId& value);
void read_value(LineCursor& in, const Scope& scope, StreamId& value);
void read_value(LineCursor& in, const Scope& scope, FamilyId& value);
void read_value(LineCursor& in, const Scope& scope, ExchangeId& value);
void read_value(LineCursor& in, const Scope& scope, LoadId& value);
void read_value(LineCursor& in, const Scope& scope, LibraryId& value);
void read_value(LineCursor& in, const Scope& scope, NumberRows& value);  // of items
void read_value(LineCursor& in, const Scope& scope, Numbers& value);     // of factors
void read_value(LineCursor& in, const Scope& scope, WorkId& value);
void read_value(LineCursor& in, const Scope& scope, OpIndex& value);
void read_value(LineCursor& in, const Scope& scope, Peer& value);
void read_value(LineCursor& in, const Scope& scope, Ranks& value);
void read_value(LineCursor& in, const Scope& scope, Groups& value);
void read_value(LineCursor& in, const Scope& scope, AxisNames& value);
void read_value(LineCursor& in, const Scope& scope, std::vector<MeshAxis>& value);
void read_value(LineCursor& in, const Scope& scope, std::vector<OpIndex>& value);
void read_value(LineCursor& in, const Scope& scope, std::vector<MemoryEffect>& value);
void read_value(LineCursor& in, const Scope& scope, KernelClass& value);
void read_value(LineCursor& in, const Scope& scope, Precision& value);
void read_value(LineCursor& in, const Scope& scope, Phase& value);
void read_value(LineCursor& in, const Scope& scope, MemoryCategory& value);
void read_value(LineCursor& in, const Scope& scope, CollectiveKind& value);
void read_value(LineCursor& in, const Scope& scope, Algorithm& value);

// Each writer throws std::logic_error on an id that is out of range.
void write_value(std::string& out, const Schedule& schedule, double value);
void write_value(std::string& out, const Schedule& schedule, std::int64_t value);
void write_value(std::string& out, const Schedule& schedule, const std::string& value);
void write_value(std::string& out, const Schedule& schedule, RankId value);
void write_value(std::string& out, const Schedule& schedule, StreamId value);
void write_value(std::string& out, const Schedule& schedule, FamilyId value);
void write_value(std::string& out, const Schedule& schedule, ExchangeId value);
void write_value(std::string& out, const Schedule& schedule, LoadId value);
void write_value(std::string& out, const Schedule& schedule, LibraryId value);
void write_value(std::string& out, const Schedule& schedule, const NumberRows& value);
void write_value(std::string& out, const Schedule& schedule, const Numbers& value);
void write_value(std::string& out, const Schedule& schedule, WorkId value);
void write_value(std::string& out, const Schedule& schedule, OpIndex value);
void write_value(std::string& out, const Schedule& schedule, const Peer& value);
void write_value(std::string& out, const Schedule& schedule, const Ranks& value);
void write_value(std::string& out, const Schedule& schedule, const Groups& value);
void write_value(std::string& out, const Schedule& schedule, const AxisNames& value);
void write_value(std::string& out, const Schedule& schedule, const std::vector<MeshAxis>& value);
void write_value(std::string& out, const Schedule& schedule, const std::vector<OpIndex>& value);
void write_value(std::string& out, const Schedule& schedule, const std::vector<MemoryEffect>& value);

inline void write_value(std::string& out, const Schedule& schedule, int value) {
  write_value(out, schedule, std::int64_t{value});
}

template <class Enum>
requires std::is_enum_v<Enum>
void write_value(std::string& out, const Schedule&, Enum value) {
  out += name_of(value);
}

template <class Unit>
void read_value(LineCursor& in, const Scope& scope, Quantity<Unit>& value) {
  const std::size_t start = in.position();
  double si = 0;
  read_value(in, scope, si);
  if (si > limits::most(value)) fail_too_large(in, start, limits::most(value));
  value = Quantity<Unit>(si);
}
template <class Unit>
void write_value(std::string& out, const Schedule& schedule, Quantity<Unit> value) {
  write_value(out, schedule, value.si());
}

template <class Value>
void read_value(LineCursor& in, const Scope& scope, std::optional<Value>& value) {
  read_value(in, scope, value.emplace());
}
template <class Value>
void write_value(std::string& out, const Schedule& schedule, const std::optional<Value>& value) {
  write_value(out, schedule, *value);
}

}  // namespace syncline::text
