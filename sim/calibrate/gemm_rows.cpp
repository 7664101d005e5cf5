#include "sim/calibrate/gemm_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "sim/calibrate/table_row.hpp"

namespace syncline::calibrate {
namespace {

struct Format {
  std::string_view name;  // as in the column dtype
  Precision precision;
  double bytes;  // a number, its share of the scales included
};
constexpr Format Formats[]{{"fp32", Precision::Fp32, 4},           {"float32", Precision::Fp32, 4},
                           {"tf32", Precision::Tf32, 4},           {"fp16", Precision::Fp16, 2},
                           {"float16", Precision::Fp16, 2},        {"bf16", Precision::Bf16, 2},
                           {"bfloat16", Precision::Bf16, 2},       {"fp8", Precision::Fp8, 1},
                           {"fp8 e4m3", Precision::Fp8, 1},        {"fp8_block", Precision::Fp8Block, 1},
                           {"int8", Precision::Int8, 1},           {"nvfp4", Precision::Fp4, 0.5 + 1.0 / 16},
                           {"fp4", Precision::Fp4, 0.5 + 1.0 / 32}};

struct Row : TableRow {
  using TableRow::TableRow;

  [[nodiscard]] const Format& format(std::string_view column) const {
    const auto found = std::ranges::find(Formats, text(column), &Format::name);
    if (found == std::end(Formats)) {
      std::vector<std::string> known;
      for (const Format& format : Formats) known.emplace_back(format.name);
      fail(unknown_name(column, text(column), known));
    }
    return *found;
  }
};

KernelRow common(const Row& row, KernelClass kind) {
  KernelRow out;
  out.id = row.id();
  out.source = row.text("source");
  out.kernel.kind = kind;
  out.kernel.precision = row.format("dtype").precision;
  if (!row.text("peak_tflops").empty()) out.peak = FlopPerSecond(row.number("peak_tflops") * 1e12);
  return out;
}

KernelRow product(const Row& row) {
  KernelRow out = common(row, KernelClass::Gemm);
  Kernel& kernel = out.kernel;
  const std::string& stage = row.text("stage");
  if (kernel.precision == Precision::Fp8 && row.text("kind").find("block") != std::string::npos)
    kernel.precision = Precision::Fp8Block;
  kernel.m = row.whole("m"), kernel.n = row.whole("n"), kernel.k = row.whole("k");
  if (!row.text("groups").empty()) {
    kernel.batch = row.whole("groups");
    kernel.grouped = true;
    kernel.launches = static_cast<int>(kernel.batch);
  }
  if (stage == "bwd_grad_act") std::swap(kernel.n, kernel.k);
  if (stage == "bwd_grad_w") std::swap(kernel.m, kernel.k);
  const double m = static_cast<double>(kernel.m), n = static_cast<double>(kernel.n),
               k = static_cast<double>(kernel.k), batch = static_cast<double>(kernel.batch);
  const double result = row.text("out_dtype").empty() ? 2 : row.format("out_dtype").bytes;
  out.bytes_said = stage != "bwd_grad_w" || result == 4;
  const bool accumulates = stage.find("accumulate=True") != std::string::npos || stage == "bwd_grad_w";
  kernel.flop = Flop(2 * m * n * k * batch);
  kernel.hbm =
      Bytes(batch * ((m * k + k * n) * row.format("dtype").bytes + m * n * result * (accumulates ? 2 : 1)));
  out.time = kernel.flop / FlopPerSecond(row.number("achieved_tflops") * 1e12);
  return out;
}

/// "batch=1; seq_len=4096; ..." as a map.
std::map<std::string, std::string> settings(std::string_view note) {
  std::map<std::string, std::string> all;
  while (!note.empty()) {
    const std::size_t end = std::min(note.find(';'), note.size());
    std::string_view part = note.substr(0, end);
    note.remove_prefix(std::min(end + 1, note.size()));
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos) all.emplace(part.substr(0, equals), part.substr(equals + 1));
  }
  return all;
}

KernelRow attention(const Row& row, bool backward) {
  KernelRow out = common(row, KernelClass::Attention);
  std::map<std::string, std::string> note = settings(row.text("note"));
  const auto of = [&](const std::string& key) { return row.number("note: " + key, note[key]); };
  const double batch = of("batch"), sequence = of("seq_len"), heads = of("head_num"), qk = of("qk_head_dim"),
               v = of("v_head_dim");
  out.kernel.backward = backward;
  out.kernel.batch = static_cast<std::int64_t>(batch * heads);
  out.kernel.m = out.kernel.n = static_cast<std::int64_t>(sequence);
  out.kernel.k = static_cast<std::int64_t>(qk);
  const Flop square((backward ? 5 : 2) * batch * heads * sequence * sequence * (qk + v));
  out.kernel.flop = Flop(batch * heads * sequence * sequence * (backward ? 3 * qk + 2 * v : qk + v));
  out.kernel.hbm =
      Bytes((backward ? 4 : 2) * batch * heads * sequence * (qk + v) * row.format("dtype").bytes);
  out.time = square / FlopPerSecond(row.number("achieved_tflops") * 1e12);
  return out;
}

/// The list a row goes to, by its kind; none where it is of no use here.
void take(const Row& row, KernelRows& rows) {
  const std::string& kind = row.text("kind");
  if (kind == "attention fwd") return rows.attention.push_back(attention(row, false));
  if (kind == "attention bwd") return rows.attention.push_back(attention(row, true));
  if (kind.find("best shape") != std::string::npos) return rows.best.push_back(product(row));
  if (!row.text("groups").empty()) {
    if (kind.find("masked") == std::string::npos) rows.grouped.push_back(product(row));
    return;
  }
  rows.products.push_back(product(row));
}

[[noreturn]] void no_such_chip(const CsvTable& table, const std::string& chip) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < table.size(); ++i) names.insert(table.at(i, "chip"));
  const std::vector<std::string> known(names.begin(), names.end());
  throw InputError(
      Diagnostic{{table.name(), 0, 0, ""}, "no row has this chip: " + unknown_name("chip", chip, known)});
}

}  // namespace

KernelRows read_kernel_rows(const CsvTable& table, const std::string& chip) {
  std::vector<Diagnostic> missing;
  for (const char* column : {"chip", "kind", "m", "n", "k", "dtype", "achieved_tflops"})
    if (!table.has(column))
      missing.push_back(
          {{table.name(), 1, 0, ""},
           fmt::format("column \"{}\" is missing; there are {}", column, fmt::join(table.columns(), ", "))});
  if (!missing.empty()) throw InputError(missing);
  KernelRows rows;
  bool found = false;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table.at(i, "chip") != chip) continue;
    found = true;
    take(Row(table, i), rows);
  }
  if (!found) no_such_chip(table, chip);
  return rows;
}

}  // namespace syncline::calibrate
