// The ladder of data sharding: what is sent, when, and what is held.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/schedule/check.hpp"
#include "sim/sharding/groups.hpp"
#include "sim/training/stages.hpp"
#include "tests/training/jobs.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

struct Kind {
  const char* name;
  DataSharding kind;
};
constexpr Kind Kinds[]{{"ddp", DataSharding::Ddp},
                       {"zero-1", DataSharding::Zero1},
                       {"zero-2", DataSharding::Zero2},
                       {"fsdp", DataSharding::Fsdp}};

TrainingJob sharded(DataSharding kind, int data, int microbatches = 1) {
  TrainingJob job = gpt(1, 1, data, microbatches);
  job.sharding.kind = kind;
  return job;
}

std::size_t count(const std::vector<const Op*>& ops) {
  return ops.size();
}

std::vector<std::string> names(const GroupFamily& family) {
  return family.axes();
}

}  // namespace

TEST_SUITE("groups") {
  TEST_CASE("data-parallel ranks are one axis, or two where there are several sets of shards") {
    const Groups whole = groups_of({2, 1, 8, 2, 8});
    CHECK(whole.mesh.axes() == std::vector<MeshAxis>{{"tp", 2}, {"cp", 1}, {"dp", 8}, {"pp", 2}});
    CHECK(whole.shard == whole.data);
    CHECK_FALSE(whole.replicate);
    CHECK(whole.families[whole.norm->value()].group_count() == 1);  // all hold different gradients

    const Groups hybrid = groups_of({2, 2, 8, 2, 8});
    CHECK(hybrid.mesh.axes() ==
          std::vector<MeshAxis>{{"tp", 2}, {"cp", 2}, {"dp-shard", 4}, {"dp-replicate", 2}, {"pp", 2}});
    CHECK(names(hybrid.families[hybrid.shard->value()]) == std::vector<std::string>{"cp", "dp-shard"});
    CHECK(names(hybrid.families[hybrid.replicate->value()]) == std::vector<std::string>{"dp-replicate"});
    CHECK(hybrid.families[hybrid.norm->value()].group_count() == 2);  // one for each replica
    CHECK(hybrid.replicas == 2);
  }

  TEST_CASE("families of one rank a group are left out, and equal ones are the same") {
    const Groups alone = groups_of({1, 1, 1, 1, 1});
    CHECK(alone.families.empty());
    const Groups data = groups_of({1, 1, 8, 1, 8});
    CHECK(data.families.size() == 1);
    CHECK(data.norm == data.shard);
    CHECK(groups_of({1, 4, 1, 1, 1}).families.front().name() == "cp");  // gradients are summed over cp alone
  }

  TEST_CASE("axes stand in the order that is asked for, the fastest first") {
    const Groups groups = groups_of({2, 1, 4, 2, 1, {"pp", "tp", "dp", "cp"}});
    CHECK(groups.mesh.axes() == std::vector<MeshAxis>{{"pp", 2}, {"tp", 2}, {"dp", 4}, {"cp", 1}});
    const GroupFamily& tensor = groups.families[groups.tensor->value()];
    CHECK(std::ranges::equal(tensor.members(GroupId(0)),
                             std::vector{RankId(0), RankId(2)}));  // pp is between them
    CHECK(groups_of({2, 2, 8, 2, 8, {"dp", "cp", "tp", "pp"}}).mesh.axes() ==
          std::vector<MeshAxis>{{"dp-shard", 4}, {"dp-replicate", 2}, {"cp", 2}, {"tp", 2}, {"pp", 2}});
  }

  TEST_CASE("the order of axes moves ranks about, and changes nothing of what is computed and sent") {
    TrainingJob job = gpt(2, 2, 4, 4);
    const Schedule plain = training_schedule(job, device());
    job.order = {"pp", "dp", "cp", "tp"};
    const Schedule turned = training_schedule(job, device());
    CHECK(check_schedule(turned).empty());
    REQUIRE(turned.roles.size() == plain.roles.size());
    for (std::size_t role = 0; role < plain.roles.size(); ++role) {
      CHECK(turned.roles[role].resident == plain.roles[role].resident);
      CHECK(turned.roles[role].program.size() == plain.roles[role].program.size());
    }
    CHECK(turned.role_of != plain.role_of);
  }

  TEST_CASE("a shard group takes whole context-parallel groups") {
    CHECK_THROWS_AS(groups_of({1, 4, 4, 1, 2}), std::logic_error);
    CHECK_THROWS_AS(groups_of({1, 1, 6, 1, 4}), std::logic_error);
  }
}

