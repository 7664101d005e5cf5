// Small sweeps over the tests' own scenario.
#pragma once

#include "sim/sweep/sweep.hpp"
#include "tests/config/fixture.hpp"

namespace syncline::test {

/// A folder with the scenario beside which sweeps are written.
class SweepFolder {
 public:
  SweepFolder() {
    use_test_data();
    folder_.write("s.yaml", read(Data + "/tiny-16.yaml"));
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }

  [[nodiscard]] sweep::Sweep parse(const std::string& rest, const std::vector<Override>& flags = {}) const {
    return sweep::parse_sweep("version: 1\nscenario: s.yaml\n" + rest, folder_ / "w.yaml", flags);
  }
  [[nodiscard]] std::uint64_t check(const sweep::Sweep& sweep) const {
    return sweep::check_paths(sweep, ScenarioDocument(read(folder_ / "s.yaml"), folder_ / "s.yaml"));
  }

 private:
  Folder folder_;
};

}  // namespace syncline::test
