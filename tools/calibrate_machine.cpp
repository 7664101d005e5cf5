#include "tools/calibrate_machine.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "sim/calibrate/device_fit.hpp"
#include "sim/calibrate/fabric_fit.hpp"
#include "sim/calibrate/machine_probe.hpp"
#include "sim/config/formats.hpp"
#include "sim/config/scenario.hpp"
#include "sim/core/error.hpp"
#include "sim/core/host.hpp"
#include "sim/core/units.hpp"
#include "sim/device/device.hpp"
#include "tools/output_file.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

constexpr double SmallestSize = 256;       // B
constexpr double BetweenSizes = 4;         // one is so many times the one before
constexpr Seconds Stagger{0.001};          // between members of a collective
constexpr Bytes LargestPass{256e6};        // of memory: beyond all caches
constexpr Bytes BesideProducts{16e6};      // all-reduces while products run
constexpr int LargestProduct = 1024;       // rows and columns, on a processor
constexpr int LargestProductOfGpu = 8192;  // ... on a GPU

/// One node, all ranks on a switch; its links as two ranks measured them.
TopologySpec bare_node(int ranks, const std::vector<calibrate::FabricRow>& rows) {
  TopologySpec spec;
  spec.accelerators = spec.accelerators_per_node = ranks;
  LinkSpec& link = spec.scale_up.emplace().link;
  Seconds shortest{1};
  for (const calibrate::FabricRow& row : rows) {
    if (row.op != calibrate::NcclOp::SendReceive || row.ranks != 2) continue;
    link.bandwidth = std::max(link.bandwidth, row.size / row.time);
    shortest = std::min(shortest, row.time);
  }
  link.latency = shortest / 2;  // a message crosses two links
  return spec;
}

/// Where the fit begins: short messages are copied twice, long ones once.
CollectiveFigures mpi_figures(const TopologySpec& spec) {
  const Seconds hop = spec.scale_up->link.latency * 2;
  const auto protocol = [&](const char* name, double share) {
    return ProtocolFigures{name, hop, hop, hop, share, share};
  };
  const std::vector<ProtocolFigures> both{protocol("eager", 0.3), protocol("rendezvous", 1)};
  CollectiveFigures figures;
  figures.ring = figures.ring_all_reduce = figures.ring_reduce_scatter = figures.ring_broadcast = figures.ring_reduce = both;
  figures.direct = figures.send = both;
  return figures;
}

