// One row of a table of published or measured training runs, whichever of the two sets of columns it has.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/csv.hpp"
#include "sim/core/error.hpp"

namespace syncline::score {

/// Cells by the name of their column, which is one of row_columns(); several names of one thing have become one
/// (`num_microbatches` and `grad_accum`: `microbatches`), units are SI (`mem_gb`: `memory_bytes`).
class TrainingRow {
 public:
  /// @throws InputError with line and column on a number that is none, and for a table that lacks `id`
  TrainingRow(const CsvTable& table, std::size_t row);

  [[nodiscard]] const std::string& table() const {
    return table_;
  }  // name of the file, without folder and ending
  [[nodiscard]] const std::string& id() const { return text("id"); }
  [[nodiscard]] const Place& place() const { return place_; }

  /// Empty where the cell is blank.
  /// @throws std::invalid_argument when there is no such column
  [[nodiscard]] const std::string& text(std::string_view column) const;
  /// Nothing where the cell is blank or holds no number.
  /// @throws std::invalid_argument as above
  [[nodiscard]] std::optional<double> number(std::string_view column) const;
  [[nodiscard]] bool blank(std::string_view column) const { return text(column).empty(); }

  /// Fills a cell in, or corrects it.
  void put(std::string_view column, std::string text);
  /// Fills in what follows from other cells: ranks are tp · pp · cp · dp, sequences dp · mbs · microbatches.
  void complete();

 private:
  std::string table_;
  Place place_;
  std::map<std::string, std::string, std::less<>> cells_;
};

/// @throws InputError as above, and when two rows have the same id
[[nodiscard]] std::vector<TrainingRow> read_training_rows(const CsvTable& table);

/// All names that text() and number() know. `words` is all text of the row in one.
[[nodiscard]] std::vector<std::string> row_columns();

}  // namespace syncline::score
