// PyTorch's schedule files, read and checked cell by cell.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "sim/pipeline/torch_csv_index.hpp"
#include "sim/pipeline/torch_csv_names.hpp"

namespace syncline::pipeline {
namespace {

constexpr int LargestNumber = 9'999'999;  // of a stage or microbatch
constexpr std::size_t MostErrors = 20;

std::string quoted(std::string_view text) {
  constexpr std::size_t MostShown = 60;
  return fmt::format("\"{}{}\"", text.substr(0, MostShown), text.size() > MostShown ? "..." : "");
}

// --- one cell ---

/// Takes the number at the front of `text`; -1 where there is none, or one too large.
int take_number(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  text.remove_prefix(digits.size());
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && value <= LargestNumber ? value : -1;
}

class CellParser {
 public:
  explicit CellParser(CsvTold told) : told_(std::move(told)) {}

  /// Nothing when the text is no action; then wrong() says why.
  std::optional<CsvCell> parse(std::string_view text) {
    if (text.empty()) return CsvCell{};
    return text.front() == '(' ? parse_fused(text) : parse_single(text);
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  std::nullopt_t refuse(std::string why) {
    wrong_ = std::move(why);
    return std::nullopt;
  }

  std::optional<CsvCell> parse_single(std::string_view text) {
    std::string_view rest = text;
    CsvCell cell;
    cell.stage = take_number(rest);
    const std::string_view name = rest.substr(0, rest.find_first_of("0123456789"));
    rest.remove_prefix(name.size());
    const bool has_microbatch = !rest.empty();
    cell.microbatch = has_microbatch ? take_number(rest) : 0;
    const CsvWord* word = find_word(name);
    if (word == nullptr) return refuse(unknown(text, name));
    if (cell.stage < 0 || cell.microbatch < 0 || !rest.empty())
      return refuse(fmt::format("{} is no action; expected the stage, {} and {}, numbers up to {}",
                                quoted(text), name,
                                word->of_microbatch ? "the microbatch" : "nothing behind it", LargestNumber));
    if (word->of_microbatch != has_microbatch)
      return refuse(fmt::format("{} {}; expected such as {}{}{}", quoted(text),
                                has_microbatch ? "is of no microbatch" : "lacks its microbatch", cell.stage,
                                name, word->of_microbatch ? "0" : ""));
    cell.kind = word->kind;
    return cell;
  }

  std::optional<CsvCell> parse_fused(std::string_view text) {
    const std::string_view form = "expected a forward and a whole backward such as (0F3;3B1)OVERLAP_F_B";
    const std::size_t middle = text.find(';'), end = text.find(')');
    if (middle == std::string_view::npos || end == std::string_view::npos || end < middle ||
        text.substr(end + 1) != FusedName)
      return refuse(fmt::format("unknown action {}; {}", quoted(text), form));
    std::optional<CsvCell> forward = parse_single(text.substr(1, middle - 1));
    const std::optional<CsvCell> backward = parse_single(text.substr(middle + 1, end - middle - 1));
    if (!forward || !backward) return std::nullopt;
    if (forward->kind != CsvKind::Forward || backward->kind != CsvKind::Backward)
      return refuse(fmt::format("{} fuses other things; {}", quoted(text), form));
    forward->fused = Action{ActionKind::Backward, backward->stage, backward->microbatch};
    return forward;
  }

  [[nodiscard]] const CsvWord* find_word(std::string_view name) const {
    for (const CsvWord& word : csv_words())
      if (!name.empty() && name == name_of(word)) return &word;
    return nullptr;
  }
  [[nodiscard]] std::string_view name_of(const CsvWord& word) const {
    return told_.notation == CsvNotation::Old ? word.old_name : word.new_name;
  }

  [[nodiscard]] std::string unknown(std::string_view text, std::string_view name) const {
    if (name == "BW")
      return fmt::format("{} is of the old notation, but {} of the new", quoted(text), told_.by);
    std::string capitals(name);
    for (char& c : capitals)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (capitals != name && find_word(capitals) != nullptr)
      return fmt::format("unknown action {}; capitals matter: {}, not {}", quoted(text), capitals, name);
    std::vector<std::string> known;
    for (const CsvWord& word : csv_words())
      if (!name_of(word).empty()) known.emplace_back(name_of(word));
    std::string near = nearest_name(name.substr(0, 20), known);
    if (!near.empty()) near = fmt::format(" (did you mean {}?)", near);
    return fmt::format("unknown action {}{}; expected stage, kind ({}) and microbatch such as 3F1",
                       quoted(text), near, fmt::join(known, ", "));
  }

  CsvTold told_;
  std::string wrong_;
};

// --- the errors of a file ---

class Errors {
 public:
  Errors(const std::string& file, const std::vector<std::string>& lines) : file_(file), lines_(lines) {}

