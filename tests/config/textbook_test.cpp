// Textbook pipelines: what is read, what is shown, and every kind of mistake.
#include "sim/config/textbook.hpp"

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string Good = R"(version: 1
question: where does the bubble of 1F1B come from?
pipeline:
  schedule: 1f1b
  stages: 4
  microbatches: 8
  forward: 10ms
  backward-input: 12ms
  backward-weight: 7ms
)";

const std::string Ordered = R"(version: 1
pipeline:
  order: ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
  forward: [10ms, 20ms]
  backward-input: 12ms
  backward-weight: 7ms
)";

Scenario load(const std::string& text, const std::vector<Override>& overrides = {}) {
  use_test_data();
  const Folder folder;
  return load_scenario(folder.write("s.yaml", text), overrides);
}
TextbookPipeline book(const std::string& text, const std::vector<Override>& overrides = {}) {
  return *load(text, overrides).textbook;
}

/// `text` in line `line` with the caret at `column`.
std::string at(int line, int column, const std::string& text, const std::string& message,
               const std::string& file = "s.yaml") {
  return file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": error: " + message + "\n    " +
         std::to_string(line) + " | " + text + "\n      | " +
         std::string(static_cast<std::size_t>(column) - 1, ' ') + "^";
}

/// A list of ranks with a stage and a microbatch each.
std::string many_ranks(int ranks) {
  std::string list;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string stage = std::to_string(rank);
    list += std::string(list.empty() ? "" : ", ") + '"' + stage + "F0 " + stage + "B0\"";
  }
  return "[" + list + "]";
}

/// A line before `forward`, which is line 7 of Good.
Change added(const char* name, const std::string& line, int column, const std::string& message) {
  return {name, "  forward: 10ms\n", "  " + line + "\n  forward: 10ms\n",
          at(7, column, "  " + line, message)};
}

}  // namespace