TEST_SUITE("sharding: volume") {
  TEST_CASE("a step sends 2Ψ by ddp, zero-1 and zero-2, and 3Ψ by fsdp") {
    // Rajbhandari et al., arXiv 1910.02054, section 7: in bytes of fp16, times (n − 1)/n. Fsdp gathers what
    // it keeps between forward and backward once: the root (table, positions, last norm) and the last layer.
    const TrainingJob any = gpt(1, 1, 1, 1);
    const double all = parameter_count(any.model), layer = layer_cost(any.model, any.shape).parameters;
    const double root = all - 8 * layer;
    struct Row {
      DataSharding kind;
      double parameters;
    };
    for (const Row& row : {Row{DataSharding::Ddp, 2 * all},
                           {DataSharding::Zero1, 2 * all},
                           {DataSharding::Zero2, 2 * all},
                           {DataSharding::Fsdp, 3 * all - root - layer}})
      for (const int ranks : {2, 8, 64}) {
        CAPTURE(static_cast<int>(row.kind));
        TrainingJob job = sharded(row.kind, ranks);
        job.sharding.fsdp.reduce_precision = Precision::Fp16;
        const double expected = row.parameters * 2 * (ranks - 1) / ranks;
        CHECK(sent_between_replicas(training_schedule(job, device())) ==
              doctest::Approx(expected).epsilon(1e-12));
      }
  }

  TEST_CASE("buckets change the number of reductions, not their bytes") {
    TrainingJob job = sharded(DataSharding::Ddp, 4);
    const Schedule one = training_schedule(job, device());
    CHECK(count(collectives(one, 0, "dp", CollectiveKind::AllReduce)) == 1);
    job.sharding.bucket = Bytes(100e6);
    const Schedule some = training_schedule(job, device());
    // A layer has 12 · 1024² + 13 · 1024 parameters, 50.4 MB in fp32: head, layers 7 and 6 (100.8 MB with the
    // norm) | 5, 4 | 3, 2 | 1, 0 | embedding.
    CHECK(count(collectives(some, 0, "dp", CollectiveKind::AllReduce)) == 5);
    CHECK(sent_between_replicas(some) == doctest::Approx(sent_between_replicas(one)).epsilon(1e-12));
  }

  TEST_CASE("gradients that accumulate are sent once, and once a microbatch where they are synchronised") {
    constexpr int Microbatches = 4;
    struct Row {
      DataSharding kind;
      bool always;
      double reductions;  // of the one's bytes
    };
    for (const Row& row : {Row{DataSharding::Ddp, false, 1},
                           {DataSharding::Ddp, true, Microbatches},
                           {DataSharding::Zero1, false, 1},
                           {DataSharding::Zero1, true, Microbatches},
                           {DataSharding::Zero2, true, Microbatches},
                           {DataSharding::Fsdp, false, 1},
                           {DataSharding::Fsdp, true, Microbatches}}) {
      CAPTURE(static_cast<int>(row.kind));
      CAPTURE(row.always);
      TrainingJob job = sharded(row.kind, 4, Microbatches);
      job.sharding.reduce_every_microbatch = row.always;
      const Schedule made = training_schedule(job, device());
      const auto kind =
          row.kind == DataSharding::Ddp ? CollectiveKind::AllReduce : CollectiveKind::ReduceScatter;
      const double gradients = 4 * parameter_count(job.model);  // fp32
      CHECK(bytes_of(collectives(made, 0, "dp", kind)).si() ==
            doctest::Approx(row.reductions * gradients).epsilon(1e-6));  // ... and the norm's 4 bytes
    }
  }

  TEST_CASE("replicas of a set of shards sum a shard's gradients, and gather nothing") {
    // 8 ranks in 2 sets of 4: reduce-scatter (and gathers) of all over 4, all-reduce of a quarter over 2.
    for (const DataSharding kind : {DataSharding::Zero1, DataSharding::Fsdp}) {
      TrainingJob job = sharded(kind, 8);
      job.sharding.group = 4;
      const Schedule made = training_schedule(job, device());
      const double gradients = 4 * parameter_count(job.model);
      CHECK(bytes_of(collectives(made, 0, "dp-shard", CollectiveKind::ReduceScatter)).si() ==
            doctest::Approx(gradients));
      CHECK(bytes_of(collectives(made, 0, "dp-replicate", CollectiveKind::AllReduce)).si() ==
            doctest::Approx(gradients / 4));
      CHECK(count(collectives(made, 0, "dp-replicate", CollectiveKind::AllGather)) == 0);
      CHECK(count(collectives(made, 0, "dp-shard", CollectiveKind::AllGather)) > 0);
    }
  }

  TEST_CASE("fsdp in a pipeline gathers once a step, whatever the microbatches") {
    // Stages of 2 layers; the first has the embedding, the last the head.
    TrainingJob job = gpt(1, 4, 2, 8);
    job.sharding.kind = DataSharding::Fsdp;
    const Schedule made = training_schedule(job, device());
    const std::vector<std::size_t> units{3, 2, 2, 3};
    for (std::size_t role = 0; role < 4; ++role) {
      CHECK(count(collectives(made, role, "dp", CollectiveKind::AllGather)) == units[role]);
      CHECK(count(collectives(made, role, "dp", CollectiveKind::ReduceScatter)) == units[role]);
    }
    job.sharding.reduce_every_microbatch = true;
    CHECK(count(collectives(training_schedule(job, device()), 1, "dp", CollectiveKind::ReduceScatter)) ==
          2 * 8);
  }

  TEST_CASE("norms and outer biases are summed over tensor-parallel ranks where each has its own tokens") {
    // A layer: 4h of two LayerNorms, 2h of biases; the last norm 2h. 1024 wide, fp32.
    for (const bool sequence_parallel : {false, true}) {
      TrainingJob job = gpt(2, 2, 2, 4);
      job.shape.sequence_parallel = sequence_parallel;
      const Schedule made = training_schedule(job, device());
      const auto named = [&](std::size_t role) {
        double bytes = 0;
        for (const Op* op : collectives(made, role, "tp"))
          if (op->tag.name == "all-reduce-replicated") bytes += std::get<Collective>(op->body).bytes.si();
        return bytes;
      };
      CHECK(named(0) == (sequence_parallel ? 4 * 4 * 6 * 1024.0 : 0));
      CHECK(named(1) == (sequence_parallel ? 4 * (4 * 6 + 2) * 1024.0 : 0));
    }
  }

  TEST_CASE("tensor-parallel ranks send as many bytes a layer with sequence parallelism as without") {
    // S = s·b·h·2 = 2 MiB. Without: 2 all-reduces forward, 2 backward. With: an all-gather and a
    // reduce-scatter in place of each, and 2 all-gathers more for the gradients of the weights (Korthikanti
    // et al., section 4.2.2).
    constexpr double Mebi = 1048576;
    for (const bool sequence_parallel : {false, true}) {
      TrainingJob job = gpt(4, 1, 2, 1);
      job.shape.recompute = Recompute::None;
      job.shape.sequence_parallel = sequence_parallel;
      const Schedule made = training_schedule(job, device());
      double sent = 0, bytes = 0;
      for (const Op* op : collectives(made, 0, "tp")) {
        if (op->tag.layer < 0) continue;
        const auto& one = std::get<Collective>(op->body);
        bytes += one.bytes.si();
        sent += one.bytes.si() * (one.kind == CollectiveKind::AllReduce ? 2 : 1);
      }
      CHECK(bytes == 8 * (sequence_parallel ? 10 : 4) * 2 * Mebi);
      CHECK(sent == 8 * (sequence_parallel ? 10 : 8) * 2 * Mebi);
    }
  }

  TEST_CASE("context-parallel ranks exchange keys and values, and reduce with the data-parallel ones") {
    // 4 ranks of 256 tokens; k and v of a rank: 256 · 2 · 1024 · 2 bytes = 1 MiB, q and the output half of
    // that each.
    constexpr double Mebi = 1048576;
    struct Row {
      ContextExchange exchange;
      double bytes;  // of a layer
    };
    for (const Row& row :
         {Row{ContextExchange::Ring, 3 * 3 * 1 * Mebi},  // 3 passed on, backward twice as many
          {ContextExchange::AllGather, 3 * 4 * Mebi},    // of all ranks: 2 gathers, their gradient
          {ContextExchange::AllToAll, 2 * 2 * Mebi}}) {  // q, k, v, the output; and back
      TrainingJob job = gpt(1, 1, 2, 1);
      job.shape.recompute = Recompute::None;
      job.shape.attention = AttentionKernels::Flash;
      job.shape.context_parallel = 4;
      job.shape.context_exchange = row.exchange;
      const Schedule made = training_schedule(job, device());
      CHECK(bytes_of(collectives(made, 0, "cp")).si() == 8 * row.bytes);
      const auto reductions = collectives(made, 0, "dp-cp", CollectiveKind::AllReduce);
      CHECK(bytes_of(reductions).si() == doctest::Approx(4 * parameter_count(job.model)));
      CHECK(made.families[std::get<Collective>(reductions.front()->body).family.value()].group_count() == 1);
      CHECK(made.job.tokens == 2 * 1024);
    }
  }

  TEST_CASE("frozen weights are not reduced, and have no optimizer") {
    for (const Kind& kind : Kinds)
      for (const int pipeline : {1, 2}) {
        CAPTURE(kind.name);
        TrainingJob job = gpt(2, pipeline, 2, 4);
        job.sharding.kind = kind.kind;
        job.shape.frozen = true;
        const Schedule made = training_schedule(job, device());
        CHECK(check_schedule(made) == std::vector<std::string>{});
        CHECK(collectives(made, 0, "dp", CollectiveKind::AllReduce).empty());
        CHECK(collectives(made, 0, "dp", CollectiveKind::ReduceScatter).empty());
        CHECK(resident(made.roles[0], MemoryCategory::Optimizer) == Bytes(0));
        CHECK(resident(made.roles[0], MemoryCategory::Gradients) == Bytes(0));
        CHECK(collectives(made, 0, "dp").empty() ==
              (kind.kind != DataSharding::Fsdp));  // weights are gathered
      }
  }
}

