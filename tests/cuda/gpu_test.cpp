// What only a GPU can show. Run by ctest where there is one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "backends/cuda/driver.hpp"
#include "tests/cuda/ranks.hpp"

using namespace syncline;
using namespace syncline::cuda;
using namespace syncline::cuda::test;
using namespace syncline::literals;

std::vector<int> syncline::cuda::test::gpu_counts() {
  const int gpus = std::min(count_gpus(), 8);
  return gpus > 1 ? std::vector<int>{1, gpus} : std::vector<int>{1};
}

bool syncline::cuda::test::times_are_real() {
  return true;
}

TEST_CASE("a spin lasts as long as it is told, but for what launching takes") {
  check(cudaSetDevice(0), "cudaSetDevice");
  check(preload_kernels(), "preload_kernels");
  const Event start = make_event(), end = make_event();
  for (const int microseconds : {20, 200, 2000}) {
    std::vector<float> lengths;
    for (int i = 0; i < 9; ++i) {
      check(cudaEventRecord(start.get(), nullptr), "cudaEventRecord");
      check(launch_spin(nullptr, static_cast<std::uint64_t>(microseconds) * 1000), "launch_spin");
      check(cudaEventRecord(end.get(), nullptr), "cudaEventRecord");
      check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
      check(cudaEventElapsedTime(&lengths.emplace_back(), start.get(), end.get()), "cudaEventElapsedTime");
    }
    std::ranges::sort(lengths);
    const double median = lengths[4] * 1000;
    CAPTURE(median);
    CHECK(median > microseconds - 2);
    CHECK(median < microseconds + 20);
  }
}

TEST_CASE("kernels of every class are run, and more work takes more time") {
  ExecutionPlan plan = plan_of(R"(mesh dense axes=dp:1
family dp mesh=dense axes=dp
stream compute
work 0 "small"
  kernel gemm bf16 m=1024 n=1024 k=1024 flop=2147483648 hbm-bytes=6291456
  kernel gemm fp16 m=1000 n=1000 k=1000 flop=2000000000 hbm-bytes=6000000
  kernel gemm tf32 m=512 n=512 k=512 flop=268435456 hbm-bytes=3145728
  kernel gemm fp32 m=512 n=512 k=512 flop=268435456 hbm-bytes=3145728
  kernel gemm fp8 batch=2 m=1024 n=1024 k=1024 flop=4294967296 hbm-bytes=12582912
  kernel attention bf16 batch=8 m=1024 n=1024 k=128 flop=2147483648 hbm-bytes=8388608
  kernel elementwise bf16 hbm-bytes=16777216
  kernel gather bf16 hbm-bytes=16777216
  kernel optimizer fp32 hbm-bytes=16777216
  kernel fixed bf16 seconds=1e-05
work 1 "large"
  kernel gemm bf16 m=8192 n=8192 k=8192 flop=1099511627776 hbm-bytes=402653184
role 0 "all" ranks=0
  op 0 compute work=0 stream=compute name=small
  op 1 compute work=1 stream=compute name=large
)",
                               {1_ms, 1_ms});
  plan.compute = ComputeBy::Kernels;
  const Timeline timeline = measure(plan, 1);
  CHECK(length(span_of(timeline, 0, "small")) > 50_us);
  CHECK(length(span_of(timeline, 0, "large")) > 500_us);  // 1.1 TFLOP: no GPU has 2.2 PFLOP/s of dense bf16
}

int main(int argc, char** argv) {
  constexpr int Skipped = 77;  // as CMakeLists.txt tells ctest
  static_cast<void>(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0));
  try {
    static_cast<void>(count_gpus());
  } catch (const EnvironmentError& error) {
    fmt::print("skipped: {}\n", error.what());
    return Skipped;
  }
  return doctest::Context(argc, argv).run();
}
