#include "sim/schedule/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "sim/core/units.hpp"
#include "sim/schedule/check_parts.hpp"
#include "sim/schedule/exchange.hpp"
#include "sim/schedule/limits.hpp"

namespace syncline {
namespace check {

std::vector<std::string> Findings::take() && {
  if (count_ > sentences_.size())
    sentences_.push_back(fmt::format("... and {} more findings", count_ - sentences_.size()));
  return std::move(sentences_);
}

std::string op_text(const Schedule& schedule, std::size_t role, std::size_t op) {
  const Role& owner = schedule.roles[role];
  return fmt::format("op {} (\"{}\") of role \"{}\"", op, to_text(owner.program[op].tag), owner.name);
}

std::string exact_bytes(Bytes bytes) {
  return exact_text(bytes.si()) + " B";
}

namespace {

template <class T>
std::uint32_t index_of(std::vector<T>& list, const T& item) {  // added when new
  const auto found = std::find(list.begin(), list.end(), item);
  const auto index = static_cast<std::uint32_t>(found - list.begin());
  if (found == list.end()) list.push_back(item);
  return index;
}

class ShapeCheck {
 public:
  ShapeCheck(const Schedule& schedule, Findings& findings) : schedule_(schedule), findings_(findings) {}

  void run() {
    check_names();
    check_world();
    check_families();
    check_amounts();
    for (const Exchange& exchange : schedule_.exchanges) check_exchange(exchange);
    for (const RankLoad& load : schedule_.loads) check_load(load);
    for (std::size_t role = 0; role < schedule_.roles.size(); ++role) check_role(role);
  }

 private:
  template <class Where>
  void amount(double value, std::string_view what, Where where) {
    if (std::isfinite(value) && value >= 0) return;
    findings_.add([&] {
      return fmt::format("{}: {} is {}; expected a finite number, 0 or more", where(), what,
                         exact_text(value));
    });
  }
  template <class Where>
  void index(std::size_t value, std::size_t count, std::string_view what, Where where) {
    if (value < count) return;
    findings_.add([&] {
      return fmt::format("{}: there is no {} {}; the schedule has {}", where(), what, value, count);
    });
  }

  template <class List, class NameOf>
  void unique(std::string_view what, const List& list, NameOf name_of_item) {
    std::set<std::string_view> names;
    for (const auto& item : list) {
      const std::string_view name = name_of_item(item);
      if (!names.insert(name).second)
        findings_.add([&] { return fmt::format("two {} are named \"{}\"", what, name); });
    }
  }
  void check_names() {
    unique("meshes", schedule_.meshes, [](const Mesh& mesh) { return std::string_view(mesh.name()); });
    unique("families", schedule_.families,
           [](const GroupFamily& family) { return std::string_view(family.name()); });
    const auto itself = [](const std::string& name) { return std::string_view(name); };
    unique("streams", schedule_.streams, itself);
    unique("exchanges", schedule_.exchanges,
           [](const Exchange& exchange) { return std::string_view(exchange.name); });
    unique("loads", schedule_.loads, [](const RankLoad& load) { return std::string_view(load.name); });
    unique("libraries", schedule_.libraries, itself);
  }

  void check_world() {
    if (schedule_.meshes.empty()) findings_.add([] { return std::string("the schedule has no mesh"); });
    const std::size_t world = schedule_.world_size();
    for (const Mesh& mesh : schedule_.meshes)
      if (static_cast<std::size_t>(mesh.world_size()) != world)
        findings_.add([&] {
          return fmt::format("mesh \"{}\" has {} ranks, but {} ranks have a role", mesh.name(),
                             mesh.world_size(), world);
        });
    for (std::size_t rank = 0; rank < world; ++rank)
      index(schedule_.role_of[rank].value(), schedule_.roles.size(), "role",
            [&] { return fmt::format("rank {}", rank); });
    for (std::size_t i = 0; i < schedule_.speeds.size(); ++i) check_speed(i);
  }
  void check_speed(std::size_t i) {
    const RankSpeed& speed = schedule_.speeds[i];
    const auto where = [&] { return fmt::format("speed of rank {}", speed.rank.value()); };
    index(speed.rank.value(), schedule_.world_size(), "rank", where);
    amount(speed.factor, "factor", where);
    if (speed.factor == 0) findings_.add([&] { return where() + ": factor is 0; expected more than 0"; });
    if (i > 0 && speed.rank <= schedule_.speeds[i - 1].rank)
      findings_.add([&] { return where() + ": ranks must ascend, each once"; });
  }

