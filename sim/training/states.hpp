// Parameters, gradients and the optimizer's state of a rank: what is held, reduced, updated and gathered.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/training/stages.hpp"
#include "sim/training/steps.hpp"

namespace syncline {

/// Modules of a stage whose gradients are reduced, and whose parameters are gathered, as one.
struct Bucket {
  std::size_t first = 0, last = 0;  // positions in Stage's units, both included
  double parameters = 0;
};

/// In order of backward: the last modules first. A module closes the bucket that it fills.
/// @param full  parameters of a bucket; 0: one bucket for all
[[nodiscard]] std::vector<Bucket> buckets_of(const std::vector<Unit>& units, Share share, double full);

/// By kind of sharding: bytes, and the steps of reduction, update and gathering. Where no ranks share a set
/// of shards, it is as Ddp.
class States {
 public:
  States(const TrainingJob& job, const Groups& groups, Works& works);

  [[nodiscard]] DataSharding kind(Share share) const { return of(share).kind; }
  /// Gradients are summed at all: ranks share them, and they are trained.
  [[nodiscard]] bool reduces(Share share) const;
  /// ... after every microbatch.
  [[nodiscard]] bool reduces_always() const { return always_; }
  /// Parameters of a bucket, at most about; 0: all.
  [[nodiscard]] double bucket(Share share) const;

  /// Held throughout the step by a rank of so many parameters.
  [[nodiscard]] std::vector<MemoryEffect> resident(ParameterCount parameters) const;
  /// Unsharded gradients that a microbatch's backward leaves until they are reduced.
  /// @param first  of the step's microbatches
  [[nodiscard]] Bytes gradients(Share share, double parameters, bool first) const;
  /// Summed over the ranks that share them, and the unsharded ones given back.
  /// @param first  of the reductions of these
  [[nodiscard]] Steps reduction(Share share, double parameters, bool first) const;
  /// Parameters made whole: of Fsdp, which holds them from here on, or of an optimizer in shards.
  [[nodiscard]] pipeline::Step gathering(Share share, double parameters, Phase phase) const;
  [[nodiscard]] Bytes gathered(double parameters) const;

  /// What is the same on all tensor-parallel ranks, but whose gradients are of other tokens on each.
  [[nodiscard]] Steps replicated_reduction(double parameters) const;
  /// Of a table that stands on two pipeline ranks.
  [[nodiscard]] pipeline::Step table_reduction(double parameters, FamilyId ends) const;
  /// The gradients' norm over the whole model, then the optimizer.
  /// @param of_layers  of the parameters, those of layers, which narrow products read
  [[nodiscard]] Steps update(ParameterCount parameters, double of_layers);

 private:
  /// How the parameters of a share are spread.
  struct Spread {
    DataSharding kind = DataSharding::Ddp;
    double shards = 1;
    std::optional<FamilyId> data, shard, replicate;
    std::string suffix;  // of the names of what is sent
  };
  [[nodiscard]] static Spread spread_of(DataSharding kind, const Groups& groups, Share share);
  [[nodiscard]] const Spread& of(Share share) const { return spread_[static_cast<std::size_t>(share)]; }
  /// Of all shares, a rank's part.
  [[nodiscard]] double own(ParameterCount parameters) const;
  /// Gradients are held in shards between microbatches.
  [[nodiscard]] bool shards_gradients(Share share) const;
  [[nodiscard]] bool own_master() const;
  [[nodiscard]] Bytes element() const;
  [[nodiscard]] Bytes reduced() const;
  [[nodiscard]] Bytes moment() const;  // of Adam's
  [[nodiscard]] pipeline::Step pass_over(const std::string& name, double bytes);

  const TrainingJob& job_;
  const Groups& groups_;
  Works& works_;
  const std::array<Spread, 2> spread_;
  const bool always_;
};

}  // namespace syncline
