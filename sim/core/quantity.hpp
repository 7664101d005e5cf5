// Quantities as types: seconds, bytes, bytes per second, FLOP, FLOP per second, watts, joules.
//
// Each is a distinct type over a double in SI units; there is no implicit way in or out. `bytes / rate` gives
// seconds, `bytes + seconds` does not compile. The number itself leaves the type by `.si()`, at the printer and
// at the simulation engine.
#pragma once

#include <compare>

namespace syncline {

template <class Unit>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double si) : si_(si) {}

  /// The value in SI units (s, B, B/s, FLOP, FLOP/s, W, J).
  [[nodiscard]] constexpr double si() const { return si_; }

  constexpr Quantity& operator+=(Quantity other) {
    si_ += other.si_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    si_ -= other.si_;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    si_ *= factor;
    return *this;
  }
  constexpr Quantity& operator/=(double factor) {
    si_ /= factor;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.si_ + b.si_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.si_ - b.si_); }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.si_); }
  friend constexpr Quantity operator*(Quantity a, double factor) { return Quantity(a.si_ * factor); }
  friend constexpr Quantity operator*(double factor, Quantity a) { return Quantity(a.si_ * factor); }
  friend constexpr Quantity operator/(Quantity a, double factor) { return Quantity(a.si_ / factor); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.si_ / b.si_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double si_ = 0;
};

using Seconds = Quantity<struct SecondUnit>;
using Bytes = Quantity<struct ByteUnit>;
using BytesPerSecond = Quantity<struct BytePerSecondUnit>;
using Flop = Quantity<struct FlopUnit>;
using FlopPerSecond = Quantity<struct FlopPerSecondUnit>;
using Watts = Quantity<struct WattUnit>;
using Joules = Quantity<struct JouleUnit>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds(amount.si() / rate.si());
}
constexpr BytesPerSecond operator/(Bytes amount, Seconds time) {
  return BytesPerSecond(amount.si() / time.si());
}
constexpr Bytes operator*(BytesPerSecond rate, Seconds time) {
  return Bytes(rate.si() * time.si());
}
constexpr Bytes operator*(Seconds time, BytesPerSecond rate) {
  return rate * time;
}
constexpr Seconds operator/(Flop work, FlopPerSecond rate) {
  return Seconds(work.si() / rate.si());
}
constexpr FlopPerSecond operator/(Flop work, Seconds time) {
  return FlopPerSecond(work.si() / time.si());
}
constexpr Joules operator*(Watts power, Seconds time) {
  return Joules(power.si() * time.si());
}
constexpr Flop operator*(FlopPerSecond rate, Seconds time) {
  return Flop(rate.si() * time.si());
}

/// Literals: k, M, G, T are powers of 10; Ki, Mi, Gi powers of 2; `b` is a bit, `B` a byte.
namespace literals {
#define SYNCLINE_LITERAL(suffix, Type, factor)                   \
  constexpr Type operator""_##suffix(long double value) {        \
    return Type(static_cast<double>(value) * (factor));          \
  }                                                              \
  constexpr Type operator""_##suffix(unsigned long long value) { \
    return Type(static_cast<double>(value) * (factor));          \
  }

SYNCLINE_LITERAL(s, Seconds, 1.0)
SYNCLINE_LITERAL(ms, Seconds, 1e-3)
SYNCLINE_LITERAL(us, Seconds, 1e-6)
SYNCLINE_LITERAL(ns, Seconds, 1e-9)
SYNCLINE_LITERAL(B, Bytes, 1.0)
SYNCLINE_LITERAL(kB, Bytes, 1e3)
SYNCLINE_LITERAL(MB, Bytes, 1e6)
SYNCLINE_LITERAL(GB, Bytes, 1e9)
SYNCLINE_LITERAL(KiB, Bytes, 1024.0)
SYNCLINE_LITERAL(MiB, Bytes, 1048576.0)
SYNCLINE_LITERAL(GiB, Bytes, 1073741824.0)
SYNCLINE_LITERAL(GBps, BytesPerSecond, 1e9)
SYNCLINE_LITERAL(Gbps, BytesPerSecond, 1e9 / 8)
SYNCLINE_LITERAL(GFLOP, Flop, 1e9)
SYNCLINE_LITERAL(TFLOP, Flop, 1e12)
SYNCLINE_LITERAL(TFLOPps, FlopPerSecond, 1e12)
SYNCLINE_LITERAL(W, Watts, 1.0)
SYNCLINE_LITERAL(kW, Watts, 1e3)
#undef SYNCLINE_LITERAL
}  // namespace literals

}  // namespace syncline
