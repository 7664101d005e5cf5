// The schedule: what every rank computes and sends, in which stream, in which order.
//
// Ranks with the same part share one *role*, whose program lists ops in the order the host issues them; so memory
// grows with roles, not with ranks. Nothing here knows of transformers, pipelines or experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/core/ids.hpp"
#include "sim/core/quantity.hpp"
#include "sim/parallel/mesh.hpp"

namespace syncline {

// --- compute -------------------------------------------------------------------------------------------------------

/// Gather: rows moved to other places, as elementwise else.
enum class KernelClass : std::uint8_t { Gemm, Attention, Elementwise, Gather, Optimizer, Fixed };
/// Of the operands. Fp8Block: fp8 with a scale for each block of 128 numbers, which has a rate of its own.
enum class Precision : std::uint8_t { Fp32, Tf32, Fp16, Bf16, Fp8, Int8, Fp4, Fp8Block };

/// One device kernel. Which cost it has is the device's affair (sim/device).
struct Kernel {
  KernelClass kind = KernelClass::Elementwise;
  Precision precision = Precision::Bf16;
  Flop flop;               // multiply and add count as two
  Bytes hbm;               // bytes read and written, each once
  std::int64_t batch = 1;  // Gemm: independent products of (m × k)·(k × n); Attention: batch × heads
  std::int64_t m = 0, n = 0, k = 0;  // Gemm: the sizes. Attention: m query length, n key length, k head size
  bool backward = false;             // Attention: its backward kernel
  bool grouped = false;              // Gemm: each product of the batch is a kernel of its own, as of experts
  Seconds fixed;                     // Fixed: the time itself
  int launches = 1;  // calls of the host that it takes; 0: it is in a graph that another's call has begun
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// The kernels of one compute op, launched one after another. Ops with equal work share it.
struct Work {
  std::string name;
  std::vector<Kernel> kernels;
  friend bool operator==(const Work&, const Work&) = default;
};

// --- ops -----------------------------------------------------------------------------------------------------------

/// Backward is the whole of it; BackwardInput and BackwardWeight are its halves where they run apart; ForwardBackward is a
/// block in which a forward and a whole backward run as one.
enum class Phase : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  ForwardBackward,
  Optimizer,
  Other
};

/// What an op is for; timelines are aligned by it. -1: does not apply.
struct Tag {
  Phase phase = Phase::Other;
  int layer = -1;
  int microbatch = -1;
  int chunk = -1;
  std::string name;  // "all-gather", "layer"; no spaces
  friend bool operator==(const Tag&, const Tag&) = default;
};

enum class MemoryCategory : std::uint8_t {
  Parameters,
  GatheredParameters,
  Gradients,
  Optimizer,
  Activations,
  CommunicationBuffers,
  Reserve
};
constexpr std::size_t MemoryCategoryCount = 7;

/// Bytes taken when the op starts (positive) or given back when it ends (negative).
struct MemoryEffect {
  MemoryCategory category;
  Bytes bytes;
  bool by_load = false;  // times the rank's factor of the op's load
  friend bool operator==(const MemoryEffect&, const MemoryEffect&) = default;
};

enum class CollectiveKind : std::uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  AllToAll,
  Shift,
  Reduce,
  Scatter,
  Gather
};
/// Which of them carry out which kind: sim/collective/collective.hpp.
enum class Algorithm : std::uint8_t {
  Auto,
  Ring,
  Direct,
  Tree,
  InNetwork,
  Recursive,
  Pairwise,
  Hierarchical,
  Bucket,
  TwoHop
};

struct Compute {
  WorkId work;
  friend bool operator==(const Compute&, const Compute&) = default;
};

/// Of the rank's group in `family`. `bytes` is S as nccl-tests counts it: the whole buffer (all-gather and
/// reduce-scatter: n × the part of one rank; all-to-all: all that one rank sends, its own part included; with an
/// exchange the mean of that over the group).
/// Broadcast and scatter are from the group's first member, reduce and gather to it; of scatter and gather `bytes` is what
/// the first member holds, n × the part of one. Shift: each member passes `bytes` on to its neighbour in the ring.
struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  FamilyId family;
  Algorithm algorithm = Algorithm::Auto;
  Bytes bytes;
  int chunks = 1;  // pieces that follow one another through the rounds of hierarchical, bucket and the like
  std::optional<ExchangeId> exchange{};  // all-to-all: who sends how much to whom; none: all as much to all
  bool back = false;                   // ... the other way: what was received goes back to whom it came from
  std::optional<LibraryId> library{};  // a library of its own carries it out; none: the topology's
  int units =
      0;  // of the device (streaming multiprocessors), that it takes from compute; 0: as the device says
  Seconds call{};   // of a library of its own: what it takes besides the bytes,
  Seconds least{};  // ... and at least for them
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// The other end of a send or receive: a rank by number, or the rank with the same coordinates but `coordinate` on
/// `axis` of the first mesh (so that all ranks of a pipeline stage share one program).
struct Peer {
  int axis = -1;  // -1: `coordinate` is a rank
  int coordinate = 0;
  friend bool operator==(const Peer&, const Peer&) = default;
};

/// Matched in order by (sender, receiver, message). Eager: arrives latency + bytes/bandwidth after the send began,
/// the sender is not held up; both ends must say the same.
struct Send {
  Peer to;
  Bytes bytes;
  int message = 0;
  bool eager = false;
  friend bool operator==(const Send&, const Send&) = default;
};
struct Receive {
  Peer from;
  Bytes bytes;
  int message = 0;
  bool eager = false;
  friend bool operator==(const Receive&, const Receive&) = default;
};

