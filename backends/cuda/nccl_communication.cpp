#include "backends/cuda/nccl_communication.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>

#include "backends/cuda/call.hpp"
#include "backends/cuda/communicators.hpp"
#include "backends/cuda/sizes.hpp"

namespace syncline::cuda {
namespace {

constexpr std::size_t Bf16 = 2;  // bytes: what sums are of

struct DestroyCommunicator {
  void operator()(ncclComm_t communicator) const {
    // Destroying waits for what is in flight, which after a failure may never end.
    static_cast<void>(std::uncaught_exceptions() > 0 ? ncclCommAbort(communicator)
                                                     : ncclCommDestroy(communicator));
  }
};
using Communicator = std::unique_ptr<ncclComm, DestroyCommunicator>;

/// What the members of a channel, or a wire's ends, send through a communicator, from and to where.
struct Lane {
  ncclComm_t communicator;
  cudaStream_t stream;
  const std::byte* send;
  std::byte* receive;
};

void send(const Lane& lane, std::size_t offset, std::size_t bytes, std::size_t to) {
  if (bytes > 0)
    check(ncclSend(lane.send + offset, bytes, ncclInt8, static_cast<int>(to), lane.communicator, lane.stream),
          "ncclSend");
}

void receive(const Lane& lane, std::size_t offset, std::size_t bytes, std::size_t from) {
  if (bytes > 0)
    check(ncclRecv(lane.receive + offset, bytes, ncclInt8, static_cast<int>(from), lane.communicator,
                   lane.stream),
          "ncclRecv");
}

/// Sends and receives that are one op.
template <class Calls>
void grouped(const Calls& calls) {
  check(ncclGroupStart(), "ncclGroupStart");
  calls();
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void all_to_all(const Lane& lane, std::span<const Bytes> to, std::span<const Bytes> from) {
  const std::vector<std::size_t> sent = offsets_of(to), received = offsets_of(from);
  grouped([&] {
    for (std::size_t member = 0; member < to.size(); ++member) {
      send(lane, sent[member], sent[member + 1] - sent[member], member);
      receive(lane, received[member], received[member + 1] - received[member], member);
    }
  });
}

void launch_collective(const Lane& lane, const CollectiveTask& task, std::size_t members) {
  const auto& [communicator, stream, from, to] = lane;
  const std::size_t part = part_of(task.bytes, members), whole = part_of(task.bytes, 1), me = task.position;
  const bool first = me == 0;
  switch (task.kind) {
    case CollectiveKind::AllReduce:
      return check(
          ncclAllReduce(from, to, members * part / Bf16, ncclBfloat16, ncclSum, communicator, stream),
          "ncclAllReduce");
    case CollectiveKind::AllGather:
      return check(ncclAllGather(from, to, part, ncclInt8, communicator, stream), "ncclAllGather");
    case CollectiveKind::ReduceScatter:
      return check(ncclReduceScatter(from, to, part / Bf16, ncclBfloat16, ncclSum, communicator, stream),
                   "ncclReduceScatter");
    case CollectiveKind::Broadcast:
      return check(ncclBroadcast(first ? from : to, to, whole, ncclInt8, 0, communicator, stream),
                   "ncclBroadcast");
    case CollectiveKind::Reduce:
      return check(ncclReduce(from, to, whole / Bf16, ncclBfloat16, ncclSum, 0, communicator, stream),
                   "ncclReduce");
    case CollectiveKind::AllToAll: return all_to_all(lane, task.to, task.from);
    case CollectiveKind::Shift:
      return grouped([&] {
        send(lane, 0, whole, (me + 1) % members);
        receive(lane, 0, whole, (me + members - 1) % members);
      });
    case CollectiveKind::Scatter:
      return grouped([&] {
        for (std::size_t member = 0; first && member < members; ++member)
          send(lane, member * part, part, member);
        receive(lane, 0, part, 0);
      });
    case CollectiveKind::Gather:
      return grouped([&] {
        send(lane, 0, part, 0);
        for (std::size_t member = 0; first && member < members; ++member)
          receive(lane, member * part, part, member);
      });
  }
}

/// The communicator of all ranks.
Communicator make_root(World& world, int blocks) {
  ncclUniqueId id{};
  if (world.rank() == 0) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    for (int rank = 1; rank < world.size(); ++rank) world.send(rank, std::as_bytes(std::span(&id, 1)));
  } else {
    const std::vector<std::byte> bytes = world.receive(0);
    SYNCLINE_CHECK(bytes.size() == sizeof id, "an id of NCCL was expected from rank 0");
    std::memcpy(&id, bytes.data(), sizeof id);
  }
  // Blocking: a call returns when its kernel is in the stream, so that an event behind it ends when it does.
  // What hangs is ended with the whole program.
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.maxCTAs = blocks;
  // Communicators that share resources share a stream of NCCL's, too, behind which each kernel of theirs is put
  // (ncclLaunchPrepare): they would run one after another, in the order of the host's calls, and ranks whose
  // orders differ would wait for each other for ever.
  config.splitShare = 0;
  ncclComm_t made = nullptr;
  check(ncclCommInitRankConfig(&made, world.size(), id, world.rank(), &config), "ncclCommInitRankConfig");
  return Communicator(made);
}

class NcclCommunication : public Communication {
 public:
  NcclCommunication(const NcclSetup& setup, World& world) : program_(setup.program), buffers_(setup.buffers) {
    int kernels = 1;
    for (const RankProgram& program : setup.programs)
      kernels = std::max(kernels, concurrent_kernels(program));
    root_ = make_root(world, blocks_each(setup.multiprocessors, kernels));
    channels_.resize(program_.channels.size());
    wires_.resize(program_.wires.size());
    const std::vector<SplitRound> rounds = split_rounds(setup.programs);
    for (const SplitRound& round : rounds) split(round);
    make_eager_lanes(setup.priority);
    connect(rounds, world);
  }

