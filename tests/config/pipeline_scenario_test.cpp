// Training runs with pipeline and tensor parallelism: what is read, and every kind of mistake.
#include <doctest/doctest.h>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string Good = R"(version: 1
topology: small-tree
device: toy
model: {layers: 8, hidden: 1024, heads: 16, kv-heads: 4, ffn: 2816, vocabulary: 32000}
parallel: {tp: 2, pp: 4}
batch: {global: 64, microbatch: 2, sequence: 2048}
sharding: {kind: ddp}
pipeline: {schedule: interleaved-1f1b, chunks: 2}
)";

Scenario load(const std::string& text) {
  use_test_data();
  const Folder folder;
  return load_scenario(folder.write("s.yaml", text));
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = Good;
  return text.replace(text.find(from), from.size(), to);
}

/// `text` under line 5, 7 or 8 with the caret at `column`.
std::string at(int line, int column, const std::string& text, const std::string& message) {
  return "s.yaml:" + std::to_string(line) + ":" + std::to_string(column) + ": error: " + message + "\n    " +
         std::to_string(line) + " | " + text + "\n      | " +
         std::string(static_cast<std::size_t>(column) - 1, ' ') + "^";
}

Change pipelined(const char* name, const std::string& keys, int column, const std::string& message) {
  const std::string text = "pipeline: {" + keys + "}";
  return {name, "pipeline: {schedule: interleaved-1f1b, chunks: 2}", text, at(8, column, text, message)};
}
Change sharding(const char* name, const std::string& keys, int column, const std::string& message) {
  const std::string text = "sharding: {" + keys + "}";
  return {name, "sharding: {kind: ddp}", text, at(7, column, text, message)};
}
Change parallel(const char* name, const std::string& keys, int column, const std::string& message) {
  const std::string text = "parallel: {" + keys + "}";
  return {name, "parallel: {tp: 2, pp: 4}", text, at(5, column, text, message)};
}

}  // namespace

TEST_SUITE("scenario: pipeline of a training run") {
  TEST_CASE("the order of axes is read and printed; what is none is told with an example") {
    CHECK(load(Good).job.order == DefaultOrder);
    const Scenario turned = load(with("pp: 4}", "pp: 4, order: pp-dp-tp-cp}"));
    CHECK(turned.job.order == AxisOrder{"pp", "dp", "tp", "cp"});
    CHECK(show_scenario(turned).find("order: pp-dp-tp-cp") != std::string::npos);
    for (const std::string wrong : {"tp-pp", "tp-tp-dp-pp", "tp, cp", "ep-cp-dp-pp"}) {
      CAPTURE(wrong);
      CHECK_THROWS_AS(load(with("pp: 4}", "pp: 4, order: \"" + wrong + "\"}")), InputError);
    }
  }

  TEST_CASE("values and defaults arrive where they belong") {
    const TrainingJob job = load(Good).job;
    CHECK(job.shape.tensor_parallel == 2);
    CHECK(job.pipeline_parallel == 4);
    CHECK(job.data_parallel == 2);           // 16 accelerators / (2 · 4)
    CHECK(job.gradient_accumulation == 16);  // 64 / (2 · 2)
    CHECK(job.sharding.kind == DataSharding::Ddp);
    CHECK(job.sharding.overlap_reduction);
    CHECK(job.pipeline.schedule == "interleaved-1f1b");
    CHECK(job.pipeline.chunks == 2);
    CHECK(job.pipeline.group_size == 0);
    CHECK(job.pipeline.transfers == pipeline::TransferMode::Overlapped);
    CHECK_FALSE(job.pipeline.scatter_gather);
    CHECK(job.pipeline.split == StageSplit::Even);
    CHECK_FALSE(job.pipeline.memory_limit);
  }

  TEST_CASE("every word is understood") {
    const TrainingJob job =
        load(with("sharding: {kind: ddp}\npipeline: {schedule: interleaved-1f1b, chunks: 2}",
                  "sharding: {kind: ddp, overlap-reduction: false}\n"
                  "pipeline: {schedule: interleaved-1f1b, chunks: 2, group-size: 8, transfers: blocking, "
                  "scatter-gather: true, split: [2, 1, 1, 1, 1, 1, 1, 0]}"))
            .job;
    CHECK_FALSE(job.sharding.overlap_reduction);
    CHECK(job.pipeline.group_size == 8);
    CHECK(job.pipeline.transfers == pipeline::TransferMode::Blocking);
    CHECK(job.pipeline.scatter_gather);
    CHECK(job.pipeline.split == StageSplit::Listed);
    CHECK(job.pipeline.layers == std::vector<int>{2, 1, 1, 1, 1, 1, 1, 0});
  }

  TEST_CASE("every kind of sharding is understood, and shown") {
    use_test_data();
    const Folder folder;
    for (const std::string keys :
         {"{kind: zero-1, group: 2, bucket: 160MB, overlap-reduction: false, overlap-gather: true, "
          "gradient-passes: true}",
          "{kind: zero-2, bucket: 1GB, overlap-reduction: true, overlap-gather: false}",
          "{kind: fsdp, forward-prefetch: 2, reduce-every-microbatch: true}"}) {
      CAPTURE(keys);
      const Scenario scenario = load(with("{kind: ddp}", keys));
      const std::string shown = show_scenario(scenario);
      CHECK(shown.find("sharding: " + keys) != std::string::npos);
      CHECK(show_scenario(load_scenario(folder.write("s.yaml", shown))) == shown);
    }
    const TrainingJob job = load(with("{kind: ddp}",
                                      "{kind: zero-1, group: 2, bucket: 160MB, overlap-gather: true, "
                                      "reduce-every-microbatch: true}"))
                                .job;
    CHECK(job.sharding.kind == DataSharding::Zero1);
    CHECK(job.sharding.bucket == Bytes(160e6));
    CHECK(job.sharding.overlap_gather);
    CHECK(job.reduces_every_microbatch());
    CHECK(job.shards() == 2);
    const TrainingJob plain = load(with("{kind: ddp}", "{kind: fsdp}")).job;
    CHECK_FALSE(plain.reduces_every_microbatch());  // in a pipeline
    CHECK(plain.shards() == 2);
    const TrainingJob context = load(with("tp: 2, pp: 4", "cp: 2, pp: 4, cp-exchange: all-gather")).job;
    CHECK(context.shape.context_parallel == 2);
    CHECK(context.shape.context_exchange == ContextExchange::AllGather);
    CHECK(context.data_parallel == 2);
  }

  TEST_CASE("a schedule brings its own chunks, a limit may count in stages, ranks may stay idle") {
    CHECK(load(with("tp: 2, pp: 4}", "tp: 1, pp: 4, dp: 2}")).job.ranks() == 8);
    const TrainingJob limited = load(with("schedule: interleaved-1f1b, chunks: 2",
                                          "schedule: zb-v, memory-limit: 1.5p, split: balanced"))
                                    .job;
    CHECK(limited.pipeline.chunks == 2);
    CHECK(limited.pipeline.memory_limit == 6.0);  // 1.5 · 4
    CHECK(limited.pipeline.split == StageSplit::Balanced);
  }
}

