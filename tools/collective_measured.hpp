// Measured collectives and what is predicted for them: the rows of an nccl-tests log, or of a table of many systems.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "sim/calibrate/measured_collectives.hpp"
#include "sim/config/document.hpp"
#include "sim/core/csv.hpp"

namespace syncline {

struct MeasuredRow {
  std::string system;  // topology
  calibrate::NcclOp op = calibrate::NcclOp::AllReduce;
  int ranks = 0, nodes = 1;
  Bytes size;
  Seconds measured;
  std::optional<Seconds> predicted;  // nothing when the topology cannot hold the ranks
  std::string method;                // "tree LL128"
  calibrate::Packing packing = calibrate::Packing::AsMeasured;
};

/// The out-of-place times of a log.
/// @throws InputError when a run is of a single rank, or none holds rows that can be compared
[[nodiscard]] std::vector<MeasuredRow> rows_of_log(const calibrate::NcclLog& log,
                                                   const std::string& topology);

struct MeasuredTable {
  std::vector<MeasuredRow> rows;
  std::vector<std::string>
      left_out;  // "31 rows: L40S, PCIe 4.0: no topology of the catalogue", each kind once
};
/// @throws InputError when the table lacks a column
[[nodiscard]] MeasuredTable rows_of_table(const CsvTable& table,
                                          const std::vector<calibrate::MeasuredSystem>& systems);

/// Whose measurements a system's figures are fitted to: its own, or those of all other systems of the rows, as if it had
/// never been measured (calibrate::never_measured).
enum class FittedTo { Itself, Others };

/// Fills in what is predicted, and how; rows of one shape are simulated together.
/// @param overrides  of every topology
void predict(std::vector<MeasuredRow>& rows, const std::vector<Override>& overrides, FittedTo fitted,
             const RunOptions& options);

/// Mean of |predicted / measured − 1| and of the same signed, over rows that were predicted.
struct MeasuredError {
  std::size_t rows = 0;
  double mean = 0, signed_mean = 0;
};
constexpr Bytes LargeMessage{1048576.0};  // where bandwidth begins to count
[[nodiscard]] MeasuredError error_of(const std::vector<MeasuredRow>& rows, const std::string& system,
                                     bool large);

}  // namespace syncline
