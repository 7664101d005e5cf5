// `syncline calibrate --backend`: from measuring a machine to simulating on what was measured.
#include <doctest/doctest.h>

#include "sim/config/scenario.hpp"
#include "sim/core/csv.hpp"
#include "tests/cli/mpi.hpp"
#include "tests/cli/program.hpp"

using namespace syncline;
using namespace syncline::test;

TEST_CASE("a machine is measured, and its files are what other commands take") {
  SKIP_WITHOUT_MPI();
  const Folder folder;
  const Outcome measured =
      run(folder, "calibrate --backend mpi --ranks 2 --largest 64KiB --repeats 2 --out here");
  REQUIRE_MESSAGE(measured.code == 0, measured.err);
  CHECK(contains(measured.out, "predicted against measured time"));
  CHECK(contains(measured.out, "of the host to issue"));

  const TopologySpec topology = load_topology(folder / "here/topology.yaml");
  CHECK(topology.accelerators == 2);
  REQUIRE(topology.collectives);
  CHECK(!topology.collectives->ring_all_reduce.empty());
  CHECK(!topology.collectives->direct.empty());
  CHECK(!topology.collectives->send.empty());
  CHECK(topology.collectives->ring.front().hop_inside < Seconds(0.1));

  const CsvTable table = CsvTable::parse(read(folder / "here/collectives.csv"), "collectives.csv");
  CHECK(table.size() == 7 * 5);  // kinds; 256 B, 1, 4, 16 and 64 KiB
  for (std::size_t row = 0; row < table.size(); ++row) CHECK(std::stod(table.at(row, "time_us")) > 0);

  const Outcome again = run(folder, "calibrate fabric --csv here/collectives.csv --base here/topology.yaml");
  CHECK_MESSAGE(again.code == 0, again.err);
  const Outcome simulated =
      run(folder, "collective --topology here/topology.yaml --kind all-reduce --sizes 4KiB --json");
  CHECK_MESSAGE(simulated.code == 0, simulated.err);
}

TEST_CASE("what calibrate cannot take is refused") {
  const Folder folder;
  check_refused(folder,
                {{"nothing to do", "calibrate", 2, "name a part"},
                 {"no folder", "calibrate --backend mpi", 2, "--out"},
                 {"unknown backend", "calibrate --backend smoke --out here", 2, "smoke not in {mpi,cuda}"},
                 {"one rank", "calibrate --backend mpi --ranks 1 --out here", 2, "--ranks"},
                 {"no backend", "calibrate --ranks 4 --out here", 2, "--backend"},
                 {"no size", "calibrate --backend mpi --largest 64 --out here", 2, "--largest"}});
}
