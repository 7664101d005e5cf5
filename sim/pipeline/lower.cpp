#include "sim/pipeline/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/pipeline/transfers.hpp"
#include "sim/schedule/host_wait.hpp"

namespace syncline::pipeline {
namespace {

constexpr std::size_t StepStreamCount = 6;

class Lowerer {
 public:
  Lowerer(const Order& order, const Lowering& lowering)
      : order_(order),
        in_(lowering),
        axis_(lowering.mesh.find_axis("pp")),
        transfers_(transfers_of(order, lowering.transfers, lowering.costs)),
        arrivals_(transfers_.size()) {
    SYNCLINE_CHECK(axis_ >= 0 && lowering.mesh.size(axis_) == ranks(),
                   "an axis pp as long as there are ranks");
    out_.schedule.name = lowering.name;
    out_.schedule.meshes = {lowering.mesh};
    out_.schedule.meshes.insert(out_.schedule.meshes.end(), lowering.more_meshes.begin(),
                                lowering.more_meshes.end());
    out_.schedule.families = lowering.families;
    out_.schedule.works = lowering.works;
    out_.schedule.exchanges = lowering.exchanges;
    out_.schedule.loads = lowering.loads;
    out_.schedule.libraries = lowering.libraries;
    sort_transfers();
    find_last_gradients();
  }

  Lowered run() {
    out_.first_op.resize(order_.ranks.size());
    out_.last_op.resize(order_.ranks.size());
    for (rank_ = 0; rank_ < ranks(); ++rank_) lower_rank();
    for (int rank = 0; rank < in_.mesh.world_size(); ++rank)
      out_.schedule.role_of.emplace_back(
          in_.mesh.coordinate(RankId(static_cast<std::uint32_t>(rank)), axis_));
    return std::move(out_);
  }

 private:
  using Ids = std::vector<std::size_t>;  // of transfers

  [[nodiscard]] int ranks() const { return static_cast<int>(order_.ranks.size()); }

  void sort_transfers() {
    const auto by_block = [this] {
      std::vector<std::vector<Ids>> lists(order_.ranks.size());
      for (std::size_t rank = 0; rank < lists.size(); ++rank) lists[rank].resize(order_.ranks[rank].size());
      return lists;
    };
    sent_ = posted_ = needed_ = by_block();
    const auto at = [](std::vector<std::vector<Ids>>& lists, int rank, int block) -> Ids& {
      return lists[static_cast<std::size_t>(rank)][static_cast<std::size_t>(block)];
    };
    for (std::size_t id = 0; id < transfers_.size(); ++id) {
      const Transfer& transfer = transfers_[id];
      at(sent_, transfer.from.rank, transfer.sent).push_back(id);
      at(posted_, transfer.to.rank, transfer.posted).push_back(id);
      at(needed_, transfer.to.rank, transfer.to.block).push_back(id);
    }
  }

  /// Blocks after which no gradient of a stage's weights is to come on their rank.
  void find_last_gradients() {
    complete_.resize(order_.ranks.size());
    for (std::size_t rank = 0; rank < order_.ranks.size(); ++rank) {
      std::map<int, std::size_t> last;  // by stage
      for (std::size_t i = 0; i < order_.ranks[rank].size(); ++i)
        for_each_action(order_.ranks[rank][i], [&](const Action& action) {
          if (action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardWeight)
            last[action.stage] = i;
        });
      for (const auto& [stage, other] : in_.complete_with)
        if (last.contains(stage) && last.contains(other)) last[stage] = std::max(last[stage], last[other]);
      for (const auto& [stage, block] : last) complete_[rank][block].push_back(stage);
    }
  }

  // --- one rank ---

  void lower_rank() {
    const auto r = static_cast<std::size_t>(rank_);
    role_ = {};
    if (rank_ > 0) role_.program.reserve(out_.schedule.roles.back().program.size());  // ranks are much alike
    role_.name = fmt::format("pp{}", rank_);
    if (!in_.resident.empty()) role_.resident = in_.resident[r];
    block_end_.clear();
    ends_in_compute_ = true;
    held_up_by_.clear();
    reductions_.clear();
    given_.clear();
    begin();
    const std::vector<int> chunks = chunks_of(order_.ranks[r]);
    std::vector<int> waiting;  // stages to be reduced in the end
    for (std::size_t i = 0; i < order_.ranks[r].size(); ++i) {
      post_receives(i);
      run_block(i, chunks);
      send_outputs(i);
      const auto complete = complete_[r].find(i);
      if (complete == complete_[r].end()) continue;
      for (const int stage : complete->second)
        if (in_.overlap_reduction)
          reduce(stage, chunks);
        else
          waiting.push_back(stage);
    }
    std::ranges::sort(waiting);  // alike on all ranks that hold the same stages
    for (const int stage : waiting) reduce(stage, chunks);
    update();
    out_.schedule.roles.push_back(std::move(role_));
  }

