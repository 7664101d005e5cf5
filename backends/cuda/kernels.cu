#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/kernels.hpp"

namespace syncline::cuda {
namespace {

constexpr int Threads = 256;
constexpr int BlocksPerMultiprocessor = 8;  // 2048 threads: all that there is room for
constexpr std::size_t GatherBlock = 256;    // words: 4 KiB
constexpr int Unrolled = 4;                 // loads in flight in a thread

__device__ unsigned long long device_nanoseconds() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void spin(unsigned long long nanoseconds) {
  const unsigned long long start = device_nanoseconds();
  while (device_nanoseconds() - start < nanoseconds) {
  }
}

template <bool Gather>
__global__ void pass(const uint4* __restrict__ from, uint4* __restrict__ to, std::size_t words,
                     std::size_t mask) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t blocks = (mask + 1) / GatherBlock;
  for (std::size_t first = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; first < words;
       first += Unrolled * stride) {
    uint4 loaded[Unrolled];
#pragma unroll
    for (int i = 0; i < Unrolled; ++i) {
      std::size_t word = (first + i * stride) & mask;
      // An odd factor permutes the blocks of a power of two.
      if (Gather && blocks > 0)
        word = ((word / GatherBlock * 0x9e3779b1u) & (blocks - 1)) * GatherBlock + word % GatherBlock;
      if (first + i * stride < words) loaded[i] = from[word];
    }
#pragma unroll
    for (int i = 0; i < Unrolled; ++i)
      if (first + i * stride < words) to[(first + i * stride) & mask] = loaded[i];
  }
}

__device__ float to_float(float x) {
  return x;
}
__device__ float to_float(__half x) {
  return __half2float(x);
}
__device__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ void set(float& x, float value) {
  x = value;
}
__device__ void set(__half& x, float value) {
  x = __float2half(value);
}
__device__ void set(__nv_bfloat16& x, float value) {
  x = __float2bfloat16(value);
}

/// The most, or the sum, of what all threads of a block have.
template <class Combine>
__device__ float over_block(float value, Combine combine, float* shared) {
  for (int lane = 16; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, lane));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < Threads / 32; ++warp) value = combine(value, shared[warp]);
  __syncthreads();
  return value;
}

template <class T>
__global__ void softmax(uint4* rows, std::int64_t count, std::int64_t words) {
  constexpr int PerWord = sizeof(uint4) / sizeof(T);
  __shared__ float shared[Threads / 32];
  for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    uint4* const line = rows + row * words;
    float most = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < words; i += Threads) {
      const uint4 word = line[i];
      const T* values = reinterpret_cast<const T*>(&word);
      for (int j = 0; j < PerWord; ++j) most = fmaxf(most, to_float(values[j]));
    }
    most = over_block(
        most, [](float a, float b) { return fmaxf(a, b); }, shared);
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < words; i += Threads) {
      const uint4 word = line[i];
      const T* values = reinterpret_cast<const T*>(&word);
      for (int j = 0; j < PerWord; ++j) sum += __expf(to_float(values[j]) - most);
    }
    sum = over_block(
        sum, [](float a, float b) { return a + b; }, shared);
    for (std::int64_t i = threadIdx.x; i < words; i += Threads) {
      uint4 word = line[i];
      T* values = reinterpret_cast<T*>(&word);
      for (int j = 0; j < PerWord; ++j) set(values[j], __expf(to_float(values[j]) - most) / sum);
      line[i] = word;
    }
  }
}

__global__ void copies(const __grid_constant__ CopyList list) {
  const CopyList::Item item = list.items[blockIdx.y];
  const auto* from = static_cast<const uint4*>(item.from);
  auto* to = static_cast<uint4*>(item.to);
  const std::size_t words = item.bytes / sizeof(uint4),
                    stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t first = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; first < words;
       first += Unrolled * stride) {
    uint4 loaded[Unrolled];
#pragma unroll
    for (int i = 0; i < Unrolled; ++i)
      if (first + i * stride < words) loaded[i] = from[first + i * stride];
#pragma unroll
    for (int i = 0; i < Unrolled; ++i)
      if (first + i * stride < words) to[first + i * stride] = loaded[i];
  }
}

__global__ void sum(const __grid_constant__ SumList list) {
  constexpr int Pairs = sizeof(uint4) / sizeof(__nv_bfloat162);
  const std::size_t words = list.bytes / sizeof(uint4),
                    stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < words;
       i += stride) {
    float2 total[Pairs] = {};
    for (int from = 0; from < list.count; ++from) {
      const uint4 word = static_cast<const uint4*>(list.from[from])[i];
      const auto* values = reinterpret_cast<const __nv_bfloat162*>(&word);
      for (int j = 0; j < Pairs; ++j) {
        const float2 value = __bfloat1622float2(values[j]);
        total[j].x += value.x;
        total[j].y += value.y;
      }
    }
    uint4 word;
    for (int j = 0; j < Pairs; ++j)
      reinterpret_cast<__nv_bfloat162*>(&word)[j] = __float22bfloat162_rn(total[j]);
    static_cast<uint4*>(list.to)[i] = word;
  }
}

