#include "tools/sweep_point.hpp"

#include <fmt/format.h>

#include <new>
#include <stdexcept>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/report/summary.hpp"
#include "tools/network_prices.hpp"
#include "tools/question.hpp"

namespace syncline {
namespace {

void check_physics_holds(const RunSummary& summary) {
  for (const Check& check : summary.checks)
    SYNCLINE_CHECK(check.violation.empty(),
                   "the result breaks a physics check: " + check.name + ": " + check.violation);
}

RunSummary simulate(const Question& question, const sweep::Sweep& sweep) {
  RunOptions options;
  options.detail = question.scenario->detail == "full" ? Detail::Full : Detail::Aggregate;
  options.fold = question.scenario->fold;
  options.timeline = sweep::needs(sweep, MetricOf::Spans);
  const RunResult result = make_simgrid_backend()->run(question.schedule, question.cluster, options);
  RunContext context;
  if (sweep::needs(sweep, MetricOf::NetworkParts)) add_network_cost(context, question);
  if (sweep::needs(sweep, MetricOf::Routing) && question.scenario->is_training())
    context.experts = expert_tokens(question.scenario->job);
  RunSummary summary = summarise(result, question.schedule, question.cluster, context);
  check_physics_holds(summary);
  return summary;
}

}  // namespace

sweep::Row run_point(const sweep::Sweep& sweep, const ScenarioDocument& scenario, std::size_t point) {
  try {
    const Question question = question_of(scenario.scenario(sweep::settings_of(sweep, point)));
    return sweep::row_of_run(sweep, point, simulate(question, sweep));
  } catch (const InputError& error) {
    return sweep::failed_row(sweep, point, sweep::in_one_line(error));
  } catch (const EnvironmentError& error) {
    return sweep::failed_row(sweep, point, error.what());
  } catch (const std::invalid_argument& error) {  // of the backend: the cluster lacks something
    return sweep::failed_row(sweep, point, error.what());
  } catch (const std::bad_alloc&) {
    return sweep::failed_row(sweep, point, "does not fit in this machine's memory");
  } catch (const std::exception& error) {
    return sweep::failed_row(sweep, point, fmt::format("a bug in syncline: {}", error.what()));
  }
}

}  // namespace syncline
