#include "sim/network/fluid.hpp"

#include <algorithm>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

// Events closer than this are one event: far below any latency of a network, far above the rounding of a date in a
// simulation of an hour (an hour's double has steps of 4.5e-13 s).
constexpr double SameTime = 1e-12;  // s

// A link is a bottleneck when its share is within rounding of the least.
constexpr double SameShare = 1 + 1e-12;

// Below this share of its start a running sum is taken anew, so that rounding stays under 1e-9.
constexpr double SafeWeight = 1e-3;

constexpr auto larger_rate = [](const auto& a, const auto& b) { return a.rate > b.rate; };

}  // namespace

Fluid::Fluid(std::span<const BytesPerSecond> capacities) {
  links_.reserve(capacities.size());
  for (const BytesPerSecond capacity : capacities) {
    SYNCLINE_CHECK(capacity.si() > 0, "a link without bandwidth");
    links_.push_back({.capacity = capacity.si(), .flows = {}});
  }
}

void Fluid::delay(Seconds duration, Token token) {
  SYNCLINE_CHECK(duration.si() >= 0, "a negative delay");
  heap_.set(new_activity(token, State::Delay), now_ + duration.si());
}

void Fluid::transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, Token token,
                     BytesPerSecond most) {
  if (uses.empty() || bytes.si() <= 0) return delay(latency, token);
  SYNCLINE_CHECK(latency.si() >= 0, "a negative latency");
  SYNCLINE_CHECK(most.si() > 0, "a transfer that may not move");
  ++transfers_;
  const std::uint32_t id = new_activity(token, State::Latency);
  set_elements(id, uses);
  Activity& flow = activities_[id];
  flow.bytes = flow.remaining = bytes.si();
  flow.most = most.si();
  if (latency.si() > 0)
    heap_.set(id, now_ + latency.si());
  else
    enter(id);
}

void Fluid::set_bandwidth(LinkId link, BytesPerSecond bandwidth) {
  SYNCLINE_CHECK(bandwidth.si() >= 0, "a negative bandwidth");
  links_[link.value()].capacity = bandwidth.si();
  touch(link.value());
}

std::size_t Fluid::reroute(const Rerouting& rerouting) {
  std::vector<std::uint32_t> under_way;
  for (std::uint32_t id = 0; id < activities_.size(); ++id)
    if (activities_[id].state == State::Latency || activities_[id].state == State::Flowing)
      under_way.push_back(id);
  std::ranges::sort(under_way, {}, [&](std::uint32_t id) { return activities_[id].order; });
  std::size_t changed = 0;
  std::vector<LinkUse> before, after;
  const auto same = [](const LinkUse& a, const LinkUse& b) {
    return a.link == b.link && a.coefficient == b.coefficient;
  };
  for (const std::uint32_t id : under_way) {
    const Activity& flow = activities_[id];
    before.clear();
    for (std::uint32_t e = flow.first_element; e < flow.first_element + flow.elements; ++e)
      before.push_back({LinkId(elements_[e].link), elements_[e].coefficient});
    after = before;
    rerouting(flow.token, after);
    if (std::ranges::equal(before, after, same)) continue;
    send_over(id, after);
    ++changed;
  }
  return changed;
}

// The bytes that a transfer has still to move go over other links.
void Fluid::send_over(std::uint32_t id, std::span<const LinkUse> uses) {
  SYNCLINE_CHECK(!uses.empty(), "a transfer without a way");
  Activity& flow = activities_[id];
  const bool flowing = flow.state == State::Flowing;
  if (flowing) {
    settle(flow);
    leave(id, flow.bytes - flow.remaining);
    flow.bytes = flow.remaining;
    flow.rate = 0;
    heap_.remove(id);
  }
  free_elements(flow);
  set_elements(id, uses);
  if (flowing) enter(id);
}

std::optional<Seconds> Fluid::next_event() {
  solve();
  if (heap_.empty()) return std::nullopt;
  return Seconds(std::max(now_, heap_.first_date()));
}

