// The kinds of scenario, and of blocks in one, with the keys that belong to the others.
#pragma once

#include "sim/config/document.hpp"

namespace syncline {

/// Whether the schedule stands in a file of its own.
[[nodiscard]] bool is_given(const ConfigNode& root);

/// Whether the file is a textbook pipeline: no model, and a pipeline with keys that only those have, or
/// nothing else that a training run has.
[[nodiscard]] bool is_textbook(const ConfigNode& root);

/// Whether a textbook pipeline brings its order, or a file that has it.
[[nodiscard]] bool has_order(const ConfigNode& root);

/// Reports every key of another kind with what it belongs to, and takes it out, so that no table of fields
/// meets it.
void refuse_foreign_keys(ConfigNode& root, ConfigErrors& errors);

}  // namespace syncline
