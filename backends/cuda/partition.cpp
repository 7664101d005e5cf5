#include "backends/cuda/partition.hpp"

#include <fmt/format.h>

#include "sim/core/error.hpp"

namespace syncline::cuda {
namespace {

std::string count(int number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace

Talk talk_of(int gpus, int ranks, bool virtual_ranks) {
  if (gpus < 1)
    throw EnvironmentError("no GPU: the CUDA driver sees none; see nvidia-smi and CUDA_VISIBLE_DEVICES");
  if (ranks <= gpus) return Talk::Nccl;
  if (virtual_ranks) return Talk::Copies;
  throw EnvironmentError(
      fmt::format("the schedule has {}, this machine {}; --virtual-ranks puts several ranks on one GPU",
                  count(ranks, "rank"), count(gpus, "GPU")));
}

unsigned multiprocessors_each(unsigned multiprocessors, unsigned ranks, unsigned minimum, unsigned multiple) {
  const unsigned share = multiprocessors / ranks / multiple * multiple;
  if (share >= minimum && share > 0) return share;
  throw EnvironmentError(
      fmt::format("{} ranks do not fit on a GPU of {} multiprocessors, which come in partitions of {} or "
                  "more; at most {} do",
                  ranks, multiprocessors, minimum, multiprocessors / minimum));
}

void require_queues(int streams, int queues) {
  if (streams <= queues) return;
  throw EnvironmentError(fmt::format(
      "the ranks have {} streams on one GPU, whose driver has {} hardware queues: two streams in one "
      "queue can hold each other up for ever; take fewer ranks, or schedules of fewer streams",
      streams, queues));
}

}  // namespace syncline::cuda
