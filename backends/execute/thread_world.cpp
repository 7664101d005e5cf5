#include "backends/execute/thread_world.hpp"

#include <barrier>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace syncline {
namespace {

/// What the threads share.
struct Hall {
  explicit Hall(int size_) : size(size_), everyone(size_) {}
  const int size;
  std::barrier<> everyone;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters;  // by sender and receiver
};

class ThreadWorld : public World {
 public:
  ThreadWorld(std::shared_ptr<Hall> hall, int rank) : hall_(std::move(hall)), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return hall_->size; }
  void barrier() override { hall_->everyone.arrive_and_wait(); }
  void send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(hall_->mutex);
    hall_->letters[{rank_, to}].emplace_back(bytes.begin(), bytes.end());
    hall_->arrived.notify_all();
  }
  [[nodiscard]] std::vector<std::byte> receive(int from) override {
    std::unique_lock lock(hall_->mutex);
    std::deque<std::vector<std::byte>>& letters = hall_->letters[{from, rank_}];
    hall_->arrived.wait(lock, [&] { return !letters.empty(); });
    std::vector<std::byte> bytes = std::move(letters.front());
    letters.pop_front();
    return bytes;
  }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  const std::shared_ptr<Hall> hall_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<World>> thread_worlds(int size) {
  const auto hall = std::make_shared<Hall>(size);
  std::vector<std::unique_ptr<World>> worlds;
  for (int rank = 0; rank < size; ++rank) worlds.push_back(std::make_unique<ThreadWorld>(hall, rank));
  return worlds;
}

}  // namespace syncline
