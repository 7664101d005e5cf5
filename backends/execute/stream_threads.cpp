#include "backends/execute/stream_threads.hpp"

#include <algorithm>
#include <utility>

#include "sim/core/error.hpp"

namespace syncline {

StreamThreads::StreamThreads(std::size_t streams, std::size_t ops, std::function<Seconds()> now)
    : now_(std::move(now)), times_(ops), ended_(ops, false) {
  for (std::size_t i = 0; i < streams; ++i) streams_.push_back(std::make_unique<Stream>());
}

StreamThreads::~StreamThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_.request_stop();
    for (const auto& stream : streams_) stream->changed.notify_all();
  }
  for (const auto& stream : streams_)
    if (stream->thread.joinable()) stream->thread.join();
}

void StreamThreads::begin() {
  const std::lock_guard lock(mutex_);
  SYNCLINE_CHECK(open_ == 0, "a step begins while ops of the last one run");
  std::ranges::fill(times_, OpTimes{});
  std::fill(ended_.begin(), ended_.end(), false);
}

void StreamThreads::wait_for(StreamId stream, std::uint32_t op) {
  const std::lock_guard lock(mutex_);
  streams_[stream.value()]->after.push_back(op);
}

void StreamThreads::launch(StreamId stream, std::uint32_t op, Work work) {
  const std::lock_guard lock(mutex_);
  Stream& to = *streams_[stream.value()];
  to.queue.push_back({op, std::exchange(to.after, {}), std::move(work)});
  ++open_;
  if (!to.thread.joinable()) to.thread = std::jthread([this, &to] { run(to); });
  to.changed.notify_one();
}

void StreamThreads::synchronize(std::uint32_t op) {
  std::unique_lock lock(mutex_);
  host_awaits_ = op;
  host_.wait(lock, [&] { return failure_ || ended_[op]; });
  host_awaits_ = -1;
  if (failure_) std::rethrow_exception(failure_);
}

std::vector<OpTimes> StreamThreads::finish() {
  std::unique_lock lock(mutex_);
  host_.wait(lock, [&] { return failure_ || open_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
  return times_;
}

std::vector<bool> StreamThreads::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void StreamThreads::run(Stream& stream) {
  const std::stop_token stop = stop_.get_token();
  std::unique_lock lock(mutex_);
  while (true) {
    stream.changed.wait(lock, [&] { return stop.stop_requested() || !stream.queue.empty(); });
    if (stop.stop_requested()) return;
    const Item item = std::move(stream.queue.front());
    stream.queue.pop_front();
    for (const std::uint32_t op : item.after) wait(lock, stream, op);
    if (stop.stop_requested()) return;

    lock.unlock();
    OpTimes times;
    times.start = now_();
    try {
      item.work(stop);
      times.end = now_();
      lock.lock();
      end(item.op, times);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      fail(std::current_exception());
    }
  }
}

void StreamThreads::wait(std::unique_lock<std::mutex>& lock, Stream& stream, std::uint32_t op) {
  stream.awaited = op;
  stream.changed.wait(lock, [&] { return stop_.stop_requested() || ended_[op]; });
  stream.awaited = -1;
}

/// Wakes those only that wait for it: with few processors every thread that wakes in vain delays another.
void StreamThreads::end(std::uint32_t op, const OpTimes& times) {
  times_[op] = times;
  ended_[op] = true;
  --open_;
  for (const auto& stream : streams_)
    if (stream->awaited == op) stream->changed.notify_one();
  if (host_awaits_ == op || open_ == 0) host_.notify_one();
}

void StreamThreads::fail(std::exception_ptr failure) {
  if (!failure_) failure_ = std::move(failure);
  stop_.request_stop();
  for (const auto& stream : streams_) stream->changed.notify_all();
  host_.notify_all();
}

}  // namespace syncline
