#include "sim/calibrate/fabric_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "sim/calibrate/algorithm_lists.hpp"
#include "sim/calibrate/measured_collectives.hpp"
#include "sim/core/random.hpp"
#include "sim/core/units.hpp"

namespace syncline::calibrate {
namespace {

constexpr int Tries = 4;  // searches, of which the best is kept
constexpr int StepsOfTry = 50000;
constexpr double FirstSpread = 0.6;  // of a step, in ln of a figure
constexpr double LastSpread = 0.01;
constexpr std::uint64_t SearchSeed = 1;
constexpr double Pull = 0.0007;     // of each figure to where it began: a factor of 10 costs 0.4 % of error
constexpr double LeastTime = 1e-9;  // s; times are searched in ln, so not below
constexpr double LeastShare = 1e-3;
constexpr double MostOfOwn = 4;        // what a file may say of an own block
constexpr double FirstOwnBlock = 0.2;  // where the search begins if nothing is given

// --- the figures as one list of numbers ---

/// One number that the search may change.
struct Variable {
  AlgorithmList list = nullptr;  // nullptr: the node's limit
  std::size_t protocol = 0;
  enum class What {
    Call,
    HopInside,
    HopBetween,
    ShareInside,
    ShareBetween,
    OwnBlock,
    NodeLimit
  } what = What::Call;
};

double value_of(const CollectiveFigures& figures, const Variable& variable) {
  using enum Variable::What;
  if (variable.what == NodeLimit) return figures.node_limit->si();
  const ProtocolFigures& one = (figures.*variable.list)[variable.protocol];
  switch (variable.what) {
    case Call: return one.call.si();
    case HopInside: return one.hop_inside.si();
    case HopBetween: return one.hop_between.si();
    case ShareInside: return one.share_inside;
    case ShareBetween: return one.share_between;
    case OwnBlock: return one.own_block;
    case NodeLimit: break;
  }
  return 0;
}

void set_value(CollectiveFigures& figures, const Variable& variable, double value) {
  using enum Variable::What;
  if (variable.what == NodeLimit) {
    figures.node_limit = BytesPerSecond(value);
    return;
  }
  ProtocolFigures& one = (figures.*variable.list)[variable.protocol];
  const Seconds time(std::max(value, LeastTime));
  const double share = std::clamp(value, LeastShare, 1.0);
  switch (variable.what) {
    case Call: one.call = time; break;
    case HopInside: one.hop_inside = time; break;
    case HopBetween: one.hop_between = time; break;
    case ShareInside: one.share_inside = share; break;
    case ShareBetween: one.share_between = share; break;
    case OwnBlock: one.own_block = std::clamp(value, LeastShare, MostOfOwn); break;
    case NodeLimit: break;
  }
}

double rounded(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10, 2 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;  // three significant digits
}

// --- where the search begins ---

/// Latency of a hop by the links alone.
Seconds link_hop(const TopologySpec& spec, bool inside) {
  if (inside) {
    if (!spec.scale_up) return Seconds(0);
    return spec.scale_up->link.latency * (spec.scale_up->kind == ScaleUpSpec::Kind::Switch ? 2.0 : 1.0);
  }
  Seconds hop;
  if (spec.nic) hop += spec.nic->host_bus.latency * 2.0;
  std::visit(
      [&hop](const auto& fabric) {
        if constexpr (requires { fabric.link; }) hop += fabric.link.latency * 2.0;
      },
      spec.scale_out);
  return hop;
}

/// A protocol that takes this share of the links' hops and bandwidth: where a search begins, not a figure of anything.
ProtocolFigures seed(const TopologySpec& spec, std::string name, double of_hop, double of_bandwidth) {
  const Seconds inside = link_hop(spec, true), between = link_hop(spec, false);
  return {std::move(name), std::max(inside, between) * of_hop,
          inside * of_hop, between * of_hop,
          of_bandwidth,    of_bandwidth};
}

CollectiveFigures begin_figures(const TopologySpec& base) {
  CollectiveFigures figures = base.collectives.value_or(CollectiveFigures{});
  const ProtocolFigures low = seed(base, "LL", 0.3, 0.2), middle = seed(base, "LL128", 0.5, 0.6),
                        high = seed(base, "Simple", 1, 1);
  for (const auto list : AlgorithmLists)
    if ((figures.*list).empty() && !is_extra(list))
      figures.*list =
          list == &CollectiveFigures::ring ? std::vector{low, middle, high} : std::vector{low, high};
  // A send is one hop: what the call takes cannot be told from it.
  for (ProtocolFigures& one : figures.send) {
    one.hop_inside += one.call;
    one.hop_between += one.call;
    one.call = Seconds(0);
  }
  return figures;
}

// --- the search ---

class Search {
 public:
  Search(FabricModel& model, const std::vector<FabricRow>& rows, const CollectiveFigures& begin)
      : begin_(begin) {
    for (const auto list : AlgorithmLists)  // of nothing there are no shares
      for (ProtocolFigures& one : begin_.*list)
        for (Seconds* time : {&one.call, &one.hop_inside, &one.hop_between})
          *time = std::max(*time, Seconds(LeastTime));
    // Every shape counts alike, however many sizes of it were measured, and how often.
    std::map<const void*, double> count;
    for (const FabricRow& row : rows) ++count[&model.candidates(row)];
    for (const FabricRow& row : rows) {
      const auto* candidates = &model.candidates(row);
      const double weight = 1 / count[candidates] / static_cast<double>(count.size());
      rows_.push_back({candidates, row.size, std::log(row.time.si()), weight});
    }
    find_variables();
  }

