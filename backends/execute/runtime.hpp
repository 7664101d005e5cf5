// What an executor needs of a machine: streams that run ops, events, and a clock. Thin: what to run in which order, when
// the host waits and what is measured is the executor's affair.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/execute/rank_program.hpp"

namespace syncline {

/// On the rank's own clock.
struct OpTimes {
  Seconds start;  // what it stands behind is over: in its stream, and by wait_for()
  Seconds end;
};

/// One rank's streams. Ops are known by their place in the rank's program; each is an event, too, which happens when
/// the op ends. Calls return at once, but for those that say so.
///
/// Calls come from one thread, but for ended(). Whatever fails throws EnvironmentError with the call and its text.
class Runtime {
 public:
  virtual ~Runtime() = default;

  /// Makes streams, communicators and buffers; all ranks do so together, so it may wait for them. `program` stays where
  /// it is.
  virtual void prepare(const RankProgram& program) = 0;
  /// A step begins: all streams are empty, all events are forgotten. Buffers and communicators stay.
  virtual void begin() = 0;

  /// What is put into the stream from now on stands behind an op of another stream.
  virtual void wait_for(StreamId stream, std::uint32_t op) = 0;
  // The next op of a stream.
  virtual void launch(StreamId stream, std::uint32_t op, const ComputeTask& task) = 0;
  virtual void launch(StreamId stream, std::uint32_t op, const CollectiveTask& task) = 0;
  virtual void launch(StreamId stream, std::uint32_t op, const TransferTask& task) = 0;
  /// Blocks the host until the op has ended.
  virtual void synchronize(std::uint32_t op) = 0;
  /// Blocks until all has ended. By place in the program; those of host ops are empty.
  [[nodiscard]] virtual std::vector<OpTimes> finish() = 0;

  /// The clock that all times are of.
  [[nodiscard]] virtual Seconds now() const = 0;
  /// Which clock that is: ranks that say the same have one and the same. Not given: the machine's steady clock.
  [[nodiscard]] virtual std::string clock() const;
  /// Ops of this step that have ended so far, those of the host left out: for who watches. From any thread.
  [[nodiscard]] virtual std::vector<bool> ended() const = 0;
  /// What the timeline's header should say of the machine: key and text.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> about() const = 0;
};

}  // namespace syncline