/// Two 16-bit numbers: sign and mantissa random. High bytes 0x3c to 0x3f or their negatives; low bytes
/// without bit 6, so that none is 0x7f or 0xff, fp8's not-a-number.
__device__ unsigned near_one(unsigned random) {
  return (random & 0x83bf83bfu) | 0x3c003c00u;
}

__device__ unsigned mixed(unsigned x) {  // Murmur3's finaliser
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ x >> 16;
}

__global__ void fill(uint4* to, std::size_t words, unsigned seed) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < words;
       i += stride) {
    const unsigned first = mixed(static_cast<unsigned>(i) * 4 + seed);
    to[i] = {near_one(first), near_one(mixed(first + 1)), near_one(mixed(first + 2)),
             near_one(mixed(first + 3))};
  }
}

/// Blocks for so many threads' work, not more than run at once.
unsigned blocks_for(std::size_t work, int multiprocessors) {
  const std::size_t wanted = (work + Threads - 1) / Threads,
                    most = static_cast<std::size_t>(multiprocessors) * BlocksPerMultiprocessor;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

}  // namespace

cudaError_t preload_kernels() {
  const void* kernels[] = {reinterpret_cast<const void*>(spin),
                           reinterpret_cast<const void*>(pass<false>),
                           reinterpret_cast<const void*>(pass<true>),
                           reinterpret_cast<const void*>(softmax<__nv_bfloat16>),
                           reinterpret_cast<const void*>(softmax<__half>),
                           reinterpret_cast<const void*>(softmax<float>),
                           reinterpret_cast<const void*>(copies),
                           reinterpret_cast<const void*>(sum),
                           reinterpret_cast<const void*>(fill)};
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes;
    if (const cudaError_t failed = cudaFuncGetAttributes(&attributes, kernel); failed != cudaSuccess)
      return failed;
  }
  return cudaSuccess;
}

cudaError_t launch_spin(cudaStream_t stream, std::uint64_t nanoseconds) {
  spin<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

cudaError_t launch_pass(cudaStream_t stream, const void* from, void* to, std::size_t bytes,
                        std::size_t buffer, bool gather, int multiprocessors) {
  const std::size_t words = bytes / sizeof(uint4), mask = buffer / sizeof(uint4) - 1;
  const unsigned blocks = blocks_for(words / Unrolled, multiprocessors);
  const auto* source = static_cast<const uint4*>(from);
  if (gather)
    pass<true><<<blocks, Threads, 0, stream>>>(source, static_cast<uint4*>(to), words, mask);
  else
    pass<false><<<blocks, Threads, 0, stream>>>(source, static_cast<uint4*>(to), words, mask);
  return cudaGetLastError();
}

cudaError_t launch_softmax(cudaStream_t stream, void* rows, std::int64_t count, std::int64_t columns,
                           Element element) {
  const std::int64_t size = element == Element::Fp32 ? 4 : 2;
  const std::int64_t words = columns * size / static_cast<std::int64_t>(sizeof(uint4));
  const auto blocks = static_cast<unsigned>(count < 65535 ? count : 65535);
  auto* first = static_cast<uint4*>(rows);
  switch (element) {
    case Element::Bf16: softmax<__nv_bfloat16><<<blocks, Threads, 0, stream>>>(first, count, words); break;
    case Element::Fp16: softmax<__half><<<blocks, Threads, 0, stream>>>(first, count, words); break;
    case Element::Fp32: softmax<float><<<blocks, Threads, 0, stream>>>(first, count, words); break;
  }
  return cudaGetLastError();
}

cudaError_t launch_copies(cudaStream_t stream, const CopyList& list, int multiprocessors) {
  if (list.count == 0) return cudaSuccess;
  std::size_t most = 0;
  for (int i = 0; i < list.count; ++i) most = list.items[i].bytes > most ? list.items[i].bytes : most;
  const unsigned blocks = blocks_for(most / sizeof(uint4) / Unrolled, multiprocessors);
  copies<<<dim3(blocks, static_cast<unsigned>(list.count)), Threads, 0, stream>>>(list);
  return cudaGetLastError();
}

cudaError_t launch_sum(cudaStream_t stream, const SumList& list, int multiprocessors) {
  sum<<<blocks_for(list.bytes / sizeof(uint4), multiprocessors), Threads, 0, stream>>>(list);
  return cudaGetLastError();
}

cudaError_t launch_fill(cudaStream_t stream, void* buffer, std::size_t bytes, std::uint32_t seed,
                        int multiprocessors) {
  fill<<<blocks_for(bytes / sizeof(uint4), multiprocessors), Threads, 0, stream>>>(
      static_cast<uint4*>(buffer), bytes / sizeof(uint4), seed);
  return cudaGetLastError();
}

}  // namespace syncline::cuda