  [[nodiscard]] bool full() const { return found_.size() >= MostErrors; }
  void add(int rank, int column, std::string message) {
    const auto line = static_cast<std::size_t>(rank);
    if (!full()) found_.push_back({{file_, rank + 1, column, lines_[line]}, std::move(message)});
  }
  void add_without_place(std::string message) {
    if (!full()) found_.push_back({{file_, 0, 0, ""}, std::move(message)});
  }
  void throw_any() {
    if (found_.empty()) return;
    std::ranges::stable_sort(found_, {},
                             [](const Diagnostic& d) { return std::pair(d.place.line, d.place.column); });
    throw InputError(std::move(found_));
  }

 private:
  const std::string& file_;
  const std::vector<std::string>& lines_;
  std::vector<Diagnostic> found_;
};

// --- the whole ---

/// What every cell needs of the others.
class Checker {
 public:
  Checker(const TorchCsv& csv, Errors& errors) : csv_(csv), errors_(errors), index_(csv.rows) {}

  void run() {
    count();
    for (at_.rank = 0; at_.rank < static_cast<int>(csv_.rows.size()); ++at_.rank) {
      const CsvRow& row = csv_.rows[static_cast<std::size_t>(at_.rank)];
      for (at_.cell = 0; at_.cell < static_cast<int>(row.size()); ++at_.cell)
        for_each_part(row[static_cast<std::size_t>(at_.cell)], [this](const CsvCell& part) { check(part); });
    }
    find_missing();
  }

  [[nodiscard]] int stages() const { return stages_.empty() ? 0 : stages_.rbegin()->first + 1; }
  [[nodiscard]] int microbatches() const { return microbatches_; }

 private:
  struct Stage {
    CellAt first;               // its first computation
    std::vector<int> forwards;  // microbatches
    int finished = 0;           // whole backwards and weight halves so far
    bool gathered = false;      // its parameters, so far
  };

  void count() {
    for (std::size_t rank = 0; rank < csv_.rows.size(); ++rank)
      for (std::size_t i = 0; i < csv_.rows[rank].size(); ++i)
        for_each_part(csv_.rows[rank][i], [&](const CsvCell& part) {
          if (part.kind == CsvKind::Unshard) sharded_.insert(part.stage);
          if (!part.computes()) return;
          const CellAt here{static_cast<int>(rank), static_cast<int>(i)};
          Stage& stage = stages_.try_emplace(part.stage, Stage{here, {}, 0, false}).first->second;
          if (part.kind == CsvKind::Forward) stage.forwards.push_back(part.microbatch);
          microbatches_ = std::max(microbatches_, part.microbatch + 1);
        });
  }

  void check(const CsvCell& part) {
    if (part.kind == CsvKind::Idle) {
      if (csv_.form == CsvForm::ComputeComms)
        report(part, "an empty cell in a file with transfers; only computation alone may have idle slots");
      return;
    }
    const std::optional<int> home = index_.rank_of(part.stage);
    if (!home)
      return report(part, fmt::format("{} is of stage {}, which no rank computes", name(part), part.stage));
    if (*home != at_.rank)
      return report(part, fmt::format("{} is on rank {}, but stage {} is on rank {} ({})", name(part),
                                      at_.rank, part.stage, *home, where(stages_.at(part.stage).first)));
    if (repeated(part)) return;
    switch (part.kind) {
      case CsvKind::Forward:
        computed_gathered(part);
        return must_follow_receive(part, part.stage - 1, CsvKind::ReceiveForward);
      case CsvKind::Backward:
      case CsvKind::BackwardInput:
        computed_gathered(part);
        must_follow(part, CsvKind::Forward);
        if (part.kind == CsvKind::Backward) ++stages_.at(part.stage).finished;
        return must_follow_receive(part, part.stage + 1, CsvKind::ReceiveBackward);
      case CsvKind::BackwardWeight:
        ++stages_.at(part.stage).finished;
        return must_follow(part, CsvKind::BackwardInput);
      case CsvKind::SendForward: must_follow(part, CsvKind::Forward); return must_have_other_end(part);
      case CsvKind::SendBackward:
        must_follow(part, index_.find(CsvKind::BackwardInput, part.stage, part.microbatch)
                              ? CsvKind::BackwardInput
                              : CsvKind::Backward);
        return must_have_other_end(part);
      case CsvKind::ReceiveForward:
      case CsvKind::ReceiveBackward: return must_have_other_end(part);
      case CsvKind::Unshard:
      case CsvKind::Reshard: return check_sharding(part);
      case CsvKind::ReduceGrad:
        if (stages_.at(part.stage).finished < microbatches_)
          report(part, fmt::format("{} before the last backward of stage {}", name(part), part.stage));
        return;
      case CsvKind::Idle: return;
    }
  }

