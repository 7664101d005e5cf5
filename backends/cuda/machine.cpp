#include "backends/cuda/machine.hpp"

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "backends/cuda/call.hpp"
#include "sim/core/units.hpp"

namespace syncline::cuda {
namespace {

using About = std::vector<std::pair<std::string, std::string>>;

/// The few functions of NVML that are needed, by their documented signatures; the library comes with the
/// driver. All return 0 on success.
class Management {
 public:
  explicit Management(int device) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), &dlclose) {
    std::array<char, 32> bus{};
    if (!library_ || cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess)
      return;
    const auto begin = find<int (*)()>("nvmlInit_v2");
    const auto by_bus = find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    if (begin == nullptr || by_bus == nullptr || begin() != 0 || by_bus(bus.data(), &device_) != 0)
      device_ = nullptr;
  }

  /// A figure of the device; nothing where there is none.
  void add_number(About& about, const char* key, const char* function, const char* unit,
                  unsigned divisor = 1) const {
    const auto ask = find<int (*)(void*, unsigned*)>(function);
    unsigned value = 0;
    if (device_ != nullptr && ask != nullptr && ask(device_, &value) == 0)
      about.emplace_back(key, fmt::format("{} {}", value / divisor, unit));
  }
  /// nvmlClockType_t: 1 is that of the multiprocessors, 2 the memory's.
  void add_clock(About& about, const char* key, unsigned type) const {
    const auto ask = find<int (*)(void*, unsigned, unsigned*)>("nvmlDeviceGetClockInfo");
    unsigned mhz = 0;
    if (device_ != nullptr && ask != nullptr && ask(device_, type, &mhz) == 0)
      about.emplace_back(key, fmt::format("{} MHz", mhz));
  }
  void add_driver(About& about) const {
    const auto ask = find<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    std::array<char, 81> version{};
    if (device_ != nullptr && ask != nullptr &&
        ask(version.data(), static_cast<unsigned>(version.size() - 1)) == 0)
      about.emplace_back("driver", version.data());
  }
  void add_ecc(About& about) const {
    const auto ask = find<int (*)(void*, unsigned*, unsigned*)>("nvmlDeviceGetEccMode");
    unsigned now = 0, later = 0;
    if (device_ != nullptr && ask != nullptr && ask(device_, &now, &later) == 0)
      about.emplace_back("ecc", now != 0 ? "on" : "off");
  }
  void add_links(About& about) const {
    const auto ask = find<int (*)(void*, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
    if (device_ == nullptr || ask == nullptr) return;
    unsigned up = 0;
    for (unsigned link = 0, state = 0; ask(device_, link, &state) == 0; ++link) up += state != 0 ? 1 : 0;
    about.emplace_back("nvlinks", std::to_string(up));
  }

 private:
  template <class Function>
  [[nodiscard]] Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_.get(), name));
  }

  std::unique_ptr<void, int (*)(void*)> library_;
  void* device_ = nullptr;
};

std::string version_text(std::size_t version, std::size_t major, std::size_t minor) {
  return fmt::format("{}.{}", version / major, version % major / minor);
}

}  // namespace

About describe_machine(int device) {
  cudaDeviceProp properties{};
  int runtime = 0, driver = 0, gpus = 0;
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  About about{{"gpu", properties.name},
              {"gpus", std::to_string(gpus)},
              {"compute-capability", fmt::format("{}.{}", properties.major, properties.minor)},
              {"multiprocessors", std::to_string(properties.multiProcessorCount)},
              {"memory", to_text(Bytes(static_cast<double>(properties.totalGlobalMem)))}};
  const Management management(device);
  management.add_driver(about);
  about.emplace_back("cuda",
                     fmt::format("{}, driver's {}", version_text(static_cast<std::size_t>(runtime), 1000, 10),
                                 version_text(static_cast<std::size_t>(driver), 1000, 10)));
  about.emplace_back("cublaslt", version_text(cublasLtGetVersion(), 10000, 100));
  management.add_clock(about, "clock", 1);
  management.add_clock(about, "memory-clock", 2);
  management.add_number(about, "power-limit", "nvmlDeviceGetPowerManagementLimit", "W", 1000);
  management.add_ecc(about);
  management.add_links(about);
  return about;
}

}  // namespace syncline::cuda
