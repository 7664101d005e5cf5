#include "sim/config/textbook.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/config/checks.hpp"
#include "sim/core/error.hpp"
#include "sim/pipeline/torch_csv.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;
using pipeline::Order;
using pipeline::StageTimes;
using pipeline::TransferMode;

constexpr Seconds ShortestBlock{1e-6};  // of the longest: the engine tells times apart to about 1e-12 s
// `show` writes the order of a file into the scenario, which must be small enough to be read again.
constexpr std::size_t LargestOrderFile = LargestConfigFile / 2;

const KeyOfFlag Keys{{"--stages", "pipeline.stages"},
                     {"--microbatches", "pipeline.microbatches"},
                     {"--chunks", "pipeline.chunks"},
                     {"--group-size", "pipeline.group-size"},
                     {"--memory-limit", "pipeline.memory-limit"}};

// --- orders in files ---

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

ConfigNode line_node(const std::shared_ptr<const ConfigSource>& source, std::size_t line, std::string text) {
  ConfigNode node = scalar_node(std::move(text));
  node.mark = {source, static_cast<int>(line) + 1, 1};
  return node;
}

/// Lines of order text; empty ones and comments are passed over.
void add_order_lines(const std::shared_ptr<const ConfigSource>& source, ConfigNode& list) {
  for (std::size_t i = 0; i < source->lines.size(); ++i) {
    const std::size_t begin = source->lines[i].find_first_not_of(" \t\r");
    if (begin == std::string::npos || source->lines[i][begin] == '#') continue;
    list.items.push_back(line_node(source, i, source->lines[i]));
  }
}

/// @throws InputError for what is wrong in the file
void add_csv_lines(const std::string& text, const std::shared_ptr<const ConfigSource>& source,
                   ConfigNode& list) {
  const pipeline::TorchCsv csv = pipeline::read_torch_csv(text, source->name);
  std::vector<Diagnostic> wrong = check_communication(csv, pipeline::CsvTransfers::Posted);
  if (!wrong.empty()) throw InputError(std::move(wrong));
  for (std::size_t rank = 0; rank < csv.order.ranks.size(); ++rank)
    list.items.push_back(line_node(source, rank, to_text(csv.order.ranks[rank])));
}

/// The file's lines as a list; Faulty, and errors, when there is something wrong with it.
ConfigNode read_lines(const ConfigNode& name, bool is_csv, const fs::path& from, ConfigErrors& errors) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::Faulty;
  list.mark = name.mark;
  const fs::path file = from / name.text;
  std::error_code ignored;
  if (name.text.empty() || !fs::is_regular_file(file, ignored)) {
    errors.add(name.mark.place(),
               fmt::format("no such file \"{}\"; an order in place is a list of lines, one a rank, such as "
                           "[\"0F0 0F1 0B0 0B1\"]",
                           file.string()));
    return list;
  }
  try {
    const std::string text = read_text_file(file.string(), LargestOrderFile);
    const auto source = std::make_shared<const ConfigSource>(ConfigSource{file.string(), lines_of(text)});
    if (is_csv)
      add_csv_lines(text, source, list);
    else
      add_order_lines(source, list);
    list.kind = ConfigNode::Kind::List;
  } catch (const InputError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) errors.add(diagnostic.place, diagnostic.message);
  }
  return list;
}

// --- checks ---

/// Without the times, which the schedule's refusal does not look at.
pipeline::Request request_of(const TextbookPipeline& book) {
  pipeline::Request request;
  request.ranks = book.ranks;
  request.microbatches = book.microbatches;
  request.chunks = book.chunks;
  request.group_size = book.group_size;
  request.memory = book.memory;
  request.memory_limit = book.memory_limit;
  request.weight_order = book.weight_order;
  return request;
}

class TextbookCheck {
 public:
  TextbookCheck(const TextbookPipeline& textbook, const ConfigNode& root, ConfigErrors& errors)
      : book_(textbook), root_(root), errors_(errors) {}

  void run() {
    check_transfers();
    if (!(book_.order ? order_is_sound() : schedule_accepts())) return;
    check_times();
    check_fused();
    if (book_.topology && book_.ranks > book_.topology->accelerators)
      fail("stages", "is {}, more ranks than topology.accelerators ({}); set that to {}", book_.ranks,
           book_.topology->accelerators, book_.ranks);
  }

 private:
  template <class... Parts>
  void fail(std::string_view key, fmt::format_string<Parts...> text, Parts&&... parts) {
    const std::string path = fmt::format("pipeline.{}", key);
    errors_.add(place_of(root_, path),
                fmt::format("\"{}\" {}", path, fmt::format(text, std::forward<Parts>(parts)...)));
  }

  void check_transfers() {
    if (book_.topology) {
      if (!book_.bytes)
        errors_.add(place_of(root_, "topology"),
                    "\"topology\" carries transfers of a size; add pipeline.bytes, or leave topology out");
      return;
    }
    if (book_.bytes && !book_.bandwidth)
      fail("bytes", "takes a time only with a bandwidth; add pipeline.bandwidth, or a topology");
    if (book_.bandwidth && !book_.bytes) fail("bandwidth", "has nothing to carry; add pipeline.bytes");
  }

  bool schedule_accepts() {
    const pipeline::Generator& generator = *book_.generator();
    const pipeline::Request request = request_of(book_);
    if (const auto reason = refusal(generator, request)) {
      errors_.add(place_of(root_, "pipeline.schedule"), in_keys(*reason, Keys));
      return false;
    }
    const double actions = most_actions(generator, request);
    if (actions <= pipeline::MostActions) return true;
    fail("microbatches", "is {}: {} would have up to {:.3g} actions, at most {:g} are simulated; lower it",
         book_.microbatches, generator.name, actions, pipeline::MostActions);
    return false;
  }