  bool repeated(const CsvCell& part) {
    if (part.kind == CsvKind::Unshard || part.kind == CsvKind::Reshard) return false;  // again and again
    const CellAt first = *index_.find(part);
    const std::optional<CellAt> input = index_.find(CsvKind::BackwardInput, part.stage, part.microbatch);
    if (first != at_)
      report(part, fmt::format("{} stands twice, first in {}", name(part), where(first)));
    else if (part.kind == CsvKind::Backward && input)
      report(part,
             fmt::format("{} beside {} in {}: a microbatch goes backward through a stage once", name(part),
                         name({CsvKind::BackwardInput, part.stage, part.microbatch, {}, 0}), where(*input)));
    else
      return false;
    return true;
  }

  void must_follow(const CsvCell& part, CsvKind kind) {
    const CsvCell needed{kind, part.stage, part.microbatch, {}, 0};
    const std::optional<CellAt> before = index_.find(needed);
    if (!before)
      report(part, fmt::format("{} without its {}", name(part), name(needed)));
    else if (before->rank == at_.rank && before->cell >= at_.cell)
      report(part, fmt::format("{} before its {} in {}", name(part), name(needed), where(*before)));
  }

  void must_follow_receive(const CsvCell& part, int from_stage, CsvKind receive) {
    if (csv_.form == CsvForm::ComputeOnly) return;
    const std::optional<int> from = index_.rank_of(from_stage);
    if (from && *from != at_.rank) must_follow(part, receive);
  }

  void must_have_other_end(const CsvCell& part) {
    const CsvCell other = other_end(part);
    const std::optional<int> rank = index_.rank_of(other.stage);
    if (!rank)
      report(part,
             fmt::format("{} is a transfer with stage {}, which no rank computes", name(part), other.stage));
    else if (*rank == at_.rank)
      report(part,
             fmt::format(
                 "{} between stages {} and {}, which are both on rank {}; PyTorch hands on there without "
                 "a transfer",
                 name(part), std::min(part.stage, other.stage), std::max(part.stage, other.stage), *rank));
    else if (!index_.find(other))
      report(part, fmt::format("{} without its {} on rank {}", name(part), name(other), *rank));
  }

  // A file may leave sharding out altogether; PyTorch asks for it where parameters are sharded.
  void computed_gathered(const CsvCell& part) {
    if (sharded_.count(part.stage) == 1 && !stages_.at(part.stage).gathered)
      report(part,
             fmt::format("{} while the parameters of stage {} are not gathered", name(part), part.stage));
  }

  void check_sharding(const CsvCell& part) {
    bool& gathered = stages_.at(part.stage).gathered;
    if (gathered == (part.kind == CsvKind::Unshard))
      report(part,
             fmt::format("{} of parameters that are {}gathered", name(part), gathered ? "already " : "not "));
    gathered = part.kind == CsvKind::Unshard;
  }

  void find_missing() {
    int expected = 0;
    for (auto& [number, stage] : stages_) {
      if (errors_.full()) return;
      at_ = stage.first;
      const CsvCell& first = cell(at_);
      if (number != expected)
        report(first, fmt::format("stage {} is here, but no rank computes stage {}", number, expected));
      expected = number + 1;
      find_missing_microbatch(number, stage);
      find_missing_backwards(number, stage);
    }
  }

  void find_missing_microbatch(int number, Stage& stage) {
    std::vector<int>& there = stage.forwards;
    std::ranges::sort(there);
    there.erase(std::unique(there.begin(), there.end()), there.end());
    if (static_cast<int>(there.size()) == microbatches_) return;
    int missing = 0;
    while (missing < static_cast<int>(there.size()) && there[static_cast<std::size_t>(missing)] == missing)
      ++missing;
    report(cell(stage.first),
           fmt::format("stage {} has {} of the {} microbatches that are named; {} is missing", number,
                       there.size(), microbatches_, name({CsvKind::Forward, number, missing, {}, 0})));
  }

