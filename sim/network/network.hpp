// What a replay needs of a network: a clock, delays, and transfers that share links.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "sim/core/link_use.hpp"
#include "sim/core/quantity.hpp"

namespace syncline {

/// Named by the caller, handed back when the thing is done.
using Token = std::uint64_t;

/// Of a transfer that only its links hold back.
inline constexpr BytesPerSecond AnyRate(std::numeric_limits<double>::infinity());

/// Asked about one transfer that is under way: `uses`, what it loads, may be changed to what its remaining
/// bytes shall.
using Rerouting = std::function<void(Token, std::vector<LinkUse>& uses)>;

/// The owner of a network; told of everything that ends, in a deterministic order.
class NetworkListener {
 public:
  virtual ~NetworkListener() = default;
  virtual void on_done(Token token) = 0;
};

/// Contract: all but run() and the figures may be called before run() and from on_done(), never from
/// elsewhere during run(). run() returns when nothing is left.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual Seconds now() const = 0;
  /// on_done(token) after `duration` ≥ 0.
  virtual void delay(Seconds duration, Token token) = 0;
  /// on_done(token) after `latency`, then `bytes` of progress at a max-min fair rate over `uses`. With no
  /// uses or no bytes: after the latency.
  /// @param most  of progress, > 0: what it does not take is left to others
  virtual void transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, Token token,
                        BytesPerSecond most = AnyRate) = 0;
  /// From now on. Without bandwidth, what crosses the link stands still until it has some, or goes another
  /// way.
  virtual void set_bandwidth(LinkId link, BytesPerSecond bandwidth) = 0;
  /// Asks about every transfer under way, in the order in which they were started; how many go another way
  /// now.
  virtual std::size_t reroute(const Rerouting& rerouting) = 0;
  virtual void run(NetworkListener& listener) = 0;
  /// Bytes that each link carried, by LinkId.
  [[nodiscard]] virtual std::vector<Bytes> carried() const = 0;
  [[nodiscard]] virtual std::uint64_t event_count() const = 0;
  [[nodiscard]] virtual std::uint64_t transfer_count() const = 0;
};

}  // namespace syncline