  [[nodiscard]] const std::vector<Variable>& variables() const { return variables_; }

  [[nodiscard]] CollectiveFigures run() {
    CollectiveFigures best = begin_;
    double least = loss(best);
    Random random(SearchSeed);
    for (int attempt = 0; attempt < Tries; ++attempt) {
      CollectiveFigures figures = attempt == 0 ? begin_ : best;
      const double first = attempt == 0 ? FirstSpread : FirstSpread / 2;
      const double reached = climb(figures, first, random);
      if (reached < least) {
        least = reached;
        best = figures;
      }
    }
    for (const Variable& variable : variables_) set_value(best, variable, value_of(best, variable));
    return best;
  }

 private:
  struct Row {
    const std::vector<FabricModel::Candidate>* candidates;
    Bytes bytes;
    double log_time;
    double weight;  // their sum is 1
  };

  [[nodiscard]] double loss(const CollectiveFigures& figures) const {
    double total = 0;
    for (const Variable& variable : variables_) {
      const double moved = std::log(value_of(figures, variable) / value_of(begin_, variable));
      total += Pull * moved * moved;
    }
    for (const Row& row : rows_) {
      double least = std::numeric_limits<double>::infinity();
      for (const FabricModel::Candidate& candidate : *row.candidates) {
        const Load load = scaled(candidate.load, row.bytes);
        const auto limit = node_limit_of(figures, candidate.kind, candidate.algorithm);
        for (const ProtocolFigures& one : protocols_of(figures, candidate.kind, candidate.algorithm))
          least = std::min(least, predicted_time(one, candidate.hops, load, limit).si());
      }
      total += row.weight * std::abs(std::log(least) - row.log_time);
    }
    return total;
  }

  /// Random steps of one to three figures, kept when they help, ever smaller.
  double climb(CollectiveFigures& figures, double spread, Random& random) const {
    double least = loss(figures);
    const double shrink = std::pow(LastSpread / spread, 1.0 / StepsOfTry);
    for (int step = 0; step < StepsOfTry && !variables_.empty(); ++step, spread *= shrink) {
      CollectiveFigures tried = figures;
      for (std::uint64_t i = 0; i <= random.below(3); ++i) {
        const Variable& variable = variables_[random.below(variables_.size())];
        set_value(tried, variable, value_of(tried, variable) * std::exp(spread * random.normal()));
      }
      const double reached = loss(tried);
      if (reached >= least) continue;
      least = reached;
      figures = std::move(tried);
    }
    return least;
  }

