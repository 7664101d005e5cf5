#include "sim/compare/waits.hpp"

#include <doctest/doctest.h>

#include "tests/compare/example.hpp"

using namespace syncline;
using namespace syncline::compare;
using doctest::Approx;
using syncline::test::tag;
using syncline::test::TimelineExample;

TEST_CASE("an all-reduce that is long on one rank and short on another: who waited, and for whom") {
  // All end at 10.000 ms after 5.2, 3.1, 0.9 and 4.0 ms; rank 2 has a gemm of 4 ms until 9.1 ms.
  TimelineExample example(4);
  const double lengths[] = {5.2, 3.1, 0.9, 4.0};
  std::vector<std::size_t> members;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    if (rank == 2) {
      TimelineOp gemm{.kind = SpanKind::Compute, .stream = example.stream("compute"), .name = "gemm"};
      example.add(rank, gemm, 5.1, 5.1, 9.1);
      example.host(rank, 0, 0.5);
    }
    const double start = 10 - lengths[rank];
    example.collective(rank, "all-reduce", start, start, 10, Bytes(64 * 1048576.0));
    members.push_back(rank < 2 ? rank : rank + 2);
  }
  Timeline& timeline = example;
  arrive_together(timeline, members);

  const Waits waits = find_waits(timeline, 10);
  REQUIRE(waits.worst.size() == 1);
  const Meeting& meeting = waits.worst.front();
  CHECK(meeting.spans == std::vector<std::uint32_t>(members.begin(), members.end()));
  CHECK(meeting.cost.si() == Approx(0.9e-3));
  CHECK(timeline.spans[meeting.last].rank == RankId(2));
  REQUIRE(meeting.before.has_value());
  CHECK(timeline.ops[timeline.spans[*meeting.before].op].name == "gemm");
  CHECK(meeting.kernel_time.si() == Approx(13.2e-3));  // 5.2 + 3.1 + 0.9 + 4.0
  CHECK(meeting.waiting.si() == Approx(9.6e-3));       // 4.3 + 2.2 + 0 + 3.1
  const double waiting[] = {4.3e-3, 2.2e-3, 0, 3.1e-3};
  for (std::size_t rank = 0; rank < 4; ++rank) CHECK(waits.by_rank[rank].si() == Approx(waiting[rank]));
  REQUIRE(waits.kinds.size() == 1);
  CHECK(waits.kinds.front().kind == "all-reduce");
  CHECK(waits.kinds.front().kernels == 4);
  CHECK(waits.all.waiting.si() == Approx(9.6e-3));
}

TEST_CASE("the two ends of a message are one communication") {
  // A receive from 0 to 12 ms whose sender comes at 11 ms: 11 waiting, 1 transfer.
  TimelineExample example(2);
  Tag send = tag(Phase::Forward), receive = send;
  send.microbatch = receive.microbatch = 0;
  send.name = "send";
  receive.name = "receive";
  const auto message = [&](const char* name, const char* peer, Tag tag) {
    return TimelineOp{.kind = SpanKind::Communication,
                      .stream = example.stream("pp"),
                      .tag = std::move(tag),
                      .name = name,
                      .bytes = Bytes(1e6),
                      .group = peer};
  };
  example.compute(0, 0, 11).add(0, message("send", "to pp 1", send), 11, 11, 12);
  example.add(1, message("recv", "from pp 0", receive), 0, 11, 12);
  const Timeline& timeline = example;
  const Waits waits = find_waits(timeline, 10);
  REQUIRE(waits.worst.size() == 1);
  CHECK(waits.worst.front().waiting.si() == Approx(11e-3));
  CHECK(waits.worst.front().cost.si() == Approx(1e-3));
  CHECK(waits.worst.front().last == 1);
  CHECK(waits.worst.front().before == 0U);
  CHECK(waits.all.alone == 0);
}

TEST_CASE("communications of one name meet by layer and time, and what has no partner is left out") {
  TimelineExample example(2);
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (const int layer : {0, 1})
      for (const double time : {0.0, 10.0})  // two steps
        example.collective(rank, "all-gather", time + layer, time + layer, time + layer + 1, Bytes(1),
                           "gather", tag(Phase::Forward, layer));
  example.collective(1, "all-gather", 20, 20, 21);
  const Timeline& timeline = example;
  const auto meetings = meetings_of(timeline);
  CHECK(meetings.size() == 4);
  for (const std::vector<std::uint32_t>& spans : meetings) {
    REQUIRE(spans.size() == 2);
    CHECK(timeline.spans[spans[0]].rank == RankId(0));
    CHECK(timeline.spans[spans[1]].rank == RankId(1));
    CHECK(timeline.spans[spans[0]].start == timeline.spans[spans[1]].start);
  }
  CHECK(find_waits(timeline, 10).all.alone == 1);
  CHECK(find_waits(timeline, 10).worst.empty());  // nobody waits
}

TEST_CASE(
    "in any job waiting and moving make up the time of the kernels, and the last one waits for nobody") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const Timeline timeline = compare::test::MadeUpJob{.ranks = 6, .seed = seed}.run();
    const Waits waits = find_waits(timeline, 1000);
    CHECK(waits.all.alone == 0);
    Seconds by_rank;
    for (const Seconds waiting : waits.by_rank) by_rank += waiting;
    CHECK(by_rank.si() == Approx(waits.all.waiting.si()));
    for (std::size_t i = 0; i < waits.worst.size(); ++i) {
      const Meeting& meeting = waits.worst[i];
      CHECK(meeting.spans.size() == 6);
      CHECK(timeline.spans[meeting.last].start == timeline.spans[meeting.last].transfer);
      CHECK(meeting.kernel_time.si() == Approx(meeting.waiting.si() + 6 * meeting.cost.si()));
      if (i > 0) CHECK(meeting.waiting <= waits.worst[i - 1].waiting);
    }
  }
}
