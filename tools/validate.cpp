// `syncline validate`: simulates what was measured, and says whether the two still agree.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/compare/tolerance.hpp"
#include "sim/config/catalogue.hpp"
#include "sim/config/claim.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/timeline/trace.hpp"
#include "tools/build_info.hpp"
#include "tools/options.hpp"
#include "tools/question.hpp"
#include "tools/simulated_execution.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What came of one case.
struct Verdict {
  std::string name;
  Seconds simulated, measured;  // step times
  double step_error = 0, median_op_error = 0;
  std::vector<compare::Broken> broken;
};

struct ClaimVerdict {
  std::string folder;
  Claim claim;
  std::vector<Verdict> cases;

  [[nodiscard]] bool holds() const {
    return std::ranges::all_of(cases, [](const Verdict& one) { return one.broken.empty(); });
  }
};

Verdict judge(const ClaimCase& one) {
  const Question question = read_question(one.scenario, overrides_of(one.set), {one.topology, one.device});
  try {
    Timeline measured = read_trace(one.measured);
    RunResult simulated = simulate_executed(question, compute_of(measured));
    const compare::Comparison comparison =
        compare::compare(std::move(simulated.timeline), std::move(measured), {});
    return {one.name,
            comparison.a.step_time,
            comparison.b.step_time,
            comparison.step_error.value_or(0),
            comparison.all.median_absolute,
            compare::broken_limits(comparison, one.tolerance)};
  } catch (const std::invalid_argument& error) {
    refuse(one.measured, fmt::format("{} ({})", error.what(), one.scenario));
  }
}

std::string text_of(const std::vector<ClaimVerdict>& claims) {
  std::string text;
  for (const ClaimVerdict& one : claims) {
    text += fmt::format("{}: {}\n  {}\n", one.folder, one.holds() ? "holds" : "BROKEN", one.claim.claim);
    for (const auto& [key, value] : one.claim.environment) text += fmt::format("  {}: {}\n", key, value);
    text += fmt::format("  {:<28}{:>12}{:>12}{:>10}{:>12}\n", "case", "simulated", "measured", "step", "median op");
    for (const Verdict& verdict : one.cases) {
      text += fmt::format("  {:<28}{:>12}{:>12}{:>+8.1f} %{:>10.1f} %\n", verdict.name, to_text(verdict.simulated),
                          to_text(verdict.measured), 100 * verdict.step_error, 100 * verdict.median_op_error);
      for (const compare::Broken& broken : verdict.broken) text += fmt::format("    {}\n", broken.message);
    }
  }
  return text;
}

std::string json_of(const std::vector<ClaimVerdict>& claims) {
  Json list = Json::array();
  for (const ClaimVerdict& one : claims) {
    Json cases = Json::array();
    for (const Verdict& verdict : one.cases) {
      Json broken = Json::array();
      for (const compare::Broken& item : verdict.broken) broken.push_back(item.message);
      cases.push_back({{"name", verdict.name},
                       {"simulated_step_time_s", verdict.simulated.si()},
                       {"measured_step_time_s", verdict.measured.si()},
                       {"step_error", verdict.step_error},
                       {"median_absolute_op_error", verdict.median_op_error},
                       {"broken", broken}});
    }
    list.push_back({{"folder", one.folder}, {"claim", one.claim.claim}, {"holds", one.holds()}, {"cases", cases}});
  }
  return Json{{"schema", Schema}, {"version", build::Version}, {"claims", list}}.dump(2);
}

class Validate : public Subcommand {
 public:
  std::string name() const override { return "validate"; }
  std::string summary() const override { return "Hold simulations against timelines that were measured"; }
  std::string example() const override {
    return "  syncline validate\n"
           "  syncline validate validation/executed-mpi --json\n"
           "Exit code: 0 every claim holds, 1 one does not, 2 bad input.";
  }
  void add_options(CLI::App& app) override {
    app.add_option("folders", folders_, "Folders with a claim.yaml (default: all under validation/)")
        ->type_name("FOLDER");
    app.add_flag("--json", json_, "Print one JSON object instead of the tables");
  }
  ExitCode run() override {
    std::vector<ClaimVerdict> claims;
    for (const std::string& folder : all_folders()) {
      ClaimVerdict& verdict = claims.emplace_back();
      verdict.folder = folder;
      verdict.claim = read_claim((fs::path(folder) / ClaimFile).string());
      for (const ClaimCase& one : verdict.claim.cases) verdict.cases.push_back(judge(one));
    }
    fmt::print("{}", json_ ? json_of(claims) + "\n" : text_of(claims));
    return std::ranges::all_of(claims, &ClaimVerdict::holds) ? Done : CheckFailed;
  }

 private:
  static constexpr const char* ClaimFile = "claim.yaml";

  [[nodiscard]] std::vector<std::string> all_folders() const {
    if (!folders_.empty()) return folders_;
    std::vector<std::string> folders;
    const fs::path root = data_folder() / "validation";
    if (fs::is_directory(root))
      for (const fs::directory_entry& entry : fs::directory_iterator(root))
        if (fs::exists(entry.path() / ClaimFile)) folders.push_back(entry.path().string());
    if (folders.empty()) refuse(root.string(), "no folder there has a claim.yaml");
    std::ranges::sort(folders);
    return folders;
  }

  std::vector<std::string> folders_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_validate() {
  return std::make_unique<Validate>();
}

}  // namespace syncline
