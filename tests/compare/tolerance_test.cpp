#include "sim/compare/tolerance.hpp"

#include <doctest/doctest.h>

#include "sim/compare/comparison_json.hpp"
#include "sim/compare/comparison_text.hpp"
#include "tests/compare/example.hpp"
#include "tests/text.hpp"

using namespace syncline;
using namespace syncline::compare;
using namespace syncline::compare::test;
using doctest::Approx;

namespace {

std::string names(const std::vector<Broken>& broken) {
  std::string text;
  for (const Broken& item : broken) text += item.what + " ";
  return text;
}

std::string refusal(const std::string& limits) {
  try {
    (void)parse_limits(limits, "--tolerance");
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

using syncline::test::contains;

}  // namespace

TEST_CASE("limits are read with their units") {
  const std::vector<Limit> limits = parse_limits("step=5%,op=0.5 %,order=0,start=2ms,all-gather=10%", "--t");
  REQUIRE(limits.size() == 5);
  const double most[] = {0.05, 0.005, 0, 2e-3, 0.1};
  for (std::size_t i = 0; i < 5; ++i) CHECK(limits[i].most == Approx(most[i]));
  CHECK(limits[4].what == "all-gather");
}

TEST_CASE("limits that make no sense are refused") {
  struct Row {
    const char *limits, *message;
  };
  const Row rows[] = {
      {"", "\"\" is no limit, expected such as step=5%"},
      {"step", "\"step\" is no limit"},
      {"=5%", "\"=5%\" is no limit"},
      {"step=0.05", "\"step=0.05\": \"0.05\" is no percentage, expected such as 5%"},
      {"step=5%,", "\"\" is no limit"},
      {"order=5%", "\"order=5%\": "},
      {"start=3", "\"start=3\": "},
      {"op=-1%", "is below 0"},
      {"missing=-1", "is below 0"},
      {"op=x%", "\"op=x%\": "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.limits);
    const std::string message = refusal(row.limits);
    CAPTURE(message);
    CHECK(contains(message, "--tolerance: error: "));
    CHECK(contains(message, row.message));
  }
}

TEST_CASE("what is beyond its limit is named, and nothing else") {
  const Timeline a = MadeUpJob().run();
  const Timeline slow = MadeUpJob{.slow = MadeUpJob::Slow{2, 3, 1.3}}.run();
  struct Row {
    const char* name;
    Timeline a, b;
    const char *limits, *broken;
  };
  const char* all = "step=1%,op=1%,op-mean=1%,op-median=1%,op-p90=1%,order=0,missing=0,clock=1ms,forward=20%";
  const Row rows[] = {
      {"the same", a, a, all, ""},
      {"a slow op", slow, a, "op=29%,op-median=1%,forward=20%,order=0,missing=0,clock=1ms", "op "},
      {"a slow op within", slow, a, "op=31%", ""},
      {"the kind of the slow op", slow, a, "forward=0.1%,all-gather=0%", "forward "},
      {"an op less", a, without(a, find(a, 0, "work", 2)), all, "missing "},
      {"an op more", without(a, find(a, 0, "work", 2)), a, all, "missing "},
      {"one less is allowed", a, without(a, find(a, 0, "work", 2)), "missing=1", ""},
      {"an op elsewhere", a, moved(a, 1, 2, 5), "order=0,op=0.1%,missing=0", "order "},
      {"all clocks", a, shifted(a, 3), all, ""},
      {"a clock", a, shifted(a, 3, 2), all, "clock "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Comparison c = compare::compare(row.a, row.b, {});
    CHECK(names(broken_limits(c, parse_limits(row.limits, "--t"))) == row.broken);
  }
}

TEST_CASE("a broken limit says which op and by how much") {
  syncline::test::TimelineExample a, b;
  a.compute(0, 0, 1.3, syncline::test::tag(Phase::Forward, 3));
  b.compute(0, 0, 1, syncline::test::tag(Phase::Forward, 3));
  const Comparison c = compare::compare(a, b, {});
  const auto broken = broken_limits(c, parse_limits("step=5%,op=15%", "--t"));
  REQUIRE(broken.size() == 2);
  CHECK(broken[0].message == "step: A 1.3 ms, B 1 ms, +30.0 %, beyond 5%");
  CHECK(broken[1].message == "op: rank 0, compute: F layer 3 work: A 1.3 ms, B 1 ms, +30.0 %, beyond 15%");
  CHECK(broken[1].value == Approx(0.3));
}

TEST_CASE("many ops beyond one limit are cut short") {
  Timeline a = MadeUpJob().run(), b = a;
  for (Span& span : b.spans)
    if (b.ops[span.op].kind == SpanKind::Compute) span.end += span.end - span.start;
  const auto broken = broken_limits(compare::compare(a, b, {}), parse_limits("op=15%", "--t"));
  REQUIRE(broken.size() == MostNamed);
  CHECK(contains(broken.back().message, "and 12 more"));  // 4 ranks × 8 layers − 20
}

TEST_CASE("a limit for a kind that is not there is refused with the ones that are") {
  const Timeline a = MadeUpJob().run();
  try {
    (void)broken_limits(compare::compare(a, a, {}), parse_limits("all-gathr=5%", "--tolerance"));
    FAIL("taken");
  } catch (const InputError& error) {
    CHECK(contains(error.what(), "--tolerance: error: unknown measure or kind of op \"all-gathr\""));
    CHECK(contains(error.what(), "did you mean \"all-gather\"?"));
  }
}

TEST_CASE("a kind that only one timeline has is beyond any limit") {
  const Timeline whole = MadeUpJob().run();
  Timeline part = whole;
  std::erase_if(part.spans, [&](const Span& span) { return part.ops[span.op].name == "all-gather"; });
  const auto limits = parse_limits("all-gather=500%", "--t");
  const auto broken = broken_limits(compare::compare(whole, part, {}), limits);
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].message == "all-gather: in A alone, beyond 500%");
  CHECK(broken_limits(compare::compare(part, whole, {}), limits).size() == 1);
}

TEST_CASE("text and JSON say what a comparison found") {
  const Timeline a = MadeUpJob().run();
  Timeline b =
      without(moved(MadeUpJob{.slow = MadeUpJob::Slow{2, 7, 2}}.run(), 1, 2, 4), find(a, 0, "work", 5));
  b.about = {{"backend", "mpi"}};
  b = shifted(b, 3, 3);
  const Comparison c = compare::compare(a, b, {});
  const std::string text = comparison_text(c, {});
  for (const char* part :
       {"error = A / B - 1: positive where A takes longer", "backend: mpi", "missing: 1 ops are in A alone",
        "rank 0, compute: F layer 5 work, at", "order: one op has moved",
        "rank 1, compute: F layer 2 work: in A after F layer 1 work, in B after F layer 4 work",
        "rank 3 alone: its clock is 3 ms later in B; taken out", "rank 2, compute: F layer 7 work", "-50.0 %",
        "longest waits in B"}) {
    CAPTURE(text);
    CHECK(contains(text, part));
  }
  const std::string json = comparison_json(c, {}, {}, "1.0");
  for (const char* part : {"\"schema\": 1", "\"ops_differing\": 1", "\"missing\": 1", "\"extra\": 0",
                           "\"moved\": 1", "\"backend\": \"mpi\"", "\"broken\": []"}) {
    CAPTURE(part);
    CHECK(contains(json, part));
  }
}
