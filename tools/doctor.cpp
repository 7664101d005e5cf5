// `syncline doctor`: versions, what is built in, what this machine has.
#include <fmt/format.h>
#include <spdlog/version.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/config/catalogue.hpp"
#include "sim/core/units.hpp"
#include "tools/build_info.hpp"
#include "tools/launcher.hpp"
#include "tools/mpi_workers.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

void print(std::string_view name, const std::string& text) {
  fmt::print("  {:<14}{}\n", name, text);
}

std::string version_text(int major, int minor, int patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

std::string system_text() {
  utsname system{};
  return uname(&system) == 0 ? fmt::format("{} {} {}", system.sysname, system.release, system.machine)
                             : "unknown";
}

Bytes machine_memory() {
  return Bytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

/// What `syncline execute` can start.
std::string executors() {
  std::vector<std::string> names;
  for (const char* backend : {"mpi", "cuda"})
    if (companion_program(std::string("syncline-rank-") + backend)) names.emplace_back(backend);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

class Doctor : public Subcommand {
 public:
  std::string name() const override { return "doctor"; }
  std::string summary() const override {
    return "Print versions, what is built in, and what this machine has";
  }
  std::string example() const override { return "  syncline doctor"; }
  void add_options(CLI::App&) override {}
  ExitCode run() override {
    fmt::print("syncline {}\n", build::Version);
    print("build",
          fmt::format("{}, {}{}", build::Type, build::Compiler, build::Sanitized ? ", sanitized" : ""));
    print("backends", simgrid_version());
    print("mpi", mpi_library().empty() ? "not built in; sweeps run on one machine" : mpi_library());
    print("execute", "by " + executors());
    fmt::print("libraries\n");
    print("boost", version_text(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100));
    print("cli11", CLI11_VERSION);
    print("fmt", version_text(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
    print("nlohmann-json", version_text(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH));
    print("spdlog", version_text(SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH));
    print("yaml-cpp", std::string(build::YamlCpp));
    print("zlib", zlibVersion());
    fmt::print("machine\n");
    print("system", system_text());
    print("cores", fmt::format("{}", std::thread::hardware_concurrency()));
    print("memory", to_text(machine_memory()));
    fmt::print("data\n");
    print("folder", data_folder().string());
    for (const Catalogue& catalogue : {Topologies, Devices, Models})
      print(catalogue.folder, fmt::format("{}", fmt::join(names_in(catalogue), ", ")));
    return Done;
  }
};

}  // namespace

std::unique_ptr<Subcommand> make_doctor() {
  return std::make_unique<Doctor>();
}

}  // namespace syncline