  void check_families() {
    for (const GroupFamily& family : schedule_.families) {
      const auto where = [&] { return fmt::format("family \"{}\"", family.name()); };
      if (family.world_size() != schedule_.world_size())
        findings_.add([&] {
          return fmt::format("{} is made for {} ranks; the schedule has {}", where(), family.world_size(),
                             schedule_.world_size());
        });
      const auto is_its_mesh = [&](const Mesh& mesh) { return mesh.name() == family.mesh(); };
      if (!family.mesh().empty() &&
          std::none_of(schedule_.meshes.begin(), schedule_.meshes.end(), is_its_mesh))
        findings_.add([&] {
          return fmt::format("{} lies along mesh \"{}\", which the schedule lacks", where(), family.mesh());
        });
      for (std::size_t g = 0; g < family.group_count(); ++g)
        if (family.members(GroupId(g)).empty())
          findings_.add([&] { return fmt::format("{}: group {} is empty", where(), g); });
    }
  }

  void check_amounts() {
    const auto job = [] { return std::string("job"); };
    amount(schedule_.job.tokens, "tokens", job);
    amount(schedule_.job.model_flop.si(), "model FLOP", job);
    amount(schedule_.job.hardware_flop.si(), "hardware FLOP", job);
    for (std::size_t w = 0; w < schedule_.works.size(); ++w)
      for (std::size_t k = 0; k < schedule_.works[w].kernels.size(); ++k) check_kernel(w, k);
  }
  void check_kernel(std::size_t work, std::size_t index_in_work) {
    const Kernel& kernel = schedule_.works[work].kernels[index_in_work];
    const auto where = [&] {
      return fmt::format("work {} \"{}\", kernel {}", work, schedule_.works[work].name, index_in_work);
    };
    amount(kernel.flop.si(), "FLOP", where);
    amount(kernel.hbm.si(), "HBM bytes", where);
    amount(kernel.fixed.si(), "fixed time", where);
    for (const auto& [what, size] :
         {std::pair{"m", kernel.m}, {"n", kernel.n}, {"k", kernel.k}, {"batch", kernel.batch}})
      if (size < 0)
        findings_.add([&] { return fmt::format("{}: {} is {}; expected 0 or more", where(), what, size); });
  }

  template <class Where>
  void numbers(const std::vector<double>& all, double most, std::string_view what, Where where) {
    const auto wrong =
        std::ranges::find_if(all, [&](double one) { return !(one >= 0 && one <= most); });  // nan too
    if (wrong == all.end()) return;
    findings_.add([&] {
      return fmt::format("{}: {} {} is {}; expected 0 to {}", where(), what, wrong - all.begin(),
                         exact_text(*wrong), exact_text(most));
    });
  }

  void check_exchange(const Exchange& exchange) {
    const auto where = [&] { return fmt::format("exchange \"{}\"", exchange.name); };
    const auto refuse = [&](auto text) { findings_.add([&] { return where() + ": " + text(); }); };
    const int n = exchange.members, g = exchange.node_members;
    if (n < 1) return refuse([&] { return fmt::format("{} members; expected 1 or more", n); });
    if (exchange.counts.empty() || exchange.counts.size() % exchange.pairs() != 0)
      return refuse([&] {
        return fmt::format("{} counts; expected {} for each group", exchange.counts.size(), exchange.pairs());
      });
    if (g < 0 || (g > 0 && n % g != 0))
      return refuse([&] { return fmt::format("{} members on a node do not divide {} members", g, n); });
    const std::size_t groups = exchange.counts.size() / exchange.pairs();
    const std::size_t to_nodes =
        g == 0 ? 0 : groups * static_cast<std::size_t>(n) * static_cast<std::size_t>(n / g);
    if (exchange.to_nodes.size() != to_nodes)
      return refuse(
          [&] { return fmt::format("{} counts to nodes; expected {}", exchange.to_nodes.size(), to_nodes); });
    numbers(exchange.counts, limits::MostItems, "count", where);
    numbers(exchange.to_nodes, limits::MostItems, "count to a node", where);
    for (std::size_t group = 0; group < groups; ++group)
      check_to_nodes(view_of(exchange, GroupId(group)), where);
  }

