#include "sim/moe/counts_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "sim/core/csv.hpp"
#include "sim/core/units.hpp"

namespace syncline::moe {
namespace {

struct Column {
  std::string_view name;
  bool required;
  std::int64_t largest;
};
constexpr std::array<Column, 5> Columns{{{"step", false, 1'000'000},
                                         {"layer", true, 9'999},
                                         {"rank", true, 262'143},
                                         {"expert", true, 65'535},
                                         {"tokens", true, 1'000'000'000'000}}};
using Row = std::array<std::int64_t, Columns.size()>;
enum : std::size_t { Step, Layer, Rank, Expert, Tokens };

constexpr std::int64_t MostCells = 100'000'000;

std::int64_t number_at(const CsvTable& table, std::size_t row, const Column& column) {
  const std::string& text = table.at(row, column.name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > column.largest)
    throw InputError(
        Diagnostic{table.place(row), fmt::format("{} is \"{}\", expected a whole number from 0 to {}",
                                                 column.name, text, column.largest)});
  return number;
}

/// That a table does not begin with its numbers.
void check_header(std::string_view text, const std::string& name) {
  const std::string_view first = text.substr(0, text.find_first_of(",\r\n"));
  if (first.empty() || first.find_first_not_of("0123456789") != std::string_view::npos) return;
  throw InputError(Diagnostic{{name, 1, 0, ""},
                              "begins with a number; add a line with the names of the columns, such as "
                              "step,layer,rank,expert,tokens"});
}

void check_columns(const CsvTable& table) {
  std::vector<std::string> known;
  for (const Column& column : Columns) known.emplace_back(column.name);
  const Place header{table.name(), 1, 0, ""};
  for (const std::string& column : table.columns())
    if (std::ranges::find(known, column) == known.end())
      throw InputError(Diagnostic{header, unknown_name("column", column, known)});
  for (const Column& column : Columns)
    if (column.required && !table.has(column.name))
      throw InputError(Diagnostic{header, fmt::format("missing column \"{}\"", column.name)});
}

/// Each column's largest number plus one.
Row sizes_of(const std::vector<Row>& rows) {
  Row sizes{1, 1, 1, 1, 1};
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) sizes[c] = std::max(sizes[c], row[c] + 1);
  return sizes;
}

void check_senders(const MeasuredCounts& counts) {
  for (std::int64_t step = 0; step < counts.steps; ++step)
    for (int layer = 0; layer < counts.layers; ++layer)
      for (int rank = 0; rank < counts.ranks; ++rank)
        if (std::ranges::all_of(counts.sent(step, layer, rank),
                                [](std::int64_t tokens) { return tokens == 0; }))
          refuse(counts.file,
                 fmt::format("rank {} has no tokens in layer {}, step {}; each rank of each layer and step "
                             "needs some",
                             rank, layer, step));
}

}  // namespace

std::span<const std::int64_t> MeasuredCounts::sent(std::int64_t step, int layer, int rank) const {
  const auto at = static_cast<std::size_t>(((step % steps) * layers + layer % layers) * ranks + rank);
  const auto n = static_cast<std::size_t>(experts);
  return std::span(tokens).subspan(at * n, n);
}

MeasuredCounts parse_counts(std::string_view text, const std::string& name) {
  check_header(text, name);
  const CsvTable table = CsvTable::parse(text, name);
  check_columns(table);
  if (table.size() == 0) refuse(name, "has no counts; expected a row for each layer, rank and expert");
  std::vector<Row> rows(table.size(), Row{});
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c < Columns.size(); ++c)
      if (table.has(Columns[c].name)) rows[r][c] = number_at(table, r, Columns[c]);

  const Row sizes = sizes_of(rows);
  const double cells = static_cast<double>(sizes[Step]) * static_cast<double>(sizes[Layer]) *
                       static_cast<double>(sizes[Rank]) * static_cast<double>(sizes[Expert]);
  if (cells > MostCells)
    refuse(name, fmt::format("{} steps, {} layers, {} ranks and {} experts are more than {} counts",
                             sizes[Step], sizes[Layer], sizes[Rank], sizes[Expert], MostCells));
  MeasuredCounts counts{name,
                        sizes[Step],
                        static_cast<int>(sizes[Layer]),
                        static_cast<int>(sizes[Rank]),
                        static_cast<int>(sizes[Expert]),
                        {}};
  constexpr std::int64_t NotGiven = -1;
  counts.tokens.assign(static_cast<std::size_t>(cells), NotGiven);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const std::int64_t sender = (row[Step] * sizes[Layer] + row[Layer]) * sizes[Rank] + row[Rank];
    std::int64_t& cell = counts.tokens[static_cast<std::size_t>(sender * sizes[Expert] + row[Expert])];
    if (cell != NotGiven)
      throw InputError(
          Diagnostic{table.place(r), fmt::format("layer {}, rank {}, expert {} of step {} is there twice",
                                                 row[Layer], row[Rank], row[Expert], row[Step])});
    cell = row[Tokens];
  }
  std::ranges::replace(counts.tokens, NotGiven, 0);
  check_senders(counts);
  return counts;
}

}  // namespace syncline::moe