  void find_missing_backwards(int number, const Stage& stage) {
    for (const int microbatch : stage.forwards) {
      if (errors_.full()) return;
      const CsvCell forward{CsvKind::Forward, number, microbatch, {}, 0};
      const CsvCell weight{CsvKind::BackwardWeight, number, microbatch, {}, 0};
      const CsvCell input{CsvKind::BackwardInput, number, microbatch, {}, 0};
      if (!index_.gradient(number, microbatch)) {
        at_ = *index_.find(forward);
        report(cell(at_), fmt::format("{} has no backward {}", name(forward),
                                      name({CsvKind::Backward, number, microbatch, {}, 0})));
      } else if (index_.find(input) && !index_.find(weight)) {
        at_ = *index_.find(input);
        report(cell(at_), fmt::format("{} has no {}", name(input), name(weight)));
      }
    }
  }

  [[nodiscard]] const CsvCell& cell(CellAt at) const {
    return csv_.rows[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.cell)];
  }
  [[nodiscard]] std::string name(const CsvCell& part) const { return to_text(part, csv_.notation); }
  [[nodiscard]] std::string where(CellAt at) const {
    return fmt::format("line {}, column {}", at.rank + 1, cell(at).column);
  }
  void report(const CsvCell& part, std::string message) {
    errors_.add(at_.rank, part.column, std::move(message));
  }

  const TorchCsv& csv_;
  Errors& errors_;
  const CellIndex index_;
  CellAt at_;                    // the cell being looked at
  std::map<int, Stage> stages_;  // that compute
  std::set<int> sharded_;        // stages that are gathered somewhere in the file
  int microbatches_ = 0;
};

/// Lines without their ends; empty ones at the end of the text are no rows.
std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    begin = end + 1;
  }
  while (!lines.empty() && lines.back().find_first_not_of(" \t\r\f\v") == std::string::npos) lines.pop_back();
  return lines;
}

void parse_rows(TorchCsv& csv, Errors& errors) {
  std::vector<std::vector<CsvText>> texts;
  for (const std::string& line : csv.lines) texts.push_back(split_cells(line));
  const CsvTold told = tell_notation(texts);
  csv.notation = told.notation;
  csv.told_by = told.by;
  CellParser parser(told);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    CsvRow& row = csv.rows.emplace_back();
    for (const CsvText& text : texts[rank]) {
      std::optional<CsvCell> cell = parser.parse(text.text);
      if (!cell) errors.add(static_cast<int>(rank), text.column, parser.wrong());
      row.push_back(cell.value_or(CsvCell{}));
      row.back().column = text.column;
    }
    if (std::ranges::none_of(texts[rank], [](const CsvText& text) { return !text.text.empty(); }))
      errors.add(static_cast<int>(rank), 1, fmt::format("rank {} has no action; a line is a rank", rank));
  }
}

bool more_than_computation(const CsvCell& cell) {
  return cell.transfers() || cell.kind == CsvKind::Unshard || cell.kind == CsvKind::Reshard;
}

RankOrder order_of(const CsvRow& row) {
  RankOrder rank;
  for (const CsvCell& cell : row) {
    if (!cell.computes()) continue;
    const Action action{static_cast<ActionKind>(cell.kind), cell.stage, cell.microbatch};
    rank.push_back(cell.fused ? Block(action, *cell.fused) : Block(action));
  }
  return rank;
}

}  // namespace

TorchCsv read_torch_csv(std::string_view text, const std::string& file) {
  TorchCsv csv;
  csv.file = file;
  csv.lines = split_lines(text);
  Errors errors(csv.file, csv.lines);
  if (csv.lines.empty())
    errors.add_without_place("has no row; expected a line a rank, such as \"0F0,0F1,0B0,0B1\"");
  parse_rows(csv, errors);
  errors.throw_any();

  // PyTorch's own GPipe and 1F1B put REDUCE_GRAD among the computation, so that alone does not make the other
  // form.
  for (const CsvRow& row : csv.rows)
    if (std::ranges::any_of(row, more_than_computation)) csv.form = CsvForm::ComputeComms;
  Checker checker(csv, errors);
  checker.run();
  errors.throw_any();

  csv.order.stages = checker.stages();
  csv.order.microbatches = checker.microbatches();
  for (const CsvRow& row : csv.rows) csv.order.ranks.push_back(order_of(row));
  for (OrderFault& fault : order_faults(csv.order)) {
    if (fault.rank < 0)
      errors.add_without_place(std::move(fault.message));
    else
      errors.add(fault.rank, 1, std::move(fault.message));
  }
  errors.throw_any();
  return csv;
}

}  // namespace syncline::pipeline