class MachineCalibration {
 public:
  explicit MachineCalibration(const MachineRequest& request)
      : request_(request),
        largest_(size_of(request.largest)),
        backend_(request.backend),
        machine_(host_name()),
        folder_(request.folder) {
    if (request.kernels && request.backend.backend == "cuda" && request.device.empty())
      refuse("--device", "is needed with --kernels on GPUs: the device that has what is not measured, such as memory");
    if (largest_ < Bytes(SmallestSize)) refuse("--largest", fmt::format("must be {} or more", to_text(Bytes(SmallestSize))));
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) throw EnvironmentError(fmt::format("cannot make the folder {}: {}", folder_.string(), failed.message()));
  }

  ExitCode run() {
    return fabric() && launches() && (!request_.kernels || kernels()) && write_device() ? Done : CheckFailed;
  }

 private:
  std::optional<Timeline> timeline_of(Schedule schedule, ComputeBy compute) const {
    ExecutionPlan plan;
    plan.schedule = std::move(schedule);
    for (const Work& work : plan.schedule.works)
      plan.work_times.push_back(compute == ComputeBy::PlannedTime ? work_time(work, ideal_device()) : Seconds(0));
    plan.compute = compute;
    plan.warmup = 0;
    plan.repeats = 1;
    std::optional<Measured> measured = backend_.run(plan, "--ranks");
    if (!measured) return std::nullopt;
    return std::move(measured->timeline);
  }

  bool fabric() {
    std::vector<Bytes> sizes;
    for (double size = SmallestSize; size <= largest_.si(); size *= BetweenSizes) sizes.emplace_back(size);
    const std::vector<calibrate::CollectiveProbe> probes = calibrate::collective_probes(request_.ranks, sizes);
    fmt::print(stderr, "collectives: {} of them, {} times each, among {} ranks\n", probes.size(), request_.repeats,
               request_.ranks);
    const std::optional<Timeline> timeline =
        timeline_of(calibrate::collective_schedule(request_.ranks, probes, 1 + request_.repeats, Stagger),
                    ComputeBy::PlannedTime);
    if (!timeline) return false;
    TopologySpec base = request_.topology.empty() ? TopologySpec{} : load_topology(request_.topology);
    const int per_node = request_.topology.empty() ? request_.ranks : std::min(base.accelerators_per_node, request_.ranks);
    const std::vector<calibrate::FabricRow> rows =
        calibrate::measured_rows(probes, per_node, *timeline);
    write("collectives.csv", calibrate::rows_csv(rows, machine_));
    if (request_.topology.empty()) {
      base = bare_node(request_.ranks, rows);
      if (request_.backend.backend == "mpi") base.collectives = mpi_figures(base);
    }
    calibrate::FabricFit fit = calibrate::fit_fabric(base, rows, calibrate::Packing::AsMeasured);
    fit.topology.name = machine_;
    fit.topology.source = source();
    fmt::print("{}", calibrate::error_report(fit));
    const std::string of = request_.topology.empty() ? fmt::format("{} ranks of one machine", request_.ranks) : request_.topology;
    write("topology.yaml", calibrate::fitted_topology_file(fit, of));
    return true;
  }

  bool launches() {
    const std::optional<Timeline> timeline =
        timeline_of(calibrate::launch_schedule(request_.ranks), ComputeBy::PlannedTime);
    if (!timeline) return false;
    launch_ = calibrate::launch_cost(*timeline);
    fmt::print("an op takes {} of the host to issue, {} of its stream to begin and end\n", to_text(launch_.launch),
               to_text(launch_.gap));
    return true;
  }

  bool kernels() {
    const bool gpu = on_gpu();
    const Precision precision = precision_of_products();
    const Schedule schedule = calibrate::kernel_schedule(
        request_.ranks, precision, gpu ? LargestProductOfGpu : LargestProduct, LargestPass, request_.repeats);
    fmt::print(stderr, "kernels: {} shapes\n", schedule.works.size());
    const std::optional<Timeline> timeline = timeline_of(schedule, ComputeBy::Kernels);
    if (!timeline) return false;
    kernels_ = calibrate::measured_kernels(schedule, *timeline, machine_);
    write("kernels.csv", kernels_->gemm_csv);
    const std::optional<Timeline> beside =
        timeline_of(calibrate::interference_schedule(request_.ranks, precision, gpu ? 4096 : LargestProduct / 2, BesideProducts),
                    ComputeBy::Kernels);
    if (!beside) return false;
    rate_beside_communication_ = calibrate::rate_beside_communication(*beside);
    fmt::print("memory passes {}; products run at {}\n", to_text(kernels_->memory),
               rate_beside_communication_
                   ? fmt::format("{:.3g} of their rate beside communication", *rate_beside_communication_)
                   : "a rate beside communication that could not be seen: no product ran beside it throughout");
    return true;
  }

  bool write_device() const {
    if (!kernels_ && request_.device.empty()) return true;  // nothing is known of kernels
    Device device = request_.device.empty() ? bare_processor() : load_device(request_.device);
    device.name = machine_;
    device.source = source();
    device.chips = {machine_};
    device.launch = launch_.launch;
    if (!kernels_) {
      write("device.yaml", device_text(device));
      return true;
    }
    if (rate_beside_communication_) device.compute_rate_while_communicating = *rate_beside_communication_;
    device.hbm_efficiency = std::min(1.0, kernels_->memory / device.hbm_bandwidth);
    const std::string file = (folder_ / "kernels.csv").string();
    calibrate::DeviceFitRequest request;
    request.chip = machine_;
    const calibrate::DeviceFit fit = calibrate::fit_device(CsvTable::parse(kernels_->gemm_csv, file), request, device);
    fmt::print("{}", calibrate::report(fit));
    write("device.yaml", calibrate::device_yaml(fit, request_.device.empty() ? "the same machine" : request_.device));
    return true;
  }

  /// As fast as its fastest product, with the memory of the machine shared among the ranks.
  Device bare_processor() const {
    Device device;
    device.peak[precision_of_products()] = kernels_->best;
    device.memory = Bytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
                          request_.ranks);
    device.hbm_bandwidth = kernels_->memory;
    device.gemm.tile_m = device.gemm.tile_n = 64;
    device.gemm.small_m = device.gemm.small_n = 16;
    device.kernel_gap = launch_.gap;
    return device;
  }

  static std::string device_text(Device& device) {
    return fmt::format("version: {}\n", ConfigVersion) + to_yaml(write_fields(fields_of(device)));
  }

  [[nodiscard]] bool on_gpu() const { return request_.backend.backend == "cuda"; }
  [[nodiscard]] Precision precision_of_products() const { return on_gpu() ? Precision::Bf16 : Precision::Fp32; }
  [[nodiscard]] std::string source() const {
    return fmt::format("measured on {} by syncline calibrate --backend {} --ranks {}", machine_, request_.backend.backend,
                       request_.ranks);
  }
  [[nodiscard]] static Bytes size_of(const std::string& text) {
    try {
      return parse_bytes(text);
    } catch (const std::invalid_argument& error) {
      refuse("--largest", error.what());
    }
  }
  void write(const char* name, const std::string& text) const { write_text_file((folder_ / name).string(), text); }

  const MachineRequest& request_;
  const Bytes largest_;
  const BackendRun backend_;
  const std::string machine_;
  const fs::path folder_;
  calibrate::LaunchCost launch_;
  std::optional<calibrate::MeasuredKernels> kernels_;
  std::optional<double> rate_beside_communication_;
};

}  // namespace

void add_machine_options(CLI::App& app, MachineRequest& request) {
  CLI::Option* backend = add_backend_options(app, request.backend);
  const auto add = [&](const char* name, auto& value, const char* what) {
    return app.add_option(name, value, what)->needs(backend);
  };
  add("--ranks", request.ranks, "Ranks that measure together")->capture_default_str()->check(CLI::Range(2, 4096));
  add("--largest", request.largest, "Largest size of a collective")->capture_default_str()->type_name("SIZE");
  add("--repeats", request.repeats, "Of each collective and kernel")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_flag("--kernels", request.kernels, "Measure products, memory, and compute beside communication, too")
      ->needs(backend);
  add("--topology", request.topology, "Whose nodes and links these are (default: one node)")->type_name("NAME|FILE");
  add("--device", request.device, "Device that has all figures that are not measured (default: none)")
      ->type_name("NAME|FILE");
  add("--out", request.folder, "Folder for topology.yaml, device.yaml and the tables of what was measured")
      ->type_name("FOLDER");
}

ExitCode calibrate_machine(const MachineRequest& request) {
  return MachineCalibration(request).run();
}

}  // namespace syncline
