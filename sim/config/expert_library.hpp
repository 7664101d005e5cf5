// libraries/experts/NAME.yaml: a library of dispatch and combine, its figures on one kind of GPU and network.
//
//   version: 1
//   name: deepep-h100
//   source: ...                                    # of the figures
//   family: deepep                                 # those with whom a figure that nothing tells is shared
//   rows: {library: "^DeepEP$", gpu: "^H100"}      # of tables of measurements: regular expressions by column
//   stands-for: "^H20"                             # other GPUs that have no library of their own
//   links: {inside: 450GBps, between: 50GBps}      # data sheet, of one rank and direction: no rate is above
//   benchmark: {tokens: 4096, top-nodes: 4}        # what was run, where a row does not say it
//   kernels:
//     - {name: internode, rows: "^normal", nodes: several, travel: two-hop, lanes: sms, sms: 24, figures: []}
#pragma once

#include <string>
#include <vector>

#include "sim/config/catalogue.hpp"
#include "sim/config/reader.hpp"
#include "sim/moe/dispatch_cost.hpp"

namespace syncline {

inline constexpr Catalogue ExpertLibraries{"library of dispatch and combine", "libraries/experts"};

enum class DispatchOp { Dispatch, Combine, CombineLowPrecision, Prepare, AllToAll };
[[nodiscard]] Names<DispatchOp> dispatch_ops();

/// A number of a token on its way.
enum class TokenPrecision { Bf16, Fp8, NvFp4 };
[[nodiscard]] Names<TokenPrecision> token_precisions();

/// Figures of one operation, and how they were found.
struct OperationFigures {
  DispatchOp op = DispatchOp::Dispatch;
  moe::DispatchFigures figures;
  int measured = 0;  // rows
  double error = 0;  // mean |predicted / measured − 1| over them
};

/// What a fit goes out from, and stays near where the rows do not tell: in place of the usual values.
struct FigureGuess {
  std::optional<Seconds> call, node, copy;
  std::optional<BytesPerSecond> between;
};

struct ExpertKernel {
  enum class Nodes { Any, One, Several };
  std::string name;  // "internode"
  std::string rows;  // of the column `kernel` of a table: a regular expression
  Nodes nodes = Nodes::Any;
  moe::Travel travel = moe::Travel::Direct;
  moe::Lanes lanes = moe::Lanes::None;
  int sms = 0;  // lanes by SMs: as many as it is given by default
  FigureGuess guess;
  std::vector<OperationFigures> figures;

  [[nodiscard]] bool fits(int count) const {
    return nodes == Nodes::Any || (nodes == Nodes::One) == (count == 1);
  }
  /// Whether all that brings tokens has a rate between nodes, if there are several.
  [[nodiscard]] bool reaches(int count) const;
  /// Null when there are none.
  [[nodiscard]] const OperationFigures* find(DispatchOp op) const;
};

/// What the library's own benchmark runs, where a row does not say it.
struct ExpertBenchmark {
  int tokens = 4096, hidden = 7168, top_k = 8, experts = 256;
  int top_nodes = 0;  // see moe::DispatchShape
  bool round_robin = false;
  int scale_block = 128;  // numbers of an fp8 token with a scale of 4 bytes; 0: no scales are sent
  TokenPrecision dispatch = TokenPrecision::Fp8, combine = TokenPrecision::Bf16;
};

struct ExpertLibrary {
  std::string name, source, family;
  struct Rows {
    std::string library, gpu, network, source;  // empty: any
  } rows;
  std::string stands_for;
  BytesPerSecond link_inside, link_between;
  ExpertBenchmark benchmark;
  std::vector<ExpertKernel> kernels;  // of those that fit, the first is what a training run uses
};

/// Bytes of a token: fp8 with its scales, NVFP4 with one of a byte for 16 numbers.
[[nodiscard]] Bytes token_bytes(int hidden, TokenPrecision precision, int scale_block);

/// SMs, or ranks; 0 where neither is a bound.
/// @param sms  0: as the kernel has it by default
[[nodiscard]] double lanes_of(const ExpertKernel& kernel, int ranks, int sms);

/// @throws InputError with the place of whatever is wrong
[[nodiscard]] ExpertLibrary load_expert_library(const std::string& name_or_file);
/// All of the catalogue, by name.
[[nodiscard]] std::vector<ExpertLibrary> expert_libraries();
/// As its file.
[[nodiscard]] std::string show_expert_library(const ExpertLibrary& library);

[[nodiscard]] Fields fields_of(ExpertLibrary& library);
/// A block of keys, or a name of the catalogue.
[[nodiscard]] Codec codec(ExpertLibrary& library);

}  // namespace syncline
