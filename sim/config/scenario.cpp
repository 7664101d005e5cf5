#include "sim/config/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "sim/config/catalogue.hpp"
#include "sim/config/checks.hpp"
#include "sim/config/expert_library.hpp"
#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/config/kinds.hpp"
#include "sim/config/scenario_document.hpp"
#include "sim/core/hash.hpp"
#include "sim/pipeline/generator.hpp"
#include "sim/schedule/text.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

void resolve_blocks(ConfigNode& root, const fs::path& from, ConfigErrors& errors, ConfigFiles& files) {
  for (const Catalogue& catalogue : {Topologies, Devices, Models})
    if (ConfigEntry* entry = root.find(catalogue.what))
      resolve_block(entry->value, catalogue, from, errors, files);
}

void name_if_inline(std::string& name) {
  if (name.empty()) name = "inline";
}

// Each checks a scenario of its kind, fills in what the file leaves open and other fields decide, and returns the topology
// as it is built from the start; nullopt, and an error, where it cannot be.

/// Of a group of ranks that share experts, how many are on a node of so many ranks in a row: the axes that are faster than
/// theirs lie between them.
int members_in_node(const TrainingJob& job, int in_node) {
  int stride = 1;
  for (const std::string_view axis : job.order) {
    if (axis == "dp") break;
    if (axis == "tp") stride *= job.shape.experts.tensor;
    if (axis == "pp") stride *= job.pipeline_parallel;
  }
  return std::max(1, in_node / stride);
}

/// What is wrong with it and has no place of its own stands where it is named.
std::optional<ExpertLibrary> named_library(const std::string& name, const Place& place,
                                           ConfigErrors& errors) {
  try {
    return load_expert_library(name);
  } catch (const InputError& error) {
    for (const Diagnostic& each : error.diagnostics())
      errors.add(each.place.file.empty() ? place : each.place, each.message);
    return std::nullopt;
  }
}