  ~NcclCommunication() override {
    wires_.clear();  // before the one that they were split from
    channels_.clear();
  }
  NcclCommunication(const NcclCommunication&) = delete;
  NcclCommunication& operator=(const NcclCommunication&) = delete;

  void launch(std::uint32_t op, cudaStream_t stream, const CollectiveTask& task) override {
    const StreamBuffers& buffers = buffers_.of(program_.steps[op].stream);
    launch_collective({channels_[task.channel].get(), stream, buffers.send, buffers.receive}, task,
                      program_.channels[task.channel].members.size());
  }

  void launch(std::uint32_t op, cudaStream_t stream, const TransferTask& task) override {
    const StreamBuffers& buffers = buffers_.of(program_.steps[op].stream);
    const Lane lane{wires_[task.wire].communicator.get(), stream, buffers.send, buffers.receive};
    const std::size_t bytes = part_of(task.bytes, 1);
    if (!task.sends)
      receive(lane, 0, bytes, 0);  // the sender is the first of a wire's two
    else if (task.eager)
      send_eagerly(lane, task.wire, bytes);
    else
      send(lane, 0, bytes, 1);
  }

  void check_failures() override {
    for (const Communicator& channel : channels_) check_failure(channel.get());
    for (const WireLane& wire : wires_) check_failure(wire.communicator.get());
  }

  void finish() override {
    for (const WireLane& wire : wires_)
      while (wire.side && !is_empty(wire.side.get())) check_failures();
  }

  [[nodiscard]] int commands() const override { return 4; }  // a kernel, and what NCCL puts around it

  [[nodiscard]] std::string name() const override {
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

 private:
  struct WireLane {
    Communicator communicator;
    // Of eager sends:
    Stream side;
    std::vector<Event> copied;  // by slot
    std::size_t next = 0;       // slot
  };

  static void check_failure(ncclComm_t communicator) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) check(state, "NCCL, while communicating");
  }

  static bool is_empty(cudaStream_t stream) {
    const cudaError_t result = cudaStreamQuery(stream);
    if (result == cudaErrorNotReady) return false;
    check(result, "cudaStreamQuery");
    return true;
  }

  /// Where the group's communicator belongs; null when this rank is no member.
  Communicator* place_of(const CommunicatorGroup& group) {
    if (group.of == CommunicatorGroup::Of::Channel) {
      const auto found = std::ranges::find(program_.channels, group.number, &Channel::number);
      return found == program_.channels.end()
                 ? nullptr
                 : &channels_[static_cast<std::size_t>(found - program_.channels.begin())];
    }
    const auto found = std::ranges::find(program_.wires, group.number, &Wire::number);
    return found == program_.wires.end()
               ? nullptr
               : &wires_[static_cast<std::size_t>(found - program_.wires.begin())].communicator;
  }

