// `syncline compare`: holds two timelines against each other, op by op.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "sim/compare/comparison.hpp"
#include "sim/compare/comparison_json.hpp"
#include "sim/compare/comparison_page.hpp"
#include "sim/compare/comparison_text.hpp"
#include "sim/compare/tolerance.hpp"
#include "sim/config/tolerance_file.hpp"
#include "sim/core/error.hpp"
#include "sim/core/printable.hpp"
#include "sim/core/units.hpp"
#include "sim/timeline/trace.hpp"
#include "tools/build_info.hpp"
#include "tools/output_file.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;
using compare::Broken;
using compare::Comparison;
using compare::Limit;

class CompareCommand : public Subcommand {
 public:
  std::string name() const override { return "compare"; }
  std::string summary() const override {
    return "Hold two timelines against each other, op by op: simulated against measured";
  }
  std::string example() const override {
    return "  syncline compare simulated.json measured.json.gz\n"
           "  syncline compare simulated.json measured.json --tolerance step=5%,op=15%,order=0,missing=0\n"
           "What --tolerance limits, beside kinds of ops such as all-gather=10%:\n" +
           compare::measures_text() +
           "Exit code: 0 done, 1 beyond a tolerance, 2 bad input. Figures and keys of --json: "
           "docs/compare.md.";
  }

  void add_options(CLI::App& app) override {
    app.add_option("a", a_, "A timeline, usually simulated, as run --trace writes it")
        ->required()
        ->type_name("A.json");
    app.add_option("b", b_, "Another, usually measured; errors are A / B - 1")
        ->required()
        ->type_name("B.json");
    app.add_option("--floor", floor_,
                   "Ops that are shorter in both have no error of their own (default: 10us, at most a "
                   "ten-thousandth of B's step)")
        ->type_name("TIME");
    app.add_option("--worst", text_.worst, "Lines of each list")->capture_default_str();
    app.add_option("--tolerance", tolerance_, "Exit with 1 where A and B differ by more")
        ->type_name("WHAT=LIMIT,...");
    app.add_option("--tolerance-file", tolerance_file_, "The same from a file, one a line: `step: 5%`")
        ->type_name("FILE.yaml");
    app.add_flag("--json", json_, "Print one JSON object instead of the tables");
    app.add_option("--html", html_, "Write a page with the two timelines over each other")->type_name("FILE");
  }

  ExitCode run() override {
    const std::vector<Limit> limits = all_limits();
    const compare::Options options = compare_options();
    check_page();
    text_.name_a = a_;
    text_.name_b = b_;
    const Comparison comparison = compared(options);
    const std::vector<Broken> broken = compare::broken_limits(comparison, limits);
    if (!html_.empty()) {
      write_text_file(html_, compare::comparison_page(comparison, text_));
      spdlog::info("page written to {}", html_);
    }
    if (json_)
      fmt::print("{}\n", compare::comparison_json(comparison, text_, broken, build::Version));
    else
      fmt::print("{}", compare::comparison_text(comparison, text_));
    for (const Broken& item : broken) spdlog::error("{}", printable(item.message));
    return broken.empty() ? Done : CheckFailed;
  }

 private:
  /// Of the file, and over it those of the flag.
  std::vector<Limit> all_limits() const {
    std::vector<Limit> limits;
    if (!tolerance_file_.empty()) limits = read_limits(tolerance_file_);
    if (!tolerance_.empty()) compare::lay_over(limits, compare::parse_limits(tolerance_, "--tolerance"));
    return limits;
  }

  compare::Options compare_options() const {
    compare::Options options;
    options.worst = text_.worst;
    if (floor_.empty()) return options;
    try {
      options.floor = parse_seconds(floor_);
    } catch (const std::invalid_argument& error) {
      refuse("--floor", error.what());
    }
    return options;
  }

  /// A page must not replace what is compared.
  void check_page() const {
    std::error_code ignored;
    for (const std::string& input : {a_, b_, tolerance_file_})
      if (!html_.empty() && fs::equivalent(html_, input, ignored))
        refuse("--html", fmt::format("{} is the input {}; name another file", html_, input));
  }

  Comparison compared(const compare::Options& options) const {
    try {
      return compare::compare(read_trace(a_), read_trace(b_), options);
    } catch (const std::invalid_argument& error) {
      refuse(b_, fmt::format("{} ({}); are they of the same schedule?", error.what(), a_));
    }
  }

  std::string a_, b_, floor_, tolerance_, tolerance_file_, html_;
  bool json_ = false;
  compare::TextOptions text_;
};

}  // namespace

std::unique_ptr<Subcommand> make_compare() {
  return std::make_unique<CompareCommand>();
}

}  // namespace syncline
