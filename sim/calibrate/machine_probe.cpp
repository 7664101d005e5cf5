#include "sim/calibrate/machine_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "sim/core/error.hpp"

namespace syncline::calibrate {
namespace {

constexpr std::array ProbedOps{NcclOp::AllReduce, NcclOp::AllGather, NcclOp::ReduceScatter, NcclOp::Broadcast,
                               NcclOp::Reduce,    NcclOp::AllToAll,  NcclOp::SendReceive};
constexpr Bytes LeastPart{4};  // of a member: one number

CollectiveKind kind_of(NcclOp op) {
  switch (op) {
    case NcclOp::AllReduce: return CollectiveKind::AllReduce;
    case NcclOp::AllGather: return CollectiveKind::AllGather;
    case NcclOp::ReduceScatter: return CollectiveKind::ReduceScatter;
    case NcclOp::Broadcast: return CollectiveKind::Broadcast;
    case NcclOp::Reduce: return CollectiveKind::Reduce;
    default: return CollectiveKind::AllToAll;
  }
}

/// Every rank with a role of its own; programs grow op by op.
class Sketch {
 public:
  Sketch(std::string name, int world, std::vector<std::string> streams) {
    schedule_.name = std::move(name);
    schedule_.meshes.emplace_back("dense", std::vector<MeshAxis>{{"dp", world}});
    schedule_.streams = std::move(streams);
    for (int rank = 0; rank < world; ++rank) {
      schedule_.roles.push_back({fmt::format("rank{}", rank), {}, {}});
      schedule_.role_of.emplace_back(static_cast<std::size_t>(rank));
    }
  }

  /// Neighbours in groups of so many.
  FamilyId family(int ranks) {
    const std::string name = fmt::format("groups-of-{}", ranks);
    const auto known = std::ranges::find(schedule_.families, name, &GroupFamily::name);
    if (known != schedule_.families.end())
      return FamilyId(static_cast<std::size_t>(known - schedule_.families.begin()));
    const auto world = static_cast<int>(schedule_.world_size());
    std::vector<std::vector<RankId>> groups;
    for (int rank = 0; rank + ranks <= world || rank % ranks != 0; ++rank) {
      if (rank % ranks == 0) groups.emplace_back();
      groups.back().emplace_back(static_cast<std::size_t>(rank));
    }
    schedule_.families.push_back(GroupFamily::listed(name, world, std::move(groups)));
    return FamilyId(schedule_.families.size() - 1);
  }

  WorkId work(const std::string& name, const Kernel& kernel) {
    const auto known = std::ranges::find(schedule_.works, name, &Work::name);
    if (known != schedule_.works.end())
      return WorkId(static_cast<std::size_t>(known - schedule_.works.begin()));
    schedule_.works.push_back({name, {kernel}});
    return WorkId(schedule_.works.size() - 1);
  }
  WorkId fixed(Seconds time) {
    Kernel kernel;
    kernel.kind = KernelClass::Fixed;
    kernel.fixed = time;
    return work(fmt::format("{}us", time.si() * 1e6), kernel);
  }

  OpIndex add(int rank, OpBody body, int stream, Tag tag = {}, std::vector<OpIndex> after = {}) {
    std::vector<Op>& program = schedule_.roles[static_cast<std::size_t>(rank)].program;
    std::ranges::sort(after);
    program.push_back({std::move(body), StreamId(static_cast<std::size_t>(stream)), std::move(tag), std::move(after), {}});
    return OpIndex(program.size() - 1);
  }

  Schedule finish() && { return std::move(schedule_); }

