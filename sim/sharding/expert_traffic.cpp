#include "sim/sharding/expert_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/moe/capacity.hpp"

namespace syncline {
namespace {

std::vector<double> cells(const moe::CountTable& table) {
  std::vector<double> all;
  for (int row = 0; row < table.rows(); ++row)
    for (const std::int64_t count : table[row]) all.push_back(static_cast<double>(count));
  return all;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Copies for each rank's experts.
std::vector<double> copies_by_rank(const moe::CountTable& experts, int ranks) {
  const int each = experts.columns() / ranks;
  std::vector<double> all;
  for (int row = 0; row < experts.rows(); ++row)
    for (int rank = 0; rank < ranks; ++rank) {
      double copies = 0;
      for (int i = 0; i < each; ++i) copies += static_cast<double>(experts[row][rank * each + i]);
      all.push_back(copies);
    }
  return all;
}

/// Forced balance leaves no difference but of rounding.
void level(std::vector<double>& values) {
  const double mean = sum(values) / static_cast<double>(values.size());
  std::ranges::fill(values, mean);
}

/// What the rank with most to do sends or receives: items, and a byte of each by how it goes.
moe::DispatchLoad busiest_of(const Exchange& exchange, const moe::ExpertGroup& group) {
  const auto n = static_cast<std::size_t>(group.ranks),
             in_node = static_cast<std::size_t>(group.ranks_per_node);
  const bool relayed = !exchange.to_nodes.empty();
  std::vector<double> sent(n), received(n), inside_out(n), inside_in(n), between_out(n), between_in(n);
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const double items = exchange.counts[from * n + to];
      sent[from] += items;
      received[to] += items;
      if (from == to) continue;
      const bool across = from / in_node != to / in_node && !relayed;
      (across ? between_out : inside_out)[from] += items;
      (across ? between_in : inside_in)[to] += items;
    }
    for (std::size_t node = 0; relayed && node < n / in_node; ++node) {
      if (node == from / in_node) continue;
      const double items = exchange.to_nodes[from * (n / in_node) + node];
      between_out[from] += items;
      between_in[node * in_node + from % in_node] += items;
    }
  }
  const auto most = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::max(*std::ranges::max_element(a), *std::ranges::max_element(b));
  };
  moe::DispatchLoad load;
  load.ranks = group.ranks;
  load.nodes = group.nodes();
  load.experts = group.experts;
  load.tokens = static_cast<double>(group.tokens);
  load.copies = most(sent, received);
  load.moved = Bytes(load.copies);
  load.inside = Bytes(most(inside_out, inside_in));
  load.between = Bytes(most(between_out, between_in));
  return load;
}

}  // namespace

moe::ExpertGroup expert_group_of(const ModelSpec& model, const TrainingShape& shape,
                                 const RoutingOptions& routing) {
  const ExpertSpec& spec = *model.experts;
  const ExpertOptions& options = shape.experts;
  moe::ExpertGroup group;
  group.ranks = options.parallel;
  group.experts = spec.count;
  group.tokens = static_cast<std::int64_t>(std::llround(tokens_to_route(model, shape)));
  group.top_k = spec.top_k;
  const int in_node = routing.node_members;
  group.ranks_per_node =
      in_node > 0 && in_node < group.ranks && group.ranks % in_node == 0 ? in_node : group.ranks;
  if (routing.node_limited) {
    group.groups = spec.groups;
    group.top_groups = spec.top_groups;
  }
  return group;
}

moe::TokenCounts tokens_of_layer(const ModelSpec& model, const TrainingShape& shape,
                                 const RoutingOptions& routing, int layer) {
  const moe::ExpertGroup group = expert_group_of(model, shape, routing);
  moe::TokenCounts counts = moe::route(routing.routing, group, routing.seed, layer, routing.step);
  if (const std::optional<double> factor = shape.experts.capacity)
    counts = moe::with_capacity(std::move(counts), group, {*factor, shape.experts.pad});
  return counts;
}

ExpertTraffic::ExpertTraffic(const ModelSpec& model, const TrainingShape& shape, RoutingOptions routing,
                             const Groups& groups, const Device& device)
    : model_(model), shape_(shape), routing_(std::move(routing)), device_(device), family_(groups.expert) {
  const int layers = model.layers + model.extra_predictions;
  layers_.resize(static_cast<std::size_t>(layers));
  if (!model.experts || !family_) return;
  group_ = expert_group_of(model, shape, routing_);
  copies_ = routed_tokens(model, shape) / shape.experts.tensor;
  if (!routing_.library.empty()) libraries_ = {routing_.library};
  std::optional<Layer> alike;
  for (const int layer : expert_layers(model)) {
    if (!alike || !forced()) alike = layer_of(tokens_of_layer(model, shape, routing_, layer), layer);
    layers_[static_cast<std::size_t>(layer)] = *alike;
  }
}

