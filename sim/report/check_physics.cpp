#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sim/core/units.hpp"
#include "sim/report/summary.hpp"
#include "sim/schedule/exchange.hpp"

namespace syncline {
namespace {

constexpr double Slack =
    1e-6;  // relative; more than rounding in the network models, less than any real fault

// A check while it is being made: how often it failed, and the first time.
class Finding {
 public:
  explicit Finding(std::string name) : name_(std::move(name)) {}

  /// @param text  says what is wrong; asked the first time only
  template <class Text>
  void expect(bool holds, Text text) {
    if (holds || count_++ > 0) return;
    first_ = text();
  }
  [[nodiscard]] Check check() const {
    return {name_, count_ > 1 ? fmt::format("{} ({} cases)", first_, count_) : first_};
  }

 private:
  std::string name_, first_;
  std::size_t count_ = 0;
};

// The network models take times this close for one (SameTime of the fluid model, 1e-12 s), at either end of a
// span.
constexpr Seconds TimeSlack(2e-12);

// By how much the time between two moments up to `end` may be off.
Seconds time_slack(Seconds end) {
  const double size = std::abs(end.si());
  return TimeSlack + Seconds(4 * (std::nextafter(size, std::numeric_limits<double>::infinity()) - size));
}

bool at_most(double value, double limit) {
  return value <= limit * (1 + Slack) + std::numeric_limits<double>::min();
}

// --- bounds
// ------------------------------------------------------------------------------------------------------------

// What no implementation can beat: peak FLOP/s and HBM bandwidth without any inefficiency.
Seconds least_time(const Work& work, const Device& device) {
  Seconds sum;
  for (const Kernel& kernel : work.kernels) {
    Seconds least = kernel.fixed;
    const auto peak = device.peak.find(kernel.precision);
    if (kernel.kind != KernelClass::Fixed) {
      if (peak != device.peak.end() && peak->second.si() > 0)
        least = std::max(least, kernel.flop / peak->second);
      if (device.hbm_bandwidth.si() > 0) least = std::max(least, kernel.hbm / device.hbm_bandwidth);
    }
    sum += least;
  }
  return sum;
}

// The most that any one accelerator can send, or receive, over all its links together.
BytesPerSecond accelerator_bandwidth(const Topology& topology) {
  std::vector<BytesPerSecond> out(topology.vertices().size()), in(topology.vertices().size());
  for (const Link& link : topology.links()) {
    out[link.from.value()] += link.bandwidth;
    in[link.to.value()] += link.bandwidth;
  }
  BytesPerSecond most;
  for (const VertexId id : topology.accelerators()) most = std::max({most, out[id.value()], in[id.value()]});
  return most;
}

std::size_t smallest_group(const GroupFamily& family) {
  std::size_t members = std::numeric_limits<std::size_t>::max();
  for (std::size_t group = 0; group < family.group_count(); ++group)
    members = std::min(members, family.members(GroupId(group)).size());
  return family.group_count() == 0 ? 0 : members;
}

// Some member must send or receive (n − 1)/n of the buffer, whichever the kind and the algorithm.
Seconds least_time(const Collective& collective, std::size_t members, BytesPerSecond bandwidth) {
  if (members <= 1 || bandwidth.si() <= 0) return Seconds(0);
  return collective.bytes / bandwidth * (1 - 1 / static_cast<double>(members));
}

// Of the part of S that the member that gets most from others gets (or gives, on the way back), in the group where that is
// least.
double least_received(const Exchange& exchange, const GroupFamily& family) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t group = 0; group < (exchange.for_all() ? 1 : family.group_count()); ++group) {
    const ExchangeView view = view_of(exchange, GroupId(group));
    const double items = view.items() / static_cast<double>(view.members);  // that S is
    least = std::min(least, items > 0 ? view.most_received() / items : 0.0);
  }
  return least;
}