TEST_SUITE("sharding: order") {
  /// Position of the first op of that name and layer.
  std::size_t find(const std::vector<Op>& program, std::string_view name, int layer) {
    const auto found = std::ranges::find_if(
        program, [&](const Op& op) { return op.tag.name.starts_with(name) && op.tag.layer == layer; });
    REQUIRE(found != program.end());
    return static_cast<std::size_t>(found - program.begin());
  }

  TEST_CASE("a full bucket is reduced while the layers before it still go backward") {
    TrainingJob job = sharded(DataSharding::Ddp, 4, 2);
    job.sharding.bucket = Bytes(50e6);  // a layer each
    const auto program = training_schedule(job, device()).roles[0].program;
    const std::size_t third = find(program, "all-reduce-gradients", 3);
    REQUIRE(program[third].after.size() == 1);
    const Op& before = program[program[third].after.front().value()];
    CHECK(before.tag.layer == 3);
    CHECK(before.tag.phase == Phase::Backward);
    CHECK(before.tag.microbatch == 1);         // the last one
    CHECK(program[third + 1].tag.layer == 2);  // goes on without it
    for (const OpIndex earlier : program[third + 1].after) CHECK(earlier.value() != third);

    job.sharding.overlap_reduction = false;
    const auto apart = training_schedule(job, device()).roles[0].program;
    const std::size_t first = find(apart, "all-reduce-gradients", 7);
    for (std::size_t i = first; i < apart.size(); ++i) CHECK(apart[i].tag.name != "layer");
  }

  TEST_CASE("the update waits for every reduction") {
    for (const DataSharding kind : {DataSharding::Ddp, DataSharding::Zero1, DataSharding::Zero2}) {
      TrainingJob job = sharded(kind, 4);
      job.sharding.bucket = Bytes(50e6);
      const auto program = training_schedule(job, device()).roles[0].program;
      const std::size_t norm = find(program, "gradient-norm", -1);
      std::size_t waited = 0;
      for (const OpIndex earlier : program[norm].after)
        waited += std::holds_alternative<Collective>(program[earlier.value()].body);
      CHECK(waited == 9);  // eight layers, the last with the head's norm, and the embedding
    }
  }

  TEST_CASE("passes over all gradients take four readings or writings of them, two on one rank") {
    // Of so many parameters, 4 bytes each: cleared, searched, and where there are more ranks read and written to scale.
    for (const int ranks : {1, 4}) {
      CAPTURE(ranks);
      TrainingJob job = sharded(DataSharding::Zero1, ranks);
      if (ranks == 1) job.sharding.kind = DataSharding::Ddp;
      const Schedule without = training_schedule(job, device());
      job.sharding.gradient_passes = true;
      const Schedule with = training_schedule(job, device());
      CHECK(check_schedule(with) == std::vector<std::string>{});
      const auto& program = with.roles[0].program;
      CHECK(program.size() == without.roles[0].program.size() + 2);
      const std::size_t passes = find(program, "gradient-passes", -1);
      const Compute& compute = std::get<Compute>(program[passes].body);
      const double bytes = with.works[compute.work.value()].kernels[0].hbm.si();
      CHECK(bytes == doctest::Approx((ranks == 1 ? 8 : 16) * parameter_count(job.model)));
      // Behind the norm those that the rank updates are read and written once more.
      const std::size_t clipping = find(program, "gradient-clipping", -1);
      CHECK(clipping > find(program, "gradient-norm", -1));
      CHECK(clipping < find(program, "optimizer", -1));
      const Compute& clip = std::get<Compute>(program[clipping].body);
      CHECK(with.works[clip.work.value()].kernels[0].hbm.si() ==
            doctest::Approx(8. / ranks * parameter_count(job.model)));
    }
  }

  TEST_CASE("the optimizer's own copy is read, or written beside the update") {
    // Of a parameter: gradient read; parameter and moments read and written; 2 bytes of the copy written, before which
    // Megatron-LM reads the parameter once more.
    for (const auto& [implementation, bytes] :
         {std::pair{Implementation::Torchtitan, 4. + 24 + 2}, {Implementation::Megatron, 4. + 24 + 6}}) {
      TrainingJob job = sharded(DataSharding::Zero1, 4);
      job.sharding.fsdp.reduce_precision = Precision::Fp32;
      job.shape.implementation = implementation;
      const Schedule schedule = training_schedule(job, device());
      const auto& program = schedule.roles[0].program;
      const Compute& update = std::get<Compute>(program[find(program, "optimizer", -1)].body);
      CHECK(schedule.works[update.work.value()].kernels[0].hbm.si() ==
            doctest::Approx(bytes / 4 * parameter_count(job.model)));
    }
  }

  TEST_CASE("Megatron casts all its narrow weights once a step") {
    TrainingJob job = sharded(DataSharding::Zero1, 4, 2);
    job.shape.implementation = Implementation::Megatron;
    const auto casts = [](const Schedule& schedule) {
      double bytes = 0;
      for (const Op& op : schedule.roles[0].program)
        if (const auto* compute = std::get_if<Compute>(&op.body); compute && op.tag.name == "weight-casts")
          bytes += schedule.works[compute->work.value()].kernels[0].hbm.si();
      return bytes;
    };
    CHECK(casts(training_schedule(job, device())) == 0);
    job.shape.linear = Precision::Fp8;
    job.shape.scaling = Scaling::Tensor;
    Device narrow = device();
    narrow.peak[Precision::Fp8] = FlopPerSecond(200e12);
    // 2 bytes read, 2 of 1 written; of layers alone, 12 h² + 13 h each.
    CHECK(casts(training_schedule(job, narrow)) == doctest::Approx(4 * 8 * (12. * 1024 * 1024 + 13 * 1024)));
    job.sharding.kind = DataSharding::Fsdp;  // with each product
    CHECK(casts(training_schedule(job, narrow)) == 0);
    job.pipeline_parallel = 2;
    CHECK(casts(training_schedule(job, narrow)) == 0);
  }

  TEST_CASE("parameters gathered beside forward are awaited by the layers of their bucket") {
    TrainingJob job = sharded(DataSharding::Zero1, 4, 2);
    job.sharding.bucket = Bytes(50e6);
    job.sharding.overlap_gather = true;
    const auto program = training_schedule(job, device()).roles[0].program;
    const std::size_t gather = find(program, "all-gather", 5);
    CHECK(program[gather].after.empty());
    const std::size_t layer = find(program, "layer", 5);
    CHECK(std::ranges::count(program[layer].after, OpIndex(gather)) == 1);
    CHECK(program.back().tag.name == "optimizer");

    job.sharding.overlap_gather = false;
    const auto after = training_schedule(job, device()).roles[0].program;
    CHECK(after.back().tag.name == "all-gather");
    CHECK(after.back().tag.phase == Phase::Optimizer);
  }
}

