#include "backends/cuda/kernel_plan.hpp"

#include <doctest/doctest.h>

#include "sim/core/error.hpp"

using namespace syncline;
using namespace syncline::cuda;
using namespace syncline::literals;

namespace {

constexpr std::size_t Much = std::size_t{1} << 40;

Kernel gemm(Precision precision, std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel;
  kernel.kind = KernelClass::Gemm;
  kernel.precision = precision;
  kernel.m = m, kernel.n = n, kernel.k = k;
  return kernel;
}

/// Causal where `share` of the scores is 0.5.
Kernel attention(std::int64_t heads, std::int64_t length, std::int64_t size, double share, bool backward) {
  Kernel kernel;
  kernel.kind = KernelClass::Attention;
  kernel.batch = heads;
  kernel.m = kernel.n = length;
  kernel.k = size;
  kernel.backward = backward;
  kernel.flop = Flop((backward ? 10.0 : 4.0) * share * static_cast<double>(heads * length * length * size));
  return kernel;
}

double flop(const std::vector<Launch>& launches) {
  double sum = 0;
  for (const Launch& launch : launches)
    if (const auto* product = std::get_if<Product>(&launch))
      sum += 2.0 * static_cast<double>(product->batch * product->m * product->n * product->k);
  return sum;
}

}  // namespace

TEST_CASE("a product's sizes are rounded up to whole words of its precision, its rows are the rank's") {
  const struct {
    Precision precision;
    double factor;
    Product product;
  } rows[] = {
      {Precision::Bf16, 1, {Precision::Bf16, 1, 104, 200, 304}},    // 8 numbers a word
      {Precision::Fp8, 1, {Precision::Fp8, 1, 112, 208, 304}},      // 16
      {Precision::Tf32, 1, {Precision::Tf32, 1, 100, 200, 304}},    // 4
      {Precision::Bf16, 1.5, {Precision::Bf16, 1, 152, 200, 304}},  // 150
      {Precision::Bf16, 0.001, {Precision::Bf16, 1, 8, 200, 304}},
  };
  for (const auto& row : rows) {
    CAPTURE(name_of(row.precision));
    CAPTURE(row.factor);
    const std::vector<Launch> launches = launches_of(gemm(row.precision, 100, 200, 301), row.factor, Much);
    REQUIRE(launches.size() == 1);
    CHECK((std::get<Product>(launches[0]) == row.product));
  }
  CHECK(launches_of(gemm(Precision::Bf16, 100, 200, 300), 0, Much).empty());
}

TEST_CASE("operands and results have the size of their precision") {
  CHECK(bytes_of(Product{Precision::Bf16, 2, 16, 32, 64}) ==
        LaunchBytes{2 * 16 * 64 * 2, 2 * 32 * 64 * 2, 2 * 16 * 32 * 2, 0});
  CHECK(bytes_of(Product{Precision::Fp8, 1, 16, 32, 64}) ==
        LaunchBytes{16 * 64, 32 * 64, 16 * 32 * 2, 0});  // bf16 comes out
  CHECK(bytes_of(Softmax{Precision::Fp32, 10, 8}) == LaunchBytes{0, 0, 320, 0});
  CHECK(bytes_of(Pass{48, false}) == LaunchBytes{0, 0, 0, 48});
  CHECK(bytes_of(Spin{1_us}) == LaunchBytes{});
}

TEST_CASE("attention's products have its FLOP, forward and backward, with a causal mask and without") {
  for (const bool backward : {false, true})
    for (const double share : {1.0, 0.5}) {
      CAPTURE(backward);
      CAPTURE(share);
      const Kernel kernel = attention(12, 2048, 128, share, backward);
      CHECK(flop(launches_of(kernel, 1, Much)) == doctest::Approx(kernel.flop.si()));
      CHECK(flop(launches_of(kernel, 1, 4 << 20)) == doctest::Approx(kernel.flop.si()));  // in pieces
      CHECK(flop(launches_of(kernel, 2, Much)) == doctest::Approx(2 * kernel.flop.si()));
    }
}

TEST_CASE("attention goes over as many heads at once as have scores that fit") {
  // A head has 1024 · 1024 scores of 2 bytes: 2 MiB; 5 MiB hold those of two.
  const std::vector<Launch> launches = launches_of(attention(5, 1024, 64, 1, false), 1, 5 << 20);
  REQUIRE(launches.size() == 9);  // 2, 2 and 1 heads; three launches each
  CHECK((std::get<Product>(launches[0]) == Product{Precision::Bf16, 2, 1024, 1024, 64}));
  CHECK(std::get<Softmax>(launches[1]) == Softmax{Precision::Bf16, 2048, 1024});
  CHECK((std::get<Product>(launches[2]) == Product{Precision::Bf16, 2, 1024, 64, 1024}));
  CHECK((std::get<Product>(launches[6]) == Product{Precision::Bf16, 1, 1024, 1024, 64}));
  for (const Launch& launch : launches) CHECK(bytes_of(launch).result <= 5 << 20);
}

TEST_CASE("passes read half of a kernel's bytes and write the other, fixed kernels take their time") {
  Kernel kernel;
  kernel.hbm = 6400_B;
  for (const KernelClass kind : {KernelClass::Elementwise, KernelClass::Optimizer, KernelClass::Gather}) {
    kernel.kind = kind;
    CHECK(launches_of(kernel, 1, Much) == std::vector<Launch>{Pass{3200, kind == KernelClass::Gather}});
    CHECK(launches_of(kernel, 0.5, Much) == std::vector<Launch>{Pass{1600, kind == KernelClass::Gather}});
  }
  kernel.kind = KernelClass::Fixed;
  kernel.fixed = 3_us;
  CHECK(launches_of(kernel, 2, Much) == std::vector<Launch>{Spin{6_us}});
}

TEST_CASE("precisions that are not carried out are refused, all works at once") {
  const std::vector<Work> works{{"a", {gemm(Precision::Bf16, 1, 1, 1)}},
                                {"b", {gemm(Precision::Fp4, 1, 1, 1)}},
                                {"c", {gemm(Precision::Fp8Block, 1, 1, 1)}}};
  CHECK_NOTHROW(require_supported(std::span(works).first(1)));
  try {
    require_supported(works);
    FAIL("accepted");
  } catch (const InputError& error) {
    REQUIRE(error.diagnostics().size() == 2);
    CHECK(error.diagnostics()[0].message.find("b has products of fp4") == 0);
    CHECK(error.diagnostics()[0].message.find("--compute time") != std::string::npos);
    CHECK(error.diagnostics()[1].message.find("c has products of fp8") == 0);
  }
}
