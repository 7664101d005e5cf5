// A program for mpirun: carries every kind of collective out, and looks at what has arrived. Exit code 1
// where a number is not in its place, with a line for each kind that is wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "backends/mpi/collective_call.hpp"
#include "backends/mpi/mpi_call.hpp"
#include "sim/core/error.hpp"

namespace syncline::mpi {
namespace {

/// Element i that a member sends; exact in a float, and different for all that a test has.
float number(int member, int i) {
  return static_cast<float>(1000 * member + i);
}

struct Place {
  int members, me;
  int whole, part;  // elements
};

/// Elements that members have for each other, all different.
int count(int from, int to) {
  return 3 * from + to + 1;
}
int elements_before(int from, int to) {
  int all = 0;
  for (int i = 0; i < to; ++i) all += count(from, i);
  return all;
}

float sum(const Place& place, int i) {
  float all = 0;
  for (int member = 0; member < place.members; ++member) all += number(member, i);
  return all;
}

std::vector<float> list(int length, const std::function<float(int)>& at) {
  std::vector<float> numbers;
  for (int i = 0; i < length; ++i) numbers.push_back(at(i));
  return numbers;
}

std::vector<float> all_gathered(const Place& at) {
  return list(at.part * at.members, [&](int i) { return number(i / at.part, i % at.part); });
}
std::vector<float> all_summed(const Place& at) {
  return list(at.whole, [&](int i) { return sum(at, i); });
}
std::vector<float> exchanged(const Place& at) {
  std::vector<float> numbers;
  for (int from = 0; from < at.members; ++from)
    for (int i = 0; i < count(from, at.me); ++i)
      numbers.push_back(number(from, elements_before(from, at.me) + i));
  return numbers;
}

/// What has to be there at its end.
struct Row {
  CollectiveKind kind;
  std::function<std::vector<float>(const Place&)> expected;
};
const std::vector<Row> Rows{
    {CollectiveKind::AllReduce, all_summed},
    {CollectiveKind::AllGather, all_gathered},
    {CollectiveKind::ReduceScatter,
     [](const Place& at) { return list(at.part, [&](int i) { return sum(at, at.me * at.part + i); }); }},
    {CollectiveKind::Broadcast,
     [](const Place& at) { return list(at.me == 0 ? 0 : at.whole, [](int i) { return number(0, i); }); }},
    {CollectiveKind::AllToAll, exchanged},
    {CollectiveKind::Shift,
     [](const Place& at) {
       return list(at.whole, [&](int i) { return number((at.me + at.members - 1) % at.members, i); });
     }},
    {CollectiveKind::Reduce,
     [](const Place& at) { return at.me == 0 ? all_summed(at) : std::vector<float>{}; }},
    {CollectiveKind::Scatter,
     [](const Place& at) { return list(at.part, [&](int i) { return number(0, at.me * at.part + i); }); }},
    {CollectiveKind::Gather,
     [](const Place& at) { return at.me == 0 ? all_gathered(at) : std::vector<float>{}; }},
};

CollectiveTask task_of(CollectiveKind kind, const Place& at) {
  CollectiveTask task{kind, 0, static_cast<std::uint32_t>(at.me), Bytes(at.whole * 4.0)};
  if (kind == CollectiveKind::AllToAll)
    for (int other = 0; other < at.members; ++other) {
      task.to.emplace_back(count(at.me, other) * 4.0);
      task.from.emplace_back(count(other, at.me) * 4.0);
    }
  return task;
}

/// @returns what is wrong; empty when nothing is
std::string wrong_in(const Row& row, const Place& at, MPI_Comm channel) {
  const CollectiveTask task = task_of(row.kind, at);
  const BufferNeed need = need_of(task, static_cast<std::size_t>(at.members));
  std::vector<float> from = list(static_cast<int>(need.from), [&](int i) { return number(at.me, i); });
  std::vector<float> to(need.to, -1.0F);
  std::vector<MPI_Request> requests = CollectiveCall(task, channel).begin({from.data(), to.data()});
  wait_all(requests);
  const std::vector<float> expected = row.expected(at);
  if (expected.size() > to.size())
    return fmt::format("{}: room for {} elements, {} arrive", name_of(row.kind), to.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (to[i] != expected[i])
      return fmt::format("{}: rank {} of {}, element {} is {}, expected {}", name_of(row.kind), at.me,
                         at.members, i, to[i], expected[i]);
  return "";
}

int run() {
  int world = 0, me = 0, wrong = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &me), "MPI_Comm_rank");
  for (int members = 1; members <= world; ++members) {  // the first so many ranks
    MPI_Comm channel = MPI_COMM_NULL;
    check(MPI_Comm_split(MPI_COMM_WORLD, me < members ? 0 : MPI_UNDEFINED, me, &channel), "MPI_Comm_split");
    if (me >= members || members == 1) continue;
    for (const int whole : {12 * members, 13, 100'000}) {
      const Place place{members, me, whole, (whole + members - 1) / members};
      for (const Row& row : Rows) {
        const std::string message = wrong_in(row, place, channel);
        if (message.empty()) continue;
        fmt::print("{}\n", message);
        ++wrong;
      }
    }
  }
  check(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  if (me == 0) fmt::print("{} kinds on up to {} ranks, {} wrong\n", Rows.size(), world, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace syncline::mpi

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = syncline::mpi::run();
  std::fflush(stdout);
  MPI_Finalize();
  return code;
}
