// The parts of check_schedule, each relying on those before it having found nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/schedule/fold.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline::check {

/// Collects sentences; only the first few are kept, for a fault in a role is a fault in all its ranks.
class Findings {
 public:
  /// @param make  makes the sentence; called only while there is room
  template <class Make>
  void add(Make make) {
    if (sentences_.size() < Most) sentences_.push_back(make());
    ++count_;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// The sentences, and how many more there were.
  [[nodiscard]] std::vector<std::string> take() &&;

 private:
  static constexpr std::size_t Most = 20;
  std::vector<std::string> sentences_;
  std::size_t count_ = 0;
};

/// Collectives of one family in one stream: members of a group issue the same ones in the same order.
struct Queue {
  FamilyId family;
  StreamId stream;
};

/// The other end of sends (or receives) of a role, and their message number.
struct Endpoint {
  Peer peer;
  int message = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// What the checks ask of a role again and again, worked out once.
struct RoleTables {
  std::vector<std::uint32_t> ranks;     // that play it, ascending
  std::vector<std::uint32_t> queue;     // by op; of collectives
  std::vector<std::uint32_t> position;  // by op: of a collective in its queue, of a transfer in `transfers`
  std::vector<std::vector<std::uint32_t>> queue_ops;  // by queue: its collectives
  std::vector<std::uint32_t> transfers;               // ops that send or receive
  std::vector<std::uint32_t> endpoint;                // by transfer: index into `sends` or `receives`
  std::vector<Endpoint> sends, receives;              // each once
};

struct Tables {
  explicit Tables(const Schedule& schedule);
  std::vector<Queue> queues;
  std::vector<RoleTables> roles;
};

/// Which op of the peer each send and receive meets.
struct Pairing {
  std::vector<std::size_t> first;  // by rank that plays: where its transfers begin in `partner_op`
  std::vector<std::uint32_t> partner_op;
};

/// Ids in range, sizes finite, `after` and host waits naming earlier ops.
void check_shape(const Schedule& schedule, Findings& findings);
/// Every collective's rank has a group; nobody sends to itself.
void check_membership(const Schedule& schedule, const Tables& tables, Findings& findings);
void check_collectives(const Schedule& schedule, const Tables& tables, Findings& findings);
// Of those who play.
[[nodiscard]] Pairing pair_transfers(const Schedule& schedule, const Tables& tables, const Cast& cast,
                                     Findings& findings);
void check_progress(const Schedule& schedule, const Tables& tables, const Pairing& pairing, const Cast& cast,
                    Findings& findings);

/// `op 7 ("F microbatch 1") of role "stage 0"`
[[nodiscard]] std::string op_text(const Schedule& schedule, std::size_t role, std::size_t op);
/// `436224000 B`
[[nodiscard]] std::string exact_bytes(Bytes bytes);

}  // namespace syncline::check
