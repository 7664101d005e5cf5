#include "backends/cuda/copy_communication.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/call.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/rounds.hpp"
#include "backends/cuda/sizes.hpp"

namespace syncline::cuda {
namespace {

CUstreamBatchMemOpParams write_flag(CUdeviceptr flag, std::uint32_t value) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = flag;
  operation.writeValue.value = value;
  operation.writeValue.flags =
      CU_STREAM_WRITE_VALUE_DEFAULT;  // what went before in the stream is seen by whoever sees it
  return operation;
}

CUstreamBatchMemOpParams await_flag(CUdeviceptr flag, std::uint32_t value) {
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = flag;
  operation.waitValue.value = value;
  operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;  // cyclic, so that counters may run over
  return operation;
}

/// A round with the buffers looked up.
struct ReadyRound {
  std::vector<CopyList> copies;
  std::vector<SumList> sums;
};

class CopyCommunication : public Communication {
 public:
  CopyCommunication(const CopySetup& setup, World& world)
      : program_(setup.program),
        buffers_(setup.buffers),
        driver_(setup.driver),
        place_(setup.place),
        multiprocessors_(setup.multiprocessors),
        meetings_(program_.channels.size()),
        wires_(program_.wires.size()),
        rounds_(program_.steps.size()) {
    enter();
    world.barrier();  // all have entered their buffers
    std::vector<std::size_t> counts(program_.channels.size());
    for (std::uint32_t op = 0; op < program_.steps.size(); ++op)
      if (const auto* task = std::get_if<CollectiveTask>(&program_.steps[op].task))
        rounds_[op] = ready(*task, counts[task->channel]++, buffers_.of(program_.steps[op].stream));
  }

  void launch(std::uint32_t op, cudaStream_t stream, const CollectiveTask& task) override {
    for (const ReadyRound& round : rounds_[op]) {
      meet(stream, task);
      for (const CopyList& list : round.copies)
        check(launch_copies(stream, list, multiprocessors_), "copies of a collective");
      for (const SumList& list : round.sums)
        check(launch_sum(stream, list, multiprocessors_), "sum of a collective");
    }
    meet(stream, task);
  }

  void launch(std::uint32_t op, cudaStream_t stream, const TransferTask& task) override {
    const StreamBuffers& buffers = buffers_.of(program_.steps[op].stream);
    const Outlet& outlet = place_.wire(program_.wires[task.wire].number);
    WireCounts& counts = wires_[task.wire];
    const std::uint32_t message = ++counts.messages;
    const std::size_t bytes = part_of(task.bytes, 1);
    const std::size_t slot = task.eager ? counts.eager++ % outlet.slots : 0;
    if (task.sends) {
      if (task.eager) copy(stream, buffers.send, buffers_.slot(task.wire, slot), bytes);
      std::vector<CUstreamBatchMemOpParams> operations{write_flag(outlet.sent, message)};
      if (!task.eager) operations.push_back(await_flag(outlet.received, message));
      run(stream, operations);
    } else {
      run(stream, {await_flag(outlet.sent, message)});
      copy(stream, task.eager ? outlet.staging + outlet.slot * slot : outlet.send, buffers.receive, bytes);
      run(stream, {write_flag(outlet.received, message)});
    }
  }

  void check_failures() override {}  // a failed copy is told by whatever waits for it
  void finish() override {}
  [[nodiscard]] int commands() const override { return 8; }
  [[nodiscard]] std::string name() const override { return "copies in place of NCCL"; }

 private:
  struct WireCounts {
    std::uint32_t messages = 0;
    std::size_t eager = 0;
  };

