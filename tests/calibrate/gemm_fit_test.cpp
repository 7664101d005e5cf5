// Fits: known figures come back out of rows that were made with them.
#include "sim/calibrate/gemm_fit.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/calibrate/minimise.hpp"

namespace syncline::calibrate {
namespace {

using namespace literals;

TEST_CASE("the least value of a bowl, with one number held and one at its bound") {
  // (x - 3)² + 10 (y + 1)² + (z - 5)², y ≥ 0, z held at 1: least at x = 3, y = 0.
  const auto bowl = [](std::span<const double> at) {
    return std::pow(at[0] - 3, 2) + 10 * std::pow(at[1] + 1, 2) + std::pow(at[2] - 5, 2);
  };
  const std::vector<double> found = minimise(bowl, {{0, 1, -10, 10}, {2, 1, 0, 10}, {1, 0, 0, 10}});
  CHECK(found[0] == doctest::Approx(3).epsilon(1e-3));
  CHECK(found[1] == doctest::Approx(0).epsilon(1e-3));
  CHECK(found[2] == 1);
}

TEST_CASE("errors are logarithms of ratios, plain and weighted by time") {
  // measured 1 and 3 s; predicted twice and a half: |ln 2| both; signed ln 2 - ln 2 = 0; by time
  // (ln 2·1 - ln 2·3) / 4 = -ln 2 / 2.
  const std::vector<double> measured{1, 3}, predicted{2, 1.5};
  const FitError error = error_of(measured, predicted);
  const double ln2 = std::log(2);
  CHECK(error.rows == 2);
  CHECK(error.mean == doctest::Approx(ln2).epsilon(1e-12));
  CHECK(error.largest == doctest::Approx(ln2).epsilon(1e-12));
  CHECK(error.signed_mean == doctest::Approx(0).epsilon(1e-12));
  CHECK(error.by_time == doctest::Approx(ln2).epsilon(1e-12));
  CHECK(error.signed_by_time == doctest::Approx(-ln2 / 2).epsilon(1e-12));
  CHECK(cost_of(error) == doctest::Approx(2.5 * ln2).epsilon(1e-12));
}

TEST_CASE("a throttle takes hold half way at its time and wholly for long kernels") {
  const Throttle throttle{.sustained = 0.8, .settles = 2_ms};
  CHECK(throttle.clock(2_us) == doctest::Approx(1).epsilon(1e-6));
  CHECK(throttle.clock(2_ms) == doctest::Approx(0.9).epsilon(1e-12));
  CHECK(throttle.clock(10_s) == doctest::Approx(0.8).epsilon(1e-6));
}

/// 500 TFLOP/s, 2 TB/s, 100 units: figures that no fit starts from.
Explanation truth() {
  Explanation made;
  Device& device = made.device;
  device.name = "made";
  device.peak[Precision::Bf16] = 500_TFLOPps;
  device.peak[Precision::Fp8] = 1000_TFLOPps;
  device.hbm_bandwidth = 2000_GBps;
  device.hbm_efficiency = 0.83;
  device.kernel_gap = 4.4_us;
  device.gemm.units = 100;
  device.gemm.plateau = 0.87;
  device.gemm.k_half = 230;
  device.gemm.small_rate = 0.78;
  device.gemm.exposed_memory = 0.2;
  device.attention_forward = 0.61;
  device.attention_backward = 0.47;
  device.attention_wide_head = 0.85;
  device.attention_ramp = 45_us;
  made.throttle = {.sustained = 0.9, .settles = 1.5_ms, .settles_within = 10_ms};
  return made;
}

/// Products from a few microseconds to tens of milliseconds, measured as `made` explains them.
std::vector<KernelRow> products(Explanation& made, Precision precision, double bytes) {
  std::vector<KernelRow> rows;
  for (const std::int64_t m : {128, 512, 2048, 4096, 16384})
    for (const std::int64_t n : {256, 1000, 4096, 12288})
      for (const std::int64_t k : {128, 512, 2048, 8192}) {
        KernelRow row;
        row.kernel.kind = KernelClass::Gemm;
        row.kernel.precision = precision;
        row.kernel.m = m, row.kernel.n = n, row.kernel.k = k;
        row.kernel.flop = Flop(2.0 * static_cast<double>(m * n * k));
        row.kernel.hbm = Bytes(bytes * static_cast<double>(m * k + k * n) + 2.0 * static_cast<double>(m * n));
        for (int i = 0; i < 20; ++i) row.time = made.measured(row);  // the clock depends on the time
        rows.push_back(row);
      }
  return rows;
}

TEST_CASE("a fit finds the figures that rows were made with, within 1 %") {
  Explanation made = truth();
  const std::vector<KernelRow> rows = products(made, Precision::Bf16, 2);
  Explanation found = truth();
  Device& device = found.device;
  device.gemm.plateau = device.gemm.small_rate = device.hbm_efficiency = 0.5;
  device.gemm.k_half = device.gemm.exposed_memory = 0;
  device.kernel_gap = 0_s;
  found.throttle = Throttle{};
  fit_products(rows, found);
  CHECK(device.gemm.plateau == doctest::Approx(0.87).epsilon(0.01));
  CHECK(device.gemm.k_half == doctest::Approx(230).epsilon(0.01));
  CHECK(device.gemm.small_rate == doctest::Approx(0.78).epsilon(0.01));
  CHECK(device.hbm_efficiency == doctest::Approx(0.83).epsilon(0.01));
  CHECK(device.kernel_gap.si() == doctest::Approx(4.4e-6).epsilon(0.01));
  CHECK(found.throttle.sustained == doctest::Approx(0.9).epsilon(0.01));

  SUBCASE("and those of another precision beside the cast that its rows hold") {
    made.device.gemm.own[Precision::Fp8] = {.plateau = 0.76, .small_rate = 0.9, .k_half = 320};
    made.casts[Precision::Fp8] = {.bytes = 5, .fixed = 6_us};
    fit_precision(products(made, Precision::Fp8, 1), Precision::Fp8, found);
    const GemmRates rates = device.gemm.rates_of(Precision::Fp8);
    CHECK(rates.plateau == doctest::Approx(0.76).epsilon(0.01));
    CHECK(rates.k_half == doctest::Approx(320).epsilon(0.02));
    CHECK(found.casts[Precision::Fp8].bytes == doctest::Approx(5).epsilon(0.02));
    CHECK(found.casts[Precision::Fp8].fixed.si() == doctest::Approx(6e-6).epsilon(0.02));
  }
}

TEST_CASE("a fit of grouped products finds what they leave exposed, and knows those that the host holds up") {
  Explanation made = truth();
  made.device.gemm.grouped_exposed_memory = 0.7;
  made.device.launch = made.device.launch_more.emplace(9_us);
  std::vector<KernelRow> rows;
  for (KernelRow row : products(made, Precision::Bf16, 2)) {
    row.kernel.grouped = true;
    row.kernel.batch = row.kernel.launches = 40;
    row.kernel.flop *= 40;
    row.kernel.hbm *= 40;
    for (int i = 0; i < 20; ++i) row.time = made.measured(row);
    rows.push_back(row);
  }
  CHECK(std::ranges::count(rows, Seconds(40 * 9e-6), &KernelRow::time) > 5);
  Explanation found = truth();
  found.device.launch = made.device.launch;
  found.device.launch_more = made.device.launch_more;
  found.throttle = made.throttle;
  fit_grouped(rows, found);
  REQUIRE(found.device.gemm.grouped_exposed_memory);
  CHECK(*found.device.gemm.grouped_exposed_memory == doctest::Approx(0.7).epsilon(0.01));
  CHECK(found.device.gemm.exposed_memory == 0.2);
}

TEST_CASE("a fit of attention finds shares and ramp, within 1 %") {
  Explanation made = truth();
  std::vector<KernelRow> rows;
  for (const bool backward : {false, true})
    for (const std::int64_t head : {128, 192})
      for (const std::int64_t heads : {4, 16, 64}) {
        KernelRow row;
        row.kernel.kind = KernelClass::Attention;
        row.kernel.backward = backward;
        row.kernel.k = head;
        row.kernel.flop = Flop((backward ? 5.0 : 2.0) * static_cast<double>(heads * head) * 4096 * 4096);
        for (int i = 0; i < 20; ++i) row.time = made.measured(row);
        rows.push_back(row);
      }
  Explanation found = truth();
  found.device.attention_forward = found.device.attention_backward = found.device.attention_wide_head = 0.9;
  found.device.attention_ramp = 0_s;
  fit_attention(rows, found);
  CHECK(found.device.attention_forward == doctest::Approx(0.61).epsilon(0.01));
  CHECK(found.device.attention_backward == doctest::Approx(0.47).epsilon(0.01));
  CHECK(found.device.attention_wide_head == doctest::Approx(0.85).epsilon(0.01));
  CHECK(found.device.attention_ramp.si() == doctest::Approx(45e-6).epsilon(0.01));
}

TEST_CASE("one row fits the plateau alone, and leaves all else") {
  Explanation made = truth();
  std::vector<KernelRow> rows = products(made, Precision::Bf16, 2);
  rows.erase(rows.begin(), rows.end() - 1);
  Explanation found = truth();
  found.device.gemm.plateau = 0.3;
  fit_products(rows, found);
  CHECK(found.device.gemm.plateau == doctest::Approx(0.87).epsilon(0.01));
  CHECK(found.device.gemm.k_half == 230);
  CHECK(found.device.kernel_gap == 4.4_us);
  CHECK(found.device.sustained_clock == 1);
}

TEST_CASE("the same rows give the same figures, bit for bit") {
  Explanation made = truth();
  const std::vector<KernelRow> rows = products(made, Precision::Bf16, 2);
  Explanation first = truth(), second = truth();
  fit_products(rows, first);
  fit_products(rows, second);
  CHECK(first.device.gemm.plateau == second.device.gemm.plateau);
  CHECK(first.device.gemm.k_half == second.device.gemm.k_half);
  CHECK(first.device.kernel_gap == second.device.kernel_gap);
}

}  // namespace
}  // namespace syncline::calibrate
