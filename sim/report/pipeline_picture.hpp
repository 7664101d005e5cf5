// A pipeline as a picture for the terminal: one row a rank, with the microbatches in it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/pipeline/order.hpp"
#include "sim/pipeline/replay.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

/// Data on its way from or to a rank while it moves.
struct PictureTransfer {
  Seconds start, end;
};

struct PipelinePicture {
  const pipeline::Order& order;
  std::vector<std::vector<pipeline::BlockTimes>> blocks;  // by rank, as in the order
  std::vector<std::vector<PictureTransfer>> transfers;    // by rank; all empty: no rows for them
};

/// Of a run of lower_textbook()'s schedule, in which every compute op is a block.
/// @param order     that the schedule is made from; the picture refers to it
/// @param timeline  spans by rank, then in program order
[[nodiscard]] PipelinePicture picture_of_textbook(const pipeline::Order& order, const Schedule& schedule,
                                                  const Timeline& timeline);

struct PictureOptions {
  int columns = 100;            // at most so wide; at least 40
  bool colour = false;          // ANSI colours too; letters alone tell everything
  std::size_t most_ranks = 64;  // drawn; the picture says when there are more
  Seconds end{};  // of the time axis, so that several pictures have one scale; 0: the last block's end
  std::function<std::string(Seconds)> time{};  // how times are written; without it as plain numbers
};

/// Each block shows its kind by its letter and filling (with colours: by its colour) and its microbatch where
/// it fits; a rank's second, fourth, ... chunk is in small letters (lighter colours). Where the shortest
/// block is narrower than a column, a column shows what took most of its time, and the picture says so.
/// @throws std::invalid_argument when `columns` is below 40
[[nodiscard]] std::string pipeline_picture(const PipelinePicture& picture, const PictureOptions& options);

}  // namespace syncline
