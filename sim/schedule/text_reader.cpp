#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/schedule/text.hpp"
#include "sim/schedule/text_fields.hpp"

namespace syncline {
namespace text {

void fail_unknown_key(const LineCursor& in, std::size_t at, std::string_view key,
                      const std::vector<std::string>& known) {
  in.fail(at, unknown_name("key", shown(key), known));
}
void fail_repeated_key(const LineCursor& in, std::size_t at, std::string_view key) {
  in.fail(at, fmt::format("key \"{}\" stands twice", key));
}
void fail_missing_key(const LineCursor& in, std::string_view key) {
  in.fail(in.position(), fmt::format("missing \"{}\"", key));
}
void expect_equals(LineCursor& in, std::string_view key) {
  if (!in.accept('=')) in.fail(in.position(), fmt::format("key \"{}\" needs a value: {}=...", key, key));
}

}  // namespace text

namespace {

using namespace text;

constexpr std::size_t MostErrors = 20;
constexpr std::size_t MostRanks = std::size_t{1} << 20;  // several times the largest cluster built
constexpr std::size_t LongestKeptLine = 65536;           // bytes; errors in a longer line do not show it
constexpr std::size_t NoRole = std::numeric_limits<std::uint32_t>::max();

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
}

/// Hands out a text line by line, without line ends.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  bool next() {
    if (rest_.empty()) return false;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }
  [[nodiscard]] std::string_view line() const { return line_; }
  [[nodiscard]] int number() const { return number_; }

 private:
  std::string_view rest_, line_;
  int number_ = 0;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file)
      : lines_(text), file_(file), scope_{schedule_, {}, {}, {}, {}, {}, {}} {}

  Schedule read() && {
    read_header();
    while (lines_.next()) read_line();
    if (!ended_) add_error(lines_.line().size(), "the file ends without a line \"end\"; was it cut short?");
    if (!errors_.empty()) throw InputError(std::move(errors_));
    return std::move(schedule_);
  }

 private:
  struct Statement {
    std::string_view word;
    void (Reader::*read)(LineCursor&);
  };
  static const std::array<Statement, 15> Statements;
  enum class Block { None, Work, Role };  // what indented lines belong to

  // --- errors ------------------------------------------------------------------------------------

  void add_error(std::size_t position, std::string message) {
    const std::string_view line = lines_.line();
    errors_.push_back({{file_, std::max(lines_.number(), 1), static_cast<int>(position) + 1,
                        line.size() <= LongestKeptLine ? std::string(line) : std::string()},
                       std::move(message)});
    if (errors_.size() < MostErrors) return;
    errors_.push_back(
        {{file_, lines_.number(), 0, {}}, fmt::format("stopped here after {} errors", MostErrors)});
    throw InputError(std::move(errors_));
  }
  [[noreturn]] void give_up(std::size_t position, std::string message) {
    add_error(position, std::move(message));
    throw InputError(std::move(errors_));
  }

  // --- lines -------------------------------------------------------------------------------------

  void read_header() {
    if (!lines_.next())
      give_up(0, fmt::format("the file is empty; a schedule begins with \"{}\"", ScheduleTextHeader));
    const std::string_view words = ScheduleTextHeader.substr(0, ScheduleTextHeader.rfind(' ') + 1);
    const std::string_view version = ScheduleTextHeader.substr(words.size());
    std::string_view line = lines_.line();
    while (line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
    if (line == ScheduleTextHeader) return;
    if (line.starts_with(words) && std::none_of(line.begin(), line.end(), is_control))
      give_up(words.size(),
              fmt::format("version \"{}\" of the format is not known; this program reads version {}",
                          shown(line.substr(words.size())), version));
    give_up(0, fmt::format("not a schedule; the first line must be \"{}\"", ScheduleTextHeader));
  }

  void read_line() {
    const std::string_view line = lines_.line();
    const auto* const control = std::find_if(line.begin(), line.end(), is_control);
    if (control != line.end())
      give_up(static_cast<std::size_t>(control - line.begin()),
              fmt::format("control character 0x{:02x}; a schedule is plain text",
                          static_cast<unsigned char>(*control)));
    LineCursor in(line);
    if (in.at_end()) return;
    try {
      read_statement(in);
    } catch (const LineError& error) {
      add_error(error.position, error.message);
    }
  }

  void read_statement(LineCursor& in) {
    statement_ = in.position();
    if (ended_) in.fail(statement_, "nothing may follow the line \"end\"");
    const std::string_view word = in.word("a word that says what the line is");
    for (const Statement& statement : Statements) {
      if (statement.word != word) continue;
      in.end_value();
      return (this->*statement.read)(in);
    }
    std::vector<std::string> known;
    for (const Statement& statement : Statements) known.emplace_back(statement.word);
    in.fail(statement_, unknown_name("line", shown(word), known));
  }

  void begin(Block block, LineCursor& in, std::string_view word, std::string_view owner) const {
    if (block_ != block) in.fail(statement_, fmt::format("{} lines stand under a {} line", word, owner));
  }
  void once(LineCursor& in, bool& seen, std::string_view word) {
    block_ = Block::None;
    if (std::exchange(seen, true)) in.fail(statement_, fmt::format("a second {} line", word));
  }

  /// Reads the number of a work, role or op, which must be `expected`.
  void read_number(LineCursor& in, std::string_view what, std::size_t expected) {
    in.at_end();
    const std::size_t start = in.position();
    const auto number = static_cast<std::size_t>(in.integer(std::numeric_limits<std::uint32_t>::max()));
    in.end_value();
    if (number != expected)
      in.fail(start, fmt::format("{} {} stands where {} {} is expected", what, number, what, expected));
  }

  void declare(LineCursor& in, std::size_t at, std::string_view what, NameTable& table,
               const std::string& name) {
    if (!table.emplace(name, static_cast<std::uint32_t>(table.size())).second)
      in.fail(at, fmt::format("{} \"{}\" is declared twice", what, shown(name)));
  }

  // --- statements --------------------------------------------------------------------------------

  void read_name(LineCursor& in) {
    once(in, named_, "name");
    NameLine record;
    read_fields(in, scope_, bound(NameFields, record));
    schedule_.name = std::move(record.name);
  }

  void read_job(LineCursor& in) {
    once(in, job_seen_, "job");
    in.at_end();
    const std::size_t start = in.position();
    read_fields(in, scope_, bound(JobFields, schedule_.job));
    if (schedule_.job.tokens > limits::MostTokens) fail_too_large(in, start, limits::MostTokens);
  }

  void read_mesh(LineCursor& in) {
    block_ = Block::None;
    in.at_end();
    const std::size_t start = in.position();
    MeshLine record;
    read_fields(in, scope_, bound(MeshFields, record));
    std::size_t ranks = 1;
    for (const MeshAxis& axis : record.axes) {
      ranks *= static_cast<std::size_t>(axis.size);
      if (ranks > MostRanks)
        in.fail(start, fmt::format("mesh \"{}\" has more than {} ranks", shown(record.name), MostRanks));
    }
    if (scope_.world != 0 && ranks != scope_.world)
      in.fail(start, fmt::format("mesh \"{}\" has {} ranks where the first mesh has {}", shown(record.name),
                                 ranks, scope_.world));
    declare(in, start, "mesh", scope_.meshes, record.name);
    if (scope_.world == 0) schedule_.role_of.assign(ranks, RoleId(NoRole));
    scope_.world = ranks;
    schedule_.meshes.emplace_back(std::move(record.name), std::move(record.axes));
  }

  void read_family(LineCursor& in) {
    block_ = Block::None;
    in.at_end();
    const std::size_t start = in.position();
    FamilyLine record;
    read_fields(in, scope_, bound(FamilyFields, record));
    if (record.groups.has_value() == record.mesh.has_value() ||
        record.mesh.has_value() != record.axes.has_value())
      in.fail(start, "a family has either mesh= and axes=, or groups=");
    if (scope_.world == 0) in.fail(start, "a mesh line must come before any family");
    GroupFamily family = record.mesh ? family_along(in, start, record) : family_listed(in, start, record);
    declare(in, start, "family", scope_.families, record.name);
    schedule_.families.push_back(std::move(family));
  }

  GroupFamily family_along(LineCursor& in, std::size_t start, const FamilyLine& record) const {
    const auto found = scope_.meshes.find(*record.mesh);
    if (found == scope_.meshes.end())
      in.fail(start, unknown_name("mesh", shown(*record.mesh), names_of_meshes()));
    const Mesh& mesh = schedule_.meshes[found->second];
    for (const std::string& axis : *record.axes)
      if (mesh.find_axis(axis) < 0) in.fail(start, unknown_name("axis", shown(axis), names_of_axes(mesh)));
    return GroupFamily::along(record.name, mesh, *record.axes);
  }

  GroupFamily family_listed(LineCursor& in, std::size_t start, FamilyLine& record) const {
    std::vector<bool> taken(scope_.world, false);
    for (const Ranks& group : *record.groups)
      for (const RankId rank : group) {
        if (taken[rank.value()])
          in.fail(start,
                  fmt::format("rank {} stands twice in family \"{}\"", rank.value(), shown(record.name)));
        taken[rank.value()] = true;
      }
    return GroupFamily::listed(record.name, static_cast<int>(scope_.world), std::move(*record.groups));
  }

  [[nodiscard]] std::vector<std::string> names_of_meshes() const {
    std::vector<std::string> names;
    for (const Mesh& mesh : schedule_.meshes) names.push_back(mesh.name());
    return names;
  }
  [[nodiscard]] static std::vector<std::string> names_of_axes(const Mesh& mesh) {
    std::vector<std::string> names;
    for (const MeshAxis& axis : mesh.axes()) names.push_back(axis.name);
    return names;
  }

  void read_stream(LineCursor& in) {
    block_ = Block::None;
    in.at_end();
    const std::size_t start = in.position();
    NameLine record;
    read_fields(in, scope_, bound(NameFields, record));
    declare(in, start, "stream", scope_.streams, record.name);
    if (schedule_.streams.size() == limits::MostStreams)
      in.fail(start, fmt::format("more than {} streams", limits::MostStreams));
    schedule_.streams.push_back(std::move(record.name));
  }

  void read_library(LineCursor& in) {
    block_ = Block::None;
    in.at_end();
    const std::size_t start = in.position();
    NameLine record;
    read_fields(in, scope_, bound(NameFields, record));
    declare(in, start, "library", scope_.libraries, record.name);
    schedule_.libraries.push_back(std::move(record.name));
  }

  void read_exchange(LineCursor& in) {
    block_ = Block::None;
    in.at_end();
    const std::size_t start = in.position();
    ExchangeLine record;
    read_fields(in, scope_, bound(ExchangeFields, record));
    const std::size_t members = record.counts.columns, rows = record.counts.rows();
    const auto node_members = static_cast<std::size_t>(record.node_members);
    if (rows % members != 0)
      in.fail(start, fmt::format("counts have {} rows of {} numbers; expected {} rows for each group", rows,
                                 members, members));
    if ((node_members > 0) != record.to_nodes.has_value())
      in.fail(start, "node-members= and to-nodes= stand together");
    if (record.to_nodes && members % node_members != 0)
      in.fail(start, fmt::format("{} members on a node do not divide {} members", node_members, members));
    if (record.to_nodes &&
        (record.to_nodes->columns != members / node_members || record.to_nodes->rows() != rows))
      in.fail(start,
              fmt::format("to-nodes has {} rows of {} numbers; expected {} of {}, as many rows as counts",
                          record.to_nodes->rows(), record.to_nodes->columns, rows, members / node_members));
    declare(in, start, "exchange", scope_.exchanges, record.name);
    if (!record.to_nodes) record.to_nodes.emplace();
    const std::size_t more = record.counts.numbers.size() + record.to_nodes->numbers.size();
    if (more > limits::MostNumbers - scope_.numbers)
      in.fail(start, fmt::format("exchanges and loads have more than {} numbers", limits::MostNumbers));
    scope_.numbers += more;
    schedule_.exchanges.push_back({std::move(record.name), static_cast<int>(members),
                                   std::move(record.counts.numbers), record.node_members,
                                   std::move(record.to_nodes->numbers)});
  }

  void read_load(LineCursor& in) {
    block_ = Block::None;
    in.at_end();
    const std::size_t start = in.position();
    RankLoad load;
    read_fields(in, scope_, bound(LoadFields, load));
    declare(in, start, "load", scope_.loads, load.name);
    scope_.numbers += load.factors.size();
    schedule_.loads.push_back(std::move(load));
  }

  void read_work(LineCursor& in) {
    block_ = Block::Work;
    schedule_.works.emplace_back();  // counted even when the line is wrong
    read_number(in, "work", schedule_.works.size() - 1);
    NameLine record;
    read_fields(in, scope_, bound(NameFields, record));
    schedule_.works.back().name = std::move(record.name);
  }

  void read_kernel(LineCursor& in) {
    begin(Block::Work, in, "kernel", "work");
    in.at_end();
    const std::size_t start = in.position();
    Kernel& kernel = schedule_.works.back().kernels.emplace_back();
    read_fields(in, scope_, bound(KernelFields, kernel));
    const bool sized = kernel.kind == KernelClass::Gemm || kernel.kind == KernelClass::Attention;
    const auto [least, most] = std::minmax({kernel.m, kernel.n, kernel.k, kernel.batch});
    if (most > limits::MostSize) fail_too_large(in, start, static_cast<double>(limits::MostSize));
    if (sized && least < 1)
      in.fail(start, fmt::format("a kernel of class {} needs m, n, k and batch, each 1 or more",
                                 name_of(kernel.kind)));
    if (kernel.launches < 0)
      in.fail(start, fmt::format("launches is {}; expected 0 or more", kernel.launches));
  }

  void read_role(LineCursor& in) {
    block_ = Block::Role;
    schedule_.roles.emplace_back();
    const std::size_t role = schedule_.roles.size() - 1;
    read_number(in, "role", role);
    in.at_end();
    const std::size_t start = in.position();
    RoleLine record;
    read_fields(in, scope_, bound(RoleFields, record));
    schedule_.roles.back().name = std::move(record.name);
    for (const RankId rank : record.ranks) {
      RoleId& owner = schedule_.role_of[rank.value()];
      if (owner != RoleId(NoRole))
        in.fail(start, fmt::format("rank {} stands in role {} already", rank.value(), owner.value()));
      owner = RoleId(role);
    }
  }

  void read_resident(LineCursor& in) {
    begin(Block::Role, in, "resident", "role");
    read_fields(in, scope_, bound(ResidentFields, schedule_.roles.back().resident.emplace_back()));
  }

  void read_op(LineCursor& in) {
    begin(Block::Role, in, "op", "role");
    std::vector<Op>& program = schedule_.roles.back().program;
    scope_.op = program.size();
    Op& op = program.emplace_back();
    read_number(in, "op", scope_.op);
    in.at_end();
    const std::size_t start = in.position();
    const std::string_view word = in.word("a kind of op");
    const auto read_body = body_reader(word);
    if (read_body == nullptr) in.fail(start, unknown_name("kind of op", shown(word), body_words()));
    in.end_value();
    (this->*read_body)(in, op);
  }

  template <class Body>
  void read_op_of(LineCursor& in, Op& op) {
    Body body;
    read_fields(in, scope_, bound(BodyText<Body>::Fields, body), bound(load_fields<Body>(), op),
                bound(stream_fields<Body>(), op), bound(TagFields, op.tag), bound(OpFields, op));
    op.body = std::move(body);
  }

  using ReadBody = void (Reader::*)(LineCursor&, Op&);
  struct BodyEntry {
    std::string_view word;
    ReadBody read;
  };
  template <class... Bodies>
  static constexpr auto table_of(const std::variant<Bodies...>*) {
    return std::array{BodyEntry{BodyText<Bodies>::Word, &Reader::read_op_of<Bodies>}...};
  }
  static constexpr auto bodies() { return table_of(static_cast<const OpBody*>(nullptr)); }

  static ReadBody body_reader(std::string_view word) {
    static constexpr auto Table = bodies();
    const auto* const found =
        std::find_if(Table.begin(), Table.end(), [&](const BodyEntry& entry) { return entry.word == word; });
    return found == Table.end() ? nullptr : found->read;
  }
  static std::vector<std::string> body_words() {
    std::vector<std::string> words;
    for (const BodyEntry& entry : bodies()) words.emplace_back(entry.word);
    return words;
  }

  void read_speed(LineCursor& in) {
    block_ = Block::None;
    in.at_end();
    const std::size_t start = in.position();
    RankSpeed speed;
    read_fields(in, scope_, bound(SpeedFields, speed));
    if (!schedule_.speeds.empty() && speed.rank <= schedule_.speeds.back().rank)
      in.fail(start, "the ranks of speed lines must ascend");
    if (speed.factor <= 0)
      in.fail(start, "a speed factor must be above 0; it multiplies the time of compute");
    if (speed.factor < limits::LeastFactor || speed.factor > limits::MostFactor)
      in.fail(start, fmt::format("a speed factor is from {} to {}", exact_text(limits::LeastFactor),
                                 exact_text(limits::MostFactor)));
    schedule_.speeds.push_back(speed);
  }

  void read_end(LineCursor& in) {
    ended_ = true;
    if (!in.at_end()) in.fail(in.position(), "nothing may follow \"end\"");
    if (!errors_.empty()) return;  // what is missing may be in a line that was not understood
    if (schedule_.meshes.empty())
      in.fail(statement_, "there is no mesh line, such as \"mesh dense axes=dp:8\"");
    const auto none = std::count(schedule_.role_of.begin(), schedule_.role_of.end(), RoleId(NoRole));
    if (none == 0) return;
    const auto first = std::find(schedule_.role_of.begin(), schedule_.role_of.end(), RoleId(NoRole)) -
                       schedule_.role_of.begin();
    in.fail(statement_, none == 1
                            ? fmt::format("rank {} is in no role", first)
                            : fmt::format("{} ranks are in no role; the first is rank {}", none, first));
  }

  Lines lines_;
  const std::string& file_;
  Schedule schedule_;
  Scope scope_;
  std::vector<Diagnostic> errors_;
  Block block_ = Block::None;
  std::size_t statement_ = 0;  // where the line's first word stands
  bool named_ = false, job_seen_ = false, ended_ = false;
};

const std::array<Reader::Statement, 15> Reader::Statements{{{"name", &Reader::read_name},
                                                            {"job", &Reader::read_job},
                                                            {"mesh", &Reader::read_mesh},
                                                            {"family", &Reader::read_family},
                                                            {"stream", &Reader::read_stream},
                                                            {"library", &Reader::read_library},
                                                            {"exchange", &Reader::read_exchange},
                                                            {"load", &Reader::read_load},
                                                            {"work", &Reader::read_work},
                                                            {"kernel", &Reader::read_kernel},
                                                            {"role", &Reader::read_role},
                                                            {"resident", &Reader::read_resident},
                                                            {"op", &Reader::read_op},
                                                            {"speed", &Reader::read_speed},
                                                            {"end", &Reader::read_end}}};

}  // namespace

Schedule read_schedule(std::string_view text, const std::string& file) {
  return Reader(text, file).read();
}

}  // namespace syncline
