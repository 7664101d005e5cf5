// Textbook pipelines simulated, for tests.
#pragma once

#include "sim/pipeline/lower.hpp"
#include "sim/report/summary.hpp"

namespace syncline::test {

/// By the schedule's name, with its own number of chunks.
[[nodiscard]] pipeline::Order make_order(const char* schedule, int ranks, int microbatches);

struct TextbookRun {
  Schedule schedule;
  Cluster cluster;
  RunResult result;
  [[nodiscard]] RunSummary summary(const RunContext& context = {}) const;
};

/// Links of their own between every two ranks, a second a byte.
[[nodiscard]] TextbookRun run_textbook(const pipeline::Order& order, pipeline::StageTimes times,
                                       pipeline::TransferMode mode = pipeline::TransferMode::Eager,
                                       Bytes bytes = {});

}  // namespace syncline::test
