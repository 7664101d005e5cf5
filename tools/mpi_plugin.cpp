// The only MPI code.
#include "tools/mpi_plugin.hpp"

#include <mpi.h>

namespace syncline {
namespace {

const char* library() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

void begin(int* rank, int* size) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // a lost rank is found out by its silence
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}

void end() {
  MPI_Finalize();
}

void abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
}

void send(int to, int tag, const void* data, std::size_t size) {
  MPI_Send(data, static_cast<int>(size), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

void receive(int from, int tag, void* data, std::size_t size) {
  MPI_Recv(data, static_cast<int>(size), MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

bool look(int tag, int* from, std::size_t* size) {
  int there = 0, count = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &status);
  if (there == 0) return false;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *from = status.MPI_SOURCE;
  *size = static_cast<std::size_t>(count);
  return true;
}

constexpr MpiPlugin Plugin{library, begin, end, abort, send, receive, look};

}  // namespace
}  // namespace syncline

extern "C" const syncline::MpiPlugin* syncline_mpi_plugin() {
  return &syncline::Plugin;
}
