#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "backends/mpi/mpi_backend.hpp"
#include "backends/mpi/mpi_call.hpp"
#include "sim/core/error.hpp"

namespace syncline {
namespace {

using mpi::check;

constexpr int MessageTag = 1;
constexpr std::size_t LargestPiece = std::size_t{1} << 30;  // of a message; MPI counts in int

void wait(MPI_Request request) {
  mpi::wait_all(std::span(&request, 1));
}

class MpiWorld : public World {
 public:
  MpiWorld() {
    int threads = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads), "MPI_Init_thread");
    if (threads < MPI_THREAD_MULTIPLE)
      throw EnvironmentError("this MPI library cannot be called from several threads (MPI_THREAD_MULTIPLE)");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &own_), "MPI_Comm_dup");
  }
  ~MpiWorld() override {
    MPI_Comm_free(&own_);
    MPI_Finalize();
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(own_, &request), "MPI_Ibarrier");
    wait(request);
  }

  void send(int to, std::span<const std::byte> bytes) override {
    const std::uint64_t size = bytes.size();
    send_piece(to, std::as_bytes(std::span(&size, 1)));
    for (std::size_t at = 0; at < bytes.size(); at += LargestPiece)
      send_piece(to, bytes.subspan(at, std::min(LargestPiece, bytes.size() - at)));
  }

  std::vector<std::byte> receive(int from) override {
    std::uint64_t size = 0;
    receive_piece(from, std::as_writable_bytes(std::span(&size, 1)));
    std::vector<std::byte> bytes(size);
    for (std::size_t at = 0; at < bytes.size(); at += LargestPiece)
      receive_piece(from, std::span(bytes).subspan(at, std::min(LargestPiece, bytes.size() - at)));
    return bytes;
  }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
  }

 private:
  void send_piece(int to, std::span<const std::byte> piece) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, to, MessageTag, own_, &request),
          "MPI_Isend");
    wait(request);
  }
  void receive_piece(int from, std::span<std::byte> piece) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, from, MessageTag, own_, &request),
          "MPI_Irecv");
    wait(request);
  }

  int rank_ = 0, size_ = 1;
  MPI_Comm own_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<World> make_mpi_world() {
  return std::make_unique<MpiWorld>();
}

}  // namespace syncline