// By op of the timeline; empty when the timeline is not of this schedule.
std::vector<Seconds> least_times(const Timeline& timeline, const Schedule& schedule, const Cluster& cluster) {
  const BytesPerSecond bandwidth = accelerator_bandwidth(cluster.topology);
  std::vector<Seconds> least, of_work;
  for (const Work& work : schedule.works) of_work.push_back(least_time(work, cluster.device));
  std::vector<std::size_t> members;  // by family
  for (const GroupFamily& family : schedule.families) members.push_back(smallest_group(family));
  std::map<ExchangeId, double> received;  // share of S
  least.reserve(timeline.ops.size());
  for (const Role& role : schedule.roles) {
    for (const Op& op : role.program) {
      Seconds& time = least.emplace_back();
      if (const auto* compute = std::get_if<Compute>(&op.body))
        time = of_work[compute->work.value()];
      else if (const auto* send = std::get_if<Send>(&op.body);
               send != nullptr && !send->eager && bandwidth.si() > 0)
        time = send->bytes / bandwidth;
      else if (const auto* receive = std::get_if<Receive>(&op.body);
               receive != nullptr && !receive->eager && bandwidth.si() > 0)
        time = receive->bytes / bandwidth;
      else if (const auto* collective = std::get_if<Collective>(&op.body);
               collective != nullptr && collective->exchange) {
        const auto [known, added] = received.try_emplace(*collective->exchange);
        if (added)
          known->second = least_received(schedule.exchanges[collective->exchange->value()],
                                         schedule.families[collective->family.value()]);
        if (bandwidth.si() > 0) time = collective->bytes / bandwidth * known->second;
      } else if (collective != nullptr)
        time = least_time(*collective, members[collective->family.value()], bandwidth);
    }
  }
  if (least.size() != timeline.ops.size()) least.clear();
  return least;
}

// --- checks
// ------------------------------------------------------------------------------------------------------------

void check_spans(const RunResult& result, const Schedule& schedule, const Cluster& cluster,
                 std::vector<Check>& checks) {
  const Timeline& timeline = result.timeline;
  Finding ordered("every op starts, moves its data and ends in this order");
  Finding fifo("ops of a stream follow one another");
  Finding bounded("no op is faster than FLOP, bytes and bandwidth allow");
  Finding step("the step lasts from the first start to the last end, and no less than any stream is busy");

  const std::vector<Seconds> least = least_times(timeline, schedule, cluster);
  std::vector<const RankLoad*> loads;  // by op
  for (const Role& role : schedule.roles)
    for (const Op& op : role.program) loads.push_back(op.load ? &schedule.loads[op.load->value()] : nullptr);
  std::vector<double> speed(timeline.ranks, 1.0);
  for (const RankSpeed& rank : schedule.speeds) speed.at(rank.rank.value()) = rank.factor;

  std::vector<Seconds> busy_until(timeline.streams.size()),
      busy(timeline.streams.size());  // of the rank at hand
  Seconds first(std::numeric_limits<double>::infinity()), last = -first, busiest;
  const Span* previous = nullptr;
  for (const Span& span : timeline.spans) {
    const TimelineOp& op = timeline.ops[span.op];
    if (previous == nullptr || previous->rank != span.rank) {
      std::fill(busy_until.begin(), busy_until.end(), -Seconds(std::numeric_limits<double>::infinity()));
      std::fill(busy.begin(), busy.end(), Seconds(0));
    }
    previous = &span;
    first = std::min(first, span.start);
    last = std::max(last, span.end);
    const auto where = [&] {
      return fmt::format("\"{}\" (op {}) on rank {}", op.name, span.op, span.rank.value());
    };
    ordered.expect(span.start <= span.transfer && span.transfer <= span.end, [&] {
      return fmt::format("{}: start {}, transfer {}, end {}", where(), to_text(span.start),
                         to_text(span.transfer), to_text(span.end));
    });
    if (op.kind == SpanKind::Host) continue;
    Seconds& until = busy_until[op.stream.value()];
    fifo.expect(span.start >= until, [&] {
      return fmt::format("{} starts {} before the op before it ends", where(), to_text(until - span.start));
    });
    until = span.end;
    busiest = std::max(busiest, busy[op.stream.value()] += span.end - span.start);
    if (least.empty()) continue;
    const double compute =
        cluster.noise.compute > 0 ? 0 : speed[span.rank.value()];  // with noise some ops beat the mean
    const RankLoad* load = loads[span.op];
    const double factor = op.kind != SpanKind::Compute ? 1.0
                          : load == nullptr            ? compute
                                                       : compute * factor_of(schedule, *load, span.rank);
    const Seconds taken = span.end - span.transfer, needed = least[span.op] * factor;
    bounded.expect(needed <= taken || at_most(needed.si(), (taken + time_slack(span.end)).si()), [&] {
      return fmt::format("{} takes {}, less than the {} it needs at least", where(), to_text(taken),
                         to_text(needed));
    });
  }
  if (!timeline.spans.empty()) {
    const double extent = (last - first).si(), claimed = result.step_time.si();
    step.expect(at_most(extent, claimed) && at_most(claimed, extent), [&] {
      return fmt::format("the step takes {}, its timeline {}", to_text(result.step_time),
                         to_text(last - first));
    });
    step.expect(at_most(busiest.si(), claimed), [&] {
      return fmt::format("the step takes {}, one stream is busy for {}", to_text(result.step_time),
                         to_text(busiest));
    });
  }
  for (const Finding* finding : {&ordered, &fifo, &bounded, &step}) checks.push_back(finding->check());
}

