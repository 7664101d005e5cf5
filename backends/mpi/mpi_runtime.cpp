#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/execute/stream_threads.hpp"
#include "backends/mpi/collective_call.hpp"
#include "backends/mpi/cpu_kernels.hpp"
#include "backends/mpi/eager_sends.hpp"
#include "backends/mpi/mpi_backend.hpp"
#include "backends/mpi/mpi_call.hpp"
#include "sim/core/error.hpp"
#include "sim/core/host.hpp"
#include "sim/core/units.hpp"

namespace syncline {
namespace {

using mpi::BufferNeed;
using mpi::Buffers;
using mpi::check;

/// What the numbers of a stream take: its ops follow each other, so they share them.
struct StreamNeed {
  BufferNeed buffers;
  std::size_t kernels = 0;  // elements

  [[nodiscard]] Bytes bytes() const {
    return Bytes(static_cast<double>((buffers.from + buffers.to + kernels) * sizeof(float)));
  }
};

/// An op's need is that of its stream when no other is greater.
class Needs {
 public:
  Needs(const ExecutionPlan& plan, const RankProgram& program)
      : computes_(plan.compute == ComputeBy::Kernels),
        program_(program),
        streams_(plan.schedule.streams.size()) {
    for (const Step& step : program.steps) {
      StreamNeed& need = streams_[step.stream.value()];
      std::visit([&](const auto& task) { add(need, task); }, step.task);
    }
  }
  const std::vector<StreamNeed>& streams() const { return streams_; }
  Bytes total() const {
    Bytes all;
    for (const StreamNeed& need : streams_) all += need.bytes();
    return all;
  }

 private:
  void add(StreamNeed& need, const ComputeTask& task) const {
    if (computes_) need.kernels = std::max(need.kernels, mpi::CpuKernels::need_of(task));
  }
  void add(StreamNeed& need, const CollectiveTask& task) const {
    grow(need, mpi::need_of(task, program_.channels[task.channel].members.size()));
  }
  void add(StreamNeed& need, const TransferTask& task) const { grow(need, mpi::need_of(task)); }
  void add(StreamNeed&, const HostWork&) const {}
  void add(StreamNeed&, const HostWait&) const {}
  static void grow(StreamNeed& need, const BufferNeed& more) {
    need.buffers = {std::max(need.buffers.from, more.from), std::max(need.buffers.to, more.to)};
  }

  bool computes_;
  const RankProgram& program_;
  std::vector<StreamNeed> streams_;
};

/// Tags of messages between ranks, one an op: a rank and its peer count what they send each other by
/// message, then by order, and so agree.
std::map<std::uint32_t, int> tags_of(const RankProgram& program) {
  using Peer = std::pair<RankId, bool>;
  std::map<Peer, std::map<int, int>> counts;  // of transfers, by message
  const auto transfers = [&](const auto& use) {
    for (std::uint32_t op = 0; op < program.steps.size(); ++op)
      if (const auto* task = std::get_if<TransferTask>(&program.steps[op].task)) use(op, *task);
  };
  transfers([&](std::uint32_t, const TransferTask& task) {
    ++counts[{task.peer, task.sends}][task.message];
  });
  for (auto& [peer, messages] : counts) {
    int first = 0;
    for (auto& [message, count] : messages) first += std::exchange(count, first);
  }
  std::map<std::uint32_t, int> tags;
  transfers([&](std::uint32_t op, const TransferTask& task) {
    tags[op] = counts[{task.peer, task.sends}][task.message] + task.tag;
  });
  return tags;
}

/// Memory that programs could still take on this machine.
Bytes free_memory() {
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    double kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lf kB", &kib) == 1) return Bytes(kib * 1024);
  }
  struct sysinfo info {};
  sysinfo(&info);
  return Bytes(static_cast<double>(info.freeram) * info.mem_unit);
}

class MpiRuntime : public Runtime {
 public:
  MpiRuntime(const ExecutionPlan& plan, const World& world, RankProgress& progress)
      : plan_(plan), world_(world), progress_(progress) {}

