// `faults:` and `noise:` of a scenario.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "sim/config/checks.hpp"
#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/topology/apply_faults.hpp"

namespace syncline {

// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Codec codec(Fault& fault);

namespace {

constexpr Limits Slowdown{.low = 1, .high = 1000};
constexpr Limits Jitter{.low = 0, .high = 10};

struct PartKey {
  std::string_view key;
  Fault::Part part;
};
constexpr PartKey PartKeys[]{{"link", Fault::Part::Link},
                             {"nic", Fault::Part::Nic},
                             {"switch", Fault::Part::Switch},
                             {"accelerator", Fault::Part::Accelerator}};

Fields fields_of_part(Fault& fault, std::string_view key) {
  const bool accelerator = fault.part == Fault::Part::Accelerator;
  return {required(key, fault.name),
          printed_if(fault.down, optional("down", fault.down)),
          printed_if(!accelerator && !fault.down, optional("bandwidth", fault.bandwidth, AnyShare)),
          printed_if(accelerator && !fault.down, optional("slowdown", fault.slowdown, Slowdown)),
          optional("at", fault.at),
          printed_if(fault.down && fault.at, optional("reroute", fault.reroute))};
}

/// What is wrong with the state that a fault describes.
struct Contradiction {
  bool holds;
  std::string_view message;
};

void check_state(const ConfigValue& value, const Fault& fault) {
  const bool accelerator = fault.part == Fault::Part::Accelerator;
  const bool slower = value.node.find("slowdown") != nullptr,
             narrower = value.node.find("bandwidth") != nullptr;
  const Contradiction all[]{
      {accelerator && narrower,
       "an accelerator has a slowdown, not a bandwidth; name its NIC or its links for that"},
      {!accelerator && slower, "slowdown is of accelerators; others have bandwidth, the share that is left"},
      {fault.down && (narrower || slower), "what is down has nothing left; leave out the rest"},
      {!fault.down && !narrower && !slower,
       "says nothing of its state; add down: true, or bandwidth (the share that is left; of accelerators "
       "slowdown)"},
      {accelerator && fault.down && fault.at,
       "an accelerator that goes down within the step stops a synchronous job there, so that there is no "
       "step to "
       "predict; leave out \"at\", and its ranks are placed on others"},
      {fault.reroute != Seconds(0) && !(fault.down && fault.at),
       "\"reroute\" is how long it takes to go round what is down from a time on; give down: true and at, or "
       "leave it "
       "out"}};
  for (const Contradiction& one : all)
    if (one.holds) return value.fail(one.message);
}

void read_fault(const ConfigValue& value, Fault& fault) {
  std::vector<const PartKey*> named;
  if (value.node.kind == ConfigNode::Kind::Map)
    for (const PartKey& part : PartKeys)
      if (value.node.find(part.key) != nullptr) named.push_back(&part);
  if (named.empty())
    return value.fail(
        "names no part; give link, nic, switch or accelerator, such as {switch: spine0, down: true}");
  if (named.size() > 1)
    return value.fail(fmt::format("names {} parts, a {} and a {}; make each a fault of its own", named.size(),
                                  named[0]->key, named[1]->key));
  fault.part = named.front()->part;
  read_fields(value, fields_of_part(fault, named.front()->key));
  check_state(value, fault);
}

/// Of the name of the fault's part.
Place place_of_part(const ConfigNode& root, std::size_t index, const Fault& fault) {
  const ConfigEntry* list = root.find("faults");
  if (list == nullptr) return root.mark.place();
  const bool several = list->value.kind == ConfigNode::Kind::List && index < list->value.items.size();
  const ConfigNode& item = several ? list->value.items[index] : list->value;
  for (const PartKey& part : PartKeys)
    if (part.part == fault.part)
      if (const ConfigEntry* name = item.find(part.key)) return name->value.mark.place();
  return list->mark.place();
}

}  // namespace

Codec codec(Fault& fault) {
  return {"a part and its state, such as {switch: spine0, down: true}",
          [&fault](const ConfigValue& value) { read_fault(value, fault); },
          [&fault] {
            for (const PartKey& part : PartKeys)
              if (part.part == fault.part) return write_fields(fields_of_part(fault, part.key));
            return ConfigNode{};
          }};
}

Fields fault_fields(Scenario& scenario) {
  return {printed_if(!scenario.faults.empty(), optional("faults", scenario.faults)),
          printed_if(!scenario.noise.none(),
                     optional_block("noise", {optional("compute", scenario.noise.compute, Jitter),
                                              optional("latency", scenario.noise.latency, Jitter)}))};
}

void check_faults(const Scenario& scenario, const Topology& topology, const ConfigNode& root,
                  ConfigErrors& errors) {
  if (scenario.faults.empty()) return;
  bool known = true;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    try {
      static_cast<void>(links_of(topology, scenario.faults[i]));
    } catch (const std::invalid_argument& error) {
      errors.add(place_of_part(root, i, scenario.faults[i]), fmt::format("\"faults\": {}", error.what()));
      known = false;
    }
  }
  if (!known) return;
  try {
    static_cast<void>(routes_at(topology, scenario.faults, Seconds(2 * AnyTime.high)));
  } catch (const std::invalid_argument& error) {
    errors.add(place_of(root, "faults"), fmt::format("\"faults\": {}", error.what()));
  }
}

}  // namespace syncline