TEST_SUITE("textbook: reading") {
  TEST_CASE("values and defaults arrive where they belong, in SI units") {
    const Scenario scenario = load(Good);
    REQUIRE(scenario.textbook);
    const TextbookPipeline& textbook = *scenario.textbook;
    CHECK(textbook.schedule == "1f1b");
    CHECK_FALSE(textbook.order);
    CHECK(textbook.ranks == 4);
    CHECK(textbook.microbatches == 8);
    CHECK(textbook.chunks == 1);
    CHECK(textbook.transfers == pipeline::TransferMode::Eager);
    CHECK_FALSE(textbook.topology);
    const pipeline::Costs costs = costs_of(textbook);
    CHECK(costs.stages.size() == 4);
    CHECK(costs.stages[3] == pipeline::StageTimes{Seconds(0.010), Seconds(0.012), Seconds(0.007)});
    CHECK_FALSE(costs.fused);
    CHECK(costs.hop == Seconds(0));
    CHECK(order_of(textbook) ==
          make_order(*pipeline::find_generator("1f1b"), {.ranks = 4, .microbatches = 8}));
  }

  TEST_CASE("every word is understood") {
    const TextbookPipeline textbook = book(R"(version: 1
topology: {base: small-tree, accelerators: 8}
pipeline:
  schedule: zb-v
  stages: 4
  microbatches: 8
  chunks: 2
  forward: [1ms, 2ms, 3ms, 4ms, 5ms, 6ms, 7ms, 8ms]
  backward-input: 12ms
  backward-weight: 7ms
  transfers: blocking
  bytes: 64MB
  memory-limit: 1.5p
  memory: {forward: 3, backward-input: -1, backward-weight: -2}
run: {detail: full}
expect: {step-time: {at-least: 100ms}}
)");
    CHECK(textbook.memory_limit == 6.0);  // 1.5 · 4
    CHECK(textbook.memory.forward == 3);
    CHECK(textbook.memory.backward_weight == -2);
    CHECK(textbook.bytes == Bytes(64e6));
    CHECK(textbook.transfers == pipeline::TransferMode::Blocking);
    REQUIRE(textbook.topology);
    CHECK(textbook.topology->accelerators == 8);
    const pipeline::Costs costs = costs_of(textbook);
    CHECK(costs.stages[7].forward == Seconds(0.008));
    CHECK(costs.stages[7].backward_input == Seconds(0.012));
    CHECK(costs_of(book(Good, {{"pipeline.schedule", "dualpipe-v"}, {"pipeline.fused", "29ms"}})).fused ==
          Seconds(0.029));
    CHECK(book(Good, {{"pipeline.schedule", "zb-h1"}, {"pipeline.weight-order", "newest-first"}})
              .weight_order == pipeline::WeightOrder::NewestFirst);
    CHECK(book(Good, {{"pipeline.schedule", "interleaved-1f1b"}, {"pipeline.group-size", "8"}}).group_size ==
          8);
  }

  TEST_CASE("with bytes, transfers run beside compute unless told otherwise") {
    const std::vector<Override> wire{{"pipeline.bytes", "64MB"}, {"pipeline.bandwidth", "100Gbps"}};
    CHECK(book(Good, wire).transfers == pipeline::TransferMode::Overlapped);
    CHECK(book(Good, {wire[0], wire[1], {"pipeline.transfers", "eager"}}).transfers ==
          pipeline::TransferMode::Eager);
  }

  TEST_CASE("an order is the same in place, in a file and in a file of PyTorch's") {
    const Folder folder;
    use_test_data();
    folder.write("order.txt", "# rank 0 first\n0F0 0F1 0B0 0B1\n\n1F0 1B0 1F1 1B1\n");
    folder.write("order.csv", "0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n");
    const std::string lines = R"(["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])";
    std::vector<std::string> shown;
    for (const std::string& order :
         {"order: " + lines, std::string("order: order.txt"), std::string("csv: order.csv")}) {
      std::string text = Ordered;
      text.replace(text.find("order: " + lines), 7 + lines.size(), order);
      shown.push_back(show_scenario(load_scenario(folder.write("s.yaml", text))));
    }
    CHECK(shown[0].find("order: " + lines) != std::string::npos);
    CHECK(shown[1] == shown[0]);
    CHECK(shown[2] == shown[0]);
  }

  TEST_CASE("counts that an order has need not be given, and may") {
    const TextbookPipeline textbook = book(Ordered, {{"pipeline.stages", "2"}});
    CHECK(textbook.ranks == 2);
    CHECK(textbook.microbatches == 2);
    CHECK(costs_of(textbook).stages[1].forward == Seconds(0.020));
  }
}

TEST_SUITE("textbook: show") {
  TEST_CASE("what is shown reads back as the same scenario, whatever was chosen") {
    struct Row {
      std::string text;
      std::vector<Override> overrides;
    };
    const std::vector<Row> rows{
        {Good, {}},
        {Good,
         {{"pipeline.hop", "1ms"}, {"pipeline.transfers", "blocking"}, {"expect.step-time.at-most", "1s"}}},
        {Good,
         {{"pipeline.schedule", "zb-auto"},
          {"pipeline.memory-limit", "1.5p"},
          {"pipeline.memory.forward", "2"}}},
        {Good,
         {{"pipeline.schedule", "zb-v"},
          {"pipeline.forward", "[1ms, 2ms, 3ms, 4ms, 5ms, 6ms, 7ms, 1.23456789us]"}}},
        {Good, {{"pipeline.schedule", "zb-h2"}, {"pipeline.weight-order", "newest-first"}}},
        {Good,
         {{"pipeline.schedule", "interleaved-1f1b"}, {"pipeline.chunks", "3"}, {"pipeline.group-size", "4"}}},
        {Good, {{"pipeline.schedule", "dualpipe-v"}, {"pipeline.fused", "25ms"}}},
        {Good, {{"topology", "small-tree"}, {"pipeline.bytes", "64MiB"}}},
        {Good, {{"pipeline.bytes", "64MiB"}, {"pipeline.bandwidth", "100Gbps"}, {"pipeline.hop", "5us"}}},
        {Ordered, {}},
    };
    const Folder folder;
    use_test_data();
    for (const Row& row : rows) {
      const Scenario scenario = load_scenario(folder.write("s.yaml", row.text), row.overrides);
      const std::string shown = show_scenario(scenario);
      CAPTURE(shown);
      const Scenario again = load_scenario(folder.write("s.yaml", shown));
      CHECK(show_scenario(again) == shown);
      CHECK(again.hash == scenario.hash);
    }
  }

  TEST_CASE("every default is written out, and nothing that has no say") {
    const std::string shown = show_scenario(load(Good));
    CHECK(shown.find("hop: 0ns") != std::string::npos);
    CHECK(shown.find("transfers: eager") != std::string::npos);
    CHECK(shown.find("chunks: 1") != std::string::npos);
    CHECK(shown.find("forward: 10ms") != std::string::npos);
    for (const char* key : {"memory", "weight-order", "device", "topology", "sharding"})
      CHECK_MESSAGE(shown.find(key) == std::string::npos, key);
  }
}

