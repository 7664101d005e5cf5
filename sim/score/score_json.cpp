#include "sim/score/score_json.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace syncline::score {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> number_of(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// Every field of a row: key and member.
struct Text {
  const char* key;
  std::string RowResult::*member;
};
constexpr Text Texts[] = {{"table", &RowResult::table},
                          {"id", &RowResult::id},
                          {"source", &RowResult::source},
                          {"gpu", &RowResult::gpu},
                          {"family", &RowResult::family},
                          {"precision", &RowResult::precision},
                          {"job", &RowResult::job},
                          {"plan", &RowResult::plan},
                          {"measured_from", &RowResult::measured_from},
                          {"memory_run", &RowResult::memory_run},
                          {"scenario_hash", &RowResult::scenario_hash},
                          {"refusal", &RowResult::refusal}};
struct Number {
  const char* key;
  std::optional<double> RowResult::*member;
};
constexpr Number Numbers[] = {{"measured_step_time_s", &RowResult::measured_s},
                              {"predicted_step_time_s", &RowResult::predicted_s},
                              {"measured_memory_bytes", &RowResult::measured_memory_bytes},
                              {"predicted_memory_bytes", &RowResult::predicted_memory_bytes}};
struct Flag {
  const char* key;
  bool RowResult::*member;
};
constexpr Flag Flags[] = {
    {"dense", &RowResult::dense}, {"out_of_memory", &RowResult::out_of_memory}, {"bug", &RowResult::our_bug}};

Json fields_of(const RowResult& row) {
  Json json;
  for (const Text& text : Texts) json[text.key] = row.*text.member;
  for (const Number& number : Numbers) json[number.key] = json_of(row.*number.member);
  for (const Flag& flag : Flags) json[flag.key] = row.*flag.member;
  json["assumptions"] = row.assumptions;
  return json;
}

/// For readers: with the errors, without what only orders pairs.
Json shown(const RowResult& row) {
  Json json = fields_of(row);
  json.erase("job");
  json.erase("plan");
  json["error"] = json_of(row.error());
  json["memory_error"] = json_of(row.memory_error());
  return json;
}

Json json_of(const GroupScore& group, const char* name_key) {
  const bool timed = group.time.count > 0, memory = group.memory.count > 0;
  Json json;
  json[name_key] = group.name;
  json["rows"] = group.rows;
  json["predicted"] = group.predicted;
  json["coverage"] = group.coverage();
  json["dense_rows"] = group.dense_rows;
  json["dense_coverage"] = json_of(group.dense_coverage());
  json["mean_absolute_error"] = timed ? Json(group.time.mean_absolute) : Json(nullptr);
  json["mean_signed_error"] = timed ? Json(group.time.mean_signed) : Json(nullptr);
  json["max_absolute_error"] = timed ? Json(group.time.max_absolute) : Json(nullptr);
  json["worst_row"] = group.time.worst;
  json["memory_rows"] = group.memory.count;
  json["memory_mean_absolute_error"] = memory ? Json(group.memory.mean_absolute) : Json(nullptr);
  json["memory_mean_signed_error"] = memory ? Json(group.memory.mean_signed) : Json(nullptr);
  json["memory_max_absolute_error"] = memory ? Json(group.memory.max_absolute) : Json(nullptr);
  json["pairs"] = group.order.pairs;
  json["pair_order_accuracy"] = json_of(group.order.accuracy());
  return json;
}

Json json_of(const std::vector<GroupScore>& groups) {
  Json list = Json::array();
  for (const GroupScore& group : groups) list.push_back(json_of(group, "group"));
  return list;
}

}  // namespace

std::string score_json(const Score& score, std::span<const RowResult> rows, std::string_view version) {
  Json json;
  json["schema"] = 1;
  json["version"] = version;
  json["pairs_differ_by_more_than"] = PairsDiffer;
  json["tables"] = Json::array();
  for (const TableScore& table : score.tables) {
    Json entry = json_of(table.whole, "table");
    entry["by_source"] = json_of(table.by_source);
    entry["by_gpu"] = json_of(table.by_gpu);
    entry["by_family"] = json_of(table.by_family);
    entry["by_precision"] = json_of(table.by_precision);
    json["tables"].push_back(std::move(entry));
  }
  json["all"] = json_of(score.all, "table");
  json["rows"] = Json::array();
  for (const RowResult& row : rows) json["rows"].push_back(shown(row));
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string row_line(const RowResult& row) {
  return fields_of(row).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

RowResult row_of_line(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    RowResult row;
    for (const Text& text : Texts) json.at(text.key).get_to(row.*text.member);
    for (const Number& number : Numbers) row.*number.member = number_of(json.at(number.key));
    for (const Flag& flag : Flags) json.at(flag.key).get_to(row.*flag.member);
    json.at("assumptions").get_to(row.assumptions);
    return row;
  } catch (const Json::exception& error) {
    throw std::logic_error(std::string("a worker's line cannot be read: ") + error.what());
  }
}

}  // namespace syncline::score