ExpertTraffic::Layer ExpertTraffic::layer_of(const moe::TokenCounts& counts, int number) {
  const bool copies = shape_.experts.dispatch == Dispatch::AllToAll;
  Layer layer;
  Exchange exchange;
  exchange.name = forced() ? "tokens" : fmt::format("tokens-{}", number);
  exchange.members = group_.ranks;
  exchange.counts = copies ? copies_by_rank(counts.experts, group_.ranks) : cells(counts.ranks);
  if (!copies && group_.nodes() > 1) {
    exchange.node_members = group_.ranks_per_node;
    exchange.to_nodes = cells(counts.nodes);
  }
  if (forced()) {
    level(exchange.counts);
    if (!exchange.to_nodes.empty()) level(exchange.to_nodes);
  } else {
    layer.load = add_load(counts, number);
  }
  layer.sent = sum(exchange.counts) / group_.ranks / copies_;
  if (routing_.figures) layer.busiest = busiest_of(exchange, group_);
  if (forced() && copies) return layer;  // as much to all: a plain all-to-all
  layer.exchange = ExchangeId(exchanges_.size());
  exchanges_.push_back(std::move(exchange));
  return layer;
}

/// Of the time that the work takes with the mean of tokens, what it takes with the rank's.
std::optional<LoadId> ExpertTraffic::add_load(const moe::TokenCounts& counts, int layer) {
  const auto time = [&](double tokens) {
    return work_time(Work{"", expert_kernels(model_, shape_, tokens)}, device_);
  };
  const std::vector<std::int64_t> by_expert = counts.experts.column_sums();
  const auto each = static_cast<std::ptrdiff_t>(by_expert.size()) / group_.ranks;
  const Seconds mean = time(routed_tokens(model_, shape_));
  RankLoad load{fmt::format("tokens-{}", layer), *family_, {}};
  for (auto expert = by_expert.begin(); expert != by_expert.end(); expert += each) {
    const auto tokens = static_cast<double>(std::accumulate(expert, expert + each, std::int64_t{0}));
    load.factors.push_back(tokens > 0 ? time(tokens * shape_.experts.tensor) / mean : 0);
  }
  loads_.push_back(std::move(load));
  const double copies = static_cast<double>(counts.experts.sum()) * shape_.experts.tensor / group_.ranks;
  received_.push_back(copies / routed_tokens(model_, shape_));
  return LoadId(loads_.size() - 1);
}

Flop ExpertTraffic::flop_of(const std::vector<Op>& program, const std::vector<Work>& works) const {
  std::vector<Flop> whole;  // by work
  for (const Work& work : works) {
    Flop& sum = whole.emplace_back();
    for (const Kernel& kernel : work.kernels) sum += kernel.flop;
  }
  Flop total;
  for (const Op& op : program)
    if (const auto* compute = std::get_if<Compute>(&op.body))
      total += whole[compute->work.value()] * (op.load ? received_[op.load->value()] : 1);
  return total;
}

void ExpertTraffic::place(int layer, Collective& collective) const {
  if (layer < 0 || !collective.exchange) return;
  const Layer& its = layers_[static_cast<std::size_t>(layer)];
  const bool home = collective.back;
  collective.bytes *= its.sent;
  collective.exchange = its.exchange;
  if (!its.exchange) collective.back = false;
  const bool hops = its.exchange && !exchanges_[its.exchange->value()].to_nodes.empty();
  if (hops) collective.algorithm = Algorithm::TwoHop;
  collective.units = shape_.experts.units;
  if (routing_.figures) add_library(*routing_.figures, its, home, collective);
}

void ExpertTraffic::add_library(const DispatchLibrary& library, const Layer& layer, bool home,
                                Collective& collective) const {
  const double item = collective.bytes.si() / (layer.sent * copies_);  // bytes
  moe::DispatchLoad load = layer.busiest;
  for (Bytes* bytes : {&load.moved, &load.inside, &load.between}) *bytes *= item;
  const bool by_sms = library.lanes == moe::Lanes::Sms;
  const int units = shape_.experts.units > 0 ? shape_.experts.units : by_sms ? library.sms : 0;
  load.lanes = by_sms ? units : library.lanes == moe::Lanes::Peers ? group_.ranks : 0;
  const moe::DispatchTime time = moe::dispatch_time(home ? library.combine : library.dispatch, load);
  collective.library = LibraryId(0);
  collective.call = time.latency;
  collective.least = time.bytes;
  collective.units = units;
}

void ExpertTraffic::place(int layer, std::optional<LoadId>& load) const {
  if (layer >= 0 && load) load = layers_[static_cast<std::size_t>(layer)].load;
}

}  // namespace syncline
