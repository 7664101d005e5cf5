#include "sim/core/units.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

using namespace syncline;
using namespace syncline::literals;

namespace {

template <class Parse>
std::string error_of(Parse parse, const std::string& text) {
  try {
    static_cast<void>(parse(text));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

template <class Quantity>
struct Good {
  std::string text;
  Quantity value;
};
struct Bad {
  std::string text, message;
};

const std::string TimeUnits = "s, ms, us, ns, min, h";
const std::string SizeUnits = "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB";
const std::string RateUnits =
    "bps, kbps, Mbps, Gbps, Tbps, Bps, kBps, MBps, GBps, TBps, B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, "
    "GiB/s";

}  // namespace

TEST_SUITE("units") {
  TEST_CASE("times are read with their unit") {
    const Good<Seconds> good[] = {
        {"5us", 5_us},   {"5 us", 5_us}, {"1.5ms", 1.5_ms},        {"2s", 2_s},       {"3ns", 3_ns},
        {"2min", 120_s}, {"1h", 3600_s}, {"1e-3s", Seconds(1e-3)}, {"0", Seconds(0)}, {"0s", Seconds(0)}};
    for (const auto& row : good) {
      CAPTURE(row.text);
      CHECK(parse_seconds(row.text).si() == doctest::Approx(row.value.si()).epsilon(1e-15));
    }
    const Bad bad[] = {
        {"5", "\"5\" lacks a unit; write it as in \"5us\" (units: " + TimeUnits + ")"},
        {"010", "\"010\" lacks a unit; write it as in \"5us\" (units: " + TimeUnits + ")"},
        {"-1s", "\"-1s\" is negative; a time must not be"},
        {"nan", "\"nan\" is not a finite number; expected a time such as \"5us\""},
        {"inf s", "\"inf s\" is not a finite number; expected a time such as \"5us\""},
        {"1e999", "\"1e999\" is out of range; expected a time such as \"5us\""},
        {"1e999s", "\"1e999s\" is out of range; expected a time such as \"5us\""},
        {"1e308h", "\"1e308h\" is out of range"},
        {"5 sec", "unit \"sec\" in \"5 sec\" is not one of " + TimeUnits},
        {"5US", "unit \"US\" in \"5US\" is not one of " + TimeUnits},
        {"5us ", "unit \"us \" in \"5us \" is not one of " + TimeUnits},
        {"us", "\"us\" is not a number; expected a time such as \"5us\""},
        {"", "\"\" is not a number; expected a time such as \"5us\""},
        {"+5us", "\"+5us\" is not a number; expected a time such as \"5us\""},
        {"0x10s", "unit \"x10s\" in \"0x10s\" is not one of " + TimeUnits},
        {"1,5s", "unit \",5s\" in \"1,5s\" is not one of " + TimeUnits},
    };
    for (const Bad& row : bad) {
      CAPTURE(row.text);
      CHECK(error_of(parse_seconds, row.text) == row.message);
    }
  }

  TEST_CASE("sizes tell powers of ten from powers of two, and bytes from bits") {
    const Good<Bytes> good[] = {{"80GiB", 80_GiB},
                                {"80GB", 80_GB},
                                {"1KiB", 1024_B},
                                {"1kB", 1000_B},
                                {"1.5MiB", Bytes(1572864)},
                                {"2TB", Bytes(2e12)},
                                {"1TiB", Bytes(1099511627776)},
                                {"7B", 7_B}};
    for (const auto& row : good) {
      CAPTURE(row.text);
      CHECK(parse_bytes(row.text) == row.value);
    }
    const Bad bad[] = {
        {"64", "\"64\" lacks a unit; write it as in \"80GiB\" (units: " + SizeUnits + ")"},
        {"64Gb", "unit \"Gb\" in \"64Gb\" is not one of " + SizeUnits},
        {"64KB", "unit \"KB\" in \"64KB\" is not one of " + SizeUnits},
        {"64GIB", "unit \"GIB\" in \"64GIB\" is not one of " + SizeUnits},
        {"-64GiB", "\"-64GiB\" is negative; a size must not be"},
        {"1e308TB", "\"1e308TB\" is out of range"},
    };
    for (const Bad& row : bad) {
      CAPTURE(row.text);
      CHECK(error_of(parse_bytes, row.text) == row.message);
    }
  }

  TEST_CASE("bandwidths are read in bits and bytes per second") {
    const Good<BytesPerSecond> good[] = {
        {"400Gbps", 50_GBps},
        {"50GBps", 50_GBps},
        {"50 GB/s", 50_GBps},
        {"1Tbps", 125_GBps},
        {"8bps", BytesPerSecond(1)},
        {"50GiB/s", BytesPerSecond(53687091200)}};  // 50 x 1024^3, 7.4 % more than 50 GB/s
    for (const auto& row : good) {
      CAPTURE(row.text);
      CHECK(parse_bytes_per_second(row.text) == row.value);
    }
    const Bad bad[] = {
        {"400", "\"400\" lacks a unit; write it as in \"400Gbps\" (units: " + RateUnits + ")"},
        {"400GB", "unit \"GB\" in \"400GB\" is not one of " + RateUnits},
        {"400Gb/s", "unit \"Gb/s\" in \"400Gb/s\" is not one of " + RateUnits},
    };
    for (const Bad& row : bad) {
      CAPTURE(row.text);
      CHECK(error_of(parse_bytes_per_second, row.text) == row.message);
    }
  }

  TEST_CASE("work and rates of work are read in FLOP") {
    CHECK(parse_flop("2TFLOP") == 2_TFLOP);
    CHECK(parse_flop("1PFLOP") == 1000_TFLOP);
    CHECK(parse_flop_per_second("989TFLOPps") == 989_TFLOPps);
    CHECK(parse_flop_per_second("1 PFLOP/s") == 1000_TFLOPps);
    CHECK(error_of(parse_flop, "2TFLOPS") ==
          "unit \"TFLOPS\" in \"2TFLOPS\" is not one of FLOP, MFLOP, GFLOP, TFLOP, PFLOP");
    CHECK(
        error_of(parse_flop_per_second, "989TFLOP") ==
        "unit \"TFLOP\" in \"989TFLOP\" is not one of GFLOPps, TFLOPps, PFLOPps, GFLOP/s, TFLOP/s, PFLOP/s");
  }

  TEST_CASE("plain numbers must be numbers from beginning to end") {
    CHECK(parse_number("0.25") == 0.25);
    CHECK(parse_number("-1e-3") == -1e-3);
    const Bad bad[] = {{"0.25x", "\"0.25x\" is not a plain number"},
                       {"1 ", "\"1 \" is not a plain number"},
                       {"", "\"\" is not a number"},
                       {"1e999", "\"1e999\" is out of range"},
                       {"nan", "\"nan\" is not a finite number"},
                       {"-inf", "\"-inf\" is not a finite number"}};
    for (const Bad& row : bad) {
      CAPTURE(row.text);
      CHECK(error_of(parse_number, row.text) == row.message);
    }
  }

  TEST_CASE("integers are whole, in range and without leading zeros") {
    CHECK(parse_integer("0") == 0);
    CHECK(parse_integer("16384") == 16384);
    CHECK(parse_integer("-7") == -7);
    CHECK(parse_integer("9223372036854775807") == std::numeric_limits<long long>::max());
    const Bad bad[] = {{"010", "\"010\" has a leading zero; write it without"},
                       {"-010", "\"-010\" has a leading zero; write it without"},
                       {"1.0", "\"1.0\" is not a whole number"},
                       {"1e3", "\"1e3\" is not a whole number"},
                       {"", "\"\" is not a whole number"},
                       {"-", "\"-\" is not a whole number"},
                       {"9223372036854775808", "\"9223372036854775808\" is out of range"}};
    for (const Bad& row : bad) {
      CAPTURE(row.text);
      CHECK(error_of(parse_integer, row.text) == row.message);
    }
  }

  TEST_CASE("figures for people have a fitting prefix") {
    CHECK(to_text(Seconds(0.020005)) == "20 ms");
    CHECK(to_text(Seconds(0.02001)) == "20.01 ms");
    CHECK(to_text(Seconds(1)) == "1 s");
    CHECK(to_text(Seconds(0)) == "0 s");
    CHECK(to_text(Seconds(-0.0025)) == "-2.5 ms");
    CHECK(to_text(Seconds(1e-12)) == "0.001 ns");
    CHECK(to_text(Seconds(86400)) == "86400 s");
    CHECK(to_text(Bytes(4.37e9)) == "4.37 GB");
    CHECK(to_text(Bytes(999)) == "999 B");
    CHECK(to_text(Bytes(0)) == "0 B");
    CHECK(to_text(Bytes(5e16)) == "50000 TB");
    CHECK(to_text(BytesPerSecond(4e11)) == "400 GB/s");
    CHECK(to_text(Flop(6.3e15)) == "6.3 PFLOP");
    CHECK(to_text(FlopPerSecond(4.1234e14)) == "412.3 TFLOP/s");
  }

  TEST_CASE("exact text is the shortest that reads back as the same number") {
    CHECK(exact_text(0.0025) == "0.0025");
    CHECK(exact_text(1e-6) == "1e-06");
    CHECK(exact_text(436224000) == "436224000");
    CHECK(exact_text(0.1 + 0.2) == "0.30000000000000004");
    for (const double value :
         {1.0 / 3, 5e-324, 1.7976931348623157e308, 9007199254740993.0, -2.5, 0.0, 1e23}) {
      CAPTURE(value);
      CHECK(parse_number(exact_text(value)) == value);
    }
  }
}