void check_links(const RunResult& result, const Topology& topology, std::vector<Check>& checks) {
  Finding bandwidth("links carry no more than their bandwidth allows in the step");
  Finding conserved("NICs and switches send on what they receive");
  Finding arrived("accelerators' links carry all that is sent");
  std::vector<Bytes> in(topology.vertices().size()), out(topology.vertices().size());
  for (const LinkLoad& load : result.links) {
    const Link& link = topology.link(load.link);
    out[link.from.value()] += load.carried;
    in[link.to.value()] += load.carried;
    const Bytes possible = link.bandwidth * result.step_time, early = link.bandwidth * TimeSlack;
    bandwidth.expect(at_most(load.carried.si(), (possible + early).si()), [&] {
      return fmt::format("{} carried {}, at most {} is possible", topology.link_name(load.link),
                         to_text(load.carried), to_text(possible));
    });
  }
  // Some accelerators pass on what others send, so their links may carry more.
  Bytes left, came;
  for (const VertexId id : topology.accelerators()) {
    left += out[id.value()];
    came += in[id.value()];
  }
  arrived.expect(at_most(result.bytes_sent.si(), left.si()) && at_most(result.bytes_sent.si(), came.si()),
                 [&] {
                   return fmt::format("{} were sent; {} left accelerators and {} came to them",
                                      to_text(result.bytes_sent), to_text(left), to_text(came));
                 });
  for (std::size_t v = 0; v < in.size(); ++v) {
    const Vertex& vertex = topology.vertices()[v];
    if (vertex.kind == VertexKind::Accelerator) continue;
    conserved.expect(at_most(in[v].si(), out[v].si()) && at_most(out[v].si(), in[v].si()), [&] {
      return fmt::format("{} received {} and sent {}", vertex.name, to_text(in[v]), to_text(out[v]));
    });
  }
  checks.push_back(bandwidth.check());
  checks.push_back(conserved.check());
  checks.push_back(arrived.check());
}

void check_memory(const RunResult& result, const Schedule& schedule, std::vector<Check>& checks) {
  Finding sums("memory by category is not negative and adds up to the peak");
  Finding resident("the peak is no less than what is resident throughout");
  for (std::size_t rank = 0; rank < result.memory.size(); ++rank) {
    const RankMemory& memory = result.memory[rank];
    Bytes total, held;
    for (std::size_t category = 0; category < MemoryCategoryCount; ++category) {
      total += memory.at_peak[category];
      sums.expect(memory.at_peak[category] >= Bytes(-1), [&] {
        return fmt::format("rank {} holds {} of {}", rank, to_text(memory.at_peak[category]),
                           name_of(static_cast<MemoryCategory>(category)));
      });
    }
    sums.expect(at_most(total.si(), memory.peak.si()) && at_most(memory.peak.si(), total.si()), [&] {
      return fmt::format("rank {}: the categories add up to {}, the peak is {}", rank, to_text(total),
                         to_text(memory.peak));
    });
    for (const MemoryEffect& effect : schedule.role(RankId(rank)).resident) held += effect.bytes;
    resident.expect(at_most(held.si(), memory.peak.si()), [&] {
      return fmt::format("rank {}: resident {}, peak {}", rank, to_text(held), to_text(memory.peak));
    });
  }
  checks.push_back(sums.check());
  checks.push_back(resident.check());
}

}  // namespace

std::vector<Check> check_physics(const RunResult& result, const Schedule& schedule, const Cluster& cluster) {
  std::vector<Check> checks;
  check_spans(result, schedule, cluster, checks);
  check_links(result, cluster.topology, checks);
  check_memory(result, schedule, checks);
  return checks;
}

}  // namespace syncline
