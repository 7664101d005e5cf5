// The sweeps under scenarios/.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "sim/sweep/picture.hpp"
#include "tests/sweep/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

TEST_CASE(
    "every shipped sweep is read, every point of the examples is a scenario, and what they plot is there") {
  unsetenv("SYNCLINE_DATA");
  std::size_t sweeps = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SYNCLINE_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string file = entry.path().string(), text = read(file);
    if (text.find("\nscenario:") == std::string::npos) continue;
    CAPTURE(file);
    ++sweeps;
    const sweep::Sweep sweep = sweep::parse_sweep(text, file);
    const ScenarioDocument scenario(read(sweep.scenario_file), sweep.scenario_file);
    static_cast<void>(check_paths(sweep, scenario));
    const bool example = entry.path().parent_path().filename() == "sweeps";
    for (std::size_t point = 0; example && point < sweep.size(); ++point)
      CHECK(scenario.scenario(settings_of(sweep, point)).hash != 0);
    CHECK_FALSE(completed(sweep, sweep.plot).x.empty());
  }
  CHECK(sweeps >= 3);
}