  void prepare(const RankProgram& program) override;
  void begin() override { threads_->begin(); }
  void wait_for(StreamId stream, std::uint32_t op) override { threads_->wait_for(stream, op); }
  void launch(StreamId stream, std::uint32_t op, const ComputeTask& task) override;
  void launch(StreamId stream, std::uint32_t op, const CollectiveTask& task) override;
  void launch(StreamId stream, std::uint32_t op, const TransferTask& task) override;
  void synchronize(std::uint32_t op) override { threads_->synchronize(op); }
  std::vector<OpTimes> finish() override {
    std::vector<OpTimes> times = threads_->finish();
    eager_->wait();
    return times;
  }
  Seconds now() const override { return mpi::now(); }
  std::vector<bool> ended() const override { return threads_->ended(); }
  std::vector<std::pair<std::string, std::string>> about() const override;

 private:
  void put(StreamId stream, std::uint32_t op, StreamThreads::Work work) {
    threads_->launch(stream, op,
                     [this, stream, op, carry_out = std::move(work)](const std::stop_token& stop) {
                       progress_.begins(stream, op);
                       carry_out(stop);
                       progress_.ends(stream);
                     });
  }
  void refuse_too_much(Bytes need) const;
  void join_channels(const RankProgram& program);
  void make_calls(const RankProgram& program);
  void make_buffers(const std::vector<StreamNeed>& needs);
  Buffers buffers(StreamId stream) {
    Data& data = data_[stream.value()];
    return {data.from.data(), data.to.data()};
  }

  struct Data {
    std::vector<float> from, to;
    std::optional<mpi::CpuKernels> kernels{};
  };

  const ExecutionPlan& plan_;
  const World& world_;
  RankProgress& progress_;
  std::vector<MPI_Comm> channels_;  // as the program's; MPI_COMM_NULL where the rank is alone
  MPI_Comm wires_ = MPI_COMM_NULL;  // of all sends and receives
  std::map<std::uint32_t, mpi::CollectiveCall> calls_;  // by op
  std::map<std::uint32_t, int> tags_;                   // by op
  std::vector<Data> data_;                              // by stream
  std::unique_ptr<mpi::EagerSends> eager_;
  std::unique_ptr<StreamThreads> threads_;  // last: its threads end before what they use
};

void MpiRuntime::prepare(const RankProgram& program) {
  if (plan_.compute == ComputeBy::Kernels && mpi::CpuKernels::library().empty())
    throw EnvironmentError(
        "kernels cannot be computed: this program is built without OpenBLAS (Debian: libopenblas-dev)");
  const Needs needs(plan_, program);
  refuse_too_much(needs.total());
  join_channels(program);
  make_calls(program);
  make_buffers(needs.streams());
  eager_ = std::make_unique<mpi::EagerSends>();
  threads_ = std::make_unique<StreamThreads>(plan_.schedule.streams.size(), program.steps.size(), &mpi::now);
}

/// All ranks of a machine together, before one of them takes any.
void MpiRuntime::refuse_too_much(Bytes need) const {
  MPI_Comm machine_ranks = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine_ranks),
        "MPI_Comm_split_type");
  double all = need.si();
  check(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_DOUBLE, MPI_SUM, machine_ranks), "MPI_Allreduce");
  double free = free_memory().si();
  check(MPI_Allreduce(MPI_IN_PLACE, &free, 1, MPI_DOUBLE, MPI_MIN, machine_ranks), "MPI_Allreduce");
  int ranks = 0;
  check(MPI_Comm_size(machine_ranks, &ranks), "MPI_Comm_size");
  MPI_Comm_free(&machine_ranks);
  if (all > free)
    throw EnvironmentError(
        fmt::format("the buffers of {} ranks on {} take {}, and {} of memory are free; use more machines "
                    "(--hostfile) or less work (--scale)",
                    ranks, host_name(), to_text(Bytes(all)), to_text(Bytes(free))));
}

/// In the order of the channels' numbers, which is the same for all ranks: who waits here waits for one that
/// comes.
void MpiRuntime::join_channels(const RankProgram& program) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &wires_), "MPI_Comm_dup");
  std::vector<std::uint32_t> order(program.channels.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return program.channels[i].number; });
  channels_.assign(order.size(), MPI_COMM_NULL);
  MPI_Group all = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  for (const std::uint32_t i : order) {
    const Channel& channel = program.channels[i];
    if (channel.members.size() == 1) continue;
    std::vector<int> members;
    for (const RankId member : channel.members) members.push_back(static_cast<int>(member.value()));
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &group), "MPI_Group_incl");
    check(
        MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(channel.number % 32768), &channels_[i]),
        "MPI_Comm_create_group");
    MPI_Group_free(&group);
  }
  MPI_Group_free(&all);
}

