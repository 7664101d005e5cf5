// The journal of a sweep: a file beside the output to which every row goes at once, so that a kill loses none
// that is finished. The output is made from it in the end; it stays as the record of what the output was made
// from.
//
//   syncline-sweep-journal 1
//   command syncline sweep s.yaml --output s.csv
//   program 0.1.0
//   sweep-file 5f0c6c3f7d1b9a11
//   ...
//   rows
//   2,8,0.0125,
//   1,4,0.0171,
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/row.hpp"
#include "sim/sweep/sweep.hpp"

namespace syncline::sweep {

/// What the rows depend on, a name and a hash or text each: ("sweep-file", "5f0c6c3f7d1b9a11"). A sweep is
/// gone on with only where all are as they were.
using Identity = std::vector<std::pair<std::string, std::string>>;

/// @param sweep_text, scenario_text  of the files
/// @param data                       what check_paths() returned
[[nodiscard]] Identity identity_of(const Sweep& sweep, std::string_view sweep_text,
                                   std::string_view scenario_text, std::uint64_t data,
                                   std::string_view version);

class Journal {
 public:
  enum class Open { Anew, Resume };

  /// Anew: an unfinished journal is refused, since its rows would be lost; one of a finished sweep is
  /// replaced. Resume: its rows are read back, and a line that a kill cut short is taken away; without a
  /// journal it is as Anew.
  /// @param output   the file of rows; the journal is `output` + ".journal"
  /// @param command  that repeats the sweep
  /// @throws InputError        when the journal is of another sweep; says what has changed
  /// @throws EnvironmentError  when it cannot be read or written
  Journal(const Sweep& sweep, std::string output, const Identity& identity, const std::string& command,
          Open open);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  [[nodiscard]] const std::map<std::size_t, Row>& rows() const { return rows_; }  // by point
  /// The row is with the operating system when this returns.
  void add(const Row& row);
  /// Writes the output, in the order of points: `rows()` and those that have no row in the journal.
  void finish(const std::map<std::size_t, Row>& lost);

 private:
  void read_back(const Identity& identity);
  void begin(const Identity& identity, const std::string& command);
  void put(std::string_view text);

  const Sweep& sweep_;
  std::string output_, name_;
  int file_ = -1;
  std::map<std::size_t, Row> rows_;
};

}  // namespace syncline::sweep
