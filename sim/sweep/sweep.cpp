#include "sim/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "sim/config/format_parts.hpp"
#include "sim/report/summary.hpp"

namespace syncline::sweep {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> DefaultMetrics{"step-time", "tokens-per-s-per-accelerator", "mfu",
                                              "exposed-communication", "peak-memory"};

bool is_labelled(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::Map && node.entries.size() == 2 && node.find("label") != nullptr &&
         node.find("value") != nullptr;
}

Value value_of(const ConfigValue& item) {
  const ConfigNode& node = item.node;
  if (!is_labelled(node))
    return {one_line(node.kind == ConfigNode::Kind::Scalar ? node.text : to_flow_yaml(node)), node};
  Value value{"", node.find("value")->value};
  const ConfigEntry& label = *node.find("label");
  codec(value.label).read({label.value, label.mark, item.below("label"), item.errors});
  value.label = one_line(value.label);
  return value;
}

/// The values of one path. A row is told from another by its labels, so they differ.
std::vector<Value> values_of(const ConfigValue& list) {
  std::vector<Value> values;
  for (const ConfigValue& item : list_items(list)) {
    Value value = value_of(item);
    if (std::ranges::find(values, value.label, &Value::label) != values.end())
      list.errors.add(item.node.mark.place(),
                      fmt::format("\"{}\": the value {} stands here twice", list.path, value.label));
    values.push_back(std::move(value));
  }
  if (values.empty()) list.fail("is an empty list; give at least one value");
  return values;
}

bool is_map(const ConfigValue& value) {
  if (value.node.kind == ConfigNode::Kind::Map) return true;
  if (value.node.kind != ConfigNode::Kind::Faulty)
    value.fail("expected paths with values such as \"parallel.tp: [1, 2, 4]\"");
  return false;
}

void read_cross(const ConfigValue& cross, std::vector<Axis>& axes) {
  if (!is_map(cross)) return;
  for (const ConfigEntry& entry : cross.node.entries) {
    Axis axis{{{entry.key, entry.mark}}, {}};
    for (Value& value : values_of({entry.value, entry.mark, entry.key, cross.errors}))
      axis.steps.push_back({std::move(value)});
    axes.push_back(std::move(axis));
  }
}

/// Paths of a zip have values of one number; labels may repeat in one path, not in all of them.
std::optional<Axis> zip_axis(const ConfigValue& group) {
  if (!is_map(group)) return std::nullopt;
  Axis axis;
  for (const ConfigEntry& entry : group.node.entries) {
    std::vector<Value> values;
    for (const ConfigValue& item : list_items({entry.value, entry.mark, entry.key, group.errors}))
      values.push_back(value_of(item));
    if (axis.paths.empty()) axis.steps.resize(values.size());
    if (values.size() != axis.steps.size()) {
      group.errors.add(
          entry.mark.place(),
          fmt::format("\"{}\" has {} values, \"{}\" in the same zip has {}; they go together one by one",
                      entry.key, values.size(), axis.paths.front().path, axis.steps.size()));
      return std::nullopt;
    }
    axis.paths.push_back({entry.key, entry.mark});
    for (std::size_t i = 0; i < values.size(); ++i) axis.steps[i].push_back(std::move(values[i]));
  }
  if (axis.steps.empty()) {
    group.fail("is empty; give each path at least one value");
    return std::nullopt;
  }
  return axis;
}

void read_zips(const ConfigValue& zips, std::vector<Axis>& axes) {
  for (const ConfigValue& group : list_items(zips))
    if (std::optional<Axis> axis = zip_axis(group)) axes.push_back(std::move(*axis));
}

void read_seeds(const ConfigValue& seeds, std::vector<Axis>& axes) {
  std::vector<std::uint64_t> numbers;
  codec(numbers, FromZero).read(seeds);
  Axis axis{{{"run.seed", seeds.mark}}, {}};
  for (Value& value : values_of(seeds)) axis.steps.push_back({std::move(value)});
  axes.push_back(std::move(axis));
}

void read_fixed(const ConfigValue& set, std::vector<Setting>& fixed) {
  if (!is_map(set)) return;
  for (const ConfigEntry& entry : set.node.entries) fixed.push_back({entry.key, entry.mark, entry.value});
}

void read_metrics(const ConfigValue& list, std::vector<std::string>& metrics) {
  const std::vector<std::string> known = metric_names();
  metrics.clear();
  for (const ConfigValue& item : list_items(list)) {
    std::string name;
    codec(name).read(item);
    if (std::ranges::find(known, name) == known.end())
      item.fail(unknown_name("metric", name, known));
    else if (std::ranges::find(metrics, name) != metrics.end())
      item.fail(fmt::format("the metric {} stands here twice", name));
    metrics.push_back(std::move(name));
  }
  if (metrics.empty()) list.fail("is an empty list; name at least one metric");
}

template <class Into>
Field read_only(std::string_view key, std::string expects, Into& into,
                void (*read)(const ConfigValue&, Into&)) {
  return {key,
          false,
          {std::move(expects), [&into, read](const ConfigValue& value) { read(value, into); },
           [] { return ConfigNode{}; }}};
}

/// A sweep as it stands in its file: axes in three places.
struct Parts {
  std::vector<Axis> cross, zips, seeds;
};

Fields fields_of(Sweep& sweep, Parts& parts) {
  PlotRequest& plot = sweep.plot;
  return {version_field(true),
          required("scenario", sweep.scenario_file),
          optional("question", sweep.question),
          optional("source", sweep.source),
          read_only("set", "paths with values", sweep.fixed, read_fixed),
          read_only("cross", "paths with lists of values", parts.cross, read_cross),
          read_only("zip", "a list of groups of paths", parts.zips, read_zips),
          read_only("seeds", "a list of whole numbers", parts.seeds, read_seeds),
          read_only("metrics", "a list of metrics", sweep.metrics, read_metrics),
          optional_block("plot", {optional("kind", plot.kind), optional("x", plot.x), optional("y", plot.y),
                                  optional("group", plot.group)})};
}

/// A path, or one above it, that has a value already, leaves it open which one holds.
void check_distinct(const Sweep& sweep, ConfigErrors& errors) {
  std::vector<Path> seen;
  const auto meet = [&](const Path& path) {
    for (const Path& other : seen)
      if (path.path == other.path)
        errors.add(path.mark.place(), fmt::format("\"{}\" has values already, at {}:{}; keep one of them",
                                                  path.path, other.mark.source->name, other.mark.line));
    seen.push_back(path);
  };
  for (const Path& path : paths_of(sweep)) meet(path);
  for (const Setting& setting : sweep.fixed)  // a --set may change what the file sets, not what it sweeps
    for (const Path& path : paths_of(sweep))
      if (setting.path == path.path)
        errors.add(setting.mark.place(),
                   fmt::format("\"{}\" is swept in line {} of the sweep; it cannot be set as well", path.path,
                               path.mark.line));
}

void check_size(const Sweep& sweep, const ConfigNode& root, ConfigErrors& errors) {
  if (sweep.axes.empty())
    errors.add(root.mark.place(), "nothing is swept; add \"cross\", \"zip\" or \"seeds\"");
  std::size_t points = 1;
  for (const Axis& axis : sweep.axes) {
    points *= axis.steps.size();
    if (points <= MostPoints) continue;
    return errors.add(axis.paths.front().mark.place(),
                      fmt::format("the sweep has more than {} points; leave out values", MostPoints));
  }
}

/// The step of every axis at a point; the last axis changes fastest.
std::vector<std::size_t> steps_at(const Sweep& sweep, std::size_t point) {
  std::vector<std::size_t> steps(sweep.axes.size());
  for (std::size_t i = steps.size(); i-- > 0;) {
    const std::size_t count = sweep.axes[i].steps.size();
    steps[i] = point % count;
    point /= count;
  }
  return steps;
}

template <class Use>
void for_each_value(const Sweep& sweep, std::size_t point, Use use) {
  const std::vector<std::size_t> steps = steps_at(sweep, point);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Axis& axis = sweep.axes[i];
    for (std::size_t j = 0; j < axis.paths.size(); ++j) use(axis.paths[j], axis.steps[steps[i]][j]);
  }
}

