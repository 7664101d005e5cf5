#include "backends/cuda/cuda_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <thread>

#include "backends/cuda/backlog.hpp"
#include "backends/cuda/buffers.hpp"
#include "backends/cuda/call.hpp"
#include "backends/cuda/copy_communication.hpp"
#include "backends/cuda/deadline.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/machine.hpp"
#include "backends/cuda/nccl_communication.hpp"
#include "backends/cuda/products.hpp"
#include "backends/cuda/rank_buffers.hpp"
#include "sim/core/units.hpp"

namespace syncline::cuda {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t MostPassed = 1024 * MiB;  // far beyond any cache
constexpr std::size_t Workspace =
    32 * MiB;  // cuBLAS's advice for Hopper, by PyTorch's pull request 120925
constexpr std::size_t Reserve = 1024 * MiB;  // for NCCL's buffers, and the code of kernels
constexpr int MostCommands = 512;            // in a stream at once; hardware queues have 1024 places and more
constexpr int PollsBetweenChecks = 4096;
constexpr Seconds LeastToPrepare{180};  // NCCL looks at all links, cuBLAS loads its kernels
constexpr int Calibrations = 21;
constexpr std::uint64_t CalibrationSpin = 20'000;   // ns
constexpr std::uint64_t CalibrationLead = 500'000;  // ns: for the host to get ahead of the stream

bool communicates(const Task& task) {
  return std::holds_alternative<CollectiveTask>(task) || std::holds_alternative<TransferTask>(task);
}

Element element_of(Precision precision) {
  if (precision == Precision::Fp16) return Element::Fp16;
  return precision == Precision::Bf16 ? Element::Bf16 : Element::Fp32;
}

Seconds between(cudaEvent_t first, cudaEvent_t second) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, first, second), "cudaEventElapsedTime");
  return Seconds(static_cast<double>(milliseconds) * 1e-3);
}

class CudaRuntime : public Runtime {
 public:
  CudaRuntime(Node& node, World& world, int device)
      : node_(node), world_(world), device_(node.shared ? 0 : device) {}

  void prepare(const RankProgram& program) override {
    program_ = &program;
    const Seconds allowed = std::max(node_.plan.timeout, LeastToPrepare);
    const Deadline deadline(allowed, [&] {
      fmt::print(stderr, "error: rank {}: not ready after {}: GPU or NCCL do not answer\n",
                 program.rank.value(), to_text(allowed));
      world_.abort(1);
    });
    check(cudaSetDevice(device_), "cudaSetDevice");
    check(preload_kernels(), "loading kernels");
    check(cudaGetDeviceProperties(&properties_, device_), "cudaGetDeviceProperties");
    multiprocessors_ =
        node_.shared ? node_.shared->partitions.multiprocessors_each() : properties_.multiProcessorCount;
    allocate_buffers();
    make_streams();
    make_events();
    if (!node_.shared) own_clock_.emplace();
    if (node_.plan.compute == ComputeBy::Kernels) prepare_kernels();
    calibrate();
    communication_ = make_communication();
    world_.barrier();
  }

  void begin() override {
    for (std::uint32_t op = 0; op < program_->steps.size(); ++op)
      issued_[op].store(false, std::memory_order_relaxed);
    for (auto& [id, lane] : lanes_) {
      lane.backlog.clear();
      lane.last.reset();
    }
    reference_ = device_clock().reference(step_++);
  }

  void wait_for(StreamId stream, std::uint32_t op) override {
    at(op, [&] {
      check(cudaStreamWaitEvent(lane(stream).stream.get(), ends_[op].get(), 0), "cudaStreamWaitEvent");
    });
  }

  void launch(StreamId stream, std::uint32_t op, const ComputeTask& task) override {
    const bool spins = node_.plan.compute == ComputeBy::PlannedTime;
    const int commands = spins ? 1 : static_cast<int>(launches_[op]->size());
    put(stream, op, commands, [&](cudaStream_t target) {
      if (spins) return spin(target, task.planned);
      for (const Launch& launch : *launches_[op]) run(target, stream, launch);
    });
  }

