// The bubble rates of the Zero Bubble paper, from its profiled times (validation/zero-bubble).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "sim/core/units.hpp"
#include "sim/pipeline/generator.hpp"

using namespace syncline;
using namespace syncline::pipeline;

namespace {

struct Rate {
  std::string model, schedule;
  Request request;
  double published = 0;
};

std::vector<Rate> published_rates() {
  std::ifstream file(SYNCLINE_SOURCE_DIR "/validation/zero-bubble/rates.csv");
  std::vector<Rate> rates;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with('#') || line.starts_with("model")) continue;
    std::istringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    REQUIRE(row.size() == 10);
    Rate& rate = rates.emplace_back();
    rate.model = row[0];
    rate.schedule = row[7];
    rate.request.ranks = static_cast<int>(parse_integer(row[1]));
    rate.request.microbatches = static_cast<int>(parse_integer(row[2]));
    const auto ms = [&row](std::size_t column) { return Seconds(parse_number(row[column]) * 1e-3); };
    rate.request.costs = uniform_costs(rate.request.ranks, {ms(3), ms(4), ms(5)}, ms(6));
    rate.request.merge_backward = false;
    if (!row[8].empty()) rate.request.memory_limit = parse_number(row[8]) * rate.request.ranks;
    rate.published = parse_number(row[9]);
  }
  return rates;
}

}  // namespace

TEST_CASE("the bubble rates of the Zero Bubble paper come out of its profiled times") {
  const std::vector<Rate> rates = published_rates();
  REQUIRE(rates.size() == 20);
  std::string table = "model, schedule: published, ours\n";
  for (const Rate& rate : rates) {
    CAPTURE(rate.model);
    CAPTURE(rate.schedule);
    const Request& request = rate.request;
    const Replay result = replay(make_order(*find_generator(rate.schedule), request), request.costs);
    const Seconds busy = request.costs.stages.front().total() * request.microbatches;
    const double ours = 1 - busy / result.max_rank_span;
    CHECK(std::abs(ours - rate.published) < 5.1e-5);  // four digits are published
    table += fmt::format("{}, {}: {:.4f}, {:.4f}\n", rate.model, rate.schedule, rate.published, ours);
  }
  MESSAGE(table);
}
