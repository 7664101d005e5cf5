// Ranks as threads that move no bytes: what a backend does, without MPI or a GPU.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/execute/runtime.hpp"
#include "backends/execute/stream_threads.hpp"

namespace syncline::test {

/// Where ends of communications meet: the last to come lets all go.
class MeetingPlace {
 public:
  using Key = std::tuple<std::string, std::uint32_t, std::size_t>;  // kind, channel or wire, how-manieth

  /// @returns false when asked to stop before all were there
  bool meet(const Key& key, std::size_t members, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (++arrived_[key] % members == 0) changed_.notify_all();
    const std::size_t round = (arrived_[key] - 1) / members;
    while (arrived_[key] < (round + 1) * members && !stop.stop_requested())
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    return !stop.stop_requested();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::size_t> arrived_;
};

class LocalRuntime : public Runtime {
 public:
  /// @param ahead  how far the clock of this rank is ahead
  LocalRuntime(MeetingPlace& place, std::size_t streams, Seconds ahead = Seconds(0))
      : place_(place), stream_count_(streams), ahead_(ahead) {}

  void prepare(const RankProgram& program) override {
    program_ = &program;
    streams_ = std::make_unique<StreamThreads>(stream_count_, program.steps.size(), [this] { return now(); });
  }
  void begin() override {
    streams_->begin();
    counts_.clear();
  }
  void wait_for(StreamId stream, std::uint32_t op) override { streams_->wait_for(stream, op); }
  void launch(StreamId stream, std::uint32_t op, const ComputeTask& task) override {
    const auto time = std::chrono::duration<double>(task.planned.si());
    streams_->launch(stream, op, [time](const std::stop_token&) { std::this_thread::sleep_for(time); });
  }
  void launch(StreamId stream, std::uint32_t op, const CollectiveTask& task) override {
    const Channel& channel = program_->channels[task.channel];
    meet(stream, op, {"channel", channel.number, counts_[channel.number]++}, channel.members.size());
  }
  void launch(StreamId stream, std::uint32_t op, const TransferTask& task) override {
    const std::string pair = std::to_string(task.message) + (task.eager ? " eager" : "");
    meet(stream, op,
         {pair, program_->wires[task.wire].number, static_cast<std::size_t>(task.tag)}, task.eager ? 1 : 2);
  }
  void synchronize(std::uint32_t op) override { streams_->synchronize(op); }
  std::vector<OpTimes> finish() override { return streams_->finish(); }
  Seconds now() const override {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return Seconds(std::chrono::duration<double>(time).count()) + ahead_;
  }
  std::string clock() const override { return std::to_string(ahead_.si()); }
  std::vector<bool> ended() const override { return streams_->ended(); }
  std::vector<std::pair<std::string, std::string>> about() const override { return {{"backend", "threads"}}; }

 private:
  void meet(StreamId stream, std::uint32_t op, MeetingPlace::Key key, std::size_t members) {
    streams_->launch(stream, op, [this, key = std::move(key), members](const std::stop_token& stop) {
      place_.meet(key, members, stop);
    });
  }

  MeetingPlace& place_;
  const std::size_t stream_count_;
  const Seconds ahead_;
  const RankProgram* program_ = nullptr;
  std::unique_ptr<StreamThreads> streams_;
  std::map<std::uint32_t, std::size_t> counts_;  // of collectives in this step, by channel
};

}  // namespace syncline::test
