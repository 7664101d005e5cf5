#include "sim/core/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <stdexcept>

namespace syncline {
namespace {

struct Unit {
  std::string_view name;
  double factor;  // to SI
};

struct UnitTable {
  std::string_view what;     // "a time"
  std::string_view example;  // "5us"
  std::span<const Unit> units;
};

constexpr double Ki = 1024.0;

constexpr std::array TimeUnits =
    std::to_array<Unit>({{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}, {"h", 3600}});
constexpr std::array SizeUnits = std::to_array<Unit>({{"B", 1},
                                                      {"kB", 1e3},
                                                      {"MB", 1e6},
                                                      {"GB", 1e9},
                                                      {"TB", 1e12},
                                                      {"KiB", Ki},
                                                      {"MiB", Ki* Ki},
                                                      {"GiB", Ki* Ki* Ki},
                                                      {"TiB", Ki* Ki* Ki* Ki}});
constexpr std::array RateUnits = std::to_array<Unit>({{"bps", 1.0 / 8},
                                                      {"kbps", 1e3 / 8},
                                                      {"Mbps", 1e6 / 8},
                                                      {"Gbps", 1e9 / 8},
                                                      {"Tbps", 1e12 / 8},
                                                      {"Bps", 1},
                                                      {"kBps", 1e3},
                                                      {"MBps", 1e6},
                                                      {"GBps", 1e9},
                                                      {"TBps", 1e12},
                                                      {"B/s", 1},
                                                      {"kB/s", 1e3},
                                                      {"MB/s", 1e6},
                                                      {"GB/s", 1e9},
                                                      {"TB/s", 1e12},
                                                      {"KiB/s", Ki},
                                                      {"MiB/s", Ki* Ki},
                                                      {"GiB/s", Ki* Ki* Ki}});
constexpr std::array FlopUnits =
    std::to_array<Unit>({{"FLOP", 1}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}});
constexpr std::array FlopRateUnits = std::to_array<Unit>({{"GFLOPps", 1e9},
                                                          {"TFLOPps", 1e12},
                                                          {"PFLOPps", 1e15},
                                                          {"GFLOP/s", 1e9},
                                                          {"TFLOP/s", 1e12},
                                                          {"PFLOP/s", 1e15}});

constexpr std::array PowerUnits = std::to_array<Unit>({{"W", 1}, {"kW", 1e3}, {"MW", 1e6}});

std::string unit_names(const UnitTable& table) {
  std::string names;
  for (const Unit& unit : table.units) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  return names;
}

// The longest leading number of `text`; returns what follows it.
std::string_view read_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument)
    throw std::invalid_argument(fmt::format("\"{}\" is not a number", text));
  if (error == std::errc::result_out_of_range)
    throw std::invalid_argument(fmt::format("\"{}\" is out of range", text));
  if (!std::isfinite(value)) throw std::invalid_argument(fmt::format("\"{}\" is not a finite number", text));
  return text.substr(static_cast<std::size_t>(end - text.data()));
}

double parse(std::string_view text, const UnitTable& table) {
  double value = 0;
  std::string_view rest;
  try {
    rest = read_number(text, value);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(
        fmt::format("{}; expected {} such as \"{}\"", error.what(), table.what, table.example));
  }
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (value < 0)
    throw std::invalid_argument(fmt::format("\"{}\" is negative; {} must not be", text, table.what));
  if (rest.empty()) {
    if (value == 0) return 0;
    throw std::invalid_argument(fmt::format("\"{}\" lacks a unit; write it as in \"{}\" (units: {})", text,
                                            table.example, unit_names(table)));
  }
  for (const Unit& unit : table.units) {
    if (unit.name != rest) continue;
    if (!std::isfinite(value * unit.factor))
      throw std::invalid_argument(fmt::format("\"{}\" is out of range", text));
    return value * unit.factor;
  }
  throw std::invalid_argument(
      fmt::format("unit \"{}\" in \"{}\" is not one of {}", rest, text, unit_names(table)));
}

