#include "tools/collective_arguments.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/schedule/limits.hpp"

namespace syncline {
namespace {

constexpr std::size_t MostSizes = 1000;
constexpr long long MostRanks = 1 << 18;  // as many accelerators as are built

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(at); end != std::string::npos; end = text.find(at, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Bytes size_of(const std::string& text) {
  const Bytes size = parse_bytes(text);
  if (size <= Bytes(0)) throw std::invalid_argument(fmt::format("\"{}\" is nothing to send", text));
  if (size > limits::MostBytes)
    throw std::invalid_argument(fmt::format("\"{}\" is beyond {}", text, to_text(limits::MostBytes)));
  if (size.si() != std::floor(size.si()))
    throw std::invalid_argument(fmt::format("\"{}\" is no whole number of bytes", text));
  return size;
}

std::vector<Bytes> size_range(const std::string& from, const std::string& to, const std::string& step) {
  const bool factor = step.starts_with('x');
  if (!factor && !step.starts_with('+'))
    throw std::invalid_argument(fmt::format("expected a step xFACTOR or +SIZE, found \"{}\"", step));
  const double times = factor ? parse_number(step.substr(1)) : 1;
  const Bytes more = factor ? Bytes(0) : size_of(step.substr(1));
  if (factor && times <= 1)
    throw std::invalid_argument(fmt::format("a factor of {} leads nowhere; expected more than 1", times));
  const Bytes first = size_of(from), last = size_of(to);
  if (last < first) throw std::invalid_argument(fmt::format("{} is less than {}", to, from));
  std::vector<Bytes> sizes;
  for (Bytes size = first; size <= last; size = size * times + more) {
    if (sizes.size() == MostSizes) throw std::invalid_argument(fmt::format("more than {} sizes", MostSizes));
    const Bytes whole(std::floor(size.si()));
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
  }
  return sizes;
}

std::uint32_t rank_of(const std::string& text) {
  if (text.empty()) throw std::invalid_argument("a rank is missing; expected ranks as in 0-63 or 0,8,16-23");
  const long long rank = parse_integer(text);
  if (rank < 0 || rank >= MostRanks)
    throw std::invalid_argument(fmt::format("{} is no rank; expected 0 to {}", text, MostRanks - 1));
  return static_cast<std::uint32_t>(rank);
}

}  // namespace

std::vector<Bytes> parse_sizes(const std::string& text) {
  try {
    const std::vector<std::string> range = split(text, ':');
    if (range.size() == 3) return size_range(range[0], range[1], range[2]);
    if (range.size() != 1)
      throw std::invalid_argument("expected FROM:TO:STEP, as in 8B:8GiB:x2, or a list of sizes");
    std::vector<Bytes> sizes;
    for (const std::string& part : split(text, ',')) sizes.push_back(size_of(part));
    return sizes;
  } catch (const std::invalid_argument& error) {
    refuse("--sizes", error.what());
  }
}

std::vector<AcceleratorId> parse_ranks(const std::string& text) {
  std::vector<AcceleratorId> ranks;
  std::set<std::uint32_t> seen;
  try {
    for (const std::string& part : split(text, ',')) {
      if (part.starts_with('-'))
        throw std::invalid_argument(fmt::format("\"{}\" is no rank; ranks count from 0", part));
      const std::size_t dash = part.find('-');
      const std::uint32_t first = rank_of(part.substr(0, dash));
      const std::uint32_t last = dash == std::string::npos ? first : rank_of(part.substr(dash + 1));
      if (last < first) throw std::invalid_argument(fmt::format("\"{}\" ends before it begins", part));
      for (std::uint32_t rank = first; rank <= last; ++rank) {
        if (!seen.insert(rank).second)
          throw std::invalid_argument(fmt::format("rank {} stands in it twice", rank));
        ranks.emplace_back(rank);
      }
    }
  } catch (const std::invalid_argument& error) {
    refuse("--ranks", error.what());
  }
  return ranks;
}

std::vector<std::vector<AcceleratorId>> split_ranks(const std::vector<AcceleratorId>& ranks, std::size_t size,
                                                    std::size_t stride) {
  if (size < 2) refuse(ranks.size() < 2 ? "--ranks" : "--group-size", "one rank alone has nobody to talk to");
  const std::size_t block = size * stride;
  if (ranks.size() % block != 0)
    refuse("--group-size",
           fmt::format("{} ranks cannot be split into groups of {} with stride {}: {} is no multiple of {}",
                       ranks.size(), size, stride, ranks.size(), block));
  std::vector<std::vector<AcceleratorId>> groups;
  for (std::size_t begin = 0; begin < ranks.size(); begin += block) {
    for (std::size_t offset = 0; offset < stride; ++offset) {
      std::vector<AcceleratorId>& group = groups.emplace_back();
      for (std::size_t i = 0; i < size; ++i) group.push_back(ranks[begin + offset + i * stride]);
    }
  }
  return groups;
}

}  // namespace syncline
