#include "backends/execute/rank_progress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "backends/execute/rank_program.hpp"
#include "sim/core/error.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const fs::path& folder, std::size_t rank) {
  return folder / fmt::format("{}{}", ProgressFilePrefix, rank);
}

void note(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_relaxed);
}

std::string place(const ExecutionPlan& plan, RankId rank, const RankTrace& trace) {
  const RankProgram program = rank_program(plan, rank);
  std::string text;
  for (std::size_t stream = 0; stream < trace.at.size(); ++stream)
    if (trace.at[stream] && *trace.at[stream] < program.steps.size())
      text += fmt::format("{}{} ({})", text.empty() ? " at: " : "; ",
                          describe(plan, program, *trace.at[stream]), plan.schedule.streams[stream]);
  return text.empty() ? " between two steps" : text;
}

}  // namespace

RankProgress::RankProgress(const fs::path& folder, std::size_t rank, std::size_t streams)
    : size_((1 + streams) * sizeof(std::uint32_t)) {
  const fs::path path = file_of(folder, rank);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0)
    throw EnvironmentError("cannot write " + path.string());
  void* const memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) throw EnvironmentError("cannot map " + path.string());
  words_ = static_cast<std::uint32_t*>(memory);
  set(RankStage::Running);
}

RankProgress::~RankProgress() {
  munmap(words_, size_);
}

void RankProgress::set(RankStage stage) {
  note(words_[0], static_cast<std::uint32_t>(stage));
  msync(words_, size_, MS_SYNC);  // for readers on other machines
}

void RankProgress::begins(StreamId stream, std::uint32_t op) {
  note(words_[1 + stream.value()], op + 1);
}

void RankProgress::ends(StreamId stream) {
  note(words_[1 + stream.value()], 0);
}

std::vector<RankTrace> read_progress(const fs::path& folder, const Schedule& schedule) {
  std::vector<RankTrace> ranks(schedule.world_size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::uint32_t> words(1 + schedule.streams.size());
    std::ifstream in(file_of(folder, rank), std::ios::binary);
    if (!in.read(reinterpret_cast<char*>(words.data()),
                 static_cast<std::streamsize>(words.size() * sizeof words.front())))
      continue;
    ranks[rank].stage = static_cast<RankStage>(words[0]);
    for (std::size_t i = 1; i < words.size(); ++i)
      ranks[rank].at.push_back(words[i] == 0 ? std::nullopt : std::optional(words[i] - 1));
  }
  return ranks;
}

std::string who_died(const fs::path& folder, const ExecutionPlan& plan) {
  const std::vector<RankTrace> ranks = read_progress(folder, plan.schedule);
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].stage == RankStage::Running)
      text += fmt::format("{}rank {} died{}", text.empty() ? "" : "\n", rank,
                          place(plan, RankId(rank), ranks[rank]));
  return text;
}

}  // namespace syncline
