#include "backends/execute/scale.hpp"

#include <algorithm>
#include <cmath>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

void scale(Kernel& kernel, double factor) {
  if (kernel.m > 0)
    kernel.m = std::max<std::int64_t>(1, std::llround(static_cast<double>(kernel.m) * factor));
  kernel.flop *= factor;
  kernel.hbm *= factor;
  kernel.fixed *= factor;
}

/// Whole bytes, as the text form has them; something stays something.
Bytes scaled_bytes(Bytes bytes, double factor) {
  return bytes > Bytes(0) ? Bytes(std::max(1.0, std::round(bytes.si() * factor))) : bytes;
}

struct ScaleOp {
  double factor;
  void operator()(Compute&) const {}
  void operator()(HostWait&) const {}
  void operator()(HostWork& work) const { work.duration *= factor; }
  void operator()(Collective& collective) const { collective.bytes = scaled_bytes(collective.bytes, factor); }
  void operator()(Send& send) const { send.bytes = scaled_bytes(send.bytes, factor); }
  void operator()(Receive& receive) const { receive.bytes = scaled_bytes(receive.bytes, factor); }
};

}  // namespace

Schedule scaled(Schedule schedule, double factor) {
  SYNCLINE_CHECK(factor > 0, "a schedule is scaled by what is above 0");
  for (Work& work : schedule.works)
    for (Kernel& kernel : work.kernels) scale(kernel, factor);
  for (Role& role : schedule.roles)
    for (Op& op : role.program) std::visit(ScaleOp{factor}, op.body);
  schedule.job.tokens *= factor;
  schedule.job.model_flop *= factor;
  schedule.job.hardware_flop *= factor;
  return schedule;
}

}  // namespace syncline
