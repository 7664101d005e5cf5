// Threads that stand for a GPU: enough of CUDA's runtime and driver, and of our kernels, to carry out the
// messages of virtual ranks, so that all above those calls is tested everywhere. A stream is a thread, device
// memory is memory.
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <string_view>

#include "tests/cuda/ranks.hpp"
#include "tests/cuda/thread_stream.hpp"

using namespace syncline;
using namespace syncline::cuda;

namespace {

constexpr int Gpus = 8;
[[maybe_unused]] const int queues_are_set =
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // as the ranks' program does

}  // namespace

std::vector<int> syncline::cuda::test::gpu_counts() {
  return {1, Gpus};
}

bool syncline::cuda::test::times_are_real() {
  return false;
}

namespace {

using Clock = std::chrono::steady_clock;

/// A recording of an event: happens once.
struct Occurrence {
  std::atomic<bool> happened = false;
  Clock::time_point at;
  void happen() {
    at = Clock::now();
    happened.store(true, std::memory_order_release);
  }
  void await() const {
    while (!happened.load(std::memory_order_acquire))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
};

}  // namespace

struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<Occurrence> last;  // null: never recorded
  std::shared_ptr<Occurrence> get() {
    const std::lock_guard lock(mutex);
    return last;
  }
};

namespace {

constexpr unsigned Multiprocessors = 132, Least = 8;
int stands_for_context = 0;  // green contexts and descriptions are only passed on

CUresult device_resource(CUdevice, CUdevResource* resource, CUdevResourceType) {
  resource->sm.smCount = Multiprocessors;
  resource->sm.minSmPartitionSize = resource->sm.smCoscheduledAlignment = Least;
  return CUDA_SUCCESS;
}

CUresult split(CUdevResource* result, unsigned* groups, const CUdevResource* all, CUdevResource*, unsigned,
               unsigned least) {
  const unsigned most = all->sm.smCount / least;
  if (result == nullptr) {
    *groups = most;
    return CUDA_SUCCESS;
  }
  if (*groups > most) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < *groups; ++i) result[i].sm.smCount = least;
  return CUDA_SUCCESS;
}

CUresult describe_resource(CUdevResourceDesc* description, CUdevResource*, unsigned) {
  *description = reinterpret_cast<CUdevResourceDesc>(&stands_for_context);
  return CUDA_SUCCESS;
}

CUresult create_context(CUgreenCtx* context, CUdevResourceDesc, CUdevice, unsigned) {
  *context = reinterpret_cast<CUgreenCtx>(&stands_for_context);
  return CUDA_SUCCESS;
}

CUresult destroy_context(CUgreenCtx) {
  return CUDA_SUCCESS;
}

CUresult create_stream(CUstream* stream, CUgreenCtx, unsigned flags, int) {
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = new CUstream_st;
  return CUDA_SUCCESS;
}

std::atomic_ref<std::uint32_t> flag_at(CUdeviceptr address) {
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(address));
}

CUresult memory_operations(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                           unsigned flags) {
  if (count > 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& operation = operations[i];
    if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
      stream->put([address = operation.writeValue.address, value = operation.writeValue.value] {
        flag_at(address).store(value);
      });
    else if (operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
             operation.waitValue.flags == CU_STREAM_WAIT_VALUE_GEQ)
      stream->put([address = operation.waitValue.address, value = operation.waitValue.value] {
        while (static_cast<std::int32_t>(flag_at(address).load() - value) < 0)
          std::this_thread::sleep_for(std::chrono::microseconds(20));
      });
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

// --- CUDA's runtime, by its own names ---

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* status) {
  static const std::map<std::string_view, void*> functions{
      {"cuDeviceGetDevResource", reinterpret_cast<void*>(device_resource)},
      {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(split)},
      {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(describe_resource)},
      {"cuGreenCtxCreate", reinterpret_cast<void*>(create_context)},
      {"cuGreenCtxDestroy", reinterpret_cast<void*>(destroy_context)},
      {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(create_stream)},
      {"cuStreamBatchMemOp", reinterpret_cast<void*>(memory_operations)}};
  const auto found = functions.find(symbol);
  *function = found == functions.end() ? nullptr : found->second;
  *status = found == functions.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaError";
}
cudaError_t cudaSetDevice(int device) {
  return device < Gpus ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = Gpus;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "threads");
  properties->multiProcessorCount = Multiprocessors;
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) {
  return cudaErrorInvalidValue;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{8} << 30;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream->put([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  while (!stream->empty()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto occurrence = std::make_shared<Occurrence>();
  {
    const std::lock_guard lock(event->mutex);
    event->last = occurrence;
  }
  stream->put([occurrence] { occurrence->happen(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto occurrence = event->get();
  return occurrence == nullptr || occurrence->happened ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto occurrence = event->get()) occurrence->await();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto occurrence = event->get()) stream->put([occurrence] { occurrence->await(); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  const auto from = first->get(), to = second->get();
  if (from == nullptr || to == nullptr) return cudaErrorInvalidResourceHandle;
  if (!from->happened || !to->happened) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return cudaSuccess;
}

}  // extern "C"

// --- our kernels ---

namespace syncline::cuda {

cudaError_t preload_kernels() {
  return cudaSuccess;
}

cudaError_t launch_spin(cudaStream_t stream, std::uint64_t nanoseconds) {
  stream->put([nanoseconds] { std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds)); });
  return cudaSuccess;
}

cudaError_t launch_pass(cudaStream_t, const void*, void*, std::size_t, std::size_t, bool, int) {
  return cudaErrorNotSupported;
}

cudaError_t launch_softmax(cudaStream_t, void*, std::int64_t, std::int64_t, Element) {
  return cudaErrorNotSupported;
}

cudaError_t launch_copies(cudaStream_t stream, const CopyList& list, int) {
  stream->put([list] {
    for (int i = 0; i < list.count; ++i)
      std::memcpy(list.items[i].to, list.items[i].from, list.items[i].bytes);
  });
  return cudaSuccess;
}

cudaError_t launch_sum(cudaStream_t stream, const SumList& list, int) {
  stream->put([list] {
    for (std::size_t e = 0; e < list.bytes / 2; ++e) {
      float sum = 0;
      for (int i = 0; i < list.count; ++i)
        sum += test::from_bf16(static_cast<const std::uint16_t*>(list.from[i])[e]);
      static_cast<std::uint16_t*>(list.to)[e] = test::to_bf16(sum);
    }
  });
  return cudaSuccess;
}

cudaError_t launch_fill(cudaStream_t stream, void* buffer, std::size_t bytes, std::uint32_t, int) {
  stream->put([=] { std::memset(buffer, 0x3c, bytes); });
  return cudaSuccess;
}

}  // namespace syncline::cuda
