#include "sim/config/scenario.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string TinyFile = Data + "/tiny-16.yaml";

Scenario tiny(const std::vector<Override>& overrides = {}) {
  use_test_data();
  return load_scenario(TinyFile, overrides);
}

const FatTreeSpec& tree_of(const Scenario& scenario) {
  return std::get<FatTreeSpec>(scenario.topology.scale_out);
}

}  // namespace

TEST_SUITE("scenario: reading") {
  TEST_CASE("values and defaults arrive where they belong, in SI units") {
    const Scenario scenario = tiny();
    CHECK(scenario.file == TinyFile);
    CHECK(scenario.name == "tiny-16");
    CHECK(scenario.question == "how fast is a tiny model on 16 toys?");
    CHECK(scenario.global_batch == 64);
    CHECK(scenario.detail == "aggregate");
    CHECK(scenario.seed == 0);

    const TopologySpec& topology = scenario.topology;
    CHECK(topology.name == "small-tree");
    CHECK(topology.accelerators == 16);
    CHECK(topology.accelerators_per_node == 4);
    REQUIRE(topology.scale_up.has_value());
    CHECK(topology.scale_up->link.usable().si() == doctest::Approx(320e9).epsilon(1e-12));  // 400 GB/s × 0.8
    REQUIRE(topology.nic.has_value());
    CHECK(topology.nic->host_bus.efficiency == 1.0);
    CHECK(topology.nic->host_bus.latency.si() == 0.5e-6);
    CHECK(tree_of(scenario).link.bandwidth.si() == 50e9);  // 400 Gbps / 8
    CHECK(tree_of(scenario).rail_optimised);
    CHECK(tree_of(scenario).oversubscription == std::vector<double>{1});

    const Device& device = scenario.device;
    CHECK(device.name == "toy");  // from the file's name
    CHECK(device.memory.si() == 80e9);
    CHECK(device.peak.size() == 2);
    CHECK(device.peak_of(Precision::Bf16).si() == 989e12);
    CHECK(device.gemm.tile_m == 128);
    CHECK(device.gemm.tile_n == 256);
    CHECK(device.launch.si() == 4e-6);

    const TrainingJob& job = scenario.job;
    CHECK(job.model.layers == 4);
    CHECK(job.model.head_size == 64);  // 1024 / 16
    CHECK(job.data_parallel == 16);    // all accelerators
    CHECK(job.shape.microbatch == 2);
    CHECK(job.shape.sequence == 2048);
    CHECK(job.gradient_accumulation == 2);  // 64 / (16 · 2)
    CHECK(job.sharding.fsdp.reshard_after_forward);
  }

  TEST_CASE("every word of the format is understood") {
    const Folder folder;
    const std::string file = folder.write("full.yaml", R"(version: 1
name: full
topology:
  accelerators: 8
  scale-out: {kind: torus, shape: [2, 4], wrap: [true, false], link: {bandwidth: 100GB/s, latency: 0}}
device: toy
model: {layers: 2, hidden: 512, heads: 8, kv-heads: 8, head-size: 128, ffn: 1024, vocabulary: 1000, tied-embedding: true,
        norm: layer, activation: gelu, position: learned, max-sequence: 256, bias: true}
parallel: {dp: 4}
batch: {global: 8, sequence: 128}
precision: {compute: fp32, reduce: bf16}
sharding: {kind: fsdp, forward-prefetch: 0, backward-prefetch: 2, limit-all-gathers: 3, reshard-after-forward: false}
recompute: full
kernels: eager
attention: unfused
dropout: true
run: {detail: full, seed: 7}
published:
- {metric: tokens-per-s-per-accelerator, value: 6667, accelerators: 8, source: a paper}
- {metric: mfu, value: 0.4, source: another}
expect:
  step-time: {at-most: 2s}
  mfu: {value: 0.4, within: 0.1}
)");
    use_test_data();
    const Scenario scenario = load_scenario(file);
    CHECK(scenario.name == "full");
    CHECK(scenario.topology.name == "inline");
    CHECK_FALSE(scenario.topology.scale_up.has_value());
    const auto& torus = std::get<TorusSpec>(scenario.topology.scale_out);
    CHECK(torus.shape == std::vector<int>{2, 4});
    CHECK(torus.wrap == std::vector<bool>{true, false});
    CHECK(torus.link.latency.si() == 0);
    const TrainingJob& job = scenario.job;
    CHECK(job.model.head_size == 128);
    CHECK(job.model.tied_embedding);
    CHECK(job.model.norm == Norm::Layer);
    CHECK(job.model.activation == Activation::Gelu);
    CHECK(job.model.position == Position::Learned);
    CHECK(job.model.max_sequence == 256);
    CHECK(job.model.bias);
    CHECK(job.data_parallel == 4);
    CHECK(job.gradient_accumulation == 2);  // 8 / (4 · 1)
    CHECK(job.shape.compute == Precision::Fp32);
    CHECK(job.shape.recompute == Recompute::Full);
    CHECK(job.shape.fusion == Fusion::Eager);
    CHECK(job.shape.attention == AttentionKernels::Unfused);
    CHECK(job.shape.dropout);
    CHECK(job.sharding.fsdp.reduce_precision == Precision::Bf16);
    CHECK(job.sharding.fsdp.forward_prefetch == 0);
    CHECK(job.sharding.fsdp.backward_prefetch == 2);
    CHECK(job.sharding.fsdp.limit_all_gathers == 3);
    CHECK_FALSE(job.sharding.fsdp.reshard_after_forward);
    CHECK(scenario.detail == "full");
    CHECK(scenario.seed == 7);
    REQUIRE(scenario.published.size() == 2);
    CHECK(scenario.published[0].value == 6667);
    CHECK(scenario.published[0].accelerators == 8);
    CHECK(scenario.published[1].accelerators == 0);
    REQUIRE(scenario.expect.size() == 2);
    CHECK(scenario.expect[0].metric == "step-time");
    CHECK(scenario.expect[0].at_most == 2.0);
    CHECK_FALSE(scenario.expect[0].value.has_value());
    CHECK(scenario.expect[1].within == 0.1);
  }

  TEST_CASE("a name, a file and a block in place give the same topology") {
    const Folder folder;
    std::string text = read(TinyFile);
    text.replace(text.find("small-tree"), 10, Data + "/topologies/small-tree.yaml");
    const std::string by_file = folder.write("tiny-16.yaml", text);
    use_test_data();
    CHECK(show_scenario(load_scenario(by_file)) == show_scenario(tiny()));
    CHECK(load_scenario(by_file).hash == tiny().hash);
  }

  TEST_CASE("file names are relative to the file that names them") {
    const Folder folder;
    std::filesystem::copy(Data + "/topologies/small-tree.yaml", folder / "mine.yaml");
    std::string text = read(TinyFile);
    text.replace(text.find("small-tree"), 10, "mine.yaml");
    use_test_data();
    CHECK(load_scenario(folder.write("a.yaml", text)).topology.accelerators == 16);
  }

  TEST_CASE("a topology laid over another differs in what it names only") {
    use_test_data();
    const TopologySpec thin = load_topology("small-tree-thin");
    CHECK(thin.name == "small-tree-thin");
    CHECK(thin.accelerators == 16);
    CHECK(std::get<FatTreeSpec>(thin.scale_out).oversubscription == std::vector<double>{3});
    CHECK(std::get<FatTreeSpec>(thin.scale_out).radix == 8);
  }
}