  /// Stages of a rank, ascending: a chunk's number is its place.
  static std::vector<int> chunks_of(const RankOrder& rank) {
    std::set<int> stages;
    for (const Block& block : rank)
      for_each_action(block, [&](const Action& action) { stages.insert(action.stage); });
    return {stages.begin(), stages.end()};
  }
  static int chunk(const std::vector<int>& chunks, int stage) {
    return static_cast<int>(std::ranges::lower_bound(chunks, stage) - chunks.begin());
  }

  /// Ops of one stream follow each other anyway.
  OpIndex issue(Op op, std::span<const OpIndex> after) {
    for (const OpIndex earlier : after)
      if (role_.program[earlier.value()].stream != op.stream) op.after.push_back(earlier);
    if (op.after.size() > 1) {
      std::ranges::sort(op.after);
      op.after.erase(std::unique(op.after.begin(), op.after.end()), op.after.end());
    }
    role_.program.push_back(std::move(op));
    return OpIndex(role_.program.size() - 1);
  }

  void post_receives(std::size_t block) {
    for (const std::size_t id : posted_[static_cast<std::size_t>(rank_)][block]) {
      const Transfer& transfer = transfers_[id];
      Op op;
      op.body = Receive{{axis_, transfer.from.rank}, in_.boundary, transfer.message, eager()};
      op.stream = neighbour_stream(false, transfer.from.rank);
      op.tag = tag_of(transfer, "receive");
      arrivals_[id] = issue(std::move(op), block_end_);
      held_up_by_.push_back(arrivals_[id]);
    }
  }

  void run_block(std::size_t block, const std::vector<int>& chunks) {
    const auto r = static_cast<std::size_t>(rank_);
    const Block& what = order_.ranks[r][block];
    std::vector<OpIndex> after;
    if (in_.transfers == TransferMode::Blocking)
      after = std::move(held_up_by_);
    else
      for (const std::size_t id : needed_[r][block]) after.push_back(arrivals_[id]);
    held_up_by_.clear();
    const std::span<const Step> steps = in_.steps(rank_, what);
    SYNCLINE_CHECK(!steps.empty(), "a block has a step");
    // Compute ops follow each other by their stream; a collective at either end must be told to.
    const bool begins_in_compute = std::ranges::all_of(
        std::array{true, false}, [&](bool second) { return first_is_compute(steps, second); });
    if (!ends_in_compute_ || !begins_in_compute)
      after.insert(after.end(), block_end_.begin(), block_end_.end());
    const std::size_t first = role_.program.size();
    const auto place = [&](const Step& step) {
      const Action& action = step.of_second ? what.second : what.first;
      return TagPlace{action.microbatch, chunk(chunks, action.stage)};
    };
    block_end_ = run_steps(steps, after, place, in_.apart && what.fused);
    ends_in_compute_ = block_end_.size() == 1 &&
                       role_.program[block_end_.front().value()].stream == stream(StepStream::Compute);
    out_.first_op[r].push_back(OpIndex(first));
    out_.last_op[r].push_back(OpIndex(role_.program.size() - 1));
  }

  /// Of a block's first or second action; where there is no step, nothing else begins.
  static bool first_is_compute(std::span<const Step> steps, bool second) {
    const auto first = std::ranges::find(steps, second, &Step::of_second);
    return first == steps.end() || first->stream == StepStream::Compute;
  }

  struct TagPlace {
    int microbatch = -1, chunk = -1;
  };

  /// One of a chain of steps, each waiting for the one before.
  struct Chain {
    std::vector<OpIndex> after;
    std::vector<OpIndex> beside;  // not awaited by the step that follows

    void add(OpIndex op, bool awaited) {
      if (!awaited) return beside.push_back(op);
      after.swap(beside);
      beside.clear();
      after.push_back(op);
    }
  };

  /// One after another, the first after `after`; those of a block's second action by themselves where they are
  /// `apart`.
  /// @returns what has ended when all have
  template <class Place>
  std::vector<OpIndex> run_steps(std::span<const Step> steps, const std::vector<OpIndex>& after,
                                 const Place& place, bool apart = false) {
    std::array<Chain, 2> chains{Chain{after, {}}, Chain{apart ? after : std::vector<OpIndex>{}, {}}};
    for (const Step& step : steps) {
      Op op;
      std::visit([&op](const auto& body) { op.body = body; }, step.body);
      op.stream = stream(step.stream);
      op.tag = step.tag;
      const TagPlace at = place(step);
      op.tag.microbatch = at.microbatch;
      op.tag.chunk = at.chunk;
      op.memory = step.memory;
      op.load = step.load;
      if (step.needs >= 0) op.after.push_back(given_.at(step.needs));
      Chain& chain = chains[apart && step.of_second ? 1 : 0];
      if (step.host_waits) append_host_waits(role_.program, chain.after, op.tag);
      const OpIndex index = issue(std::move(op), chain.after);
      if (step.gives >= 0) given_[step.gives] = index;
      if (step.beside)
        reductions_.push_back(index);
      else
        chain.add(index, step.awaited);
    }
    std::vector<OpIndex> ends;
    for (const Chain& chain : chains)
      for (const auto* part : {&chain.after, &chain.beside})
        ends.insert(ends.end(), part->begin(), part->end());
    return ends;
  }