  // What is for a node, each item once, is no less than what any of its members wants, and no more than all of them do.
  template <class Where>
  void check_to_nodes(const ExchangeView& exchange, Where where) {
    constexpr double Slack = 1e-6;
    for (std::size_t from = 0; from < exchange.members; ++from) {
      for (std::size_t node = 0; node < exchange.nodes(); ++node) {
        if (node == from / exchange.node_members) continue;
        const auto wanted = exchange.counts.subspan(from * exchange.members + node * exchange.node_members,
                                                    exchange.node_members);
        const double most = std::accumulate(wanted.begin(), wanted.end(), 0.0);
        const double least = *std::ranges::max_element(wanted), given = exchange.to_node(from, node);
        if (given >= least * (1 - Slack) && given <= most * (1 + Slack)) continue;
        return findings_.add([&] {
          return fmt::format(
              "{}: member {} has {} items for node {}, whose members want {} in all and {} at most; expected "
              "{} to {}",
              where(), from, exact_text(given), node, exact_text(most), exact_text(least), exact_text(least),
              exact_text(most));
        });
      }
    }
  }

  void check_load(const RankLoad& load) {
    const auto where = [&] { return fmt::format("load \"{}\"", load.name); };
    index(load.family.value(), schedule_.families.size(), "family", where);
    numbers(load.factors, limits::MostFactor, "factor", where);
    if (load.family.value() >= schedule_.families.size()) return;
    const GroupFamily& family = schedule_.families[load.family.value()];
    if (load.factors.size() == members_of_all(family)) return;
    for (std::size_t g = 0; g < family.group_count(); ++g) {
      const std::size_t size = family.members(GroupId(g)).size();
      if (load.factors.size() == size) continue;
      return findings_.add([&] {
        return fmt::format("{}: {} factors; group {} of family \"{}\" has {} members, all groups {}", where(),
                           load.factors.size(), g, family.name(), size, members_of_all(family));
      });
    }
  }

  void check_role(std::size_t role) {
    const Role& owner = schedule_.roles[role];
    const auto whose = [&] { return fmt::format("role \"{}\"", owner.name); };
    for (const MemoryEffect& effect : owner.resident) {
      amount(effect.bytes.si(), fmt::format("resident {}", name_of(effect.category)), whose);
      if (effect.by_load)
        findings_.add(
            [&] { return whose() + ": resident memory has no load; only that of compute ops has"; });
    }
    for (std::size_t i = 0; i < owner.program.size(); ++i) {
      const Op& op = owner.program[i];
      const auto where = [&] { return op_text(schedule_, role, i); };
      if (!op.on_host()) index(op.stream.value(), schedule_.streams.size(), "stream", where);
      if (op.on_host() && !(op.after.empty() && op.memory.empty()))
        findings_.add([&] {
          return fmt::format("{}: a host op has no `after` and no memory; let a host wait stand before it",
                             where());
        });
      check_after(op, i, where);
      if (op.load) {
        index(op.load->value(), schedule_.loads.size(), "load", where);
        if (!std::holds_alternative<Compute>(op.body))
          findings_.add([&] { return where() + ": only compute ops have a load"; });
      }
      for (const MemoryEffect& effect : op.memory)
        if (!std::isfinite(effect.bytes.si()))
          findings_.add([&] {
            return fmt::format("{}: memory effect on {} is not finite", where(), name_of(effect.category));
          });
        else if (effect.by_load && !op.load)
          findings_.add([&] {
            return fmt::format("{}: memory effect on {} is by load, but the op has none", where(),
                               name_of(effect.category));
          });
      std::visit([&](const auto& body) { check_body(body, i, where); }, op.body);
    }
  }