TEST_SUITE("scenario: show") {
  TEST_CASE("what is shown reads back as the same scenario, whatever was chosen") {
    const std::vector<std::vector<Override>> choices = {
        {},
        {{"topology",
          "{accelerators: 8, scale-out: {kind: torus, dimensions: 2, link: {bandwidth: 50GBps, latency: "
          "0}}}"}},
        {{"topology.scale-out",
          "{kind: all-to-all, fabric: full-mesh, link: {bandwidth: 12.5Gbps, latency: 3.3us}}"}},
        {{"topology",
          "{accelerators: 4, accelerators-per-node: 4, scale-up: {kind: full-mesh, link: {bandwidth: "
          "1e10Bps, latency: 1ns}}}"}},
        {{"device.memory", "94.37GiB"},
         {"device.kernel-gap", "1.23456789us"},
         {"device.peak.fp8", "1978.9TFLOPps"}},
        {{"source", "'a: \"quoted\" # text'"}, {"run.detail", "full"}, {"run.seed", "9007199254740991"}},
        {{"precision.compute", "fp32"}, {"recompute", "selective-op"}, {"kernels", "eager"}},
        {{"model.norm", "layer"},
         {"model.activation", "gelu"},
         {"model.position", "learned"},
         {"model.max-sequence", "2048"},
         {"attention", "unfused"},
         {"dropout", "true"},
         {"recompute", "selective"}},
        {{"sharding.kind", "ddp"}},
        {{"sharding", "{kind: ddp, overlap-reduction: false}"},
         {"parallel", "{tp: 2, pp: 2}"},
         {"pipeline",
          "{schedule: interleaved-1f1b, chunks: 2, group-size: 4, transfers: blocking, "
          "scatter-gather: true, split: [1, 0, 2, 1]}"}},
        {{"sharding.kind", "ddp"},
         {"parallel.pp", "2"},
         {"pipeline", "{schedule: zb-v, memory-limit: 1.5p, split: balanced, transfers: eager}"}},
        {{"published", "[{metric: mfu, value: 0.41, source: 'x, y'}]"}, {"expect.mfu.at-least", "0.1"}},
    };
    const Folder folder;
    for (const std::vector<Override>& overrides : choices) {
      const Scenario scenario = tiny(overrides);
      const std::string shown = show_scenario(scenario);
      CAPTURE(shown);
      const Scenario again = load_scenario(folder.write("tiny-16.yaml", shown));
      CHECK(show_scenario(again) == shown);
      CHECK(again.hash == scenario.hash);
    }
  }

  TEST_CASE("another value gives another hash") {
    CHECK(tiny().hash == tiny().hash);
    CHECK(tiny({{"batch.global", "128"}}).hash != tiny().hash);
    CHECK(tiny({{"topology.scale-out.link.latency", "2us"}}).hash != tiny().hash);
  }

  TEST_CASE("every default is written out") {
    const std::string shown = show_scenario(tiny());
    for (const std::string line :
         {"parallel: {tp: 1, cp: 1, pp: 1, dp: 16, order: tp-cp-dp-pp, sequence-parallel: false}\n",
          "precision: {compute: bf16, reduce: fp32, moments: fp32}\n", "recompute: none\n",
          "kernels: compiled\n", "attention: flash\n", "dropout: false\n",
          "run: {detail: aggregate, seed: 0}\n", "batch: {global: 64, microbatch: 2, sequence: 2048}\n"}) {
      CAPTURE(shown);
      CHECK_MESSAGE(shown.find(line) != std::string::npos, line);
    }
  }
}

