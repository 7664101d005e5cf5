// The keys of a price list.
#include <algorithm>

#include "sim/config/catalogue.hpp"
#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/config/price_list.hpp"

namespace syncline {

// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Fields fields_of(PricedPart& part);
Fields fields_of(OpticalCircuits& circuits);
Fields fields_of(PriceList& prices);

namespace {

constexpr Limits Dollars{.low = 0, .high = 1e9};
constexpr Limits PartPorts{.low = 1, .high = 65536};
constexpr Limits Dimensions{.low = 1, .high = 6};
constexpr Limits BlockSide{.low = 1, .high = 65536};

Names<Medium> media() {
  return {{"copper", Medium::Copper}, {"optics", Medium::Optics}};
}

/// Of a part whose rate does not matter.
Fields price_fields(PricedPart& part) {
  return {optional("usd", part.usd, Dollars), optional("usd-low", part.usd_low, Dollars),
          optional("usd-high", part.usd_high, Dollars), optional("power", part.power),
          required("source", part.source)};
}

}  // namespace

Fields fields_of(PricedPart& part) {
  Fields fields = price_fields(part);
  fields.insert(fields.begin(), {required("rate", part.rate), optional("ports", part.ports, PartPorts)});
  return fields;
}

Fields fields_of(OpticalCircuits& circuits) {
  return {required("dimensions", circuits.dimensions, Dimensions),
          required("block", circuits.block, BlockSide), required_block("port", price_fields(circuits.port))};
}

Fields fields_of(PriceList& prices) {
  return {version_field(false),
          optional("name", prices.name),
          optional("source", prices.source),
          required_block("cables", {required("endpoint-to-switch", prices.endpoint_to_switch, media()),
                                    required("between-switches", prices.between_switches, media()),
                                    required("between-endpoints", prices.between_endpoints, media())}),
          optional("optical-circuits", prices.optical_circuits),
          optional("nics", prices.nics),
          optional("switches", prices.switches),
          optional("transceivers", prices.transceivers),
          optional("copper", prices.copper)};
}

PriceList load_price_list(const std::string& name_or_file) {
  PriceList prices;
  load_block(name_or_file, PriceLists, prices);
  return prices;
}

std::optional<PriceList> default_price_list() {
  constexpr const char* Name = "network";
  const std::vector<std::string> names = names_in(PriceLists);
  if (std::ranges::find(names, Name) == names.end()) return std::nullopt;
  return load_price_list(Name);
}

}  // namespace syncline
