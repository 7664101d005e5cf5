// What the bundles of a folded run load, and the few links that are worth simulating.
//
// When every bundle is known beforehand, links that all bundles load alike, in proportion to their bandwidth,
// are full at the same time: they form a class, and one of them decides for all. The network is given that
// one; what the others carry follows from the bytes of each bundle.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/replay/paths.hpp"

namespace syncline {

class BundleBook {
 public:
  explicit BundleBook(const Topology& topology) : topology_(topology) {}

  /// Keeps what the bundle loads, and numbers it. It must stay where it is until close().
  void enter(Bundle& bundle);
  /// Leaves in every bundle the first link of each class.
  void close();
  /// `bytes` of progress of a bundle: each link carries them times its coefficient.
  void moved(const Bundle& bundle, Bytes bytes) { entries_[bundle.number].moved += bytes; }
  /// By LinkId.
  [[nodiscard]] std::vector<Bytes> carried() const;

 private:
  struct Entry {
    Bundle* bundle;
    std::vector<LinkUse> uses;
    Bytes moved;
  };
  const Topology& topology_;
  std::vector<Entry> entries_;
};

}  // namespace syncline