TEST_SUITE("scenario: overrides") {
  TEST_CASE("an override reaches into blocks that were given by name") {
    const Scenario scenario = tiny({{"topology.scale-out.oversubscription", "4"},
                                    {"topology.accelerators", "32"},
                                    {"topology.scale-out.radix", "64"},
                                    {"device.launch", "0"},
                                    {"model.layers", "8"},
                                    {"sharding.kind", "fsdp"},
                                    {"sharding.forward-prefetch", "3"}});
    CHECK(tree_of(scenario).oversubscription == std::vector<double>{4});
    CHECK(tree_of(scenario).link.bandwidth.si() == 50e9);
    CHECK(scenario.topology.accelerators == 32);
    CHECK(scenario.device.launch.si() == 0);
    CHECK(scenario.device.memory.si() == 80e9);
    CHECK(scenario.job.model.layers == 8);
    CHECK(scenario.job.data_parallel == 32);
    CHECK(scenario.job.sharding.fsdp.forward_prefetch == 3);
  }

  TEST_CASE("another kind of fabric takes over the link") {
    const Scenario scenario = tiny({{"topology.scale-out.kind", "all-to-all"}});
    CHECK(std::get<AllToAllSpec>(scenario.topology.scale_out).link.bandwidth.si() == 50e9);
  }

  TEST_CASE("a part of the base is taken away by none") {
    const Scenario scenario = tiny({{"topology.nic", "none"}, {"topology.scale-out.kind", "all-to-all"}});
    CHECK_FALSE(scenario.topology.nic.has_value());
  }

  TEST_CASE("what is wrong in an override is reported at the flag") {
    struct Row {
      const char* name;
      Override change;
      std::string message;
    };
    const std::vector<Row> rows = {
        {"unknown block",
         {"topolgy.accelerators", "8"},
         "--set topolgy.accelerators=8: error: unknown key \"topolgy\"; did you mean \"topology\"? (known: "
         "version, "
         "name, question, source, topology, device, model, parallel, batch, precision, sharding, pipeline, "
         "moe, recompute, implementation, kernels and 11 more)"},
        {"unknown key",
         {"topology.scale-out.oversubscripton", "4"},
         "--set topology.scale-out.oversubscripton=4: error: unknown key \"oversubscripton\"; did you mean "
         "\"oversubscription\"? (known: kind, levels, radix, oversubscription, rail-optimised, rail-only, "
         "routing, seed, link)"},
        {"no value",
         {"batch.global", ""},
         "--set batch.global=: error: \"batch.global\": expected a whole number, found nothing"},
        {"bad value",
         {"topology.scale-out.link.bandwidth", "400"},
         "--set topology.scale-out.link.bandwidth=400: error: \"topology.scale-out.link.bandwidth\": \"400\" "
         "lacks a "
         "unit; write it as in \"400Gbps\" (units: bps, kbps, Mbps, Gbps, Tbps, Bps, kBps, MBps, GBps, TBps, "
         "B/s, "
         "kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s)"},
        {"does not fit",
         {"batch.global", "100"},
         "--set batch.global=100: error: \"batch.global\" is 100, which is not a multiple of parallel.dp × "
         "batch.microbatch (16 × 2 = 32); try 96 or 128"},
        {"unknown name",
         {"topology", "small-tee"},
         "--set topology=small-tee: error: unknown topology \"small-tee\"; did you mean \"small-tree\"? "
         "(known: "
         "circle, small-tree, small-tree-thin); or give a file name that ends in .yaml"},
        {"of a plain value",
         {"batch.global.x", "4"},
         "--set batch.global.x=4: error: \"global\" is a single value; nothing lies below it"},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name) {
        CHECK(message_of([&] { static_cast<void>(tiny({row.change})); }) == row.message);
      }
    }
  }
}

