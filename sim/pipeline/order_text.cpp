// The text of an order: "0F0 0F1 1I0 1W0 (0F3;3B1)OVERLAP_F_B".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "sim/core/error.hpp"
#include "sim/pipeline/order.hpp"
#include "sim/pipeline/replay.hpp"

namespace syncline::pipeline {
namespace {

constexpr std::string_view Letters = "FBIW";  // by ActionKind
constexpr std::string_view FusedEnd = ")OVERLAP_F_B";
constexpr std::string_view Blanks = " \t\r\f\v";
constexpr int LargestNumber = MostStages - 1;  // of a stage or microbatch

/// "3F1" and nothing behind it.
std::optional<Action> parse_action(std::string_view text) {
  const auto number = [&text](int& value) {
    const bool digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!digit || error != std::errc{} || value > LargestNumber) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  Action action;
  if (!number(action.stage) || text.empty()) return std::nullopt;
  const std::size_t kind = Letters.find(text.front());
  if (kind == std::string_view::npos) return std::nullopt;
  action.kind = static_cast<ActionKind>(kind);
  text.remove_prefix(1);
  if (!number(action.microbatch) || !text.empty()) return std::nullopt;
  return action;
}

std::optional<Block> parse_block(std::string_view text) {
  if (!text.starts_with('(')) {
    const std::optional<Action> action = parse_action(text);
    return action ? std::optional<Block>(*action) : std::nullopt;
  }
  if (!text.ends_with(FusedEnd)) return std::nullopt;
  text = text.substr(1, text.size() - 1 - FusedEnd.size());
  const std::size_t middle = text.find(';');
  if (middle == std::string_view::npos) return std::nullopt;
  const std::optional<Action> forward = parse_action(text.substr(0, middle));
  const std::optional<Action> backward = parse_action(text.substr(middle + 1));
  if (!forward || !backward) return std::nullopt;
  return Block(*forward, *backward);
}

double count_actions(const Order& order) {
  double actions = 0;
  for (const RankOrder& rank : order.ranks)
    for (const Block& block : rank) actions += block.fused ? 2 : 1;
  return actions;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  WrittenOrder run() {
    while (!rest_.empty()) {
      std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      const std::size_t begin = line.find_first_not_of(Blanks);
      if (begin != std::string_view::npos && line[begin] != '#') read_rank(line);
    }
    if (written_.ranks.empty() && errors_.empty())
      errors_.push_back(
          {{file_, 0, 0, ""}, "has no order; expected one line a rank, such as \"0F0 0F1 0B0 0B1\""});
    if (!errors_.empty()) throw InputError(std::move(errors_));
    return std::move(written_);
  }

 private:
  void read_rank(std::string_view line) {
    RankOrder rank;
    std::size_t at = 0;
    while ((at = line.find_first_not_of(Blanks, at)) != std::string_view::npos) {
      const std::size_t end = std::min(line.size(), line.find_first_of(Blanks, at));
      read_block(line, at, line.substr(at, end - at), rank);
      at = end;
    }
    written_.order.ranks.push_back(std::move(rank));
    written_.ranks.push_back({file_, line_, 1, std::string(line)});
  }

  void read_block(std::string_view line, std::size_t at, std::string_view word, RankOrder& rank) {
    const std::optional<Block> block = parse_block(word);
    if (!block) {
      constexpr std::size_t MostErrors = 20;
      if (errors_.size() < MostErrors)
        errors_.push_back(
            {{file_, line_, static_cast<int>(at) + 1, std::string(line)},
             fmt::format("unknown action \"{}\"; expected stage, kind (F, B, I or W) and microbatch "
                         "such as 3F1, or two fused such as (0F3;3B1)OVERLAP_F_B",
                         word)});
      return;
    }
    const auto count = [&order = written_.order](const Action& action) {
      order.stages = std::max(order.stages, action.stage + 1);
      order.microbatches = std::max(order.microbatches, action.microbatch + 1);
    };
    count(block->first);
    if (block->fused) count(block->second);
    rank.push_back(*block);
  }

  std::string_view rest_;
  const std::string& file_;
  int line_ = 0;
  WrittenOrder written_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

char letter_of(ActionKind kind) {
  return Letters[static_cast<std::size_t>(kind)];
}

std::string to_text(const Action& action) {
  return fmt::format("{}{}{}", action.stage, letter_of(action.kind), action.microbatch);
}

std::string to_text(const Block& block) {
  if (!block.fused) return to_text(block.first);
  return fmt::format("({};{}{}", to_text(block.first), to_text(block.second), FusedEnd);
}

std::string to_text(const RankOrder& rank) {
  std::string text;
  for (const Block& block : rank) {
    if (!text.empty()) text += ' ';
    text += to_text(block);
  }
  return text;
}

Order parse_order(std::string_view text, const std::string& file) {
  return parse_written_order(text, file).order;
}

WrittenOrder parse_written_order(std::string_view text, const std::string& file) {
  return Reader(text, file).run();
}

std::optional<std::string> too_large(const Order& order) {
  if (order.ranks.size() > static_cast<std::size_t>(MostRanks))
    return fmt::format("has {} ranks; at most {} are simulated", order.ranks.size(), MostRanks);
  const double actions = count_actions(order);
  if (actions > MostActions)
    return fmt::format("has {:.0f} actions; at most {:.0f} are simulated", actions, MostActions);
  return std::nullopt;
}

std::vector<Diagnostic> check_written_order(const Order& order, std::span<const Place> ranks,
                                            std::string_view subject, const Place& whole) {
  if (const auto size = too_large(order)) return {{whole, fmt::format("{} {}", subject, *size)}};
  std::vector<Diagnostic> wrong;
  for (const OrderFault& fault : order_faults(order)) {
    const bool shows = fault.rank >= 0;
    wrong.push_back({shows ? ranks[static_cast<std::size_t>(fault.rank)] : whole,
                     fmt::format("{} is not sound: {}", subject, fault.message)});
  }
  if (!wrong.empty()) return wrong;
  const std::vector<int> stuck = deadlocked_ranks(order);
  if (stuck.empty()) return {};
  std::string cycle = deadlock(order);
  for (std::size_t at; (at = cycle.find('\n')) != std::string::npos;) cycle.replace(at, 1, "; ");
  return {{ranks[static_cast<std::size_t>(stuck.front())], fmt::format("{} deadlocks: {}", subject, cycle)}};
}

}  // namespace syncline::pipeline
