// Every kind of mistake in a scenario, with the message a user gets for it.
#include <doctest/doctest.h>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string Good = R"(version: 1
topology:
  accelerators: 16
  accelerators-per-node: 4
  scale-up: {kind: switch, link: {bandwidth: 400GBps, latency: 1us}}
  nic: {per-node: 4, host-bus: {bandwidth: 64GBps, latency: 0}}
  scale-out: {kind: fat-tree, radix: 8, link: {bandwidth: 400Gbps, latency: 1us}}
device: toy
model: {layers: 4, hidden: 1024, heads: 16, kv-heads: 4, ffn: 2816, vocabulary: 32000}
batch: {global: 64, microbatch: 2, sequence: 2048}
)";

using Row = Change;

void check_rows(const std::vector<Row>& rows) {
  check_changes(Good, rows);
}

}  // namespace

TEST_SUITE("scenario: bad input") {
  TEST_CASE("the good one is good") {
    check_rows({{"unchanged", "version: 1", "version: 1", ""}});
  }

  TEST_CASE("keys") {
    check_rows({
        {"unknown, nearest named", "microbatch", "microbach",
         "s.yaml:10:21: error: unknown key \"microbach\"; did you mean \"microbatch\"? (known: global, "
         "microbatch, "
         "sequence)\n   10 | batch: {global: 64, microbach: 2, sequence: 2048}\n      |                     "
         "^"},
        {"unknown, required key meant", "hidden", "hiden",
         "s.yaml:9:20: error: unknown key \"hiden\"; did you mean \"hidden\"? (known: version, name, source, "
         "layers, "
         "hidden, heads, kv-heads, head-size, ffn, vocabulary, tied-embedding, norm, activation, position, "
         "max-sequence, bias and 6 more)\n"
         "    9 | model: {layers: 4, hiden: 1024, heads: 16, kv-heads: 4, ffn: 2816, vocabulary: 32000}\n"
         "      |                    ^"},
        {"repeated", "sequence: 2048", "sequence: 2048, global: 1",
         "s.yaml:10:52: error: repeated key \"global\"; it stands on line 10 already, keep one of them\n"
         "   10 | batch: {global: 64, microbatch: 2, sequence: 2048, global: 1}\n"
         "      |                                                    ^"},
        {"missing in a block", ", sequence: 2048", "",
         "s.yaml:10:1: error: missing key \"sequence\" in \"batch\"; add a whole number\n"
         "   10 | batch: {global: 64, microbatch: 2}\n      | ^"},
        {"missing at the top", "device: toy\n", "",
         "s.yaml:1:1: error: missing key \"device\"; add a block of keys\n    1 | version: 1\n      | ^"},
        {"missing version", "version: 1\n", "",
         "s.yaml:1:1: error: missing key \"version\"; add \"version: 1\"\n    1 | topology:\n      | ^"},
        {"other version", "version: 1", "version: 2",
         "s.yaml:1:10: error: \"version\": expected 1, the version that this program reads, not \"2\"\n"
         "    1 | version: 2\n      |          ^"},
        {"kind missing", "kind: fat-tree, radix: 8", "radix: 8",
         "s.yaml:7:3: error: missing key \"kind\" in \"topology.scale-out\"; add one of fat-tree, torus, "
         "all-to-all, dragonfly\n"
         "    7 |   scale-out: {radix: 8, link: {bandwidth: 400Gbps, latency: 1us}}\n      |   ^"},
        {"key of another kind", "kind: fat-tree", "kind: torus",
         "s.yaml:7:28: error: unknown key \"radix\" (known: kind, shape, dimensions, wrap, twist, link)\n"
         "    7 |   scale-out: {kind: torus, radix: 8, link: {bandwidth: 400Gbps, latency: 1us}}\n"
         "      |                            ^"},
    });
  }

  TEST_CASE("quantities") {
    const std::string units =
        "(units: bps, kbps, Mbps, Gbps, Tbps, Bps, kBps, MBps, GBps, TBps, B/s, kB/s, MB/s, GB/s, TB/s, "
        "KiB/s, MiB/s, "
        "GiB/s)";
    const auto row = [](const char* name, const std::string& value, const std::string& message) {
      // Of a list, the key has the caret.
      const int column = value.front() == '[' ? 48 : 59;
      return Row{
          name, "400Gbps", value,
          "s.yaml:7:" + std::to_string(column) + ": error: \"topology.scale-out.link.bandwidth\": " +
              message + "\n    7 |   scale-out: {kind: fat-tree, radix: 8, link: {bandwidth: " + value +
              ", latency: 1us}}\n      | " + std::string(static_cast<std::size_t>(column) - 1, ' ') + "^"};
    };
    check_rows({
        row("no unit", "400", "\"400\" lacks a unit; write it as in \"400Gbps\" " + units),
        row("wrong unit", "400GB",
            "unit \"GB\" in \"400GB\" is not one of " + units.substr(8, units.size() - 9)),
        row("zero", "0Gbps", "\"0Gbps\" must be at least 1 B/s"),
        row("too small", "1e-300bps", "\"1e-300bps\" must be at least 1 B/s"),
        row("too large", "1e30Tbps", "\"1e30Tbps\" must be at most 1000000 TB/s"),
        row("leading zero", "0400Gbps", "\"0400Gbps\" has a leading zero; write it without"),
        row("negative", "-1Gbps", "\"-1Gbps\" is negative; a bandwidth must not be"),
        row("nan", "nan", "\"nan\" is not a finite number; expected a bandwidth such as \"400Gbps\""),
        row("infinite", "1e999Gbps",
            "\"1e999Gbps\" is out of range; expected a bandwidth such as \"400Gbps\""),
        row("word", "fast", "\"fast\" is not a number; expected a bandwidth such as \"400Gbps\""),
        row("list", "[1Gbps]", "expected a bandwidth such as \"400Gbps\", found a list"),
    });
  }

  TEST_CASE("numbers and words") {
    const auto row = [](const char* name, const std::string& value, const std::string& message) {
      return Row{name, "sequence: 2048", "sequence: " + value,
                 "s.yaml:10:46: error: \"batch.sequence\": " + message +
                     "\n   10 | batch: {global: 64, microbatch: 2, sequence: " + value +
                     "}\n      |                                              ^"};
    };
    const auto last = [](const char* name, const std::string& added, int column, const std::string& message) {
      return Row{name, "device: toy\n", "device: toy\n" + added + "\n",
                 "s.yaml:9:" + std::to_string(column) + ": error: " + message + "\n    9 | " + added +
                     "\n      | " + std::string(static_cast<std::size_t>(column) - 1, ' ') + "^"};
    };
    check_rows({
        row("zero", "0", "\"0\" must be at least 1"),
        row("negative", "-2048", "\"-2048\" must be at least 1"),
        row("leading zero", "010", "\"010\" has a leading zero; write it without"),
        row("minus zero", "-0", "\"-0\" is zero with a sign; write it without"),
        row("fraction", "2048.5", "\"2048.5\" is not a whole number"),
        row("exponent", "1e3", "\"1e3\" is not a whole number"),
        row("too large", "1000000000", "\"1000000000\" must be at most 100000000"),
        row("beyond 64 bits", "99999999999999999999", "\"99999999999999999999\" is out of range"),
        row("hexadecimal", "0x10", "\"0x10\" is not a whole number"),
        row("unit", "2048B", "\"2048B\" is not a whole number"),
        last("word", "recompute: ful", 12,
             "\"recompute\": \"ful\" is unknown; expected one of none, selective, selective-op, full; did "
             "you mean "
             "\"full\"?"),
        last("yes is no boolean", "sharding: {kind: fsdp, reshard-after-forward: yes}", 47,
             "\"sharding.reshard-after-forward\": \"yes\" is unknown; expected one of false, true"),
        last("another sharding", "sharding: {kind: zero-9}", 18,
             "\"sharding.kind\": \"zero-9\" is unknown; expected one of fsdp, ddp, zero-1, zero-2; did you "
             "mean \"zero-1\"?"),
        last("empty text", "question: ''", 11, "\"question\": is empty"),
        last("no value", "question:", 1, "\"question\": expected text, found nothing"),
        last("scalar for a block", "parallel: 4", 11,
             "\"parallel\": expected a block of keys, found a single value"),
        last("published share", "published: [{metric: mfu, value: -1, source: x}]", 34,
             "\"published[0].value\": \"-1\" must be above 0"),
        last("published time without unit", "published: [{metric: step-time, value: 2, source: x}]", 40,
             "\"published[0].value\": \"2\" lacks a unit; write it as in \"5us\" (units: s, ms, us, ns, min, "
             "h)"),
        last("size for a time", "expect: {step-time: {at-most: 2GB}}", 31,
             "\"expect.step-time.at-most\": unit \"GB\" in \"2GB\" is not one of s, ms, us, ns, min, h"),
        last("expectation without tolerance", "expect: {mfu: {value: 0.4}}", 10,
             "\"expect.mfu\": expected either value and within, or at-least and at-most or one of them"),
        last("expectation of both kinds", "expect: {mfu: {value: 1, within: 1, at-least: 0}}", 10,
             "\"expect.mfu\": expected either value and within, or at-least and at-most or one of them"),
        last("empty range", "expect: {mfu: {at-least: 0.5, at-most: 0.1}}", 10,
             "\"expect.mfu\": at-least is above at-most, so that nothing holds; swap them"),
        last("seed beyond exact numbers", "run: {seed: 9007199254740993}", 13,
             "\"run.seed\": \"9007199254740993\" must be at most 9007199254740991"),
        last("nan expected", "expect: {mfu: {at-least: nan}}", 26,
             "\"expect.mfu.at-least\": \"nan\" is not a finite number"),
    });
  }

  TEST_CASE("figures that no hardware has, each at its flag") {
    use_test_data();
    const Folder folder;
    const std::string file = folder.write("s.yaml", Good);
    const std::vector<std::pair<Override, std::string>> rows{
        {{"device.sustained-clock", "2"}, "at most 1.2"},
        {{"device.sustained-clock", "0"}, "at least 1e-06"},
        {{"device.hbm.bandwidth", "1e-20GBps"}, "at least 1 B/s"},
        {{"device.hbm.efficiency", "1e-320"}, "at least 1e-06"},
        {{"device.memory", "1e30GB"}, "at most 1000000 TB"},
        {{"device.reserve", "1e30GB"}, "at most 1000000 TB"},
        {{"device.peak.bf16", "1e30TFLOPps"}, "at most 1000000 PFLOP/s"},
        {{"device.launch", "1e300s"}, "at most 1000000 s"},
        {{"device.kernel-gap", "1e200h"}, "at most 1000000 s"},
        {{"device.gemm.k-half", "1e300"}, "at most 1000000000"},
        {{"device.gemm.plateau", "1e-300"}, "at least 1e-06"},
        {{"device.gemm.units", "1000000000"}, "at most 1000000"},
        {{"device.attention.forward", "1e-200"}, "at least 1e-06"},
        {{"topology.scale-up.link.latency", "1e15h"}, "at most 1000000 s"},
        {{"topology.scale-out.link.efficiency", "1e-320"}, "at least 1e-06"},
        {{"topology.scale-out.oversubscription", "1e300"}, "at most 1000000"},
    };
    for (const auto& [change, limit] : rows) {
      CAPTURE(change.path);
      const std::string place = "--set " + change.path + "=" + change.value;
      CHECK(message_of([&] { static_cast<void>(load_scenario(file, {change})); }) ==
            place + ": error: \"" + change.path + "\": \"" + change.value + "\" must be " + limit);
    }
  }

  TEST_CASE("sizes that do not fit each other, with some that would") {
    check_rows({
        {"batch", "global: 64", "global: 65",
         "s.yaml:10:17: error: \"batch.global\" is 65, which is not a multiple of parallel.dp × "
         "batch.microbatch "
         "(16 × 2 = 32); try 64 or 96\n"
         "   10 | batch: {global: 65, microbatch: 2, sequence: 2048}\n      |                 ^"},
        {"batch below one step", "global: 64", "global: 4",
         "s.yaml:10:17: error: \"batch.global\" is 4, which is not a multiple of parallel.dp × "
         "batch.microbatch "
         "(16 × 2 = 32); try 32\n"
         "   10 | batch: {global: 4, microbatch: 2, sequence: 2048}\n      |                 ^"},
        {"too many microbatches", "global: 64", "global: 32000000",
         "s.yaml:10:17: error: \"batch.global\" is 32000000: 1000000 microbatches a step, at most 10000 are "
         "simulated; "
         "raise batch.microbatch\n"
         "   10 | batch: {global: 32000000, microbatch: 2, sequence: 2048}\n      |                 ^"},
        {"too many tokens", "global: 64, microbatch: 2, sequence: 2048",
         "global: 32000, microbatch: 2000, sequence: 100000000",
         "s.yaml:10:52: error: \"batch.sequence\" is 100000000: 200000000000 tokens a microbatch, at most "
         "100000000000 are simulated; lower it or batch.microbatch\n"
         "   10 | batch: {global: 32000, microbatch: 2000, sequence: 100000000}\n"
         "      |                                                    ^"},
        {"too wide a projection", "heads: 16, kv-heads", "heads: 16, head-size: 2000000, kv-heads",
         "s.yaml:9:56: error: \"model.head-size\" is 2000000: with 16 heads a projection 32000000 wide, at "
         "most 16777216 are simulated\n"
         "    9 | model: {layers: 4, hidden: 1024, heads: 16, head-size: 2000000, kv-heads: 4, ffn: 2816, "
         "vocabulary: 32000}\n"
         "      |                                                        ^"},
        {"ranks", "device: toy\n", "device: toy\nparallel: {dp: 32}\n",
         "s.yaml:9:16: error: \"parallel.dp\" is 32, more ranks than topology.accelerators (16); lower it, "
         "or set "
         "topology.accelerators to 32\n    9 | parallel: {dp: 32}\n      |                ^"},
        {"heads", "kv-heads: 4", "kv-heads: 5",
         "s.yaml:9:55: error: \"model.kv-heads\" is 5, which does not divide model.heads (16); try 4 or 8\n"
         "    9 | model: {layers: 4, hidden: 1024, heads: 16, kv-heads: 5, ffn: 2816, vocabulary: 32000}\n"
         "      |                                                       ^"},
        {"learned positions without a table", "vocabulary: 32000}", "vocabulary: 32000, position: learned}",
         "s.yaml:9:98: error: \"model.position\" is learned, which needs the rows of its table; add "
         "max-sequence\n"
         "    9 | model: {layers: 4, hidden: 1024, heads: 16, kv-heads: 4, ffn: 2816, vocabulary: 32000, "
         "position: learned}\n"
         "      |" +
             std::string(98, ' ') + "^"},
        {"a table without learned positions", "vocabulary: 32000}", "vocabulary: 32000, max-sequence: 8}",
         "s.yaml:9:102: error: \"model.max-sequence\" is of learned positions; leave it out, or set position "
         "to "
         "learned\n"
         "    9 | model: {layers: 4, hidden: 1024, heads: 16, kv-heads: 4, ffn: 2816, vocabulary: 32000, "
         "max-sequence: 8}\n"
         "      |" +
             std::string(102, ' ') + "^"},
        {"sequence beyond learned positions", "vocabulary: 32000}",
         "vocabulary: 32000, position: learned, max-sequence: 1024}",
         "s.yaml:10:46: error: \"batch.sequence\" is 2048, more than model.max-sequence (1024); try 1024\n"
         "   10 | batch: {global: 64, microbatch: 2, sequence: 2048}\n"
         "      |                                              ^"},
        {"nodes", "accelerators: 16", "accelerators: 18",
         "s.yaml:3:17: error: \"topology.accelerators\" is 18, which is not a multiple of "
         "topology.accelerators-per-node (4); try 16 or 20\n    3 |   accelerators: 18\n      |              "
         "   ^\n"
         "s.yaml:10:17: error: \"batch.global\" is 64, which is not a multiple of parallel.dp × "
         "batch.microbatch "
         "(18 × 2 = 36); try 36 or 72\n"
         "   10 | batch: {global: 64, microbatch: 2, sequence: 2048}\n      |                 ^"},
        {"NICs", "per-node: 4, host-bus", "per-node: 3, host-bus",
         "s.yaml:6:19: error: \"topology.nic.per-node\" is 3, which does not divide "
         "topology.accelerators-per-node "
         "(4); try 2 or 4\n    6 |   nic: {per-node: 3, host-bus: {bandwidth: 64GBps, latency: 0}}\n"
         "      |                   ^"},
        {"precision", "device: toy\n", "device: toy\nprecision: {compute: fp8}\n",
         "s.yaml:9:22: error: \"precision.compute\" is fp8, for which device toy has no peak rate; it has "
         "fp32, bf16\n"
         "    9 | precision: {compute: fp8}\n      |                      ^"},
        {"disconnected",
         "  scale-out: {kind: fat-tree, radix: 8, link: {bandwidth: 400Gbps, latency: 1us}}\n", "",
         "s.yaml:2:1: error: 4 nodes and no scale-out would be disconnected; add scale-out, or make it one "
         "node with "
         "accelerators-per-node: 16\n    2 | topology:\n      | ^"},
    });
  }

  TEST_CASE("names and files that do not exist") {
    check_rows({
        {"name", "device: toy", "device: toe",
         "s.yaml:8:9: error: unknown device \"toe\"; did you mean \"toy\"? (known: toy); or give a file name "
         "that ends "
         "in .yaml\n    8 | device: toe\n      |         ^"},
        {"file", "device: toy", "device: ./toy.yaml",
         "s.yaml:8:9: error: no such file \"./toy.yaml\"\n    8 | device: ./toy.yaml\n      |         ^"},
        {"block for a name", "device: toy", "device: {base: [toy]}",
         "s.yaml:8:16: error: expected the name of a device or a file\n    8 | device: {base: [toy]}\n"
         "      |                ^"},
    });
  }

  TEST_CASE("all errors are reported at once, in order of place") {
    const Folder folder;
    use_test_data();
    const std::string file =
        folder.write("s.yaml", "version: 1\ndevice: toe\nmodel: {layers: 0}\nbatch: {globl: 1}\n");
    const std::string text = message_of([&] { static_cast<void>(load_scenario(file)); }, folder / "");
    std::size_t from = 0;
    for (const std::string part :
         {"s.yaml:1:1: error: missing key \"topology\"", "s.yaml:2:9: error: unknown device \"toe\"",
          "s.yaml:3:1: error: missing key \"hidden\"", "s.yaml:3:1: error: missing key \"vocabulary\"",
          "s.yaml:3:17: error: \"model.layers\": \"0\" must be at least 1",
          "s.yaml:4:1: error: missing key \"sequence\"", "s.yaml:4:9: error: unknown key \"globl\""}) {
      CAPTURE(text);
      const std::size_t at = text.find(part, from);
      CHECK_MESSAGE(at != std::string::npos, part);
      if (at != std::string::npos) from = at;
    }
  }
}