 private:
  Schedule schedule_;
};

Kernel product(Precision precision, int m, int n, int k) {
  Kernel kernel;
  kernel.kind = KernelClass::Gemm;
  kernel.precision = precision;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.flop = Flop(2.0 * m * n * k);
  const double element = precision == Precision::Fp32 || precision == Precision::Tf32 ? 4 : 2;
  kernel.hbm = Bytes(element * (1.0 * m * k + 1.0 * k * n + 1.0 * m * n));
  return kernel;
}

Seconds median(std::vector<Seconds> values) {
  SYNCLINE_CHECK(!values.empty(), "nothing was measured");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::vector<CollectiveProbe> collective_probes(int world, std::span<const Bytes> sizes) {
  std::vector<CollectiveProbe> probes;
  for (const int ranks : world > 2 ? std::vector{2, world} : std::vector{world})
    for (const NcclOp op : ProbedOps)
      for (const Bytes size : sizes)
        if (size / ranks >= LeastPart) probes.push_back({op, ranks, size});
  return probes;
}

Schedule collective_schedule(int world, std::span<const CollectiveProbe> probes, int repeats, Seconds stagger) {
  constexpr int Waiting = 0, Communication = 1, Receiving = 2;
  Sketch sketch("collectives", world, {"waiting", "communication", "receiving"});
  std::vector<std::vector<OpIndex>> before(static_cast<std::size_t>(world));  // by rank: what its next op stands after
  for (std::size_t number = 0; number < probes.size(); ++number) {
    const CollectiveProbe& probe = probes[number];
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (int rank = 0; rank < world / probe.ranks * probe.ranks; ++rank) {
        std::vector<OpIndex>& last = before[static_cast<std::size_t>(rank)];
        const int turn = (rank + repeat) % probe.ranks;
        const Tag tag{Phase::Other, static_cast<int>(number), repeat, -1, "probe"};
        const OpIndex wait = sketch.add(rank, Compute{sketch.fixed(stagger * (1 + turn))}, Waiting, {}, last);
        if (probe.op != NcclOp::SendReceive) {
          Collective collective;
          collective.kind = kind_of(probe.op);
          collective.family = sketch.family(probe.ranks);
          collective.bytes = probe.size;
          last = {sketch.add(rank, collective, Communication, tag, {wait})};
          continue;
        }
        const int first = rank - rank % probe.ranks;
        const int next = first + (rank + 1) % probe.ranks, previous = first + (rank + probe.ranks - 1) % probe.ranks;
        const OpIndex send = sketch.add(rank, Send{{-1, next}, probe.size}, Communication, tag, {wait});
        const OpIndex receive = sketch.add(rank, Receive{{-1, previous}, probe.size}, Receiving, tag, {wait});
        last = {send, receive};
      }
    }
  }
  return std::move(sketch).finish();
}

std::vector<FabricRow> measured_rows(std::span<const CollectiveProbe> probes, int per_node, const Timeline& timeline) {
  struct Instance {
    Seconds come, end;
  };
  std::map<std::tuple<int, int, int>, Instance> instances;  // by probe, repeat and group
  for (const Span& span : timeline.spans) {
    const TimelineOp& op = timeline.ops[span.op];
    if (op.kind != SpanKind::Communication) continue;
    const CollectiveProbe& probe = probes[static_cast<std::size_t>(op.tag.layer)];
    const int group = static_cast<int>(span.rank.value()) / probe.ranks;
    Instance& instance = instances[{op.tag.layer, op.tag.microbatch, group}];
    instance.come = std::max(instance.come, span.start);
    instance.end = std::max(instance.end, span.end);
  }
  std::vector<std::vector<Seconds>> times(probes.size());
  for (const auto& [key, instance] : instances) {
    const auto [probe, repeat, group] = key;
    if (repeat > 0) times[static_cast<std::size_t>(probe)].push_back(instance.end - instance.come);
  }
  std::vector<FabricRow> rows;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const int nodes = (probes[i].ranks + per_node - 1) / per_node;
    rows.push_back({probes[i].op, probes[i].ranks, nodes, probes[i].size, median(times[i]), {}, "measured here", {}});
  }
  return rows;
}

std::string rows_csv(std::span<const FabricRow> rows, const std::string& machine) {
  std::string text = "op,gpu,ranks,nodes,size_bytes,time_us\n";
  for (const FabricRow& row : rows)
    text += fmt::format("{},{},{},{},{:.0f},{:.3f}\n", name_of(row.op), csv_field(machine), row.ranks, row.nodes,
                        row.size.si(), row.time.si() * 1e6);
  return text;
}

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {
constexpr int EmptyOps = 150;    // with the long one under 512 commands: there a host of CUDA waits (backends/cuda)
constexpr Seconds LongOp{0.05};  // all that follow are issued before it ends
}  // namespace

Schedule launch_schedule(int world) {
  Sketch sketch("launches", world, {"compute"});
  sketch.add(0, Compute{sketch.fixed(LongOp)}, 0);
  sketch.add(0, HostWork{}, 0);
  for (int i = 0; i < EmptyOps; ++i) sketch.add(0, Compute{sketch.fixed(Seconds(0))}, 0);
  sketch.add(0, HostWork{}, 0);
  return std::move(sketch).finish();
}

LaunchCost launch_cost(const Timeline& timeline) {
  std::vector<const Span*> marks, empty;
  for (const Span& span : timeline.spans)
    if (span.rank == RankId(0))
      (timeline.ops[span.op].kind == SpanKind::Host ? marks : empty).push_back(&span);
  SYNCLINE_CHECK(marks.size() == 2 && empty.size() == EmptyOps + 1, "not the timeline of the launch schedule");
  std::vector<Seconds> gaps;
  for (std::size_t i = 2; i < empty.size(); ++i) gaps.push_back(empty[i]->start - empty[i - 1]->start);
  return {(marks[1]->start - marks[0]->end) / EmptyOps, median(gaps)};
}

Schedule kernel_schedule(int world, Precision precision, int largest, Bytes pass, int repeats) {
  Sketch sketch("kernels", world, {"compute"});
  std::vector<WorkId> works;
  for (int n = largest; n >= largest / 16; n /= 2)
    for (int k = largest; k >= largest / 16; k /= 2)
      for (const int m : {largest, largest / 4, largest / 16})
        works.push_back(sketch.work(fmt::format("gemm-{}x{}x{}", m, n, k), product(precision, m, n, k)));
  Kernel copy;
  copy.kind = KernelClass::Elementwise;
  copy.precision = precision;
  copy.hbm = pass;
  works.push_back(sketch.work("pass", copy));
  for (const WorkId work : works)
    for (int repeat = 0; repeat < repeats; ++repeat)
      sketch.add(0, Compute{work}, 0, {Phase::Other, static_cast<int>(work.value()), repeat, -1, "probe"});
  return std::move(sketch).finish();
}

MeasuredKernels measured_kernels(const Schedule& schedule, const Timeline& timeline, const std::string& chip) {
  std::vector<std::vector<Seconds>> times(schedule.works.size());
  for (const Span& span : timeline.spans) {
    const int work = timeline.ops[span.op].tag.layer;
    if (work >= 0) times.at(static_cast<std::size_t>(work)).push_back(span.end - span.start);
  }
  MeasuredKernels measured;
  measured.gemm_csv = "chip,kind,m,n,k,dtype,achieved_tflops\n";
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Kernel& kernel = schedule.works[i].kernels.front();
    const Seconds time = median(times[i]);
    if (kernel.kind != KernelClass::Gemm) {
      measured.memory = kernel.hbm / time;
      continue;
    }
    const FlopPerSecond rate = kernel.flop / time;
    measured.best = std::max(measured.best, rate);
    measured.gemm_csv += fmt::format("{},matmul,{},{},{},{},{:.6g}\n", csv_field(chip), kernel.m, kernel.n, kernel.k,
                                     name_of(kernel.precision), rate.si() / 1e12);
  }
  return measured;
}

