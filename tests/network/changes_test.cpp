// Links that change while transfers are under way, and transfers that are sent another way.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "sim/core/random.hpp"
#include "sim/network/fluid.hpp"
#include "tests/support/ends.hpp"

namespace syncline {
namespace {

using testing::Ends;

std::vector<LinkUse> over(std::initializer_list<unsigned> links) {
  std::vector<LinkUse> uses;
  for (const unsigned link : links) uses.push_back({LinkId(link), 1.0});
  return uses;
}

/// Does something at dates; their tokens are 1000 and on.
class Script : public Ends {
 public:
  explicit Script(Network& network) : Ends(network), network_(network) {}
  void when(double date, std::function<void()> what) {
    network_.delay(Seconds(date), 1000 + acts_.size());
    acts_.push_back(std::move(what));
  }
  void on_done(Token token) override {
    if (token >= 1000)
      acts_[token - 1000]();
    else
      Ends::on_done(token);
  }

 private:
  Network& network_;
  std::vector<std::function<void()>> acts_;
};

TEST_CASE("a link that gets narrower carries what is left at its new bandwidth") {
  // 100 bytes at 10 B/s: 40 are over at t = 4; the other 60 at 5 B/s take 12 s more.
  const std::vector<BytesPerSecond> links{BytesPerSecond(10)};
  PlainNetwork network(links);
  Script script(network);
  script.when(4, [&] { network.set_bandwidth(LinkId(0), BytesPerSecond(5)); });
  network.transfer(over({0}), Bytes(100), Seconds(0), 0);
  network.run(script);
  CHECK(script.at[0] == doctest::Approx(16));
}

TEST_CASE(
    "without bandwidth everything on a link stands still, and what shared other links with it has these "
    "alone") {
  // Links 0 and 1 of 10 B/s; a over 0, b over both: 5 B/s each. From t = 2 link 1 is down: b stands still at
  // 10 of 40 bytes, a has 10 B/s for its last 30 bytes: t = 5. At t = 7 the link is back: b needs 30 / 10 = 3
  // s more.
  const std::vector<BytesPerSecond> links(2, BytesPerSecond(10));
  PlainNetwork network(links);
  Script script(network);
  script.when(2, [&] { network.set_bandwidth(LinkId(1), BytesPerSecond(0)); });
  script.when(7, [&] { network.set_bandwidth(LinkId(1), BytesPerSecond(10)); });
  network.transfer(over({0}), Bytes(40), Seconds(0), 0);
  network.transfer(over({0, 1}), Bytes(40), Seconds(0), 1);
  network.run(script);
  CHECK(script.at[0] == doctest::Approx(5));
  CHECK(script.at[1] == doctest::Approx(10));
}

TEST_CASE("what begins on a link that is down waits for it") {
  const std::vector<BytesPerSecond> links{BytesPerSecond(10)};
  PlainNetwork network(links);
  Script script(network);
  network.set_bandwidth(LinkId(0), BytesPerSecond(0));
  script.when(3, [&] { network.set_bandwidth(LinkId(0), BytesPerSecond(10)); });
  network.transfer(over({0}), Bytes(10), Seconds(1), 0);
  network.run(script);
  CHECK(script.at[0] == doctest::Approx(4));
}

TEST_CASE("what stands still for ever does not keep the clock running") {
  const std::vector<BytesPerSecond> links{BytesPerSecond(10)};
  PlainNetwork network(links);
  Script script(network);
  script.when(2, [&] { network.set_bandwidth(LinkId(0), BytesPerSecond(0)); });
  network.transfer(over({0}), Bytes(100), Seconds(0), 0);
  network.run(script);
  CHECK(script.order.empty());
  CHECK(network.now().si() == 2);
}

TEST_CASE("a transfer that is sent another way moves the rest of its bytes there") {
  // 100 bytes over link 0 at 10 B/s; from t = 4 the other 60 over link 1 at 20 B/s: t = 7.
  const std::vector<BytesPerSecond> links{BytesPerSecond(10), BytesPerSecond(20)};
  PlainNetwork network(links);
  Script script(network);
  std::size_t changed = 0;
  script.when(4, [&] {
    changed = network.reroute([](Token token, std::vector<LinkUse>& uses) {
      if (token == 0) uses = over({1});
    });
  });
  network.transfer(over({0}), Bytes(100), Seconds(0), 0);
  network.transfer(over({1}), Bytes(20), Seconds(0), 1);
  network.run(script);
  CHECK(changed == 1);
  CHECK(script.at[1] == doctest::Approx(1));
  CHECK(script.at[0] == doctest::Approx(7));
  CHECK(network.carried()[0].si() == doctest::Approx(40));
  CHECK(network.carried()[1].si() == doctest::Approx(80));  // 20 + 60
}

TEST_CASE(
    "another way counts from the start for what still waits for its latency, which is not waited for twice") {
  const std::vector<BytesPerSecond> links{BytesPerSecond(10), BytesPerSecond(20)};
  PlainNetwork network(links);
  Script script(network);
  script.when(1, [&] { network.reroute([](Token, std::vector<LinkUse>& uses) { uses = over({1}); }); });
  network.transfer(over({0}), Bytes(100), Seconds(3), 0);
  network.run(script);
  CHECK(script.at[0] == doctest::Approx(3 + 5));
  CHECK(network.carried()[0].si() == 0);
}

TEST_CASE("those that stand still go on when they are sent another way") {
  // 10 B/s; stopped at t = 1 with 90 of 100 bytes left, sent over link 1 at t = 5: 5 + 90 / 10.
  const std::vector<BytesPerSecond> links(2, BytesPerSecond(10));
  PlainNetwork network(links);
  Script script(network);
  script.when(1, [&] { network.set_bandwidth(LinkId(0), BytesPerSecond(0)); });
  script.when(5, [&] { network.reroute([](Token, std::vector<LinkUse>& uses) { uses = over({1}); }); });
  network.transfer(over({0}), Bytes(100), Seconds(0), 0);
  network.run(script);
  CHECK(script.at[0] == doctest::Approx(14));
}

struct Outcome {
  std::map<Token, double> ends;
  std::vector<Bytes> carried;
};

/// Random traffic on links of which some change, stop and come back, and ways that change. All come back at
/// the end.
Outcome random_changes(std::uint64_t seed, std::vector<double>& moved_by_flow) {
  constexpr unsigned Links = 10, Flows = 60;
  Random random(seed);
  const std::vector<BytesPerSecond> links(Links, BytesPerSecond(100));
  PlainNetwork network(links);
  Script script(network);
  for (int change = 0; change < 30; ++change) {
    const LinkId link(random.below(Links));
    const BytesPerSecond bandwidth(static_cast<double>(random.below(3)) * 50);
    script.when(10 * random.uniform(),
                [&network, link, bandwidth] { network.set_bandwidth(link, bandwidth); });
  }
  for (int change = 0; change < 5; ++change) {
    const unsigned shift = static_cast<unsigned>(1 + random.below(Links - 1));
    script.when(10 * random.uniform(), [&network, shift] {
      network.reroute([shift](Token token, std::vector<LinkUse>& uses) {
        if (token % 3 != 0) return;
        for (LinkUse& use : uses) use.link = LinkId((use.link.value() + shift) % Links);
      });
    });
  }
  for (unsigned l = 0; l < Links; ++l)
    script.when(10 + l, [&network, l] { network.set_bandwidth(LinkId(l), BytesPerSecond(100)); });
  for (unsigned f = 0; f < Flows; ++f) {
    std::vector<LinkUse> uses;
    for (unsigned l = 0; l < Links; ++l)
      if (random.below(4) == 0) uses.push_back({LinkId(l), 0.5 + random.uniform()});
    if (uses.empty()) uses.push_back({LinkId(0), 1});
    const double bytes = 1 + 100 * random.uniform();
    double weight = 0;
    for (const LinkUse& use : uses) weight += use.coefficient;
    moved_by_flow.push_back(bytes * weight);  // wherever it goes
    network.transfer(uses, Bytes(bytes), Seconds(random.uniform()), f);
  }
  network.run(script);
  return {script.at, network.carried()};
}

TEST_CASE("whatever changes on the way, all bytes arrive, once, and at the same time in every run") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::vector<double> expected, again;
    const Outcome outcome = random_changes(seed, expected);
    CHECK(outcome.ends.size() == expected.size());
    double carried = 0, sum = 0;
    for (const Bytes bytes : outcome.carried) carried += bytes.si();
    for (const double bytes : expected) sum += bytes;
    CHECK(carried == doctest::Approx(sum).epsilon(1e-9));
    CHECK(outcome.ends == random_changes(seed, again).ends);
  }
}

TEST_CASE("rates after a change are those of a network that was always so") {
  // The same flows on links of the later bandwidths; both have moved nothing before, for the change comes at
  // t = 0.
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<BytesPerSecond> before, after;
    for (int l = 0; l < 8; ++l) {
      before.emplace_back(1 + 99 * random.uniform());
      after.emplace_back(1 + 99 * random.uniform());
    }
    PlainNetwork changed(before), fresh(after);
    Script script(changed);
    Ends ends(fresh);
    script.when(0, [&] {
      for (std::size_t l = 0; l < after.size(); ++l) changed.set_bandwidth(LinkId(l), after[l]);
    });
    for (unsigned f = 0; f < 20; ++f) {
      std::vector<LinkUse> uses;
      for (unsigned l = 0; l < 8; ++l)
        if (random.below(3) == 0) uses.push_back({LinkId(l), 0.25 + random.uniform()});
      const Bytes bytes(1 + 100 * random.uniform());
      changed.transfer(uses, bytes, Seconds(0), f);
      fresh.transfer(uses, bytes, Seconds(0), f);
    }
    changed.run(script);
    fresh.run(ends);
    for (unsigned f = 0; f < 20; ++f) CHECK(script.at[f] == doctest::Approx(ends.at[f]).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace syncline
