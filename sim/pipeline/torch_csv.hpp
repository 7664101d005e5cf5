// PyTorch's pipeline schedules as CSV files: read, checked, run for deadlocks, and written.
//
// A row is a rank, a cell an action: 3F1, or (0F3;3B1)OVERLAP_F_B for a fused block. There is no header, and
// nothing in the file says which of two forms and two notations it is in:
// - compute_only has computation alone; empty cells are idle slots, which nothing depends on. PyTorch adds
//   the rest when it loads the file.
// - compute_comms has all that a rank does: 0SEND_F1, 1RECV_F1, 1SEND_B1, 0RECV_B1 move activations and
//   gradients (named by the stage that acts; none between two stages of one rank), 0UNSHARD and 0RESHARD
//   gather and drop the parameters of a stage, 0REDUCE_GRAD sums its gradients. No empty cells.
// - Notation: files until 2024 write the input half of the backward as B and the whole as BW; since then
//   they are I and B. W is the weight half in both.
// Source: pytorch/pytorch torch/distributed/pipelining/schedules.py (commit 00722e6).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/pipeline/order.hpp"

namespace syncline::pipeline {

enum class CsvKind : std::uint8_t {
  // Computation, numbered as in ActionKind.
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  // Transfers, of the stage that sends or receives.
  SendForward,
  ReceiveForward,
  SendBackward,
  ReceiveBackward,
  // Of a stage, without microbatch.
  Unshard,
  Reshard,
  ReduceGrad,
  Idle
};

struct CsvCell {
  CsvKind kind = CsvKind::Idle;
  int stage = 0;
  int microbatch = 0;
  std::optional<Action> fused{};  // the whole backward fused with this Forward
  int column = 0;                 // byte of its line where it begins, from 1

  [[nodiscard]] bool computes() const { return kind <= CsvKind::BackwardWeight; }
  [[nodiscard]] bool transfers() const {
    return CsvKind::SendForward <= kind && kind <= CsvKind::ReceiveBackward;
  }
  /// The same action; where it stands does not matter.
  friend bool operator==(const CsvCell& a, const CsvCell& b) {
    return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch && a.fused == b.fused;
  }
};

using CsvRow = std::vector<CsvCell>;

enum class CsvForm : std::uint8_t { ComputeOnly, ComputeComms };
enum class CsvNotation : std::uint8_t { Old, New };

struct TorchCsv {
  Order order;               // what is computed
  std::vector<CsvRow> rows;  // everything, by rank, in the order of the cells; idle ones too
  CsvForm form = CsvForm::ComputeOnly;
  CsvNotation notation = CsvNotation::New;
  /// The action that tells the notation ("0BW0"). Empty where nothing does: with F and B alone both notations
  /// mean the whole backward, and the new one is assumed.
  std::string told_by{};
  std::string file{};                // for messages; empty where it was made here
  std::vector<std::string> lines{};  // text of each row
};

/// "compute_comms, new notation (told by 0I0)".
[[nodiscard]] std::string describe(const TorchCsv& csv);

/// "3RECV_F1"; nothing for an idle cell.
[[nodiscard]] std::string to_text(const CsvCell& cell, CsvNotation notation = CsvNotation::New);

// --- reading ---

/// Blanks round a cell and empty lines at the end are passed over.
/// @param file  for messages
/// @throws InputError with line, column and source line of up to 20 errors: unknown actions, empty cells
///         beside transfers, an action twice, a stage on two ranks, missing stages and microbatches, a
///         backward before its forward, W before I, a transfer without its other end, a computation before
///         its receive, both notations
[[nodiscard]] TorchCsv read_torch_csv(std::string_view text, const std::string& file);

// --- running ---

/// How transfers are carried out. In both a rank does its cells one after another.
enum class CsvTransfers : std::uint8_t {
  /// A send is posted and left alone; a receive waits until its send has been posted. So PyTorch's own
  /// simulation of a schedule runs; its runtime waits a little later, in the computation that needs what was
  /// received.
  Posted,
  /// A send waits for its receive as well. So NCCL may behave for large messages: it gives no promise to
  /// buffer, and sends and receives between two ranks share a stream.
  Rendezvous
};

/// What keeps a schedule from running to its end, with the place of each action; nothing when it does:
/// - the cycle of ranks that wait for each other ("rank 0 waits in 2RECV_F0 (line 1, column 33) for 1SEND_F0
///   of rank 1 (line 2, column 20), which comes after 1F0; rank 1 waits in …");
/// - messages from one rank to another that are received in another order than they are sent. NCCL has no
///   tags: the receives would get each other's contents (pytorch/pytorch issues 94819 and 125079).
/// A compute_only schedule is run with every transfer made as soon as it can be.
/// @pre csv comes from read_torch_csv() or to_torch_csv()
[[nodiscard]] std::vector<Diagnostic> check_communication(const TorchCsv& csv, CsvTransfers transfers);

// --- writing ---

enum class CsvReceives : std::uint8_t {
  /// Where the simulated sender acts: what PyTorch itself writes. Runs whether or not sends wait.
  AtSend,
  /// Directly before its use, as in PyTorch's pull request 172833 (January 2026): a receive never holds up
  /// what does not need it. But where sends wait for receives, looped schedules deadlock (issue 172668
  /// there), and in V shapes messages cross; ask check_communication() before running one on NCCL.
  AtUse
};

/// How computation is completed to compute_comms.
struct CsvLowering {
  CsvReceives receives = CsvReceives::AtSend;
  int most_unsharded = 3;   // stages whose parameters a rank gathers ahead, the next to be used first
  bool reduce_grad = true;  // after the last W or B of a stage; files before the end of 2025 have none
};

/// No idle cells are written: PyTorch completes a compute_only file without looking at them.
/// @pre check_order() finds nothing wrong
/// @throws std::invalid_argument  when a stage stands on two ranks (DualPipe), the old notation cannot name
///         a fused block, or the order deadlocks
[[nodiscard]] TorchCsv to_torch_csv(const Order& order, CsvForm form, CsvNotation notation = CsvNotation::New,
                                    const CsvLowering& lowering = {});

/// The rows as they are, each line ended by a line feed.
[[nodiscard]] std::string write_torch_csv(const TorchCsv& csv);

}  // namespace syncline::pipeline
