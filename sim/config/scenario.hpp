// Scenario files: what is asked, as plain values with every default filled in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/document.hpp"
#include "sim/config/textbook.hpp"
#include "sim/device/device.hpp"
#include "sim/report/claims.hpp"
#include "sim/topology/faults.hpp"
#include "sim/topology/spec.hpp"
#include "sim/training/training.hpp"

namespace syncline {

/// A schedule that stands in a file of its own.
struct GivenSchedule {
  std::string file;  // relative to the scenario's
  std::string text;
  Schedule schedule;
};

struct Scenario {
  std::string file;  // as the user named it
  std::string name;  // file name without folder and ending, unless given
  std::string question;
  std::string source;
  std::uint64_t hash = 0;  // FNV-1a of the canonical form printed by `show`

  // What is run: a textbook pipeline, or a given schedule on the topology and device below, or the rest of this block.
  std::optional<TextbookPipeline> textbook;
  std::optional<GivenSchedule> given;
  TopologySpec topology;
  Device device;
  TrainingJob job;
  std::int64_t global_batch = 0;  // sequences a step

  std::vector<Fault> faults;
  Noise noise;
  std::vector<PublishedFigure> published;
  std::vector<Expectation> expect;
  std::string detail = "aggregate";  // run.detail
  std::uint64_t seed = 0;            // run.seed
  bool fold = false;                 // run.fold: one rank of each role is simulated for all of them

  /// Of a model, by this program's own schedule.
  [[nodiscard]] bool is_training() const { return !textbook && !given; }
};

/// Reads a scenario; names of topologies, devices and models are looked up in the folders beside the
/// program's data (and relative to the scenario file when they contain a `/` or end in `.yaml`).
/// @throws InputError with the place of everything that is wrong
[[nodiscard]] Scenario load_scenario(const std::string& file, const std::vector<Override>& overrides = {});
/// The same from the text of the file, which has been read already.
[[nodiscard]] Scenario parse_scenario(const std::string& text, const std::string& file,
                                      const std::vector<Override>& overrides = {});

/// By name or file, relative to the working folder. Overrides' paths start inside the block
/// (`scale-out.radix`).
/// @throws InputError as above
[[nodiscard]] TopologySpec load_topology(const std::string& name_or_file,
                                         const std::vector<Override>& overrides = {});
[[nodiscard]] Device load_device(const std::string& name_or_file);  // `ideal` is known without a file
[[nodiscard]] ModelSpec load_model(const std::string& name_or_file);

/// The scenario as YAML with every default filled in; reading it gives the same scenario.
[[nodiscard]] std::string show_scenario(const Scenario& scenario);

}  // namespace syncline