TEST_SUITE("catalogue: alone") {
  TEST_CASE("blocks are loaded by themselves") {
    use_test_data();
    CHECK(load_device("toy").memory.si() == 80e9);
    CHECK(load_device("ideal").memory.si() == 0);
    CHECK(load_model("tiny").layers == 4);
    CHECK(load_topology("small-tree", {{"scale-out.radix", "16"}}).accelerators == 16);
  }

  TEST_CASE("the GPT models have the parameters that their papers state") {
    struct Row {
      std::string name;
      double billions;
    };
    // arXiv 2104.04473, Tables 1 and 2; 22B: 12 · 48 · 6144² (1 + 13/73,728 + 53,248/3,538,944) = 22.07
    // billion.
    for (const Row& row : {Row{"gpt-22b", 22.07}, Row{"gpt-145b", 145.6}, Row{"gpt3-175b", 174.6},
                           Row{"gpt-310b", 310.1}, Row{"gpt-530b", 529.6}, Row{"gpt-1t", 1008.0}}) {
      CAPTURE(row.name);
      const ModelSpec model = load_model(SYNCLINE_SOURCE_DIR "/models/" + row.name + ".yaml");
      CHECK(model.name == row.name);
      CHECK(std::abs(parameter_count(model) / 1e9 - row.billions) < 0.05);
    }
  }

  TEST_CASE("what is wrong with them has a place") {
    use_test_data();
    const Folder folder;
    const std::string model =
        folder.write("m.yaml",
                     "version: 1\nlayers: 2\nhidden: 10\nheads: 4\nkv-heads: 3\nffn: 8\n"
                     "vocabulary: 10\n");
    CHECK(message_of([&] { static_cast<void>(load_model(model)); }, folder / "") ==
          "m.yaml:4:8: error: \"heads\" is 4, which does not divide hidden (10); try 2 or 5, or give "
          "head-size\n"
          "    4 | heads: 4\n      |        ^\n"
          "m.yaml:5:11: error: \"kv-heads\" is 3, which does not divide heads (4); try 2 or 4\n"
          "    5 | kv-heads: 3\n      |           ^");
    CHECK(message_of([] { static_cast<void>(load_device("toi")); }) ==
          "error: unknown device \"toi\"; did you mean \"toy\"? (known: toy); or give a file name that ends "
          "in .yaml");
    CHECK(message_of([] { static_cast<void>(load_topology("circle")); }, Data + "/topologies/") ==
          "circle.yaml:2:7: error: more than 8 bases upon each other; do they name each other in a circle?\n"
          "    2 | base: circle\n      |       ^");
    CHECK(
        message_of([&] { static_cast<void>(load_topology(folder.write("t.yaml", "accelerators: 4\n"))); },
                   folder / "") ==
        "t.yaml:1:1: error: missing key \"version\"; add \"version: 1\"\n    1 | accelerators: 4\n      | ^");
  }

  TEST_CASE("a data folder that is none is a fault of the environment") {
    setenv("SYNCLINE_DATA", "/nonexistent", 1);
    CHECK_THROWS_AS(static_cast<void>(load_device("toy")), EnvironmentError);
    use_test_data();
  }
}
