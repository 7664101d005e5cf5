#include "tests/pipeline/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace syncline::pipeline::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream stream(text);
  while (std::getline(stream, part, separator)) parts.push_back(part);
  if (text.empty() || text.back() == separator) parts.emplace_back();
  return parts;
}

// "1;2;3"
std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  for (const std::string& part : split(text, ';')) values.push_back(std::stod(part));
  return values;
}

std::vector<int> counts(const std::string& text) {
  std::vector<int> values;
  for (const std::string& part : split(text, ';')) values.push_back(std::stoi(part));
  return values;
}

// One figure stands for all stages.
Costs make_costs(std::size_t stages, const std::vector<double>& forward, const std::vector<double>& input,
                 const std::vector<double>& weight, double hop) {
  const auto of = [](const std::vector<double>& list, std::size_t stage) {
    return Seconds(list.size() == 1 ? list.front() : list.at(stage));
  };
  Costs costs;
  for (std::size_t s = 0; s < stages; ++s)
    costs.stages.push_back({of(forward, s), of(input, s), of(weight, s)});
  costs.hop = Seconds(hop);
  return costs;
}

std::vector<double> one_or_list(const json& value) {
  return value.is_array() ? value.get<std::vector<double>>() : std::vector<double>{value.get<double>()};
}

PublishedOrder read_order(const json& line, const std::string& file) {
  PublishedOrder o;
  o.id = line.at("id");
  o.schedule = line.at("schedule");
  o.source = line.at("source");
  o.p = line.at("p");
  o.m = line.at("m");
  o.v = line.at("v");
  o.text = line.at("order").get<std::vector<std::string>>();
  o.order = parse_order(fmt::format("{}\n", fmt::join(o.text, "\n")), file + ": " + o.id);
  const json& params = line.at("params");
  if (params.contains("microbatch_group_size_per_vp_stage"))
    o.group_size = params["microbatch_group_size_per_vp_stage"].get<int>();
  if (params.contains("mem_fbw"))
    o.memory = ActivationMemory{params["mem_fbw"].at(0), params["mem_fbw"].at(1), params["mem_fbw"].at(2)};
  if (params.contains("max_mem_in_units_of_mem_f") && !params["max_mem_in_units_of_mem_f"].is_null())
    o.memory_limit = params["max_mem_in_units_of_mem_f"].get<double>();
  if (params.contains("ilp_objective_span")) o.best_span = params["ilp_objective_span"].get<double>();
  if (const json& costs = line.at("gen_costs_F_B_W_comm"); !costs.is_null())
    o.costs = make_costs(static_cast<std::size_t>(o.order.stages), one_or_list(costs.at(0)),
                         one_or_list(costs.at(1)), one_or_list(costs.at(2)), costs.at(3));
  return o;
}

PublishedTorchCsv read_torch(const json& line) {
  return {line.at("id"),           line.at("schedule"),     line.at("p"), line.at("m"), line.at("v"),
          line.at("compute_only"), line.at("compute_comms")};
}

// Calls `take` with each line that is no comment; an error names file and line.
void for_each_line(const fs::path& path, const std::function<void(const std::string&)>& take) {
  std::ifstream stream(path);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    try {
      take(line);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path.string(), number, error.what()));
    }
  }
}

// The first line of a .jsonl holds the sources.
template <class Row>
void read_jsonl(const fs::path& path, std::vector<Row>& rows, const std::function<Row(const json&)>& read) {
  for_each_line(path, [&](const std::string& text) {
    const json line = json::parse(text);
    if (!line.contains("header")) rows.push_back(read(line));
  });
}

void read_replays(const fs::path& path, Published& data, const std::map<std::string, std::size_t>& position) {
  std::vector<std::string> names;
  for_each_line(path, [&](const std::string& text) {
    const std::vector<std::string> cells = split(text, ',');
    if (names.empty()) {
      names = cells;
      return;
    }
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells.at(i);
    PublishedReplay r;
    r.id = row.at("id");
    r.order = position.at(r.id);
    r.costs = make_costs(static_cast<std::size_t>(data.orders[r.order].order.stages), numbers(row.at("F")),
                         numbers(row.at("B")), numbers(row.at("W")), std::stod(row.at("comm")));
    if (!row.at("FB").empty()) r.costs.fused = Seconds(std::stod(row.at("FB")));
    r.makespan = std::stod(row.at("makespan"));
    r.bubble_fraction = std::stod(row.at("bubble_fraction"));
    r.max_rank_span = std::stod(row.at("max_rank_span"));
    r.busy = numbers(row.at("rank_busy"));
    r.internal_idle = numbers(row.at("rank_internal_idle"));
    r.peak_activations = counts(row.at("peak_activations"));
    r.peak_activations_free_at_input = counts(row.at("peak_activations_free_at_I"));
    data.replays.push_back(std::move(r));
  });
}

std::vector<fs::path> files(const fs::path& folder, const std::string& prefix, const std::string& extension) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (path.filename().string().starts_with(prefix) && path.extension() == extension) found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::string compact_folder() {
  return SYNCLINE_SOURCE_DIR "/validation/pipeline";
}
std::string whole_folder() {
  return SYNCLINE_SOURCE_DIR "/../shared/data/pipeline";
}

std::optional<Published> load_published(const std::string& folder) {
  if (!fs::is_directory(folder)) return std::nullopt;
  Published data;
  for (const fs::path& path : files(folder, "orders", ".jsonl"))
    read_jsonl<PublishedOrder>(path, data.orders,
                               [&](const json& line) { return read_order(line, path.filename().string()); });
  std::map<std::string, std::size_t> position;
  for (std::size_t i = 0; i < data.orders.size(); ++i) position[data.orders[i].id] = i;
  for (const fs::path& path : files(folder, "replay", ".csv")) read_replays(path, data, position);
  for (const fs::path& path : files(folder, "torch-csv", ".jsonl"))
    read_jsonl<PublishedTorchCsv>(path, data.torch_csvs, read_torch);
  return data;
}

std::vector<Published> all_published() {
  std::vector<Published> sets;
  for (const std::string& folder : {compact_folder(), whole_folder()})
    if (std::optional<Published> data = load_published(folder)) sets.push_back(std::move(*data));
  return sets;
}

}  // namespace syncline::pipeline::testing
