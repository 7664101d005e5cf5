#include "backends/execute/plan.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/core/error.hpp"
#include "sim/schedule/text.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* PlanFile = "plan.json";
constexpr const char* ScheduleFile = "schedule.txt";
constexpr std::array<std::string_view, 2> ComputeByNames{"time", "kernels"};

// Whole or not at all: whoever reads meanwhile finds the one before.
void write_file(const fs::path& path, const std::string& text) {
  const fs::path fresh = path.string() + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed;
  if (out) fs::rename(fresh, path, failed);
  if (!out || failed) throw EnvironmentError("cannot write " + path.string());
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(path.string(), "cannot open the file");
  return {std::istreambuf_iterator<char>(in), {}};
}

// Reads what `take` wants of a JSON file.
template <class Value>
Value read_json(const fs::path& path, const std::function<Value(const json&)>& take) {
  const std::string text = read_file(path);
  try {
    return take(json::parse(text));
  } catch (const json::exception& error) {
    refuse(path.string(), fmt::format("not a file that syncline wrote: {}", error.what()));
  }
}

json seconds_of(const std::vector<Seconds>& times) {
  json list = json::array();
  for (const Seconds time : times) list.push_back(time.si());
  return list;
}

std::vector<Seconds> seconds_in(const json& list) {
  std::vector<Seconds> times;
  for (const json& time : list) times.emplace_back(time.get<double>());
  return times;
}

}  // namespace

std::string_view name_of(ComputeBy value) {
  return ComputeByNames[static_cast<std::size_t>(value)];
}

void write_plan(const fs::path& folder, const ExecutionPlan& plan) {
  write_file(folder / ScheduleFile, schedule_text(plan.schedule));
  const json values{{"work_times_s", seconds_of(plan.work_times)},
                    {"compute", name_of(plan.compute)},
                    {"warmup", plan.warmup},
                    {"repeats", plan.repeats},
                    {"timeout_s", plan.timeout.si()}};
  write_file(folder / PlanFile, values.dump(1) + "\n");
}

ExecutionPlan read_plan(const fs::path& folder) {
  const fs::path schedule = folder / ScheduleFile;
  ExecutionPlan plan = read_json<ExecutionPlan>(folder / PlanFile, [](const json& values) {
    const bool kernels =
        values.at("compute").get<std::string>() == name_of(ComputeBy::Kernels);
    return ExecutionPlan{{},
                         seconds_in(values.at("work_times_s")),
                         kernels ? ComputeBy::Kernels : ComputeBy::PlannedTime,
                         values.at("warmup").get<int>(),
                         values.at("repeats").get<int>(),
                         Seconds(values.at("timeout_s").get<double>())};
  });
  plan.schedule = read_schedule(read_file(schedule), schedule.string());
  if (plan.work_times.size() != plan.schedule.works.size())
    refuse((folder / PlanFile).string(), fmt::format("has the times of {} works, the schedule has {}",
                                                     plan.work_times.size(), plan.schedule.works.size()));
  return plan;
}

void write_record(const fs::path& folder, const ExecutionRecord& record) {
  const json values{{"step_times_s", seconds_of(record.step_times)},
                    {"shown", record.shown},
                    {"clock_error_s", record.clock_error.si()}};
  write_file(folder / ExecutionFile, values.dump(1) + "\n");
}

ExecutionRecord read_record(const fs::path& folder) {
  return read_json<ExecutionRecord>(folder / ExecutionFile, [](const json& values) {
    return ExecutionRecord{seconds_in(values.at("step_times_s")), values.at("shown").get<int>(),
                           Seconds(values.at("clock_error_s").get<double>())};
  });
}

}  // namespace syncline
