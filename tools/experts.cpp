// `syncline experts`: dispatch and combine by a library's figures, alone or beside a table of measured ones.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/calibrate/expert_fit.hpp"
#include "sim/config/expert_library.hpp"
#include "tools/build_info.hpp"
#include "tools/expert_table.hpp"
#include "tools/options.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

using Json = nlohmann::ordered_json;

constexpr double Mega = 1e6, Micro = 1e-6;
constexpr int MostSms = 304;  // of an MI300X, which has most of the accelerators in devices/

/// One predicted operation.
struct Prediction {
  std::string op;
  moe::DispatchLoad load;
  moe::DispatchTime time;
};

/// 0: as in the library's benchmark.
struct Wanted {
  std::string library, kernel, dispatch, combine;
  int ranks = 0, nodes = 0, tokens = 0, hidden = 0, top_k = 0, experts = 0, top_nodes = -1, sms = 0;
};

int given(int value, int otherwise) {
  return value > 0 ? value : otherwise;
}

TokenPrecision precision_named(const std::string& flag, const std::string& word, TokenPrecision otherwise) {
  if (word.empty()) return otherwise;
  std::vector<std::string> known;
  for (const auto& [name, precision] : token_precisions()) {
    if (name == word) return precision;
    known.push_back(name);
  }
  refuse(flag, unknown_name("precision", word, known));
}

class ExpertQuestion {
 public:
  ExpertQuestion(const ExpertLibrary& library, const Wanted& wanted)
      : library_(library), wanted_(wanted), kernel_(chosen()) {
    const ExpertBenchmark& benchmark = library.benchmark;
    shape_ = {.ranks = wanted.ranks,
              .nodes = given(wanted.nodes, 1),
              .experts = given(wanted.experts, benchmark.experts),
              .top_k = given(wanted.top_k, benchmark.top_k),
              .top_nodes = wanted.top_nodes >= 0 ? wanted.top_nodes : benchmark.top_nodes,
              .round_robin = benchmark.round_robin};
    check();
  }

  [[nodiscard]] std::vector<Prediction> answer() const {
    std::vector<Prediction> predicted;
    for (const OperationFigures& operation : kernel_.figures) {
      const moe::DispatchLoad load = load_for(operation.op);
      std::string name;
      for (const auto& [word, op] : dispatch_ops())
        if (op == operation.op) name = word;
      predicted.push_back({name, load, moe::dispatch_time(operation.figures, load)});
    }
    return predicted;
  }
  [[nodiscard]] const ExpertKernel& kernel() const { return kernel_; }
  [[nodiscard]] const moe::DispatchShape& shape() const { return shape_; }
  [[nodiscard]] int tokens() const { return given(wanted_.tokens, library_.benchmark.tokens); }
  [[nodiscard]] int hidden() const { return given(wanted_.hidden, library_.benchmark.hidden); }
  [[nodiscard]] moe::TokenCopies copies() const { return moe::expected_copies(kernel_.travel, shape_); }

 private:
  [[nodiscard]] const ExpertKernel& chosen() const {
    const int nodes = given(wanted_.nodes, 1);
    std::vector<std::string> known;
    for (const ExpertKernel& kernel : library_.kernels) {
      const bool meant = wanted_.kernel.empty() ? kernel.fits(nodes) && !kernel.figures.empty()
                                                : kernel.name == wanted_.kernel;
      if (meant) return checked(kernel, nodes);
      known.push_back(kernel.name);
    }
    if (!wanted_.kernel.empty()) refuse("--kernel", unknown_name("kernel", wanted_.kernel, known));
    refuse("--nodes", fmt::format("{} has no figures of a kernel for {} node{}; there are {}", library_.name,
                                  nodes, nodes == 1 ? "" : "s", fmt::join(known, ", ")));
  }

  /// That it is for so many nodes.
  [[nodiscard]] const ExpertKernel& checked(const ExpertKernel& kernel, int nodes) const {
    if (!kernel.fits(nodes))
      refuse("--kernel",
             fmt::format("{} of {} is for {}; give --nodes {}, or another kernel", kernel.name, library_.name,
                         nodes > 1 ? "one node" : "several nodes", nodes > 1 ? "1" : "2 or more"));
    if (!kernel.reaches(nodes))
      refuse("--nodes",
             fmt::format("{} of {} has no rates between nodes; give --nodes 1 where one scale-up domain "
                         "holds all ranks, else another library",
                         kernel.name, library_.name));
    return kernel;
  }