  /// Only what some row depends on.
  void find_variables() {
    using enum Variable::What;
    bool limited = false;
    for (const auto list : AlgorithmLists) {
      bool used = false, inside = false, between = false, load_inside = false, load_between = false,
           own = false;
      for (const Row& row : rows_) {
        for (const FabricModel::Candidate& candidate : *row.candidates) {
          if (&protocols_of(begin_, candidate.kind, candidate.algorithm) != &(begin_.*list)) continue;
          used = true;
          inside = inside || candidate.hops.inside > 0;
          between = between || candidate.hops.between > 0;
          own = own || candidate.hops.own_blocks > 0;
          load_inside = load_inside || candidate.load.inside > Seconds(0);
          load_between = load_between || candidate.load.between > Seconds(0);
          limited = limited || (candidate.load.between > Seconds(0) &&
                                node_limit_of(begin_, candidate.kind, candidate.algorithm).has_value());
        }
      }
      for (std::size_t p = 0; used && p < (begin_.*list).size(); ++p) {
        if (list != &CollectiveFigures::send) variables_.push_back({list, p, Call});
        if (inside) variables_.push_back({list, p, HopInside});
        if (between) variables_.push_back({list, p, HopBetween});
        if (load_inside) variables_.push_back({list, p, ShareInside});
        if (load_between) variables_.push_back({list, p, ShareBetween});
        if (!own) continue;
        variables_.push_back({list, p, OwnBlock});
        double& own_block = (begin_.*list)[p].own_block;
        if (own_block == 0) own_block = FirstOwnBlock;
      }
    }
    if (limited) variables_.push_back({nullptr, 0, NodeLimit});
  }

  CollectiveFigures begin_;
  std::vector<Row> rows_;
  std::vector<Variable> variables_;
};

/// Shares relative to the best of them, which becomes the links' efficiency.
double normalise(CollectiveFigures& figures, double ProtocolFigures::*share) {
  double best = 0;
  for (const auto list : AlgorithmLists)
    for (const ProtocolFigures& one : figures.*list) best = std::max(best, one.*share);
  best = rounded(best);
  for (const auto list : AlgorithmLists)
    for (ProtocolFigures& one : figures.*list) one.*share = std::min(1.0, rounded(one.*share / best));
  return best;
}

void round_figures(CollectiveFigures& figures) {
  for (const auto list : AlgorithmLists) {
    for (ProtocolFigures& one : figures.*list)
      for (Seconds* time : {&one.call, &one.hop_inside, &one.hop_between})
        *time = *time <= Seconds(LeastTime) ? Seconds(0) : Seconds(rounded(time->si() * 1e6) * 1e-6);
    for (ProtocolFigures& one : figures.*list)
      one.own_block = one.own_block <= LeastShare ? 0 : rounded(one.own_block);
  }
  if (figures.node_limit) figures.node_limit = BytesPerSecond(rounded(figures.node_limit->si()));
}

/// The protocols keep their names, and what these put on the wire, in the order of their bandwidth: nothing in the search
/// holds them to it.
void put_in_order(CollectiveFigures& figures) {
  for (const auto list : AlgorithmLists) {
    std::vector<ProtocolFigures>& all = figures.*list;
    const std::vector<ProtocolFigures> before = all;
    std::ranges::stable_sort(all, {},
                             [](const ProtocolFigures& one) { return one.share_inside * one.share_between; });
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].protocol = before[i].protocol;
      all[i].wire = before[i].wire;
    }
  }
}

/// What neither the base has nor a row tells is no figure at all.
void drop_guesses(CollectiveFigures& figures, const TopologySpec& base,
                  const std::vector<Variable>& variables) {
  for (const auto list : AlgorithmLists) {
    const bool given = base.collectives && !((*base.collectives).*list).empty();
    const bool fitted =
        std::ranges::any_of(variables, [list](const Variable& one) { return one.list == list; });
    if (!given && !fitted) (figures.*list).clear();
  }
}

/// A library that has every algorithm.
CollectiveFigures every_algorithm() {
  CollectiveFigures figures;
  for (const auto list : AlgorithmLists) (figures.*list).resize(1);
  return figures;
}

double cell_number(const CsvTable& table, std::size_t row, std::string_view column) {
  try {
    return parse_number(table.at(row, column));
  } catch (const std::invalid_argument& error) {
    throw InputError({table.place(row), fmt::format("column {}: {}", column, error.what())});
  }
}

}  // namespace

