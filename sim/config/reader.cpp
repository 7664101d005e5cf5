#include "sim/config/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <stdexcept>

#include "sim/core/units.hpp"

namespace syncline {
namespace {

std::string_view word_for(ConfigNode::Kind kind) {
  switch (kind) {
    case ConfigNode::Kind::Nothing: return "nothing";
    case ConfigNode::Kind::Scalar: return "a single value";
    case ConfigNode::Kind::List: return "a list";
    case ConfigNode::Kind::Map: return "a block of keys";
    case ConfigNode::Kind::Faulty: break;
  }
  return "an error";
}

// The text of a single value; nullptr, and an error unless there is one already, when it is none.
const std::string* scalar(const ConfigValue& value, std::string_view expects) {
  if (value.node.kind == ConfigNode::Kind::Scalar) return &value.node.text;
  if (value.node.kind != ConfigNode::Kind::Faulty)
    value.fail(fmt::format("expected {}, found {}", expects, word_for(value.node.kind)));
  return nullptr;
}

// A bound as a message shows it: with its unit, but for 0, which needs none.
template <class T>
std::string bound_text(double bound) {
  if constexpr (std::is_arithmetic_v<T>)
    return fmt::format("{:.16g}", bound);
  else
    return bound == 0 ? "0" : to_text(T(bound));
}

template <class T>
bool within(double number, std::string_view text, const Limits& limits, const ConfigValue& value) {
  const bool low = limits.above_low ? number > limits.low : number >= limits.low;
  const bool high = number <= limits.high;
  if (!low)
    value.fail(fmt::format("\"{}\" must be {} {}", text, limits.above_low ? "above" : "at least",
                           bound_text<T>(limits.low)));
  else if (!high)
    value.fail(fmt::format("\"{}\" must be at most {}", text, bound_text<T>(limits.high)));
  return low && high;
}

// Spellings that a reader could take for something else: an octal number, a zero with a sign.
void refuse_odd_zero(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9')
    throw std::invalid_argument(fmt::format("\"{}\" has a leading zero; write it without", text));
  if (digits.size() < text.size() && !digits.empty() && digits[0] == '0' &&
      digits.find_first_of("123456789") == std::string_view::npos)
    throw std::invalid_argument(fmt::format("\"{}\" is zero with a sign; write it without", text));
}

// A codec over `parse` (text → T, throws std::invalid_argument) and `print` (T → text).
template <class T, class Parse, class Print>
Codec scalar_codec(T& target, std::string expects, Limits limits, Parse parse, Print print) {
  return {expects,
          [&target, expects, limits, parse](const ConfigValue& value) {
            const std::string* text = scalar(value, expects);
            if (text == nullptr) return;
            try {
              refuse_odd_zero(*text);
              const auto parsed = parse(*text);
              double number = 0;
              if constexpr (std::is_arithmetic_v<decltype(parsed)>)
                number = static_cast<double>(parsed);
              else
                number = parsed.si();
              if (within<T>(number, *text, limits, value)) target = static_cast<T>(parsed);
            } catch (const std::invalid_argument& error) {
              value.fail(error.what());
            }
          },
          [&target, print] { return scalar_node(print(target)); }};
}

struct PrintUnit {
  std::string_view name;
  double factor;
};
constexpr auto TimeUnits = std::to_array<PrintUnit>({{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}});
constexpr auto SizeUnits = std::to_array<PrintUnit>({{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}});
constexpr auto RateUnits =
    std::to_array<PrintUnit>({{"GBps", 1e9}, {"MBps", 1e6}, {"kBps", 1e3}, {"Bps", 1}});
constexpr auto PowerUnits = std::to_array<PrintUnit>({{"MW", 1e6}, {"kW", 1e3}, {"W", 1}});
constexpr auto FlopRateUnits = std::to_array<PrintUnit>({{"TFLOPps", 1e12}, {"GFLOPps", 1e9}});

// The shortest text, over the units, that reads back as the same value.
template <class T>
auto exact_quantity(std::span<const PrintUnit> units, T (*parse)(std::string_view)) {
  return [units, parse](T value) {
    if (value.si() == 0) return fmt::format("0{}", units.back().name);
    std::string best;
    for (const PrintUnit& unit : units) {
      std::string text = exact_text(value.si() / unit.factor) + std::string(unit.name);
      if ((best.empty() || text.size() < best.size()) && parse(text) == value) best = std::move(text);
    }
    // No unit divides it exactly: the SI unit, which all but rates of compute have.
    return best.empty() ? fmt::format("{:.17g}{}", value.si() / units.back().factor, units.back().name)
                        : best;
  };
}

template <class Integer>
Codec integer_codec(Integer& value, Limits limits, double largest) {
  limits.high = std::min(limits.high, largest);
  return scalar_codec(value, "a whole number", limits, parse_integer,
                      [](Integer number) { return fmt::format("{}", number); });
}

// Whole numbers go through a double in the check of their limits. Up to 2^53 - 1 that is exact, and no larger
// one rounds to it.
constexpr double LargestExact = 9007199254740991.0;

}  // namespace

void ConfigValue::fail(std::string_view message) const {
  const bool block = node.kind == ConfigNode::Kind::Map || node.kind == ConfigNode::Kind::List ||
                     node.kind == ConfigNode::Kind::Nothing;
  errors.add(block ? mark.place() : node.mark.place(),
             path.empty() ? std::string(message) : fmt::format("\"{}\": {}", path, message));
}

std::string ConfigValue::below(std::string_view key) const {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

void missing_key(const ConfigValue& map, std::string_view key, const Codec& codec) {
  const std::string where = map.path.empty() ? "" : fmt::format(" in \"{}\"", map.path);
  map.errors.add(map.mark.place(), fmt::format("missing key \"{}\"{}; add {}", key, where, codec.expects));
}

void read_fields(const ConfigValue& map, const Fields& fields) {
  if (map.node.kind == ConfigNode::Kind::Faulty) return;
  if (map.node.kind != ConfigNode::Kind::Map)
    return map.fail(fmt::format("expected a block of keys, found {}", word_for(map.node.kind)));
  std::vector<std::string> known;
  for (const Field& field : fields) known.emplace_back(field.key);

  std::vector<std::string> meant;  // by misspelt keys: not reported as missing as well
  for (const ConfigEntry& entry : map.node.entries) {
    if (std::ranges::find(known, entry.key) != known.end()) continue;
    map.errors.add(entry.mark.place(), unknown_name("key", entry.key, known));
    meant.push_back(nearest_name(entry.key, known));
  }
  for (const Field& field : fields) {
    if (const ConfigEntry* entry = map.node.find(field.key)) {
      field.codec.read({entry->value, entry->mark, map.below(field.key), map.errors});
    } else if (field.required && std::ranges::find(meant, field.key) == meant.end()) {
      missing_key(map, field.key, field.codec);
    }
  }
}

ConfigNode write_fields(const Fields& fields) {
  ConfigNode map;
  map.kind = ConfigNode::Kind::Map;
  for (const Field& field : fields) {
    ConfigNode value = field.codec.write();
    if (value.kind != ConfigNode::Kind::Nothing)
      map.entries.push_back({std::string(field.key), {}, std::move(value)});
  }
  return map;
}

Codec codec(std::string& value) {
  return {"text",
          [&value](const ConfigValue& node) {
            const std::string* text = scalar(node, "text");
            if (text == nullptr) return;
            if (text->empty()) node.fail("is empty");
            value = *text;
          },
          [&value] { return value.empty() ? ConfigNode{} : scalar_node(value); }};
}

Codec codec(bool& value) {
  return word_codec(
      {"false", "true"}, [&value](std::size_t i) { value = i == 1; },
      [&value]() -> std::size_t { return value ? 1 : 0; });
}

Codec codec(double& value, Limits limits) {
  return scalar_codec(value, "a number", limits, parse_number, exact_text);
}
Codec codec(int& value, Limits limits) {
  return integer_codec(value, limits, std::numeric_limits<int>::max());
}
Codec codec(std::int64_t& value, Limits limits) {
  return integer_codec(value, limits, LargestExact);
}
Codec codec(std::uint64_t& value, Limits limits) {
  return integer_codec(value, limits, LargestExact);
}

Codec codec(Seconds& value, Limits limits) {
  return scalar_codec(value, "a time such as \"5us\"", limits, parse_seconds,
                      exact_quantity<Seconds>(TimeUnits, parse_seconds));
}
Codec codec(Bytes& value, Limits limits) {
  return scalar_codec(value, "a size such as \"80GB\"", limits, parse_bytes,
                      exact_quantity<Bytes>(SizeUnits, parse_bytes));
}
Codec codec(BytesPerSecond& value, Limits limits) {
  return scalar_codec(value, "a bandwidth such as \"400Gbps\"", limits, parse_bytes_per_second,
                      exact_quantity<BytesPerSecond>(RateUnits, parse_bytes_per_second));
}
Codec codec(FlopPerSecond& value, Limits limits) {
  return scalar_codec(value, "a compute rate such as \"989TFLOPps\"", limits, parse_flop_per_second,
                      exact_quantity<FlopPerSecond>(FlopRateUnits, parse_flop_per_second));
}

Codec codec(Watts& value, Limits limits) {
  return scalar_codec(value, "a power such as \"700W\"", limits, parse_watts,
                      exact_quantity<Watts>(PowerUnits, parse_watts));
}

Codec word_codec(std::vector<std::string> words, std::function<void(std::size_t)> set,
                 std::function<std::size_t()> get) {
  const std::string expects =
      words.size() == 1 ? words.front() : fmt::format("one of {}", fmt::join(words, ", "));
  return {expects,
          [words, set, expects](const ConfigValue& value) {
            const std::string* text = scalar(value, expects);
            if (text == nullptr) return;
            const auto found = std::ranges::find(words, *text);
            if (found != words.end()) return set(static_cast<std::size_t>(found - words.begin()));
            const std::string near = nearest_name(*text, words);
            value.fail(fmt::format("\"{}\" is unknown; expected {}{}", *text, expects,
                                   near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
          },
          [words, get] { return scalar_node(words[get()]); }};
}

Codec block_codec(Fields fields) {
  return {"a block of keys", [fields](const ConfigValue& value) { read_fields(value, fields); },
          [fields] { return write_fields(fields); }};
}

std::vector<ConfigValue> list_items(const ConfigValue& value) {
  if (value.node.kind != ConfigNode::Kind::List) return {value};
  std::vector<ConfigValue> items;
  for (std::size_t i = 0; i < value.node.items.size(); ++i) {
    const ConfigNode& item = value.node.items[i];
    items.push_back({item, item.mark, fmt::format("{}[{}]", value.path, i), value.errors});
  }
  return items;
}

ConfigNode list_node(std::vector<ConfigNode> items) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::List;
  node.items = std::move(items);
  return node;
}

bool is_none(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::Scalar && node.text == "none";
}

}  // namespace syncline
