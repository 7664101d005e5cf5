// The text of an order: "0F0 0F1 1I0 1W0 (0F3;3B1)OVERLAP_F_B".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "sim/core/error.hpp"
#include "sim/pipeline/order.hpp"

namespace syncline::pipeline {
namespace {

constexpr std::string_view Letters = "FBIW";  // by ActionKind
constexpr std::string_view FusedEnd = ")OVERLAP_F_B";
constexpr std::string_view Blanks = " \t\r\f\v";
constexpr int LargestNumber = 9'999'999;  // of a stage or microbatch

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

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  Order run() {
    while (!rest_.empty()) {
      const std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
      ++line_;
      const std::size_t begin = line.find_first_not_of(Blanks);
      if (begin != std::string_view::npos && line[begin] != '#') read_rank(line);
    }
    if (order_.ranks.empty() && errors_.empty())
      errors_.push_back(
          {{file_, 0, 0, ""}, "has no order; expected one line a rank, such as \"0F0 0F1 0B0 0B1\""});
    if (!errors_.empty()) throw InputError(std::move(errors_));
    return std::move(order_);
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
    order_.ranks.push_back(std::move(rank));
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
    const auto count = [this](const Action& action) {
      order_.stages = std::max(order_.stages, action.stage + 1);
      order_.microbatches = std::max(order_.microbatches, action.microbatch + 1);
    };
    count(block->first);
    if (block->fused) count(block->second);
    rank.push_back(*block);
  }

  std::string_view rest_;
  const std::string& file_;
  int line_ = 0;
  Order order_;
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
  return Reader(text, file).run();
}

}  // namespace syncline::pipeline
