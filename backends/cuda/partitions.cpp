#include "backends/cuda/partitions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/call.hpp"
#include "backends/cuda/partition.hpp"

namespace syncline::cuda {
namespace {

/// A split into as many equal groups as there are ranks. The driver may find fewer than the division says,
/// since multiprocessors hang together in clusters; then groups are made smaller.
std::vector<CUdevResource> split(const Driver& driver, const CUdevResource& all, unsigned ranks) {
  const unsigned minimum = std::max(all.sm.minSmPartitionSize, 1U);
  const unsigned multiple = std::max(all.sm.smCoscheduledAlignment, 1U);
  unsigned each = multiprocessors_each(all.sm.smCount, ranks, minimum, multiple);
  unsigned groups = 0;
  for (;; each -= multiple) {
    check(driver.split_multiprocessors(nullptr, &groups, &all, nullptr, 0, each),
          "cuDevSmResourceSplitByCount");
    if (groups >= ranks || each < minimum + multiple) break;
  }
  if (groups < ranks)
    throw EnvironmentError(
        fmt::format("{} ranks do not fit on a GPU of {} multiprocessors, which the driver divides into {} "
                    "partitions at most",
                    ranks, all.sm.smCount, groups));
  std::vector<CUdevResource> parts(ranks);
  groups = ranks;
  check(driver.split_multiprocessors(parts.data(), &groups, &all, nullptr, 0, each),
        "cuDevSmResourceSplitByCount");
  return parts;
}

}  // namespace

Partitions::Partitions(const Driver& driver, int device, unsigned ranks) : driver_(driver) {
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree");  // makes the primary context
  CUdevResource all{};
  check(driver.device_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  std::vector<CUdevResource> parts = split(driver, all, ranks);
  all_ = static_cast<int>(all.sm.smCount);
  each_ = static_cast<int>(parts.front().sm.smCount);
  for (CUdevResource& part : parts) {
    CUdevResourceDesc description = nullptr;
    check(driver.describe_resource(&description, &part, 1), "cuDevResourceGenerateDesc");
    CUgreenCtx context = nullptr;
    check(driver.create_green_context(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
          "cuGreenCtxCreate");
    contexts_.push_back(context);
  }
}

Partitions::~Partitions() {
  for (CUgreenCtx context : contexts_) static_cast<void>(driver_.destroy_green_context(context));
}

Stream Partitions::make_stream(unsigned rank, int priority) const {
  CUstream stream = nullptr;
  check(driver_.create_green_stream(&stream, contexts_[rank], CU_STREAM_NON_BLOCKING, priority),
        "cuGreenCtxStreamCreate");
  return Stream(stream);
}

}  // namespace syncline::cuda
