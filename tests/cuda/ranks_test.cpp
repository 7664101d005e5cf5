// Run by GPUs where there are some, and everywhere by threads that stand for one (device_of_threads.cpp).
#include "tests/cuda/ranks.hpp"

#include <doctest/doctest.h>

using namespace syncline;
using namespace syncline::cuda;
using namespace syncline::cuda::test;
using namespace syncline::literals;

namespace {

/// One step, whose work 0 lasts long enough for what is to happen meanwhile, on a machine with much else to
/// do.
Timeline measure_once(const std::string& text, int gpus) {
  ExecutionPlan plan = plan_of(text, {200_ms});
  plan.warmup = 0;
  plan.repeats = 1;
  return measure(plan, gpus);
}

}  // namespace

TEST_CASE("virtual ranks' collectives leave what they must, on one GPU") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(check_collectives(ranks, Talk::Copies) == "");
  }
}

TEST_CASE("NCCL's collectives leave what they must, on as many GPUs as there are") {
  CHECK(check_collectives(1, Talk::Nccl) == "");
  if (const int gpus = gpu_counts().back(); gpus > 1) CHECK(check_collectives(gpus, Talk::Nccl) == "");
}

TEST_CASE("planned times are kept, streams keep their order, and what comes after waits") {
  const ExecutionPlan plan = plan_of(R"(mesh dense axes=dp:4
family dp mesh=dense axes=dp
stream compute
stream dp
work 0 "short"
work 1 "long"
role 0 "all" ranks=0-3
  op 0 compute work=0 stream=compute name=a
  op 1 collective all-reduce family=dp bytes=1048576 stream=dp after=0 name=reduce
  op 2 compute work=1 stream=compute name=b
  op 3 compute work=0 stream=compute after=1 name=c
speed rank=2 factor=3
)",
                                     {200_us, 1_ms});
  for (const int gpus : gpu_counts()) {
    CAPTURE(gpus);
    const Timeline timeline = measure(plan, gpus);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CAPTURE(rank);
      const double factor = rank == 2 ? 3 : 1;
      // Threads sleep too long, and so take too much off.
      const double least = times_are_real() ? 0.95 : 0.3, most = times_are_real() ? 1.05 : 100;
      for (const auto& [name, planned] : {std::pair("a", 200e-6 * factor), std::pair("b", 1e-3 * factor)}) {
        CAPTURE(name);
        CHECK(length(span_of(timeline, rank, name)).si() >= least * planned);
        CHECK(length(span_of(timeline, rank, name)).si() <= most * planned);
      }
      const Seconds slack = 3_us;  // of events
      CHECK(span_of(timeline, rank, "b").start + slack >= span_of(timeline, rank, "a").end);
      CHECK(span_of(timeline, rank, "reduce").start + slack >= span_of(timeline, rank, "a").end);
      CHECK(span_of(timeline, rank, "c").start + slack >= span_of(timeline, rank, "reduce").end);
      // The reduction waits for rank 2's first op, and hides behind the long one.
      CHECK(span_of(timeline, rank, "reduce").end + 50_us >= span_of(timeline, 2, "a").end);
    }
  }
}

TEST_CASE("a send waits for its receiver unless it is eager") {
  for (const int gpus : gpu_counts())
    for (const bool eager : {false, true}) {
      CAPTURE(gpus);
      CAPTURE(eager);
      const std::string mode = eager ? " eager" : "";
      const Timeline timeline = measure_once(
          "mesh dense axes=pp:2\nstream compute\nstream pp\nwork 0 \"busy\"\n"
          "role 0 \"first\" ranks=0\n"
          "  op 0 send to=pp:1 bytes=1048576 stream=pp name=send" +
              mode +
              "\nrole 1 \"second\" ranks=1\n"
              "  op 0 compute work=0 stream=compute name=busy\n"
              "  op 1 receive from=pp:0 bytes=1048576 stream=pp after=0 name=receive" +
              mode + "\n",
          gpus);
      const Seconds sent = span_of(timeline, 0, "send").end, busy = span_of(timeline, 1, "busy").end;
      if (eager)
        CHECK(sent < busy);
      else
        CHECK(sent + 50_us > busy);
      CHECK(span_of(timeline, 1, "receive").start + 3_us >= busy);
    }
}

