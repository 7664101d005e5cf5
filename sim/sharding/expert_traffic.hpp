// What the routing of tokens makes of a schedule: who sends how much to whom, and how much of an expert layer's
// work each rank has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/device/device.hpp"
#include "sim/model/model.hpp"
#include "sim/moe/dispatch_cost.hpp"
#include "sim/moe/routing.hpp"
#include "sim/sharding/groups.hpp"

namespace syncline {

/// A library of dispatch and combine: figures of its kernels for as many nodes as a group of experts is on.
struct DispatchLibrary {
  std::string name;
  moe::DispatchFigures dispatch, combine;
  moe::Lanes lanes = moe::Lanes::None;
  int sms = 0;  // that its kernels have where they are bound by them
};

/// Which tokens go to which experts, and by what.
struct RoutingOptions {
  moe::Routing routing = moe::Balanced{};
  bool node_limited = false;  // by the model's groups of experts
  std::string library{};      // whose figures dispatch and combine have; empty: the topology's
  int node_members = 0;  // of a group that shares experts, on one node of the cluster; 0: there are no nodes
  std::optional<DispatchLibrary> figures{};  // of `library`
  std::uint64_t seed = 0;
  std::int64_t step = 0;  // of the training run
};

/// By layer. All groups of ranks that share experts get the same tokens; forced balance makes all layers alike.
class ExpertTraffic {
 public:
  /// Marks of collectives and loads that place() fills in.
  static constexpr ExchangeId AnyExchange{0};
  static constexpr LoadId AnyLoad{0};

  /// Keeps model, shape and device.
  ExpertTraffic(const ModelSpec& model, const TrainingShape& shape, RoutingOptions routing,
                const Groups& groups, const Device& device);

  /// A marked collective of a layer gets the layer's exchange, and its bytes,
  void place(int layer, Collective& collective) const;
  /// ... and a marked load its load.
  void place(int layer, std::optional<LoadId>& load) const;

  /// Of a rank's program in the mean of the ranks: work by load is of as many tokens as experts get.
  [[nodiscard]] Flop flop_of(const std::vector<Op>& program, const std::vector<Work>& works) const;

  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  [[nodiscard]] const std::vector<RankLoad>& loads() const { return loads_; }
  [[nodiscard]] const std::vector<std::string>& libraries() const { return libraries_; }

 private:
  struct Layer {
    std::optional<ExchangeId> exchange{};
    double sent = 1;  // items that a member sends on average, of as many copies as the layer's cost counts
    std::optional<LoadId> load{};
    moe::DispatchLoad busiest{};  // of the rank with most to do, a byte an item; where a library is used
  };

  [[nodiscard]] Layer layer_of(const moe::TokenCounts& counts, int layer);
  void add_library(const DispatchLibrary& library, const Layer& layer, bool home,
                   Collective& collective) const;
  [[nodiscard]] std::optional<LoadId> add_load(const moe::TokenCounts& counts, int layer);

  [[nodiscard]] bool forced() const { return std::holds_alternative<moe::Balanced>(routing_.routing); }

  const ModelSpec& model_;
  const TrainingShape& shape_;
  const RoutingOptions routing_;
  const Device& device_;
  moe::ExpertGroup group_;
  std::optional<FamilyId> family_;  // of ranks that share experts
  double copies_ = 0;               // that a rank sends on average, as the layer's cost counts them
  std::vector<Exchange> exchanges_;
  std::vector<RankLoad> loads_;
  std::vector<double>
      received_;  // by load: copies that a rank's experts get in the mean, of those the layer's cost counts
  std::vector<std::string> libraries_;
  std::vector<Layer> layers_;  // by layer of the model, then extra predictions
};

/// The group of ranks that share a layer's experts, as routing wants to know it.
[[nodiscard]] moe::ExpertGroup expert_group_of(const ModelSpec& model, const TrainingShape& shape,
                                               const RoutingOptions& routing);
/// The tokens of one layer, dropped and padded as the shape says.
[[nodiscard]] moe::TokenCounts tokens_of_layer(const ModelSpec& model, const TrainingShape& shape,
                                               const RoutingOptions& routing, int layer);

}  // namespace syncline
