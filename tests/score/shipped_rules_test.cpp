// The rules that ship: what they make of rows, and how many of the shared tables' rows they make scenarios of.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "sim/config/document.hpp"
#include "sim/config/scenario.hpp"
#include "sim/score/row_scenario.hpp"
#include "tests/score/table.hpp"
#include "tools/score_row.hpp"
#include "tools/workers.hpp"

namespace syncline::score {
namespace {

const std::string Root = SYNCLINE_SOURCE_DIR;

std::vector<Rule> shipped_rules() {
  std::vector<Rule> rules = read_rules(Root + "/score/rules.yaml");
  for (Rule& rule : read_rules(Root + "/score/systems.yaml")) rules.push_back(std::move(rule));
  return rules;
}

const std::string ShippedHeader =
    "id,source,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,n_gpus,gpus_per_node,network,precision,"
    "gbs,mbs,tp,pp,vpp,"
    "cp,dp,fsdp,recompute,schedule,iter_time_s,note,experts";

TEST_CASE("every rule has a name of its own") {
  std::vector<std::string> names;
  for (const Rule& rule : shipped_rules()) names.push_back(rule.name);
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}

TEST_CASE("rows of the programs that are known become scenarios with what those programs do") {
  struct Row {
    const char* cells;
    std::vector<std::string> lines;
  };
  const std::vector<Rule> rules = shipped_rules();
  for (const Row& row : std::vector<Row>{
           {"megatron,\"Narayanan et al. SC21, arXiv "
            "2104.04473\",GPT-76.1B,60,10240,80,80,40960,51200,2048,A100-80GB SXM,1024,8,8x "
            "HDR200 IB per node,fp16,1792,2,8,4,3,1,32,0,full,interleaved 1F1B,16,,",
            {"base: a100-sxm-80gb", "base: dgx-a100", "kind: ddp", "overlap-reduction: false",
             "schedule: interleaved-1f1b", "chunks: 3", "transfers: blocking", "scatter-gather: true",
             "attention: unfused", "dropout: true", "recompute: full", "compute: fp16", "activation: gelu"}},
           {"titan,torchtitan benchmarks,Llama3.1-8B,32,4096,32,8,14336,128256,8192,H100 96GB HBM2e 2.4TB/s "
            "500W,8,8,,bf16,16,2,1,1,,"
            "1,8,FSDP2 over 8,selective,,2.8,eager,",
            {"base: h100-sxm-96gb-500w", "kind: fsdp", "recompute: selective-op", "kernels: eager",
             "attention: flash", "activation: swiglu"}},
           {"nemo,NVIDIA NeMo performance summary,GPT3-175B,96,12288,96,96,49152,,2048,H100-80GB "
            "SXM,128,8,,fp8,256,1,4,8,6,1,4,,,,5.7,,",
            {"base: h100-sxm", "kind: zero-1", "overlap-gather: true", "sequence-parallel: true",
             "linear: fp8", "vocabulary: 51200", "schedule: interleaved-1f1b"}},
           {"mosaic,MosaicML llm-foundry,MPT-7b,32,4096,32,32,16384,50368,2048,A100-40GB "
            "SXM,8,8,RoCE,amp_bf16,96,6,1,1,1,1,8,"
            "SHARD_GRAD_OP DEFAULT,full,,5.3,,",
            {"base: a100-sxm-40gb", "base: a100-roce-8x200g", "kind: fsdp", "reshard-after-forward: false",
             "bias: false", "tied-embedding: true", "norm: layer"}},
       }) {
    const RowScenario scenario = scenario_of(test::row_of(ShippedHeader, row.cells), rules);
    CAPTURE(scenario.text);
    CHECK(scenario.refusal.empty());
    for (const std::string& line : row.lines) {
      CAPTURE(line);
      CHECK(scenario.text.find(line) != std::string::npos);
    }
  }
}

TEST_CASE("rows of models with experts become scenarios with what their recipes do") {
  struct Row {
    const char* cells;
    std::vector<std::string> lines, without;
  };
  const std::string header =
      "id,source,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,moe_ffn,gpu,n_gpus,gpus_per_"
      "node,"
      "precision,gbs,mbs,tp,pp,vpp,cp,ep,dp,iter_time_s,note";
  const std::vector<Rule> rules = shipped_rules();
  for (const Row& row : std::vector<Row>{
           {"qwen,NVIDIA Megatron-Bridge performance summary "
            "26.04.01,Qwen3_30B_a3B,48,2048,32,4,768,151936,4096,128,8,768,GB300,8,4,MXFP8,512,8,1,1,1,1,8,8,"
            "8,"
            "\"release 26.04.01; experts force-balanced, dropless\"",
            {"count: 128", "top-k: 8", "head-size: 128", "ffn: 768", "shared-ffn: 0", "ep: 8",
             "dispatch: two-hop", "dispatch-precision: bf16", "routing: balanced", "scaling: block",
             "overlap: none", "fused-loss: true"},
            {"capacity", "latent", "etp", "multi-token"}},
           {"deepseek,NVIDIA Megatron-Bridge performance summary "
            "25.11,DeepSeekV3,61,7168,128,MLA,18432,129280,4096,256,8,2048,GB200,256,4,BF16,4096,1,1,4,4,1,"
            "64,64,20,"
            "\"variant: w/o MTP; experts force-balanced\"",
            {"kv-heads: 128", "query-rank: 1536", "key-value-rank: 512", "plain: 128", "rotary: 64",
             "value: 128", "dense-layers: 3", "shared-ffn: 2048", "groups: 8", "top-groups: 4",
             "node-limited: true", "recompute: [latent]",
             "split: [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1]"},
            {"head-size", "multi-token", "capacity"}},
           {"grok,NVIDIA DGX Cloud Benchmarking recipes,Grok-1 "
            "314B,64,6144,48,8,32768,,8192,8,2,32768,H100-80GB "
            "SXM,512,8,bf16,1024,1,4,8,8,1,8,16,15,v24.11.1",
            {"vocabulary: 128512", "ep: 8", "etp: 4", "capacity: 1", "pad: true", "dispatch: all-to-all"},
            {"two-hop"}}}) {
    const RowScenario scenario = scenario_of(test::row_of(header, row.cells), rules);
    CAPTURE(scenario.text);
    CAPTURE(scenario.refusal);
    CHECK(scenario.refusal.empty());
    for (const std::string& line : row.lines) {
      CAPTURE(line);
      CHECK(scenario.text.find(line) != std::string::npos);
    }
    for (const std::string& word : row.without) {
      CAPTURE(word);
      CHECK(scenario.text.find(word) == std::string::npos);
    }
    CHECK_NOTHROW(static_cast<void>(parse_scenario(scenario.text, "row")));
  }
}

TEST_CASE("without experts in numbers nothing is said of them") {
  const std::vector<Rule> rules = shipped_rules();
  const RowScenario dense = scenario_of(
      test::row_of("id,model,layers,hidden,heads,seq,gpu,n_gpus,gbs,mbs,tp,pp,cp,ep,experts,topk,iter_time_s",
                   "a,Llama3-8B,32,4096,32,8192,H100,8,8,1,1,1,1,4,0,2,1"),
      rules);
  CAPTURE(dense.text);
  CHECK(dense.refusal.empty());
  for (const char* key : {"experts:", "moe:", "ep:"}) CHECK(dense.text.find(key) == std::string::npos);
}

TEST_CASE("a row is predicted beside its measurement; what cannot be predicted says why") {
  const std::vector<Rule> rules = shipped_rules();
  const std::string begin = ",torchtitan,Llama3-8B,2,4096,32,8,14336,128256,8192,";
  struct Row {
    std::string cells;
    const char* refusal;
  };
  for (const Row& row :
       {Row{"a" + begin + "A100-80GB SXM,8,8,,bf16,8,1,1,1,,1,8,FSDP2,full,,0.5,,", ""},
        Row{"a" + begin + "A100-80GB SXM,8,8,,bf16,8,1,1,1,,1,8,FSDP2,full,,0.5,,8", "model.experts"},
        Row{"a" + begin + "A100-80GB SXM,8,8,,bf16,8,1,1,1,,1,8,FSDP2,full,,,,",
            "no measured step time, nor a rate"},
        Row{"a" + begin + "A100+H100,8,8,,bf16,8,1,1,1,,1,8,FSDP2,full,,0.5,,",
            "a fleet of different accelerators"},
        Row{"a" + begin + "L4000,8,8,,bf16,8,1,1,1,,1,8,FSDP2,full,,0.5,,", "unknown accelerator \"L4000\""},
        Row{"a" + begin + "A100-80GB SXM,8,8,,bf16,9,1,1,1,,1,8,FSDP2,full,,0.5,,", "batch.global"}}) {
    CAPTURE(row.cells);
    const RowResult result = predict_row(test::row_of(ShippedHeader, row.cells), rules);
    CAPTURE(result.refusal);
    CHECK_FALSE(result.our_bug);
    if (*row.refusal != '\0') {
      CHECK(result.refusal.find(row.refusal) != std::string::npos);
      CHECK_FALSE(result.predicted_s);
      continue;
    }
    CHECK(result.refusal.empty());
    CHECK(result.measured_s == 0.5);
    REQUIRE(result.predicted_s);
    // 8,192 tokens a GPU, 2 layers of 0.22 and a head of 0.53 billion parameters: 6 · 0.97e9 · 8,192 = 47 TFLOP, with
    // recomputation of the layers 54; at most 312 TFLOP/s: at least 0.15 s.
    CHECK(*result.predicted_s > 0.15);
    CHECK(*result.predicted_s < 0.6);
    CHECK(result.scenario_hash.size() == 16);
    CHECK_FALSE(result.assumptions.empty());
  }
}

TEST_CASE("work is shared out to processes: each item once, a lost one is told, the rest goes on") {
  for (const int processes : {1, 3}) {
    CAPTURE(processes);
    std::vector<std::string> lines(20);
    std::string lost;
    work_through(lines.size(), {processes, std::chrono::seconds(1)},
                 {[](std::size_t item) {
                    if (item == 7) std::raise(SIGKILL);  // which no test framework catches
                    for (volatile bool busy = item == 9; busy;) {
                    }
                    return std::to_string(item * item) + "\n";
                  },
                  [&](std::size_t item, const std::string& line) { lines[item] += line; },
                  [&](std::size_t item, bool out_of_time, const std::string&) {
                    lines[item] += out_of_time ? "late" : "lost";
                  }});
    for (std::size_t item = 0; item < lines.size(); ++item)
      CHECK(lines[item] == (item == 7 ? "lost" : item == 9 ? "late" : std::to_string(item * item) + "\n"));
  }
}

TEST_CASE("most rows of the shared tables become scenarios, dense ones and those with experts") {
  const std::filesystem::path data = std::filesystem::path(Root) / ".." / "shared" / "data";
  if (!std::filesystem::is_directory(data)) {
    MESSAGE("skipped: there is no folder ../shared/data beside the repository");
    return;
  }
  const std::vector<Rule> rules = shipped_rules();
  struct Count {
    std::size_t rows = 0, scenarios = 0;
  };
  Count dense, experts;
  for (const char* file :
       {"published/training_megatron_papers.csv", "published/nvidia_nemo_megatron_bridge.csv",
        "published/dgxc_weak_scaling.csv", "published/mlperf_llm.csv", "published/torchtitan_fsdp.csv",
        "published/mosaic_fsdp.csv", "published/other_gpu_training.csv", "published/tpu_training.csv",
        "published/zero_bubble.csv", "measured/vtrain-multi-a100.csv", "measured/simumax-b200.csv",
        "measured/sailor-gh200.csv"}) {
    const std::string path = (data / file).string();
    for (const TrainingRow& row : read_training_rows(CsvTable::parse(read_text_file(path, 1 << 26), path))) {
      Count& count = row.number("experts").value_or(0) > 0 ? experts : dense;
      ++count.rows;
      count.scenarios += scenario_of(row, rules).refusal.empty() ? 1 : 0;
    }
  }
  CAPTURE(dense.rows);
  CAPTURE(dense.scenarios);
  CHECK(dense.rows > 700);
  CHECK(dense.scenarios >= dense.rows * 8 / 10);
  CAPTURE(experts.rows);
  CAPTURE(experts.scenarios);
  CHECK(experts.rows > 140);
  CHECK(experts.scenarios >= experts.rows * 95 / 100);
}

}  // namespace
}  // namespace syncline::score
