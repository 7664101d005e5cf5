// `syncline calibrate experts`: figures of dispatch and combine libraries out of measured calls.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "sim/calibrate/expert_fit.hpp"
#include "sim/config/expert_library.hpp"
#include "tools/calibrate.hpp"
#include "tools/expert_table.hpp"
#include "tools/output_file.hpp"

namespace syncline {
namespace {

class CalibrateExperts : public Subcommand {
 public:
  std::string name() const override { return "experts"; }
  std::string summary() const override {
    return "Fit libraries of dispatch and combine to a table of measured calls";
  }
  std::string example() const override {
    return "  syncline calibrate experts moe_alltoall.csv --out my-libraries\n"
           "  syncline calibrate experts moe_alltoall.csv --hold-out";
  }
  void add_options(CLI::App& app) override {
    app.add_option("table", table_, "Measured calls; columns: docs/experts.md")
        ->type_name("FILE.csv")
        ->required();
    app.add_option("--library", names_, "Only these (repeatable; default: all of libraries/experts)")
        ->type_name("NAME|FILE")
        ->take_all();
    CLI::Option* out =
        app.add_option("--out", out_, "Write the libraries into this folder")->type_name("FOLDER");
    app.add_flag("--hold-out", hold_out_,
                 "Predict every series by figures fitted without it, and write nothing")
        ->excludes(out);
  }

  ExitCode run() override {
    std::vector<ExpertLibrary> libraries;
    for (const std::string& name : names_) libraries.push_back(load_expert_library(name));
    if (names_.empty()) libraries = expert_libraries();
    const calibrate::ExpertTable table = read_expert_table(table_, libraries);
    if (table.rows.empty()) refuse(table_, "no row is of these libraries");
    if (hold_out_) {
      ExpertErrors(table, libraries, calibrate::predict_held_out(libraries, table.rows)).print();
      return Done;
    }
    calibrate::fit_experts(libraries, table.rows);
    std::vector<std::optional<Seconds>> predicted;
    for (const calibrate::ExpertRow& row : table.rows)
      predicted.push_back(calibrate::predict(row, libraries));
    ExpertErrors(table, libraries, predicted).print();
    if (!out_.empty()) write(libraries);
    return Done;
  }

 private:
  void write(const std::vector<ExpertLibrary>& libraries) const {
    std::error_code ignored;  // what cannot be written is told by its file
    std::filesystem::create_directories(out_, ignored);
    for (const ExpertLibrary& library : libraries)
      write_text_file((std::filesystem::path(out_) / (library.name + ".yaml")).string(),
                      "# By `syncline calibrate experts`; `error` is over the rows it was fitted to.\n" +
                          show_expert_library(library));
  }

  std::string table_, out_;
  std::vector<std::string> names_;
  bool hold_out_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_calibrate_experts() {
  return std::make_unique<CalibrateExperts>();
}

}  // namespace syncline
