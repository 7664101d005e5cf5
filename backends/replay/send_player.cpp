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
    if (rank == sender.value()) ways.own = scratch_;
    sum.add(scratch_);
    ++ways.ranks;
  }
  const std::vector<LinkUse> uses = sum.take();
  if (protocols().empty()) ways.bundles[nullptr].uses = uses;
  for (const ProtocolFigures& figures : protocols()) {
    Bundle& bundle = ways.bundles[&figures];
    bundle.uses = uses;
    stretch(bundle.uses, wire_of(figures));
  }
  for (auto& [figures, bundle] : ways.bundles) book_->enter(bundle);
}

const std::vector<ProtocolFigures>& SendPlayer::protocols() const {
  static const std::vector<ProtocolFigures> none;
  const CollectiveFigures* figures = paths_.topology().collectives();
  return figures == nullptr ? none : figures->send;
}

void SendPlayer::stretch(std::vector<LinkUse>& uses, const Stretch& by) const {
  for (LinkUse& use : uses)
    use.coefficient *= paths_.topology().link(use.link).kind == LinkKind::ScaleUp ? by.inside : by.between;
}

// The protocol that is predicted to bring the bytes first.
SendPlayer::Manner SendPlayer::manner_of(std::span<const LinkUse> way, Bytes bytes, Seconds links_latency,
                                         bool between) const {
  Manner best{nullptr, links_latency, Seconds(0), {}};
  const Load load = load_of(way, bytes, paths_.topology());
  const Hops hops = between ? Hops{0, 1} : Hops{1, 0};
  Seconds least;
  for (const ProtocolFigures& figures : protocols()) {
    const Seconds time = predicted_time(figures, hops, load, std::nullopt);
    if (best.figures != nullptr && time >= least) continue;
    best = {&figures, latency_of(figures, hops), bytes_time(figures, hops, load, std::nullopt),
            wire_of(figures)};
    least = time;
  }
  return best;
}

void SendPlayer::start(RankId sender, RankId receiver, Bytes bytes, Token token, double uneven) {
  const bool between = paths_.between_nodes(sender, receiver);
  if (book_ == nullptr) {
    bytes_sent_ += bytes;
    scratch_.clear();
    const Seconds latency = paths_.append(sender, receiver, scratch_);
    const Manner manner = manner_of(scratch_, bytes, latency, between);
    // All links of a way between nodes are taken alike, so that a network of plain flows can carry it too.
    const Bytes on_wire = bytes * (between ? manner.wire.between : manner.wire.inside);
    return network_.transfer(scratch_, on_wire, manner.latency * uneven, token, manner.most(on_wire));
  }
  const Ways& ways = ways_.at({sender, receiver});
  bytes_sent_ += bytes * ways.ranks;
  const Manner manner = manner_of(ways.own, bytes, ways.latency, between);
  const Bundle& bundle = ways.bundles.at(manner.figures);
  book_->moved(bundle, bytes);
  network_.transfer(bundle.uses, bytes, manner.latency * uneven, token, manner.most(bytes));
}

}  // namespace syncline
