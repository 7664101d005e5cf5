// A rank's program as its host walks it: groups, peers and sizes looked up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backends/execute/plan.hpp"

namespace syncline {

/// A group used in one stream: its collectives follow one another on a communicator of its own. All ranks number
/// channels alike.
struct Channel {
  std::uint32_t number = 0;
  std::vector<RankId> members;  // in the group's order
  std::string name;             // "dp 3 on dp-gather"
};

/// All that one rank sends another between two streams; a communicator of two, where such are needed. All ranks number
/// wires alike.
struct Wire {
  std::uint32_t number = 0;
  RankId sender, receiver;
};

struct ComputeTask {
  const Work* work = nullptr;
  double factor = 1;  // of this rank: its speed, times what it has of the op's load
  Seconds planned;    // with the factor
};

struct CollectiveTask {
  CollectiveKind kind = CollectiveKind::AllReduce;
  std::uint32_t channel = 0;   // position in RankProgram::channels
  std::uint32_t position = 0;  // of the rank among the members
  Bytes bytes;                 // as in Collective
  // All-to-all: by member, in order; its own included.
  std::vector<Bytes> to{}, from{};
};

struct TransferTask {
  bool sends = false;  // else it receives
  RankId peer;
  std::uint32_t wire = 0;  // position in RankProgram::wires
  int tag = 0;  // 0, 1, ...: the how-manieth between the two ranks with this message number; pairs are of one tag and message
  int message = 0;
  Bytes bytes;
  bool eager = false;
};

using Task = std::variant<ComputeTask, CollectiveTask, TransferTask, HostWork, HostWait>;

[[nodiscard]] inline bool on_host(const Task& task) {
  return std::holds_alternative<HostWork>(task) || std::holds_alternative<HostWait>(task);
}

struct Step {
  Task task;
  StreamId stream{};                 // not of host ops
  std::vector<std::uint32_t> after;  // earlier ops of other streams; those of its own go before it anyway
};

struct RankProgram {
  RankId rank;
  std::vector<Step> steps;  // by place in the role's program
  std::vector<Channel> channels;
  std::vector<Wire> wires;
};

/// @pre the schedule is sound (check_schedule)
[[nodiscard]] RankProgram rank_program(const ExecutionPlan& plan, RankId rank);
[[nodiscard]] std::vector<RankProgram> rank_programs(const ExecutionPlan& plan);  // of all ranks

/// "all-gather 64 MiB on dp 3, F layer 2": for messages.
[[nodiscard]] std::string describe(const ExecutionPlan& plan, const RankProgram& program, std::uint32_t op);

}  // namespace syncline
