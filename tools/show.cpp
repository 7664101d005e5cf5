// `syncline show`: a scenario with every default filled in.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "sim/config/scenario.hpp"
#include "tools/options.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

class Show : public Subcommand {
 public:
  std::string name() const override { return "show"; }
  std::string summary() const override { return "Print a scenario with every default filled in"; }
  std::string example() const override {
    return "  syncline show scenarios/runs/llama3-8b-fsdp-h100-64.yaml --set batch.global=256";
  }
  void add_options(CLI::App& app) override {
    app.add_option("scenario", file_, "Scenario file")->required()->type_name("SCENARIO");
    add_set_option(app, assignments_, "--set batch.global=256");
  }
  ExitCode run() override {
    fmt::print("{}", show_scenario(load_scenario(file_, overrides_of(assignments_))));
    return Done;
  }

 private:
  std::string file_;
  std::vector<std::string> assignments_;
};

}  // namespace

std::unique_ptr<Subcommand> make_show() {
  return std::make_unique<Show>();
}

}  // namespace syncline
