#include "sim/report/expert_text.hpp"

#include <fmt/format.h>

#include <vector>

#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr double Even = 1.02;  // max/mean below it costs too little to be spoken of

std::string heading(const std::optional<ExpertTokens>& tokens) {
  if (!tokens) return "\nExperts\n";
  std::string shared = tokens->ranks == 1
                           ? std::string("all on every rank")
                           : fmt::format("shared by {} ranks{}", tokens->ranks,
                                         tokens->nodes > 1 ? fmt::format(" on {} nodes", tokens->nodes) : "");
  if (tokens->tensor > 1) shared += fmt::format(", each cut for {}", tokens->tensor);
  return "\n" +
         clipped(fmt::format("Experts: a token goes to {} of {}, {}; routing: {}", tokens->top_k,
                             tokens->experts, shared, tokens->routing),
                 100) +
         "\n";
}

std::vector<std::string> imbalance_row(std::string label, const moe::LayerImbalance& imbalance) {
  std::vector<std::string> row{std::move(label)};
  for (const moe::Imbalance& level : {imbalance.experts, imbalance.ranks, imbalance.nodes})
    row.push_back(fmt::format("{:.3f}", level.max_over_mean));
  return row;
}

std::string imbalance_table(const ExpertTokens& tokens) {
  return aligned({{"tokens, max/mean over", "experts", "ranks", "nodes"},
                  imbalance_row("  mean of layers", tokens.imbalance.mean),
                  imbalance_row("  worst layer", tokens.imbalance.largest)},
                 "lrrr");
}

std::string bytes_text(const ExpertBytes& bytes) {
  return fmt::format("{} a rank inside nodes, {} between", to_text(bytes.inside), to_text(bytes.between));
}

std::string figures(const ExpertBalance& experts) {
  Rows rows;
  if (experts.tokens && experts.tokens->dropped > 0)
    rows.push_back({"dropped", percent(experts.tokens->dropped) +
                                   " of the copies of tokens, which model FLOP count all the same"});
  if (experts.tokens && experts.tokens->padding > 0)
    rows.push_back({"padding", percent(experts.tokens->padding) + " of what experts get"});
  rows.push_back({"sent to experts", bytes_text(experts.to_experts)});
  rows.push_back({"sent back", bytes_text(experts.back)});
  if (!experts.times) {
    rows.push_back({"work, waiting", "unknown without a timeline"});
    return aligned(rows, "ll");
  }
  const ExpertTimes& times = *experts.times;
  const auto on_rank = [](Seconds time, RankId rank) {
    return fmt::format("{} on rank {}", to_text(time), rank.value());
  };
  rows.push_back({"work", fmt::format("{} on average, {}", to_text(times.work),
                                      on_rank(times.longest_work, times.longest_work_rank))});
  rows.push_back(
      {"  of the fullest", to_text(times.of_fullest) + ", layer by layer the rank with most of its group"});
  rows.push_back({"dispatch, combine", to_text(times.transfer) + " on average"});
  rows.push_back({"  waiting", fmt::format("{} on average for the slowest, {}", to_text(times.wait),
                                           on_rank(times.longest_wait, times.longest_wait_rank))});
  if (experts.tokens && experts.tokens->tensor > 1)
    rows.push_back({"  not counted",
                    fmt::format("exchanges of the {} ranks that share each expert", experts.tokens->tensor)});
  return aligned(rows, "ll");
}

/// What a step with uneven tokens waits for.
std::string reason(const ExpertTokens& tokens, const ExpertTimes& times) {
  const double even = 1.0 / tokens.ranks, fullest = even * tokens.imbalance.mean.ranks.max_over_mean;
  const std::string exchanges =
      tokens.gathered ? ""
                      : fmt::format("  dispatch and combine last as long as its part takes ({}),\n",
                                    to_text(times.transfer));
  return fmt::format(
      "  uneven tokens: a layer's fullest rank gets {} of its group's, not {};\n"
      "{}  the others wait for it ({}) while its experts work ({} where the mean is {})\n",
      percent(fullest), percent(even), exchanges, to_text(times.wait), to_text(times.of_fullest),
      to_text(times.work));
}

}  // namespace

std::string expert_table(const ExpertBalance& experts) {
  std::string text = heading(experts.tokens);
  if (experts.tokens) text += imbalance_table(*experts.tokens);
  text += figures(experts);
  if (experts.tokens && experts.times && experts.tokens->imbalance.mean.ranks.max_over_mean >= Even)
    text += reason(*experts.tokens, *experts.times);
  return text;
}

}  // namespace syncline
