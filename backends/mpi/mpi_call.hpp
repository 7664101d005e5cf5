// MPI calls that are checked, and waits for them that leave the processor to others. Only for sources of
// this folder and its tests: it includes mpi.h.
#pragma once

#include <mpi.h>

#include <span>
#include <stop_token>

#include "sim/core/quantity.hpp"

namespace syncline::mpi {

/// @throws EnvironmentError with the call and the library's text, unless `code` is MPI_SUCCESS
void check(int code, const char* call);

/// CLOCK_MONOTONIC: the same for all processes of a machine.
[[nodiscard]] Seconds now();

/// How long a waiting thread sleeps between two looks: a share of the time that it has waited, so that what
/// comes soon is seen soon, and a long wait costs little. Many ranks share few cores here; one that only
/// looks takes the processor from those that work.
struct Patience {
  Seconds least{5e-6}, most{100e-6};
  double share = 0.02;
};

/// Until all requests have ended. Never blocks in MPI, which would spin.
/// @throws EnvironmentError when a call fails; std::runtime_error when asked to stop, with the requests
/// still open
void wait_all(std::span<MPI_Request> requests, const std::stop_token& stop = {},
              const Patience& patience = {});

/// Sleeps until then, to within some microseconds: the last of them are spent looking at the clock.
void sleep_until(Seconds then, const std::stop_token& stop);

}  // namespace syncline::mpi
