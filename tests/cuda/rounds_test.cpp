#include "backends/cuda/rounds.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace syncline;
using namespace syncline::cuda;
using namespace syncline::literals;

namespace {

using enum CollectiveKind;
using Numbers = std::vector<int>;  // one a word of 16 bytes

/// Members with buffers of numbers, who do a collective's rounds as the device would.
class Group {
 public:
  Group(CollectiveKind kind, std::uint32_t members, Bytes bytes) {
    for (std::uint32_t i = 0; i < members; ++i) tasks_.push_back({kind, 0, i, bytes});
  }
  explicit Group(std::vector<CollectiveTask> tasks) : tasks_(std::move(tasks)) {}

  /// Member i sends 1000 i, 1000 i + 1, ...
  std::vector<Numbers> run() {
    std::vector<const CollectiveTask*> views;
    for (const CollectiveTask& task : tasks_) views.push_back(&task);
    std::vector<Numbers> send, receive;
    std::vector<std::vector<Round>> rounds;
    for (const CollectiveTask& task : tasks_) {
      const BufferBytes bytes = buffer_bytes(task, tasks_.size());
      send.emplace_back(bytes.send / Word);
      std::iota(send.back().begin(), send.back().end(), 1000 * static_cast<int>(task.position));
      receive.emplace_back(bytes.receive / Word, -1);
      rounds.push_back(rounds_of(views, task.position));
      REQUIRE(rounds.back().size() == rounds.front().size());
    }
    for (std::size_t round = 0; round < rounds.front().size(); ++round) {
      const std::vector<Numbers> before = receive;  // members run at once
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        for (const Copy& copy : rounds[i][round].copies)
          for (std::size_t w = 0; w < copy.bytes / Word; ++w)
            receive[i].at(copy.target / Word + w) =
                (copy.side == Side::Send ? send : before)[copy.member].at(copy.source / Word + w);
        for (const Sum& sum : rounds[i][round].sums)
          for (std::size_t w = 0; w < sum.bytes / Word; ++w) {
            int total = 0;
            for (const Numbers& from : send) total += from.at(sum.source / Word + w);
            receive[i].at(sum.target / Word + w) = total;
          }
      }
    }
    return receive;
  }

 private:
  std::vector<CollectiveTask> tasks_;
};

}  // namespace

TEST_CASE("every collective leaves with each member what NCCL would") {
  const struct {
    CollectiveKind kind;
    std::vector<Numbers> received;  // by member
  } rows[] = {
      // 3 members, 96 bytes: 6 words, parts of 2. Sums: 0 + 1000 + 2000 + 3 w.
      {AllReduce,
       {{3000, 3003, 3006, 3009, 3012, 3015},
        {3000, 3003, 3006, 3009, 3012, 3015},
        {3000, 3003, 3006, 3009, 3012, 3015}}},
      {AllGather,
       {{0, 1, 1000, 1001, 2000, 2001}, {0, 1, 1000, 1001, 2000, 2001}, {0, 1, 1000, 1001, 2000, 2001}}},
      {ReduceScatter, {{3000, 3003}, {3006, 3009}, {3012, 3015}}},
      {Broadcast, {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}}},
      {Reduce, {{3000, 3003, 3006, 3009, 3012, 3015}, {}, {}}},
      {Scatter, {{0, 1}, {2, 3}, {4, 5}}},
      {Gather, {{0, 1, 1000, 1001, 2000, 2001}, {}, {}}},
      {Shift,
       {{2000, 2001, 2002, 2003, 2004, 2005}, {0, 1, 2, 3, 4, 5}, {1000, 1001, 1002, 1003, 1004, 1005}}},
  };
  for (const auto& row : rows) {
    CAPTURE(name_of(row.kind));
    CHECK(Group(row.kind, 3, 96_B).run() == row.received);
  }
}

TEST_CASE("an all-to-all takes from each member what it has for this one, however uneven") {
  // Words that a member has for members 0, 1, 2: 1 0 2; 3 1 0; 0 1 0.
  std::vector<CollectiveTask> tasks;
  const double words[3][3] = {{1, 0, 2}, {3, 1, 0}, {0, 1, 0}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    CollectiveTask& task = tasks.emplace_back();
    task.kind = AllToAll;
    task.position = i;
    for (std::size_t j = 0; j < 3; ++j) {
      task.to.push_back(Bytes(16 * words[i][j]));
      task.from.push_back(Bytes(16 * words[j][i]));
    }
  }
  CHECK(Group(tasks).run() == std::vector<Numbers>{{0, 1000, 1001, 1002}, {1003, 2000}, {1, 2}});
}

TEST_CASE("a group of one has itself for its neighbour") {
  for (const CollectiveKind kind :
       {AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Scatter, Gather, Shift}) {
    CAPTURE(name_of(kind));
    CHECK(Group(kind, 1, 32_B).run() == std::vector<Numbers>{{0, 1}});
  }
}

TEST_CASE("meetings are counted on and on") {
  Meetings meetings;
  CHECK(meetings.next() == 1);
  CHECK(meetings.next() == 2);
}
