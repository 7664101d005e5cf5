// Threads that stand for NCCL: its calls put into a stream what meets the other members there, in the order
// of each communicator, and moves the bytes. So communicators, their order and what they carry are tested
// everywhere.
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>

#include "tests/cuda/ranks.hpp"
#include "tests/cuda/thread_stream.hpp"

namespace {

using syncline::cuda::test::from_bf16;
using syncline::cuda::test::to_bf16;

/// What a member brings to a collective.
struct Call {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;  // of the part, or the whole, as NCCL counts
};

/// A message on its way.
struct Mail {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  bool fetched = false;
};

/// What the members of a communicator share.
struct Clique {
  explicit Clique(int size_) : size(size_) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  struct Meeting {
    std::map<int, Call> calls;
    int done = 0;
  };
  std::map<std::uint64_t, Meeting> meetings;                              // by the how-manieth call
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Mail>>> mail;  // by sender and receiver
  struct Split {
    std::map<int, std::pair<int, int>> wishes;  // by rank: color, key
    std::map<int, std::shared_ptr<Clique>> made;
  };
  std::map<std::uint64_t, Split> splits;
};

/// All that ever began with one id.
std::shared_ptr<Clique> clique_of(const ncclUniqueId& id, int size) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Clique>> cliques;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Clique>& clique = cliques[std::string(id.internal, sizeof id.internal)];
  if (clique == nullptr) clique = std::make_shared<Clique>(size);
  return clique;
}

using Move = std::function<void(const std::map<int, Call>& calls, Call& mine)>;

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  std::uint64_t calls = 0, splits = 0;
};

namespace {

/// Meets all members, moves, and meets them again.
ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, Call call, Move move) {
  stream->put([clique = comm->clique, rank = comm->rank, number = comm->calls++, call,
               move = std::move(move)]() mutable {
    std::unique_lock lock(clique->mutex);
    Clique::Meeting& meeting = clique->meetings[number];
    meeting.calls[rank] = call;
    clique->changed.notify_all();
    clique->changed.wait(lock, [&] { return static_cast<int>(meeting.calls.size()) == clique->size; });
    lock.unlock();
    move(meeting.calls, call);
    lock.lock();
    ++meeting.done;
    clique->changed.notify_all();
    clique->changed.wait(lock, [&] { return meeting.done == clique->size; });
  });
  return ncclSuccess;
}

void add_up(const std::map<int, Call>& calls, std::size_t offset, std::size_t bytes, std::byte* to) {
  for (std::size_t e = 0; e < bytes; e += 2) {
    float sum = 0;
    for (const auto& [rank, call] : calls) {
      std::uint16_t value = 0;
      std::memcpy(&value, call.from + offset + e, 2);
      sum += from_bf16(value);
    }
    const std::uint16_t value = to_bf16(sum);
    std::memcpy(to + e, &value, 2);
  }
}

std::size_t bytes_of(std::size_t count, ncclDataType_t type) {
  return count * (type == ncclBfloat16 ? 2 : 1);
}

/// Of one thread between ncclGroupStart and ncclGroupEnd.
struct Transfer {
  ncclComm_t comm;
  cudaStream_t stream;
  bool sends;
  int peer;
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
};
thread_local std::vector<Transfer> grouped;
thread_local bool grouping = false;

/// All sends are there for their receivers before one of the receives waits.
ncclResult_t run(std::vector<Transfer> transfers) {
  if (transfers.empty()) return ncclSuccess;
  cudaStream_t stream = transfers.front().stream;
  stream->put([transfers = std::move(transfers)] {
    std::vector<std::pair<Clique*, std::shared_ptr<Mail>>> sent;
    for (const Transfer& t : transfers) {
      if (!t.sends) continue;
      Clique& clique = *t.comm->clique;
      const std::lock_guard lock(clique.mutex);
      sent.emplace_back(&clique, std::make_shared<Mail>(Mail{t.from, t.bytes}));
      clique.mail[{t.comm->rank, t.peer}].push_back(sent.back().second);
      clique.changed.notify_all();
    }
    for (const Transfer& t : transfers) {
      if (t.sends) continue;
      Clique& clique = *t.comm->clique;
      std::unique_lock lock(clique.mutex);
      auto& box = clique.mail[{t.peer, t.comm->rank}];
      clique.changed.wait(lock, [&] { return !box.empty(); });
      if (box.front()->bytes != t.bytes) std::abort();  // as bad as what NCCL would do
      std::memcpy(t.to, box.front()->from, t.bytes);
      box.front()->fetched = true;
      box.pop_front();
      clique.changed.notify_all();
    }
    for (const auto& [clique, mail] : sent) {
      std::unique_lock lock(clique->mutex);
      clique->changed.wait(lock, [&] { return mail->fetched; });
    }
  });
  return ncclSuccess;
}

ncclResult_t transfer(const Transfer& t) {
  if (!grouping) return run({t});
  grouped.push_back(t);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "an error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next = 0;
  *id = {};
  const int number = next++;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 1 || config->maxCTAs < 1) return ncclInvalidArgument;
  *comm = new ncclComm{clique_of(id, size), rank};
  return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  Clique& clique = *comm->clique;
  std::unique_lock lock(clique.mutex);
  Clique::Split& split = clique.splits[comm->splits++];
  split.wishes[comm->rank] = {color, key};
  clique.changed.notify_all();
  clique.changed.wait(lock, [&] { return static_cast<int>(split.wishes.size()) == clique.size; });
  *made = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  int size = 0, place = 0;
  for (const auto& [rank, wish] : split.wishes) {
    if (wish.first != color) continue;
    ++size;
    if (std::pair(wish.second, rank) < std::pair(key, comm->rank)) ++place;
  }
  std::shared_ptr<Clique>& child = split.made[color];
  if (child == nullptr) child = std::make_shared<Clique>(size);
  *made = new ncclComm{child, place};
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  grouping = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  grouping = false;
  return run(std::exchange(grouped, {}));
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer(
      {comm, stream, true, peer, static_cast<const std::byte*>(from), nullptr, bytes_of(count, type)});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer({comm, stream, false, peer, nullptr, static_cast<std::byte*>(to), bytes_of(count, type)});
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {static_cast<const std::byte*>(from), static_cast<std::byte*>(to), bytes_of(count, type)},
                    [](const auto& calls, Call& mine) { add_up(calls, 0, mine.bytes, mine.to); });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {static_cast<const std::byte*>(from), static_cast<std::byte*>(to), bytes_of(count, type)},
                    [me = static_cast<std::size_t>(comm->rank)](const auto& calls, Call& mine) {
                      add_up(calls, me * mine.bytes, mine.bytes, mine.to);
                    });
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {static_cast<const std::byte*>(from), static_cast<std::byte*>(to), bytes_of(count, type)},
                    [is_root = comm->rank == root](const auto& calls, Call& mine) {
                      if (is_root) add_up(calls, 0, mine.bytes, mine.to);
                    });
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(
      comm, stream, {static_cast<const std::byte*>(from), static_cast<std::byte*>(to), bytes_of(count, type)},
      [](const auto& calls, Call& mine) {
        for (const auto& [rank, call] : calls)
          std::memcpy(mine.to + static_cast<std::size_t>(rank) * mine.bytes, call.from, mine.bytes);
      });
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(
      comm, stream, {static_cast<const std::byte*>(from), static_cast<std::byte*>(to), bytes_of(count, type)},
      [root](const auto& calls, Call& mine) { std::memcpy(mine.to, calls.at(root).from, mine.bytes); });
}

}  // extern "C"
