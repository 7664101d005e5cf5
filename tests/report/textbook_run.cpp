#include "tests/report/textbook_run.hpp"

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/pipeline/generator.hpp"

namespace syncline::test {

pipeline::Order make_order(const char* schedule, int ranks, int microbatches) {
  pipeline::Request request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  return pipeline::make_order(*pipeline::find_generator(schedule), request);
}

RunSummary TextbookRun::summary(const RunContext& context) const {
  return summarise(result, schedule, cluster, context);
}

TextbookRun run_textbook(const pipeline::Order& order, pipeline::StageTimes times,
                         pipeline::TransferMode mode, Bytes bytes) {
  Schedule schedule =
      lower_textbook(order, pipeline::uniform_costs(order.stages, times), mode, bytes).schedule;
  TopologySpec spec;
  spec.name = "links";
  spec.accelerators = static_cast<int>(order.ranks.size());
  if (order.ranks.size() > 1)
    spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::FullMesh, {BytesPerSecond(1), 1.0, Seconds(0)}};
  Cluster cluster{build_topology(spec), ideal_device(), placement_in_order(order.ranks.size())};
  RunResult result = make_simgrid_backend()->run(schedule, cluster, {});
  return {std::move(schedule), std::move(cluster), std::move(result)};
}

}  // namespace syncline::test
