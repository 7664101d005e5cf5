// What the program needs of MPI, as functions of a plugin that is loaded when a sweep runs as an MPI job. Not
// linked: libsimgrid has an MPI of its own under the same names (SMPI), and no other command waits for MPI to
// load.
#pragma once

#include <cstddef>

namespace syncline {

struct MpiPlugin {
  const char* (*library)();  // name and version; before begin(), too
  void (*begin)(int* rank, int* size);
  void (*end)();            // waits for all ranks
  void (*abort)(int code);  // ends all ranks, this one too; the launcher's exit code
  void (*send)(int to, int tag, const void* data, std::size_t size);
  void (*receive)(int from, int tag, void* data, std::size_t size);
  /// Whether a message of any rank is there; then whose, and how long.
  bool (*look)(int tag, int* from, std::size_t* size);
};

using MpiPluginFunction = const MpiPlugin* (*)();
inline constexpr const char* MpiPluginFile = "syncline-mpi.so";
inline constexpr const char* MpiPluginEntry = "syncline_mpi_plugin";

}  // namespace syncline