TEST_CASE("every eager message has a place of its own until it is fetched") {
  std::string text =
      "mesh dense axes=pp:2\nstream compute\nstream pp\nwork 0 \"busy\"\nrole 0 \"first\" ranks=0\n";
  for (int i = 0; i < 8; ++i)
    text += fmt::format("  op {} send to=pp:1 bytes=4096 stream=pp microbatch={} name=send eager\n", i, i);
  text += "role 1 \"second\" ranks=1\n  op 0 compute work=0 stream=pp name=busy\n";
  for (int i = 0; i < 8; ++i)
    text += fmt::format("  op {} receive from=pp:0 bytes=4096 stream=pp microbatch={} name=receive eager\n",
                        i + 1, i);
  for (const int gpus : gpu_counts()) {
    CAPTURE(gpus);
    const Timeline timeline = measure_once(text, gpus);
    Seconds last_sent;
    for (const Span& span : timeline.spans)
      if (timeline.ops[span.op].tag.name == "send") last_sent = span.end;
    CHECK(last_sent < span_of(timeline, 1, "busy").end);
    CHECK(timeline.spans.size() == 17);
  }
}

TEST_CASE("a program longer than what may be in a stream at once is carried out in order") {
  std::string text =
      "mesh dense axes=dp:2\nfamily dp mesh=dense axes=dp\nstream dp\nstream compute\nwork 0 \"w\"\n"
      "role 0 \"all\" ranks=0-1\n";
  constexpr int Ops = 300;  // of up to ten commands each
  for (int op = 0; op < Ops; op += 2)
    text += fmt::format("  op {} compute work=0 stream=compute microbatch={}{}\n", op, op,
                        op == 0 ? "" : fmt::format(" after={}", op - 1)) +
            fmt::format("  op {} collective all-gather family=dp bytes=64 stream=dp microbatch={} after={}\n",
                        op + 1, op, op);
  for (const int gpus : gpu_counts()) {
    CAPTURE(gpus);
    const Timeline timeline = measure(plan_of(text, {Seconds(1e-6)}), gpus);
    REQUIRE(timeline.spans.size() == 2 * Ops);
    for (std::size_t i = 1; i < timeline.spans.size(); ++i)
      if (timeline.spans[i].rank == timeline.spans[i - 1].rank)
        CHECK(timeline.spans[i].start + 3_us >= timeline.spans[i - 1].end);
  }
}

TEST_CASE("groups that cross each other, and pairs that send both ways, have communicators of their own") {
  // Rows 0 1 and 2 3, columns 0 2 and 1 3, in two streams each; neighbours send each other at once.
  const ExecutionPlan plan = plan_of(R"(mesh dense axes=tp:2,dp:2
family tp mesh=dense axes=tp
family dp mesh=dense axes=dp
stream compute
stream tp
stream dp
stream up
stream down
exchange uneven counts=0,2/1,3
role 0 "left" ranks=0,2
  op 0 collective all-reduce family=tp bytes=4096 stream=tp name=rows
  op 1 collective all-gather family=dp bytes=4096 stream=dp name=columns
  op 2 collective all-reduce family=tp bytes=8192 stream=dp name=rows-again
  op 3 collective all-to-all family=tp bytes=96 stream=tp exchange=uneven name=uneven
  op 4 send to=tp:1 bytes=4096 stream=up name=up
  op 5 receive from=tp:1 bytes=4096 stream=down name=down
role 1 "right" ranks=1,3
  op 0 collective all-gather family=dp bytes=4096 stream=dp name=columns
  op 1 collective all-reduce family=tp bytes=4096 stream=tp name=rows
  op 2 collective all-reduce family=tp bytes=8192 stream=dp name=rows-again
  op 3 collective all-to-all family=tp bytes=96 stream=tp exchange=uneven name=uneven
  op 4 send to=tp:0 bytes=4096 stream=down name=down
  op 5 receive from=tp:0 bytes=4096 stream=up name=up
)",
                                     {});
  for (const int gpus : gpu_counts()) {
    CAPTURE(gpus);
    const Timeline timeline = measure(plan, gpus);
    CHECK(timeline.spans.size() == 24);
    for (const Span& span : timeline.spans) CHECK(span.end >= span.start);
  }
}
