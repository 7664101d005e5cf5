#include "tools/network_prices.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "sim/config/price_list.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

std::string price_text(const std::optional<Price>& price) {
  if (!price) return "unknown";
  if (price->low == price->high) return money_text(price->typical);
  return fmt::format("{} ({} to {})", money_text(price->typical), money_text(price->low),
                     money_text(price->high));
}

std::string power_text(const std::optional<Watts>& power) {
  return power ? to_text(*power) : "unknown";
}

}  // namespace

void add_network_cost(RunContext& context, const Question& question) {
  if (question.scenario && question.scenario->textbook && !question.scenario->textbook->topology) return;
  const std::optional<PriceList> prices = default_price_list();
  if (!prices) return;
  const NetworkCost cost = network_cost(question.cluster.topology, *prices);
  if (cost.price) context.network_usd = cost.price->typical;
  context.network_power = cost.power;
}

std::string cost_table(const NetworkCost& cost) {
  std::vector<std::vector<std::string>> rows;
  std::string sources, last;
  for (const CostLine& line : cost.lines) {
    rows.push_back(
        {fmt::format("{} ×", line.count), line.part, price_text(line.price), power_text(line.power)});
    if (line.source != last)
      sources += fmt::format("  {}: {}\n", line.part, line.source);  // not again for each level
    last = line.source;
  }
  rows.push_back({"", "in all", price_text(cost.price), power_text(cost.power)});
  return aligned(rows, "rlll") + (sources.empty() ? "" : "sources\n" + sources);
}

}  // namespace syncline
