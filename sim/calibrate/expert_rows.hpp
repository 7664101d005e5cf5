// Measured dispatch and combine out of a table with the columns of moe_alltoall.csv, each row with its
// library of libraries/experts/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/config/expert_library.hpp"
#include "sim/core/csv.hpp"

namespace syncline::calibrate {

/// A measured call, and whose it is.
struct ExpertRow {
  std::string id;  // of the row; its line where the table has no ids
  std::size_t library = 0, kernel = 0;
  DispatchOp op = DispatchOp::Dispatch;
  bool stands_in = false;  // of another GPU, which has no library of its own
  std::string series;      // all that is alike in rows that differ in tokens only
  moe::DispatchLoad load;
  Seconds measured;
};

struct ExpertTable {
  std::vector<ExpertRow> rows;
  std::vector<std::string> left_out;  // "12 rows: no library of ..."
};

/// A row belongs to the first library whose `rows` fit it and that has a kernel for it; else to the first of
/// which all fits but the GPU, and that stands for this one.
///
/// Columns: library, kernel, gpu, ep_ranks, op, and time_us or bandwidth_gbps with bandwidth_kind; where
/// there are any id, source, nodes, network, tokens_per_rank, hidden, topk, experts, dispatch_dtype,
/// combine_dtype, sms. What a row leaves empty is as in the library's benchmark. A bandwidth becomes a time
/// by the bytes that it counts:
/// - NVLink, XGMI: the copies that reach a rank, the one to itself among them;
/// - RDMA: the copies that reach a node, its own among them (DeepEP, tests/legacy/test_internode.py,
///   num_rdma_token_sent); of kernels without a second hop, every copy (tests/legacy/test_low_latency.py).
/// @throws InputError  a column is missing, a number cannot be read, ranks do not divide the experts
[[nodiscard]] ExpertTable read_expert_rows(const CsvTable& table, std::span<const ExpertLibrary> libraries);

}  // namespace syncline::calibrate
