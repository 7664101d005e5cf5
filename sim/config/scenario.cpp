#include "sim/config/scenario.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "sim/config/catalogue.hpp"
#include "sim/config/checks.hpp"
#include "sim/config/formats.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;  // offset and prime of the 64-bit FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

void resolve_blocks(ConfigNode& root, const fs::path& from, ConfigErrors& errors) {
  for (const Catalogue& catalogue : {Topologies, Devices, Models})
    if (ConfigEntry* entry = root.find(catalogue.what)) resolve_block(entry->value, catalogue, from, errors);
}

/// What the file leaves open and other fields decide.
void fill_in(Scenario& scenario) {
  const auto name_inline = [](std::string& name) {
    if (name.empty()) name = "inline";
  };
  name_inline(scenario.topology.name);
  name_inline(scenario.device.name);
  name_inline(scenario.job.model.name);
  TrainingJob& job = scenario.job;
  if (job.data_parallel == 0) job.data_parallel = scenario.topology.accelerators;
  if (job.model.head_size == 0) job.model.head_size = job.model.head_dim();
}

/// A block of a catalogue as a file of its own.
template <class Block>
ConfigNode load_block(const std::string& name_or_file, const Catalogue& catalogue,
                      const std::vector<Override>& overrides, Block& block) {
  ConfigErrors errors;
  ConfigNode root = scalar_node(name_or_file);
  resolve_block(root, catalogue, "", errors);
  for (const Override& change : overrides) apply_override(root, change, errors);
  read_fields({root, root.mark, "", errors}, fields_of(block));
  errors.throw_if_any();
  return root;
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
  resolve_blocks(root, fs::path(file).parent_path(), errors);

  Scenario scenario;
  scenario.file = file;
  scenario.name = fs::path(file).stem().string();
  scenario.job.data_parallel = 0;  // all accelerators, unless given
  read_fields({root, root.mark, "", errors}, fields_of(scenario));
  errors.throw_if_any();

  check_model(scenario.job.model, root, "model.", errors);
  errors.throw_if_any();
  fill_in(scenario);
  check_job(scenario, root, errors);
  check_topology(scenario.topology, root, "topology.", errors);
  errors.throw_if_any();
  scenario.job.gradient_accumulation =
      static_cast<int>(scenario.global_batch / (scenario.job.data_parallel * scenario.job.shape.microbatch));
  scenario.hash = fnv1a(show_scenario(scenario));
  return scenario;
}

TopologySpec load_topology(const std::string& name_or_file, const std::vector<Override>& overrides) {
  TopologySpec topology;
  const ConfigNode root = load_block(name_or_file, Topologies, overrides, topology);
  ConfigErrors errors;
  check_topology(topology, root, "", errors);
  errors.throw_if_any();
  return topology;
}

Device load_device(const std::string& name_or_file) {
  if (name_or_file == "ideal") return ideal_device();
  Device device;
  load_block(name_or_file, Devices, {}, device);
  return device;
}

ModelSpec load_model(const std::string& name_or_file) {
  ModelSpec model;
  const ConfigNode root = load_block(name_or_file, Models, {}, model);
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
