#include "tools/expert_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/config/document.hpp"
#include "tools/options.hpp"

namespace syncline {
namespace {

using Json = nlohmann::ordered_json;

void count(calibrate::ExpertError& error, double off) {
  ++error.rows;
  error.mean += (std::abs(off) - error.mean) / error.rows;
  error.signed_mean += (off - error.signed_mean) / error.rows;
}

std::string name_of(DispatchOp op) {
  const Names<DispatchOp> names = dispatch_ops();
  return std::ranges::find(names, op, &std::pair<std::string, DispatchOp>::second)->first;
}

Json json_of(const calibrate::ExpertError& error) {
  return {{"rows", error.rows}, {"mean_absolute_error", error.mean}, {"mean_error", error.signed_mean}};
}

}  // namespace

calibrate::ExpertTable read_expert_table(const std::string& file, std::span<const ExpertLibrary> libraries) {
  return calibrate::read_expert_rows(CsvTable::parse(read_text_file(file, LargestTable), file), libraries);
}

ExpertErrors::ExpertErrors(const calibrate::ExpertTable& table, std::span<const ExpertLibrary> libraries,
                           const std::vector<std::optional<Seconds>>& predicted)
    : left_out_(table.left_out), rows_(static_cast<int>(table.rows.size())) {
  std::map<std::tuple<std::size_t, std::size_t, DispatchOp, bool>, Group> groups;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const calibrate::ExpertRow& row = table.rows[i];
    if (!predicted[i]) continue;
    const double off = *predicted[i] / row.measured - 1;
    Group& group = groups[{row.library, row.kernel, row.op, row.stands_in}];
    group.library = libraries[row.library].name;
    group.kernel = libraries[row.library].kernels[row.kernel].name;
    group.op = name_of(row.op);
    group.stands_in = row.stands_in;
    count(group.error, off);
    count(all_, off);
  }
  for (auto& [key, group] : groups) groups_.push_back(std::move(group));
}

void ExpertErrors::print() const {
  fmt::print("# {:<24}{:<13}{:<23}{:>6}{:>15}{:>13}\n", "library", "kernel", "operation", "rows",
             "mean |error|", "mean error");
  for (const Group& group : groups_)
    fmt::print("  {:<24}{:<13}{:<23}{:>6}{:>13.1f} %{:>+11.1f} %{}\n", group.library, group.kernel, group.op,
               group.error.rows, 100 * group.error.mean, 100 * group.error.signed_mean,
               group.stands_in ? "  another GPU's" : "");
  fmt::print("  {:<60}{:>6}{:>13.1f} %{:>+11.1f} %\n", "all", all_.rows, 100 * all_.mean,
             100 * all_.signed_mean);
  if (rows_ > all_.rows)
    fmt::print("# not predicted: {} rows: no figures of the operation\n", rows_ - all_.rows);
  for (const std::string& why : left_out_) fmt::print("# not predicted: {}\n", why);
}

Json ExpertErrors::groups_json() const {
  Json groups = Json::array();
  for (const Group& group : groups_) {
    Json one{{"library", group.library},
             {"kernel", group.kernel},
             {"op", group.op},
             {"stands_in", group.stands_in}};
    one.update(json_of(group.error));
    groups.push_back(std::move(one));
  }
  return groups;
}

Json ExpertErrors::all_json() const {
  return json_of(all_);
}

}  // namespace syncline
