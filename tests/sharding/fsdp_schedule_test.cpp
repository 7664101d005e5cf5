// A transformer by FSDP: units, bytes and FLOP of the whole schedule.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/schedule/check.hpp"
#include "sim/sharding/fsdp.hpp"

namespace syncline {
namespace {

using namespace literals;

const ModelSpec Llama3_8B{.name = "llama3-8b",
                          .source = {},
                          .layers = 32,
                          .hidden = 4096,
                          .heads = 32,
                          .kv_heads = 8,
                          .ffn = 14336,
                          .vocabulary = 128256};

FsdpJob llama(int ranks) {
  FsdpJob job;
  job.model = Llama3_8B;
  job.shape = {
      .sequence = 8192, .microbatch = 2, .recompute = Recompute::SelectiveOp, .fusion = Fusion::Compiled};
  job.data_parallel = ranks;
  return job;
}

std::vector<const Op*> named(const Schedule& schedule, std::string_view name) {
  std::vector<const Op*> found;
  for (const Op& op : schedule.roles.front().program)
    if (op.tag.name == name) found.push_back(&op);
  return found;
}

double collective_bytes(const Schedule& schedule, CollectiveKind kind) {
  double sum = 0;
  for (const Op& op : schedule.roles.front().program)
    if (const auto* collective = std::get_if<Collective>(&op.body); collective && collective->kind == kind)
      sum += collective->bytes.si();
  return sum;
}

TEST_CASE("the root is gathered once, layers twice, the last layer once; all are reduced once") {
  // A layer has 218,112,000 parameters, the root 1,050,677,248: embedding and projection 2 · 128256 · 4096,
  // norm 4096.
  const double layer = 218'112'000, root = 1'050'677'248;
  CHECK(32 * layer + root == 8'030'261'248);
  const Schedule schedule = fsdp_schedule(llama(64), ideal_device());
  const auto gathers = named(schedule, "all-gather");
  REQUIRE(gathers.size() == 1 + 32 + 31);
  CHECK(std::get<Collective>(gathers.front()->body).bytes == Bytes(2 * root));
  CHECK(collective_bytes(schedule, CollectiveKind::AllGather) == 2 * (root + 63 * layer));
  CHECK(named(schedule, "reduce-scatter").size() == 33);
  CHECK(collective_bytes(schedule, CollectiveKind::ReduceScatter) == 4 * (root + 32 * layer));
}

TEST_CASE("weights that stay after forward are gathered once") {
  FsdpJob job = llama(64);
  job.fsdp.reshard_after_forward = false;
  CHECK(named(fsdp_schedule(job, ideal_device()), "all-gather").size() == 1 + 32);
}

TEST_CASE("gradients go over the wire in the precision asked for") {
  FsdpJob job = llama(64);
  job.fsdp.reduce_precision = Precision::Bf16;
  CHECK(collective_bytes(fsdp_schedule(job, ideal_device()), CollectiveKind::ReduceScatter) ==
        2 * 8'030'261'248.0);
}

TEST_CASE("one rank needs no collectives") {
  const Schedule schedule = fsdp_schedule(llama(1), ideal_device());
  CHECK(std::none_of(schedule.roles.front().program.begin(), schedule.roles.front().program.end(),
                     [](const Op& op) { return op.communicates(); }));
  CHECK(check_schedule(schedule).empty());
}

TEST_CASE("the job counts tokens and FLOP of all ranks") {
  FsdpJob job = llama(8);
  job.gradient_accumulation = 3;
  const Schedule schedule = fsdp_schedule(job, ideal_device());
  CHECK(schedule.job.tokens == 8.0 * 3 * 2 * 8192);
  CHECK(schedule.job.model_flop == model_flop(Llama3_8B, 8192, schedule.job.tokens));
  // Recomputed: k, attention output and up, 2 · 4096 (1024 + 4096 + 14336) a token and layer; attention's
  // extra half forward, sequence · 4096 a token and layer.
  const double extra = 32 * (2.0 * 4096 * (1024 + 4096 + 14336) + 8192.0 * 4096);
  CHECK((schedule.job.hardware_flop - schedule.job.model_flop).si() ==
        doctest::Approx(extra * schedule.job.tokens).epsilon(1e-9));
}

TEST_CASE("parameters and Adam's moments are resident in fp32, sharded; the device keeps its reserve") {
  Device device = ideal_device();
  device.reserve = 2_GB;
  const Schedule schedule = fsdp_schedule(llama(8), device);
  CHECK(schedule.roles.front().resident ==
        std::vector<MemoryEffect>{{MemoryCategory::Parameters, Bytes(4 * 8'030'261'248.0 / 8)},
                                  {MemoryCategory::Optimizer, Bytes(8 * 8'030'261'248.0 / 8)},
                                  {MemoryCategory::Reserve, 2_GB}});
}

TEST_CASE("every variant is sound, holds nothing negative, and ends with what is resident") {
  for (const int ranks : {1, 2, 8}) {
    for (const bool reshard : {true, false}) {
      for (const int limit : {0, 2}) {
        for (const int microbatches : {1, 2}) {
          for (const bool tied : {false, true}) {
            CAPTURE(ranks);
            CAPTURE(reshard);
            CAPTURE(limit);
            CAPTURE(microbatches);
            CAPTURE(tied);
            FsdpJob job = llama(ranks);
            job.model.layers = 3;
            job.model.tied_embedding = tied;
            job.gradient_accumulation = microbatches;
            job.fsdp.reshard_after_forward = reshard;
            job.fsdp.limit_all_gathers = limit;
            const Schedule schedule = fsdp_schedule(job, ideal_device());
            CHECK(check_schedule(schedule) == std::vector<std::string>{});
            std::vector<double> held(MemoryCategoryCount);
            for (const Op& op : schedule.roles.front().program) {
              for (const MemoryEffect& effect : op.memory)
                held[static_cast<std::size_t>(effect.category)] += effect.bytes.si();
              for (const double bytes : held) CHECK(bytes >= -1);
            }
            for (const double bytes : held) CHECK(bytes == doctest::Approx(0).epsilon(1));
          }
        }
      }
    }
  }
}

TEST_CASE("a schedule grows with layers, not with ranks") {
  CHECK(fsdp_schedule(llama(2), ideal_device()).roles.front().program.size() ==
        fsdp_schedule(llama(16384), ideal_device()).roles.front().program.size());
  CHECK(fsdp_schedule(llama(64), ideal_device()).works.size() == 9);
}

}  // namespace
}  // namespace syncline