  void check() const {
    if (shape_.ranks % shape_.nodes != 0)
      refuse("--nodes",
             fmt::format("{} ranks are no whole number on each of {} nodes", shape_.ranks, shape_.nodes));
    if (shape_.experts % shape_.ranks != 0)
      refuse("--experts",
             fmt::format("{} experts are no whole number on each of {} ranks", shape_.experts, shape_.ranks));
    const bool limited = shape_.top_nodes > 0 && shape_.top_nodes < shape_.nodes;
    const int choice = limited ? shape_.experts / shape_.nodes * shape_.top_nodes : shape_.experts;
    if (shape_.top_k > choice)
      refuse("--top-k", fmt::format("{} experts of a token, out of {}", shape_.top_k, choice));
  }

  [[nodiscard]] moe::DispatchLoad load_for(DispatchOp op) const {
    const ExpertBenchmark& benchmark = library_.benchmark;
    const bool combines = op == DispatchOp::Combine;
    TokenPrecision precision =
        combines ? precision_named("--combine-precision", wanted_.combine, benchmark.combine)
                 : precision_named("--dispatch-precision", wanted_.dispatch, benchmark.dispatch);
    if (op == DispatchOp::CombineLowPrecision) precision = TokenPrecision::NvFp4;
    moe::DispatchLoad load =
        moe::load_of(copies(), shape_, tokens(), token_bytes(hidden(), precision, benchmark.scale_block),
                     lanes_of(kernel_, shape_.ranks, wanted_.sms));
    if (op == DispatchOp::Prepare) load.moved = load.inside = load.between = Bytes(0);
    return load;
  }

  const ExpertLibrary& library_;
  const Wanted& wanted_;
  const ExpertKernel& kernel_;
  moe::DispatchShape shape_;
};

class Experts : public Subcommand {
 public:
  std::string name() const override { return "experts"; }
  std::string summary() const override {
    return "Time dispatch and combine of experts by a library's figures";
  }
  std::string example() const override {
    return "  syncline experts --library deepep-h800 --ranks 64 --nodes 8 --tokens 4096 --hidden 7168 "
           "--top-k 8 "
           "--experts 256\n"
           "  syncline experts --table moe_alltoall.csv\n"
           "Columns and formulas: docs/experts.md.";
  }
  void add_options(CLI::App& app) override {
    const CLI::Range count(1, MostCount);
    CLI::Option* table =
        app.add_option("--table", table_, "Measured calls: errors by library, kernel and operation")
            ->type_name("FILE.csv");
    CLI::Option* library =
        app.add_option("--library", wanted_.library, "Name in libraries/experts, or a file")
            ->type_name("NAME|FILE")
            ->excludes(table);
    const auto add = [&](const std::string& flag, int& value, const std::string& what) {
      app.add_option(flag, value, what)->check(count)->needs(library);
    };
    app.add_option("--kernel", wanted_.kernel, "Of the library (default: the first for so many nodes)")
        ->needs(library);
    add("--ranks", wanted_.ranks, "Ranks that share the experts");
    add("--nodes", wanted_.nodes, "That they are on (default: 1)");
    add("--tokens", wanted_.tokens, "Of a rank");
    add("--hidden", wanted_.hidden, "Numbers of a token");
    add("--top-k", wanted_.top_k, "Experts of a token");
    add("--experts", wanted_.experts, "Of the layer");
    app.add_option("--top-nodes", wanted_.top_nodes,
                   "A token's experts are on at most so many nodes; 0: no limit")
        ->check(CLI::Range(0, MostCount))
        ->needs(library);
    app.add_option("--sms", wanted_.sms, "That the kernel is given")
        ->check(CLI::Range(1, MostSms))
        ->needs(library);
    app.add_option("--dispatch-precision", wanted_.dispatch, "bf16, fp8 or nvfp4")->needs(library);
    app.add_option("--combine-precision", wanted_.combine, "bf16, fp8 or nvfp4")->needs(library);
    app.add_flag("--json", json_, "Print one JSON object");
  }

