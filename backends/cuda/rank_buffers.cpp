#include "backends/cuda/rank_buffers.hpp"

namespace syncline::cuda {
namespace {

constexpr std::size_t Alignment = 512;

/// Hands out one piece of memory after another; with none given it only counts.
class Pieces {
 public:
  explicit Pieces(std::byte* memory) : memory_(memory) {}

  std::byte* take(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    std::byte* const piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (bytes + Alignment - 1) / Alignment * Alignment;
    return piece;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::byte* const memory_;
  std::size_t used_ = 0;
};

StreamBuffers take(Pieces& pieces, const StreamBytes& bytes) {
  StreamBuffers buffers;
  buffers.send = pieces.take(bytes.send);
  buffers.receive = pieces.take(bytes.receive);
  buffers.left = pieces.take(bytes.left);
  buffers.right = pieces.take(bytes.right);
  buffers.result = pieces.take(bytes.result);
  buffers.read = pieces.take(bytes.passed);
  buffers.written = pieces.take(bytes.passed);
  buffers.workspace = pieces.take(bytes.workspace);
  return buffers;
}

std::size_t size_of(const RankBytes& bytes) {
  Pieces count(nullptr);
  for (const StreamBytes& stream : bytes.streams) static_cast<void>(take(count, stream));
  for (const Staging& wire : bytes.staging) static_cast<void>(count.take(wire.slot * wire.slots));
  return count.used();
}

}  // namespace

RankBuffers::RankBuffers(const RankBytes& bytes) : bytes_(bytes), memory_(allocate(size_of(bytes))) {
  Pieces pieces(memory_.get());
  for (const StreamBytes& stream : bytes_.streams) streams_.push_back(take(pieces, stream));
  for (const Staging& wire : bytes_.staging) slots_.push_back(pieces.take(wire.slot * wire.slots));
}

}  // namespace syncline::cuda