  bool order_is_sound() {
    const Order& order = *book_.order;
    std::vector<Diagnostic> wrong = check_written_order(order, places_of_ranks(), "\"pipeline.order\"",
                                                        place_of(root_, "pipeline.order"));
    for (Diagnostic& diagnostic : wrong) errors_.add(diagnostic.place, std::move(diagnostic.message));
    if (!wrong.empty()) return false;
    if (static_cast<std::size_t>(book_.ranks) != order.ranks.size())
      fail("stages", "is {}, but the order has {} ranks; leave it out", book_.ranks, order.ranks.size());
    if (book_.microbatches != order.microbatches)
      fail("microbatches", "is {}, but the order has {}; leave it out", book_.microbatches,
           order.microbatches);
    return true;
  }

  /// Of their lines.
  [[nodiscard]] std::vector<Place> places_of_ranks() const {
    std::vector<Place> places;
    for (const ConfigNode& line : root_.find("pipeline")->value.find("order")->value.items)
      places.push_back(line.mark.place());
    return places;
  }

  void check_times() {
    const auto stages = static_cast<std::size_t>(stage_count(book_));
    const auto check = [&](std::string_view key, const std::vector<Seconds>& times) {
      if (times.size() != 1 && times.size() != stages)
        fail(key, "lists {} times, but there are {} virtual stages; give one for all, or {}", times.size(),
             stages, stages);
    };
    check("forward", book_.forward);
    check("backward-input", book_.backward_input);
    check("backward-weight", book_.backward_weight);
    Seconds longest;
    for (const auto* times : {&book_.forward, &book_.backward_input, &book_.backward_weight})
      longest = std::max(longest, std::ranges::max(*times));
    if (longest <= Seconds(0))
      fail("forward", "is 0, and so is every backward: nothing takes time; give one that does");
    else if (longest < ShortestBlock)
      fail("forward", "is below 1us, and so is every backward: too short to be told apart; give longer ones");
  }

  /// Of schedules made by name the format itself knows.
  void check_fused() {
    if (book_.fused && book_.order && !has_fused_block(*book_.order))
      fail("fused", "is of fused blocks, of which the order has none; leave it out");
  }

  const TextbookPipeline& book_;
  const ConfigNode& root_;
  ConfigErrors& errors_;
};

}  // namespace

int stage_count(const TextbookPipeline& textbook) {
  return textbook.order ? textbook.order->stages
                        : stage_count(*textbook.generator(), textbook.ranks, textbook.chunks);
}

pipeline::Costs costs_of(const TextbookPipeline& textbook) {
  pipeline::Costs costs;
  costs.stages.resize(static_cast<std::size_t>(stage_count(textbook)));
  const auto fill = [&costs](const std::vector<Seconds>& times, Seconds StageTimes::*field) {
    for (std::size_t i = 0; i < costs.stages.size(); ++i)
      costs.stages[i].*field = times.size() == 1 ? times.front() : times[i];
  };
  fill(textbook.forward, &StageTimes::forward);
  fill(textbook.backward_input, &StageTimes::backward_input);
  fill(textbook.backward_weight, &StageTimes::backward_weight);
  costs.fused = textbook.fused;
  costs.hop = textbook.hop;
  return costs;
}

Order order_of(const TextbookPipeline& textbook) {
  if (textbook.order) return *textbook.order;
  pipeline::Request request = request_of(textbook);
  request.costs = costs_of(textbook);
  return make_order(*textbook.generator(), request);
}

void resolve_order(ConfigNode& pipeline, const std::string& from, ConfigErrors& errors) {
  ConfigEntry* order = pipeline.find("order");
  ConfigEntry* csv = pipeline.find("csv");
  if (order != nullptr && csv != nullptr) {
    errors.add(csv->mark.place(), "\"pipeline.csv\" stands beside an order; keep one of the two");
    std::erase_if(pipeline.entries, [](const ConfigEntry& entry) { return entry.key == "csv"; });
    return resolve_order(pipeline, from, errors);
  }
  ConfigEntry* file = order != nullptr ? order : csv;
  if (file == nullptr) return;
  const bool is_csv = file == csv;
  file->key = "order";
  if (file->value.kind == ConfigNode::Kind::Scalar) {
    file->value = read_lines(file->value, is_csv, from, errors);
  } else if (is_csv && file->value.kind != ConfigNode::Kind::Faulty) {
    errors.add(file->mark.place(), "\"pipeline.csv\": expected the name of a file");
    file->value.kind = ConfigNode::Kind::Faulty;
  }
}

void fill_in(TextbookPipeline& textbook) {
  if (textbook.order) {
    if (textbook.ranks == 0) textbook.ranks = static_cast<int>(textbook.order->ranks.size());
    if (textbook.microbatches == 0) textbook.microbatches = textbook.order->microbatches;
  } else if (textbook.chunks == 0) {
    textbook.chunks = textbook.generator()->default_chunks;
  }
  if (!textbook.transfers)
    textbook.transfers = textbook.bytes ? TransferMode::Overlapped : TransferMode::Eager;
}

void check_textbook(const TextbookPipeline& textbook, const ConfigNode& root, ConfigErrors& errors) {
  TextbookCheck(textbook, root, errors).run();
}

}  // namespace syncline