TEST_SUITE("textbook: bad input") {
  TEST_CASE("the good ones are good") {
    check_changes(Good, {{"unchanged", "version: 1", "version: 1", ""}});
    check_changes(Ordered, {{"unchanged, with an order", "version: 1", "version: 1", ""}});
  }

  TEST_CASE("keys") {
    const std::string training =
        "is of a training run; this is a textbook pipeline, which has no model: leave it out, or add a model";
    check_changes(
        Good,
        {{"batch", "version: 1\n", "version: 1\nbatch: {global: 8}\n",
          at(2, 1, "batch: {global: 8}", "\"batch\" " + training)},
         {"device", "version: 1\n", "version: 1\ndevice: toy\n",
          at(2, 1, "device: toy", "\"device\" " + training)},
         added("split", "split: even", 3, "\"pipeline.split\" " + training),
         {"nearest", "microbatches", "microbatchs",
          at(6, 3, "  microbatchs: 8",
             "unknown key \"microbatchs\"; did you mean \"microbatches\"? (known: schedule, order, stages, "
             "microbatches, chunks, group-size, forward, backward-input, backward-weight, fused, hop, "
             "transfers, bytes, activation, bandwidth, memory-limit and 2 more)")},
         {"missing schedule", "  schedule: 1f1b\n", "",
          at(3, 1, "pipeline:",
             "missing key \"schedule\" in \"pipeline\"; add one of naive, gpipe, 1f1b, interleaved-1f1b, "
             "looped-bfs, zb-h1, zb-h2, interleaved-zb, 1f1b-v, zb-v-handcrafted, v-half, v-min, dualpipe, "
             "dualpipe-v, zb-auto, zb-v, v-search")},
         {"nothing but a schedule", Good.substr(Good.find("  stages")), "",
          at(3, 1, "pipeline:", "missing key \"stages\" in \"pipeline\"; add a whole number") + "\n" +
              at(3, 1, "pipeline:", "missing key \"microbatches\" in \"pipeline\"; add a whole number") +
              "\n" +
              at(3, 1, "pipeline:",
                 "missing key \"forward\" in \"pipeline\"; add a time such as \"10ms\", or a list of them by "
                 "virtual stage") +
              "\n" +
              at(3, 1, "pipeline:",
                 "missing key \"backward-input\" in \"pipeline\"; add a time such as \"10ms\", or a list of "
                 "them "
                 "by virtual stage") +
              "\n" +
              at(3, 1, "pipeline:",
                 "missing key \"backward-weight\" in \"pipeline\"; add a time such as \"10ms\", or a list of "
                 "them "
                 "by virtual stage")},
         {"a single value", Good.substr(Good.find("pipeline:")), "pipeline: 3\n",
          at(3, 11, "pipeline: 3", "\"pipeline\": expected a block of keys, found a single value")},
         {"missing stages", "  stages: 4\n", "",
          at(3, 1, "pipeline:", "missing key \"stages\" in \"pipeline\"; add a whole number")},
         {"missing time", "  forward: 10ms\n", "",
          at(3, 1, "pipeline:",
             "missing key \"forward\" in \"pipeline\"; add a time such as \"10ms\", or a list of them by "
             "virtual stage")},
         added("weight order that has no say", "weight-order: newest-first", 3,
               "\"pipeline.weight-order\" is of zb-h1, zb-h2; 1f1b does not have it: leave it out"),
         added("fused blocks that there are none of", "fused: 3ms", 3,
               "\"pipeline.fused\" is of schedules with fused blocks (dualpipe, dualpipe-v); 1f1b has none: "
               "leave it out"),
         added("memory that has no say", "memory-limit: 2p", 3,
               "\"pipeline.memory-limit\" is of schedules that are searched for (zb-auto, zb-v, v-search); "
               "1f1b is the same whatever the memory: leave it out"),
         added("memory of a schedule that is not searched for", "memory: {forward: 3}", 3,
               "\"pipeline.memory\" is of schedules that are searched for (zb-auto, zb-v, v-search); 1f1b is "
               "the same whatever the memory: leave it out")});
  }

  TEST_CASE("times and counts") {
    check_changes(
        Good,
        {{"no unit", "10ms", "10",
          at(7, 12, "  forward: 10",
             "\"pipeline.forward\": \"10\" lacks a unit; write it as in \"5us\" (units: s, ms, us, ns, min, "
             "h)")},
         {"a time that is none in a list", "10ms", "[1ms, 2, 3ms, 4ms]",
          at(7, 18, "  forward: [1ms, 2, 3ms, 4ms]",
             "\"pipeline.forward[1]\": \"2\" lacks a unit; write it as in \"5us\" (units: s, ms, us, ns, "
             "min, h)")},
         {"too few times", "10ms", "[1ms, 2ms]",
          at(7, 3, "  forward: [1ms, 2ms]",
             "\"pipeline.forward\" lists 2 times, but there are 4 virtual stages; give one for all, or 4")},
         {"no times", "10ms", "[]",
          at(7, 3, "  forward: []",
             "\"pipeline.forward\": is an empty list; give one time for all virtual stages, or one for "
             "each")},
         {"no stages", "stages: 4", "stages: 0",
          at(5, 11, "  stages: 0", "\"pipeline.stages\": \"0\" must be at least 1")},
         {"too many blocks", "microbatches: 8", "microbatches: 5000000",
          at(6, 17, "  microbatches: 5000000",
             "\"pipeline.microbatches\" is 5000000: 1f1b would have up to 6e+07 actions, at most 2e+07 are "
             "simulated; lower it")},
         {"no time at all", Good.substr(Good.find("  forward")),
          "  forward: 0ms\n  backward-input: 0ms\n  backward-weight: [0ms, 0ms, 0ms, 0ms]\n",
          at(7, 12, "  forward: 0ms",
             "\"pipeline.forward\" is 0, and so is every backward: nothing takes time; give one that does")},
         {"too short", Good.substr(Good.find("  forward")),
          "  forward: 999ns\n  backward-input: 0ms\n  backward-weight: 0ms\n",
          at(7, 12, "  forward: 999ns",
             "\"pipeline.forward\" is below 1us, and so is every backward: too short to be told apart; give "
             "longer ones")},
         {"a schedule's own condition", "schedule: 1f1b\n  stages: 4", "schedule: dualpipe\n  stages: 5",
          at(4, 13, "  schedule: dualpipe",
             "dualpipe needs an even number of stages, not 5; try pipeline.stages 6")},
         {"a schedule's condition on microbatches", "schedule: 1f1b\n  stages: 4",
          "schedule: dualpipe-v\n  stages: 5",
          at(4, 13, "  schedule: dualpipe-v",
             "dualpipe-v needs m ≥ 2p = 10 microbatches, not 8; try pipeline.microbatches 10")}});
  }

  TEST_CASE("transfers") {
    check_changes(
        Good,
        {added(
             "bytes alone", "bytes: 64MB", 10,
             "\"pipeline.bytes\" takes a time only with a bandwidth; add pipeline.bandwidth, or a topology"),
         added("bandwidth alone", "bandwidth: 100Gbps", 14,
               "\"pipeline.bandwidth\" has nothing to carry; add pipeline.bytes"),
         {"topology without bytes", "version: 1\n", "version: 1\ntopology: small-tree\n",
          at(2, 1, "topology: small-tree",
             "\"topology\" carries transfers of a size; add pipeline.bytes, or leave topology out")},
         {"hop beside a topology", "pipeline:\n",
          "topology: small-tree\npipeline:\n  bytes: 1MB\n  hop: 1ms\n",
          at(6, 3, "  hop: 1ms",
             "\"pipeline.hop\" is what the topology says already; leave out one of the two")},
         {"a topology that is too small", "pipeline:\n  schedule: 1f1b\n  stages: 4",
          "topology: small-tree\npipeline:\n  schedule: 1f1b\n  bytes: 1MB\n  stages: 17",
          at(7, 11, "  stages: 17",
             "\"pipeline.stages\" is 17, more ranks than topology.accelerators (16); set that to 17")}});
  }
}

