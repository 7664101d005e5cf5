// Collectives of a schedule as calls of MPI. Only for sources of this folder and its tests: it includes
// mpi.h.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "backends/execute/rank_program.hpp"

namespace syncline::mpi {

/// Where an op's data comes from and goes to.
struct Buffers {
  float* from = nullptr;
  float* to = nullptr;
};

/// How large they have to be, in elements of 4 bytes; parts are rounded up to whole ones.
struct BufferNeed {
  std::size_t from = 0, to = 0;
};

/// @throws EnvironmentError when it is more than a call of MPI takes (2^31 − 1 elements)
[[nodiscard]] BufferNeed need_of(const CollectiveTask& task, std::size_t members);
[[nodiscard]] BufferNeed need_of(const TransferTask& task);

/// A collective of a program, which may be carried out again and again.
class CollectiveCall {
 public:
  /// @param channel  of the members, among which `task.position` is the rank; MPI_COMM_NULL where it is alone
  CollectiveCall(const CollectiveTask& task, MPI_Comm channel);

  /// Begins it and returns what to wait for. All members call it together. Sums are of floats. A rank that
  /// is alone moves nothing.
  /// @throws EnvironmentError when a call fails
  [[nodiscard]] std::vector<MPI_Request> begin(const Buffers& buffers) const;

 private:
  /// What lies where in a buffer, by member.
  struct Layout {
    std::vector<int> counts, places;
    explicit Layout(const std::vector<Bytes>& parts);
  };

  CollectiveKind kind_;
  MPI_Comm channel_;
  int members_ = 1, position_ = 0;
  int whole_ = 0, part_ = 0;  // elements
  Layout to_, from_;          // of an all-to-all; read by MPI until the call has ended
};

}  // namespace syncline::mpi
