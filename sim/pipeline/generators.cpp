#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

const std::vector<Generator>& all() {
  static const std::vector<Generator> list = {
      naive(),
      gpipe(),
      one_forward_one_backward(),
      interleaved_1f1b(),
      looped_bfs(),
      zb_h1(),
      zb_h2(),
      interleaved_zb(),
      one_forward_one_backward_v(),
      zb_v_handcrafted(),
      v_half(),
      v_min(),
      dualpipe(),
      dualpipe_v(),
      zb_auto(),
      zb_v(),
      v_search(),
  };
  return list;
}

Request with_chunks(const Generator& generator, Request request) {
  if (request.chunks == 0) request.chunks = generator.default_chunks;
  return request;
}

/// May be more than an int holds.
double virtual_stages(const Generator& generator, const Request& request) {
  return generator.placement == Placement::Both ? request.ranks : 1.0 * request.ranks * request.chunks;
}

/// Without looking at the times, which nobody has filled in before the counts are known to be sane.
std::optional<std::string> refusal_with_chunks(const Generator& generator, const Request& request) {
  if (request.ranks < 1) return "needs at least one stage";
  if (request.microbatches < 1) return "needs at least one microbatch";
  const int least = generator.least_chunks, most = generator.most_chunks;
  if (request.chunks < least || request.chunks > most)
    return least == most
               ? fmt::format("has {} chunk{} a rank, not {}", least, least == 1 ? "" : "s", request.chunks)
               : fmt::format("needs {} to {} chunks a rank, not {}", least, most, request.chunks);
  if (const double stages = virtual_stages(generator, request); stages > MostStages)
    return fmt::format("would have {:.0f} virtual stages; at most {} are simulated", stages, MostStages);
  if (request.group_size != 0 && !generator.takes_group_size) return "takes no group size";
  if (request.paired && !generator.takes_paired) return "does not run a forward and a backward as one";
  return generator.refuse != nullptr ? generator.refuse(request) : std::nullopt;
}

}  // namespace

std::span<const Generator> generators() {
  return all();
}

const Generator* find_generator(std::string_view name) {
  const auto found = std::ranges::find(all(), name, &Generator::name);
  return found == all().end() ? nullptr : &*found;
}

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const Generator& generator : all()) names.emplace_back(generator.name);
  return names;
}

int stage_count(const Generator& generator, int ranks, int chunks) {
  return generator.placement == Placement::Both ? ranks : ranks * chunks;
}

int rank_of_stage(Placement placement, int ranks, int stage) {
  return placement == Placement::V && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
}

double most_actions(const Generator& generator, const Request& request) {
  return 3 * virtual_stages(generator, with_chunks(generator, request)) * request.microbatches;
}

Request completed(const Generator& generator, Request request) {
  request = with_chunks(generator, std::move(request));
  const auto stages = static_cast<std::size_t>(stage_count(generator, request.ranks, request.chunks));
  if (request.costs.stages.empty()) request.costs.stages.assign(stages, StageTimes{});
  return request;
}

std::optional<std::string> refusal(const Generator& generator, const Request& request) {
  const auto reason = refusal_with_chunks(generator, with_chunks(generator, request));
  return reason ? std::optional(fmt::format("{} {}", generator.name, *reason)) : std::nullopt;
}

Order make_order(const Generator& generator, const Request& request) {
  if (const auto reason = refusal(generator, request)) throw std::invalid_argument(*reason);
  const Request complete = completed(generator, request);
  const int stages = stage_count(generator, complete.ranks, complete.chunks);
  if (complete.costs.stages.size() != static_cast<std::size_t>(stages))
    throw std::invalid_argument(fmt::format("{} has {} virtual stages, but times are given for {}",
                                            generator.name, stages, complete.costs.stages.size()));
  Order order = generator.make(complete);
  const std::vector<std::string> wrong = check_order(order);
  SYNCLINE_CHECK(wrong.empty(), fmt::format("{} made an unsound order: {}", generator.name, wrong.front()));
  return order;
}

}  // namespace syncline::pipeline
