// A part of the program: `syncline NAME ...`. Adding one means one source file and one line in
// subcommands.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace syncline {

/// Exit codes of the program.
enum ExitCode : int {
  Done = 0,
  CheckFailed = 1,     // the run is right, its result is not what was expected
  BadInput = 2,        // InputError, or wrong usage
  BadEnvironment = 3,  // EnvironmentError
  OurBug = 4,
};

/// main calls describe() once, CLI11 fills the members that the options are bound to, then run() once.
class Subcommand {
 public:
  virtual ~Subcommand() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::string summary() const = 0;  // one line
  [[nodiscard]] virtual std::string example() const = 0;  // commands that can be pasted, one a line
  virtual void add_options(CLI::App& app) = 0;
  /// Results go to stdout, all else to stderr.
  /// @throws InputError, EnvironmentError
  virtual ExitCode run() = 0;
};

/// All of them, in the order of `syncline --help`.
[[nodiscard]] std::vector<std::unique_ptr<Subcommand>> make_subcommands();

std::unique_ptr<Subcommand> make_run();
std::unique_ptr<Subcommand> make_show();
std::unique_ptr<Subcommand> make_schedule();
std::unique_ptr<Subcommand> make_pipeline();
std::unique_ptr<Subcommand> make_collective();
std::unique_ptr<Subcommand> make_experts();
std::unique_ptr<Subcommand> make_topology();
std::unique_ptr<Subcommand> make_calibrate();
std::unique_ptr<Subcommand> make_sweep();
std::unique_ptr<Subcommand> make_execute();
std::unique_ptr<Subcommand> make_compare();
std::unique_ptr<Subcommand> make_validate();
std::unique_ptr<Subcommand> make_score();
std::unique_ptr<Subcommand> make_doctor();

}  // namespace syncline
