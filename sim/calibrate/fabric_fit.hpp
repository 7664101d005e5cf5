// Figures of a communication library on a fabric (sim/topology/collective_figures.hpp), fitted to measured collectives.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/calibrate/nccl_log.hpp"
#include "sim/collective/cost.hpp"
#include "sim/core/csv.hpp"
#include "sim/topology/spec.hpp"

namespace syncline::calibrate {

/// One measured size.
struct FabricRow {
  NcclOp op = NcclOp::AllReduce;
  int ranks = 0, nodes = 1;  // as many ranks on every node
  Bytes size;                // S, as nccl-tests counts it
  Seconds time;              // of one call
  std::string gpu, source;
  Place place;
};

/// Keeps the rows of a table whose column holds, or does not hold, a text.
struct RowFilter {
  std::string column, text;
  bool keep = true;
};

/// The out-of-place times of a log's runs; those of unknown ops, ranks or uneven nodes are left out.
/// @throws InputError when a run is of a single rank: nothing was communicated, so there is no cost to be had
[[nodiscard]] std::vector<FabricRow> fabric_rows(const NcclLog& log);
/// Of a table with the columns ranks, nodes, size_bytes and time_us, and where it has them op (else all_reduce), gpu and
/// source. Rows without a size, time or second rank are left out.
/// @throws InputError when a column is missing, or a cell is no number
[[nodiscard]] std::vector<FabricRow> fabric_rows(const CsvTable& table,
                                                 const std::vector<RowFilter>& filters);

/// How the ranks of a row lie: on the first of every node as the row says, or filling the nodes of the topology.
enum class Packing { AsMeasured, FillNodes };

/// What a topology predicts for measured rows. Keeps what rows of one shape have in common.
class FabricModel {
 public:
  FabricModel(TopologySpec spec, Packing packing) : spec_(std::move(spec)), packing_(packing) {}

  struct Choice {
    Algorithm algorithm = Algorithm::Ring;
    std::size_t protocol = 0;  // position in its list of figures
    Seconds time;
  };
  /// False when the topology cannot hold the row: more ranks in a node than it has, several nodes of one that stands
  /// alone; or when it has no figures for the op.
  [[nodiscard]] bool covers(const FabricRow& row, const CollectiveFigures& figures);
  /// The fastest of what `auto` chooses from. The row is covered.
  [[nodiscard]] Choice predict(const FabricRow& row, const CollectiveFigures& figures);

  /// What one algorithm makes of a shape (op, ranks, nodes): hops, and load of a byte of S.
  struct Candidate {
    CollectiveKind kind;
    Algorithm algorithm;
    Hops hops;
    Load load;
  };
  [[nodiscard]] const std::vector<Candidate>& candidates(const FabricRow& row);

 private:
  [[nodiscard]] bool holds(const FabricRow& row) const;
  [[nodiscard]] int nodes_of(const FabricRow& row) const;

  TopologySpec spec_;
  Packing packing_;
  std::map<std::tuple<NcclOp, int, int>, std::vector<Candidate>> candidates_;
};

/// Of the links of scale-up and of scale-out; 1 where there are none.
[[nodiscard]] double efficiency_inside(const TopologySpec& spec);
[[nodiscard]] double efficiency_between(const TopologySpec& spec);
/// The other links of a PCIe tree keep their ratio to the accelerators' own.
void set_efficiency(TopologySpec& spec, std::optional<double> inside, std::optional<double> between);

struct FabricFit {
  TopologySpec topology;        // the base with `collectives`, and efficiencies such that the best share is 1
  std::vector<FabricRow> rows;  // that it was fitted to
  std::vector<Seconds> predicted;  // by row
  std::size_t left_out = 0;        // rows that the topology cannot hold
  int figures = 0;                 // how many numbers were fitted
};

/// The figures with the least mean |ln(predicted / measured)|, every shape (op, ranks, nodes) counting alike. Where the base has figures, these are where the search
/// begins, and what no row tells stays as it is; where it has none, the search begins at the links' own figures.
/// The same input gives the same fit.
/// @throws std::invalid_argument when no row fits the topology
[[nodiscard]] FabricFit fit_fabric(const TopologySpec& base, const std::vector<FabricRow>& rows,
                                   Packing packing);

/// Errors of predicted against measured time, as shares.
struct ErrorSummary {
  int rows = 0;
  double signed_mean = 0, mean = 0, largest = 0;
};
/// Of the rows that `wanted` picks.
[[nodiscard]] ErrorSummary errors_of(const FabricFit& fit,
                                     const std::function<bool(const FabricRow&)>& wanted);

/// Tables by op, size and ranks, and the worst rows.
[[nodiscard]] std::string error_report(const FabricFit& fit);
/// The topology file: how it was fitted in comments, then the description.
[[nodiscard]] std::string fitted_topology_file(const FabricFit& fit, const std::string& base_name);

}  // namespace syncline::calibrate