/// The host works for `duration`, or waits for an earlier op of its rank to end. Host ops stand in no stream.
struct HostWork {
  Seconds duration;
  friend bool operator==(const HostWork&, const HostWork&) = default;
};
struct HostWait {
  OpIndex op;
  friend bool operator==(const HostWait&, const HostWait&) = default;
};

using OpBody = std::variant<Compute, Collective, Send, Receive, HostWork, HostWait>;

struct Op {
  OpBody body;
  StreamId stream;  // not used by host ops
  Tag tag;
  std::vector<OpIndex> after;  // earlier ops of the same rank it waits for, ascending (CUDA events)
  std::vector<MemoryEffect> memory;
  std::optional<LoadId> load{};  // compute: how much of it a rank has; none: all as much
  friend bool operator==(const Op&, const Op&) = default;

  [[nodiscard]] bool on_host() const {
    return std::holds_alternative<HostWork>(body) || std::holds_alternative<HostWait>(body);
  }
  [[nodiscard]] bool communicates() const {
    return std::holds_alternative<Collective>(body) || std::holds_alternative<Send>(body) ||
           std::holds_alternative<Receive>(body);
  }
};

/// The part that some ranks play.
struct Role {
  std::string name;
  std::vector<Op> program;             // in the order the host issues
  std::vector<MemoryEffect> resident;  // held from before the first op to the end: shards, optimizer state
  friend bool operator==(const Role&, const Role&) = default;
};

// --- the whole -----------------------------------------------------------------------------------------------------

/// What the step is worth, for tokens/s and MFU. Zero where unknown.
struct Job {
  double tokens = 0;                      // per step, all ranks
  Flop model_flop;                        // per step, all ranks; without recomputation
  Flop hardware_flop;                     // with recomputation
  Precision precision = Precision::Bf16;  // whose peak MFU is measured against
  friend bool operator==(const Job&, const Job&) = default;
};

/// A rank whose compute is slower (or faster) than its role's: time is multiplied by `factor`.
struct RankSpeed {
  RankId rank;
  double factor = 1.0;
  friend bool operator==(const RankSpeed&, const RankSpeed&) = default;
};

/// An all-to-all-v: items of equal size that members of a group of n have for each other, by position. A member's own are
/// copied, not sent.
///
/// An item that several members of one node want may cross to it once, for all of them (`to_nodes`), to the member at the
/// sender's own place in that node, which passes it on: two-hop, the order of DeepEP (github.com/deepseek-ai/DeepEP).
/// Other algorithms send every copy on its own.
struct Exchange {
  std::string name;  // no spaces
  int members = 0;   // n
  std::vector<double>
      counts;  // [from · n + to]; of each group of a family one after another, or once for all groups
  int node_members = 0;  // members that follow each other on one node; 0: `to_nodes` is empty; divides n
  std::vector<double>
      to_nodes{};  // [from · (n / node_members) + node], likewise; what each member has for a node, each
                   // item once
  friend bool operator==(const Exchange&, const Exchange&) = default;

  [[nodiscard]] std::size_t pairs() const {
    return static_cast<std::size_t>(members) * static_cast<std::size_t>(members);
  }
  /// Whether all groups have the same.
  [[nodiscard]] bool for_all() const { return counts.size() == pairs(); }
};

/// What a rank has of an op's work, by its position in a group: its time, and its memory by load, are the role's times
/// the factor.
struct RankLoad {
  std::string name;  // no spaces
  FamilyId family;
  std::vector<double>
      factors;  // of each group of the family one after another, or of one group for all; 0 or more
  friend bool operator==(const RankLoad&, const RankLoad&) = default;
};

struct Schedule {
  std::string name;
  std::vector<Mesh> meshes;  // at least one; all of the same world size
  std::vector<GroupFamily> families;
  std::vector<std::string> streams;  // names
  std::vector<Work> works;
  std::vector<Role> roles;
  std::vector<RoleId> role_of;    // by rank
  std::vector<RankSpeed> speeds;  // by rank, ascending; ranks not listed have factor 1
  std::vector<Exchange> exchanges{};
  std::vector<RankLoad> loads{};
  std::vector<std::string> libraries{};  // names of files of figures that collectives have (libraries/)
  Job job;

  [[nodiscard]] std::size_t world_size() const { return role_of.size(); }
  [[nodiscard]] const Role& role(RankId rank) const { return roles[role_of[rank.value()].value()]; }
  /// The rank at the other end, seen from `rank`.
  [[nodiscard]] RankId peer(RankId rank, const Peer& peer) const;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Names as they stand in files and reports; one table each, used by reader and printer alike.
[[nodiscard]] std::string_view name_of(KernelClass value);
[[nodiscard]] std::string_view name_of(Precision value);
[[nodiscard]] std::string_view name_of(Phase value);           // F, B, I, W, FB, opt, other
[[nodiscard]] std::string_view name_of(MemoryCategory value);  // parameters, gathered-parameters, ...
[[nodiscard]] std::string_view name_of(CollectiveKind value);  // all-reduce, ...
[[nodiscard]] std::string_view name_of(Algorithm value);
/// The value of that name; nullopt when there is none.
template <class Enum>
[[nodiscard]] std::optional<Enum> value_of(std::string_view name);
/// All names, for messages.
template <class Enum>
[[nodiscard]] std::vector<std::string> names_of();

/// "F layer 3 mb 0 all-gather": for people.
[[nodiscard]] std::string to_text(const Tag& tag);

}  // namespace syncline