  template <class Where>
  void check_after(const Op& op, std::size_t i, Where where) {
    for (std::size_t a = 0; a < op.after.size(); ++a) {
      const std::size_t awaited = op.after[a].value();
      if (awaited >= i)
        findings_.add([&] {
          return fmt::format("{} waits for op {}, which does not come before it", where(), awaited);
        });
      if (a > 0 && op.after[a] <= op.after[a - 1])
        findings_.add([&] { return fmt::format("{}: the ops in `after` must ascend, each once", where()); });
    }
  }

  template <class Where>
  void check_body(const Compute& body, std::size_t, Where where) {
    index(body.work.value(), schedule_.works.size(), "work", where);
  }
  template <class Where>
  void check_body(const Collective& body, std::size_t, Where where) {
    index(body.family.value(), schedule_.families.size(), "family", where);
    amount(body.bytes.si(), "bytes", where);
    if (body.chunks < 1 || body.chunks > limits::MostChunks)
      findings_.add([&] {
        return fmt::format("{}: {} chunks; expected 1 to {}", where(), body.chunks, limits::MostChunks);
      });
    if (body.library) index(body.library->value(), schedule_.libraries.size(), "library", where);
    amount(body.call.si(), "call", where);
    amount(body.least.si(), "least", where);
    if (!body.library && (body.call > Seconds(0) || body.least > Seconds(0)))
      findings_.add(
          [&] { return fmt::format("{}: call and least are of a library, and none is named", where()); });
    if (body.units < 0)
      findings_.add([&] { return fmt::format("{}: {} units; expected 0 or more", where(), body.units); });
    if (body.back && !body.exchange)
      findings_.add([&] { return where() + ": `back` without an exchange, which alone has a way back"; });
    if (body.exchange) check_use_of_exchange(body, where);
  }
  template <class Where>
  void check_use_of_exchange(const Collective& body, Where where) {
    index(body.exchange->value(), schedule_.exchanges.size(), "exchange", where);
    if (body.kind != CollectiveKind::AllToAll)
      findings_.add([&] {
        return fmt::format("{}: {} has no exchange; only all-to-all has", where(), name_of(body.kind));
      });
    if (body.exchange->value() >= schedule_.exchanges.size() ||
        body.family.value() >= schedule_.families.size())
      return;
    const Exchange& exchange = schedule_.exchanges[body.exchange->value()];
    const GroupFamily& family = schedule_.families[body.family.value()];
    for (std::size_t g = 0; g < family.group_count(); ++g) {
      const std::size_t size = family.members(GroupId(g)).size();
      if (size == static_cast<std::size_t>(exchange.members)) continue;
      return findings_.add([&] {
        return fmt::format("{}: exchange \"{}\" is among {} members, but group {} of family \"{}\" has {}",
                           where(), exchange.name, exchange.members, g, family.name(), size);
      });
    }
    if (exchange.members < 1 || exchange.for_all() ||
        exchange.counts.size() == exchange.pairs() * family.group_count())
      return;
    findings_.add([&] {
      return fmt::format("{}: exchange \"{}\" has counts for {} groups; family \"{}\" has {}", where(),
                         exchange.name, exchange.counts.size() / exchange.pairs(), family.name(),
                         family.group_count());
    });
  }
  template <class Where>
  void check_body(const Send& body, std::size_t, Where where) {
    check_transfer(body.to, body.bytes, body.message, where);
  }
  template <class Where>
  void check_body(const Receive& body, std::size_t, Where where) {
    check_transfer(body.from, body.bytes, body.message, where);
  }
  template <class Where>
  void check_body(const HostWork& body, std::size_t, Where where) {
    amount(body.duration.si(), "duration", where);
  }
  template <class Where>
  void check_body(const HostWait& body, std::size_t i, Where where) {
    if (body.op.value() >= i)
      findings_.add([&] {
        return fmt::format("{}: the host waits for op {}, which it has not issued yet", where(),
                           body.op.value());
      });
  }

