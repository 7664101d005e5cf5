#include "sim/score/training_row.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "sim/core/units.hpp"

namespace syncline::score {
namespace {

enum class Cell : unsigned char { Word, Number, NumberOrWord };

struct Column {
  std::string_view in_file;
  std::string_view name;  // ours
  Cell cell = Cell::Number;
  double unit = 1;  // SI units that one of the file's is
};

// Both sets of columns; where a file has two of one name, the first that is not blank counts.
constexpr std::array Columns{
    Column{"id", "id", Cell::Word},
    Column{"source", "source", Cell::Word},
    Column{"source_loc", "place", Cell::Word},
    Column{"set", "source", Cell::Word},
    Column{"framework", "framework", Cell::Word},
    Column{"quality", "quality", Cell::Word},
    Column{"confidence", "confidence", Cell::Word},
    Column{"note", "note", Cell::Word},
    // model
    Column{"model", "model", Cell::Word},
    Column{"params_b", "params", Cell::Number, 1e9},
    Column{"layers", "layers"},
    Column{"layers_per_stage", "layers_per_stage", Cell::Word},
    Column{"hidden", "hidden"},
    Column{"heads", "heads"},
    Column{"kv_heads", "kv_heads", Cell::NumberOrWord},
    Column{"head_dim", "head_dim"},
    Column{"ffn", "ffn"},
    Column{"gated_mlp", "gated_mlp"},
    Column{"vocab_padded", "vocab_padded"},
    Column{"vocab", "vocab"},
    Column{"tied_embeddings", "tied_embeddings"},
    Column{"lm_head", "lm_head"},
    Column{"seq", "seq"},
    Column{"attention", "attention", Cell::Word},
    Column{"flash_attention", "flash_attention"},
    Column{"q_lora_rank", "q_lora_rank"},
    Column{"kv_lora_rank", "kv_lora_rank"},
    Column{"qk_head_dim", "qk_head_dim"},
    Column{"qk_rope_head_dim", "qk_rope_head_dim"},
    Column{"v_head_dim", "v_head_dim"},
    Column{"experts", "experts", Cell::NumberOrWord},
    Column{"topk", "topk"},
    Column{"moe_ffn", "moe_ffn"},
    Column{"shared_expert_ffn", "shared_expert_ffn"},
    Column{"dense_layers", "dense_layers"},
    // batch and plan
    Column{"gbs", "gbs"},
    Column{"mbs", "mbs"},
    Column{"num_microbatches", "microbatches"},
    Column{"microbatches", "microbatches"},
    Column{"grad_accum", "microbatches"},
    Column{"tp", "tp"},
    Column{"sp", "sp"},
    Column{"pp", "pp"},
    Column{"vpp", "vpp"},
    Column{"cp", "cp"},
    Column{"cp_comm", "cp_comm", Cell::Word},
    Column{"dp", "dp"},
    Column{"ep", "ep"},
    Column{"etp", "etp"},
    Column{"moe_capacity_factor", "moe_capacity_factor"},
    Column{"moe_dispatcher", "moe_dispatcher", Cell::Word},
    Column{"fsdp", "fsdp", Cell::Word},
    Column{"sharding", "sharding", Cell::Word},
    Column{"n_slices", "n_slices"},
    Column{"zero_stage", "zero_stage"},
    Column{"optimizer", "optimizer", Cell::Word},
    Column{"optimizer_sharding", "optimizer_sharding"},
    Column{"recompute", "recompute", Cell::Word},
    Column{"precision", "precision", Cell::Word},
    Column{"grad_dtype", "grad_dtype", Cell::Word},
    Column{"cross_entropy_fusion", "cross_entropy_fusion"},
    Column{"tp_overlap", "tp_overlap"},
    Column{"dp_overlap", "dp_overlap"},
    Column{"pp_p2p_overlap", "pp_p2p_overlap"},
    Column{"schedule", "schedule", Cell::Word},
    // system
    Column{"gpu", "gpu", Cell::Word},
    Column{"stage_gpus", "stage_gpus", Cell::Word},
    Column{"n_gpus", "n_gpus"},
    Column{"gpus_per_node", "gpus_per_node"},
    Column{"network", "network", Cell::Word},
    Column{"intra_node_network", "network_inside", Cell::Word},
    Column{"inter_node_network", "network", Cell::Word},
    Column{"intra_node_bandwidth_bytes_per_s_per_gpu", "bandwidth_inside"},
    Column{"inter_node_bandwidth_bytes_per_s_per_gpu", "bandwidth_between"},
    Column{"topology", "topology", Cell::Word},
    // measured
    Column{"iter_time_s", "step_time"},
    Column{"iteration_time_s", "step_time"},
    Column{"tokens_per_s_per_gpu", "tokens_per_s_per_gpu"},
    Column{"samples_per_s", "samples_per_s"},
    Column{"samples_per_s_per_gpu", "samples_per_s_per_gpu"},
    Column{"tflops_per_gpu", "flops_per_gpu", Cell::Number, 1e12},
    Column{"mfu_pct", "mfu", Cell::Number, 0.01},
    Column{"mem_gb", "memory_bytes", Cell::Number, 1e9},
    Column{"peak_memory_bytes", "memory_bytes"},
    Column{"peak_memory_kind", "memory_kind", Cell::Word},
    Column{"memory_run", "memory_run", Cell::Word},
};

// Not in any file: set by rules.
constexpr std::array Derived{
    std::string_view("table"),      std::string_view("words"),
    std::string_view("software"),    // which program ran, as the rules name it
    std::string_view("release"),     // of that program, a number
    std::string_view("flop_count"),  // how the source counts FLOP, see measured_time.hpp
};

std::string number_text(const CsvTable& table, std::size_t row, const Column& column,
                        const std::string& cell) {
  double value = 0;
  try {
    value = parse_number(cell) * column.unit;
  } catch (const std::invalid_argument&) {
    if (column.cell == Cell::NumberOrWord) return cell;
    throw InputError(
        Diagnostic{table.place(row), fmt::format("column \"{}\": expected a number, not \"{}\"; leave the "
                                                 "cell blank where it is not known",
                                                 column.in_file, cell)});
  }
  if (value < 0)
    throw InputError(Diagnostic{
        table.place(row), fmt::format("column \"{}\" is {}; expected 0 or more", column.in_file, cell)});
  return exact_text(value);
}

}  // namespace

TrainingRow::TrainingRow(const CsvTable& table, std::size_t row)
    : table_(std::filesystem::path(table.name()).stem().string()), place_(table.place(row)) {
  std::string words;
  for (const Column& column : Columns) {
    std::string& cell = cells_[std::string(column.name)];
    const std::string& found = table.at(row, column.in_file);
    if (found.empty()) continue;
    if (column.cell == Cell::Word) words += found + " | ";
    if (!cell.empty()) continue;
    cell = column.cell == Cell::Word ? found : number_text(table, row, column, found);
  }
  for (const std::string_view name : Derived) cells_[std::string(name)];
  cells_["table"] = table_;
  cells_["words"] = words;
  if (id().empty()) throw InputError(Diagnostic{place_, "has no \"id\"; every row needs one"});
}

const std::string& TrainingRow::text(std::string_view column) const {
  const auto cell = cells_.find(column);
  if (cell == cells_.end()) throw std::invalid_argument(unknown_name("column", column, row_columns()));
  return cell->second;
}

std::optional<double> TrainingRow::number(std::string_view column) const {
  const std::string& cell = text(column);
  if (cell.empty()) return std::nullopt;
  try {
    return parse_number(cell);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

void TrainingRow::put(std::string_view column, std::string text) {
  const auto cell = cells_.find(column);
  if (cell == cells_.end()) throw std::invalid_argument(unknown_name("column", column, row_columns()));
  cell->second = std::move(text);
}

void TrainingRow::complete() {
  // whole = the product of the parts; one of them that is blank follows from the rest. A degree of tensor, pipeline or
  // context parallelism does not: there may be one more axis than there are columns.
  const auto is_degree = [](std::string_view part) { return part == "tp" || part == "pp" || part == "cp"; };
  const auto solve = [this, is_degree](std::string_view whole,
                                       std::initializer_list<std::string_view> parts) {
    std::string_view missing;
    double product = 1;
    for (const std::string_view part : parts) {
      const std::optional<double> value = number(part);
      if (!value && !missing.empty()) return;
      if (!value)
        missing = part;
      else
        product *= *value;
    }
    const std::optional<double> total = number(whole);
    if (!total && missing.empty()) return put(whole, exact_text(product));
    if (total && !missing.empty() && !is_degree(missing) && product > 0)
      put(missing, exact_text(*total / product));
  };
  solve("n_gpus", {"tp", "pp", "cp", "dp"});
  solve("gbs", {"dp", "mbs", "microbatches"});
}

std::vector<TrainingRow> read_training_rows(const CsvTable& table) {
  std::vector<TrainingRow> rows;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < table.size(); ++i) {
    rows.emplace_back(table, i);
    if (!ids.insert(rows.back().id()).second)
      throw InputError(Diagnostic{table.place(i), fmt::format("repeats the id \"{}\"", rows.back().id())});
  }
  return rows;
}

std::vector<std::string> row_columns() {
  std::set<std::string> names;
  for (const Column& column : Columns) names.emplace(column.name);
  for (const std::string_view name : Derived) names.emplace(name);
  return {names.begin(), names.end()};
}

}  // namespace syncline::score