TEST_SUITE("textbook: bad orders") {
  TEST_CASE("a byte-order mark at the beginning of a file is passed over") {
    const Folder folder;
    use_test_data();
    const std::string mark = "\xEF\xBB\xBF";
    folder.write("o.txt", mark + "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n");
    folder.write("o.csv", mark + "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    const std::string shown = show_scenario(load(Ordered));
    for (const std::string& order : {std::string("order: o.txt"), std::string("csv: o.csv")}) {
      std::string text = Ordered;
      const std::string from = R"(order: ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])";
      text.replace(text.find(from), from.size(), order);
      CHECK(show_scenario(load_scenario(folder.write("s.yaml", mark + text))) == shown);
    }
  }

  TEST_CASE("in place") {
    const std::string forward = "  forward: [10ms, 20ms]";
    const auto order = [](const char* name, const std::string& lines, int column,
                          const std::string& message) {
      const std::string text = "  order: " + lines;
      return Change{name, "  order: [\"0F0 0F1 0B0 0B1\", \"1F0 1B0 1F1 1B1\"]", text,
                    at(3, column, text, message)};
    };
    check_changes(
        Ordered,
        {order("unknown action", R"(["0F0 0X1 0B0 0B1", "1F0 1B0 1F1 1B1"])", 16,
               "\"pipeline.order[0]\": unknown action \"0X1\"; expected stage, kind (F, B, I or W) and "
               "microbatch "
               "such as 3F1, or two fused such as (0F3;3B1)OVERLAP_F_B"),
         order("missing action", R"(["0F0 0F1 0B0 0B1", "1F0 1B0 1F1"])", 3,
               "\"pipeline.order\" is not sound: 2 stages and 2 microbatches need 4 forwards and as many "
               "backwards, but there are 7 actions in all"),
         order("deadlock", R"(["0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"])", 11,
               "\"pipeline.order\" deadlocks: rank 0 waits in 0B0 for 1B0 of rank 1, which comes after 1F1; "
               "rank "
               "1 waits in 1F1 for 0F1 of rank 0, which comes after 0B0"),
         order("twice", R"(["0F0 0F1 0B0 0B1", "1F0 1F0 1B0 1F1 1B1"])", 30,
               "\"pipeline.order\" is not sound: rank 1: 1F0 stands twice"),
         {"fused time without fused blocks", forward, "  fused: 3ms\n" + forward,
          at(4, 10, "  fused: 3ms",
             "\"pipeline.fused\" is of fused blocks, of which the order has none; leave it out")},
         order("a list of nothing", "[]", 3,
               "\"pipeline.order\": expected a list of lines, one a rank, such as [\"0F0 0F1 0B0 0B1\"], or "
               "a file "
               "that has them"),
         order("no such file", "order.txt", 10,
               "no such file \"order.txt\"; an order in place is a list of lines, one a rank, such as [\"0F0 "
               "0F1 "
               "0B0 0B1\"]"),
         {"keys that the order decides", forward, "  schedule: 1f1b\n  chunks: 2\n" + forward,
          at(4, 3, "  schedule: 1f1b",
             "\"pipeline.schedule\" is of schedules that are made by name; this one has its order: leave it "
             "out") +
              "\n" +
              at(5, 3, "  chunks: 2",
                 "\"pipeline.chunks\" is of schedules that are made by name; this one has its order: leave "
                 "it out")},
         {"another number of ranks", forward, "  stages: 3\n" + forward,
          at(4, 11, "  stages: 3", "\"pipeline.stages\" is 3, but the order has 2 ranks; leave it out")},
         {"another number of microbatches", forward, "  microbatches: 3\n" + forward,
          at(4, 17, "  microbatches: 3",
             "\"pipeline.microbatches\" is 3, but the order has 2; leave it out")},
         {"two orders", forward, "  csv: a.csv\n" + forward,
          at(4, 3, "  csv: a.csv", "\"pipeline.csv\" stands beside an order; keep one of the two")}});
  }

  TEST_CASE("more ranks than are simulated") {
    const std::string lines = R"(["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])";
    std::string text = Ordered;
    text.replace(text.find(lines), lines.size(), many_ranks(1025));
    CHECK(message_of([&] {
            static_cast<void>(load(text));
          }).find("s.yaml:3:3: error: \"pipeline.order\" has 1025 ranks; at most 1024 are simulated") !=
          std::string::npos);
  }

  TEST_CASE("in files, at their own lines") {
    const Folder folder;
    use_test_data();
    const auto message = [&](const std::string& key, const std::string& name, const std::string& content) {
      folder.write(name, content);
      std::string text = Ordered;
      const std::string from = R"(order: ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])";
      text.replace(text.find(from), from.size(), key + ": " + name);
      const std::string file = folder.write("s.yaml", text);
      return message_of([&] { static_cast<void>(load_scenario(file)); }, folder / "");
    };
    CHECK(message("order", "o.txt", "# two ranks\n0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1Z1\n") ==
          at(3, 13, "1F0 1B0 1F1 1Z1",
             "\"pipeline.order[1]\": unknown action \"1Z1\"; expected stage, kind (F, B, I or W) and "
             "microbatch such "
             "as 3F1, or two fused such as (0F3;3B1)OVERLAP_F_B",
             "o.txt"));
    CHECK(message("order", "o.txt", "# two ranks\n0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1\n") ==
          at(2, 1, "0F0 0B0 0F1 0B1",
             "\"pipeline.order\" deadlocks: rank 0 waits in 0B0 for 1B0 of rank 1, which comes after 1F1; "
             "rank 1 "
             "waits in 1F1 for 0F1 of rank 0, which comes after 0B0",
             "o.txt"));
    CHECK(message("csv", "o.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
          at(1, 5, "0F0,0B0,0F1,0B1",
             "deadlock: rank 0 waits in 0B0 (line 1, column 5) for 1B0 (line 2, column 9) of rank 1, which "
             "comes "
             "after 1F1; rank 1 waits in 1F1 (line 2, column 5) for 0F1 (line 1, column 9) of rank 0, which "
             "comes "
             "after 0B0",
             "o.csv"));
    CHECK(message("csv", "o.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1Q1\n") ==
          at(2, 13, "1F0,1F1,1B0,1Q1",
             "unknown action \"1Q1\"; expected stage, kind (F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
             "UNSHARD, "
             "RESHARD, REDUCE_GRAD) and microbatch such as 3F1",
             "o.csv"));
  }
}
