// Sums over kernels, and the names of what is exchanged between them.
#pragma once

#include <string>
#include <vector>

#include "sim/model/model.hpp"

namespace syncline::test {

inline double flop(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.flop.si();
  return sum;
}
inline double flop(const std::vector<Segment>& segments) {
  return flop(kernels_of(segments));
}
inline double hbm(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.hbm.si();
  return sum;
}
inline std::vector<Kernel> of_kind(const std::vector<Kernel>& kernels, KernelClass kind) {
  std::vector<Kernel> found;
  for (const Kernel& kernel : kernels)
    if (kernel.kind == kind) found.push_back(kernel);
  return found;
}

inline std::vector<LayerCollective> collectives(const std::vector<Segment>& segments) {
  std::vector<LayerCollective> found;
  for (const Segment& segment : segments)
    if (segment.then) found.push_back(*segment.then);
  return found;
}
/// By name; in brackets those that the next segment does not await.
inline std::vector<std::string> exchanges(const std::vector<Segment>& segments) {
  std::vector<std::string> names;
  for (const LayerCollective& one : collectives(segments))
    names.push_back(one.awaited ? one.name : "(" + one.name + ")");
  return names;
}
/// Bytes of the collectives of a group.
inline double exchanged(const std::vector<Segment>& segments, LayerGroup group) {
  double sum = 0;
  for (const LayerCollective& one : collectives(segments))
    if (one.group == group) sum += one.bytes.si();
  return sum;
}

}  // namespace syncline::test
