// The fields of each kind of line in a schedule's text form. One table a line, walked by reader and writer
// alike.
//
// A line is a word that says what it is, then positional values, then `key=value` fields and bare flags in
// any order.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/text_values.hpp"

namespace syncline::text {

enum class Presence : std::uint8_t {
  Positional,  // the value alone, in the order of the table
  Required,    // key=value
  Optional,    // key=value, left out when it has its default
  Flag         // key alone, left out when false
};

template <class Record>
struct Field {
  std::string_view key;
  Presence presence;
  void (*read)(LineCursor&, const Scope&, Record&);
  void (*write)(std::string&, const Schedule&, const Record&);
  bool (*is_default)(const Record&);
};

template <auto Member>
struct MemberOf;
template <class R, class V, V R::*Member>
struct MemberOf<Member> {
  using Record = R;
};

/// The field that holds a data member; how it is written follows from the member's type.
template <auto Member>
constexpr auto field(std::string_view key, Presence presence) {
  using Record = typename MemberOf<Member>::Record;
  return Field<Record>{
      key, presence,
      [](LineCursor& in, const Scope& scope, Record& record) { read_value(in, scope, record.*Member); },
      [](std::string& out, const Schedule& schedule, const Record& record) {
        write_value(out, schedule, record.*Member);
      },
      [](const Record& record) { return record.*Member == Record{}.*Member; }};
}
template <auto Member>
constexpr auto flag(std::string_view key) {
  using Record = typename MemberOf<Member>::Record;
  return Field<Record>{key, Presence::Flag,
                       [](LineCursor&, const Scope&, Record& record) { record.*Member = true; },
                       [](std::string&, const Schedule&, const Record&) {},
                       [](const Record& record) { return !(record.*Member); }};
}
template <auto Member>
constexpr auto positional(std::string_view what) {
  return field<Member>(what, Presence::Positional);
}
template <auto Member>
constexpr auto required(std::string_view key) {
  return field<Member>(key, Presence::Required);
}
template <auto Member>
constexpr auto optional(std::string_view key) {
  return field<Member>(key, Presence::Optional);
}

// --- lines that are not a value of the schedule as they stand ------------------------------------

struct MeshLine {
  std::string name;
  std::vector<MeshAxis> axes;
};
/// Along axes of a mesh, or listed.
struct FamilyLine {
  std::string name;
  std::optional<std::string> mesh;
  std::optional<AxisNames> axes;
  std::optional<Groups> groups;
};
struct ExchangeLine {
  std::string name;
  NumberRows counts;
  int node_members = 0;
  std::optional<NumberRows> to_nodes;
};
struct NameLine {  // `name`, `stream`, `library`, `work` after its index
  std::string name;
};
struct RoleLine {
  std::string name;
  Ranks ranks;
};

// --- the tables ----------------------------------------------------------------------------------

inline constexpr std::array NameFields{positional<&NameLine::name>("name")};
inline constexpr std::array MeshFields{positional<&MeshLine::name>("name"),
                                       required<&MeshLine::axes>("axes")};
inline constexpr std::array FamilyFields{
    positional<&FamilyLine::name>("name"), optional<&FamilyLine::mesh>("mesh"),
    optional<&FamilyLine::axes>("axes"), optional<&FamilyLine::groups>("groups")};
inline constexpr std::array ExchangeFields{
    positional<&ExchangeLine::name>("name"), required<&ExchangeLine::counts>("counts"),
    optional<&ExchangeLine::node_members>("node-members"), optional<&ExchangeLine::to_nodes>("to-nodes")};
inline constexpr std::array LoadFields{positional<&RankLoad::name>("name"),
                                       required<&RankLoad::family>("family"),
                                       required<&RankLoad::factors>("factors")};
inline constexpr std::array JobFields{
    required<&Job::tokens>("tokens"), required<&Job::model_flop>("model-flop"),
    required<&Job::hardware_flop>("hardware-flop"), required<&Job::precision>("precision")};
inline constexpr std::array KernelFields{
    positional<&Kernel::kind>("class"),  positional<&Kernel::precision>("precision"),
    flag<&Kernel::backward>("backward"), flag<&Kernel::grouped>("grouped"),
    optional<&Kernel::m>("m"),           optional<&Kernel::n>("n"),
    optional<&Kernel::k>("k"),           optional<&Kernel::batch>("batch"),
    optional<&Kernel::flop>("flop"),     optional<&Kernel::hbm>("hbm-bytes"),
    optional<&Kernel::fixed>("seconds"), optional<&Kernel::launches>("launches")};
inline constexpr std::array RoleFields{positional<&RoleLine::name>("name"),
                                       required<&RoleLine::ranks>("ranks")};
inline constexpr std::array ResidentFields{positional<&MemoryEffect::category>("category"),
                                           required<&MemoryEffect::bytes>("bytes")};
inline constexpr std::array SpeedFields{required<&RankSpeed::rank>("rank"),
                                        required<&RankSpeed::factor>("factor")};

/// The word by which a kind of op goes, and its own fields.
template <class Body>
struct BodyText;
template <>
struct BodyText<Compute> {
  static constexpr std::string_view Word = "compute";
  static constexpr std::array Fields{required<&Compute::work>("work")};
};
template <>
struct BodyText<Collective> {
  static constexpr std::string_view Word = "collective";
  static constexpr std::array Fields{
      positional<&Collective::kind>("kind"),   required<&Collective::family>("family"),
      required<&Collective::bytes>("bytes"),   optional<&Collective::algorithm>("algorithm"),
      optional<&Collective::chunks>("chunks"), optional<&Collective::exchange>("exchange"),
      flag<&Collective::back>("back"),         optional<&Collective::library>("library"),
      optional<&Collective::call>("call"),     optional<&Collective::least>("least"),
      optional<&Collective::units>("units")};
};
template <>
struct BodyText<Send> {
  static constexpr std::string_view Word = "send";
  static constexpr std::array Fields{required<&Send::to>("to"), required<&Send::bytes>("bytes"),
                                     optional<&Send::message>("message"), flag<&Send::eager>("eager")};
};
template <>
struct BodyText<Receive> {
  static constexpr std::string_view Word = "receive";
  static constexpr std::array Fields{required<&Receive::from>("from"), required<&Receive::bytes>("bytes"),
                                     optional<&Receive::message>("message"), flag<&Receive::eager>("eager")};
};
template <>
struct BodyText<HostWork> {
  static constexpr std::string_view Word = "host-work";
  static constexpr std::array Fields{required<&HostWork::duration>("seconds")};
};
template <>
struct BodyText<HostWait> {
  static constexpr std::string_view Word = "host-wait";
  static constexpr std::array Fields{required<&HostWait::op>("op")};
};

// Then follow these, of every op. Host ops stand in no stream.
inline constexpr std::array StreamFields{required<&Op::stream>("stream")};
inline constexpr std::array HostStreamFields{optional<&Op::stream>("stream")};
inline constexpr std::array TagFields{optional<&Tag::phase>("phase"), optional<&Tag::layer>("layer"),
                                      optional<&Tag::microbatch>("microbatch"),
                                      optional<&Tag::chunk>("chunk"), optional<&Tag::name>("name")};
inline constexpr std::array OpFields{optional<&Op::after>("after"), optional<&Op::memory>("memory")};

template <class Body>
constexpr std::span<const Field<Op>> stream_fields() {
  const bool on_host = std::is_same_v<Body, HostWork> || std::is_same_v<Body, HostWait>;
  return on_host ? std::span<const Field<Op>>(HostStreamFields) : std::span<const Field<Op>>(StreamFields);
}

// Compute ops alone have a load.
inline constexpr std::array OpLoadFields{optional<&Op::load>("load")};
template <class Body>
constexpr std::span<const Field<Op>> load_fields() {
  if (std::is_same_v<Body, Compute>) return OpLoadFields;
  return {};
}

// --- walking them --------------------------------------------------------------------------------

/// A table and the record that its fields belong to; `Record` is const when writing.
template <class Record>
struct Bound {
  std::span<const Field<std::remove_const_t<Record>>> fields;
  Record& record;
  std::uint32_t seen = 0;  // bit by field
};
template <class Table, class Record>
auto bound(const Table& table, Record& record) {
  return Bound<Record>{table, record};
}

template <class Record>
void write_fields(std::string& out, const Schedule& schedule, Bound<Record> table) {
  for (const auto& field : table.fields) {
    const bool left_out = field.presence >= Presence::Optional && field.is_default(table.record);
    if (left_out) continue;
    out += ' ';
    if (field.presence != Presence::Positional) out += field.key;
    if (field.presence == Presence::Required || field.presence == Presence::Optional) out += '=';
    field.write(out, schedule, table.record);
  }
}

/// Reads a line's values from behind its first words to its end. @throws LineError
template <class... Records>
void read_fields(LineCursor& in, const Scope& scope, Bound<Records>... tables);

// Parts of read_fields.
[[noreturn]] void fail_unknown_key(const LineCursor& in, std::size_t at, std::string_view key,
                                   const std::vector<std::string>& known);
[[noreturn]] void fail_repeated_key(const LineCursor& in, std::size_t at, std::string_view key);
[[noreturn]] void fail_missing_key(const LineCursor& in, std::string_view key);
void expect_equals(LineCursor& in, std::string_view key);

template <class Record>
void read_positionals(LineCursor& in, const Scope& scope, Bound<Record>& table) {
  for (const auto& field : table.fields) {
    if (field.presence != Presence::Positional) return;
    if (in.at_end()) fail_missing_key(in, field.key);
    field.read(in, scope, table.record);
    in.end_value();
  }
}

/// True if `key` is in this table; then its value is read.
template <class Record>
bool read_field(LineCursor& in, const Scope& scope, std::size_t at, std::string_view key,
                Bound<Record>& table) {
  for (std::size_t i = 0; i < table.fields.size(); ++i) {
    const auto& field = table.fields[i];
    if (field.key != key || field.presence == Presence::Positional) continue;
    if (table.seen & (1U << i)) fail_repeated_key(in, at, key);
    table.seen |= 1U << i;
    if (field.presence != Presence::Flag) expect_equals(in, key);
    field.read(in, scope, table.record);
    in.end_value();
    return true;
  }
  return false;
}

template <class Record>
void require_all(const LineCursor& in, const Bound<Record>& table) {
  for (std::size_t i = 0; i < table.fields.size(); ++i)
    if (table.fields[i].presence == Presence::Required && !(table.seen & (1U << i)))
      fail_missing_key(in, table.fields[i].key);
}

template <class Record>
void append_keys(std::vector<std::string>& keys, const Bound<Record>& table) {
  for (const auto& field : table.fields)
    if (field.presence != Presence::Positional) keys.emplace_back(field.key);
}

template <class... Records>
void read_fields(LineCursor& in, const Scope& scope, Bound<Records>... tables) {
  (read_positionals(in, scope, tables), ...);
  while (!in.at_end()) {
    const std::size_t at = in.position();
    const std::string_view key = in.word("a key");
    if ((read_field(in, scope, at, key, tables) || ...)) continue;
    std::vector<std::string> known;
    (append_keys(known, tables), ...);
    fail_unknown_key(in, at, key, known);
  }
  (require_all(in, tables), ...);
}

}  // namespace syncline::text