  void send_outputs(std::size_t block) {
    for (const std::size_t id : sent_[static_cast<std::size_t>(rank_)][block]) {
      const Transfer& transfer = transfers_[id];
      Op op;
      op.body = Send{{axis_, transfer.to.rank}, in_.boundary, transfer.message, eager()};
      op.stream = neighbour_stream(true, transfer.to.rank);
      op.tag = tag_of(transfer, "send");
      held_up_by_.push_back(issue(std::move(op), block_end_));
    }
  }

  void reduce(int stage, const std::vector<int>& chunks) {
    if (!in_.reduction) return;
    const std::vector<Step> steps = in_.reduction(rank_, stage);
    if (steps.empty()) return;
    const TagPlace at{-1, chunk(chunks, stage)};
    const std::vector<OpIndex> ends = run_steps(steps, block_end_, [&at](const Step&) { return at; });
    reductions_.insert(reductions_.end(), ends.begin(), ends.end());
  }

  void begin() {
    if (!in_.begin) return;
    for (const Step& step : in_.begin(rank_))
      run_steps({&step, 1}, {}, [](const Step&) { return TagPlace{}; });
  }

  void update() {
    if (!in_.update) return;
    std::vector<OpIndex> after = block_end_;
    after.insert(after.end(), reductions_.begin(), reductions_.end());
    run_steps(in_.update(rank_), after, [](const Step&) { return TagPlace{}; });
  }

  // --- streams ---

  [[nodiscard]] bool eager() const { return in_.transfers == TransferMode::Eager; }

  static Tag tag_of(const Transfer& transfer, std::string name) {
    return {transfer.gradient ? Phase::Backward : Phase::Forward, -1, transfer.microbatch, -1,
            std::move(name)};
  }

  StreamId stream_named(const std::string& name) {
    std::vector<std::string>& streams = out_.schedule.streams;
    const auto found = std::ranges::find(streams, name);
    if (found != streams.end()) return StreamId(static_cast<std::size_t>(found - streams.begin()));
    streams.push_back(name);
    return StreamId(streams.size() - 1);
  }

  StreamId stream(StepStream which) {
    static constexpr std::array<const char*, StepStreamCount> Names{"compute", "tp",        "cp",
                                                                    "ep",      "dp-gather", "dp-reduce"};
    std::optional<StreamId>& found = step_streams_[static_cast<std::size_t>(which)];
    if (!found) found = stream_named(Names[static_cast<std::size_t>(which)]);
    return *found;
  }

  /// One for each neighbour and direction: "pp-send-next", "pp-recv-prev", "pp-send+3" for ranks further off.
  StreamId neighbour_stream(bool sends, int peer) {
    const int distance = (peer - rank_ + ranks()) % ranks();
    const auto [found, first_time] = neighbour_streams_.try_emplace({distance, sends});
    if (!first_time) return found->second;
    const char* direction = sends ? "send" : "recv";
    found->second = stream_named(distance == 1             ? fmt::format("pp-{}-next", direction)
                                 : distance == ranks() - 1 ? fmt::format("pp-{}-prev", direction)
                                                           : fmt::format("pp-{}+{}", direction, distance));
    return found->second;
  }

  const Order& order_;
  const Lowering& in_;
  const int axis_;
  const std::vector<Transfer> transfers_;
  std::vector<std::vector<Ids>> sent_, posted_, needed_;  // by rank and block
  std::vector<std::map<std::size_t, std::vector<int>>>
      complete_;  // by rank: stages, by the block that ends them
  Lowered out_;
  std::array<std::optional<StreamId>, StepStreamCount> step_streams_{};
  std::map<std::pair<int, bool>, StreamId> neighbour_streams_;  // by distance and direction

  // Of the rank being lowered.
  int rank_ = 0;
  Role role_;
  std::vector<OpIndex> block_end_;   // what has ended when the last block has
  bool ends_in_compute_ = true;      // ... is one compute op
  std::vector<OpIndex> arrivals_;    // by transfer: its receive
  std::vector<OpIndex> held_up_by_;  // sends and receives since the last block
  std::vector<OpIndex> reductions_;  // ... and what else ran beside the blocks
  std::map<int, OpIndex> given_;     // by Step::gives
};

}  // namespace

Lowered lower(const Order& order, const Lowering& lowering) {
  return Lowerer(order, lowering).run();
}

}  // namespace syncline::pipeline
