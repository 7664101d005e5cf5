// A folder for the files of a test, and the data folder beside these sources.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/config/scenario.hpp"
#include "sim/core/error.hpp"

namespace syncline::test {

inline const std::string Data = SYNCLINE_SOURCE_DIR "/tests/config/data";

/// Names of topologies, devices and models mean those of the tests.
inline void use_test_data() {
  setenv("SYNCLINE_DATA", Data.c_str(), 1);
}

/// Removed with all its files at the end.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "syncline-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// What the InputError of `call` says, or "" when there is none; `folder/` is left out of it.
template <class Call>
std::string message_of(const Call& call, const std::string& folder = "") {
  try {
    call();
    return "";
  } catch (const InputError& error) {
    std::string text = error.what();
    for (std::size_t at = text.find(folder); !folder.empty() && at != std::string::npos;
         at = text.find(folder))
      text.erase(at, folder.size());
    return text;
  }
}

/// A schedule of two ranks, which scenarios bring as "two.schedule".
inline const std::string TwoRanks = R"(syncline-schedule 1
name "two"
mesh dense axes=dp:2
family dp mesh=dense axes=dp
stream gather
role 0 "all" ranks=0-1
  op 0 collective all-gather family=dp bytes=1000 stream=gather
end
)";

/// The scenario of that text, with the schedule beside it.
inline Scenario load_beside(const std::string& schedule, const std::string& text,
                            const std::vector<Override>& overrides = {}) {
  use_test_data();
  const Folder folder;
  folder.write("two.schedule", schedule);
  return load_scenario(folder.write("s.yaml", text), overrides);
}

/// A change to a good scenario, and what is said of the result; "" when that is good, too.
struct Change {
  const char* name;
  std::string from, to;
  std::string message;
};

inline void check_changes(const std::string& good, const std::vector<Change>& rows) {
  use_test_data();
  const Folder folder;
  for (const Change& row : rows) {
    SUBCASE(row.name) {
      std::string text = good;
      const std::size_t at = text.find(row.from);
      REQUIRE(at != std::string::npos);
      text.replace(at, row.from.size(), row.to);
      const std::string file = folder.write("s.yaml", text);
      CHECK(message_of([&] { static_cast<void>(load_scenario(file)); }, folder / "") == row.message);
    }
  }
}

/// Overrides of a good scenario, and part of what is said of them.
struct RefusedOverrides {
  const char* name;
  std::vector<Override> overrides;
  std::string message;
};

/// @param load  reads the scenario with overrides
template <class Load>
void check_refused(const std::vector<RefusedOverrides>& rows, const Load& load) {
  for (const RefusedOverrides& row : rows) {
    SUBCASE(row.name) {
      const std::string message = message_of([&] { static_cast<void>(load(row.overrides)); });
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
    }
  }
}

}  // namespace syncline::test
