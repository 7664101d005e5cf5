// How unevenly a step's tokens fall on experts, what is sent to them and back, and what that costs in time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/device/cluster.hpp"
#include "sim/moe/imbalance.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/result.hpp"

namespace syncline {

struct TrainingJob;

/// Where the routing of a job sends the tokens of its layers with experts.
struct ExpertTokens {
  struct Layer {
    int number = 0;  // in the model, from 0; extra predictions follow its layers
    moe::LayerImbalance imbalance;
    double dropped = 0;  // share of the copies that tokens asked for
    double padding = 0;  // share of the copies that experts get
  };
  std::string routing;         // "zipf 1.2"
  int experts = 0, top_k = 0;  // of a layer; of a token
  int ranks = 1, nodes = 1;    // that share a layer's experts
  int tensor = 1;              // ranks that share each expert
  bool gathered = false;       // every rank gets all tokens: what is sent does not depend on the routing
  std::vector<Layer> layers;   // at least one
  moe::ImbalanceOverLayers imbalance;
  double dropped = 0, padding = 0;  // means over layers
};
/// Forced balance counts as even, remainders of tokens too, as in the schedule.
/// Nothing of a model without experts.
[[nodiscard]] std::optional<ExpertTokens> expert_tokens(const TrainingJob& job);

/// What a rank sends in a step, mean over ranks: what it passes on for others counts, what stays on it does
/// not.
struct ExpertBytes {
  Bytes inside, between;  // of nodes
};

/// Sums over a step. `of_fullest` is what the work would take if every rank had to do, layer by layer and
/// microbatch by microbatch, what the rank of its group has that works longest: what it comes to where all
/// wait for that one.
struct ExpertTimes {
  // Of experts' kernels, between dispatch and combine: mean over ranks; of the rank with most.
  Seconds work, longest_work;
  RankId longest_work_rank;
  Seconds of_fullest;  // mean over ranks
  // At dispatch, combine and their gradients, before the last of the group has come.
  Seconds wait, longest_wait;
  RankId longest_wait_rank;
  Seconds transfer;  // mean time in these after that
};

struct ExpertBalance {
  std::optional<ExpertTokens> tokens;  // none: the run is of a schedule, which does not know them
  ExpertBytes to_experts, back;        // dispatch and the gradient of combine; the other two
  std::optional<ExpertTimes> times;    // none without a timeline
};
/// Nothing where there are neither tokens nor ops of experts. Ops are told by their tags: compute by
/// "experts", with what follows a dot or hyphen; collectives by "dispatch", "combine", "dispatch-gradient",
/// "combine-gradient", alone or after a hyphen ("all-gather-dispatch").
/// All-to-all counts as sent straight to whom it is for, unless it goes by two hops; all-gather and
/// reduce-scatter likewise, whatever their algorithm.
[[nodiscard]] std::optional<ExpertBalance> expert_balance(const RunResult& result, const Schedule& schedule,
                                                          const Cluster& cluster,
                                                          std::optional<ExpertTokens> tokens);

}  // namespace syncline
