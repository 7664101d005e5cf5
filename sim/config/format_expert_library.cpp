// libraries/experts/NAME.yaml.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "sim/config/expert_library.hpp"
#include "sim/config/format_parts.hpp"

namespace syncline {

namespace {

constexpr Limits Count{.low = 0, .high = 1e9};
constexpr Limits Copies{.low = 1, .high = 1e6};  // ranks, experts, SMs
constexpr double ScaleBytes = 4;                 // of an fp8 block: float32
constexpr double NvFp4Bytes = 0.5 + 1.0 / 16;    // a number, with an fp8 scale for 16

Names<moe::Travel> travels() {
  return {{"two-hop", moe::Travel::TwoHop},
          {"per-rank", moe::Travel::PerRank},
          {"direct", moe::Travel::Direct},
          {"padded", moe::Travel::Padded}};
}
Names<moe::Lanes> lane_kinds() {
  return {{"none", moe::Lanes::None}, {"sms", moe::Lanes::Sms}, {"peers", moe::Lanes::Peers}};
}
Names<ExpertKernel::Nodes> node_counts() {
  using enum ExpertKernel::Nodes;
  return {{"any", Any}, {"one", One}, {"several", Several}};
}

/// A regular expression, kept as text. Empty: not given, and not printed.
Codec pattern_codec(std::string& pattern) {
  return {"a regular expression",
          [&pattern](const ConfigValue& value) {
            codec(pattern).read(value);
            try {
              static_cast<void>(std::regex(pattern));
            } catch (const std::regex_error& error) {
              value.fail(fmt::format("is no regular expression: {}", error.what()));
            }
          },
          [&pattern] { return pattern.empty() ? ConfigNode{} : scalar_node(pattern); }};
}
Field pattern(std::string_view key, std::string& text) {
  return {key, false, pattern_codec(text)};
}

/// A time of which there is none by default.
Field cost(std::string_view key, Seconds& time) {
  return printed_if(time > Seconds(0), optional(key, time));
}

}  // namespace

namespace moe {
// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Fields fields_of(NodeRate& rate);
Fields fields_of(NodeRate& rate) {
  return {required("nodes", rate.nodes, Copies), required("rate", rate.rate)};
}
}  // namespace moe

Fields fields_of(OperationFigures& operation);
Fields fields_of(FigureGuess& guess);
Fields fields_of(ExpertKernel& kernel);

Fields fields_of(OperationFigures& operation) {
  moe::DispatchFigures& figures = operation.figures;
  return {{"op", true, codec(operation.op, dispatch_ops())},
          required("call", figures.call),
          cost("far", figures.far),
          cost("rank", figures.rank),
          cost("node", figures.node),
          cost("expert", figures.expert),
          cost("token", figures.token),
          cost("copy", figures.copy),
          optional("lane", figures.lane),
          optional("inside", figures.inside),
          optional("between", figures.between),
          optional("measured", operation.measured, Count),
          optional("error", operation.error, FromZero)};
}

Fields fields_of(FigureGuess& guess) {
  return {optional("call", guess.call), optional("node", guess.node), optional("copy", guess.copy),
          optional("between", guess.between)};
}

Fields fields_of(ExpertKernel& kernel) {
  const FigureGuess& guess = kernel.guess;
  const bool guessed = guess.call || guess.node || guess.copy || guess.between;
  return {
      required("name", kernel.name),
      pattern("rows", kernel.rows),
      printed_if(kernel.nodes != ExpertKernel::Nodes::Any, optional("nodes", kernel.nodes, node_counts())),
      required("travel", kernel.travel, travels()),
      printed_if(kernel.lanes != moe::Lanes::None, optional("lanes", kernel.lanes, lane_kinds())),
      printed_if(kernel.sms > 0, optional("sms", kernel.sms, Copies)),
      printed_if(guessed, optional_block("guess", fields_of(kernel.guess))),
      optional("figures", kernel.figures)};
}

Fields fields_of(ExpertLibrary& library) {
  ExpertBenchmark& benchmark = library.benchmark;
  return {
      version_field(true),
      required("name", library.name),
      required("source", library.source),
      required("family", library.family),
      optional_block("rows",
                     {pattern("library", library.rows.library), pattern("gpu", library.rows.gpu),
                      pattern("network", library.rows.network), pattern("source", library.rows.source)}),
      pattern("stands-for", library.stands_for),
      required_block("links",
                     {required("inside", library.link_inside), required("between", library.link_between)}),
      optional_block(
          "benchmark",
          {optional("tokens", benchmark.tokens, Count), optional("hidden", benchmark.hidden, Count),
           optional("top-k", benchmark.top_k, Copies), optional("experts", benchmark.experts, Copies),
           optional("top-nodes", benchmark.top_nodes, Count), optional("round-robin", benchmark.round_robin),
           optional("scale-block", benchmark.scale_block, Count),
           optional("dispatch", benchmark.dispatch, token_precisions()),
           optional("combine", benchmark.combine, token_precisions())}),
      required("kernels", library.kernels)};
}

Codec codec(ExpertLibrary& library) {
  return block_or_name_codec(library, ExpertLibraries, "the name of a library of dispatch and combine");
}

Names<DispatchOp> dispatch_ops() {
  return {{"dispatch", DispatchOp::Dispatch},
          {"combine", DispatchOp::Combine},
          {"combine_low_precision", DispatchOp::CombineLowPrecision},
          {"prepare", DispatchOp::Prepare},
          {"alltoall", DispatchOp::AllToAll}};
}

Names<TokenPrecision> token_precisions() {
  return {{"bf16", TokenPrecision::Bf16}, {"fp8", TokenPrecision::Fp8}, {"nvfp4", TokenPrecision::NvFp4}};
}

bool ExpertKernel::reaches(int count) const {
  return count == 1 || std::ranges::all_of(figures, [](const OperationFigures& operation) {
           return operation.op == DispatchOp::Prepare || !operation.figures.between.empty();
         });
}

const OperationFigures* ExpertKernel::find(DispatchOp op) const {
  const auto found = std::ranges::find(figures, op, &OperationFigures::op);
  return found == figures.end() ? nullptr : &*found;
}

Bytes token_bytes(int hidden, TokenPrecision precision, int scale_block) {
  switch (precision) {
    case TokenPrecision::Bf16: return Bytes(2.0 * hidden);
    case TokenPrecision::Fp8: return Bytes(hidden * (scale_block > 0 ? 1 + ScaleBytes / scale_block : 1));
    case TokenPrecision::NvFp4: return Bytes(hidden * NvFp4Bytes);
  }
  return {};
}

double lanes_of(const ExpertKernel& kernel, int ranks, int sms) {
  switch (kernel.lanes) {
    case moe::Lanes::None: return 0;
    case moe::Lanes::Sms: return sms > 0 ? sms : kernel.sms;
    case moe::Lanes::Peers: return ranks;
  }
  return 0;
}

ExpertLibrary load_expert_library(const std::string& name_or_file) {
  ExpertLibrary library;
  load_block(name_or_file, ExpertLibraries, library);
  return library;
}

std::vector<ExpertLibrary> expert_libraries() {
  std::vector<ExpertLibrary> libraries;
  for (const std::string& name : names_in(ExpertLibraries)) libraries.push_back(load_expert_library(name));
  return libraries;
}

std::string show_expert_library(const ExpertLibrary& library) {
  ExpertLibrary copy = library;  // tables hold references to what they could also read into
  copy.kernels.clear();
  std::string text = to_yaml(write_fields(fields_of(copy))) + "kernels:\n";
  for (ExpertKernel kernel : library.kernels) {
    std::istringstream lines(to_yaml(write_fields(fields_of(kernel))));
    const char* indent = "  - ";
    for (std::string line; std::getline(lines, line); indent = "    ") text += indent + line + "\n";
  }
  return text;
}

}  // namespace syncline
