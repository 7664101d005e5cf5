#include "sim/pipeline/torch_csv.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/pipeline/torch_csv_names.hpp"

namespace syncline::pipeline {

std::span<const CsvWord> csv_words() {
  static constexpr CsvWord words[] = {
      {CsvKind::Forward, "F", "F", true},
      {CsvKind::Backward, "BW", "B", true},
      {CsvKind::BackwardInput, "B", "I", true},
      {CsvKind::BackwardWeight, "W", "W", true},
      {CsvKind::SendForward, "SEND_F", "SEND_F", true},
      {CsvKind::ReceiveForward, "RECV_F", "RECV_F", true},
      {CsvKind::SendBackward, "SEND_B", "SEND_B", true},
      {CsvKind::ReceiveBackward, "RECV_B", "RECV_B", true},
      {CsvKind::Unshard, "UNSHARD", "UNSHARD", false},
      {CsvKind::Reshard, "RESHARD", "RESHARD", false},
      {CsvKind::ReduceGrad, "", "REDUCE_GRAD", false},
  };
  return words;
}

std::string to_text(const CsvCell& cell, CsvNotation notation) {
  if (cell.kind == CsvKind::Idle) return "";
  const auto one = [notation](CsvKind kind, int stage, int microbatch) {
    const CsvWord& word = csv_words()[static_cast<std::size_t>(kind)];
    // What the old notation lacks is named as in the new one: only messages come here.
    const bool old = notation == CsvNotation::Old && !word.old_name.empty();
    const std::string text = fmt::format("{}{}", stage, old ? word.old_name : word.new_name);
    return word.of_microbatch ? text + std::to_string(microbatch) : text;
  };
  const std::string text = one(cell.kind, cell.stage, cell.microbatch);
  if (!cell.fused) return text;
  return fmt::format("({};{}){}", text,
                     one(static_cast<CsvKind>(cell.fused->kind), cell.fused->stage, cell.fused->microbatch),
                     FusedName);
}

std::string describe(const TorchCsv& csv) {
  return fmt::format("{}, {} notation ({})",
                     csv.form == CsvForm::ComputeOnly ? "compute_only" : "compute_comms",
                     csv.notation == CsvNotation::Old ? "old" : "new",
                     csv.told_by.empty() ? "assumed: nothing in it tells" : "told by " + csv.told_by);
}

std::string write_torch_csv(const TorchCsv& csv) {
  std::string text;
  for (const CsvRow& row : csv.rows) {
    bool first = true;
    for (const CsvCell& cell : row) {
      if (!first) text += ',';
      first = false;
      text += to_text(cell, csv.notation);
    }
    text += '\n';
  }
  return text;
}

std::vector<CsvText> split_cells(std::string_view line) {
  constexpr std::string_view Blanks = " \t\r\f\v";
  std::vector<CsvText> cells;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = line.find(',', begin);
    std::string_view text = line.substr(begin, end - begin);
    const std::size_t blanks = std::min(text.find_first_not_of(Blanks), text.size());
    text.remove_prefix(blanks);
    text = text.substr(0, text.find_last_not_of(Blanks) + 1);
    cells.push_back({text, static_cast<int>(begin + blanks) + 1});
  }
  return cells;
}

CsvTold tell_notation(const std::vector<std::vector<CsvText>>& rows) {
  constexpr std::string_view Digits = "0123456789";
  std::string_view whole, input, weight, later;  // the first of each
  const auto note = [](std::string_view& first, std::string_view text) {
    if (first.empty()) first = text;
  };
  for (const std::vector<CsvText>& row : rows)
    for (const CsvText& cell : row) {
      std::string_view word = cell.text;
      word.remove_prefix(std::min(word.find_first_not_of(Digits), word.size()));
      word = word.substr(0, word.find_last_not_of(Digits) + 1);
      if (word == "BW")
        note(whole, cell.text);
      else if (word == "I")
        note(input, cell.text);
      else if (word == "W")
        note(weight, cell.text);
      else if (word == "REDUCE_GRAD" || word.ends_with(FusedName))
        note(later, cell.text);
    }
  if (!input.empty()) return {CsvNotation::New, std::string(input)};
  if (!whole.empty()) return {CsvNotation::Old, std::string(whole)};
  if (!later.empty()) return {CsvNotation::New, std::string(later)};
  if (!weight.empty()) return {CsvNotation::Old, std::string(weight)};
  return {};
}

}  // namespace syncline::pipeline
