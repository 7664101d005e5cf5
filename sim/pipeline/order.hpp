// The order of a pipeline: what every rank computes, one action after another.
//
// Words: a rank holds one or more virtual stages (chunks), numbered 0 … stages − 1 along the model over all
// ranks. Where an action stands says which rank holds its stage; so loops, V shapes and two directions need
// no more than this. A microbatch passes through each stage once; with two directions (DualPipe) a stage
// stands on two ranks, and the microbatches are divided between them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/core/quantity.hpp"

namespace syncline::pipeline {

/// Three things are called "B" in the field; here Backward is the whole of it, BackwardInput (I) the gradient
/// of the inputs, which the stage before waits for, and BackwardWeight (W) the gradient of the weights.
enum class ActionKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };
constexpr std::size_t ActionKindCount = 4;

struct Action {
  ActionKind kind = ActionKind::Forward;
  int stage = 0;
  int microbatch = 0;
  friend auto operator<=>(const Action&, const Action&) = default;
};

/// What a rank runs as one: an action, or a forward and a whole backward fused into one block that needs the
/// inputs of both when it starts and hands both outputs on when it ends.
struct Block {
  Action first;
  Action second{};  // where fused
  bool fused = false;
  Block(Action action) : first(action) {}  // NOLINT: an action is a block
  Block(Action forward, Action backward) : first(forward), second(backward), fused(true) {}
  friend bool operator==(const Block&, const Block&) = default;
};

inline Action F(int stage, int microbatch) {
  return {ActionKind::Forward, stage, microbatch};
}
inline Action B(int stage, int microbatch) {
  return {ActionKind::Backward, stage, microbatch};
}
inline Action I(int stage, int microbatch) {
  return {ActionKind::BackwardInput, stage, microbatch};
}
inline Action W(int stage, int microbatch) {
  return {ActionKind::BackwardWeight, stage, microbatch};
}

using RankOrder = std::vector<Block>;

struct Order {
  int stages = 0;  // virtual stages of the model
  int microbatches = 0;
  std::vector<RankOrder> ranks;
  friend bool operator==(const Order&, const Order&) = default;
};

[[nodiscard]] bool has_fused_block(const Order& order);

// What is simulated at most. A simulated action takes about 200 bytes.
constexpr int MostRanks = 1024;
constexpr int MostStages = 10'000'000;
constexpr double MostActions = 20e6;

// --- text
// ----------------------------------------------------------------------------------------------------------
// "0F0 0F1 1I0 1W0 2B0 (0F3;3B1)OVERLAP_F_B": the stage, the kind (F, B, I, W), the microbatch; blanks
// between.

[[nodiscard]] char letter_of(ActionKind kind);
[[nodiscard]] std::string to_text(const Action& action);  // "3F1"
[[nodiscard]] std::string to_text(const Block& block);    // "3F1", "(0F3;3B1)OVERLAP_F_B"
[[nodiscard]] std::string to_text(const RankOrder& rank);

/// One line a rank; empty lines and `#` comments are passed over. Stages and microbatches are as many as are
/// named.
/// @param file  for messages
/// @throws InputError with line and column: an unknown action, a number out of range
[[nodiscard]] Order parse_order(std::string_view text, const std::string& file);

/// An order that somebody wrote, with where each rank stands.
struct WrittenOrder {
  Order order;
  std::vector<Place> ranks;
};
/// The same, with the line of each rank.
[[nodiscard]] WrittenOrder parse_written_order(std::string_view text, const std::string& file);

// --- soundness
// -------------------------------------------------------------------------------------------------------

struct OrderFault {
  int rank = -1;  // where it shows; −1: nowhere
  std::string message;
};

/// What is wrong with an order, a sentence each; none when every microbatch goes forward and backward through
/// every stage exactly once, W comes with its I and after it on the rank of its F, and no two ranks share a
/// stage and a microbatch. Deadlocks are the replay's affair.
[[nodiscard]] std::vector<std::string> check_order(const Order& order);
/// The same, with the ranks.
[[nodiscard]] std::vector<OrderFault> order_faults(const Order& order);

/// "has 2100 ranks; at most 1024 are simulated"; nothing within the limits.
[[nodiscard]] std::optional<std::string> too_large(const Order& order);

/// All that keeps a written order from being simulated: its size, what check_order() finds, the
/// cycle of a deadlock. Each is at the line of a rank that it names.
/// @param ranks    where each of them stands
/// @param subject  what messages begin with: "the order"
/// @param whole    place of what is wrong with no rank of its own
[[nodiscard]] std::vector<Diagnostic> check_written_order(const Order& order, std::span<const Place> ranks,
                                                          std::string_view subject, const Place& whole);

}  // namespace syncline::pipeline
