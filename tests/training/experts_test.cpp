// Whole steps of models with experts: who sends what to whom, what is reduced where, and what imbalance costs.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/report/summary.hpp"
#include "sim/schedule/check.hpp"
#include "sim/training/stages.hpp"
#include "tests/training/jobs.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

/// Four layers, of which the first is dense, on `data` ranks, `parallel` of which share experts.
TrainingJob experts(int parallel, int data, int pipeline = 1, int microbatches = 4) {
  TrainingJob job;
  job.model = {.name = "tiny-moe",
               .source = "",
               .layers = 4,
               .hidden = 1024,
               .heads = 16,
               .kv_heads = 16,
               .ffn = 4096,
               .vocabulary = 32000};
  job.model.experts = ExpertSpec{.count = 16, .top_k = 2, .ffn = 2048, .dense_layers = 1};
  job.shape.sequence = 1024;
  job.shape.implementation = Implementation::Megatron;
  job.shape.experts.parallel = parallel;
  job.data_parallel = data;
  job.pipeline_parallel = pipeline;
  job.gradient_accumulation = microbatches;
  job.sharding.kind = DataSharding::Zero1;
  job.routing.node_members = 4;
  return job;
}

RunResult simulate(const Schedule& schedule, RunOptions options = {}) {
  const std::vector<std::string> wrong = check_schedule(schedule, options.fold);
  REQUIRE_MESSAGE(wrong.empty(), wrong.front());
  const Cluster where = star(static_cast<int>(schedule.world_size()), Seconds(0));
  RunResult result = make_simgrid_backend()->run(schedule, where, options);
  for (const Check& check : summarise(result, schedule, where, {}).checks)
    CHECK_MESSAGE(check.violation.empty(), check.name, ": ", check.violation);
  return result;
}

Seconds step_time(const TrainingJob& job) {
  return simulate(training_schedule(job, device())).step_time;
}

double sum(const std::vector<double>& values) {
  double all = 0;
  for (const double value : values) all += value;
  return all;
}

}  // namespace

