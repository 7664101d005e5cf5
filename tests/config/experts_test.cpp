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
         "\"parallel.ep\" ep × etp = 16 × 2 = 32 do not divide tp × cp × dp = 1 × 1 × 16 = 16"},
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
}
