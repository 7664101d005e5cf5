// Cost of kernels: each case small enough to do by hand.
#include "sim/device/device.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/device/cluster.hpp"

namespace syncline {
namespace {

using namespace literals;

/// 100 TFLOP/s, 1 TB/s of which half is reached, 10 units, tiles of 128 × 128; nothing else costs.
Device plain() {
  Device device;
  device.name = "plain";
  device.peak[Precision::Bf16] = 100_TFLOPps;
  device.hbm_bandwidth = 1000_GBps;
  device.hbm_efficiency = 0.5;
  device.gemm = {.plateau = 0.5,
                 .tile_m = 128,
                 .tile_n = 128,
                 .small_m = 64,
                 .small_n = 64,
                 .small_rate = 0.5,
                 .units = 10,
                 .k_half = 0};
  return device;
}

Kernel product(std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel;
  kernel.kind = KernelClass::Gemm;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.flop = Flop(2.0 * static_cast<double>(m * n * k));
  return kernel;
}

double seconds(const Kernel& kernel, const Device& device) {
  return kernel_time(kernel, device).si();
}

TEST_CASE("a product pays for the idle part of its last wave") {
  // A tile of 128 × 128 × 1000 has 32.768 MFLOP; ten at once on 50 TFLOP/s take 6.5536 us a wave.
  const double wave = 2.0 * 128 * 128 * 1000 * 10 / 50e12;
  struct Row {
    const char* name;
    std::int64_t m, n;
    double waves;
  };
  for (const Row& row :
       {Row{"ten tiles, one full wave", 1280, 128, 1}, Row{"five tiles, half a wave", 640, 128, 1},
        Row{"eleven tiles, two waves", 1408, 128, 2}, Row{"edges are cut off", 1279, 127, 1}}) {
    CAPTURE(row.name);
    CHECK(seconds(product(row.m, row.n, 1000), plain()) == doctest::Approx(row.waves * wave).epsilon(1e-12));
  }
}

TEST_CASE("the small tile is taken where it wastes less than its rate costs") {
  // 64 × 640: five large tiles are a wave of 10 × 128 × 128; ten small ones at half the rate are one of 10 ×
  // 64 × 64, a quarter of the work at half the rate: half the time.
  const double large = 2.0 * 128 * 128 * 1000 * 10 / 50e12;
  CHECK(seconds(product(64, 640, 1000), plain()) == doctest::Approx(large / 2).epsilon(1e-12));
  Device one_tile = plain();
  one_tile.gemm.small_rate = 0.01;
  CHECK(seconds(product(64, 640, 1000), one_tile) == doctest::Approx(large).epsilon(1e-12));
}

TEST_CASE("the rate of a product rises with its inner size, to half at k_half") {
  Device device = plain();
  device.gemm.k_half = 1000;
  const double full = 2.0 * 128 * 128 * 1000 * 10 / 50e12;
  CHECK(seconds(product(1280, 128, 1000), device) == doctest::Approx(2 * full).epsilon(1e-12));
  CHECK(seconds(product(1280, 128, 9000), device) == doctest::Approx(9 * full / 0.9).epsilon(1e-12));
}

TEST_CASE("a kernel is bound by arithmetic or by memory, whichever takes longer") {
  Kernel kernel = product(1280, 128, 1000);  // 6.5536 us
  kernel.hbm = 1_MB;                         // 1 MB at 500 GB/s: 2 us
  CHECK(seconds(kernel, plain()) == doctest::Approx(6.5536e-6).epsilon(1e-12));
  kernel.hbm = 10_MB;
  CHECK(seconds(kernel, plain()) == doctest::Approx(20e-6).epsilon(1e-12));
}

TEST_CASE("independent products fill waves together") {
  Kernel kernel = product(128, 128, 1000);
  kernel.batch = 20;  // 20 tiles: two waves
  CHECK(seconds(kernel, plain()) == doctest::Approx(2 * 6.5536e-6).epsilon(1e-12));
}

TEST_CASE("attention runs at its share of peak, forward and backward apart") {
  Device device = plain();
  device.attention_forward = 0.5;
  device.attention_backward = 0.25;
  Kernel kernel;
  kernel.kind = KernelClass::Attention;
  kernel.flop = 1_TFLOP;
  CHECK(seconds(kernel, device) == doctest::Approx(0.02).epsilon(1e-12));
  kernel.backward = true;
  CHECK(seconds(kernel, device) == doctest::Approx(0.04).epsilon(1e-12));
}

TEST_CASE("a lower clock slows arithmetic and leaves memory alone") {
  Device device = plain();
  device.sustained_clock = 0.8;
  CHECK(seconds(product(1280, 128, 1000), device) == doctest::Approx(6.5536e-6 / 0.8).epsilon(1e-12));
  Kernel copy;
  copy.hbm = 1_MB;
  CHECK(seconds(copy, device) == doctest::Approx(2e-6).epsilon(1e-12));
}

TEST_CASE("every kernel pays the gap but one of fixed time") {
  Device device = plain();
  device.kernel_gap = 3_us;
  Kernel copy;
  copy.hbm = 1_MB;
  Kernel fixed;
  fixed.kind = KernelClass::Fixed;
  fixed.fixed = 5_ms;
  CHECK(seconds(fixed, device) == 5e-3);
  CHECK(work_time({"both", {copy, copy, fixed}}, device).si() ==
        doctest::Approx(2 * 5e-6 + 5e-3).epsilon(1e-12));
  CHECK(work_time({"nothing", {}}, device) == 0_s);
}

TEST_CASE(
    "a kernel of several calls has a gap for each, grouped products one for every four, in a graph too") {
  Device device = plain(), seamless = plain();
  device.kernel_gap = 3_us;
  const auto gaps = [&](const Kernel& kernel) {
    return (seconds(kernel, device) - seconds(kernel, seamless)) / 3e-6;
  };
  Kernel copy;
  for (const auto& [launches, count] : {std::pair{0, 1}, {1, 1}, {4, 4}, {16, 16}}) {
    copy.launches = launches;
    CHECK(gaps(copy) == doctest::Approx(count));
  }
  Kernel grouped = product(256, 256, 256);
  grouped.grouped = true;
  for (const auto& [batch, count] : {std::pair{1, 1}, {4, 1}, {16, 4}})
    for (const int launches : {0, batch}) {
      grouped.batch = batch;
      grouped.launches = launches;
      CHECK(gaps(grouped) == doctest::Approx(count));
    }
  grouped.grouped = false;  // one kernel
  CHECK(gaps(grouped) == doctest::Approx(16));
  grouped.launches = 1;
  CHECK(gaps(grouped) == doctest::Approx(1));
}

TEST_CASE("a product never takes less time when it grows") {
  const Device device = plain();
  for (const std::int64_t size : {1, 63, 64, 65, 127, 128, 129, 1000, 1280, 1281, 4096}) {
    CAPTURE(size);
    const double here = seconds(product(size, 512, 256), device);
    CHECK(seconds(product(size + 1, 512, 256), device) >= here);
    CHECK(seconds(product(size, 513, 256), device) >= here);
    CHECK(seconds(product(size, 512, 257), device) >= here);
    CHECK(here >= 2.0 * static_cast<double>(size) * 512 * 256 / 50e12);  // never above the plateau
  }
}

TEST_CASE("the host takes a launch for a kernel, and less for those that one call issues") {
  Device device = plain();
  device.launch = 25_us;
  Kernel kernel = product(64, 64, 64);
  for (const auto& [launches, time, alike] :
       {std::tuple{0, 0_s, 0_s}, {1, 25_us, 25_us}, {20, 196_us, 500_us}}) {
    CAPTURE(launches);
    kernel.launches = launches;
    device.launch_more.reset();
    CHECK(issue_time(kernel, device).si() == doctest::Approx(alike.si()));
    device.launch_more = 9_us;
    CHECK(issue_time(kernel, device).si() == doctest::Approx(time.si()));
  }
}

TEST_CASE("part of the shorter of arithmetic and memory is exposed") {
  Device device = plain();
  device.gemm.exposed_memory = 0.25;
  Kernel kernel = product(1280, 128, 1000);  // 6.5536 us of arithmetic
  kernel.hbm = 1_MB;                         // 2 us of memory
  CHECK(seconds(kernel, device) == doctest::Approx(6.5536e-6 + 0.5e-6).epsilon(1e-12));
  kernel.hbm = 10_MB;  // 20 us
  CHECK(seconds(kernel, device) == doctest::Approx(20e-6 + 6.5536e-6 / 4).epsilon(1e-12));
  kernel.grouped = true;  // as others, if nothing else is said
  CHECK(seconds(kernel, device) == doctest::Approx(20e-6 + 6.5536e-6 / 4).epsilon(1e-12));
  device.gemm.grouped_exposed_memory = 0.75;
  CHECK(seconds(kernel, device) == doctest::Approx(20e-6 + 6.5536e-6 * 0.75).epsilon(1e-12));
  kernel.grouped = false;
  CHECK(seconds(kernel, device) == doctest::Approx(20e-6 + 6.5536e-6 / 4).epsilon(1e-12));
}

TEST_CASE("a precision has its own rates, or those of the one that stands in for it") {
  Device device = plain();
  device.gemm.own[Precision::Fp8] = {.plateau = 0.25, .small_rate = 0.5, .k_half = 0};
  struct Row {
    Precision precision;
    double plateau;
    const char* told;
  };
  for (const Row& row : {Row{Precision::Bf16, 0.5, ""}, Row{Precision::Fp16, 0.5, ""},
                         Row{Precision::Tf32, 0.5, "tf32 products as bf16"},
                         Row{Precision::Int8, 0.5, "int8 products as bf16"}, Row{Precision::Fp8, 0.25, ""},
                         Row{Precision::Fp8Block, 0.25, "fp8-block products as fp8"},
                         Row{Precision::Fp4, 0.25, "fp4 products as fp8"}}) {
    CAPTURE(name_of(row.precision));
    device.peak[row.precision] = 100_TFLOPps;
    Kernel kernel = product(1280, 128, 1000);
    kernel.precision = row.precision;
    CHECK(seconds(kernel, device) == doctest::Approx(6.5536e-6 * 0.5 / row.plateau).epsilon(1e-12));
    CHECK(carried_over(device, row.precision) == row.told);
  }
  CHECK(carried_over(plain(), Precision::Fp4) == "fp4 products as bf16");
}

TEST_CASE("fp8 with block scales has the peak of fp8") {
  Device device = plain();
  device.peak[Precision::Fp8] = 200_TFLOPps;
  CHECK(device.peak_of(Precision::Fp8Block) == 200_TFLOPps);
  device.peak[Precision::Fp8Block] = 150_TFLOPps;
  CHECK(device.peak_of(Precision::Fp8Block) == 150_TFLOPps);
}

TEST_CASE("attention ramps up once a kernel, and wide heads run slower") {
  Device device = plain();
  device.attention_forward = 0.5;
  device.attention_wide_head = 0.8;
  device.attention_ramp = 50_us;
  Kernel kernel;
  kernel.kind = KernelClass::Attention;
  kernel.flop = 1_TFLOP;  // 20 ms at 50 TFLOP/s
  for (const auto& [head, time] : {std::pair{64, 0.02}, std::pair{128, 0.02}, std::pair{192, 0.025}}) {
    CAPTURE(head);
    kernel.k = head;
    CHECK(seconds(kernel, device) == doctest::Approx(time + 50e-6).epsilon(1e-12));
  }
}

TEST_CASE("a missing figure is named") {
  Kernel kernel = product(128, 128, 128);
  kernel.precision = Precision::Fp8;
  CHECK_THROWS_WITH_AS(seconds(kernel, plain()), "device \"plain\" has no peak for fp8",
                       std::invalid_argument);
  Kernel copy;
  copy.hbm = 1_MB;
  CHECK_THROWS_WITH_AS(seconds(copy, ideal_device()), "device \"ideal\" has no memory bandwidth",
                       std::invalid_argument);
}

TEST_CASE("the ideal device adds nothing to fixed times") {
  Kernel fixed;
  fixed.kind = KernelClass::Fixed;
  fixed.fixed = 7_ms;
  CHECK(kernel_time(fixed, ideal_device()) == 7_ms);
  CHECK(ideal_device().launch == 0_s);
  CHECK(ideal_device().compute_rate_while_communicating == 1.0);
}

TEST_CASE("placement in order puts rank r on accelerator r") {
  CHECK(placement_in_order(3) == std::vector{AcceleratorId(0), AcceleratorId(1), AcceleratorId(2)});
}

}  // namespace
}  // namespace syncline
