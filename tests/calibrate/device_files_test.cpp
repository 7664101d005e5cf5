// The files of devices/: each has what a training step needs, and fitted ones are what their fit gives.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "sim/calibrate/device_fit.hpp"
#include "sim/config/catalogue.hpp"
#include "sim/config/formats.hpp"
#include "sim/config/scenario.hpp"

namespace syncline::calibrate {
namespace {

const std::string Table = SYNCLINE_SOURCE_DIR "/../shared/data/published/gemm_efficiency.csv";

TEST_CASE("every device has what a step in bf16 or fp16 needs, and says where it is from") {
  unsetenv("SYNCLINE_DATA");
  const std::vector<std::string> names = names_in(Devices);
  CHECK(names.size() >= 30);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Device device = load_device(name);
    CHECK(device.name == name);
    CHECK(!device.source.empty());
    CHECK(device.memory.si() > 0);
    const bool bf16 = device.peak.contains(Precision::Bf16);
    REQUIRE((bf16 || device.peak.contains(Precision::Fp16)));
    Kernel product;
    product.kind = KernelClass::Gemm;
    product.precision = bf16 ? Precision::Bf16 : Precision::Fp16;
    product.m = product.n = product.k = 8192;
    product.flop = Flop(2.0 * 8192 * 8192 * 8192);
    product.hbm = Bytes(3 * 2.0 * 8192 * 8192);
    const double share = product.flop / kernel_time(product, device) / device.peak_of(product.precision);
    CHECK(share > 0.35);
    CHECK(share < 0.98);
    Kernel attention = product;
    attention.kind = KernelClass::Attention;
    for (const bool backward : {false, true}) {
      attention.backward = backward;
      CHECK(attention.flop / kernel_time(attention, device) / device.peak_of(product.precision) > 0.15);
    }
  }
}

TEST_CASE("no two devices claim the same chip of measured tables") {
  unsetenv("SYNCLINE_DATA");
  std::map<std::string, std::string> owner;
  for (const std::string& name : names_in(Devices)) {
    for (const std::string& chip : load_device(name).chips) {
      CAPTURE(chip);
      CHECK(owner.emplace(chip, name).second);
    }
  }
}

/// As the command that the file's head names. `mean` and `by_time` bound the error of its 16-bit products.
struct Fit {
  const char* device;
  DeviceFitRequest request;
  double mean, by_time;
};

std::vector<Fit> fits() {
  const Seconds loop(5e-4);
  return {{"a100-sxm-80gb", {.chip = "A100-80GB SXM", .attention_chip = "A100 PCIe"}, 0.065, 0.03},
          {"a100-pcie-80gb", {.chip = "A100 PCIe", .settles_within = loop}, 0.035, 0.02},
          {"h100-sxm", {.chip = "H100-80GB SXM"}, 0.05, 0.04},
          {"h200-sxm", {.chip = "H200-141GB SXM"}, 0.05, 0.03},
          {"h800-sxm", {.chip = "H800 SXM"}, 1, 1},
          {"b200-sxm", {.chip = "B200 SXM", .source = "AIConfigurator"}, 0.075, 0.04},
          {"b200-sxm-simumax", {.chip = "B200 SXM", .source = "SimuMax", .settles_within = loop}, 0.1, 0.04},
          {"b300-sxm", {.chip = "B300 SXM"}, 0.075, 0.06},
          {"gb200", {.chip = "GB200"}, 0.075, 0.06},
          {"gb300", {.chip = "GB300"}, 0.06, 0.04},
          {"mi300x", {.chip = "MI300X"}, 0.001, 0.001},
          {"mi355x", {.chip = "MI355X"}, 0.001, 0.001},
          {"gaudi2", {.chip = "Gaudi 2"}, 1, 1},
          {"tpu-v6e", {.chip = "TPU v6e"}, 0.001, 0.001},
          {"tpu-ironwood", {.chip = "TPU7x, one device (half a chip)", .share_of_peak = true}, 0.15, 0.01}};
}

std::string yaml(Device device) {
  return to_yaml(write_fields(fields_of(device)));
}

/// Grouped products on a B200, with the precision of their sums (MooreThreads/SimuMax 4dcaae5,
/// configs/system/b200_bf16_ceperm.json, group_matmul; numbers alone, Apache-2.0).
std::vector<KernelRow> grouped_products() {
  const std::string path = SYNCLINE_SOURCE_DIR "/tests/calibrate/grouped_products.csv";
  const CsvTable table = CsvTable::parse(read_text_file(path, 1 << 20), "grouped_products.csv");
  return read_kernel_rows(table, "B200 SXM").grouped;
}

void fit_all_grouped(Explanation& explanation) {
  std::vector<KernelRow> rows = grouped_products();
  std::erase_if(rows, [](const KernelRow& row) { return !row.bytes_said; });
  fit_grouped(rows, explanation);
}

TEST_CASE("grouped products take what was measured, on average") {
  unsetenv("SYNCLINE_DATA");
  Explanation explanation;
  explanation.device = load_device("b200-sxm-simumax");
  explanation.throttle = {.sustained = explanation.device.sustained_clock, .settles = Seconds(1e-9)};
  const std::vector<KernelRow> rows = grouped_products();
  CHECK(rows.size() == 108);
  const auto error = [&] {
    std::vector<double> measured, predicted;
    for (const KernelRow& row : rows) {
      measured.push_back(row.time.si());
      predicted.push_back(explanation.measured(row).si());
    }
    return error_of(measured, predicted);
  };
  CHECK(error().mean < 0.11);
  CHECK(std::abs(error().signed_by_time) < 0.02);
  explanation.device.gemm.grouped_exposed_memory.reset();
  CHECK(error().signed_by_time < -0.05);
}

TEST_CASE("fitting a device's rows again gives the figures of its file" *
          doctest::skip(!std::filesystem::exists(Table))) {
  unsetenv("SYNCLINE_DATA");
  const CsvTable table = CsvTable::parse(read_text_file(Table, 64 << 20), "gemm_efficiency.csv");
  for (const Fit& one : fits()) {
    CAPTURE(one.device);
    const Device device = load_device(one.device);
    DeviceFit fit = fit_device(table, one.request, device);
    if (one.device == std::string_view("b200-sxm-simumax")) fit_all_grouped(fit.explanation);
    CHECK(yaml(fit.explanation.device) == yaml(device));
    for (const FittedGroup& group : fit.groups) {
      if (group.name != "bf16") continue;
      const FitError error = error_of(group.measured(), group.predicted);
      CHECK(error.mean < one.mean);
      CHECK(error.by_time < one.by_time);
      CHECK(std::abs(error.signed_by_time) < 0.005);
    }
  }
}

TEST_CASE("a fit's file can be read, its report names rows, error and what was chosen" *
          doctest::skip(!std::filesystem::exists(Table))) {
  unsetenv("SYNCLINE_DATA");
  const CsvTable table = CsvTable::parse(read_text_file(Table, 64 << 20), "gemm_efficiency.csv");
  const DeviceFit fit =
      fit_device(table, {.chip = "B200 SXM", .precision = Precision::Bf16}, load_device("b200-sxm"));
  const std::string text = report(fit);
  CAPTURE(text);
  CHECK(text.find("bf16") != std::string::npos);
  CHECK(text.find("to 10 ms") != std::string::npos);
  CHECK(text.find("worst rows") != std::string::npos);
  CHECK(text.find("note: products of 2 sources") != std::string::npos);
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("syncline-{}.yaml", getpid());
  std::ofstream(file) << device_yaml(fit, "b200-sxm");
  const Device device = load_device(file);
  std::filesystem::remove(file);
  CHECK(device.gemm.plateau == fit.explanation.device.gemm.plateau);
  CHECK(device.kernel_gap == fit.explanation.device.kernel_gap);
}

TEST_CASE("what a request asks for in vain is told") {
  const CsvTable table = CsvTable::parse(
      "chip,kind,m,n,k,dtype,achieved_tflops,source,groups\nX1,matmul,1,2,3,bf16,1,Lab,\nX1,matmul,1,2,3,fp8,"
      "1,Lab,\n"
      "X2,grouped matmul,1,2,3,bf16,1,Lab,4\n",
      "t.csv");
  Device base;
  base.name = "base";
  base.peak[Precision::Bf16] = FlopPerSecond(1e14);
  base.hbm_bandwidth = BytesPerSecond(1e12);
  struct Row {
    const char* name;
    DeviceFitRequest request;
    std::string message;
  };
  for (const Row& row :
       {Row{"source",
            {.chip = "X1", .source = "lab"},
            "no product is from a source with \"lab\" in its name; there are \"Lab\" (2 rows)"},
        Row{"precision",
            {.chip = "X1", .precision = Precision::Int8},
            "of chip \"X1\" there is no row in int8"},
        Row{"grouped products alone",
            {.chip = "X2"},
            "nothing to fit to: of chip \"X2\" there are grouped products alone"},
        Row{"peak", {.chip = "X1"}, "row line 3 is in fp8, for which the base \"base\" has no peak"}}) {
    CAPTURE(row.name);
    std::string message;
    try {
      static_cast<void>(fit_device(table, row.request, base));
    } catch (const InputError& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace syncline::calibrate
