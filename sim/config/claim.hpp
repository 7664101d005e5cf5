// validation/CLAIM/claim.yaml: a measured timeline, how it was measured, and how near a simulation comes to it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/compare/tolerance.hpp"
#include "sim/config/document.hpp"

namespace syncline {

/// One execution and the simulation that is held against it.
struct ClaimCase {
  std::string name;
  std::string scenario;  // or schedule: a file, relative to the claim's folder until it was read
  std::vector<std::string> set;       // path=value, as `run --set`; a value that names a file of the folder is that file
  std::string topology{}, device{};   // of a schedule: what it is simulated on
  std::string measured;               // timeline, likewise
  std::vector<compare::Limit> tolerance{};  // those of the claim, and its own over them
};

struct Claim {
  std::string claim;   // in a sentence
  std::string source;  // who measured it, when and how
  std::vector<std::pair<std::string, std::string>> environment;  // GPU, driver, library, clocks: key and text, in order
  std::vector<compare::Limit> tolerance;
  std::vector<ClaimCase> cases;
};

/// Files of the cases are as named from here, not from the claim's folder.
/// @throws InputError with the place of whatever is wrong
[[nodiscard]] Claim read_claim(const std::string& file);

}  // namespace syncline
