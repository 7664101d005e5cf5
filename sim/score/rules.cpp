#include "sim/score/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <stdexcept>

#include "sim/config/document.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/score/expression.hpp"

namespace syncline::score {
namespace {

constexpr std::array<std::string_view, 6> Signs{">=", "<=", "!=", ">", "<", "="};
constexpr std::string_view EndsFunction = "one_less_at_ends(", ListFunction = "listed(";

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

bool is_column(const std::string& name) {
  static const std::vector<std::string> columns = row_columns();
  return std::ranges::find(columns, name) != columns.end();
}

/// @throws std::invalid_argument on a sum that cannot be read, or a column that is none
void check_sum(const std::string& sum) {
  static_cast<void>(evaluate(sum, [](std::string_view name) -> std::optional<double> {
    if (!is_column(std::string(name)))
      throw std::invalid_argument(unknown_name("column", name, row_columns()));
    return 1;
  }));
}

Condition condition_of(const std::string& left, const std::string& text) {
  Condition condition;
  condition.left = left;
  const auto* sign = std::ranges::find_if(Signs, [&](std::string_view s) { return text.starts_with(s); });
  if (sign != Signs.end()) {
    condition.kind = Condition::Kind::Compares;
    condition.sign = *sign;
    condition.right = trimmed(std::string_view(text).substr(sign->size()));
    check_sum(condition.left);
    check_sum(condition.right);
    return condition;
  }
  if (!is_column(left)) throw std::invalid_argument(unknown_name("column", left, row_columns()));
  if (text == "blank") return condition.kind = Condition::Kind::Blank, condition;
  if (text == "given") return condition.kind = Condition::Kind::Given, condition;
  const bool negated = text.starts_with("not ");
  condition.kind = negated ? Condition::Kind::MatchesNot : Condition::Kind::Matches;
  condition.pattern = std::regex(negated ? text.substr(4) : text, std::regex::icase | std::regex::optimize);
  return condition;
}

/// The two sums between the parentheses.
std::pair<std::string, std::string> arguments_of(const std::string& call) {
  const std::string inside = call.substr(EndsFunction.size(), call.size() - EndsFunction.size() - 1);
  const std::size_t comma = inside.find(',');
  if (!call.ends_with(')') || comma == std::string::npos)
    throw std::invalid_argument(fmt::format("expected {}layers, stages)", EndsFunction));
  return {trimmed(inside.substr(0, comma)), trimmed(inside.substr(comma + 1))};
}

std::string listed_column(const std::string& call) {
  const std::string column = trimmed(call.substr(ListFunction.size(), call.size() - ListFunction.size() - 1));
  if (!is_column(column)) throw std::invalid_argument(unknown_name("column", column, row_columns()));
  return column;
}

void check_value(const std::string& value) {
  if (!value.starts_with('=')) return;
  const std::string sum = trimmed(std::string_view(value).substr(1));
  if (sum.starts_with(ListFunction)) return static_cast<void>(listed_column(sum));
  if (!sum.starts_with(EndsFunction)) return check_sum(sum);
  const auto [layers, stages] = arguments_of(sum);
  check_sum(layers);
  check_sum(stages);
}

/// Reads one rule of the list; adds what is wrong to the errors.
class RuleReader {
 public:
  RuleReader(const ConfigNode& node, ConfigErrors& errors) : node_(node), errors_(errors) {}

  Rule rule() {
    Rule rule;
    if (node_.kind != ConfigNode::Kind::Map)
      return fail(node_.mark, "expected a rule: a map with \"rule\", its name"), rule;
    for (const ConfigEntry& entry : node_.entries) read(entry, rule);
    if (rule.name.empty()) fail(node_.mark, "lacks \"rule\", its name");
    if (rule.because.empty() && !rule.stated && rule.refuse.empty())
      fail(node_.mark,
           "lacks \"because\": why it may be assumed; or \"stated: true\" where the row says so itself");
    return rule;
  }

 private:
  void read(const ConfigEntry& entry, Rule& rule) {
    struct Text {
      std::string_view key;
      std::string* into;
    };
    struct List {
      std::string_view key;
      std::vector<Assignment>* into;
      bool columns;
    };
    for (const Text& text :
         {Text{"rule", &rule.name}, Text{"refuse", &rule.refuse}, Text{"because", &rule.because}})
      if (entry.key == text.key) return void(*text.into = text_of(entry));
    for (const List& list :
         {List{"fill", &rule.fill, true}, List{"read", &rule.read, true}, List{"set", &rule.set, false}})
      if (entry.key == list.key) return assignments(entry, *list.into, list.columns);
    if (entry.key == "when") return conditions(entry, rule.when);
    if (entry.key == "stated") return void(rule.stated = text_of(entry) == "true");
    fail(entry.mark, unknown_name("key", entry.key,
                                  {"rule", "when", "fill", "read", "set", "refuse", "because", "stated"}));
  }

  void conditions(const ConfigEntry& entry, std::vector<Condition>& into) {
    for (const ConfigEntry& part : map_of(entry))
      guarded(part.mark, [&] { into.push_back(condition_of(part.key, text_of(part))); });
  }

  void assignments(const ConfigEntry& entry, std::vector<Assignment>& into, bool columns) {
    for (const ConfigEntry& part : map_of(entry))
      guarded(part.mark, [&] {
        if (columns && !is_column(part.key))
          throw std::invalid_argument(unknown_name("column", part.key, row_columns()));
        into.push_back({part.key, text_of(part)});
        check_value(into.back().value);
      });
  }

