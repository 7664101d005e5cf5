// What stands in each kind of file, as tables of fields. The keys of a format are listed here and nowhere
// else.
#pragma once

#include "sim/config/reader.hpp"
#include "sim/config/scenario.hpp"

namespace syncline {

constexpr int ConfigVersion = 1;  // of all formats

[[nodiscard]] Fields fields_of(LinkSpec& link);
[[nodiscard]] Fields fields_of(TopologySpec& topology);
[[nodiscard]] Codec codec(TopologySpec& topology);
/// A GraphML file as the block of a topology file.
[[nodiscard]] ConfigNode graph_file(const std::string& file, ConfigErrors& errors);
[[nodiscard]] Fields fields_of(Device& device);
[[nodiscard]] Fields fields_of(ModelSpec& model);
[[nodiscard]] Fields fields_of(TextbookPipeline& textbook);
/// Of the `precision` block.
[[nodiscard]] Fields precision_fields(TrainingJob& job);
/// How a layer is run: kernels, what is kept, what is trained.
[[nodiscard]] Fields kernel_fields(TrainingShape& shape);
/// Of a scenario with a model, between what it asks and how it is run.
[[nodiscard]] Fields training_fields(Scenario& scenario);
/// Of the `moe` block.
[[nodiscard]] Fields expert_fields(TrainingJob& job);
/// `faults` and `noise`.
[[nodiscard]] Fields fault_fields(Scenario& scenario);
[[nodiscard]] Fields fields_of(Scenario& scenario);

}  // namespace syncline
