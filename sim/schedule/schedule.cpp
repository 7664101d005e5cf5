#include "sim/schedule/schedule.hpp"

#include <fmt/format.h>

#include <array>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

// Names by position of the enum value.
template <class Enum>
struct Names;
template <>
struct Names<KernelClass> {
  static constexpr std::array<std::string_view, 6> all{"gemm",   "attention", "elementwise",
                                                       "gather", "optimizer", "fixed"};
};
template <>
struct Names<Precision> {
  static constexpr std::array<std::string_view, 8> all{"fp32", "tf32", "fp16", "bf16",
                                                       "fp8",  "int8", "fp4",  "fp8-block"};
};
template <>
struct Names<Phase> {
  static constexpr std::array<std::string_view, 7> all{"F", "B", "I", "W", "FB", "opt", "other"};
};
template <>
struct Names<MemoryCategory> {
  static constexpr std::array<std::string_view, MemoryCategoryCount> all{
      "parameters",  "gathered-parameters",   "gradients", "optimizer",
      "activations", "communication-buffers", "reserve"};
};
template <>
struct Names<CollectiveKind> {
  static constexpr std::array<std::string_view, 9> all{"all-reduce", "all-gather", "reduce-scatter",
                                                       "broadcast",  "all-to-all", "shift",
                                                       "reduce",     "scatter",    "gather"};
};
template <>
struct Names<Algorithm> {
  static constexpr std::array<std::string_view, 10> all{"auto",       "ring",      "direct",   "tree",
                                                        "in-network", "recursive", "pairwise", "hierarchical",
                                                        "bucket",     "two-hop"};
};

template <class Enum>
std::string_view lookup(Enum value) {
  return Names<Enum>::all.at(static_cast<std::size_t>(value));
}

}  // namespace

std::string_view name_of(KernelClass value) {
  return lookup(value);
}
std::string_view name_of(Precision value) {
  return lookup(value);
}
std::string_view name_of(Phase value) {
  return lookup(value);
}
std::string_view name_of(MemoryCategory value) {
  return lookup(value);
}
std::string_view name_of(CollectiveKind value) {
  return lookup(value);
}
std::string_view name_of(Algorithm value) {
  return lookup(value);
}

template <class Enum>
std::optional<Enum> value_of(std::string_view name) {
  for (std::size_t i = 0; i < Names<Enum>::all.size(); ++i)
    if (Names<Enum>::all[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

template <class Enum>
std::vector<std::string> names_of() {
  return {Names<Enum>::all.begin(), Names<Enum>::all.end()};
}

#define SYNCLINE_NAMES(Enum)                                     \
  template std::optional<Enum> value_of<Enum>(std::string_view); \
  template std::vector<std::string> names_of<Enum>();
SYNCLINE_NAMES(KernelClass)
SYNCLINE_NAMES(Precision)
SYNCLINE_NAMES(Phase)
SYNCLINE_NAMES(MemoryCategory)
SYNCLINE_NAMES(CollectiveKind)
SYNCLINE_NAMES(Algorithm)
#undef SYNCLINE_NAMES

RankId Schedule::peer(RankId rank, const Peer& peer) const {
  if (peer.axis < 0) return RankId(static_cast<std::size_t>(peer.coordinate));
  return meshes.front().with_coordinate(rank, peer.axis, peer.coordinate);
}

std::string to_text(const Tag& tag) {
  std::string text(name_of(tag.phase));
  if (tag.layer >= 0) text += fmt::format(" layer {}", tag.layer);
  if (tag.microbatch >= 0) text += fmt::format(" microbatch {}", tag.microbatch);
  if (tag.chunk >= 0) text += fmt::format(" chunk {}", tag.chunk);
  if (!tag.name.empty()) text += " " + tag.name;
  return text;
}

}  // namespace syncline
