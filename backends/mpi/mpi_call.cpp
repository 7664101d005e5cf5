#include "backends/mpi/mpi_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <stdexcept>

#include "sim/core/error.hpp"

namespace syncline::mpi {
namespace {

// A sleep ends late by the time that the system takes to wake a thread: that much is spent looking at the
// clock.
constexpr Seconds Looking{50e-6};
// Sleeps are no longer than this, so that who is asked to stop does.
constexpr Seconds LongestSleep{0.05};

void nap(Seconds time) {
  timespec length{};
  length.tv_sec = static_cast<time_t>(time.si());
  length.tv_nsec = static_cast<long>((time.si() - std::floor(time.si())) * 1e9);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
}

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw EnvironmentError(fmt::format("{}: {}", call, text));
}

Seconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Seconds(static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9);
}

void wait_all(std::span<MPI_Request> requests, const std::stop_token& stop, const Patience& patience) {
  const Seconds begin = now();
  while (true) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (done != 0) return;
    if (stop.stop_requested()) throw std::runtime_error("asked to stop");
    nap(std::clamp((now() - begin) * patience.share, patience.least, patience.most));
  }
}

void sleep_until(Seconds then, const std::stop_token& stop) {
  for (Seconds left = then - now(); left > Seconds(0); left = then - now()) {
    if (stop.stop_requested()) throw std::runtime_error("asked to stop");
    if (left > Looking) nap(std::min(left - Looking, LongestSleep));
  }
}

}  // namespace syncline::mpi
