#include "backends/cuda/partition.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/core/error.hpp"

using namespace syncline;
using namespace syncline::cuda;

TEST_CASE("ranks have GPUs of their own where there are enough, and share one only where that is welcome") {
  CHECK(talk_of(8, 8, false) == Talk::Nccl);
  CHECK(talk_of(8, 4, true) == Talk::Nccl);
  CHECK(talk_of(1, 1, true) == Talk::Nccl);
  CHECK(talk_of(1, 4, true) == Talk::Copies);
  CHECK(talk_of(2, 4, true) == Talk::Copies);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(talk_of(1, 4, false)),
      "the schedule has 4 ranks, this machine 1 GPU; --virtual-ranks puts several ranks on one GPU",
      EnvironmentError);
  CHECK_THROWS_WITH_AS(static_cast<void>(talk_of(0, 1, true)),
                       "no GPU: the CUDA driver sees none; see nvidia-smi and CUDA_VISIBLE_DEVICES",
                       EnvironmentError);
}

TEST_CASE("partitions are equal, and whole multiples of what the driver divides by") {
  const struct {
    unsigned multiprocessors, ranks, minimum, multiple, each;
  } rows[] = {
      {132, 1, 8, 8, 128},  // 132 / 8 = 16.5: 16 · 8
      {132, 2, 8, 8, 64},   // 66: 8 · 8
      {132, 4, 8, 8, 32},   // 33: 4 · 8
      {132, 8, 8, 8, 16},   // 16.5: 2 · 8
      {132, 16, 8, 8, 8},   // 8.25: 1 · 8
      {132, 4, 8, 2, 32},   // 33: 16 · 2
      {108, 4, 4, 2, 26},   // 27: 13 · 2
      {108, 27, 4, 2, 4},
  };
  for (const auto& row : rows) {
    CAPTURE(row.ranks);
    CHECK(multiprocessors_each(row.multiprocessors, row.ranks, row.minimum, row.multiple) == row.each);
    CHECK(row.each * row.ranks <= row.multiprocessors);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(multiprocessors_each(132, 17, 8, 8)),
                       "17 ranks do not fit on a GPU of 132 multiprocessors, which come in partitions of 8 "
                       "or more; at most 16 do",
                       EnvironmentError);
}

TEST_CASE("streams that wait for other ranks each need a hardware queue") {
  CHECK_NOTHROW(require_queues(32, 32));
  CHECK_THROWS_AS(require_queues(33, 32), EnvironmentError);
}
