// Measured routing: a GPT of 24 layers with 32 experts on 16 ranks, two experts a token, at four iterations
// of its training. From github.com/thu-pacman/SmartMoE-AE, which is not part of this repository; skipped
// without it.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/moe/counts_file.hpp"
#include "sim/moe/imbalance.hpp"
#include "sim/moe/routing.hpp"

using namespace syncline;
using namespace syncline::moe;
using doctest::Approx;

namespace {

const std::string Archive =
    SYNCLINE_SOURCE_DIR "/../shared/data/traces/smartmoe/moe_trace_iters_1_1001_2501_4501.tar.gz";
constexpr int Iterations[]{1, 1001, 2501, 4501};
constexpr int Layers = 24, Ranks = 16, RowsOfRank = 4, Experts = 32;
constexpr std::int64_t TokensOfRow = 2048;

bool is_there() {
  if (std::filesystem::exists(Archive)) return true;
  MESSAGE("skipped: there is no " << Archive);
  return false;
}

std::string unzipped(const std::string& file) {
  std::string text;
  std::vector<char> buffer(1 << 16);
  const gzFile in = gzopen(file.c_str(), "rb");
  for (int n = 0; (n = gzread(in, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  gzclose(in);
  return text;
}

/// Files of a tar archive: each a header of 512 bytes (name at 0, size in octal at 124), then its content,
/// filled up to a multiple of 512.
std::map<std::string, std::string> files_of(const std::string& tar) {
  constexpr std::size_t Block = 512;
  std::map<std::string, std::string> files;
  for (std::size_t at = 0; at + Block <= tar.size() && tar[at] != '\0';) {
    const std::string name = tar.c_str() + at;
    std::size_t size = 0;
    std::from_chars(tar.data() + at + 124, tar.data() + at + 135, size, 8);
    files[name] = tar.substr(at + Block, size);
    at += Block + (size + Block - 1) / Block * Block;
  }
  return files;
}

/// The numbers of "layer:[[177.0, ...], ...]".
std::vector<std::int64_t> numbers_of(std::string_view line) {
  std::vector<std::int64_t> numbers;
  line.remove_prefix(line.find(':'));
  for (std::size_t at = 0; (at = line.find_first_of("0123456789", at)) != line.npos;
       at = line.find_first_not_of("0123456789.", at))
    std::from_chars(line.data() + at, line.data() + line.size(), numbers.emplace_back());
  return numbers;
}

/// By iteration as step, layer, and the four rows of each rank as ranks of their own.
MeasuredCounts measured() {
  const std::map<std::string, std::string> files = files_of(unzipped(Archive));
  MeasuredCounts counts{"smartmoe", std::size(Iterations), Layers, Ranks * RowsOfRank, Experts, {}};
  for (const int iteration : Iterations) {
    std::vector<std::vector<std::int64_t>> by_layer(Layers);
    for (int rank = 0; rank < Ranks; ++rank) {
      std::string_view text = files.at(fmt::format("moe_trace/table_iter{}_rank{}.log", iteration, rank));
      for (std::vector<std::int64_t>& layer : by_layer) {
        const std::vector<std::int64_t> rows = numbers_of(text.substr(0, text.find('\n')));
        REQUIRE(rows.size() == RowsOfRank * Experts);
        layer.insert(layer.end(), rows.begin(), rows.end());
        text.remove_prefix(text.find('\n') + 1);
      }
    }
    for (const std::vector<std::int64_t>& layer : by_layer)
      counts.tokens.insert(counts.tokens.end(), layer.begin(), layer.end());
  }
  return counts;
}

/// With the rows of each rank together.
MeasuredCounts by_rank(const MeasuredCounts& rows) {
  MeasuredCounts counts{rows.file, rows.steps, Layers, Ranks, Experts, {}};
  counts.tokens.resize(rows.tokens.size() / RowsOfRank);
  for (std::size_t i = 0; i < rows.tokens.size(); ++i)
    counts.tokens[i / (RowsOfRank * Experts) * Experts + i % Experts] += rows.tokens[i];
  return counts;
}

/// Of a layer's rows the variance of what an expert gets, over that of independent tokens; the mean over
/// experts.
double dispersion(const MeasuredCounts& counts, std::int64_t step, int layer) {
  double squares = 0, degrees = 0;
  for (std::size_t e = 0; e < Experts; ++e) {
    double sum = 0, of_squares = 0;
    for (int row = 0; row < counts.ranks; ++row) {
      const auto x = static_cast<double>(counts.sent(step, layer, row)[e]);
      sum += x;
      of_squares += x * x;
    }
    const double mean = sum / counts.ranks, share = mean / TokensOfRow;
    if (mean < 5 || share > 0.95) continue;  // too few to tell
    squares += (of_squares - sum * mean) / (mean * (1 - share));
    degrees += counts.ranks - 1;
  }
  return squares / degrees;
}

}  // namespace

TEST_SUITE("moe: measured routing") {
  TEST_CASE("counts that fit are routed as they are, and their imbalance is that of the trace") {
    if (!is_there()) return;
    const auto counts = std::make_shared<MeasuredCounts>(by_rank(measured()));
    // Mean over layers of max/mean by expert, worked out from the text by a script in Python.
    const double expected[]{1.54275, 10.49104, 12.01733, 12.54278};
    const ExpertGroup group{.ranks = Ranks,
                            .experts = Experts,
                            .tokens = RowsOfRank * TokensOfRow,
                            .top_k = 2,
                            .ranks_per_node = 8};
    for (std::int64_t step = 0; step < counts->steps; ++step) {
      CAPTURE(step);
      std::vector<LayerImbalance> layers;
      for (int layer = 0; layer < Layers; ++layer) {
        const TokenCounts routed = route(FromFile{"smartmoe", counts}, group, 1, layer, step);
        for (int rank = 0; rank < Ranks; ++rank)
          CHECK(std::ranges::equal(routed.experts[rank], counts->sent(step, layer, rank)));
        layers.push_back(imbalance_of(routed, group));
      }
      const double mean = over_layers(layers).mean.experts.max_over_mean;
      CHECK(mean == Approx(expected[step]).epsilon(1e-5));
    }
  }

  TEST_CASE("no expert has more than one copy of each token, and popular ones have nearly that") {
    if (!is_there()) return;
    const MeasuredCounts counts = measured();
    CHECK(std::ranges::max(counts.tokens) <= TokensOfRow);
    CHECK(std::ranges::max(counts.tokens) > 0.95 * TokensOfRow);
  }

  TEST_CASE("sources differ by more than independent tokens do, but less than twice") {
    if (!is_there()) return;
    // The tokens of a text are alike, which routing by popularity does not know: a deviation of 1.1 to 1.7
    // times.
    const MeasuredCounts counts = measured();
    for (std::int64_t step = 0; step < counts.steps; ++step) {
      double mean = 0;
      for (int layer = 0; layer < Layers; ++layer) mean += dispersion(counts, step, layer) / Layers;
      CAPTURE(step);
      CHECK(std::sqrt(mean) > 1.05);
      CHECK(std::sqrt(mean) < 2);
    }
  }
}