// --- efficiencies ---

void set_efficiency(TopologySpec& spec, std::optional<double> inside, std::optional<double> between) {
  if (spec.scale_up && inside) {
    const double by = *inside / spec.scale_up->link.efficiency;
    spec.scale_up->pcie.uplink.efficiency *= by;
    spec.scale_up->pcie.between_sockets.efficiency *= by;
    spec.scale_up->link.efficiency = *inside;
  }
  if (between)
    std::visit(
        [&between](auto& fabric) {
          if constexpr (requires { fabric.link; }) fabric.link.efficiency = *between;
        },
        spec.scale_out);
}

double efficiency_inside(const TopologySpec& spec) {
  return spec.scale_up ? spec.scale_up->link.efficiency : 1.0;
}

double efficiency_between(const TopologySpec& spec) {
  return std::visit(
      [](const auto& fabric) {
        if constexpr (requires { fabric.link; })
          return fabric.link.efficiency;
        else
          return 1.0;
      },
      spec.scale_out);
}

// --- rows ---

std::vector<FabricRow> fabric_rows(const NcclLog& log) {
  refuse_single_ranks(log);
  std::vector<FabricRow> rows;
  for (const NcclRun& run : log.runs) {
    if (!collective_of(run.op) || run.ranks < 2 || run.per_node == 0) continue;
    const std::string gpu = run.devices.empty() ? "" : run.devices.front();
    for (const NcclRow& row : run.rows) {
      if (row.size > Bytes(0))
        rows.push_back({run.op,
                        run.ranks,
                        run.nodes,
                        row.size,
                        row.out_of_place.time,
                        gpu,
                        log.file,
                        {log.file, row.line, 0, ""}});
    }
  }
  return rows;
}

std::vector<FabricRow> fabric_rows(const CsvTable& table, const std::vector<RowFilter>& filters) {
  for (const std::string_view column : {"ranks", "nodes", "size_bytes", "time_us"})
    if (!table.has(column))
      throw InputError({{table.name(), 1, 0, ""}, fmt::format("there is no column {}", column)});
  for (const RowFilter& filter : filters)
    if (!table.has(filter.column))
      throw InputError({{table.name(), 1, 0, ""}, unknown_name("column", filter.column, table.columns())});
  std::vector<FabricRow> rows;
  for (std::size_t r = 0; r < table.size(); ++r) {
    const bool wanted = std::ranges::all_of(filters, [&](const RowFilter& filter) {
      return (table.at(r, filter.column).find(filter.text) != std::string::npos) == filter.keep;
    });
    const NcclOp op = table.has("op") ? nccl_op(table.at(r, "op")) : NcclOp::AllReduce;
    if (!wanted || !collective_of(op) || table.at(r, "time_us").empty() || table.at(r, "ranks").empty())
      continue;
    FabricRow row{op,
                  static_cast<int>(cell_number(table, r, "ranks")),
                  table.at(r, "nodes").empty() ? 1 : static_cast<int>(cell_number(table, r, "nodes")),
                  Bytes(cell_number(table, r, "size_bytes")),
                  Seconds(cell_number(table, r, "time_us") * 1e-6),
                  table.at(r, "gpu"),
                  table.at(r, "source"),
                  table.place(r)};
    if (row.ranks >= 2 && row.size > Bytes(0) && row.time > Seconds(0)) rows.push_back(std::move(row));
  }
  return rows;
}

// --- the model ---

int FabricModel::nodes_of(const FabricRow& row) const {
  if (packing_ == Packing::AsMeasured) return row.nodes;
  return (row.ranks + spec_.accelerators_per_node - 1) / spec_.accelerators_per_node;
}

bool FabricModel::holds(const FabricRow& row) const {
  const int nodes = nodes_of(row);
  const bool alone = std::holds_alternative<std::monostate>(spec_.scale_out);
  return nodes >= 1 && row.ranks % nodes == 0 && row.ranks / nodes <= spec_.accelerators_per_node &&
         (nodes == 1 || !alone);
}

