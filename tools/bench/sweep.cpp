// How many points of a sweep are simulated a second and core, and where their time goes.
// usage: bench-sweep SCENARIO.yaml [points]     (default 200; the network's latency differs from point to
// point)
#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <string>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/config/scenario_document.hpp"
#include "sim/report/summary.hpp"
#include "tools/question.hpp"

namespace {

using namespace syncline;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Setting latency(int point) {
  ConfigErrors errors;
  Setting setting = setting_of({"topology.scale-out.link.latency", fmt::format("{}ns", 500 + point)}, errors);
  errors.throw_if_any();
  return setting;
}

constexpr std::array<const char*, 4> Parts{"read", "schedule and cluster", "run", "summary"};

/// Adds the seconds of each part.
void simulate(const ScenarioDocument& document, int point, bool timeline,
              std::array<double, Parts.size()>& spent) {
  std::size_t part = 0;
  double begin = cpu_seconds();
  const auto lap = [&] {
    const double now = cpu_seconds();
    spent[part++] += now - begin;
    begin = now;
  };
  Scenario scenario = document.scenario(std::array{latency(point)});
  lap();
  const Question question = question_of(std::move(scenario));
  lap();
  RunOptions options;
  options.timeline = timeline;
  const RunResult result = make_simgrid_backend()->run(question.schedule, question.cluster, options);
  lap();
  static_cast<void>(summarise(result, question.schedule, question.cluster, {}));
  lap();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: bench-sweep SCENARIO.yaml [points]\n"), 2;
  const int points = argc > 2 ? std::atoi(argv[2]) : 200;
  const ScenarioDocument document(read_text_file(argv[1]), argv[1]);
  for (const bool timeline : {false, true}) {
    std::array<double, Parts.size()> spent{};
    for (int point = 0; point < points; ++point) simulate(document, point, timeline, spent);
    double all = 0;
    for (const double seconds : spent) all += seconds;
    fmt::print("{} timeline: {:.0f} points a second;", timeline ? "with" : "without", points / all);
    for (std::size_t i = 0; i < Parts.size(); ++i)
      fmt::print(" {} {:.2f} ms,", Parts[i], 1e3 * spent[i] / points);
    fmt::print(" each {:.2f} ms\n", 1e3 * all / points);
  }
}
