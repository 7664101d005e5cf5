// The max-min fluid core: delays, and flows that share links.
//
// A flow of rate r puts r · coefficient on each of its links. Rates are max-min fair: they rise together until a link
// is full or a flow has the most it may have; the flows on the link, or that flow, stay there, the others go on
// rising ("water filling": Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2). After a change only the
// flows that are connected to it through shared links are solved again. No globals, no engine: an engine drives it by next_event() and advance_to().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/network/event_heap.hpp"
#include "sim/network/network.hpp"

namespace syncline {

class Fluid {
 public:
  /// @param capacities  by LinkId; all > 0
  explicit Fluid(std::span<const BytesPerSecond> capacities);

  [[nodiscard]] Seconds now() const { return Seconds(now_); }

  /// Ends after `duration` ≥ 0.
  void delay(Seconds duration, Token token);
  /// Waits `latency` ≥ 0, then progresses by `bytes` ≥ 0 over `uses`. A link may stand in `uses` once only.
  /// @param most  bytes of progress per second, > 0
  void transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, Token token,
                BytesPerSecond most = AnyRate);

  /// From now on; 0: what crosses the link stands still.
  void set_bandwidth(LinkId link, BytesPerSecond bandwidth);
  /// Asks about every transfer under way, in the order in which they were started. What it has moved stays counted where
  /// it went; its latency is not waited for again.
  std::size_t reroute(const Rerouting& rerouting);

  /// Date of the next event; none when nothing is under way, or all that is stands still.
  [[nodiscard]] std::optional<Seconds> next_event();
  /// Moves the clock to `date`, not after next_event(), and appends to `ended` the tokens of everything that ends
  /// there, in the order in which it was started.
  void advance_to(Seconds date, std::vector<Token>& ended);

  /// Bytes carried so far by each link, by finished flows.
  [[nodiscard]] std::vector<Bytes> carried() const;
  [[nodiscard]] std::uint64_t event_count() const { return events_; }
  [[nodiscard]] std::uint64_t transfer_count() const { return transfers_; }

 private:
  enum class State : std::uint8_t { Free, Delay, Latency, Flowing };

  struct Activity {
    double remaining = 0;  // bytes of progress
    double rate = 0;       // bytes of progress per second,
    double most = 0;       // and the most that it may have
    double updated = 0;    // date at which `remaining` was right
    double bytes = 0;      // of progress over these links
    Token token = 0;
    std::uint64_t order = 0;  // of starting
    std::uint32_t first_element = 0;
    std::uint32_t elements = 0;
    std::uint32_t mark = 0;
    State state = State::Delay;
  };
  struct Element {  // one link of one flow
    double coefficient;
    std::uint32_t link;
    std::uint32_t position;  // in Link::flows
  };
  struct FlowOnLink {
    std::uint32_t activity;
    std::uint32_t element;
  };
  struct Link {
    double capacity;
    double carried = 0;
    std::vector<FlowOnLink> flows;
    double left = 0;         // while solving: capacity not yet given away,
    double all_weight = 0;   // sum of the coefficients of its flows,
    double weight = 0;       // the same of those without a rate yet,
    std::uint32_t open = 0;  // and their number
    std::uint32_t mark = 0;
    bool dirty = false;
  };
  struct Share {  // the least rate first
    double rate;
    std::uint32_t index;   // of a link, or of
    bool of_flow = false;  // a flow that may have no more
  };

  std::uint32_t new_activity(Token token, State state);
  void release(std::uint32_t activity);
  std::uint32_t new_elements(std::uint32_t count);
  void set_elements(std::uint32_t activity, std::span<const LinkUse> uses);
  void free_elements(const Activity& activity);
  void enter(std::uint32_t activity);
  void leave(std::uint32_t activity, double moved);
  void settle(Activity& flow) const;
  void send_over(std::uint32_t activity, std::span<const LinkUse> uses);
  void touch(std::uint32_t link);
  void solve();
  void gather_connected();
  void fill();
  double share_of(Link& link);
  void fix(std::uint32_t activity, double rate);
  void set_rate(std::uint32_t activity, double rate);

  double now_ = 0;
  std::vector<Link> links_;
  std::vector<Activity> activities_;
  std::vector<std::uint32_t> free_activities_;
  std::vector<Element> elements_;
  std::vector<std::vector<std::uint32_t>> free_elements_;  // by count
  EventHeap heap_;
  std::vector<std::uint32_t> dirty_, component_;
  std::vector<std::uint32_t> bounded_;  // flows of the component that may not have any rate
  std::vector<Share> shares_;
  struct Ended {
    std::uint64_t order;
    Token token;
  };
  std::vector<Ended> ended_;
  std::uint32_t mark_ = 0;
  std::uint64_t started_ = 0, events_ = 0, transfers_ = 0;
};

/// A network whose transfers are the fluid core's; who keeps the clock is left to run().
class FluidBacked : public Network {
 public:
  [[nodiscard]] Seconds now() const override { return fluid_.now(); }
  void delay(Seconds duration, Token token) override { fluid_.delay(duration, token); }
  void transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, Token token,
                BytesPerSecond most = AnyRate) override {
    fluid_.transfer(uses, bytes, latency, token, most);
  }
  void set_bandwidth(LinkId link, BytesPerSecond bandwidth) override {
    fluid_.set_bandwidth(link, bandwidth);
  }
  std::size_t reroute(const Rerouting& rerouting) override { return fluid_.reroute(rerouting); }
  [[nodiscard]] std::vector<Bytes> carried() const override { return fluid_.carried(); }
  [[nodiscard]] std::uint64_t event_count() const override { return fluid_.event_count(); }
  [[nodiscard]] std::uint64_t transfer_count() const override { return fluid_.transfer_count(); }

 protected:
  explicit FluidBacked(std::span<const BytesPerSecond> capacities) : fluid_(capacities) {}
  Fluid fluid_;
};

/// The fluid core and a loop: no engine. For tests, and for measuring what an engine adds.
class PlainNetwork : public FluidBacked {
 public:
  explicit PlainNetwork(std::span<const BytesPerSecond> capacities) : FluidBacked(capacities) {}
  void run(NetworkListener& listener) override;
};

}  // namespace syncline