/// Every step of every axis once, the others at their first.
std::vector<std::size_t> probing_points(const Sweep& sweep) {
  std::vector<std::size_t> points{0};
  std::size_t stride = 1;
  for (auto axis = sweep.axes.rbegin(); axis != sweep.axes.rend(); ++axis) {
    for (std::size_t step = 1; step < axis->steps.size(); ++step) points.push_back(step * stride);
    stride *= axis->steps.size();
  }
  return points;
}

bool same_place(const Place& place, const ConfigMark& mark) {
  const Place other = mark.place();
  return place.file == other.file && place.line == other.line && place.column == other.column;
}

}  // namespace

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

std::size_t Sweep::size() const {
  std::size_t points = 1;
  for (const Axis& axis : axes) points *= axis.steps.size();
  return points;
}

Sweep parse_sweep(const std::string& text, const std::string& file, const std::vector<Override>& flags) {
  ConfigErrors errors;
  const ConfigNode root = parse_yaml_map(text, file, errors);
  Sweep sweep;
  sweep.file = file;
  sweep.metrics = DefaultMetrics;
  Parts parts;
  read_fields({root, root.mark, "", errors}, fields_of(sweep, parts));
  for (std::vector<Axis>* part : {&parts.cross, &parts.zips, &parts.seeds})
    std::ranges::move(*part, std::back_inserter(sweep.axes));
  for (const Override& flag : flags) {
    sweep.fixed.push_back(setting_of(flag, errors));
    sweep.flags.push_back(fmt::format("{}={}", flag.path, flag.value));
  }
  check_distinct(sweep, errors);
  errors.throw_if_any();
  check_size(sweep, root, errors);
  errors.throw_if_any();
  sweep.scenario_file = (fs::path(file).parent_path() / sweep.scenario_file).lexically_normal().string();
  std::error_code ignored;
  if (!fs::is_regular_file(sweep.scenario_file, ignored))
    throw InputError({place_of(root, "scenario"),
                      fmt::format("\"scenario\": no such file \"{}\"; it is looked for beside the sweep",
                                  sweep.scenario_file)});
  return sweep;
}

