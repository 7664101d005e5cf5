// `syncline calibrate fabric`: a topology file with the figures of its communication library, out of measured collectives.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "sim/calibrate/fabric_fit.hpp"
#include "sim/config/scenario.hpp"
#include "tools/calibrate.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"

namespace syncline {
namespace {

calibrate::RowFilter filter_of(const std::string& text, bool keep) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError(Diagnostic{{}, fmt::format("expected column=text, found \"{}\"", text)});
  return {text.substr(0, equals), text.substr(equals + 1), keep};
}

class CalibrateFabric : public Subcommand {
 public:
  std::string name() const override { return "fabric"; }
  std::string summary() const override { return "Fit a topology's collectives to nccl-tests logs or tables"; }
  std::string example() const override {
    return "  syncline calibrate fabric all_reduce.log all_gather.log --base dgx-h100 --out my-cluster.yaml\n"
           "  syncline calibrate fabric --csv nccl_collectives.csv --gpu H200 --nodes 1 --base dgx-h200";
  }
  void add_options(CLI::App& app) override {
    app.add_option("logs", logs_, "Output of nccl-tests or rccl-tests")->type_name("LOG");
    app.add_option("--csv", tables_, "Table with the columns op, gpu, ranks, nodes, size_bytes, time_us")
        ->type_name("FILE.csv")
        ->take_all();
    app.add_option("--gpu", gpu_, "Only rows whose GPU has this in its name")->type_name("NAME");
    app.add_option("--nodes", nodes_, "Only rows of so many nodes")->check(CLI::PositiveNumber);
    app.add_option("--only", only_, "Only rows of the table whose column has this text (repeatable)")
        ->type_name("COLUMN=TEXT")
        ->take_all();
    app.add_option("--without", without_, "No rows of the table whose column has this text (repeatable)")
        ->type_name("COLUMN=TEXT")
        ->take_all();
    app.add_flag("--fill-nodes", fill_,
                 "Ranks fill the topology's nodes, whatever the rows call a node (NVL72)");
    app.add_option("--base", base_, "Topology whose nodes and links these are")
        ->type_name("NAME|FILE")
        ->required();
    app.add_option("--out", out_, "Write the topology here")->type_name("FILE.yaml");
  }

  ExitCode run() override {
    const TopologySpec base = load_topology(base_);
    std::vector<calibrate::FabricRow> rows = all_rows();
    std::erase_if(rows, [this](const calibrate::FabricRow& row) {
      return row.gpu.find(gpu_) == std::string::npos || (nodes_ > 0 && row.nodes != nodes_);
    });
    if (rows.empty())
      throw InputError(Diagnostic{{}, "no row is left to fit to; give logs, or --csv with fewer filters"});
    calibrate::FabricFit fit = fitted(base, rows);
    if (!out_.empty()) fit.topology.name = std::filesystem::path(out_).stem().string();
    fmt::print("{}", calibrate::error_report(fit));
    const std::string yaml = calibrate::fitted_topology_file(fit, base_);
    if (out_.empty()) {
      fmt::print("\n{}", yaml);
      return Done;
    }
    write_text_file(out_, yaml);
    return Done;
  }

 private:
  [[nodiscard]] std::vector<calibrate::FabricRow> all_rows() const {
    std::vector<calibrate::FabricRow> rows;
    const auto add = [&rows](std::vector<calibrate::FabricRow> more) {
      rows.insert(rows.end(), more.begin(), more.end());
    };
    for (const std::string& file : logs_) {
      const calibrate::NcclLog log = calibrate::read_nccl_logs(read_text_file(file, LargestTable), file);
      for (const std::string& warning : log.warnings) fmt::print(stderr, "{}: warning: {}\n", file, warning);
      for (const calibrate::NcclRun& run : log.runs)
        for (const std::string& warning : run.warnings)
          fmt::print(stderr, "{}:{}: warning: {}\n", file, run.line, warning);
      add(calibrate::fabric_rows(log));
    }
    std::vector<calibrate::RowFilter> filters;
    for (const std::string& text : only_) filters.push_back(filter_of(text, true));
    for (const std::string& text : without_) filters.push_back(filter_of(text, false));
    for (const std::string& file : tables_)
      add(calibrate::fabric_rows(CsvTable::parse(read_text_file(file, LargestTable), file), filters));
    return rows;
  }

  [[nodiscard]] calibrate::FabricFit fitted(const TopologySpec& base,
                                            const std::vector<calibrate::FabricRow>& rows) const {
    try {
      return calibrate::fit_fabric(base, rows,
                                   fill_ ? calibrate::Packing::FillNodes : calibrate::Packing::AsMeasured);
    } catch (const std::invalid_argument& error) {
      throw InputError(Diagnostic{{}, fmt::format("--base {}: {}", base_, error.what())});
    }
  }

  std::vector<std::string> logs_, tables_, only_, without_;
  std::string gpu_, base_, out_;
  int nodes_ = 0;
  bool fill_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_calibrate_fabric() {
  return std::make_unique<CalibrateFabric>();
}

}  // namespace syncline
