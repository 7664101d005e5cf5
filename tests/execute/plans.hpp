// Plans for the tests.
#pragma once

#include <string>

#include "backends/execute/plan.hpp"
#include "sim/schedule/text.hpp"

namespace syncline::test {

inline ExecutionPlan plan_of(const std::string& body, std::vector<Seconds> work_times) {
  ExecutionPlan plan;
  plan.schedule = read_schedule("syncline-schedule 1\nname \"by hand\"\n" + body + "end\n", "text");
  plan.work_times = std::move(work_times);
  return plan;
}

/// Two stages of two data-parallel ranks: forward, send, backward; then gradients are reduced, and the host waits.
inline const std::string TwoStages = R"(mesh dense axes=dp:2,pp:2
family dp mesh=dense axes=dp
stream compute
stream pp
stream dp
exchange uneven counts=1,2/3,4
load experts family=dp factors=0.5,1.5
work 0 "forward"
  kernel fixed bf16 seconds=0.01
work 1 "backward"
  kernel fixed bf16 seconds=0.02
role 0 "first" ranks=0-1
  op 0 compute work=0 stream=compute phase=F microbatch=0
  op 1 send to=pp:1 bytes=4096 stream=pp phase=F microbatch=0 after=0
  op 2 receive from=pp:1 bytes=4096 message=1 stream=pp phase=B microbatch=0
  op 3 compute work=1 load=experts stream=compute phase=B microbatch=0 after=0,2
  op 4 collective all-reduce family=dp bytes=8192 stream=dp phase=B after=3
  op 5 host-wait op=4
  op 6 collective all-to-all family=dp bytes=100 exchange=uneven stream=dp
  op 7 collective all-to-all family=dp bytes=100 exchange=uneven back stream=dp
role 1 "last" ranks=2-3
  op 0 receive from=pp:0 bytes=4096 stream=pp phase=F microbatch=0
  op 1 compute work=0 stream=compute phase=F microbatch=0 after=0
  op 2 compute work=1 stream=compute phase=B microbatch=0
  op 3 send to=pp:0 bytes=4096 message=1 stream=pp phase=B microbatch=0 after=2
  op 4 collective all-reduce family=dp bytes=8192 stream=dp phase=B after=2
  op 5 host-wait op=4
  op 6 collective all-to-all family=dp bytes=100 stream=dp
  op 7 collective all-to-all family=dp bytes=100 stream=dp
speed rank=3 factor=1.5
)";
inline ExecutionPlan two_stages() {
  return plan_of(TwoStages, {Seconds(0.01), Seconds(0.02)});
}

}  // namespace syncline::test