/// Names of the catalogue with rates between so many nodes.
std::string libraries_that_reach(int nodes) {
  std::vector<std::string> names;
  for (const ExpertLibrary& library : expert_libraries())
    if (std::ranges::any_of(library.kernels, [nodes](const ExpertKernel& kernel) {
          return kernel.fits(nodes) && kernel.reaches(nodes) && kernel.find(DispatchOp::Dispatch) != nullptr;
        }))
      names.push_back(library.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Figures of the kernel that fits the nodes of a group of experts.
void find_library(TrainingJob& job, const ConfigNode& root, ConfigErrors& errors) {
  const std::optional<ExpertLibrary> found =
      named_library(job.routing.library, place_of(root, "moe.library"), errors);
  if (!found) return;
  const ExpertLibrary& library = *found;
  const int nodes = expert_group_of(job.model, job.shape, job.routing).nodes();
  for (const ExpertKernel& kernel : library.kernels) {
    if (!kernel.fits(nodes) || !kernel.reaches(nodes)) continue;
    const OperationFigures *dispatch = kernel.find(DispatchOp::Dispatch),
                           *combine = kernel.find(DispatchOp::Combine);
    if (dispatch == nullptr || combine == nullptr) continue;
    const bool once = kernel.travel == moe::Travel::TwoHop || kernel.travel == moe::Travel::PerRank;
    if (once != (job.shape.experts.dispatch == Dispatch::TwoHop))
      errors.add(
          place_of(root, "moe.library"),
          fmt::format("\"moe.library\" is {}, which sends a token {}; set moe.dispatch to {}", library.name,
                      once ? "once to each rank" : "once for each expert", once ? "two-hop" : "all-to-all"));
    job.routing.figures = {library.name, dispatch->figures, combine->figures, kernel.lanes, kernel.sms};
    return;
  }
  const std::string way_out =
      nodes == 1 ? std::string("leave it out, or choose another of libraries/experts")
                 : fmt::format("keep parallel.ep inside a node, leave it out, or choose one that has ({})",
                               libraries_that_reach(nodes));
  errors.add(
      place_of(root, "moe.library"),
      fmt::format("\"moe.library\" is {}, which has no figures of dispatch and combine for experts on {} "
                  "node{}; {}",
                  library.name, nodes, nodes == 1 ? "" : "s", way_out));
}

std::optional<Topology> finish_training(Scenario& scenario, const ConfigNode& root, ConfigErrors& errors) {
  TrainingJob& job = scenario.job;
  check_model(job.model, root, "model.", errors);
  check_replica(scenario, root, errors);
  errors.throw_if_any();
  for (std::string* name : {&scenario.topology.name, &scenario.device.name, &job.model.name})
    name_if_inline(*name);
  if (job.data_parallel == 0) job.data_parallel = scenario.topology.accelerators / job.model_parallel();
  if (job.model.head_size == 0 && !job.model.latent) job.model.head_size = job.model.head_dim();
  if (job.pipeline.chunks == 0)
    job.pipeline.chunks = pipeline::find_generator(job.pipeline.schedule)->default_chunks;

  const int in_node = scenario.topology.accelerators_per_node;
  job.routing.node_members = in_node > 1 ? members_in_node(job, in_node) : 0;
  job.routing.seed = scenario.seed;
  check_parallel(scenario, root, errors);
  check_job(scenario, root, errors);
  std::optional<Topology> topology = check_topology(scenario.topology, root, "topology.", errors);
  errors.throw_if_any();
  if (!job.routing.library.empty()) find_library(job, root, errors);
  errors.throw_if_any();
  job.gradient_accumulation =
      static_cast<int>(scenario.global_batch / (job.data_parallel * job.shape.microbatch));
  check_pipeline(scenario, root, errors);
  return topology;
}

/// Reads the schedule's file, beside the scenario's, and what it runs on against it.
std::optional<Topology> finish_given(Scenario& scenario, const ConfigNode& root, const fs::path& folder,
                                     ConfigErrors& errors) {
  GivenSchedule& given = *scenario.given;
  const std::string path = (folder / given.file).lexically_normal().string();
  given.text = read_text_file(path, LargestScheduleFile);
  given.schedule = read_schedule(given.text, path);
  for (std::string* name : {&scenario.topology.name, &scenario.device.name}) name_if_inline(*name);
  std::optional<Topology> topology = check_topology(scenario.topology, root, "topology.", errors);
  if (given.schedule.world_size() > static_cast<std::size_t>(scenario.topology.accelerators))
    errors.add(place_of(root, "schedule"),
               fmt::format("\"schedule\" is of {} ranks, more than the {} accelerators of the topology; set "
                           "topology.accelerators",
                           given.schedule.world_size(), scenario.topology.accelerators));
  return topology;
}

/// Most have no topology.
std::optional<Topology> finish_textbook(TextbookPipeline& textbook, const ConfigNode& root,
                                        ConfigErrors& errors) {
  fill_in(textbook);
  check_textbook(textbook, root, errors);
  if (!textbook.topology) return std::nullopt;
  name_if_inline(textbook.topology->name);
  return check_topology(*textbook.topology, root, "topology.", errors);
}

/// @param errors  of the text, which are reported with those of the values
Scenario scenario_of(ConfigNode root, const std::string& file, ConfigErrors& errors, ConfigFiles& files) {
  const fs::path folder = fs::path(file).parent_path();
  Scenario scenario;
  scenario.file = file;
  scenario.name = fs::path(file).stem().string();
  scenario.job.data_parallel = 0;  // all accelerators, unless given
  if (is_textbook(root)) scenario.textbook.emplace();
  if (is_given(root)) {
    scenario.given.emplace();
    scenario.device = ideal_device();
  }
  refuse_foreign_keys(root, errors);
  resolve_blocks(root, folder, errors, files);
  if (scenario.textbook && has_order(root)) {
    scenario.textbook->order.emplace();
    resolve_order(root.find("pipeline")->value, folder.string(), errors);
  }
  read_fields({root, root.mark, "", errors}, fields_of(scenario));
  errors.throw_if_any();

  const std::optional<Topology> topology = scenario.given ? finish_given(scenario, root, folder, errors)
                                           : scenario.textbook
                                               ? finish_textbook(*scenario.textbook, root, errors)
                                               : finish_training(scenario, root, errors);
  const bool plain = scenario.textbook && !scenario.textbook->topology;
  if (plain && !scenario.faults.empty())
    errors.add(place_of(root, "faults"),
               "\"faults\" are of a topology's parts, and there is none; add topology");
  else if (topology)
    check_faults(scenario, *topology, root, errors);
  errors.throw_if_any();
  scenario.hash = fnv1a(show_scenario(scenario) + (scenario.given ? scenario.given->text : ""));
  return scenario;
}

}  // namespace

Scenario load_scenario(const std::string& file, const std::vector<Override>& overrides) {
  return parse_scenario(read_text_file(file), file, overrides);
}

Scenario parse_scenario(const std::string& text, const std::string& file,
                        const std::vector<Override>& overrides) {
  ConfigErrors errors;
  ConfigNode root = parse_yaml_map(text, file, errors);
  for (const Override& change : overrides) apply_override(root, change, errors);
  ConfigFiles files;
  return scenario_of(std::move(root), file, errors, files);
}

ScenarioDocument::ScenarioDocument(const std::string& text, std::string file) : file_(std::move(file)) {
  ConfigErrors errors;
  root_ = parse_yaml_map(text, file_, errors);
  errors.throw_if_any();
}

Scenario ScenarioDocument::scenario(std::span<const Setting> settings) const {
  ConfigErrors errors;
  ConfigNode root = root_;
  for (const Setting& setting : settings) apply_setting(root, setting, errors);
  return scenario_of(std::move(root), file_, errors, files_);
}

TopologySpec load_topology(const std::string& name_or_file, const std::vector<Override>& overrides) {
  TopologySpec topology;
  const ConfigNode root = load_block(name_or_file, Topologies, topology, overrides);
  ConfigErrors errors;
  check_topology(topology, root, "", errors);
  errors.throw_if_any();
  return topology;
}

Device load_device(const std::string& name_or_file) {
  if (name_or_file == "ideal") return ideal_device();
  Device device;
  load_block(name_or_file, Devices, device);
  return device;
}

ModelSpec load_model(const std::string& name_or_file) {
  ModelSpec model;
  const ConfigNode root = load_block(name_or_file, Models, model);
  ConfigErrors errors;
  check_model(model, root, "", errors);
  errors.throw_if_any();
  return model;
}

std::string show_scenario(const Scenario& scenario) {
  Scenario copy = scenario;  // tables hold references to what they could also read into
  return to_yaml(write_fields(fields_of(copy)));
}

}  // namespace syncline
