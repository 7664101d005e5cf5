// `syncline calibrate PART`: figures of simulated hardware out of what was measured.
#include "tools/calibrate.hpp"

#include <CLI/CLI.hpp>
#include <vector>

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
  std::string summary() const override { return "Fit figures of hardware to measured tables"; }
  std::string example() const override {
    std::string all;
    for (const auto& part : parts_) all += (all.empty() ? "" : "\n") + part->example();
    return all;
  }
  void add_options(CLI::App& app) override {
    app.require_subcommand(1);
    for (const auto& part : parts_) {
      CLI::App* sub = app.add_subcommand(part->name(), part->summary());
      sub->footer("Example:\n" + part->example());
      part->add_options(*sub);
      sub->final_callback([this, &part] { chosen_ = part.get(); });
    }
  }
  ExitCode run() override { return chosen_->run(); }

 private:
  std::vector<std::unique_ptr<Subcommand>> parts_;
  Subcommand* chosen_ = nullptr;
};

}  // namespace

std::unique_ptr<Subcommand> make_calibrate() {
  return std::make_unique<Calibrate>();
}

}  // namespace syncline