TEST_SUITE("experts in a training step") {
  TEST_CASE("every dispatched token is combined, by layer and microbatch, in both directions") {
    for (const bool skewed : {false, true}) {
      for (const Dispatch dispatch : {Dispatch::AllToAll, Dispatch::TwoHop}) {
        TrainingJob job = experts(8, 8);
        job.shape.experts.dispatch = dispatch;
        if (skewed) job.routing.routing = moe::Zipf{1.0};
        const Schedule schedule = training_schedule(job, device());
        // Bytes to experts less bytes back, by phase, layer and microbatch.
        std::map<std::tuple<Phase, int, int>, std::pair<int, Bytes>> open;
        for (const Op* op : collectives(schedule, 0, "ep")) {
          const auto& one = std::get<Collective>(op->body);
          auto& [calls, bytes] = open[{op->tag.phase, op->tag.layer, op->tag.microbatch}];
          ++calls;
          const bool home = op->tag.name == "combine" || op->tag.name == "dispatch-gradient";
          bytes += home ? -one.bytes : one.bytes;
          CHECK(one.exchange.has_value() == (skewed || dispatch == Dispatch::TwoHop));
          if (one.exchange) CHECK(one.back == home);
        }
        CHECK(open.size() == 2 * 3 * 4);  // directions, layers with experts, microbatches
        for (const auto& [place, sums] : open) {
          CHECK(sums.first == 2);
          CHECK(sums.second == Bytes(0));
        }
      }
    }
  }

  TEST_CASE("an exchange holds every copy of every token once") {
    TrainingJob job = experts(8, 8);
    job.routing.routing = moe::Zipf{0.8};
    const Schedule schedule = training_schedule(job, device());
    REQUIRE(schedule.exchanges.size() == 3);  // of each layer with experts its own
    for (const Exchange& exchange : schedule.exchanges) {
      CHECK(exchange.members == 8);
      for (int from = 0; from < 8; ++from)
        CHECK(sum({exchange.counts.begin() + from * 8, exchange.counts.begin() + from * 8 + 8}) == 1024 * 2);
    }
    CHECK(schedule.exchanges[0].counts != schedule.exchanges[1].counts);
    REQUIRE(schedule.loads.size() == 3);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      // More tokens, more work; the mean rank has the mean of the work, but for what is the same for all.
      const std::vector<double>& factors = schedule.loads[layer].factors;
      REQUIRE(factors.size() == 8);
      std::vector<double> received(8, 0.0);
      for (std::size_t i = 0; i < 64; ++i) received[i % 8] += schedule.exchanges[layer].counts[i];
      for (std::size_t a = 0; a < 8; ++a)
        for (std::size_t b = 0; b < 8; ++b)
          if (received[a] > received[b]) CHECK(factors[a] >= factors[b]);
      CHECK(sum(factors) / 8 == doctest::Approx(1).epsilon(0.1));
    }
  }

  TEST_CASE("balanced by force: no rank differs, and the step has a closed form in its exchanges") {
    const TrainingJob job = experts(8, 8, 1, 1);
    const Schedule schedule = training_schedule(job, device());
    CHECK(schedule.exchanges.empty());
    CHECK(schedule.loads.empty());
    const RunResult result = simulate(schedule);
    // 1024 tokens · 2 copies · 1024 wide · 2 bytes, 7/8 of them to others, at 100 GB/s.
    const double each = 1024.0 * 2 * 1024 * 2 * 7 / 8 / 100e9;
    int found = 0;
    for (const Span& span : result.timeline.spans) {
      const TimelineOp& op = result.timeline.ops[span.op];
      if (op.tag.name != "dispatch" && op.tag.name != "combine") continue;
      CHECK((span.end - span.transfer).si() == doctest::Approx(each).epsilon(1e-9));
      ++found;
    }
    CHECK(found == 8 * 3 * 2);
  }

  TEST_CASE("with a library of its own an exchange takes what its figures say, and its units of the device") {
    TrainingJob job = experts(8, 8, 1, 1);
    moe::DispatchFigures dispatch;
    dispatch.call = Seconds(20e-6);
    dispatch.inside = BytesPerSecond(10e9);
    moe::DispatchFigures combine = dispatch;
    combine.call = Seconds(30e-6);
    job.routing.library = "slow";
    job.routing.figures = DispatchLibrary{"slow", dispatch, combine, moe::Lanes::None, 0};
    job.routing.node_members = 8;
    job.shape.experts.units = 4;
    const Schedule schedule = training_schedule(job, device());
    CHECK(schedule.libraries == std::vector<std::string>{"slow"});
    const RunResult result = simulate(schedule);
    // As above, at 10 GB/s in place of 100.
    const double bytes = 1024.0 * 2 * 1024 * 2 * 7 / 8 / 10e9;
    int found = 0;
    for (const Span& span : result.timeline.spans) {
      const TimelineOp& op = result.timeline.ops[span.op];
      const bool out = op.tag.name == "dispatch" || op.tag.name == "combine-gradient";
      if (!out && op.tag.name != "combine" && op.tag.name != "dispatch-gradient") continue;
      CHECK((span.end - span.transfer).si() == doctest::Approx(bytes + (out ? 20e-6 : 30e-6)).epsilon(1e-9));
      ++found;
    }
    CHECK(found == 8 * 3 * 4);
    for (const Op* op : collectives(schedule, 0, "ep")) CHECK(std::get<Collective>(op->body).units == 4);
  }

  TEST_CASE("skewed routing costs more than balanced, at equal bytes in all") {
    const TrainingJob even = experts(8, 8);
    TrainingJob skewed = even;
    Seconds before = step_time(even);
    for (const double exponent : {0.4, 0.8, 1.2}) {
      skewed.routing.routing = moe::Zipf{exponent};
      const Seconds now = step_time(skewed);
      CHECK(now > before);
      before = now;
    }
    const auto sent = [](const TrainingJob& job) {
      return bytes_of(collectives(training_schedule(job, device()), 0, "ep")).si();
    };
    CHECK(sent(skewed) == doctest::Approx(sent(even)).epsilon(1e-12));
  }

  TEST_CASE("gradients of experts are reduced by those that hold the same, all others by all") {
    TrainingJob job = experts(4, 8, 2);
    const Schedule schedule = training_schedule(job, device());
    REQUIRE(schedule.meshes.size() == 2);
    CHECK(schedule.meshes[1].name() == "expert");
    const Modules modules(job);
    for (std::size_t stage = 0; stage < 2; ++stage) {
      CAPTURE(stage);
      const double layers = stage == 0 ? 1 : 2;
      const double experts = layers * modules.expert_layer.expert_parameters;
      CHECK(bytes_of(collectives(schedule, stage, "edp", CollectiveKind::ReduceScatter)).si() == 4 * experts);
      CHECK(bytes_of(collectives(schedule, stage, "edp", CollectiveKind::AllGather)).si() == 2 * experts);
      const double dense = stage == 0 ? modules.embedding.parameters + modules.dense_layer.parameters +
                                            modules.expert_layer.parameters
                                      : 2 * modules.expert_layer.parameters + modules.head.parameters;
      CHECK(bytes_of(collectives(schedule, stage, "dp", CollectiveKind::ReduceScatter)).si() ==
            doctest::Approx(4 * dense).epsilon(1e-12));
      // bf16, and fp32 gradients; moments and masters in shards of 8, of experts of 2.
      const Role& role = schedule.roles[stage];
      CHECK(resident(role, MemoryCategory::Parameters).si() == doctest::Approx(2 * (dense + experts)));
      CHECK(resident(role, MemoryCategory::Optimizer).si() ==
            doctest::Approx(12 * (dense / 8 + experts / 2)));
    }
    for (const GroupFamily& family : schedule.families)
      if (family.name() == "edp") CHECK(family.members(GroupId(0)).size() == 2);
  }

  TEST_CASE("two chained optimizers gather all of a rank with experts twice") {
    TrainingJob job = experts(4, 8, 4);  // the first stage has the dense layer alone
    const Schedule once = training_schedule(job, device());
    job.sharding.gather_by_optimizer = true;
    const Schedule twice = training_schedule(job, device());
    CHECK(check_schedule(twice) == std::vector<std::string>{});
    for (std::size_t stage = 0; stage < 4; ++stage) {
      CAPTURE(stage);
      for (const char* group : {"dp", "edp"}) {
        CAPTURE(group);
        const auto gathered = [&](const Schedule& schedule) {
          return bytes_of(collectives(schedule, stage, group, CollectiveKind::AllGather)).si();
        };
        CHECK(gathered(twice) == (stage == 0 ? 1 : 2) * gathered(once));
      }
    }
  }

  TEST_CASE("ranks of experts fold over those of attention") {
    TrainingJob job = experts(4, 4);
    job.shape.tensor_parallel = 4;
    job.shape.sequence_parallel = true;
    const Schedule schedule = training_schedule(job, device());
    const auto family = std::ranges::find(schedule.families, "ep", &GroupFamily::name);
    REQUIRE(family != schedule.families.end());
    // Of 16 ranks in order tp, dp: experts are on 4 that share a layer, and 4 copies of that.
    CHECK(family->group_count() == 4);
    const auto members = family->members(GroupId(0));
    CHECK(std::vector<RankId>(members.begin(), members.end()) ==
          std::vector<RankId>{RankId(0), RankId(1), RankId(2), RankId(3)});
    CHECK(simulate(schedule).step_time > Seconds(0));
  }

  TEST_CASE("fully sharded: experts are gathered by those that hold them, all else by all") {
    for (const int parallel : {1, 2, 8}) {
      CAPTURE(parallel);
      TrainingJob job = experts(parallel, 8);
      job.sharding.kind = DataSharding::Fsdp;
      job.gradient_accumulation = 1;
      const Schedule schedule = training_schedule(job, device());
      const double expert = 16.0 * 3 * 1024 * 2048 / parallel;
      int gathers = 0;
      for (const Op* op : collectives(schedule, 0, "")) {
        if (op->tag.name != "all-gather-experts") continue;
        ++gathers;
        CHECK(std::get<Collective>(op->body).bytes.si() == 2 * expert);
      }
      // Three layers forward, and backward but the last.
      CHECK(gathers == (parallel == 8 ? 0 : 5));
      CHECK(simulate(schedule).step_time > Seconds(0));
    }
  }

  TEST_CASE("a microbatch hides what another one's tokens wait for") {
    for (const auto& [schedule, pipeline] : {std::pair("1f1b", 1), {"1f1b", 2}, {"interleaved-1f1b", 2}}) {
      CAPTURE(schedule);
      TrainingJob job = experts(8, 8, pipeline, 8);
      job.pipeline.schedule = schedule;
      const Seconds apart = step_time(job);
      job.shape.experts.overlap = ExpertOverlap::Batch;
      const Seconds beside = step_time(job);
      CHECK(beside < apart);
      // Compute alone is not shortened.
      TrainingJob free = job;
      free.shape.experts.overlap = ExpertOverlap::None;
      const Schedule made = training_schedule(free, device());
      Seconds compute;
      for (const Op& op : made.roles[0].program)
        if (const auto* body = std::get_if<Compute>(&op.body))
          compute += work_time(made.works[body->work.value()], device());
      CHECK(beside > compute);
    }
  }

  TEST_CASE("DualPipe holds every stage twice, and sums the gradients of both") {
    TrainingJob job = experts(2, 2, 4, 16);
    job.pipeline.schedule = "dualpipe";
    job.shape.experts.overlap = ExpertOverlap::Batch;
    const Schedule schedule = training_schedule(job, device());
    const Modules modules(job);
    double held = 0;
    for (const Role& role : schedule.roles) held += resident(role, MemoryCategory::Parameters).si() / 2;
    const double once = modules.embedding.parameters + modules.head.parameters +
                        modules.dense_layer.parameters +
                        3 * (modules.expert_layer.parameters + modules.expert_layer.expert_parameters);
    CHECK(held == doctest::Approx(2 * once).epsilon(1e-12));
    for (const GroupFamily& family : schedule.families) {
      if (family.name() != "dp-both" && family.name() != "edp-both") continue;
      for (std::size_t group = 0; group < family.group_count(); ++group) {
        std::set<int> stages;
        for (const RankId rank : family.members(GroupId(group)))
          stages.insert(schedule.meshes[0].coordinate(rank, schedule.meshes[0].find_axis("pp")));
        CHECK(stages.size() == 2);
        CHECK(*stages.begin() + *stages.rbegin() == 3);
      }
    }
    TrainingJob v = job;
    v.pipeline.schedule = "dualpipe-v";
    v.pipeline_parallel = 2;
    CHECK(simulate(schedule).step_time > Seconds(0));
    CHECK(simulate(training_schedule(v, device())).step_time > simulate(schedule).step_time);
  }

  TEST_CASE("folded, one rank of a role, and of a place where places differ, plays for all") {
    for (const bool skewed : {false, true}) {
      CAPTURE(skewed);
      TrainingJob job = experts(4, 8, 2);
      if (skewed) job.routing.routing = moe::Zipf{1.0};
      const Schedule schedule = training_schedule(job, device());
      RunOptions folded;
      folded.fold = true;
      const RunResult all = simulate(schedule), few = simulate(schedule, folded);
      CHECK(few.step_time.si() == doctest::Approx(all.step_time.si()).epsilon(skewed ? 0.01 : 1e-9));
      CHECK(few.engine.events < all.engine.events);
      CHECK(few.bytes_sent.si() == doctest::Approx(all.bytes_sent.si()).epsilon(1e-9));
    }
  }

  TEST_CASE("experts are sharded among those that hold them, even where data parallelism is 1") {
    TrainingJob job = experts(4, 1);
    job.shape.tensor_parallel = 8;
    job.shape.sequence_parallel = true;
    const Schedule schedule = training_schedule(job, device());
    const Modules modules(job);
    const double held = 3 * modules.expert_layer.expert_parameters;
    const double dense = modules.embedding.parameters + modules.dense_layer.parameters +
                         3 * modules.expert_layer.parameters + modules.head.parameters;
    // 12 bytes a parameter, of experts in 2 shards (8 ranks, 4 share experts).
    CHECK(resident(schedule.roles[0], MemoryCategory::Optimizer).si() ==
          doctest::Approx(12 * (dense + held / 2)));
  }

  TEST_CASE("DualPipe with one data-parallel rank reduces between the two ranks of a stage") {
    TrainingJob job = experts(1, 1, 4, 16);
    job.pipeline.schedule = "dualpipe";
    const Schedule schedule = training_schedule(job, device());
    CHECK_FALSE(collectives(schedule, 0, "both", CollectiveKind::ReduceScatter).empty());
    CHECK(simulate(schedule).step_time > Seconds(0));
    job.sharding.group = 2;
    CHECK(pipeline_refusal(job).value_or("").find("leave out sharding.group") != std::string::npos);
  }

  TEST_CASE(
      "the host waits before each dispatch of forward, unless experts are padded or it is told not to") {
    const auto waits = [](const TrainingJob& job) {
      int count = 0;
      for (const Op& op : training_schedule(job, device()).roles[0].program)
        if (std::holds_alternative<HostWait>(op.body)) {
          CHECK(op.tag.phase == Phase::Forward);
          CHECK(op.tag.name == "dispatch-host");
          ++count;
        }
      return count;
    };
    TrainingJob job = experts(8, 8);
    CHECK(waits(job) == 3 * 4);  // layers with experts, microbatches
    job.shape.experts.host_waits = false;
    CHECK(waits(job) == 0);
    job.shape.experts.host_waits.reset();
    job.shape.experts.capacity = 1;
    job.shape.experts.pad = true;
    CHECK(waits(job) == 0);
    job.shape.experts.capacity.reset();
    job.shape.experts.pad = false;
    for (const auto& [graphs, expected] : {std::pair{Graphs::Router, 12},
                                           {Graphs::Attention, 12},
                                           {Graphs::WholeLayers, 0},
                                           {Graphs::Step, 0}}) {
      job.shape.graphs = graphs;  // one of whole layers has no room for it
      CHECK(waits(job) == expected);
    }
  }

  TEST_CASE("FLOP that are run are those of copies that experts get, under either sharding") {
    for (const DataSharding kind : {DataSharding::Zero1, DataSharding::Fsdp}) {
      CAPTURE(static_cast<int>(kind));
      TrainingJob job = experts(8, 8);
      job.sharding.kind = kind;
      const Flop all = training_schedule(job, device()).job.hardware_flop;
      job.routing.routing = moe::Zipf{1.2};
      const Schedule dropless = training_schedule(job, device());
      CHECK(dropless.job.hardware_flop.si() ==
            doctest::Approx(all.si()).epsilon(1e-12));  // as many, unevenly
      // Two products of experts with weights of 3 · 1024 · 2048, forward and backward, 2 FLOP each way of a product:
      // 3 layers, 8 ranks, 4 microbatches of 1024 tokens, 2 copies of a token.
      const double of_experts = 3.0 * 8 * 4 * 1024 * 2 * 3 * 2 * (3.0 * 1024 * 2048);
      for (const bool pad : {false, true}) {
        job.shape.experts.capacity = 1.25;
        job.shape.experts.pad = pad;
        double lost = 0;
        for (const int layer : expert_layers(job.model)) {
          const moe::TokenCounts counts = tokens_of_layer(job.model, job.shape, job.routing, layer);
          lost += 1 - static_cast<double>(counts.experts.sum()) / (8 * 1024 * 2);
        }
        CHECK((pad ? lost < 0 : lost > 0.3));
        const Schedule schedule = training_schedule(job, device());
        CHECK(schedule.job.hardware_flop.si() ==
              doctest::Approx(all.si() - of_experts * lost / 3).epsilon(1e-6));
        CHECK(schedule.job.model_flop == dropless.job.model_flop);
      }
    }
  }

  TEST_CASE("tokens gathered for experts take room in backward") {
    TrainingJob job = experts(16, 16);
    job.model.vocabulary = 1024;  // else logits make the peak
    const auto transient = [&](Dispatch dispatch) {
      job.shape.experts.dispatch = dispatch;
      return layer_cost(job.model, job.shape, LayerKind::Experts).transient;
    };
    // 1024 tokens of each of 16 ranks, and 2048 copies that are the rank's own, 1024 wide in 16 bit, in place of the
    // gradients of the experts' products: 2048 · (2 · 2048 + 2 · 1024) numbers.
    const double gathered = (16 * 1024 + 2048) * 1024 * 2.0, gradients = 2048 * 6144 * 2.0;
    CHECK((transient(Dispatch::AllGather) - transient(Dispatch::AllToAll)).si() ==
          doctest::Approx(gathered - gradients));
    const auto peak = [&](Dispatch dispatch) {
      job.shape.experts.dispatch = dispatch;
      Bytes most;
      for (const RankMemory& memory : simulate(training_schedule(job, device())).memory)
        most = std::max(most, memory.peak);
      return most.si();
    };
    CHECK(peak(Dispatch::AllGather) - peak(Dispatch::AllToAll) == doctest::Approx(gathered - gradients));
  }

  TEST_CASE("what experts keep follows the tokens that came, and all of it is given back") {
    TrainingJob job = experts(8, 8);
    job.routing.routing = moe::Zipf{1.0};
    for (const char* pipeline : {"1f1b", "zb-h1"}) {
      CAPTURE(pipeline);
      job.pipeline.schedule = pipeline;
      const Schedule schedule = training_schedule(job, device());
      const ModuleCost layer = layer_cost(job.model, job.shape, LayerKind::Experts);
      Bytes taken, left;
      for (const Op& op : schedule.roles[0].program)
        for (const MemoryEffect& effect : op.memory) {
          if (effect.category != MemoryCategory::Activations) continue;
          left += effect.bytes;
          if (effect.by_load) CHECK(op.load.has_value());
          if (effect.by_load && effect.bytes > Bytes(0)) taken += effect.bytes;
        }
      CHECK(taken.si() == doctest::Approx(3 * 4 * layer.saved_by_load.si()));
      CHECK(std::abs(left.si()) < 1);
      // Tokens in order, gate and up, and their product: 2048 copies of (1024 + 3 · 2048) · 2 bytes.
      CHECK(layer.saved_by_load == Bytes(2048.0 * (1024 + 3 * 2048) * 2));
    }
    // Of a balanced run nothing is by load.
    job.routing.routing = moe::Balanced{};
    const Schedule schedule = training_schedule(job, device());
    for (const Op& op : schedule.roles[0].program)
      for (const MemoryEffect& effect : op.memory) CHECK_FALSE(effect.by_load);
  }

  TEST_CASE("fully sharded, shared experts run beside dispatch and its gradient too") {
    TrainingJob job = experts(8, 8);
    job.model.experts->shared_ffn = 2048;
    job.sharding.kind = DataSharding::Fsdp;
    const Seconds apart = step_time(job);
    job.shape.experts.overlap = ExpertOverlap::SharedExperts;
    CHECK(step_time(job) < apart);
    const Schedule schedule = training_schedule(job, device());
    const std::vector<Op>& ops = schedule.roles[0].program;
    // What follows the shared experts stands after the exchange that they ran beside.
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].tag.name != "dispatch-gradient") continue;
      std::size_t waiting = 0;
      for (std::size_t j = i + 1; j < ops.size() && ops[j].tag.layer == ops[i].tag.layer; ++j)
        waiting += std::ranges::count(ops[j].after, OpIndex(i));
      CHECK(waiting > 0);
      CHECK(std::ranges::count(ops[i + 1].after, OpIndex(i)) == 0);
    }
  }
}
