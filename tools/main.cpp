// The program `syncline`. Only here are errors caught and turned into exit codes.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "sim/core/error.hpp"
#include "tools/build_info.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

using Subcommands = std::vector<std::unique_ptr<Subcommand>>;

/// The first word, where it is no flag, must be a subcommand.
void check_subcommand(int argc, char** argv, const Subcommands& subcommands) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const auto& subcommand : subcommands) names.push_back(subcommand->name());
  if (std::ranges::find(names, argv[1]) == names.end())
    throw InputError({{}, unknown_name("subcommand", argv[1], names)});
}

/// The subcommand that the arguments choose, its options filled in; nullptr when help or the version was
/// asked for and is printed.
Subcommand* parse_arguments(int argc, char** argv, const Subcommands& subcommands) {
  CLI::App app("Syncline simulates the training of a model on a cluster of accelerators.", "syncline");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("syncline {}", build::Version));
  app.footer("Each subcommand has its own --help with an example.");
  Subcommand* chosen = nullptr;
  for (const auto& subcommand : subcommands) {
    CLI::App* part = app.add_subcommand(subcommand->name(), subcommand->summary());
    part->footer("Example:\n" + subcommand->example());
    subcommand->add_options(*part);
    part->final_callback([&chosen, &subcommand] { chosen = subcommand.get(); });
  }
  check_subcommand(argc, argv, subcommands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return nullptr;
    }
    const bool known = argc >= 2 && argv[1][0] != '-';
    throw InputError(
        {{},
         fmt::format("{}; see syncline {}--help", error.what(), known ? std::string(argv[1]) + " " : "")});
  }
  return chosen;
}

ExitCode run_program(int argc, char** argv) {
  const Subcommands subcommands = make_subcommands();
  Subcommand* const chosen = parse_arguments(argc, argv, subcommands);
  const ExitCode code = chosen == nullptr ? Done : chosen->run();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw EnvironmentError("cannot write to standard output");
  return code;
}

ExitCode report_bug(const char* what) {
  fmt::print(stderr,
             "syncline {}: this is a bug in syncline: {}\n"
             "please report it with the command line and the files it names\n",
             build::Version, what);
  return OurBug;
}

}  // namespace
}  // namespace syncline

int main(int argc, char** argv) {
  using namespace syncline;
  try {
    spdlog::set_default_logger(spdlog::stderr_color_st("syncline"));
    spdlog::set_pattern("%n: %^%l%$: %v");
    return run_program(argc, argv);
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return BadInput;
  } catch (const EnvironmentError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return BadEnvironment;
  } catch (const std::system_error& error) {  // fmt's, when an output cannot be written
    fmt::print(stderr, "error: {}\n", error.what());
    return BadEnvironment;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory; simulate fewer ranks, or use --detail aggregate\n");
    return BadEnvironment;
  } catch (const std::exception& error) {
    return report_bug(error.what());
  } catch (...) {
    return report_bug("an exception of unknown type");
  }
}
