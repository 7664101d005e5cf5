// Moves the bytes of send/receive pairs. In a folded run a pair stands for those of all ranks of the sender's
// role, each with its own peer, at the same time: one action over the links of all.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "backends/replay/bundle_book.hpp"
#include "backends/replay/paths.hpp"
#include "sim/collective/cost.hpp"
#include "sim/schedule/fold.hpp"

namespace syncline {

class SendPlayer {
 public:
  /// @param folded  where bundles are entered when the run is folded; else null
  SendPlayer(const Schedule& schedule, const Cluster& cluster, const Cast& cast, Network& network,
             BundleBook* folded);

  /// Looks up the ways of one send; of every one in a folded run, before the book is closed.
  void prepare(RankId sender, const Peer& peer);

  /// Both are there, or the sender is eager. `token` comes back from the network when the bytes have arrived.
  /// @param uneven  factor on the latency
  void start(RankId sender, RankId receiver, Bytes bytes, Token token, double uneven = 1);

  /// By all ranks so far.
  [[nodiscard]] Bytes bytes_sent_so_far() const { return bytes_sent_; }

 private:
  struct Ways {  // of all ranks of a role to their peers
    std::map<const ProtocolFigures*, Bundle>
        bundles;               // by protocol; of nullptr where the topology has no figures
    std::vector<LinkUse> own;  // of the pair that is played
    Seconds latency;           // the longest, by the links
    double ranks = 0;
  };
  /// How a pair's bytes go, alone on the network.
  struct Manner {
    const ProtocolFigures* figures = nullptr;  // null: latency and bandwidth of the links
    Seconds latency, bytes_time;               // no less after the latency
    Stretch wire;
    [[nodiscard]] BytesPerSecond most(Bytes progress) const {
      return bytes_time > Seconds(0) ? progress / bytes_time : AnyRate;
    }
  };
  [[nodiscard]] Manner manner_of(std::span<const LinkUse> way, Bytes bytes, Seconds links_latency,
                                 bool between) const;
  [[nodiscard]] const std::vector<ProtocolFigures>& protocols() const;
  void stretch(std::vector<LinkUse>& uses, const Stretch& by) const;

  const Schedule& schedule_;
  const Cast& cast_;
  Network& network_;
  BundleBook* book_;
  PathFinder paths_;
  std::map<std::pair<RankId, RankId>, Ways> ways_;  // by sender and receiver; folded only
  Bytes bytes_sent_;
  std::vector<LinkUse> scratch_;
};

}  // namespace syncline
