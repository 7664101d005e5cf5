// Pieces of a module's work as segments, cut into chunks where a collective and the products beside it
// overlap.
#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// Gathers kernels until a collective ends the segment.
class Segments {
 public:
  void add(const std::vector<Kernel>& kernels, bool by_load = false) {
    if (kernels.empty()) return;
    if (by_load != by_load_) end();
    by_load_ = by_load;
    append(open_, kernels);
  }
  void add(const Piece& piece) {
    add(piece.kernels, piece.by_load);
    if (piece.then) add(*piece.then);
    if (piece.ends) end();
  }
  void add(const LayerCollective& then) {
    const bool by_load = by_load_ && !open_.empty();
    done_.push_back({std::exchange(open_, {}), then, by_load});
  }
  std::vector<Segment> take() {
    end();
    return std::move(done_);
  }

 private:
  void end() {
    if (!open_.empty()) done_.push_back({std::exchange(open_, {}), {}, by_load_});
  }

  std::vector<Segment> done_;
  std::vector<Kernel> open_;
  bool by_load_ = false;  // of these
};

/// One of `parts` of a kernel, by tokens: a product reads all of its weights (k × n) each time.
Kernel part_of(Kernel kernel, int parts) {
  const bool product = kernel.kind == KernelClass::Gemm;
  const double weights =
      product ? static_cast<double>(kernel.k * kernel.n) * size_of(kernel.precision).si() : 0;
  kernel.hbm = (kernel.hbm - Bytes(weights)) / parts + Bytes(weights);
  kernel.flop /= parts;
  kernel.m /= parts;
  return kernel;
}

std::vector<Kernel> part_of(const std::vector<Kernel>& kernels, int parts) {
  std::vector<Kernel> result;
  for (const Kernel& kernel : kernels) result.push_back(part_of(kernel, parts));
  return result;
}

LayerCollective part_of(LayerCollective whole, int parts, bool awaited) {
  whole.bytes /= parts;
  whole.awaited = awaited;
  return whole;
}

bool cut_by_tokens(const Piece& piece, CollectiveKind kind) {
  return piece.then && piece.then->kind == kind && piece.then->group == LayerGroup::Tensor &&
         piece.then->awaited;
}

class Cutter {
 public:
  Cutter(std::vector<Piece> pieces, int parts) : pieces_(std::move(pieces)), parts_(parts) {
    std::erase_if(pieces_, [](const Piece& piece) { return piece.kernels.empty() && !piece.then; });
  }

  std::vector<Segment> run() {
    for (std::size_t at = 0; at < pieces_.size();) {
      const bool gather = cut_by_tokens(pieces_[at], CollectiveKind::AllGather);
      const std::size_t first = at + (gather ? 1 : 0), end = end_of_products(first);
      if (gather && end > first) {
        products_beside_gather(*pieces_[at].then, kernels(first, end));
        at = end;
      } else if (end > at && end < pieces_.size() &&
                 cut_by_tokens(pieces_[end], CollectiveKind::ReduceScatter)) {
        products_beside_scatter(kernels(at, end), *pieces_[end].then);
        at = end + 1;
      } else {
        segments_.add(pieces_[at++]);
      }
    }
    return segments_.take();
  }

 private:
  [[nodiscard]] std::size_t end_of_products(std::size_t first) const {
    while (first < pieces_.size() && pieces_[first].by_tokens) ++first;
    return first;
  }
  [[nodiscard]] std::vector<Kernel> kernels(std::size_t first, std::size_t end) const {
    std::vector<Kernel> all;
    for (; first < end; ++first) append(all, part_of(pieces_[first].kernels, parts_));
    return all;
  }

  void products_beside_gather(const LayerCollective& gather, const std::vector<Kernel>& products) {
    segments_.add(part_of(gather, parts_, true));
    for (int i = 0; i < parts_; ++i) {
      if (i + 1 < parts_) segments_.add(part_of(gather, parts_, false));
      segments_.add(products);
    }
  }
  void products_beside_scatter(const std::vector<Kernel>& products, const LayerCollective& scatter) {
    for (int i = 0; i < parts_; ++i) {
      segments_.add(products);
      segments_.add(part_of(scatter, parts_, i + 1 == parts_));
    }
  }

  std::vector<Piece> pieces_;
  int parts_;
  Segments segments_;
};

}  // namespace

std::vector<Segment> join(std::vector<Piece> pieces, int parts) {
  if (parts > 1) return Cutter(std::move(pieces), parts).run();
  Segments segments;
  for (const Piece& piece : pieces) segments.add(piece);
  return segments.take();
}

}  // namespace syncline::transformer
