#include "backends/cuda/options.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "sim/core/error.hpp"

using namespace syncline;
using namespace syncline::cuda;

TEST_CASE("the command line is a folder, and whether ranks may share a GPU") {
  const RankOptions plain = parse_options(std::vector<const char*>{"work"});
  CHECK(plain.folder == "work");
  CHECK_FALSE(plain.virtual_ranks);
  CHECK(parse_options(std::vector<const char*>{"--virtual-ranks", "work"}).virtual_ranks);
  CHECK(parse_options(std::vector<const char*>{"--help"}).help);
}

TEST_CASE("what is not known on the command line is named") {
  const struct {
    std::vector<const char*> arguments;
    const char* message;
  } rows[] = {
      {{}, "the folder of the plan is missing"},
      {{"a", "b"}, "\"b\" is a second one"},
      {{"a", "--virtual-rank"}, "did you mean \"--virtual-ranks\"?"},
  };
  for (const auto& row : rows) {
    try {
      static_cast<void>(parse_options(row.arguments));
      FAIL("accepted");
    } catch (const InputError& error) {
      CAPTURE(error.what());
      CHECK(std::string(error.what()).find(row.message) != std::string::npos);
    }
  }
}

TEST_CASE("a process of a job is told by what mpirun and srun set, and one alone is none") {
  const struct {
    const char* name;
    std::map<std::string, const char*> variables;
    std::optional<int> local;
  } rows[] = {
      {"alone", {}, std::nullopt},
      {"Open MPI", {{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}}, 3},
      {"Open MPI, one process",
       {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}},
       std::nullopt},
      {"MPICH", {{"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}}, 1},
      {"srun", {{"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_LOCALID", "7"}}, 7},
      {"a batch script's own step", {{"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "16"}}, std::nullopt},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    CHECK(local_process([&](const char* name) {
            const auto found = row.variables.find(name);
            return found == row.variables.end() ? nullptr : found->second;
          }) == row.local);
  }
}