bool FabricModel::covers(const FabricRow& row, const CollectiveFigures& figures) {
  if (!holds(row)) return false;
  const std::vector<Candidate>& all = candidates(row);
  return std::ranges::any_of(all, [&figures](const Candidate& candidate) {
    return !protocols_of(figures, candidate.kind, candidate.algorithm).empty();
  });
}

const std::vector<FabricModel::Candidate>& FabricModel::candidates(const FabricRow& row) {
  const int nodes = nodes_of(row);
  const auto [entry, added] = candidates_.try_emplace({row.op, row.ranks, nodes});
  std::vector<Candidate>& all = entry->second;
  if (!added) return all;
  TopologySpec spec = spec_;
  spec.accelerators = nodes * spec.accelerators_per_node;
  const Topology topology = build_topology(spec);
  std::vector<AcceleratorId> members;
  const int per_node = row.ranks / nodes;
  for (int node = 0; node < nodes; ++node) {
    for (int i = 0; i < per_node; ++i)
      members.emplace_back(static_cast<std::uint32_t>(node * spec.accelerators_per_node + i));
  }
  const CollectiveKind kind = *collective_of(row.op);
  const Spread spread{members.size(), static_cast<std::size_t>(nodes)};
  GroupShape shape = shape_of(members, topology);
  if (kind == CollectiveKind::Shift) {  // sendrecv: rank r to rank r + 1
    shape.rings.resize(1);
    std::iota(shape.rings[0].begin(), shape.rings[0].end(), 0U);
  }
  const Bytes unit(1);
  for (const Algorithm algorithm : algorithms_for(every_algorithm(), kind, spread)) {
    const CollectivePlan plan = plan_collective(kind, algorithm, unit, shape);
    all.push_back({kind, algorithm, hops_of(kind, algorithm, spread),
                   load_of(link_uses(plan, members, topology), unit, topology)});
  }
  return all;
}

FabricModel::Choice FabricModel::predict(const FabricRow& row, const CollectiveFigures& figures) {
  Choice best{Algorithm::Ring, 0, Seconds(std::numeric_limits<double>::infinity())};
  for (const Candidate& candidate : candidates(row)) {
    const Load load = scaled(candidate.load, row.size);
    const std::vector<ProtocolFigures>& protocols =
        protocols_of(figures, candidate.kind, candidate.algorithm);
    for (std::size_t p = 0; p < protocols.size(); ++p) {
      const Seconds time = predicted_time(protocols[p], candidate.hops, load,
                                          node_limit_of(figures, candidate.kind, candidate.algorithm));
      if (time < best.time) best = {candidate.algorithm, p, time};
    }
  }
  return best;
}

// --- the fit ---

FabricFit fit_fabric(const TopologySpec& base, const std::vector<FabricRow>& rows, Packing packing) {
  FabricFit fit;
  fit.topology = base;
  CollectiveFigures figures = begin_figures(base);
  // In the search shares are of the data sheet's bandwidth.
  for (const auto list : AlgorithmLists) {
    for (ProtocolFigures& one : figures.*list) {
      one.share_inside *= efficiency_inside(base);
      one.share_between *= efficiency_between(base);
    }
  }
  set_efficiency(fit.topology, 1.0, 1.0);
  FabricModel model(fit.topology, packing);
  for (const FabricRow& row : rows) {
    if (model.covers(row, figures))
      fit.rows.push_back(row);
    else
      ++fit.left_out;
  }
  if (fit.rows.empty())
    throw std::invalid_argument("none of the rows can have been measured on this topology");
  Search search(model, fit.rows, figures);
  figures = search.run();
  fit.figures = static_cast<int>(search.variables().size());

  drop_guesses(figures, base, search.variables());
  put_in_order(figures);
  round_figures(figures);
  set_efficiency(fit.topology, normalise(figures, &ProtocolFigures::share_inside),
                 normalise(figures, &ProtocolFigures::share_between));
  fit.topology.collectives = figures;
  FabricModel fitted(fit.topology, packing);
  for (const FabricRow& row : fit.rows) fit.predicted.push_back(fitted.predict(row, figures).time);
  return fit;
}

}  // namespace syncline::calibrate
