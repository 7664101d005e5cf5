// Quantities as text: reading `400Gbps`, `80GiB`, `5us`; printing figures that people can read.
#pragma once

#include <string>
#include <string_view>

#include "sim/core/quantity.hpp"

namespace syncline {

// Each parser reads a decimal number followed by a unit, with optional spaces between. k, M, G, T, P are powers of
// ten, Ki, Mi, Gi, Ti powers of two; `b` is a bit, `B` a byte. A bare number is an error (except a bare `0`, which
// is the same in every unit), and so are negative, nan and infinite values.
// On error they throw std::invalid_argument whose text says what was found and which units are allowed; the reader
// of the file adds the place.
[[nodiscard]] Seconds parse_seconds(std::string_view text);  // s, ms, us, ns, min, h
[[nodiscard]] Bytes parse_bytes(std::string_view text);      // B, kB, MB, GB, TB, KiB, MiB, GiB, TiB
[[nodiscard]] BytesPerSecond parse_bytes_per_second(
    std::string_view text);                            // Gbps, GBps, GB/s, GiB/s, Tbps, ...
[[nodiscard]] Flop parse_flop(std::string_view text);  // FLOP, GFLOP, TFLOP, PFLOP
[[nodiscard]] FlopPerSecond parse_flop_per_second(std::string_view text);  // TFLOPps, TFLOP/s, ...
[[nodiscard]] Watts parse_watts(std::string_view text);                    // W, kW, MW
/// Plain number, finite; the whole text must be the number.
[[nodiscard]] double parse_number(std::string_view text);
/// Plain integer without leading zeros (`010` is refused: some readers take it for 8).
[[nodiscard]] long long parse_integer(std::string_view text);

// For people: three to five significant digits and a fitting prefix: `20.01 ms`, `4.37 GB`, `400 GB/s`.
[[nodiscard]] std::string to_text(Seconds value);
[[nodiscard]] std::string to_text(Bytes value);  // decimal prefixes: kB, MB, GB
[[nodiscard]] std::string to_text(BytesPerSecond value);
[[nodiscard]] std::string to_text(Flop value);
[[nodiscard]] std::string to_text(FlopPerSecond value);
[[nodiscard]] std::string to_text(Watts value);
[[nodiscard]] std::string to_text(Joules value);

/// Shortest decimal text that reads back as the same double: `0.0025`, `1e-06`.
[[nodiscard]] std::string exact_text(double value);

}  // namespace syncline
