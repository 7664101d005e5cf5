#include <ostream>

#include "sim/schedule/text.hpp"
#include "sim/schedule/text_fields.hpp"

namespace syncline {
namespace {

using namespace text;

class Writer {
 public:
  explicit Writer(const Schedule& schedule) : schedule_(schedule) {}

  std::string write() && {
    out_ += ScheduleTextHeader;
    out_ += "\nname ";
    append_quoted(out_, schedule_.name);
    out_ += '\n';
    line("job", bound(JobFields, schedule_.job));
    for (const Mesh& mesh : schedule_.meshes) write_mesh(mesh);
    for (const GroupFamily& family : schedule_.families) write_family(family);
    for (const std::string& stream : schedule_.streams) write_named("stream", stream);
    for (const std::string& library : schedule_.libraries) write_named("library", library);
    for (const Exchange& exchange : schedule_.exchanges) write_exchange(exchange);
    for (const RankLoad& load : schedule_.loads) line("load", bound(LoadFields, load));
    for (std::size_t i = 0; i < schedule_.works.size(); ++i) write_work(i);
    write_roles();
    for (const RankSpeed& speed : schedule_.speeds) line("speed", bound(SpeedFields, speed));
    out_ += "end\n";
    return std::move(out_);
  }

 private:
  template <class... Records>
  void line(std::string_view word, Bound<Records>... tables) {
    out_ += word;
    (write_fields(out_, schedule_, tables), ...);
    out_ += '\n';
  }

  void numbered_name(std::string_view word, std::size_t index, const std::string& name) {
    ((out_ += word) += ' ') += std::to_string(index);
    out_ += ' ';
    append_quoted(out_, name);
  }

  void write_mesh(const Mesh& mesh) {
    const MeshLine record{mesh.name(), mesh.axes()};
    line("mesh", bound(MeshFields, record));
  }

  void write_family(const GroupFamily& family) {
    FamilyLine record{family.name(), {}, {}, {}};
    if (!family.mesh().empty()) {
      record.mesh = family.mesh();
      record.axes = family.axes();
    } else {
      record.groups.emplace();
      for (std::size_t g = 0; g < family.group_count(); ++g) {
        const auto members = family.members(GroupId(g));
        record.groups->emplace_back(members.begin(), members.end());
      }
    }
    line("family", bound(FamilyFields, record));
  }

  void write_named(std::string_view word, const std::string& name) {
    const NameLine record{name};
    line(word, bound(NameFields, record));
  }

  void write_exchange(const Exchange& exchange) {
    const auto members = static_cast<std::size_t>(exchange.members);
    ExchangeLine record{exchange.name, {members, exchange.counts}, exchange.node_members, {}};
    if (exchange.node_members > 0)
      record.to_nodes =
          NumberRows{members / static_cast<std::size_t>(exchange.node_members), exchange.to_nodes};
    line("exchange", bound(ExchangeFields, record));
  }

  void write_work(std::size_t index) {
    numbered_name("work", index, schedule_.works[index].name);
    out_ += '\n';
    for (const Kernel& kernel : schedule_.works[index].kernels) line("  kernel", bound(KernelFields, kernel));
  }

  void write_roles() {
    std::vector<Ranks> ranks(schedule_.roles.size());
    for (std::size_t r = 0; r < schedule_.world_size(); ++r)
      ranks.at(schedule_.role_of[r].value()).push_back(RankId(r));
    for (std::size_t i = 0; i < schedule_.roles.size(); ++i) {
      const Role& role = schedule_.roles[i];
      numbered_name("role", i, role.name);
      out_ += " ranks=";
      write_value(out_, schedule_, ranks[i]);
      out_ += '\n';
      for (const MemoryEffect& effect : role.resident) line("  resident", bound(ResidentFields, effect));
      for (std::size_t op = 0; op < role.program.size(); ++op) write_op(op, role.program[op]);
    }
  }

  void write_op(std::size_t index, const Op& op) {
    (out_ += "  op ") += std::to_string(index);
    out_ += ' ';
    std::visit(
        [&]<class Body>(const Body& body) {
          line(BodyText<Body>::Word, bound(BodyText<Body>::Fields, body), bound(load_fields<Body>(), op),
               bound(stream_fields<Body>(), op), bound(TagFields, op.tag), bound(OpFields, op));
        },
        op.body);
  }

  const Schedule& schedule_;
  std::string out_;
};

}  // namespace

std::string schedule_text(const Schedule& schedule) {
  return Writer(schedule).write();
}

void write_schedule(std::ostream& out, const Schedule& schedule) {
  out << schedule_text(schedule);
}

}  // namespace syncline