  void launch(StreamId stream, std::uint32_t op, const CollectiveTask& task) override {
    put(stream, op, communication_->commands(),
        [&](cudaStream_t target) { communication_->launch(op, target, task); });
  }

  void launch(StreamId stream, std::uint32_t op, const TransferTask& task) override {
    put(stream, op, communication_->commands(),
        [&](cudaStream_t target) { communication_->launch(op, target, task); });
  }

  void synchronize(std::uint32_t op) override {
    at(op, [&] { await(ends_[op].get()); });
  }

  [[nodiscard]] std::vector<OpTimes> finish() override {
    for (const auto& [id, lane] : lanes_)
      if (lane.last) synchronize(*lane.last);
    communication_->finish();
    std::vector<OpTimes> times(program_->steps.size());
    for (std::uint32_t op = 0; op < times.size(); ++op) {
      if (on_host(program_->steps[op].task)) continue;
      at(op, [&] {
        times[op] = {reference_.at + between(reference_.event, starts_[op].get()),
                     reference_.at + between(reference_.event, ends_[op].get())};
      });
    }
    return times;
  }

  [[nodiscard]] Seconds now() const override { return host_now(); }

  /// CUDA itself may not answer any more, when another thread hangs in a call of it: then nobody else would end
  /// the ranks.
  [[nodiscard]] std::vector<bool> ended() const override {
    const Deadline deadline(node_.plan.timeout, [this] {
      fmt::print(stderr, "error: rank {}: CUDA has not answered for {}\n", program_->rank.value(),
                 to_text(node_.plan.timeout));
      world_.abort(1);
    });
    std::vector<bool> ended(program_->steps.size());
    for (std::uint32_t op = 0; op < ended.size(); ++op)
      ended[op] =
          issued_[op].load(std::memory_order_acquire) && cudaEventQuery(ends_[op].get()) == cudaSuccess;
    return ended;
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> about() const override {
    std::vector<std::pair<std::string, std::string>> about{{"backend", "cuda"}};
    const auto machine = describe_machine(device_);
    about.insert(about.end(), machine.begin(), machine.end());
    about.emplace_back("communication", communication_->name());
    if (node_.shared)
      about.emplace_back("virtual-ranks",
                         fmt::format("{} ranks on one GPU, each on {} of its {} multiprocessors",
                                     node_.programs.size(), node_.shared->partitions.multiprocessors_each(),
                                     node_.shared->partitions.multiprocessors()));
    about.emplace_back("launch-overhead", to_text(overhead_) + ", taken off planned times");
    about.emplace_back("device-clock", "against the host's to within " + to_text(device_clock().error()));
    return about;
  }

 private:
  struct Lane {
    Stream stream;
    Backlog backlog{MostCommands};
    std::optional<std::uint32_t> last;  // op
  };

  /// What fails is told with the op.
  template <class Call>
  void at(std::uint32_t op, const Call& call) const {
    try {
      call();
    } catch (const CallFailed& failure) {
      throw CallFailed(fmt::format("at {}: {}", describe(node_.plan, *program_, op), failure.what()));
    }
  }

  /// An op between its two events.
  template <class Call>
  void put(StreamId stream, std::uint32_t op, int commands, const Call& call) {
    Lane& target = lane(stream);
    if (const std::optional<std::uint32_t> earlier = target.backlog.add(op, commands + 2))
      synchronize(*earlier);
    at(op, [&] {
      check(cudaEventRecord(starts_[op].get(), target.stream.get()), "cudaEventRecord");
      call(target.stream.get());
      check(cudaEventRecord(ends_[op].get(), target.stream.get()), "cudaEventRecord");
    });
    target.last = op;
    issued_[op].store(true, std::memory_order_release);
  }

  /// Polls, so that what fails on a communicator meanwhile is seen.
  void await(cudaEvent_t event) const {
    for (int polls = 1;; ++polls) {
      const cudaError_t result = cudaEventQuery(event);
      if (result == cudaSuccess) return;
      if (result != cudaErrorNotReady) check(result, "cudaEventQuery");
      if (polls % PollsBetweenChecks == 0) communication_->check_failures();
      std::this_thread::yield();
    }
  }

  Lane& lane(StreamId stream) { return lanes_.at(stream); }
  [[nodiscard]] DeviceClock& device_clock() { return node_.shared ? node_.shared->clock : *own_clock_; }
  [[nodiscard]] const DeviceClock& device_clock() const {
    return node_.shared ? node_.shared->clock : *own_clock_;
  }

  void allocate_buffers() {
    const std::size_t scores = std::bit_floor(static_cast<std::size_t>(std::max(properties_.l2CacheSize, 1)));
    limits_ = {std::max(scores / 2, MiB), MostPassed, Workspace};
    const RankBytes bytes = rank_bytes(*program_, node_.plan.compute, limits_);
    const std::lock_guard lock(node_.memory);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    require_memory(bytes, program_->rank, free, total, Reserve);
    buffers_.emplace(bytes);
  }

  /// Streams that communicate come before others where both have blocks to run.
  [[nodiscard]] int priority(bool talks) const {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    return talks ? greatest : least;
  }

  void make_streams() {
    std::map<StreamId, bool> talking;  // of those in use
    for (const Step& step : program_->steps)
      if (!on_host(step.task)) talking[step.stream] |= communicates(step.task);
    for (const auto& [id, talks] : talking) {
      Lane& lane = lanes_.try_emplace(id).first->second;
      if (node_.shared) {
        lane.stream = node_.shared->partitions.make_stream(program_->rank.value(), priority(talks));
      } else {
        cudaStream_t made = nullptr;
        check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority(talks)),
              "cudaStreamCreateWithPriority");
        lane.stream.reset(made);
      }
      fill(lane.stream.get(), id);
      run_all_kernels(lane.stream.get());
    }
  }

  /// Once in each stream, on nothing: what a partition sets up when a kernel is first launched there may wait
  /// until the device is idle.
  static void run_all_kernels(cudaStream_t stream) {
    CopyList nothing;
    nothing.count = 1;
    nothing.items[0] = {nullptr, nullptr, 0};
    check(launch_spin(stream, 0), "spin kernel");
    check(launch_copies(stream, nothing, 1), "copies of nothing");
    check(launch_sum(stream, SumList{}, 1), "sum of nothing");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  /// Operands, and messages that are summed, are numbers.
  void fill(cudaStream_t stream, StreamId id) {
    const StreamBuffers& buffers = buffers_->of(id);
    const StreamBytes& bytes = buffers_->bytes_of(id);
    const std::uint32_t seed = program_->rank.value() * 1000 + id.value();
    const std::pair<std::byte*, std::size_t> filled[] = {
        {buffers.left, bytes.left}, {buffers.right, bytes.right},     {buffers.read, bytes.passed},
        {buffers.send, bytes.send}, {buffers.receive, bytes.receive}, {buffers.result, bytes.result}};
    for (const auto& [buffer, size] : filled)
      if (size > 0) check(launch_fill(stream, buffer, size, seed, multiprocessors_), "filling a buffer");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  void make_events() {
    const std::size_t ops = program_->steps.size();
    starts_.resize(ops);
    ends_.resize(ops);
    issued_ = std::make_unique<std::atomic<bool>[]>(ops);
    for (std::uint32_t op = 0; op < ops; ++op) {
      if (on_host(program_->steps[op].task)) continue;
      starts_[op] = make_event();
      ends_[op] = make_event();
    }
  }

  /// Plans each work's launches, and runs them once.
  void prepare_kernels() {
    products_ = std::make_unique<Products>(limits_.workspace, node_.shared ? multiprocessors_ : 0);
    launches_.resize(program_->steps.size());
    for (std::uint32_t op = 0; op < program_->steps.size(); ++op) {
      const auto* task = std::get_if<ComputeTask>(&program_->steps[op].task);
      if (task == nullptr) continue;
      const auto [place, is_new] = works_.try_emplace({task->work, task->factor});
      launches_[op] = &place->second;
      if (!is_new) continue;
      place->second = launches_of(*task, limits_.scores);
      at(op, [&] {
        const StreamId id = program_->steps[op].stream;
        cudaStream_t stream = lane(id).stream.get();
        for (const Launch& launch : place->second) {
          if (const auto* product = std::get_if<Product>(&launch)) products_->prepare(*product);
          if (!std::holds_alternative<Spin>(launch)) run(stream, id, launch);
        }
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      });
    }
  }

  /// What a spin lasts beyond what it was told, by its events: the median of some. It stands behind another, so
  /// that it begins when the GPU comes to it, as most ops of a step do, not when the host has launched it.
  void calibrate() {
    if (lanes_.empty()) return;
    cudaStream_t stream = lanes_.begin()->second.stream.get();
    const Event start = make_event(), end = make_event();
    std::vector<Seconds> beyond;
    for (int i = 0; i < Calibrations; ++i) {
      check(launch_spin(stream, CalibrationLead), "spin kernel");
      check(cudaEventRecord(start.get(), stream), "cudaEventRecord");
      check(launch_spin(stream, CalibrationSpin), "spin kernel");
      check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
      check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
      beyond.push_back(between(start.get(), end.get()) -
                       Seconds(static_cast<double>(CalibrationSpin) * 1e-9));
    }
    std::ranges::sort(beyond);
    overhead_ = std::max(beyond[beyond.size() / 2], Seconds(0));
  }

  std::unique_ptr<Communication> make_communication() {
    if (node_.shared)
      return make_copy_communication(
          {*program_, *buffers_, node_.shared->driver, node_.shared->place, multiprocessors_}, world_);
    return make_nccl_communication({*program_, node_.programs, *buffers_, multiprocessors_, priority(true)},
                                   world_);
  }

  void spin(cudaStream_t stream, Seconds time) const {
    if (time <= Seconds(0)) return;
    const Seconds left = std::max(time - overhead_, Seconds(0));
    check(launch_spin(stream, static_cast<std::uint64_t>(left.si() * 1e9)), "spin kernel");
  }

  void run(cudaStream_t stream, StreamId id, const Launch& launch) {
    const StreamBuffers& buffers = buffers_->of(id);
    struct Runner {
      CudaRuntime& runtime;
      cudaStream_t stream;
      const StreamBuffers& buffers;
      std::size_t passed;
      void operator()(const Product& product) const {
        runtime.products_->run(stream, product, buffers.left, buffers.right, buffers.result,
                               buffers.workspace);
      }
      void operator()(const Softmax& softmax) const {
        check(launch_softmax(stream, buffers.result, softmax.rows, softmax.columns,
                             element_of(softmax.precision)),
              "softmax kernel");
      }
      void operator()(const Pass& pass) const {
        check(launch_pass(stream, buffers.read, buffers.written, pass.bytes, passed, pass.gather,
                          runtime.multiprocessors_),
              "pass over memory");
      }
      void operator()(const Spin& spin) const { runtime.spin(stream, spin.time); }
    };
    std::visit(Runner{*this, stream, buffers, buffers_->bytes_of(id).passed}, launch);
  }

  Node& node_;
  World& world_;
  const int device_;
  const RankProgram* program_ = nullptr;
  cudaDeviceProp properties_{};
  int multiprocessors_ = 0;  // of this rank
  ComputeLimits limits_;
  std::optional<RankBuffers> buffers_;
  std::optional<DeviceClock> own_clock_;  // of a device that is not shared
  std::map<StreamId, Lane> lanes_;
  std::vector<Event> starts_, ends_;             // by op
  std::unique_ptr<std::atomic<bool>[]> issued_;  // by op, in this step
  std::unique_ptr<Products> products_;
  std::map<std::pair<const Work*, double>, std::vector<Launch>> works_;
  std::vector<const std::vector<Launch>*> launches_;  // by op
  std::unique_ptr<Communication> communication_;
  Seconds overhead_;
  Reference reference_;
  int step_ = 0;
};

}  // namespace

std::unique_ptr<Runtime> make_cuda_runtime(Node& node, World& world, int device) {
  return std::make_unique<CudaRuntime>(node, world, device);
}

}  // namespace syncline::cuda