  template <class Read>
  void guarded(const ConfigMark& mark, const Read& part) {
    try {
      part();
    } catch (const std::regex_error& error) {
      fail(mark, fmt::format("is no regular expression: {}", error.what()));
    } catch (const std::invalid_argument& error) {
      fail(mark, error.what());
    }
  }

  const std::vector<ConfigEntry>& map_of(const ConfigEntry& entry) {
    if (entry.value.kind != ConfigNode::Kind::Map)
      fail(entry.mark, fmt::format("\"{}\": expected a map", entry.key));
    return entry.value.entries;
  }

  std::string text_of(const ConfigEntry& entry) {
    if (entry.value.kind == ConfigNode::Kind::Scalar) return entry.value.text;
    fail(entry.mark, fmt::format("\"{}\": expected a text", entry.key));
    return "";
  }

  void fail(const ConfigMark& mark, std::string message) { errors_.add(mark.place(), std::move(message)); }

  const ConfigNode& node_;
  ConfigErrors& errors_;
};

std::optional<double> sum_of(const std::string& sum, const TrainingRow& row) {
  return evaluate(sum, [&row](std::string_view name) { return row.number(name); });
}

bool compares(double left, const std::string& sign, double right) {
  if (sign == ">") return left > right;
  if (sign == "<") return left < right;
  if (sign == ">=") return left >= right;
  if (sign == "<=") return left <= right;
  return (left == right) == (sign == "=");
}

/// Equal numbers of layers, but one less on the first and on the last stage, which hold embedding and head.
std::optional<std::string> one_less_at_ends(std::optional<double> layers, std::optional<double> stages) {
  if (!layers || !stages || *stages < 2) return std::nullopt;
  const double each = (*layers + 2) / *stages;
  if (each != std::floor(each) || each < 1) return std::nullopt;
  std::string list;
  for (int stage = 0; stage < *stages; ++stage)
    list +=
        fmt::format("{}{}", stage == 0 ? "[" : ", ", stage == 0 || stage == *stages - 1 ? each - 1 : each);
  return list + "]";
}

/// Numbers at the beginning of a text, `6;9;9;8` or `4x4x8 (3D torus)`, as a list; nothing where there is no number.
std::optional<std::string> list_in(const std::string& text) {
  std::string list;
  for (std::size_t at = 0; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    list += fmt::format("{}{}", list.empty() ? "" : ", ", text.substr(at, end - at));
    at = end + 1;
  }
  return list.empty() ? std::nullopt : std::optional("[" + list + "]");
}

/// Nothing where a column that it needs is blank.
std::optional<std::string> value_of(const std::string& text, const TrainingRow& row) {
  if (!text.starts_with('=')) return text;
  const std::string sum = trimmed(std::string_view(text).substr(1));
  if (sum.starts_with(ListFunction)) {
    return list_in(row.text(listed_column(sum)));
  }
  if (sum.starts_with(EndsFunction)) {
    const auto [layers, stages] = arguments_of(sum);
    return one_less_at_ends(sum_of(layers, row), sum_of(stages, row));
  }
  const std::optional<double> value = sum_of(sum, row);
  return value ? std::optional(exact_text(*value)) : std::nullopt;
}

void put_setting(std::vector<Setting>& settings, Setting setting) {
  std::erase_if(settings, [&](const Setting& other) { return other.path == setting.path; });
  settings.push_back(std::move(setting));
}

/// Whether anything came of it.
bool apply(const Rule& rule, Reading& reading) {
  bool used = false;
  for (const Assignment& item : rule.read)
    if (const auto value = value_of(item.value, reading.row))
      reading.row.put(item.target, *value), used = true;
  for (const Assignment& item : rule.fill)
    if (reading.row.blank(item.target))
      if (const auto value = value_of(item.value, reading.row))
        reading.row.put(item.target, *value), used = true;
  reading.row.complete();
  for (const Assignment& item : rule.set)
    if (const auto value = value_of(item.value, reading.row))
      put_setting(reading.settings, {item.target, *value, &rule}), used = true;
  return used;
}

}  // namespace

bool Condition::holds(const TrainingRow& row) const {
  switch (kind) {
    case Kind::Blank: return row.blank(left);
    case Kind::Given: return !row.blank(left);
    case Kind::Matches: return std::regex_search(row.text(left), pattern);
    case Kind::MatchesNot: return !std::regex_search(row.text(left), pattern);
    case Kind::Compares: break;
  }
  const std::optional<double> a = sum_of(left, row), b = sum_of(right, row);
  return a && b && compares(*a, sign, *b);
}

std::vector<Rule> read_rules(const std::string& file) {
  ConfigErrors errors;
  const ConfigNode root = read_yaml_file(file, errors);
  std::vector<Rule> rules;
  const ConfigEntry* list = root.find("rules");
  if (list == nullptr || list->value.kind != ConfigNode::Kind::List)
    errors.add({file, 0, 0, ""}, "lacks \"rules\": a list of rules");
  else
    for (const ConfigNode& node : list->value.items) rules.push_back(RuleReader(node, errors).rule());
  errors.throw_if_any();
  return rules;
}

Reading read_row(TrainingRow row, const std::vector<Rule>& rules) {
  Reading reading{std::move(row), {}, {}, ""};
  reading.row.complete();
  for (const Rule& rule : rules) {
    if (!std::ranges::all_of(rule.when, [&](const Condition& c) { return c.holds(reading.row); })) continue;
    if (!rule.refuse.empty()) {
      reading.refusal = rule.refuse;
      reading.used.push_back(&rule);
      break;
    }
    if (apply(rule, reading)) reading.used.push_back(&rule);
  }
  return reading;
}

}  // namespace syncline::score
