// Price lists of network parts: parts/NAME.yaml.
#pragma once

#include <optional>
#include <string>

#include "sim/cost/network_cost.hpp"

namespace syncline {

/// @throws InputError
[[nodiscard]] PriceList load_price_list(const std::string& name_or_file);

/// "network", which is counted with where nothing else is asked for; nothing when the data folder has no such list.
/// @throws InputError
[[nodiscard]] std::optional<PriceList> default_price_list();

}  // namespace syncline
