// Logs of nccl-tests and rccl-tests: text in, runs with their rows out.
//
// Understood: the layouts with and without a root column, with `error` or `#wrong`; several ops in one file; prefixes of
// mpirun --tag-output and srun --label, also in the middle of a line; NCCL INFO lines between and inside of rows; logs
// pasted into Markdown; text that breaks off anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/quantity.hpp"

namespace syncline::calibrate {

enum class NcclOp : std::uint8_t {
  Unknown,
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  SendReceive,
  Broadcast,
  Reduce,
  Gather,
  Scatter
};
/// "all_reduce", as nccl-tests names it; "unknown".
[[nodiscard]] std::string_view name_of(NcclOp op);
/// By that name, with or without `_perf`; Unknown for any other.
[[nodiscard]] NcclOp nccl_op(std::string_view name);
/// busbw / algbw among n ranks. Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md. 0 for Unknown.
[[nodiscard]] double bus_factor(NcclOp op, int ranks);

struct NcclTiming {
  Seconds time;                 // of one call
  BytesPerSecond algbw, busbw;  // as printed, GB/s of 1e9 B
};

struct NcclRow {
  Bytes size;              // S, of the whole buffer
  std::int64_t count = 0;  // elements
  std::string datatype, redop;
  int root = -1;  // -1: none
  NcclTiming out_of_place;
  std::optional<NcclTiming> in_place;
  int line = 0;  // in the file, from 1
};

struct NcclRun {
  NcclOp op = NcclOp::Unknown;
  int line = 0;                      // where its header begins
  int ranks = 0, nodes = 0;          // 0: the list of devices is missing
  int per_node = 0;                  // ranks on every node; 0: not the same on all
  std::vector<std::string> devices;  // names of the GPUs, each once
  std::string library, version;      // "NCCL", "2.22.3"; empty where not stated
  std::vector<NcclRow> rows;
  bool complete = false;  // its closing average was printed
  std::vector<std::string> warnings;
};

struct NcclLog {
  std::string file;
  std::vector<NcclRun> runs;
  std::vector<std::string> warnings;  // of the whole, such as "2 separate runs of 1 rank"
};

/// Never fails: what cannot be read is left out and told in the warnings. An op that the log does not name is taken
/// from a command line in it, the file's name, or the ratio of busbw to algbw.
[[nodiscard]] NcclLog read_nccl_logs(std::string_view text, std::string file);

/// How many runs are of a single rank; what these print is no communication.
[[nodiscard]] int single_rank_runs(const NcclLog& log);

}  // namespace syncline::calibrate