  template <class Where>
  void check_transfer(const Peer& peer, Bytes bytes, int message, Where where) {
    amount(bytes.si(), "bytes", where);
    amount(message, "message", where);
    if (schedule_.meshes.empty()) return;
    const Mesh& mesh = schedule_.meshes.front();
    const auto coordinate = static_cast<std::size_t>(peer.coordinate);  // a negative one becomes too large
    if (peer.axis >= static_cast<int>(mesh.axes().size()))
      findings_.add(
          [&] { return fmt::format("{}: mesh \"{}\" has no axis {}", where(), mesh.name(), peer.axis); });
    else if (peer.axis >= 0 && coordinate >= static_cast<std::size_t>(mesh.size(peer.axis)))
      findings_.add([&] {
        return fmt::format("{}: its peer has coordinate {} on axis \"{}\" of size {}", where(),
                           peer.coordinate, mesh.axes()[static_cast<std::size_t>(peer.axis)].name,
                           mesh.size(peer.axis));
      });
    else if (peer.axis < 0 && coordinate >= schedule_.world_size())
      findings_.add([&] {
        return fmt::format("{}: its peer is rank {}; there are {} ranks", where(), peer.coordinate,
                           schedule_.world_size());
      });
  }

  const Schedule& schedule_;
  Findings& findings_;
};

}  // namespace

void check_shape(const Schedule& schedule, Findings& findings) {
  ShapeCheck(schedule, findings).run();
}

Tables::Tables(const Schedule& schedule) {
  std::map<std::pair<FamilyId, StreamId>, std::uint32_t> queue_of;
  roles.resize(schedule.roles.size());
  for (std::uint32_t rank = 0; rank < schedule.world_size(); ++rank)
    roles[schedule.role_of[rank].value()].ranks.push_back(rank);
  for (std::size_t r = 0; r < roles.size(); ++r) {
    RoleTables& role = roles[r];
    const std::vector<Op>& program = schedule.roles[r].program;
    role.queue.resize(program.size());
    role.position.resize(program.size());
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      const Op& op = program[i];
      if (const auto* collective = std::get_if<Collective>(&op.body)) {
        const auto [entry, added] =
            queue_of.try_emplace({collective->family, op.stream}, static_cast<std::uint32_t>(queues.size()));
        if (added) queues.push_back({collective->family, op.stream});
        const std::uint32_t queue = entry->second;
        if (role.queue_ops.size() <= queue) role.queue_ops.resize(queue + 1);
        role.queue[i] = queue;
        role.position[i] = static_cast<std::uint32_t>(role.queue_ops[queue].size());
        role.queue_ops[queue].push_back(i);
        continue;
      }
      const auto* send = std::get_if<Send>(&op.body);
      const auto* receive = std::get_if<Receive>(&op.body);
      if (send == nullptr && receive == nullptr) continue;
      role.position[i] = static_cast<std::uint32_t>(role.transfers.size());
      role.transfers.push_back(i);
      role.endpoint.push_back(send != nullptr ? index_of(role.sends, {send->to, send->message})
                                              : index_of(role.receives, {receive->from, receive->message}));
    }
  }
  for (RoleTables& role : roles) role.queue_ops.resize(queues.size());
}

namespace {

Cast folded_if_possible(const Schedule& schedule) {
  try {
    return one_a_role(schedule);
  } catch (const std::invalid_argument&) {
    return everybody(schedule);
  }
}

}  // namespace
}  // namespace check

std::vector<std::string> check_schedule(const Schedule& schedule, bool fold) {
  using namespace check;
  Findings findings;
  check_shape(schedule, findings);
  if (!findings.empty()) return std::move(findings).take();
  const Tables tables(schedule);
  check_membership(schedule, tables, findings);
  if (!findings.empty()) return std::move(findings).take();
  check_collectives(schedule, tables, findings);
  const Cast cast = fold ? folded_if_possible(schedule) : everybody(schedule);
  const Pairing pairing = pair_transfers(schedule, tables, cast, findings);
  if (!findings.empty()) return std::move(findings).take();
  check_progress(schedule, tables, pairing, cast, findings);
  return std::move(findings).take();
}

}  // namespace syncline