std::vector<Path> paths_of(const Sweep& sweep) {
  std::vector<Path> paths;
  for (const Axis& axis : sweep.axes) paths.insert(paths.end(), axis.paths.begin(), axis.paths.end());
  return paths;
}

std::vector<Setting> settings_of(const Sweep& sweep, std::size_t point) {
  std::vector<Setting> settings = sweep.fixed;
  for_each_value(sweep, point, [&](const Path& path, const Value& value) {
    if (value.value.kind != ConfigNode::Kind::Nothing)
      settings.push_back({path.path, path.mark, value.value});
  });
  return settings;
}

std::vector<std::string> labels_of(const Sweep& sweep, std::size_t point) {
  std::vector<std::string> labels;
  for_each_value(sweep, point, [&](const Path&, const Value& value) { labels.push_back(value.label); });
  return labels;
}

std::uint64_t check_paths(const Sweep& sweep, const ScenarioDocument& scenario) {
  std::optional<std::uint64_t> hash;
  std::optional<InputError> first;
  std::map<std::string, std::optional<Diagnostic>> wrong;  // by path: what its key is told wherever it stands
  for (const std::size_t point : probing_points(sweep)) {
    const std::vector<Setting> settings = settings_of(sweep, point);
    std::vector<Diagnostic> found;
    try {
      const std::uint64_t its_hash = scenario.scenario(settings).hash;
      if (!hash) hash = its_hash;
    } catch (const InputError& error) {
      if (!first) first = error;
      found = error.diagnostics();
    }
    for (const Setting& setting : settings) {
      const auto told = std::ranges::find_if(
          found, [&](const Diagnostic& it) { return same_place(it.place, setting.mark); });
      if (told == found.end())
        wrong[setting.path].reset();
      else
        wrong.try_emplace(setting.path, *told);
    }
  }
  ConfigErrors unknown;
  for (const auto& [path, diagnostic] : wrong)
    if (diagnostic) unknown.add(diagnostic->place, diagnostic->message);
  unknown.throw_if_any();
  if (!hash) throw InputError(*first);
  return *hash;
}

}  // namespace syncline::sweep
