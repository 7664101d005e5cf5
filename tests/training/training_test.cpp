#include "sim/training/training.hpp"

#include <doctest/doctest.h>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/config/scenario.hpp"
#include "sim/report/summary.hpp"
#include "sim/schedule/check.hpp"

using namespace syncline;

TEST_CASE("a step of GPT-3 175B on 16 stages runs"  * doctest::skip()) {
  TrainingJob job;
  job.model = load_model("gpt3-175b");
  job.shape.sequence = 2048;
  job.shape.microbatch = 1;
  job.shape.compute = Precision::Fp16;
  job.shape.recompute = Recompute::Full;
  job.shape.tensor_parallel = 8;
  job.shape.attention = AttentionKernels::Unfused;
  job.shape.dropout = true;
  job.sharding = DataSharding::Ddp;
  job.pipeline_parallel = 16;
  job.data_parallel = 1;
  job.gradient_accumulation = 32;
  job.pipeline.schedule = "interleaved-1f1b";
  job.pipeline.chunks = 2;
  job.pipeline.scatter_gather = true;
  job.pipeline.transfers = pipeline::TransferMode::Blocking;
  const Device device = load_device("a100-sxm-80gb");
  const Schedule schedule = training_schedule(job, device);
  for (const auto& w : check_schedule(schedule)) MESSAGE(w);
  TopologySpec spec = load_topology("dgx-a100", {{"accelerators", "128", }});
  Cluster cluster{build_topology(spec), device, placement_in_order(schedule.world_size())};
  const RunResult result = make_simgrid_backend()->run(schedule, cluster, {});
  const RunSummary summary = summarise(result, schedule, cluster, {});
  MESSAGE(summary_table(summary));
}