void Fluid::advance_to(Seconds date, std::vector<Token>& ended) {
  now_ = date.si();
  ended_.clear();
  while (!heap_.empty() && heap_.first_date() <= now_ + SameTime) {
    const std::uint32_t id = heap_.first_item();
    heap_.remove(id);
    ++events_;
    const Activity& activity = activities_[id];
    if (activity.state == State::Latency) {
      enter(id);
      continue;
    }
    ended_.push_back({activity.order, activity.token});
    if (activity.state == State::Flowing) leave(id, activity.bytes);
    release(id);
  }
  std::sort(ended_.begin(), ended_.end(), [](const Ended& a, const Ended& b) { return a.order < b.order; });
  for (const Ended& one : ended_) ended.push_back(one.token);
}

std::vector<Bytes> Fluid::carried() const {
  std::vector<Bytes> bytes;
  bytes.reserve(links_.size());
  for (const Link& link : links_) bytes.emplace_back(link.carried);
  return bytes;
}

std::uint32_t Fluid::new_activity(Token token, State state) {
  std::uint32_t id;
  if (free_activities_.empty()) {
    id = static_cast<std::uint32_t>(activities_.size());
    activities_.emplace_back();
  } else {
    id = free_activities_.back();
    free_activities_.pop_back();
    activities_[id] = Activity{};
  }
  activities_[id].token = token;
  activities_[id].state = state;
  activities_[id].order = started_++;
  return id;
}

void Fluid::release(std::uint32_t id) {
  free_elements(activities_[id]);
  activities_[id].state = State::Free;
  free_activities_.push_back(id);
}

void Fluid::set_elements(std::uint32_t id, std::span<const LinkUse> uses) {
  const auto count = static_cast<std::uint32_t>(uses.size());
  const std::uint32_t first = new_elements(count);
  for (std::uint32_t i = 0; i < count; ++i)
    elements_[first + i] = {uses[i].coefficient, uses[i].link.value(), 0};
  activities_[id].first_element = first;
  activities_[id].elements = count;
}

void Fluid::free_elements(const Activity& activity) {
  if (activity.elements == 0) return;
  if (free_elements_.size() <= activity.elements) free_elements_.resize(activity.elements + 1);
  free_elements_[activity.elements].push_back(activity.first_element);
}

std::uint32_t Fluid::new_elements(std::uint32_t count) {
  if (count < free_elements_.size() && !free_elements_[count].empty()) {
    const std::uint32_t first = free_elements_[count].back();
    free_elements_[count].pop_back();
    return first;
  }
  const std::size_t first = elements_.size();
  elements_.resize(first + count);
  return static_cast<std::uint32_t>(first);
}

// The latency is over: the flow takes its place on its links.
void Fluid::enter(std::uint32_t id) {
  Activity& flow = activities_[id];
  flow.state = State::Flowing;
  flow.updated = now_;
  for (std::uint32_t e = flow.first_element; e < flow.first_element + flow.elements; ++e) {
    Link& link = links_[elements_[e].link];
    elements_[e].position = static_cast<std::uint32_t>(link.flows.size());
    link.flows.push_back({id, e});
    touch(elements_[e].link);
  }
}

void Fluid::leave(std::uint32_t id, double moved) {
  const Activity& flow = activities_[id];
  for (std::uint32_t e = flow.first_element; e < flow.first_element + flow.elements; ++e) {
    const Element& element = elements_[e];
    Link& link = links_[element.link];
    link.carried += moved * element.coefficient;
    link.flows[element.position] = link.flows.back();
    elements_[link.flows[element.position].element].position = element.position;
    link.flows.pop_back();
    touch(element.link);
  }
}