  void split(const SplitRound& round) {
    int color = NCCL_SPLIT_NOCOLOR, key = 0;
    Communicator* place = nullptr;
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::vector<RankId>& members = round[i].members;
      const auto found = std::ranges::find(members, program_.rank);
      if (found == members.end()) continue;
      color = static_cast<int>(i);
      key = static_cast<int>(found - members.begin());
      place = place_of(round[i]);
    }
    ncclComm_t made = nullptr;
    check(ncclCommSplit(root_.get(), color, key, &made, nullptr), "ncclCommSplit");
    if (place != nullptr) place->reset(made);
  }

  void make_eager_lanes(int priority) {
    for (std::size_t wire = 0; wire < wires_.size(); ++wire) {
      const std::size_t slots = buffers_.staging(static_cast<std::uint32_t>(wire)).slots;
      if (slots == 0) continue;
      cudaStream_t side = nullptr;
      check(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, priority),
            "cudaStreamCreateWithPriority");
      wires_[wire].side.reset(side);
      for (std::size_t i = 0; i < slots; ++i) wires_[wire].copied.push_back(make_event());
    }
  }

  /// The message leaves its buffer, and the stream goes on; a stream besides waits for the receiver.
  void send_eagerly(const Lane& lane, std::uint32_t number, std::size_t bytes) {
    WireLane& wire = wires_[number];
    const std::size_t slot = wire.next;
    wire.next = (slot + 1) % wire.copied.size();
    std::byte* const copy = buffers_.slot(number, slot);
    check(cudaMemcpyAsync(copy, lane.send, bytes, cudaMemcpyDeviceToDevice, lane.stream), "cudaMemcpyAsync");
    check(cudaEventRecord(wire.copied[slot].get(), lane.stream), "cudaEventRecord");
    check(cudaStreamWaitEvent(wire.side.get(), wire.copied[slot].get(), 0), "cudaStreamWaitEvent");
    send({lane.communicator, wire.side.get(), copy, nullptr}, 0, bytes, 1);
  }

  /// All communicators, in one order on all ranks. Nothing is allocated or freed meanwhile: that may wait for
  /// kernels of other ranks in this process, which wait for this one.
  void connect(const std::vector<SplitRound>& rounds, World& world) {
    std::size_t most = 2;
    for (const Channel& channel : program_.channels) most = std::max(most, channel.members.size());
    const DeviceMemory sent = allocate(most * Word), received = allocate(most * Word);
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const Stream stream(made);
    world.barrier();
    for (const SplitRound& round : rounds)
      for (const CommunicatorGroup& group : round)
        if (const Communicator* place = place_of(group))
          connect(group, *place, {place->get(), made, sent.get(), received.get()});
    world.barrier();
  }

  /// Every message of a channel once, but for those of a kind and size that went before; one of a wire.
  void connect(const CommunicatorGroup& group, const Communicator& place, const Lane& scratch) {
    if (group.of == CommunicatorGroup::Of::Wire) {
      if (program_.rank == group.members.front())
        send(scratch, 0, Word, 1);
      else
        receive(scratch, 0, Word, 0);
      check(cudaStreamSynchronize(scratch.stream), "cudaStreamSynchronize");
      return;
    }
    const std::size_t members = group.members.size();
    std::set<std::pair<CollectiveKind, double>> seen;
    for (const Step& step : program_.steps) {
      const auto* task = std::get_if<CollectiveTask>(&step.task);
      if (task == nullptr || &channels_[task->channel] != &place) continue;
      if (task->kind == CollectiveKind::AllToAll) {  // members differ in what they have for whom
        if (!seen.insert({task->kind, 0}).second) continue;
        const std::vector<Bytes> word(members, Bytes(static_cast<double>(Word)));
        all_to_all(scratch, word, word);
      } else if (seen.insert({task->kind, task->bytes.si()}).second) {
        const StreamBuffers& buffers = buffers_.of(step.stream);
        launch_collective({scratch.communicator, scratch.stream, buffers.send, buffers.receive}, *task,
                          members);
      }
      check(cudaStreamSynchronize(scratch.stream), "cudaStreamSynchronize");
    }
  }

  const RankProgram& program_;
  const RankBuffers& buffers_;
  Communicator root_;
  std::vector<Communicator> channels_;  // by position in the program
  std::vector<WireLane> wires_;
};

}  // namespace

std::unique_ptr<Communication> make_nccl_communication(const NcclSetup& setup, World& world) {
  return std::make_unique<NcclCommunication>(setup, world);
}

}  // namespace syncline::cuda
