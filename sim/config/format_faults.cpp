// `faults:` and `noise:` of a scenario.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

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
  return {required(key, fault.name), printed_if(fault.down, optional("down", fault.down)),
          printed_if(!accelerator && !fault.down, optional("bandwidth", fault.bandwidth, AnyShare)),
          printed_if(accelerator && !fault.down, optional("slowdown", fault.slowdown, Slowdown)), optional("at", fault.at)};
}

void read_fault(const ConfigValue& value, Fault& fault) {
  const PartKey* named = nullptr;
  if (value.node.kind == ConfigNode::Kind::Map)
    for (const PartKey& part : PartKeys)
      if (value.node.find(part.key) != nullptr) named = &part;
  if (named == nullptr)
    return value.fail("names no part; give link, nic, switch or accelerator, such as {switch: spine0, down: true}");
  fault.part = named->part;
  read_fields(value, fields_of_part(fault, named->key));
  const bool accelerator = fault.part == Fault::Part::Accelerator;
  if (accelerator && fault.bandwidth != 1) return value.fail("an accelerator has slowdown, not bandwidth");
  if (!accelerator && fault.slowdown != 1) return value.fail("slowdown is of accelerators; others have bandwidth, the share left");
  if (fault.down && (fault.bandwidth != 1 || fault.slowdown != 1)) return value.fail("what is down has nothing left; leave out the rest");
  if (!fault.down && fault.bandwidth == 1 && fault.slowdown == 1)
    return value.fail("says nothing of its state; add down: true, bandwidth (the share left) or slowdown");
  if (fault.down && fault.at)
    value.fail("begins to be down within the step, which a synchronous job does not survive as it is: such runs are not "
               "simulated; leave out \"at\", or give the bandwidth that is left");
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
                     optional_block("noise", {optional("compute", scenario.noise.compute, Jitter)}))};
}

void check_faults(const Scenario& scenario, const TopologySpec& spec, const ConfigNode& root, ConfigErrors& errors) {
  if (scenario.faults.empty()) return;
  try {
    Topology topology = build_topology(spec);
    apply_faults(topology, scenario.faults);
  } catch (const std::invalid_argument& error) {
    errors.add(place_of(root, "faults"), fmt::format("\"faults\": {}", error.what()));
  }
}

}  // namespace syncline
