// `syncline calibrate library`: figures of a communication library for systems that were never measured.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <stdexcept>

#include "sim/calibrate/fabric_fit.hpp"
#include "sim/calibrate/typical_figures.hpp"
#include "sim/config/scenario.hpp"
#include "tools/calibrate.hpp"
#include "tools/output_file.hpp"

namespace syncline {
namespace {

class CalibrateLibrary : public Subcommand {
 public:
  std::string name() const override { return "library"; }
  std::string summary() const override {
    return "Medians of measured topologies, for systems that were never measured";
  }
  std::string example() const override {
    return "  syncline calibrate library dgx-a100 dgx-h100 dgx-b200 --out my-library.yaml";
  }
  void add_options(CLI::App& app) override {
    app.add_option("topologies", names_, "Topologies whose collectives were fitted to measurements")
        ->type_name("NAME|FILE")
        ->required();
    app.add_option("--out", out_, "Write the library here")->type_name("FILE.yaml");
  }

  ExitCode run() override {
    std::vector<TopologySpec> measured;
    for (const std::string& name : names_) measured.push_back(load_topology(name));
    const std::string yaml = file_of(measured);
    if (out_.empty()) {
      fmt::print("{}", yaml);
      return Done;
    }
    write_text_file(out_, yaml);
    return Done;
  }

 private:
  [[nodiscard]] std::string file_of(const std::vector<TopologySpec>& measured) const {
    try {
      const calibrate::TypicalFigures typical = calibrate::typical_figures(measured);
      const std::string name = out_.empty() ? "library" : std::filesystem::path(out_).stem().string();
      return calibrate::library_file(typical, name, names_);
    } catch (const std::invalid_argument& error) {
      throw InputError(Diagnostic{{}, error.what()});
    }
  }

  std::vector<std::string> names_;
  std::string out_;
};

}  // namespace

std::unique_ptr<Subcommand> make_calibrate_library() {
  return std::make_unique<CalibrateLibrary>();
}

}  // namespace syncline
