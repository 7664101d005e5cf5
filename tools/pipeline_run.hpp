// A textbook pipeline simulated on the engine, with all that is shown of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "sim/device/cluster.hpp"
#include "sim/pipeline/lower.hpp"
#include "sim/report/pipeline_metrics.hpp"
#include "sim/report/pipeline_picture.hpp"
#include "sim/report/pipeline_text.hpp"
#include "sim/timeline/result.hpp"

namespace syncline {

/// How data moves between ranks, beside the hop that costs say: at `bandwidth`, over links that no two pairs
/// of ranks share.
struct PipelineTransfers {
  pipeline::TransferMode mode = pipeline::TransferMode::Eager;
  Bytes bytes;
  std::optional<BytesPerSecond> bandwidth;  // none: bytes take no time
};

struct PipelineRun {
  std::string name;  // of the schedule
  pipeline::Order order;
  pipeline::Costs costs;
  PipelineTransfers transfers;
  pipeline::Replay exact;   // with eager transfers of no bytes
  Seconds imbalance;        // part of the bubble, transfers aside, that is due to unequal stages; below zero
                            // where they help
  Seconds balanced_bubble;  // the bubble if all stages took the mean time, transfers aside
  RunResult result;
  PipelineMetrics metrics;
  std::vector<std::vector<pipeline::BlockTimes>> blocks;  // as simulated: by rank, as in the order
  std::vector<std::vector<PictureTransfer>> moving;       // by rank: sends and receives while data moves
};

/// Links of their own between every two ranks, each way; an ideal device.
[[nodiscard]] Cluster pipeline_cluster(std::size_t ranks, const PipelineTransfers& transfers,
                                       Seconds latency);

/// @pre check_order() finds nothing wrong, deadlock() is empty, some block takes time
/// @throws std::logic_error when the engine and the exact replay disagree where they must not
[[nodiscard]] PipelineRun run_pipeline(std::string name, pipeline::Order order, pipeline::Costs costs,
                                       const PipelineTransfers& transfers, const RunOptions& options = {});

/// For people: the picture, the bubble and its causes, activations.
[[nodiscard]] std::string pipeline_text(const PipelineRun& run, const PictureOptions& options);
/// Side by side, a line each.
[[nodiscard]] std::string pipeline_table(const std::vector<PipelineRun>& runs, const TimeText& time);
/// A time without unit, as where the input had none.
[[nodiscard]] std::string plain_time(Seconds time);
/// One object for one run, else {"schema", "runs": [...]}; docs/json-output.md has every key.
[[nodiscard]] std::string pipeline_json(const std::vector<PipelineRun>& runs, const std::string& version);

}  // namespace syncline