TEST_SUITE("sharding: memory") {
  TEST_CASE("7.5 G parameters on 64 ranks hold 120, 31.4, 16.6 and 1.9 GB of states") {
    // Rajbhandari et al., arXiv 1910.02054, figure 1: 2 + 2 + 12 bytes a parameter. Fsdp's parameters are the
    // optimizer's: 4 + 8, and 4 of gradients in fp32, 16 as well.
    struct Row {
      DataSharding kind;
      Precision reduce;
      double gigabytes;
    };
    for (const Row& row : {Row{DataSharding::Ddp, Precision::Fp16, 120.0},
                           {DataSharding::Zero1, Precision::Fp16, 31.4},   // 4 + 12/64
                           {DataSharding::Zero2, Precision::Fp16, 16.6},   // 2 + 14/64
                           {DataSharding::Fsdp, Precision::Fp32, 1.9}}) {  // 16/64
      CAPTURE(row.gigabytes);
      TrainingJob job = sharded(row.kind, 64);
      job.sharding.fsdp.reduce_precision = row.reduce;
      const double a_parameter =
          states_at_update(training_schedule(job, device()).roles[0]) / parameter_count(job.model);
      CHECK(a_parameter * 7.5 == doctest::Approx(row.gigabytes).epsilon(0.02 / row.gigabytes + 0.002));
    }
  }

  TEST_CASE("every combination is sound, holds nothing negative, and ends with what is resident") {
    for (const Kind& kind : Kinds)
      for (const auto& [tensor, context, pipeline, data] : {std::array{1, 1, 1, 4},
                                                            {2, 1, 1, 2},
                                                            {2, 1, 2, 2},
                                                            {1, 1, 4, 2},
                                                            {2, 1, 4, 1},
                                                            {1, 1, 2, 4},
                                                            {1, 2, 1, 2},
                                                            {2, 2, 2, 2},
                                                            {1, 4, 1, 1}})
        for (const int group : {0, 2})
          for (const bool overlap : {true, false})
            for (const bool always : {false, true}) {
              const bool hybrid = group > 0;
              if (hybrid && (kind.kind == DataSharding::Ddp || data < 4 / context || context > 2)) continue;
              if (kind.kind == DataSharding::Zero2 && !always) continue;
              CAPTURE(kind.name);
              CAPTURE(tensor);
              CAPTURE(context);
              CAPTURE(pipeline);
              CAPTURE(data);
              CAPTURE(group);
              CAPTURE(overlap);
              CAPTURE(always);
              TrainingJob job = gpt(tensor, pipeline, data, 4);
              job.shape.context_parallel = context;
              job.shape.context_exchange = overlap ? ContextExchange::Ring : ContextExchange::AllGather;
              if (context > 1) job.shape.attention = AttentionKernels::Flash;
              job.shape.sequence_parallel = tensor > 1 && overlap;
              job.sharding.kind = kind.kind;
              job.sharding.group = group;
              job.sharding.bucket = Bytes(100e6);
              job.sharding.overlap_reduction = overlap;
              job.sharding.overlap_gather = overlap;
              job.sharding.reduce_every_microbatch = always;
              const Schedule made = training_schedule(job, device());
              CHECK(check_schedule(made) == std::vector<std::string>{});
              for (const Role& role : made.roles) {
                const Held begin = walk({role.name, {}, role.resident}, [](const Op&, const Held&) {});
                double least = 0;
                const Held end = walk(role, [&](const Op&, const Held& held) {
                  for (const double bytes : held) least = std::min(least, bytes);
                });
                CHECK(least >= -1);
                for (std::size_t i = 0; i < end.size(); ++i) CHECK(std::abs(end[i] - begin[i]) < 1);
              }
            }
  }

  TEST_CASE("each rung of the ladder holds less") {
    double before = 1e18;
    for (const Kind& kind : Kinds) {
      TrainingJob job = gpt(2, 2, 8, 4);
      job.sharding.kind = kind.kind;
      const double states = states_at_update(training_schedule(job, device()).roles[0]);
      CHECK(states < before);
      before = states;
    }
  }
}