TEST_SUITE("scenario: bad pipelines of a training run") {
  TEST_CASE("the good one is good") {
    check_changes(Good, {{"unchanged", "version: 1", "version: 1", ""}});
  }

  TEST_CASE("ranks") {
    check_changes(
        Good,
        {parallel("a replica larger than the cluster", "tp: 4, pp: 8", 23,
                  "\"parallel.pp\" is too large: tp × pp = 4 × 8 = 32 ranks, more than topology.accelerators "
                  "(16); lower it, or set topology.accelerators to 32"),
         parallel("tensor-parallel ranks alone", "tp: 32", 16,
                  "\"parallel.tp\" is too large: tp = 32 ranks, more than topology.accelerators (16); lower "
                  "it, or set topology.accelerators to 32"),
         parallel("numbers whose product is beyond any count", "tp: 262144, pp: 262144", 28,
                  "\"parallel.pp\" is too large: tp × pp = 262144 × 262144 = 68719476736 ranks, more than "
                  "topology.accelerators (16); lower it, or set topology.accelerators to 68719476736"),
         parallel("what is left over", "pp: 3", 16,
                  "\"parallel.pp\": pp = 3 ranks do not divide topology.accelerators (16); add parallel.dp, "
                  "which says how many are used (at most 5)"),
         parallel("too many data-parallel ranks", "tp: 2, pp: 4, dp: 4", 30,
                  "\"parallel.dp\" is 4: with tp × pp = 2 × 4 = 8 that are 32 ranks, more than "
                  "topology.accelerators (16); try 2, or set topology.accelerators to 32"),
         parallel("heads", "tp: 8, pp: 2, dp: 1", 16,
                  "\"parallel.tp\" is 8, which does not divide model.kv-heads (4); try 4"),
         {"sequence", "parallel: {tp: 2, pp: 4}\nbatch: {global: 64, microbatch: 2, sequence: 2048}",
          "parallel: {tp: 4, pp: 4, sequence-parallel: true}\nbatch: {global: 64, microbatch: 2, sequence: "
          "2046}",
          at(5, 16, "parallel: {tp: 4, pp: 4, sequence-parallel: true}",
             "\"parallel.tp\" is 4, which does not divide batch.sequence (2046); try 2")}});
  }

  TEST_CASE("sharding of the other kind") {
    const std::string fsdp = "\" is of sharding.kind fsdp; leave it out, or set sharding.kind to fsdp";
    check_changes(
        Good,
        {sharding("prefetch", "kind: ddp, forward-prefetch: 1", 23, "\"sharding.forward-prefetch" + fsdp),
         sharding("reshard", "kind: ddp, reshard-after-forward: true", 23,
                  "\"sharding.reshard-after-forward" + fsdp),
         {"overlap and a pipeline by fsdp",
          "parallel: {tp: 2, pp: 4}\nbatch: {global: 64, microbatch: 2, sequence: 2048}\nsharding: {kind: "
          "ddp}",
          "batch: {global: 64, microbatch: 2, sequence: 2048}\nsharding: {kind: fsdp, overlap-reduction: "
          "true}",
          "s.yaml:6:24: error: \"sharding.overlap-reduction\" is of sharding.kind ddp, zero-1, zero-2; leave "
          "it "
          "out, or set sharding.kind to ddp\n    6 | sharding: {kind: fsdp, overlap-reduction: true}\n      "
          "|            "
          "    "
          "        ^\n"
          "s.yaml:7:1: error: \"pipeline\" is of fsdp with parallel.pp above 1, and of all other kinds of "
          "sharding: leave it out\n    7 | pipeline: {schedule: interleaved-1f1b, chunks: 2}\n      | ^"},
         sharding(
             "weights that a stage keeps", "kind: fsdp, reshard-after-forward: true", 24,
             "\"sharding.reshard-after-forward\" is of fsdp without a pipeline; a stage of one keeps its "
             "weights from their first use to its last backward: leave it out"),
         sharding("gathers of an optimizer in shards", "kind: ddp, overlap-gather: true", 23,
                  "\"sharding.overlap-gather\" is of sharding.kind zero-1, zero-2; leave it out, or set "
                  "sharding.kind to zero-1"),
         sharding("gathers by optimizer without experts", "kind: zero-1, gather-by-optimizer: true", 47,
                  "\"sharding.gather-by-optimizer\" is of models with experts; leave it out"),
         sharding(
             "zero-2 that accumulates", "kind: zero-2, reduce-every-microbatch: false", 26,
             "\"sharding.reduce-every-microbatch\" is of sharding.kind ddp, zero-1, fsdp; leave it out, or "
             "set sharding.kind to ddp")});
  }

  TEST_CASE("groups of shards") {
    check_changes(Good,
                  {{"the two data-parallel ranks", "{kind: ddp}", "{kind: zero-1, group: 2}", ""},
                   sharding("more than there are", "kind: zero-1, group: 4", 33,
                            "\"sharding.group\" is 4, which does not divide parallel.dp (2); try 2"),
                   sharding("one rank", "kind: fsdp, group: 1", 31,
                            "\"sharding.group\" is 1, and nothing is sharded; set sharding.kind to ddp"),
                   {"half of a context-parallel group",
                    "parallel: {tp: 2, pp: 4}\nbatch: {global: 64, microbatch: 2, sequence: 2048}\nsharding: "
                    "{kind: ddp}",
                    "parallel: {cp: 4, pp: 2}\nbatch: {global: 64, microbatch: 2, sequence: 2048}\nsharding: "
                    "{kind: zero-1, "
                    "group: 2}",
                    at(7, 33, "sharding: {kind: zero-1, group: 2}",
                       "\"sharding.group\" is 2, which is not a multiple of parallel.cp (4); try 4")}});
  }

  TEST_CASE("context-parallel ranks") {
    check_changes(
        Good,
        {{"fine", "tp: 2, pp: 4", "cp: 2, pp: 4", ""},
         {"heads by all-to-all", "tp: 2, pp: 4", "tp: 2, cp: 2, pp: 4, cp-exchange: all-to-all", ""},
         parallel("a replica larger than the cluster", "tp: 2, cp: 4, pp: 4", 30,
                  "\"parallel.pp\" is too large: tp × cp × pp = 2 × 4 × 4 = 32 ranks, more than "
                  "topology.accelerators (16); lower it, or set topology.accelerators to 32"),
         parallel("too few key heads", "tp: 2, cp: 4, cp-exchange: all-to-all", 23,
                  "\"parallel.cp\" is 4: tp × cp = 8 do not divide model.kv-heads (4)"),
         {"a sequence in too many chunks",
          "parallel: {tp: 2, pp: 4}\nbatch: {global: 64, microbatch: 2, sequence: 2048}\nsharding: {kind: "
          "ddp}\npipeline: {schedule: interleaved-1f1b, chunks: 2}",
          "parallel: {cp: 16}\nbatch: {global: 64, microbatch: 2, sequence: 2040}",
          at(5, 16, "parallel: {cp: 16}",
             "\"parallel.cp\" is 16: 2 × cp = 32 do not divide batch.sequence (2040)")}});
  }

  TEST_CASE("schedules") {
    check_changes(
        Good,
        {pipelined("unknown", "schedule: 1fb1", 22,
                   "\"pipeline.schedule\": \"1fb1\" is unknown; expected one of naive, gpipe, 1f1b, "
                   "interleaved-1f1b, looped-bfs, zb-h1, zb-h2, interleaved-zb, 1f1b-v, zb-v-handcrafted, "
                   "v-half, v-min, dualpipe, dualpipe-v, zb-auto, zb-v, v-search; did you mean \"1f1b\"?"),
         pipelined("more chunks than two ways have", "schedule: dualpipe, chunks: 3", 22,
                   "dualpipe has 2 chunks a rank, not 3"),
         pipelined("chunks it cannot have", "schedule: zb-v, chunks: 3", 22,
                   "zb-v has 2 chunks a rank, not 3"),
         pipelined("group size it does not take", "schedule: 1f1b, group-size: 4", 22,
                   "1f1b takes no group size"),
         pipelined("group size that does not fill the pipeline",
                   "schedule: interleaved-1f1b, chunks: 2, group-size: 3", 22,
                   "interleaved-1f1b needs a group of p = 4 to m = 16 microbatches, not 3; try "
                   "pipeline.group-size 4"),
         {"too few microbatches",
          "batch: {global: 64, microbatch: 2, sequence: 2048}\nsharding: {kind: ddp}\npipeline: {schedule: "
          "interleaved-1f1b, chunks: 2}",
          "batch: {global: 24, microbatch: 2, sequence: 2048}\nsharding: {kind: ddp}\npipeline: {schedule: "
          "dualpipe-v}",
          at(8, 22, "pipeline: {schedule: dualpipe-v}",
             "dualpipe-v needs m ≥ 2p = 8 microbatches, not 6; try batch.global / (parallel.dp × "
             "batch.microbatch) = 8")},
         pipelined("more stages than layers", "schedule: interleaved-1f1b, chunks: 4", 22,
                   "interleaved-1f1b has 16 virtual stages, more than the model has layers (8)"),
         pipelined(
             "list of layers that is too short", "schedule: 1f1b, split: [2, 2, 3]", 28,
             "\"pipeline.split\" lists 7 layers on 3 virtual stages, but the model has 8 and 1f1b has 4"),
         pipelined(
             "memory that has no say", "schedule: 1f1b, memory-limit: 8", 28,
             "\"pipeline.memory-limit\" is of schedules that are searched for (zb-auto, zb-v, v-search); "
             "1f1b is the same whatever the memory: leave it out"),
         pipelined("memory limit that is none", "schedule: zb-auto, memory-limit: 0p", 45,
                   "\"pipeline.memory-limit\": \"0\" must be above 0"),
         pipelined("split", "split: equal", 19,
                   "\"pipeline.split\": \"equal\" is unknown; expected one of even, balanced"),
         pipelined("keys of a textbook", "stages: 4", 12,
                   "\"pipeline.stages\" is of a textbook pipeline, which has no model; here stages are "
                   "parallel.pp, microbatches come of batch, times of the device: leave it out")});
  }

  TEST_CASE("a step of more ops than memory holds") {
    use_test_data();
    const Folder folder;
    const std::string file = folder.write("s.yaml", Good);
    const std::vector<Override> changes{
        {"topology",
         "{accelerators: 65536, scale-out: {kind: all-to-all, link: {bandwidth: 400Gbps, latency: 1us}}}"},
        {"batch.global", "33554432"}};
    const std::string message = message_of([&] { static_cast<void>(load_scenario(file, changes)); });
    CHECK(message.find("--set batch.global=33554432: error: \"batch.global\" is 33554432: about ") == 0);
    CHECK(message.find(" ops a step over all ranks, at most 2e+08 are simulated; lower it or parallel.dp, or "
                       "raise batch.microbatch, or set run.fold to true") != std::string::npos);
    // Folded, one rank of each of the stages is simulated.
    std::vector<Override> folded = changes;
    folded.push_back({"run.fold", "true"});
    const Scenario scenario = load_scenario(file, folded);
    CHECK(scenario.fold);
    CHECK(show_scenario(scenario).find("fold: true") != std::string::npos);
  }
}
