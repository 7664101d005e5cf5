// How far two timelines may differ, for a check that fails beyond.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/compare/comparison.hpp"
#include "sim/core/error.hpp"

namespace syncline::compare {

/// What may differ by how much: "step=5%", "order=0", "start=1ms", "all-gather=10%".
struct Limit {
  std::string what;  // a measure, or a kind of op: then the error of its sum of work
  double most = 0;   // fraction, count or s, by the measure; itself allowed
  std::string text;  // as given: "5%"
  Place place;
};

/// The measures and what each is of, as lines for a help text.
[[nodiscard]] std::string measures_text();

/// @param value  a percentage such as "5%"; of `order` and `missing` a count; of `start` and `clock` a time
/// @throws std::invalid_argument  saying what was expected
[[nodiscard]] Limit parse_limit(std::string_view what, std::string_view value);

/// "step=5%,op=15%,order=0".
/// @throws InputError  at `flag`
[[nodiscard]] std::vector<Limit> parse_limits(std::string_view text, const std::string& flag);

/// Those of `over` take the place of those for the same.
void lay_over(std::vector<Limit>& limits, std::vector<Limit> over);

/// What is beyond its limit.
struct Broken {
  std::string what;     // as in Limit
  std::string message;  // "step: A 1.2 s, B 1 s, +20.0 %, beyond 5%"
  double value = 0;     // in the limit's unit
  double most = 0;
};

inline constexpr std::size_t MostNamed =
    20;  // of ops beyond one limit, each by itself; the last says how many more

/// In the order of the limits.
/// @throws InputError  at the limit's place, when it is for a kind that neither timeline has
[[nodiscard]] std::vector<Broken> broken_limits(const Comparison& comparison,
                                                const std::vector<Limit>& limits);

}  // namespace syncline::compare
