#include "sim/calibrate/expert_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <utility>

#include "sim/calibrate/table_row.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"

namespace syncline::calibrate {
namespace {

bool found_in(const std::string& text, const std::string& pattern) {
  return pattern.empty() || std::regex_search(text, std::regex(pattern));
}

struct Row : TableRow {
  using TableRow::TableRow;

  /// Nothing where the cell is empty.
  [[nodiscard]] std::optional<double> given(std::string_view column) const {
    return text(column).empty() ? std::nullopt : std::optional(number(column));
  }
  /// @param otherwise  where the cell is empty
  [[nodiscard]] int count(std::string_view column, int otherwise) const {
    return text(column).empty() ? otherwise : static_cast<int>(whole(column));
  }
  /// @param what  of the names, for messages
  template <class Enum>
  [[nodiscard]] Enum named(std::string_view column, std::string_view what, const Names<Enum>& names) const {
    std::vector<std::string> known;
    for (const auto& [word, meaning] : names) {
      if (word == text(column)) return meaning;
      known.push_back(word);
    }
    fail(unknown_name(what, text(column), known));
  }
};

struct Owner {
  std::size_t library = 0, kernel = 0;
};

/// @param strictly  the GPU too; else as one that stands for it
std::optional<Owner> owner(const Row& row, int nodes, std::span<const ExpertLibrary> libraries,
                           bool strictly) {
  for (std::size_t l = 0; l < libraries.size(); ++l) {
    const ExpertLibrary& library = libraries[l];
    if (!found_in(row.text("library"), library.rows.library)) continue;
    const bool fits = strictly ? found_in(row.text("gpu"), library.rows.gpu) &&
                                     found_in(row.text("network"), library.rows.network) &&
                                     found_in(row.text("source"), library.rows.source)
                               : !library.stands_for.empty() && found_in(row.text("gpu"), library.stands_for);
    if (!fits) continue;
    for (std::size_t k = 0; k < library.kernels.size(); ++k)
      if (library.kernels[k].fits(nodes) && found_in(row.text("kernel"), library.kernels[k].rows))
        return Owner{l, k};
  }
  return std::nullopt;
}

TokenPrecision precision_of(const Row& row, DispatchOp op, const ExpertBenchmark& benchmark) {
  if (op == DispatchOp::CombineLowPrecision) return TokenPrecision::NvFp4;
  const bool combines = op == DispatchOp::Combine;
  const std::string_view column = combines ? "combine_dtype" : "dispatch_dtype";
  if (row.text(column).empty()) return combines ? benchmark.combine : benchmark.dispatch;
  Names<TokenPrecision> names = token_precisions();
  names.emplace_back("bfloat16", TokenPrecision::Bf16);
  return row.named(column, column, names);
}

moe::DispatchShape shape_of(const Row& row, int nodes, const ExpertBenchmark& benchmark) {
  moe::DispatchShape shape;
  shape.ranks = row.count("ep_ranks", 0);
  shape.nodes = nodes;
  shape.experts = row.count("experts", benchmark.experts);
  shape.top_k = row.count("topk", benchmark.top_k);
  shape.top_nodes = benchmark.top_nodes;
  shape.round_robin = benchmark.round_robin;
  if (shape.ranks == 0) row.fail("column \"ep_ranks\" is empty");
  if (shape.ranks % nodes != 0)
    row.fail(fmt::format("{} ranks are no whole number on each of {} nodes", shape.ranks, nodes));
  if (shape.experts % shape.ranks != 0)  // who ran it had some that do, as near as can be
    shape.experts = (shape.experts + shape.ranks - 1) / shape.ranks * shape.ranks;
  if (shape.top_k > shape.experts)
    row.fail(fmt::format("{} experts chosen out of {}", shape.top_k, shape.experts));
  return shape;
}

/// Of the bytes that a bandwidth of this kind counts.
double counted_copies(const std::string& kind, const moe::TokenCopies& copies) {
  return kind == "RDMA" ? copies.nodes : copies.ranks;
}

std::optional<Seconds> measured_time(const Row& row, const moe::TokenCopies& copies, double tokens,
                                     Bytes copy) {
  if (const std::optional<double> time = row.given("time_us")) return Seconds(*time * 1e-6);
  const std::optional<double> rate = row.given("bandwidth_gbps");
  if (!rate) return std::nullopt;
  return tokens * counted_copies(row.text("bandwidth_kind"), copies) * copy / BytesPerSecond(*rate * 1e9);
}

std::string series_of(const Row& row) {
  std::string series;
  for (const char* column : {"source", "library", "kernel", "gpu", "network", "ep_ranks", "nodes", "hidden",
                             "topk", "experts", "sms"})
    series += row.text(column) + "|";
  return series;
}

/// A preparation sends counts, no tokens.
void send_nothing(moe::DispatchLoad& load) {
  load.moved = load.inside = load.between = Bytes(0);
}

void require_columns(const CsvTable& table) {
  for (const std::string_view column : {"library", "kernel", "gpu", "ep_ranks", "op"})
    if (!table.has(column))
      throw InputError({{table.name(), 1, 0, ""}, fmt::format("there is no column {}", column)});
}

}  // namespace

ExpertTable read_expert_rows(const CsvTable& table, std::span<const ExpertLibrary> libraries) {
  require_columns(table);
  ExpertTable found;
  std::map<std::string, int> left_out;
  for (std::size_t r = 0; r < table.size(); ++r) {
    const Row row(table, r);
    const int nodes = row.count("nodes", 1);
    std::optional<Owner> of = owner(row, nodes, libraries, true);
    const bool stands_in = !of;
    if (!of) of = owner(row, nodes, libraries, false);
    if (!of) {
      ++left_out[fmt::format("no library of {} {} on {}", row.text("library"), row.text("kernel"),
                             row.text("gpu"))];
      continue;
    }
    const ExpertLibrary& library = libraries[of->library];
    const ExpertKernel& kernel = library.kernels[of->kernel];
    const DispatchOp op = row.named("op", "op", dispatch_ops());
    const moe::DispatchShape shape = shape_of(row, nodes, library.benchmark);
    const moe::TokenCopies copies = moe::expected_copies(kernel.travel, shape);
    const double tokens = row.count("tokens_per_rank", library.benchmark.tokens);
    const Bytes copy = token_bytes(row.count("hidden", library.benchmark.hidden),
                                   precision_of(row, op, library.benchmark), library.benchmark.scale_block);
    const std::optional<Seconds> time = measured_time(row, copies, tokens, copy);
    if (!time) {
      ++left_out["neither a time nor a bandwidth"];
      continue;
    }
    moe::DispatchLoad load =
        moe::load_of(copies, shape, tokens, copy, lanes_of(kernel, shape.ranks, row.count("sms", 0)));
    if (op == DispatchOp::Prepare) send_nothing(load);
    found.rows.push_back({row.id(), of->library, of->kernel, op, stands_in, series_of(row), load, *time});
  }
  for (const auto& [why, rows] : left_out)
    found.left_out.push_back(fmt::format("{} row{}: {}", rows, rows == 1 ? "" : "s", why));
  return found;
}

}  // namespace syncline::calibrate