void Fluid::touch(std::uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

void Fluid::solve() {
  if (dirty_.empty()) return;
  gather_connected();
  fill();
}

// All links that share a flow, directly or through others, with one that changed; breadth first.
void Fluid::gather_connected() {
  ++mark_;
  component_.clear();
  bounded_.clear();
  const auto add = [&](std::uint32_t link) {
    if (links_[link].mark == mark_) return;
    links_[link].mark = mark_;
    component_.push_back(link);
  };
  for (const std::uint32_t link : dirty_) {
    links_[link].dirty = false;
    add(link);
  }
  dirty_.clear();
  for (std::size_t i = 0; i < component_.size(); ++i) {
    Link& link = links_[component_[i]];
    link.left = link.capacity;
    link.weight = 0;
    link.open = static_cast<std::uint32_t>(link.flows.size());
    for (const FlowOnLink& on_link : link.flows) {
      link.weight += elements_[on_link.element].coefficient;
      Activity& flow = activities_[on_link.activity];
      if (flow.mark == mark_) continue;
      flow.mark = mark_;
      if (flow.most < AnyRate.si()) bounded_.push_back(on_link.activity);
      for (std::uint32_t e = flow.first_element; e < flow.first_element + flow.elements; ++e)
        add(elements_[e].link);
    }
    link.all_weight = link.weight;
  }
}

// What each open flow of `link` would get, per unit of coefficient.
double Fluid::share_of(Link& link) {
  if (link.weight < SafeWeight * link.all_weight) {  // the sum has lost digits to subtraction: take it anew
    link.weight = 0;
    for (const FlowOnLink& on_link : link.flows)
      if (activities_[on_link.activity].mark != mark_) link.weight += elements_[on_link.element].coefficient;
    link.all_weight = link.weight;
  }
  return link.left / link.weight;
}

void Fluid::fix(std::uint32_t id, double rate) {
  Activity& flow = activities_[id];
  if (flow.mark == mark_) return;
  flow.mark = mark_;
  for (std::uint32_t e = flow.first_element; e < flow.first_element + flow.elements; ++e) {
    Link& link = links_[elements_[e].link];
    link.left = std::max(0.0, link.left - rate * elements_[e].coefficient);
    link.weight -= elements_[e].coefficient;
    --link.open;
  }
  set_rate(id, rate);
}

// Water filling over the component: the link with the least share is full first and fixes its flows; a flow that may have
// less than any share has that.
void Fluid::fill() {
  ++mark_;  // now marks the flows that have their rate
  shares_.clear();
  for (const std::uint32_t index : component_) {
    Link& link = links_[index];
    if (link.open > 0) shares_.push_back({share_of(link), index});
  }
  for (const std::uint32_t id : bounded_) shares_.push_back({activities_[id].most, id, true});
  std::make_heap(shares_.begin(), shares_.end(), larger_rate);
  while (!shares_.empty()) {
    std::pop_heap(shares_.begin(), shares_.end(), larger_rate);
    const Share least = shares_.back();
    shares_.pop_back();
    if (least.of_flow) {
      fix(least.index, least.rate);
      continue;
    }
    Link& link = links_[least.index];
    if (link.open == 0) continue;
    const double rate = share_of(link);
    SYNCLINE_CHECK(rate > 0 || link.capacity == 0, "a transfer that gets no bandwidth");
    if (rate > least.rate * SameShare) {  // flows fixed elsewhere since left it a larger share
      shares_.push_back({rate, least.index});
      std::push_heap(shares_.begin(), shares_.end(), larger_rate);
      continue;
    }
    for (const FlowOnLink& on_link : link.flows) fix(on_link.activity, rate);
  }
}

void Fluid::settle(Activity& flow) const {
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.updated));
  flow.updated = now_;
}

void Fluid::set_rate(std::uint32_t id, double rate) {
  Activity& flow = activities_[id];
  if (flow.rate == rate) return;
  settle(flow);
  flow.rate = rate;
  if (rate > 0)
    heap_.set(id, now_ + flow.remaining / rate);
  else
    heap_.remove(id);  // stands still
}

void PlainNetwork::run(NetworkListener& listener) {
  std::vector<Token> ended;
  while (const std::optional<Seconds> next = fluid_.next_event()) {
    ended.clear();
    fluid_.advance_to(*next, ended);
    for (const Token token : ended) listener.on_done(token);
  }
}

}  // namespace syncline
