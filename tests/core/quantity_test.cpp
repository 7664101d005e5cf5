#include "sim/core/quantity.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "sim/core/ids.hpp"

using namespace syncline;
using namespace syncline::literals;

namespace {

// The arithmetic, proved at compile time.
static_assert(1_GB / 50_GBps == 20_ms);
static_assert(400_Gbps == 50_GBps);
static_assert((50_GBps * 20_ms).si() == 1e9);
static_assert(20_ms * 50_GBps == 50_GBps * 20_ms);
static_assert(1_GB / 2_s == BytesPerSecond(5e8));
static_assert(1_KiB == 1024_B);
static_assert(1_MiB == 1024_KiB);
static_assert(1_GiB == 1024_MiB);
static_assert(1_GB == 1000_MB && 1_MB == 1000_kB && 1_kB == 1000_B);
static_assert(1_GiB > 1_GB);
static_assert(2_TFLOP / 1_TFLOPps == 2_s);
static_assert(2_TFLOP == 2000_GFLOP);
static_assert(3_TFLOP / 2_s == FlopPerSecond(1.5e12));
static_assert(FlopPerSecond(1.5e12) * 2_s == 3_TFLOP);
static_assert(6_s / 2_s == 3.0);
static_assert(6_s / 2 == 3_s && 2 * 3_s == 6_s && 3_s * 2 == 6_s);
static_assert(1_s + 500_ms == 1.5_s && 1_s - 250_ms == 0.75_s && -(1_s) == Seconds(-1));
static_assert(1_us < 1_ms && 1_ms < 1_s && 999_ns < 1_us);
static_assert(Seconds() == 0_s);

constexpr Seconds changed_in_place() {
  Seconds time = 1_s;
  time += 2_s;
  time -= 1_s;
  time *= 4.0;
  time /= 2.0;
  return time;  // ((1 + 2 - 1) x 4) / 2
}
static_assert(changed_in_place() == 4_s);

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Subtractable = requires(A a, B b) {
  a - b;
};
template <class A, class B>
concept Multipliable = requires(A a, B b) {
  a* b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept EqualityComparable = requires(A a, B b) {
  a == b;
};

// What must not compile.
static_assert(Addable<Bytes, Bytes> && !Addable<Bytes, Seconds> && !Addable<Bytes, Flop> &&
              !Addable<Seconds, double>);
static_assert(Subtractable<Seconds, Seconds> && !Subtractable<Seconds, Bytes> &&
              !Subtractable<double, Seconds>);
static_assert(Multipliable<BytesPerSecond, Seconds> && !Multipliable<Bytes, Bytes> &&
              !Multipliable<Bytes, Seconds>);
static_assert(!Multipliable<FlopPerSecond, Bytes> && !Multipliable<Bytes, BytesPerSecond>);
static_assert(Divisible<Bytes, BytesPerSecond> && !Divisible<BytesPerSecond, Bytes> &&
              !Divisible<Bytes, Flop>);
static_assert(!Divisible<double, Seconds> && !Divisible<Flop, BytesPerSecond>);
static_assert(Comparable<Seconds, Seconds> && !Comparable<Seconds, double> && !Comparable<Bytes, Flop>);
static_assert(!EqualityComparable<Bytes, double> && !EqualityComparable<BytesPerSecond, FlopPerSecond>);
static_assert(!std::is_convertible_v<double, Seconds> && !std::is_convertible_v<Seconds, double>);
static_assert(!std::is_convertible_v<Bytes, Seconds> && !std::is_constructible_v<Bytes, Seconds>);
static_assert(!std::is_assignable_v<Seconds&, double>);

// Results are of the right type.
static_assert(std::is_same_v<decltype(1_GB / 1_s), BytesPerSecond> &&
              std::is_same_v<decltype(1_GB / 1_GBps), Seconds>);
static_assert(std::is_same_v<decltype(1_GB / 1_GB), double> &&
              std::is_same_v<decltype(1_TFLOP / 1_s), FlopPerSecond>);

// A quantity costs what its number costs.
static_assert(sizeof(Seconds) == sizeof(double) && std::is_trivially_copyable_v<Seconds>);

// Ids of different tables do not mix, nor with integers.
static_assert(EqualityComparable<RankId, RankId> && !EqualityComparable<RankId, LinkId> &&
              !EqualityComparable<RankId, int>);
static_assert(!std::is_convertible_v<int, RankId> && !std::is_convertible_v<RankId, int> &&
              !std::is_constructible_v<RankId, LinkId>);
static_assert(RankId(3) < RankId(4) && RankId(3).value() == 3 && RankId() == RankId(0));

}  // namespace

TEST_SUITE("quantities") {
  TEST_CASE("a quantity gives its number in SI units") {
    CHECK((5_us).si() == doctest::Approx(5e-6).epsilon(1e-15));
    CHECK((2.5_ms).si() == doctest::Approx(2.5e-3).epsilon(1e-15));
    CHECK((80_GiB).si() == 85899345920.0);  // 80 x 1024^3
    CHECK((400_Gbps).si() == 5e10);         // 400e9 / 8
    CHECK((50_GBps).si() == 5e10);
    CHECK((1_GB / 400_Gbps).si() == 0.02);  // 1e9 / 5e10
    CHECK((989_TFLOPps).si() == 989e12);
  }
}
