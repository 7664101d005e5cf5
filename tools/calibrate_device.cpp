// `syncline calibrate device`: a device file out of a table of measured kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "sim/calibrate/device_fit.hpp"
#include "sim/config/catalogue.hpp"
#include "sim/config/scenario.hpp"
#include "sim/core/units.hpp"
#include "tools/calibrate.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"

namespace syncline {
namespace {

/// The device of the catalogue that lists the chip among its own.
std::string device_with(const std::string& chip) {
  for (const std::string& name : names_in(Devices))
    if (const Device device = load_device(name); std::ranges::find(device.chips, chip) != device.chips.end())
      return name;
  throw InputError(
      Diagnostic{{},
                 fmt::format("no device lists \"{}\" among its \"chips\"; name one whose other figures "
                             "hold with --base",
                             chip)});
}

class CalibrateDevice : public Subcommand {
 public:
  std::string name() const override { return "device"; }
  std::string summary() const override { return "Fit a device's kernels to a table of measured ones"; }
  std::string example() const override {
    return "  syncline calibrate device --gemm gemm_efficiency.csv --chip 'H100-80GB SXM' --out "
           "my-h100.yaml\n"
           "  syncline calibrate device --gemm mine.csv --chip 'A100 PCIe' --dtype bf16 --base a100-sxm-80gb";
  }
  void add_options(CLI::App& app) override {
    app.add_option("--gemm", table_, "Table with the columns chip, kind, m, n, k, dtype, achieved_tflops")
        ->type_name("FILE.csv")
        ->required();
    app.add_option("--chip", request_.chip, "As the table names it")->type_name("NAME")->required();
    app.add_option("--dtype", precision_, "Only products of this precision: bf16, fp8, fp8-block, fp4...");
    app.add_option("--source", request_.source, "Only products whose source has this text")
        ->type_name("TEXT");
    app.add_option("--attention-chip", request_.attention_chip, "Chip whose attention is taken")
        ->type_name("NAME");
    app.add_option(
           "--settles", settles_,
           "Longest time of a kernel up to which it may have run above the power limit: 50 ms divided by its "
           "runs in a row (default 10ms)")
        ->type_name("TIME");
    app.add_flag("--share-of-peak", request_.share_of_peak,
                 "Take the rows' share of their own peak, not their FLOP/s: they are of half a chip");
    app.add_option("--base", base_,
                   "Device that has all other figures (default: the one that lists the chip)")
        ->type_name("NAME|FILE");
    app.add_option("--out", out_, "Write the device here")->type_name("FILE.yaml");
  }

  ExitCode run() override {
    if (!precision_.empty()) {
      request_.precision = value_of<Precision>(precision_);
      if (!request_.precision)
        throw InputError(
            Diagnostic{{}, "--dtype: " + unknown_name("precision", precision_, names_of<Precision>())});
    }
    if (!settles_.empty()) request_.settles_within = settles_time();
    const CsvTable table = CsvTable::parse(read_text_file(table_, LargestTable), table_);
    static_cast<void>(
        calibrate::read_kernel_rows(table, request_.chip));  // a wrong chip is told before a missing base
    const std::string base = base_.empty() ? device_with(request_.chip) : base_;
    calibrate::DeviceFit fit = calibrate::fit_device(table, request_, load_device(base));
    if (!out_.empty()) fit.explanation.device.name = std::filesystem::path(out_).stem().string();
    fmt::print("{}, other figures from {}\n{}", request_.chip, base, calibrate::report(fit));
    const std::string yaml = calibrate::device_yaml(fit, base);
    if (out_.empty())
      fmt::print("\n{}", yaml);
    else
      write_text_file(out_, yaml);
    return Done;
  }

 private:
  [[nodiscard]] Seconds settles_time() const {
    try {
      const Seconds time = parse_seconds(settles_);
      if (time > Seconds(0)) return time;
    } catch (const std::invalid_argument& error) {
      throw InputError(Diagnostic{{}, fmt::format("--settles: {}", error.what())});
    }
    throw InputError(Diagnostic{{}, "--settles: expected a time above 0, such as 0.5ms"});
  }

  std::string table_, precision_, settles_, base_, out_;
  calibrate::DeviceFitRequest request_;
};

}  // namespace

std::unique_ptr<Subcommand> make_calibrate_device() {
  return std::make_unique<CalibrateDevice>();
}

}  // namespace syncline