namespace {
constexpr int Alone = 1, Beside = 2;  // as layer
constexpr int Products = 20;
constexpr int MostCollectives = 50;  // enough to outlast the products
}  // namespace

Schedule interference_schedule(int world, Precision precision, int size, Bytes bytes) {
  Sketch sketch("interference", world, {"compute", "communication"});
  const FamilyId all = sketch.family(world);
  const WorkId work = sketch.work("product", product(precision, size, size, size));
  for (int rank = 0; rank < world; ++rank) {
    OpIndex last;
    for (int i = 0; i < Products; ++i)
      last = sketch.add(rank, Compute{work}, 0, {Phase::Other, Alone, i, -1, "product"});
    for (int i = 0; i < MostCollectives; ++i) {
      Collective collective;
      collective.family = all;
      collective.bytes = bytes;
      sketch.add(rank, collective, 1, {Phase::Other, -1, i, -1, "all-reduce"}, {last});
    }
    for (int i = 0; i < Products; ++i)
      sketch.add(rank, Compute{work}, 0, {Phase::Other, Beside, i, -1, "product"});
  }
  return std::move(sketch).finish();
}

std::optional<double> rate_beside_communication(const Timeline& timeline) {
  Seconds communication_from = timeline.spans.front().end, communication_to;
  for (const Span& span : timeline.spans) {
    if (timeline.ops[span.op].kind != SpanKind::Communication) continue;
    if (communication_to == Seconds(0)) communication_from = span.transfer;
    communication_from = std::min(communication_from, span.transfer);
    communication_to = std::max(communication_to, span.end);
  }
  std::vector<Seconds> alone, beside;
  for (const Span& span : timeline.spans) {
    const int layer = timeline.ops[span.op].tag.layer;
    if (layer == Alone && span.end <= communication_from) alone.push_back(span.end - span.start);
    if (layer == Beside && span.start >= communication_from && span.end <= communication_to)
      beside.push_back(span.end - span.start);
  }
  if (alone.empty() || beside.empty()) return std::nullopt;
  return std::min(1.0, median(alone) / median(beside));
}

}  // namespace syncline::calibrate
