#include "tests/report/example_run.hpp"

#include <array>

#include "tests/timeline/example.hpp"

namespace syncline::test {
namespace {

using namespace syncline::literals;

constexpr std::size_t Ranks = 4;

LinkSpec link(BytesPerSecond bandwidth) {
  LinkSpec spec;
  spec.bandwidth = bandwidth;
  spec.latency = 1_us;
  return spec;
}

// Forward links have even ids in the order added: 0 gpu0 → switch0, 2 gpu0 → nic0, 4 nic0 → leaf, 6 gpu1 → switch0 ...
Topology two_nodes() {
  Shape shape;
  shape.accelerators_per_node = shape.nics_per_node = 2;
  Topology topology("two-nodes", shape);
  const VertexId leaf = topology.add_vertex(VertexKind::Switch, "leaf0", 0, 1);
  for (std::uint32_t node = 0; node < 2; ++node) {
    const std::string name = "node" + std::to_string(node);
    const VertexId inside = topology.add_vertex(VertexKind::Switch, name + ".switch", node);
    for (int i = 0; i < 2; ++i) {
      const VertexId gpu =
          topology.add_vertex(VertexKind::Accelerator, name + ".gpu" + std::to_string(i), node);
      const VertexId nic = topology.add_vertex(VertexKind::Nic, name + ".nic" + std::to_string(i), node);
      topology.add_cable(gpu, inside, link(100_GBps), LinkKind::ScaleUp);
      topology.add_cable(gpu, nic, link(50_GBps), LinkKind::HostBus);
      topology.add_cable(nic, leaf, link(50_GBps), LinkKind::ScaleOut);
    }
  }
  return topology;
}

Device small_device() {
  Device device;
  device.name = "toy";
  device.peak[Precision::Bf16] = 100_TFLOPps;
  device.memory = 10_GB;
  device.hbm_bandwidth = BytesPerSecond(1e12);
  return device;
}

// Links that one accelerator's traffic to the next takes; see two_nodes().
std::vector<LinkId> hop(std::size_t from, std::size_t to, bool inside) {
  if (inside) return {LinkId(6 * from), LinkId(6 * to + 1)};
  return {LinkId(6 * from + 2), LinkId(6 * from + 4), LinkId(6 * to + 5), LinkId(6 * to + 3)};
}

WorkId add_work(Schedule& schedule, const char* name, Flop flop) {
  Work& work = schedule.works.emplace_back();
  work.name = name;
  Kernel& kernel = work.kernels.emplace_back();
  kernel.kind = KernelClass::Gemm;
  kernel.flop = flop;
  return WorkId(schedule.works.size() - 1);
}

Op& add_op(Schedule& schedule, OpBody body, const char* stream, Tag op_tag) {
  Op& op = schedule.roles.front().program.emplace_back();
  op.body = body;
  for (std::size_t i = 0; i < schedule.streams.size(); ++i)
    if (schedule.streams[i] == stream) op.stream = StreamId(i);
  op.tag = std::move(op_tag);
  return op;
}

Schedule bare_schedule() {
  Schedule schedule;
  schedule.name = "example";
  schedule.streams = {"compute", "gather", "reduce"};
  schedule.meshes.emplace_back("dense", std::vector<MeshAxis>{{"dp", Ranks}});
  schedule.roles.push_back(
      {"all", {}, {{MemoryCategory::Parameters, 1_GB}, {MemoryCategory::Optimizer, 2_GB}}});
  schedule.role_of.assign(Ranks, RoleId(0));
  schedule.job = {4000, 120_TFLOP, 140_TFLOP, Precision::Bf16};
  return schedule;
}

struct Times {
  double start, transfer, end;  // ms
};

ExampleRun bare_run() {
  ExampleRun run{{two_nodes(), small_device(), placement_in_order(Ranks)}, bare_schedule(), {}, {}};
  run.context.title = "Does a small step come out right?";
  run.context.scenario = "example";
  run.context.version = "1.2.3";
  run.context.hash = 0xabc;
  run.context.seed = 7;
  run.result.engine = {"by hand", 0.25, 40, 24};
  return run;
}

void add_spans(ExampleRun& run, std::size_t rank, const std::vector<Times>& times) {
  for (std::uint32_t op = 0; op < times.size(); ++op)
    run.result.timeline.spans.push_back({RankId(rank), op, Seconds(times[op].start / 1e3),
                                         Seconds(times[op].transfer / 1e3), Seconds(times[op].end / 1e3)});
}

void finish(ExampleRun& run, double step_ms) {
  run.result.step_time = Seconds(step_ms / 1e3);
  run.result.timeline.source = "by hand";
  run.result.timeline.ranks = Ranks;
  run.result.timeline.streams = run.schedule.streams;
  run.result.timeline.ops = timeline_ops(run.schedule);
  RankMemory memory;
  memory.peak = 9_GB;
  memory.peak_time = 240_ms;
  memory.peak_op = static_cast<std::uint32_t>(run.result.timeline.ops.size() > 2 ? 2 : 1);
  memory.at_peak = {1_GB, 3_GB, 1_GB, 2_GB, 2_GB, 0_B, 0_B};
  run.result.memory.assign(Ranks, memory);
}

ExampleRun run_with_groups(const char* family, std::vector<std::vector<RankId>> groups, std::size_t nodes,
                           Bytes between_nodes) {
  ExampleRun run = bare_run();
  Schedule& schedule = run.schedule;
  const std::size_t members = groups.front().size();
  schedule.families.push_back(GroupFamily::listed(family, Ranks, groups));
  const auto collective = [](CollectiveKind kind) {
    Collective body;
    body.kind = kind;
    body.bytes = 1_GB;
    return body;
  };
  add_op(schedule, collective(CollectiveKind::AllGather), "gather", tag(Phase::Forward, 0));
  add_op(schedule, Compute{add_work(schedule, "layer-forward", 10_TFLOP)}, "compute", tag(Phase::Forward, 0));
  add_op(schedule, Compute{add_work(schedule, "layer-backward", 20_TFLOP)}, "compute",
         tag(Phase::Backward, 0));
  add_op(schedule, collective(CollectiveKind::ReduceScatter), "reduce", tag(Phase::Backward, 0));
  add_op(schedule, Compute{add_work(schedule, "optimizer", 0_TFLOP)}, "compute", tag(Phase::Optimizer));
  for (std::size_t rank = 0; rank < Ranks; ++rank)
    add_spans(
        run, rank,
        {{rank == 0 ? 0.0 : 10.0, 10, 40}, {40, 40, 240}, {240, 240, 640}, {620, 620, 660}, {660, 660, 700}});
  finish(run, 700);

  // A ring: each rank passes (n − 1)/n of 1 GB to the next, in both collectives.
  std::array<Bytes, 24> carried{};
  for (const auto& group : groups) {
    for (std::size_t i = 0; i < members; ++i) {
      const std::size_t from = group[i].value(), to = group[(i + 1) % members].value();
      for (const LinkId id : hop(from, to, from / 2 == to / 2))
        carried[id.value()] += 2 * (1_GB * (static_cast<double>(members - 1) / static_cast<double>(members)));
    }
  }
  for (std::size_t id = 0; id < carried.size(); ++id)
    if (carried[id] > 0_B) run.result.links.push_back({LinkId(id), carried[id]});
  for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
    run.result.collectives.push_back({kind, family, 1_GB, members, Algorithm::Ring, 1, groups.size(),
                                      between_nodes, between_nodes * static_cast<double>(groups.size()),
                                      nodes});
  run.result.bytes_sent = 2 * 1_GB * static_cast<double>((members - 1) * groups.size());
  return run;
}

}  // namespace

ExampleRun example_run() {
  ExampleRun run = run_with_groups("dp", {{RankId(0), RankId(1), RankId(2), RankId(3)}}, 2, 1.5_GB);
  run.context.published = {{"tokens-per-s-per-accelerator", 1500, 4, "by hand, table 1"},
                           {"mfu", 0.4, 8, "by hand, table 2"}};
  run.context.expect = {{"step-time", 0.7, 0.01, {}, {}}, {"bubble-fraction", {}, {}, {}, 0.05}};
  return run;
}

ExampleRun run_inside_nodes() {
  return run_with_groups("tp", {{RankId(0), RankId(1)}, {RankId(2), RankId(3)}}, 1, 0_B);
}

ExampleRun run_without_communication() {
  ExampleRun run = bare_run();
  add_op(run.schedule, Compute{add_work(run.schedule, "layer-forward", 10_TFLOP)}, "compute",
         tag(Phase::Forward, 0));
  add_op(run.schedule, Compute{add_work(run.schedule, "layer-backward", 20_TFLOP)}, "compute",
         tag(Phase::Backward, 0));
  for (std::size_t rank = 0; rank < Ranks; ++rank) add_spans(run, rank, {{0, 0, 200}, {200, 200, 600}});
  finish(run, 600);
  return run;
}

}  // namespace syncline::test