  ExitCode run() override {
    if (!table_.empty()) return print_table();
    if (wanted_.library.empty())
      refuse("--library", "name a library of libraries/experts, a file, or give --table");
    if (wanted_.ranks == 0) refuse("--ranks", "say how many ranks share the experts");
    return print_prediction();
  }

 private:
  ExitCode print_prediction() const {
    const ExpertLibrary library = load_expert_library(wanted_.library);
    const ExpertQuestion question(library, wanted_);
    const std::vector<Prediction> predicted = question.answer();
    const moe::DispatchShape& shape = question.shape();
    const moe::TokenCopies copies = question.copies();
    if (json_) {
      Json object{{"schema", Schema},
                  {"version", build::Version},
                  {"library", library.name},
                  {"kernel", question.kernel().name},
                  {"ranks", shape.ranks},
                  {"nodes", shape.nodes},
                  {"tokens", question.tokens()},
                  {"hidden", question.hidden()},
                  {"top_k", shape.top_k},
                  {"experts", shape.experts},
                  {"copies_to_ranks", copies.ranks},
                  {"copies_to_nodes", copies.nodes}};
      for (const Prediction& one : predicted)
        object["operations"].push_back({{"op", one.op},
                                        {"inside_bytes", one.load.inside.si()},
                                        {"between_bytes", one.load.between.si()},
                                        {"latency_s", one.time.latency.si()},
                                        {"time_s", one.time.total().si()}});
      fmt::print("{}\n", object.dump(2));
      return Done;
    }
    fmt::print("# {}, {}: {} ranks on {} node{}, {} tokens a rank, hidden {}, top {} of {}{}\n", library.name,
               question.kernel().name, shape.ranks, shape.nodes, shape.nodes == 1 ? "" : "s",
               question.tokens(), question.hidden(), shape.top_k, shape.experts,
               shape.top_nodes > 0 && shape.top_nodes < shape.nodes
                   ? fmt::format(" on {} nodes at most", shape.top_nodes)
                   : "");
    fmt::print("# a token goes to {:.2f} ranks", copies.ranks);
    if (shape.nodes > 1 && question.kernel().travel == moe::Travel::TwoHop)
      fmt::print(" of {:.2f} nodes", copies.nodes);
    fmt::print("\n# {:<24}{:>14}{:>14}{:>14}{:>14}\n", "operation", "inside (MB)", "between (MB)",
               "latency (us)", "time (us)");
    for (const Prediction& one : predicted)
      fmt::print("  {:<24}{:>14.3f}{:>14.3f}{:>14.2f}{:>14.2f}\n", one.op, one.load.inside.si() / Mega,
                 one.load.between.si() / Mega, one.time.latency.si() / Micro, one.time.total().si() / Micro);
    return Done;
  }

  ExitCode print_table() const {
    const std::vector<ExpertLibrary> libraries = expert_libraries();
    const calibrate::ExpertTable table = read_expert_table(table_, libraries);
    std::vector<std::optional<Seconds>> predicted;
    for (const calibrate::ExpertRow& row : table.rows)
      predicted.push_back(calibrate::predict(row, libraries));
    const ExpertErrors errors(table, libraries, predicted);
    if (!json_) {
      errors.print();
      return Done;
    }
    Json object{{"schema", Schema}, {"version", build::Version}};
    object["groups"] = errors.groups_json();
    object["all"] = errors.all_json();
    object["left_out"] = table.left_out;
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      object["rows"].push_back({{"id", table.rows[i].id},
                                {"library", libraries[table.rows[i].library].name},
                                {"measured_s", table.rows[i].measured.si()},
                                {"predicted_s", predicted[i] ? Json(predicted[i]->si()) : Json()}});
    fmt::print("{}\n", object.dump(2));
    return Done;
  }

  std::string table_;
  Wanted wanted_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_experts() {
  return std::make_unique<Experts>();
}

}  // namespace syncline
