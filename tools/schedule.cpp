// `syncline schedule`: the schedule of a scenario in its text form, which `run` reads back.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "sim/config/scenario.hpp"
#include "sim/schedule/text.hpp"
#include "tools/options.hpp"
#include "tools/question.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

class PrintSchedule : public Subcommand {
 public:
  std::string name() const override { return "schedule"; }
  std::string summary() const override {
    return "Print what every rank computes and sends, as text that run reads";
  }
  std::string example() const override {
    return "  syncline schedule scenarios/runs/llama3-8b-fsdp-h100-8.yaml > step.schedule\n"
           "  syncline run step.schedule --topology dgx-h100 --device h100-sxm";
  }
  void add_options(CLI::App& app) override {
    app.add_option("scenario", file_, "Scenario file")->required()->type_name("SCENARIO");
    add_set_option(app, assignments_, "--set parallel.dp=8");
  }
  ExitCode run() override {
    const Scenario scenario = load_scenario(file_, overrides_of(assignments_));
    write_schedule(std::cout, make_schedule(scenario));
    if (!std::cout.flush()) throw EnvironmentError("cannot write to standard output");
    if (scenario.textbook && !scenario.textbook->topology)
      spdlog::warn(
          "a schedule says what is sent, not over what: the hop and bandwidth of {} are not in it; `run` "
          "takes them "
          "from --topology",
          file_);
    return Done;
  }

 private:
  std::string file_;
  std::vector<std::string> assignments_;
};

}  // namespace

std::unique_ptr<Subcommand> make_schedule() {
  return std::make_unique<PrintSchedule>();
}

}  // namespace syncline
