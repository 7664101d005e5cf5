#include "sim/compare/align.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/compare/example.hpp"

using namespace syncline;
using namespace syncline::compare;
using syncline::test::tag;
using syncline::test::TimelineExample;

namespace {

/// A letter an op, one after another in one stream; upper case ones take two units of time.
Timeline letters(const std::string& text) {
  TimelineExample example;
  double time = 0;
  for (const char letter : text) {
    Tag name = tag(Phase::Forward);
    name.name = std::string(1, letter);
    example.compute(0, time, time + 1, name);
    ++time;
  }
  return example;
}

/// The letters of ops in one timeline only.
std::string only(const Timeline& timeline, const std::vector<std::uint32_t>& spans) {
  std::string text;
  for (const std::uint32_t span : spans)
    text += timeline.ops[timeline.spans[span].op].tag.name + std::to_string(span) + " ";
  return text;
}

}  // namespace

TEST_CASE("equals are paired where they stand, so that a lacking one moves nothing") {
  struct Row {
    const char *a, *b;
    const char *only_a, *only_b;  // letter and place
    std::size_t moved;
  };
  const Row rows[] = {
      {"abc", "abc", "", "", 0},
      {"abc", "ac", "b1 ", "", 0},
      {"ac", "abc", "", "b1 ", 0},
      {"xaxbxcx", "xaxbcx", "x4 ", "", 0},  // the third x, not the last
      {"xaxbxcx", "axbxc", "x0 x6 ", "", 0},
      {"axbc", "xaxbxc", "", "x0 x4 ", 0},
      {"xxxx", "xx", "x2 x3 ", "", 0},  // nothing tells them apart: the first are paired
      {"abcd", "bcda", "", "", 1},
      {"abcd", "dabc", "", "", 1},
      {"abcdef", "aedcbf", "", "", 3},  // of e d c b one can stay
      {"axbxc", "bxaxc", "", "", 2},
      {"abc", "abx", "c2 ", "x2 ", 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.a);
    CAPTURE(row.b);
    const Timeline a = letters(row.a), b = letters(row.b);
    const Alignment found = align(a, b);
    CHECK(only(a, found.only_a) == row.only_a);
    CHECK(only(b, found.only_b) == row.only_b);
    CHECK(found.pairs.size() + found.only_a.size() == a.spans.size());
    CHECK(found.pairs.size() + found.only_b.size() == b.spans.size());
    CHECK(find_moved(a, b, found.pairs).size() == row.moved);
  }
}

TEST_CASE("ops are the same by rank, stream, tag, name, kind and group; not by bytes or algorithm") {
  const TimelineOp op{.kind = SpanKind::Communication,
                      .stream = StreamId(0),
                      .tag = tag(Phase::Backward, 3),
                      .name = "all-reduce",
                      .bytes = Bytes(1e6),
                      .group = "dp",
                      .algorithm = "ring"};
  struct Row {
    const char* name;
    bool same;
    void (*change)(TimelineOp&);
  };
  const Row rows[] = {
      {"nothing", true, [](TimelineOp&) {}},
      {"bytes", true, [](TimelineOp& o) { o.bytes = Bytes(2e6); }},
      {"algorithm", true, [](TimelineOp& o) { o.algorithm = "tree"; }},
      {"flop", true, [](TimelineOp& o) { o.flop = Flop(1); }},
      {"stream", false, [](TimelineOp& o) { o.stream = StreamId(1); }},
      {"phase", false, [](TimelineOp& o) { o.tag.phase = Phase::Forward; }},
      {"layer", false, [](TimelineOp& o) { o.tag.layer = 4; }},
      {"microbatch", false, [](TimelineOp& o) { o.tag.microbatch = 0; }},
      {"chunk", false, [](TimelineOp& o) { o.tag.chunk = 1; }},
      {"name of the tag", false, [](TimelineOp& o) { o.tag.name = "x"; }},
      {"name", false, [](TimelineOp& o) { o.name = "all-gather"; }},
      {"kind", false, [](TimelineOp& o) { o.kind = SpanKind::Compute; }},
      {"group", false, [](TimelineOp& o) { o.group = "tp"; }},
  };
  Timeline a;
  a.ranks = 1;
  a.streams = {"one", "two"};
  a.ops = {op};
  a.spans = {{RankId(0), 0, Seconds(0), Seconds(0), Seconds(1)}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Timeline b = a;
    row.change(b.ops.front());
    CHECK(align(a, b).pairs.size() == (row.same ? 1 : 0));
  }
  Timeline renamed = a;
  renamed.streams = {"two", "one"};
  CHECK(align(a, renamed).pairs.empty());
  renamed.ops.front().stream = StreamId(1);
  CHECK(align(a, renamed).pairs.size() == 1);
}

TEST_CASE("what starts at one time has no order") {
  TimelineExample a, b;
  a.compute(0, 0, 0, tag(Phase::Forward)).compute(0, 0, 1, tag(Phase::Backward));
  b.compute(0, 0, 1, tag(Phase::Backward)).compute(0, 1, 1, tag(Phase::Forward));
  Timeline &first = a, &second = b;
  CHECK(find_moved(first, second, align(first, second).pairs).empty());
  CHECK(find_moved(second, first, align(second, first).pairs).empty());
}

TEST_CASE("no smaller set of moved ops would do") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::string text = "abcdefghijklmnopqrstuvwxyz";
    std::string other = text;
    for (std::size_t i = other.size(); i > 1; --i) std::swap(other[i - 1], other[random.below(i)]);
    const Timeline a = letters(text), b = letters(other);
    // Longest ascending subsequence of letters, by trying for each letter all before it.
    std::vector<std::size_t> longest;
    for (std::size_t i = 0; i < other.size(); ++i) {
      longest.push_back(1);
      for (std::size_t j = 0; j < i; ++j)
        if (other[j] < other[i]) longest[i] = std::max(longest[i], longest[j] + 1);
    }
    const std::vector<Moved> moved = find_moved(a, b, align(a, b).pairs);
    CHECK(moved.size() == text.size() - *std::ranges::max_element(longest));
    // What is left stands in one order.
    std::string kept;
    for (const char letter : other)
      if (std::ranges::none_of(moved, [&](const Moved& m) { return text[m.pair] == letter; })) kept += letter;
    CHECK(std::ranges::is_sorted(kept));
  }
}
