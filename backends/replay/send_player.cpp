#include "backends/replay/send_player.hpp"

#include <algorithm>

namespace syncline {

SendPlayer::SendPlayer(const Schedule& schedule, const Cluster& cluster, const Cast& cast, Network& network,
                       BundleBook* folded)
    : schedule_(schedule), cast_(cast), network_(network), book_(folded), paths_(cluster) {}

void SendPlayer::prepare(RankId sender, const Peer& peer) {
  const auto [entry, added] = ways_.try_emplace({sender, schedule_.peer(sender, peer)});
  if (!added) return;
  Ways& ways = entry->second;
  BundleSum sum(paths_.topology().links().size());
  for (std::size_t rank = sender.value(); rank < schedule_.world_size(); ++rank) {
    if (cast_.seat_of[rank] != cast_.seat_of[sender.value()]) continue;
    scratch_.clear();
    ways.latency =
        std::max(ways.latency, paths_.append(RankId(rank), schedule_.peer(RankId(rank), peer), scratch_));
    sum.add(scratch_);
    ++ways.ranks;
  }
  ways.bundle.uses = sum.take();
  book_->enter(ways.bundle);
}

void SendPlayer::start(RankId sender, RankId receiver, Bytes bytes, Token token) {
  if (book_ == nullptr) {
    bytes_sent_ += bytes;
    scratch_.clear();
    const Seconds latency = paths_.append(sender, receiver, scratch_);
    return network_.transfer(scratch_, bytes, latency, token);
  }
  const Ways& ways = ways_.at({sender, receiver});
  bytes_sent_ += bytes * ways.ranks;
  book_->moved(ways.bundle, bytes);
  network_.transfer(ways.bundle.uses, bytes, ways.latency, token);
}

}  // namespace syncline
