// `syncline calibrate PART`: figures of simulated hardware out of what was measured; without a part: of what is measured now.
#include "tools/calibrate.hpp"

#include <CLI/CLI.hpp>
#include <vector>

#include "sim/core/error.hpp"
#include "tools/calibrate_machine.hpp"

namespace syncline {
namespace {

class Calibrate : public Subcommand {
 public:
  Calibrate() {
    parts_.push_back(make_calibrate_device());
    parts_.push_back(make_calibrate_fabric());
    parts_.push_back(make_calibrate_library());
    parts_.push_back(make_calibrate_experts());
  }
  std::string name() const override { return "calibrate"; }
  std::string summary() const override { return "Fit figures of hardware to measured tables, or to this machine"; }
  std::string example() const override {
    std::string all = "  syncline calibrate --backend mpi --ranks 4 --out here";
    for (const auto& part : parts_) all += "\n" + part->example();
    return all;
  }
  void add_options(CLI::App& app) override {
    add_machine_options(app, machine_);
    app.require_subcommand(0, 1);
    for (const auto& part : parts_) {
      CLI::App* sub = app.add_subcommand(part->name(), part->summary());
      sub->footer("Example:\n" + part->example());
      part->add_options(*sub);
      sub->final_callback([this, &part] { chosen_ = part.get(); });
    }
  }
  ExitCode run() override {
    if (chosen_ != nullptr) return chosen_->run();
    if (machine_.folder.empty())
      refuse("--out", "name a part (device, fabric, library, experts), or give --backend and --out to measure this machine");
    return calibrate_machine(machine_);
  }

 private:
  std::vector<std::unique_ptr<Subcommand>> parts_;
  Subcommand* chosen_ = nullptr;
  MachineRequest machine_;
};

}  // namespace

std::unique_ptr<Subcommand> make_calibrate() {
  return std::make_unique<Calibrate>();
}

}  // namespace syncline