void MpiRuntime::make_calls(const RankProgram& program) {
  for (std::uint32_t op = 0; op < program.steps.size(); ++op)
    if (const auto* task = std::get_if<CollectiveTask>(&program.steps[op].task))
      calls_.emplace(op, mpi::CollectiveCall(*task, channels_[task->channel]));
  tags_ = tags_of(program);
  int known = 0;
  int* largest = nullptr;
  check(MPI_Comm_get_attr(wires_, MPI_TAG_UB, static_cast<void*>(&largest), &known), "MPI_Comm_get_attr");
  for (const auto& [op, tag] : tags_)
    if (known != 0 && tag > *largest)
      throw EnvironmentError(
          fmt::format("two ranks exchange more messages in a step than MPI has tags ({})", *largest));
}

void MpiRuntime::make_buffers(const std::vector<StreamNeed>& needs) {
  for (const StreamNeed& need : needs) {
    Data& data = data_.emplace_back();
    data.from.assign(need.buffers.from, 1.0F);  // written, so that no op meets a page for the first time
    data.to.assign(need.buffers.to, 0.0F);
    if (plan_.compute == ComputeBy::Kernels) data.kernels.emplace(need.kernels);
  }
}

void MpiRuntime::launch(StreamId stream, std::uint32_t op, const ComputeTask& task) {
  if (plan_.compute == ComputeBy::Kernels) {
    mpi::CpuKernels& kernels = *data_[stream.value()].kernels;
    put(stream, op, [&](const std::stop_token& stop) { kernels.run(task, stop); });
  } else {
    put(stream, op, [&](const std::stop_token& stop) { mpi::sleep_until(mpi::now() + task.planned, stop); });
  }
}

void MpiRuntime::launch(StreamId stream, std::uint32_t op, const CollectiveTask& task) {
  const MPI_Comm channel = channels_[task.channel];
  const mpi::CollectiveCall& call = calls_.at(op);
  put(stream, op, [this, stream, channel, &call](const std::stop_token& stop) {
    if (channel == MPI_COMM_NULL) return;
    MPI_Request all_came = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(channel, &all_came), "MPI_Ibarrier");
    mpi::wait_all(std::span(&all_came, 1), stop);
    std::vector<MPI_Request> requests = call.begin(buffers(stream));
    mpi::wait_all(requests, stop);
  });
}

void MpiRuntime::launch(StreamId stream, std::uint32_t op, const TransferTask& task) {
  const int peer = static_cast<int>(task.peer.value()), tag = tags_.at(op);
  const int count = static_cast<int>(std::max(mpi::need_of(task).from, mpi::need_of(task).to));
  put(stream, op, [this, stream, peer, tag, count, &task](const std::stop_token& stop) {
    MPI_Request request = MPI_REQUEST_NULL;
    const Buffers data = buffers(stream);
    if (!task.sends)
      check(MPI_Irecv(data.to, count, MPI_FLOAT, peer, tag, wires_, &request), "MPI_Irecv");
    else if (task.eager)
      check(MPI_Isend(data.from, count, MPI_FLOAT, peer, tag, wires_, &request), "MPI_Isend");
    else
      check(MPI_Issend(data.from, count, MPI_FLOAT, peer, tag, wires_, &request), "MPI_Issend");
    if (task.sends && task.eager)
      eager_->take(request);
    else
      mpi::wait_all(std::span(&request, 1), stop);
  });
}

std::vector<std::pair<std::string, std::string>> MpiRuntime::about() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string library(text);
  std::vector<std::pair<std::string, std::string>> about{
      {"backend", "mpi: " + library.substr(0, library.find(','))},
      {"machine", fmt::format("{}, {} cores", host_name(), std::thread::hardware_concurrency())},
      {"processes", std::to_string(world_.size())}};
  if (plan_.compute == ComputeBy::Kernels) about.emplace_back("kernels", mpi::CpuKernels::library());
  return about;
}

}  // namespace

std::unique_ptr<Runtime> make_mpi_runtime(const ExecutionPlan& plan, const World& world,
                                          RankProgress& progress) {
  return std::make_unique<MpiRuntime>(plan, world, progress);
}

}  // namespace syncline
