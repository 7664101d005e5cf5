#include "backends/mpi/collective_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>

#include "backends/mpi/mpi_call.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"

namespace syncline::mpi {
namespace {

constexpr int ShiftTag = 0;  // on a channel, which has no other messages than those of shifts

/// Whole elements that hold so many bytes.
int elements(Bytes bytes) {
  return static_cast<int>(std::ceil(bytes.si() / sizeof(float)));
}

void refuse_beyond_int(double elements, Bytes bytes) {
  if (elements > INT_MAX)
    throw EnvironmentError(fmt::format(
        "an op of {} is more than a call of MPI takes (2^31 - 1 elements of 4 bytes, 8.59 GB); use --scale",
        to_text(bytes)));
}

Bytes sum(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes part : parts) all += part;
  return all;
}

/// One call of MPI: checked, its request kept.
class Calls {
 public:
  template <class Function, class... Arguments>
  void operator()(const char* name, Function call, Arguments... arguments) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(call(arguments..., &request), name);
    requests.push_back(request);
  }
  std::vector<MPI_Request> requests;
};

}  // namespace

BufferNeed need_of(const CollectiveTask& task, std::size_t members) {
  const auto parts = static_cast<double>(members);
  const Bytes largest = std::max({task.bytes, sum(task.to), sum(task.from)});
  refuse_beyond_int(largest.si() / sizeof(float) + parts, largest);
  const auto whole = static_cast<std::size_t>(elements(task.bytes));
  const auto part = static_cast<std::size_t>(elements(task.bytes / parts));
  const std::size_t all = part * members;
  const bool first = task.position == 0;
  switch (task.kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::Shift: return {whole, whole};
    case CollectiveKind::AllGather: return {part, all};
    case CollectiveKind::ReduceScatter: return {all, part};
    case CollectiveKind::Broadcast: return first ? BufferNeed{whole, 0} : BufferNeed{0, whole};
    case CollectiveKind::Reduce: return {whole, first ? whole : 0};
    case CollectiveKind::Scatter: return {first ? all : 0, part};
    case CollectiveKind::Gather: return {part, first ? all : 0};
    case CollectiveKind::AllToAll:
      return {static_cast<std::size_t>(elements(sum(task.to))) + members,
              static_cast<std::size_t>(elements(sum(task.from))) + members};
  }
  return {};
}

BufferNeed need_of(const TransferTask& task) {
  refuse_beyond_int(task.bytes.si() / sizeof(float), task.bytes);
  const auto whole = static_cast<std::size_t>(elements(task.bytes));
  return task.sends ? BufferNeed{whole, 0} : BufferNeed{0, whole};
}

CollectiveCall::Layout::Layout(const std::vector<Bytes>& parts) {
  int place = 0;
  for (const Bytes part : parts) {
    counts.push_back(elements(part));
    places.push_back(place);
    place += counts.back();
  }
}

CollectiveCall::CollectiveCall(const CollectiveTask& task, MPI_Comm channel)
    : kind_(task.kind),
      channel_(channel),
      position_(static_cast<int>(task.position)),
      to_(task.to),
      from_(task.from) {
  if (channel != MPI_COMM_NULL) check(MPI_Comm_size(channel, &members_), "MPI_Comm_size");
  whole_ = elements(task.bytes);
  part_ = elements(task.bytes / members_);
}

std::vector<MPI_Request> CollectiveCall::begin(const Buffers& buffers) const {
  if (members_ == 1) return {};
  const float* const from = buffers.from;
  float* const to = buffers.to;
  Calls call;
  switch (kind_) {
    case CollectiveKind::AllReduce:
      call("MPI_Iallreduce", MPI_Iallreduce, from, to, whole_, MPI_FLOAT, MPI_SUM, channel_);
      break;
    case CollectiveKind::AllGather:
      call("MPI_Iallgather", MPI_Iallgather, from, part_, MPI_FLOAT, to, part_, MPI_FLOAT, channel_);
      break;
    case CollectiveKind::ReduceScatter:
      call("MPI_Ireduce_scatter_block", MPI_Ireduce_scatter_block, from, to, part_, MPI_FLOAT, MPI_SUM,
           channel_);
      break;
    case CollectiveKind::Broadcast:
      call("MPI_Ibcast", MPI_Ibcast, position_ == 0 ? buffers.from : to, whole_, MPI_FLOAT, 0, channel_);
      break;
    case CollectiveKind::Reduce:
      call("MPI_Ireduce", MPI_Ireduce, from, to, whole_, MPI_FLOAT, MPI_SUM, 0, channel_);
      break;
    case CollectiveKind::Scatter:
      call("MPI_Iscatter", MPI_Iscatter, from, part_, MPI_FLOAT, to, part_, MPI_FLOAT, 0, channel_);
      break;
    case CollectiveKind::Gather:
      call("MPI_Igather", MPI_Igather, from, part_, MPI_FLOAT, to, part_, MPI_FLOAT, 0, channel_);
      break;
    case CollectiveKind::AllToAll:
      call("MPI_Ialltoallv", MPI_Ialltoallv, from, to_.counts.data(), to_.places.data(), MPI_FLOAT, to,
           from_.counts.data(), from_.places.data(), MPI_FLOAT, channel_);
      break;
    case CollectiveKind::Shift:
      call("MPI_Irecv", MPI_Irecv, to, whole_, MPI_FLOAT, (position_ + members_ - 1) % members_, ShiftTag,
           channel_);
      call("MPI_Issend", MPI_Issend, from, whole_, MPI_FLOAT, (position_ + 1) % members_, ShiftTag, channel_);
      break;
  }
  return call.requests;
}

}  // namespace syncline::mpi
