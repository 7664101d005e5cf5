// In place of mpi_workers.cpp where the program is built without MPI.
#include "sim/core/error.hpp"
#include "tools/mpi_workers.hpp"

namespace syncline {

std::string mpi_library() { return ""; }

MpiJob::MpiJob() {
  throw EnvironmentError("this is one process of an MPI job, but the program is built without MPI; install it "
                         "(Debian: libopenmpi-dev openmpi-bin) and configure the build again, or start it without mpirun");
}
MpiJob::~MpiJob() = default;
void MpiJob::work_through(const std::vector<std::size_t>&, const WorkerOptions&, const WorkerCalls&, const std::string&) {}
void MpiJob::serve(const WorkerOptions&, const WorkerCalls&, const std::string&) {}

}  // namespace syncline