  /// Enters this rank's buffers.
  void enter() {
    for (const Step& step : program_.steps) {
      const StreamBuffers& buffers = buffers_.of(step.stream);
      if (const auto* task = std::get_if<CollectiveTask>(&step.task)) {
        Seat& seat = place_.channel(program_.channels[task->channel].number)[task->position];
        seat.send = buffers.send;
        seat.receive = buffers.receive;
      } else if (const auto* transfer = std::get_if<TransferTask>(&step.task);
                 transfer != nullptr && transfer->sends) {
        Outlet& outlet = place_.wire(program_.wires[transfer->wire].number);
        outlet.send = buffers.send;
        const Staging& staging = buffers_.staging(transfer->wire);
        outlet.slot = staging.slot;
        outlet.slots = staging.slots;
        if (staging.slots > 0) outlet.staging = buffers_.slot(transfer->wire, 0);
      }
    }
  }

  std::vector<ReadyRound> ready(const CollectiveTask& task, std::size_t count, const StreamBuffers& buffers) {
    const std::vector<Seat>& seats = place_.channel(program_.channels[task.channel].number);
    if (seats.size() > static_cast<std::size_t>(SumList::Most))
      throw EnvironmentError(fmt::format("a collective of {} virtual ranks; at most {} are carried out",
                                         seats.size(), SumList::Most));
    std::vector<const CollectiveTask*> tasks;
    for (const Seat& seat : seats) tasks.push_back(seat.tasks[count]);
    std::vector<ReadyRound> rounds;
    for (const Round& round : rounds_of(tasks, task.position)) {
      ReadyRound& to_do = rounds.emplace_back();
      for (const Copy& from : round.copies) {
        if (to_do.copies.empty() || to_do.copies.back().count == CopyList::Most) to_do.copies.emplace_back();
        CopyList& list = to_do.copies.back();
        const Seat& seat = seats[from.member];
        const std::byte* source = from.side == Side::Send ? seat.send : seat.receive;
        std::byte* target = buffers.receive + from.target;
        if (source + from.source == target) continue;  // a member's own part of what it has gathered
        list.items[list.count++] = {source + from.source, target, from.bytes};
      }
      for (const Sum& sum : round.sums) {
        SumList& list = to_do.sums.emplace_back();
        for (const Seat& seat : seats) list.from[list.count++] = seat.send + sum.source;
        list.to = buffers.receive + sum.target;
        list.bytes = sum.bytes;
      }
    }
    return rounds;
  }

  /// The stream goes on when those of all members have come so far.
  void meet(cudaStream_t stream, const CollectiveTask& task) {
    const std::vector<Seat>& seats = place_.channel(program_.channels[task.channel].number);
    if (seats.size() < 2) return;
    const std::uint32_t meeting = meetings_[task.channel].next();
    std::vector<CUstreamBatchMemOpParams> operations{write_flag(seats[task.position].flag, meeting)};
    for (std::size_t member = 0; member < seats.size(); ++member)
      if (member != task.position) operations.push_back(await_flag(seats[member].flag, meeting));
    run(stream, operations);
  }

  void copy(cudaStream_t stream, const std::byte* from, std::byte* to, std::size_t bytes) const {
    CopyList list;
    list.items[list.count++] = {from, to, bytes};
    check(launch_copies(stream, list, multiprocessors_), "copy of a message");
  }

  void run(cudaStream_t stream, std::vector<CUstreamBatchMemOpParams> operations) const {
    check(driver_.batch_memory_operations(stream, static_cast<unsigned>(operations.size()), operations.data(),
                                          0),
          "cuStreamBatchMemOp");
  }

  const RankProgram& program_;
  const RankBuffers& buffers_;
  const Driver& driver_;
  MeetingPlace& place_;
  const int multiprocessors_;
  std::vector<Meetings> meetings_;  // by channel
  std::vector<WireCounts> wires_;
  std::vector<std::vector<ReadyRound>> rounds_;  // by op
};

}  // namespace

std::unique_ptr<Communication> make_copy_communication(const CopySetup& setup, World& world) {
  return std::make_unique<CopyCommunication>(setup, world);
}

}  // namespace syncline::cuda
