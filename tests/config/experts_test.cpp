// The keys of models with experts, and what is refused of them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

Scenario tiny(std::vector<Override> overrides) {
  use_test_data();
  overrides.insert(overrides.begin(), {"model.experts", "{count: 16, top-k: 2, ffn: 512}"});
  return load_scenario(Data + "/tiny-16.yaml", overrides);
}

}  // namespace

TEST_SUITE("scenario: experts") {
  TEST_CASE("keys arrive where they belong, and are shown so that they read back the same") {
    const std::vector<Override> overrides = {
        {"model.experts",
         "{count: 16, top-k: 2, ffn: 512, shared-ffn: 256, dense-layers: 1, groups: 4, top-groups: 2}"},
        {"model.multi-token-prediction", "1"},
        {"parallel", "{ep: 8, etp: 2}"},
        {"sharding", "{kind: zero-1, gather-by-optimizer: true}"},
        {"graphs", "router"},
        {"moe",
         "{routing: {zipf: 0.5}, node-limited: true, capacity: 1.5, pad: true, dispatch: two-hop, "
         "dispatch-precision: fp8, combine-precision: bf16, overlap: shared-experts, host-waits: false, "
         "fused-router: false, units: 20, step: 7}"}};
    const Scenario scenario = tiny(overrides);
    const TrainingJob& job = scenario.job;
    REQUIRE(job.model.experts);
    CHECK(*job.model.experts == ExpertSpec{.count = 16,
                                           .top_k = 2,
                                           .ffn = 512,
                                           .shared_ffn = 256,
                                           .dense_layers = 1,
                                           .groups = 4,
                                           .top_groups = 2});
    CHECK(job.model.extra_predictions == 1);
    CHECK(job.shape.graphs == Graphs::Router);
    CHECK(job.sharding.gather_by_optimizer);
    CHECK(job.shape.experts == ExpertOptions{.parallel = 8,
                                             .tensor = 2,
                                             .capacity = 1.5,
                                             .pad = true,
                                             .dispatch = Dispatch::TwoHop,
                                             .dispatched = Precision::Fp8,
                                             .combined = Precision::Bf16,
                                             .overlap = ExpertOverlap::SharedExperts,
                                             .host_waits = false,
                                             .units = 20,
                                             .fused_router = false});
    CHECK(std::get<moe::Zipf>(job.routing.routing) == moe::Zipf{0.5});
    CHECK(job.routing.node_limited);
    CHECK(job.routing.step == 7);
    const std::string shown = show_scenario(scenario);
    CHECK(show_scenario(parse_scenario(shown, "shown.yaml")) == shown);
  }

  TEST_CASE("what does not fit is refused with a way out") {
    const std::vector<RefusedOverrides> rows = {
        {"more chosen than there are",
         {{"model.experts.top-k", "17"}},
         "\"model.experts.top-k\" is 17, more experts than a layer has (experts.count 16); lower it"},
        {"too many choices",
         {{"model.experts", "{count: 4096, top-k: 65, ffn: 16}"}},
         "\"model.experts.top-k\" is 65: experts.count × experts.top-k = 4096 × 65 = 266240, and at most "
         "262144 are "
         "simulated; lower one of them"},
        {"no layer with experts",
         {{"model.experts.dense-layers", "99"}},
         "\"model.experts.dense-layers\" is 99, and the model has"},
        {"groups that do not divide",
         {{"model.experts.groups", "3"}},
         "\"model.experts.groups\" is 3, which does not divide experts.count (16); try 2 or 4"},
        {"ep that does not divide",
         {{"parallel.ep", "5"}},
         "\"parallel.ep\" is 5, which does not divide "
         "model.experts.count (16); try 4 or 8"},
        {"ep and etp beyond the ranks",
         {{"parallel", "{ep: 16, etp: 2}"}},
         "\"parallel.ep\" is 16: ep × etp = 16 × 2 = 32 does not divide tp × cp × dp = 1 × 1 × 16 = 16"},
        {"slices of an expert",
         {{"parallel.etp", "3"}},
         "\"parallel.etp\" is 3, which does not divide model.experts.ffn (512); try 2 or 4"},
        {"padding without capacity",
         {{"parallel.ep", "4"}, {"moe.pad", "true"}},
         "\"moe.pad\" fills experts up to their capacity, and there is none; add moe.capacity"},
        {"more than all tokens",
         {{"parallel.ep", "4"}, {"moe.capacity", "9"}},
         "\"moe.capacity\" is 9, more than all tokens for every expert, which is experts.count / "
         "experts.top-k = 8; "
         "lower it, or leave it out"},
        {"groups of none",
         {{"parallel.ep", "4"}, {"moe.node-limited", "true"}},
         "\"moe.node-limited\" goes by groups of experts, and the model has none"},
        {"nothing shared",
         {{"parallel.ep", "4"}, {"moe.overlap", "shared-experts"}},
         "\"moe.overlap\" is shared-experts, and the model has none; set it to none or batch"},
        {"no block of two microbatches",
         {{"parallel.ep", "4"}, {"moe.overlap", "batch"}},
         "\"moe.overlap\" is batch, which needs a pipeline that runs a forward and a backward as one"},
        {"nothing to hide",
         {{"sharding.kind", "ddp"}, {"moe.overlap", "batch"}},
         "\"moe.overlap\" is batch, which hides exchanges between ranks, and parallel.ep is 1; leave it out"},
        {"a library for nobody",
         {{"moe.library", "deepep-h100"}},
         "\"moe.library\" is of exchanges between ranks, and parallel.ep is 1; leave it out"},
        {"hotter than all",
         {{"parallel.ep", "4"}, {"moe.routing", "{hot: {experts: 16, share: 0.5}}"}},
         "\"moe.routing\" has 16 hot experts, but model.experts.count is 16; lower it"},
        {"each rank routes its own tokens",
         {{"parallel", "{tp: 2, ep: 4}"}},
         "\"parallel.sequence-parallel\" is false, but each of the ranks that share a layer routes tokens of "
         "its "
         "own; set it to true"},
        {"gathers by optimizer beside forward",
         {{"sharding", "{kind: zero-1, overlap-gather: true, gather-by-optimizer: true}"}},
         "\"sharding.gather-by-optimizer\" is of what is gathered after the update, and "
         "sharding.overlap-gather gathers in "
         "the next step; leave one of them out"},
        {"hybrid sharding",
         {{"parallel.ep", "4"}, {"sharding", "{kind: fsdp, group: 8}"}},
         "\"sharding.group\" is of replicas of sets of shards, which experts do not have; leave it out"},
        {"experts without a model of them",
         {{"model.experts", "none"}, {"parallel.ep", "4"}},
         "\"parallel.ep\" is of expert layers, and the model has none; leave it out"},
        {"a window for no layer",
         {{"model.sliding-every", "2"}},
         "\"model.sliding-every\" says which layers have a window, and there is none; add sliding-window"}};
    check_refused(rows, tiny);
  }

  TEST_CASE("a graph of whole layers has no host that waits, and devices have so many units") {
    const std::vector<RefusedOverrides> rows = {
        {"a graph of layers",
         {{"parallel.ep", "4"}, {"graphs", "layers"}, {"moe.host-waits", "true"}},
         "\"moe.host-waits\" is true, but a CUDA graph of whole layers has no room for a host that waits"},
        {"a graph of the step",
         {{"parallel.ep", "4"}, {"graphs", "step"}, {"moe.host-waits", "true"}},
         "\"moe.host-waits\" is true, but a CUDA graph of whole layers"},
        {"no units", {{"parallel.ep", "4"}, {"moe.units", "0"}}, "\"moe.units\": \"0\" must be at least 1"},
        {"all units", {{"parallel.ep", "4"}, {"moe.units", "1000"}}, "\"moe.units\" is 1000, and device "}};
    check_refused(rows, tiny);
    CHECK(tiny({{"parallel.ep", "4"}, {"graphs", "attention-and-router"}, {"moe.host-waits", "true"}})
              .job.shape.experts.host_waits == true);
  }

  TEST_CASE("what is not given is shown as it holds") {
    struct Row {
      const char* name;
      std::vector<Override> overrides;
      std::string shown;
    };
    const std::vector<Override> megatron = {{"parallel.ep", "4"}, {"implementation", "megatron"}};
    const auto with = [&](std::vector<Override> more) {
      more.insert(more.begin(), megatron.begin(), megatron.end());
      return more;
    };
    for (const Row& row :
         {Row{"torchtitan", {{"parallel.ep", "4"}}, "host-waits: false"},
          Row{"megatron", megatron, "host-waits: true"},
          Row{"padded", with({{"moe.capacity", "1"}, {"moe.pad", "true"}}), "host-waits: false"},
          Row{"layers in graphs", with({{"graphs", "layers"}}), "host-waits: false"},
          Row{"told to", with({{"moe.host-waits", "false"}}), "host-waits: false"},
          Row{"compiled", megatron, "fused-router: true"},
          Row{"eager", with({{"kernels", "eager"}}), "fused-router: false"},
          Row{"sent as computed", megatron, "dispatch-precision: bf16, combine-precision: bf16"},
          Row{"sent in less", with({{"moe.dispatch-precision", "fp8"}}),
              "dispatch-precision: fp8, combine-precision: bf16"}}) {
      CAPTURE(row.name);
      std::string shown = show_scenario(tiny(row.overrides));
      for (std::size_t at = 0;
           (at = shown.find('\n', at)) != std::string::npos;) {  // a block may be one key a line
        const std::size_t text = shown.find_first_not_of(' ', at + 1);
        shown.replace(at, std::min(text, shown.size()) - at, ", ");
      }
      CAPTURE(shown);
      CHECK(shown.find(row.shown) != std::string::npos);
    }
  }

  TEST_CASE("measured counts are of copies that tokens can have") {
    use_test_data();
    const Folder folder;
    const std::string head = "layer,rank,expert,tokens\n";
    std::string even, short_of, many;
    for (int e = 0; e < 16; ++e) even += "0,0," + std::to_string(e) + ",8\n";
    for (int e = 0; e < 12; ++e) short_of += "0,0," + std::to_string(e) + ",8\n";
    for (int e = 0; e < 17; ++e) many += "0,0," + std::to_string(e) + ",8\n";
    const std::vector<std::pair<std::string, std::string>> rows = {
        {even, ""},
        {short_of, ""},                          // the last four got nothing
        {"0,0,0,50\n0,0,1,30\n0,0,2,20\n", ""},  // half of 100: every token has one
        {"0,0,0,51\n0,0,1,30\n0,0,2,20\n", ""},  // as near as a mean is
        {"0,0,0,60\n0,0,1,20\n0,0,2,20\n",
         "\"moe.routing\" has counts (counts.csv) that cannot be: in layer 0 rank 0 sends 60 of its 100 "
         "copies to "
         "expert 0, but a token goes to 2 different experts, so that one gets at most a share of 1/2"},
        {many, "\"moe.routing\" has counts of 17 experts (counts.csv), but model.experts.count is 16"}};
    for (const auto& [counts, message] : rows) {
      CAPTURE(counts);
      folder.write("counts.csv", head + counts);
      const std::string said = message_of(
          [&] {
            tiny({{"parallel.ep", "4"}, {"moe.routing", "{counts: " + (folder / "counts.csv") + "}"}});
          },
          folder / "");
      CAPTURE(said);
      if (message.empty())
        CHECK(said == "");
      else
        CHECK(said.find(message) != std::string::npos);
    }
  }

  TEST_CASE("a library is named by what is there, and has rates between nodes where experts are on several") {
    use_test_data();
    const Folder folder;
    const auto library = [](const std::string& between) {
      return "version: 1\nname: made\nsource: made up\nfamily: made\nlinks: {inside: 400GBps, between: "
             "50GBps}\n"
             "kernels:\n  - name: normal\n    travel: two-hop\n    figures:\n"
             "      - {op: dispatch, call: 10us, inside: 300GBps" +
             between + "}\n      - {op: combine, call: 20us, inside: 300GBps" + between + "}\n";
    };
    const std::string inside = folder.write("inside.yaml", library("")),
                      across = folder.write("across.yaml", library(", between: [{nodes: 2, rate: 40GBps}]"));
    const std::string unknown = folder.write("unknown.yaml", "name: made\n");
    const auto with = [](const std::string& ep, const std::string& file) {
      return std::vector<Override>{{"parallel.ep", ep}, {"moe.dispatch", "two-hop"}, {"moe.library", file}};
    };
    const std::vector<RefusedOverrides> rows = {
        {"no rates between them", with("8", inside),
         "\"moe.library\" is made, which has no figures of dispatch and combine for experts on 2 nodes; keep "
         "parallel.ep inside a node, leave it out, or choose one that has"},
        {"no such library", with("8", "deepep-h80"),
         "--set moe.library=deepep-h80: error: unknown library of dispatch and combine \"deepep-h80\""}};
    check_refused(rows, tiny);
    CHECK(tiny(with("4", inside)).job.routing.figures->name == "made");
    CHECK(tiny(with("8", across)).job.routing.figures->name == "made");
    const std::string said = message_of([&] { tiny(with("8", unknown)); });
    const std::string missing = "missing key \"version\"";  // found by two, told once
    CHECK(said.find(missing) != std::string::npos);
    CHECK(said.find(missing) == said.rfind(missing));
  }

  TEST_CASE("two hops go by whole nodes") {
    const std::vector<RefusedOverrides> rows = {
        {"a group on two nodes of twelve",
         {{"topology",
           "{accelerators: 24, accelerators-per-node: 12, scale-up: {kind: switch, link: {bandwidth: "
           "100GBps, latency: 1us}}, nic: {per-node: 12, host-bus: {bandwidth: 64GBps, latency: 1us}}, "
           "scale-out: {kind: all-to-all, fabric: ideal-switch, link: "
           "{bandwidth: 10GBps, latency: 1us}}}"},
          {"parallel", "{dp: 24, ep: 8}"},
          {"model.experts.count", "24"},
          {"batch.global", "24"},
          {"moe.dispatch", "two-hop"}},
         "\"parallel.ep\" is 8, which does not divide the 12 of them that a node has room for, so that some "
         "groups lie "
         "on two nodes; moe.dispatch two-hop and moe.library go by whole nodes; try 6 or 12"}};
    check_refused(rows, tiny);
  }
}
