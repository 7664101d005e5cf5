#include "sim/score/row_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "sim/config/catalogue.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"

namespace syncline::score {
namespace {

constexpr std::size_t CommentColumn = 34;
constexpr std::string_view Omitted = "default";  // a rule takes a key back

/// Cells that are keys of a scenario as they stand.
struct Key {
  std::string_view column;
  std::string_view path;
};
constexpr std::array Keys{Key{"n_gpus", "topology.accelerators"},
                          Key{"layers", "model.layers"},
                          Key{"hidden", "model.hidden"},
                          Key{"heads", "model.heads"},
                          Key{"kv_heads", "model.kv-heads"},
                          Key{"head_dim", "model.head-size"},
                          Key{"ffn", "model.ffn"},
                          Key{"vocab", "model.vocabulary"},
                          Key{"q_lora_rank", "model.latent.query-rank"},
                          Key{"kv_lora_rank", "model.latent.key-value-rank"},
                          Key{"qk_head_dim", "model.latent.plain"},
                          Key{"qk_rope_head_dim", "model.latent.rotary"},
                          Key{"v_head_dim", "model.latent.value"},
                          Key{"experts", "model.experts.count"},
                          Key{"topk", "model.experts.top-k"},
                          Key{"moe_ffn", "model.experts.ffn"},
                          Key{"shared_expert_ffn", "model.experts.shared-ffn"},
                          Key{"dense_layers", "model.experts.dense-layers"},
                          Key{"tp", "parallel.tp"},
                          Key{"pp", "parallel.pp"},
                          Key{"cp", "parallel.cp"},
                          Key{"dp", "parallel.dp"},
                          Key{"ep", "parallel.ep"},
                          Key{"etp", "parallel.etp"},
                          Key{"gbs", "batch.global"},
                          Key{"mbs", "batch.microbatch"},
                          Key{"seq", "batch.sequence"},
                          Key{"vpp", "pipeline.chunks"}};

/// What a scenario cannot do without, and what to say where the row does not have it.
constexpr std::array Needed{
    Key{"layers", "no layer sizes"},
    Key{"hidden", "no layer sizes"},
    Key{"heads", "no layer sizes"},
    Key{"n_gpus", "the number of accelerators is not known"},
    Key{"seq", "the sequence length is not known"},
    Key{"gbs", "the global batch is not known"},
    Key{"mbs", "the microbatch is not known"},
    Key{"dp", "the parallel plan is not known"},
    Key{"gpu", "the accelerator is not known"},
};

// In a file, blocks stand in this order; others after them.
constexpr std::array<std::string_view, 16> Order{
    "version", "name",      "question", "source",   "topology", "device",    "model",   "parallel",
    "batch",   "precision", "sharding", "pipeline", "moe",      "recompute", "kernels", "attention"};

/// Above 1 only: in a plan without them the key says nothing.
bool is_degree(std::string_view column) {
  constexpr std::array<std::string_view, 6> Degrees{"tp", "pp", "cp", "vpp", "ep", "etp"};
  return std::ranges::find(Degrees, column) != Degrees.end();
}

/// Says something of a model with experts only.
bool is_of_experts(const Setting& setting) {
  constexpr std::array<std::string_view, 4> Prefixes{"model.experts.", "moe.", "parallel.ep", "parallel.etp"};
  return std::ranges::any_of(Prefixes,
                             [&](std::string_view prefix) { return setting.path.starts_with(prefix); });
}

std::vector<Setting> settings_of(const Reading& reading) {
  std::vector<Setting> settings;
  const auto set_by_rule = [&](std::string_view path) {
    return std::ranges::any_of(reading.settings, [&](const Setting& s) { return s.path == path; });
  };
  for (const Key& key : Keys) {
    const std::string& cell = reading.row.text(key.column);
    if (cell.empty() || set_by_rule(key.path) || (is_degree(key.column) && cell == "1")) continue;
    settings.push_back({std::string(key.path), cell, nullptr});
  }
  for (const Setting& setting : reading.settings)
    if (setting.value != Omitted) settings.push_back(setting);
  if (reading.row.number("pp") == 1.0)  // no pipeline, whatever is said of chunks
    std::erase_if(settings, [](const Setting& setting) { return setting.path.starts_with("pipeline."); });
  if (reading.row.number("experts").value_or(0) <= 0) std::erase_if(settings, is_of_experts);
  return settings;
}

/// Why a rule gave a value; of a cell that a rule filled in too.
const Rule* origin_of(const Setting& setting, const Reading& reading) {
  if (setting.rule != nullptr) return setting.rule;
  const auto* key = std::ranges::find(Keys, setting.path, &Key::path);
  if (key == Keys.end()) return nullptr;
  const Rule* origin = nullptr;
  for (const Rule* rule : reading.used)
    for (const auto* list : {&rule->fill, &rule->read})
      if (std::ranges::any_of(*list, [&](const Assignment& a) { return a.target == key->column; }))
        origin = rule;
  return origin;
}

std::string quoted(std::string text) {
  for (char& c : text)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '\'';
  return '"' + text + '"';
}

std::string line_of(std::string line, const Rule* rule) {
  if (rule == nullptr) return line + "\n";
  const std::string_view verb = rule->stated ? "read" : "assumed";
  std::string comment = fmt::format("{} ({})", verb, rule->name);
  if (!rule->because.empty()) comment += ": " + rule->because;
  if (line.size() < CommentColumn) line.resize(CommentColumn, ' ');
  return line + "  # " + comment + "\n";
}

/// The settings below a prefix as a block of lines.
void write_block(const std::vector<Setting>& settings, const std::string& prefix, int depth,
                 const Reading& reading, std::string& text) {
  std::vector<std::string> done;
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  for (const Setting& setting : settings) {
    if (!setting.path.starts_with(prefix)) continue;
    const std::string rest = setting.path.substr(prefix.size());
    const std::size_t dot = rest.find('.');
    const std::string key = rest.substr(0, dot);
    if (dot == std::string::npos) {
      text += line_of(fmt::format("{}{}: {}", indent, key, setting.value), origin_of(setting, reading));
    } else if (std::ranges::find(done, key) == done.end()) {
      done.push_back(key);
      text += fmt::format("{}{}:\n", indent, key);
      write_block(settings, prefix + key + ".", depth + 1, reading, text);
    }
  }
}

/// What the row printed, where it is a metric of ours.
std::string published_of(const TrainingRow& row) {
  struct Figure {
    std::string_view column, metric, unit;
  };
  std::string text;
  for (const Figure& figure : {Figure{"step_time", "step-time", "s"},
                               Figure{"tokens_per_s_per_gpu", "tokens-per-s-per-accelerator", ""},
                               Figure{"memory_bytes", "peak-memory", "B"}}) {
    const std::optional<double> value = row.number(figure.column);
    if (!value || *value <= 0) continue;
    text += fmt::format("  - {{metric: {}, value: {}{}, source: {}}}\n", figure.metric, exact_text(*value),
                        figure.unit, quoted(row.blank("source") ? row.table() : row.text("source")));
  }
  return text.empty() ? "" : "published:\n" + text;
}

std::string scenario_text(const Reading& reading, std::vector<Setting> settings) {
  const TrainingRow& row = reading.row;
  const auto place = [](const Setting& setting) {
    return std::ranges::find(Order, std::string_view(setting.path).substr(0, setting.path.find('.'))) -
           Order.begin();
  };
  std::ranges::stable_sort(settings, {}, place);
  std::string text = "version: 1\n";
  text += fmt::format("name: {}\n", quoted(row.id()));
  text += fmt::format("question: {}\n",
                      quoted(fmt::format("how fast does {} train on {} x {}?", row.text("model"),
                                         row.text("n_gpus"), row.text("gpu"))));
  if (!row.blank("source")) text += fmt::format("source: {}\n", quoted(row.text("source")));
  write_block(settings, "", 0, reading, text);
  return text + "run: {fold: true}\n" + published_of(row);
}

/// Something of the rule is left: a later one has not replaced all that it set.
bool counts(const Rule& rule, const Reading& reading) {
  return !rule.fill.empty() || !rule.read.empty() ||
         std::ranges::any_of(reading.settings,
                             [&](const Setting& s) { return s.rule == &rule && s.value != Omitted; });
}

std::string refusal_of(const Reading& reading) {
  if (!reading.refusal.empty()) return reading.refusal;
  for (const Key& need : Needed)
    if (reading.row.blank(need.column)) return std::string(need.path);
  const auto sets = [&](std::string_view path) {
    return std::ranges::any_of(reading.settings,
                               [&](const Setting& setting) { return setting.path == path; });
  };
  if (!sets("device.base")) return unknown_name("accelerator", reading.row.text("gpu"), names_in(Devices));
  return "";
}

}  // namespace

RowScenario scenario_of(const TrainingRow& row, const std::vector<Rule>& rules) {
  const Reading reading = read_row(row, rules);
  RowScenario result{reading.row, "", refusal_of(reading), "", {}};
  for (const Rule* rule : reading.used)
    if (!rule->stated && counts(*rule, reading)) result.assumptions.push_back(rule->name);
  if (!result.refusal.empty()) return result;
  const std::vector<Setting> settings = settings_of(reading);
  for (const Setting& setting : settings) result.plan += fmt::format("{}={};", setting.path, setting.value);
  result.text = scenario_text(reading, settings);
  return result;
}

}  // namespace syncline::score