// `value` scaled by the largest prefix not above it.
std::string scaled(double value, std::span<const Unit> prefixes, double smallest_factor) {
  if (value == 0) return fmt::format("0 {}", prefixes.back().name);
  for (const Unit& prefix : prefixes)
    if (std::abs(value) >= prefix.factor || prefix.factor <= smallest_factor) {
      const double shown = value / prefix.factor;
      // Above the largest prefix all digits before the point are written rather than an exponent.
      const bool plain = std::abs(shown) >= 1e4 && std::abs(shown) < 1e7;
      return plain ? fmt::format("{:.0f} {}", shown, prefix.name)
                   : fmt::format("{:.4g} {}", shown, prefix.name);
    }
  return fmt::format("{:.4g}", value);
}

}  // namespace

Seconds parse_seconds(std::string_view text) {
  return Seconds(parse(text, {"a time", "5us", TimeUnits}));
}
Bytes parse_bytes(std::string_view text) {
  return Bytes(parse(text, {"a size", "80GiB", SizeUnits}));
}
BytesPerSecond parse_bytes_per_second(std::string_view text) {
  return BytesPerSecond(parse(text, {"a bandwidth", "400Gbps", RateUnits}));
}
Flop parse_flop(std::string_view text) {
  return Flop(parse(text, {"an amount of work", "2TFLOP", FlopUnits}));
}
FlopPerSecond parse_flop_per_second(std::string_view text) {
  return FlopPerSecond(parse(text, {"a compute rate", "989TFLOPps", FlopRateUnits}));
}

Watts parse_watts(std::string_view text) {
  return Watts(parse(text, {"a power", "700W", PowerUnits}));
}

double parse_number(std::string_view text) {
  double value = 0;
  if (!read_number(text, value).empty())
    throw std::invalid_argument(fmt::format("\"{}\" is not a plain number", text));
  return value;
}

long long parse_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    throw std::invalid_argument(fmt::format("\"{}\" is out of range", text));
  if (error != std::errc{} || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("\"{}\" is not a whole number", text));
  if (digits.size() > 1 && digits.front() == '0')
    throw std::invalid_argument(fmt::format("\"{}\" has a leading zero; write it without", text));
  return value;
}

std::string to_text(Seconds value) {
  static constexpr std::array prefixes =
      std::to_array<Unit>({{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}});
  return value.si() == 0 ? "0 s" : scaled(value.si(), prefixes, 1e-9);
}
std::string to_text(Bytes value) {
  static constexpr std::array prefixes =
      std::to_array<Unit>({{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}});
  return scaled(value.si(), prefixes, 1);
}
std::string to_text(BytesPerSecond value) {
  static constexpr std::array prefixes =
      std::to_array<Unit>({{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}});
  return scaled(value.si(), prefixes, 1);
}
std::string to_text(Flop value) {
  static constexpr std::array prefixes =
      std::to_array<Unit>({{"PFLOP", 1e15}, {"TFLOP", 1e12}, {"GFLOP", 1e9}, {"MFLOP", 1e6}, {"FLOP", 1}});
  return scaled(value.si(), prefixes, 1);
}
std::string to_text(FlopPerSecond value) {
  static constexpr std::array prefixes = std::to_array<Unit>(
      {{"PFLOP/s", 1e15}, {"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}, {"MFLOP/s", 1e6}, {"FLOP/s", 1}});
  return scaled(value.si(), prefixes, 1);
}

std::string to_text(Watts value) {
  static constexpr std::array prefixes = std::to_array<Unit>({{"MW", 1e6}, {"kW", 1e3}, {"W", 1}});
  return scaled(value.si(), prefixes, 1);
}
std::string to_text(Joules value) {
  static constexpr std::array prefixes =
      std::to_array<Unit>({{"GJ", 1e9}, {"MJ", 1e6}, {"kJ", 1e3}, {"J", 1}, {"mJ", 1e-3}, {"uJ", 1e-6}});
  return scaled(value.si(), prefixes, 1e-6);
}

std::string exact_text(double value) {
  std::array<char, 32> buffer;
  char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

}  // namespace syncline
