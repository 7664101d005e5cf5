#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"

namespace syncline {
namespace {

constexpr Limits Clock{.low = 1e-6, .high = 1.2};  // a boost over the clock that was measured at
constexpr Limits Units{.low = 1, .high = 1000000};
constexpr Limits HalfSize{.low = 0, .high = 1e9};
constexpr Limits Exposed{.low = 0, .high = 1};
constexpr Limits TileSide{.low = 1, .high = 16777216};

/// Precisions with their peak rates; at least one.
Codec peak_codec(std::map<Precision, FlopPerSecond>& peak) {
  const auto fields = [](std::map<Precision, FlopPerSecond>& rates) {
    Fields all;
    for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16,
                                      Precision::Fp8, Precision::Fp8Block, Precision::Int8, Precision::Fp4})
      all.push_back(optional(name_of(precision), rates[precision]));
    return all;
  };
  const auto given = [](const auto& rate) { return rate.second.si() > 0; };
  const auto read = [&peak, fields, given](const ConfigValue& value) {
    std::map<Precision, FlopPerSecond> rates;
    read_fields(value, fields(rates));
    if (value.node.kind == ConfigNode::Kind::Map && value.node.entries.empty())
      value.fail("lists no precision; give one such as \"bf16: 989TFLOPps\"");
    peak.clear();
    std::ranges::copy_if(rates, std::inserter(peak, peak.end()), given);
  };
  const auto write = [&peak] {
    Fields all;
    for (auto& [precision, rate] : peak) all.push_back(required(name_of(precision), rate));
    return write_fields(all);
  };
  return {"a block such as \"{bf16: 989TFLOPps}\"", read, write};
}

/// Two whole numbers: rows and columns of a tile.
Codec tile_codec(int& rows, int& columns) {
  const auto read = [&rows, &columns](const ConfigValue& value) {
    if (value.node.kind != ConfigNode::Kind::List || value.node.items.size() != 2)
      return value.fail("expected two whole numbers such as [128, 256]");
    const std::vector<ConfigValue> items = list_items(value);
    codec(rows, TileSide).read(items[0]);
    codec(columns, TileSide).read(items[1]);
  };
  const auto write = [&rows, &columns] { return list_node({codec(rows).write(), codec(columns).write()}); };
  return {"two whole numbers such as [128, 256]", read, write};
}

/// Rates of products in a precision that was measured by itself.
Field own_rates(GemmModel& gemm, Precision precision) {
  const auto fields = [](GemmRates& rates) {
    return Fields{required("plateau", rates.plateau, AnyShare),
                  optional("small-rate", rates.small_rate, AnyShare),
                  optional("k-half", rates.k_half, HalfSize)};
  };
  return {name_of(precision),
          false,
          {"a block such as \"{plateau: 0.8, k-half: 100}\"",
           [&gemm, precision, fields](const ConfigValue& value) {
             gemm.own.erase(precision);
             if (!is_none(value.node)) read_fields(value, fields(gemm.own[precision]));
           },
           [&gemm, precision, fields] {
             const auto own = gemm.own.find(precision);
             return own == gemm.own.end() ? ConfigNode{} : write_fields(fields(own->second));
           }}};
}

Fields gemm_fields(GemmModel& gemm) {
  Fields fields{required("plateau", gemm.plateau, AnyShare),
                {"tile", false, tile_codec(gemm.tile_m, gemm.tile_n)},
                {"small-tile", false, tile_codec(gemm.small_m, gemm.small_n)},
                optional("small-rate", gemm.small_rate, AnyShare),
                required("units", gemm.units, Units),
                optional("k-half", gemm.k_half, HalfSize),
                optional("exposed-memory", gemm.exposed_memory, Exposed),
                optional("grouped-exposed-memory", gemm.grouped_exposed_memory, Exposed)};
  for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Fp8, Precision::Fp8Block,
                                    Precision::Int8, Precision::Fp4})
    fields.push_back(own_rates(gemm, precision));
  return fields;
}

}  // namespace

Fields fields_of(Device& device) {
  return {version_field(false),
          optional("name", device.name),
          optional("source", device.source),
          optional("chips", device.chips),
          required("memory", device.memory),
          required_block("hbm", {required("bandwidth", device.hbm_bandwidth),
                                 optional("efficiency", device.hbm_efficiency, AnyShare),
                                 optional("gather-efficiency", device.gather_efficiency, AnyShare)}),
          {"peak", true, peak_codec(device.peak)},
          optional("sustained-clock", device.sustained_clock, Clock),
          required_block("gemm", gemm_fields(device.gemm)),
          required_block("attention", {required("forward", device.attention_forward, AnyShare),
                                       required("backward", device.attention_backward, AnyShare),
                                       optional("wide-head", device.attention_wide_head, AnyShare),
                                       optional("ramp", device.attention_ramp)}),
          optional("kernel-gap", device.kernel_gap),
          optional("launch", device.launch),
          optional("launch-more", device.launch_more),
          optional("compute-rate-while-communicating", device.compute_rate_while_communicating, AnyShare),
          optional("reserve", device.reserve, AnySize),
          optional("power", device.power)};
}

}  // namespace syncline
