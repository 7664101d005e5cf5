// The words of PyTorch's schedule files, and how they tell the notation.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/pipeline/torch_csv.hpp"

namespace syncline::pipeline {

struct CsvWord {
  CsvKind kind;
  std::string_view old_name, new_name;  // by notation; empty: the notation has none
  bool of_microbatch;
};

/// By kind; an idle cell has none.
[[nodiscard]] std::span<const CsvWord> csv_words();

constexpr std::string_view FusedName = "OVERLAP_F_B";

/// The text of a cell without blanks round it, and where it begins.
struct CsvText {
  std::string_view text;
  int column = 1;  // byte of its line, from 1
};

/// The cells of a line; one, empty, for an empty line.
[[nodiscard]] std::vector<CsvText> split_cells(std::string_view line);

struct CsvTold {
  CsvNotation notation = CsvNotation::New;
  std::string by{};  // the action that tells; empty: nothing does
};

/// BW is of the old notation alone; I, REDUCE_GRAD and fused blocks are of the new one; W where there is no I
/// stands beside the old notation's B.
[[nodiscard]] CsvTold tell_notation(const std::vector<std::vector<CsvText>>& rows);

}  // namespace syncline::pipeline
