// What falls on experts, what is sent to them and back, and what imbalance costs.
#include "sim/report/expert_balance.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/moe/counts_file.hpp"
#include "sim/report/summary.hpp"
#include "sim/report/text.hpp"
#include "tests/report/example_run.hpp"
#include "tests/support/small_schedules.hpp"
#include "tests/text.hpp"
#include "tests/training/jobs.hpp"

using namespace syncline;
using namespace syncline::literals;
using doctest::Approx;
using syncline::testing::ScheduleBuilder;
using syncline::testing::star;

namespace {

using syncline::test::contains;

/// One group of `ranks`, of one role.
class Exchanging {
 public:
  explicit Exchanging(int ranks) : builder_(ranks) {}
  Exchanging& work(Seconds time, const std::vector<double>& factors) {
    Schedule& schedule = builder_.schedule;
    schedule.loads.push_back({"load" + std::to_string(schedule.loads.size()), FamilyId(0), factors});
    last_ = builder_.compute(0, "compute", {time}, last());
    Op& op = schedule.roles[0].program.back();
    op.tag.name = "experts";
    op.load = LoadId(schedule.loads.size() - 1);
    return *this;
  }
  Exchanging& exchange(const std::string& tag, Bytes bytes,
                       std::optional<ExchangeId> exchange = std::nullopt) {
    Collective body{CollectiveKind::AllToAll, FamilyId(0), Algorithm::Direct, bytes};
    body.exchange = exchange;
    last_ = builder_.op(0, body, "tokens", last());
    builder_.schedule.roles[0].program.back().tag.name = tag;
    return *this;
  }
  [[nodiscard]] Schedule& schedule() { return builder_.schedule; }

 private:
  [[nodiscard]] std::vector<OpIndex> last() const {
    return last_ ? std::vector{*last_} : std::vector<OpIndex>();
  }
  ScheduleBuilder builder_;
  std::optional<OpIndex> last_;
};

/// Two groups of four, whose first and second member are the fullest in turn.
Schedule skewed() {
  Exchanging program(8);
  program.schedule().families = {GroupFamily::listed(
      "ep", 8, {{RankId(0), RankId(1), RankId(2), RankId(3)}, {RankId(4), RankId(5), RankId(6), RankId(7)}})};
  program.work(8_ms, {2.5, 0.5, 0.5, 0.5}).exchange("combine", 4_MB);
  program.work(4_ms, {0.5, 2.5, 0.5, 0.5}).exchange("combine", 4_MB);
  return program.schedule();
}

ExpertBalance balance_of(const Schedule& schedule, bool fold) {
  const Cluster cluster = star(8, 10_GBps, 0_us);
  RunOptions options;
  options.fold = fold;
  const RunResult result = make_simgrid_backend()->run(schedule, cluster, options);
  CHECK(result.player_of.empty() != fold);
  return expert_balance(result, schedule, cluster, std::nullopt).value();
}

/// Two layers of four experts, two on each of two ranks.
TrainingJob small_job(moe::Routing routing) {
  TrainingJob job = test::gpt(1, 1, 2, 2);
  job.model.layers = 3;
  job.model.experts = ExpertSpec{.count = 4, .top_k = 1, .ffn = 512, .dense_layers = 1};
  job.shape.experts.parallel = 2;
  job.routing.routing = std::move(routing);
  return job;
}

/// Both ranks send 5 of 8 copies to the first expert, in the model's layers alike.
moe::Routing measured() {
  std::string text = "layer,rank,expert,tokens\n";
  for (const char* rank : {"0", "1"})
    for (const auto& [expert, tokens] : {std::pair("0", "5"), {"1", "1"}, {"2", "1"}, {"3", "1"}})
      text += std::string("0,") + rank + "," + expert + "," + tokens + "\n";
  return moe::FromFile{"c.csv", std::make_shared<moe::MeasuredCounts>(moe::parse_counts(text, "c.csv"))};
}

RunSummary summary_of(const TrainingJob& job, bool timeline = true) {
  const Schedule schedule = training_schedule(job, test::device());
  const Cluster cluster = star(static_cast<int>(schedule.world_size()), 10_GBps, 1_us, test::device());
  RunOptions options;
  options.timeline = timeline;
  RunContext context;
  context.experts = expert_tokens(job);
  return summarise(make_simgrid_backend()->run(schedule, cluster, options), schedule, cluster, context);
}

}  // namespace

TEST_SUITE("balance of experts") {
  TEST_CASE("work and waiting of uneven ranks are those on paper, folded or not") {
    for (const bool fold : {false, true}) {
      CAPTURE(fold);
      const ExpertTimes times = balance_of(skewed(), fold).times.value();
      // Work of a group's ranks: 20 + 2, 4 + 10, 4 + 2, 4 + 2 ms. Waiting: 0 + 8, 16 + 0, 16 + 8, 16 + 8.
      CHECK(times.work.si() == Approx(12e-3));
      CHECK(times.longest_work.si() == Approx(22e-3));
      CHECK(times.longest_work_rank == RankId(0));
      CHECK(times.of_fullest.si() == Approx(30e-3));  // 20 + 10: each layer waits for its own fullest
      CHECK(times.wait.si() == Approx(18e-3));        // what is missing to that
      CHECK(times.longest_wait.si() == Approx(24e-3));
      CHECK(times.longest_wait_rank == RankId(2));
      // Twice 4 MB, 3/4 of them to others, at 10 GB/s.
      CHECK(times.transfer.si() == Approx(0.6e-3));
    }
  }

  TEST_CASE("a rank that stands for more others counts for more") {
    // Three alike and one that is slower, in each of two groups: 6, 6, 6 and 10 ms.
    Schedule schedule = skewed();
    schedule.loads[0].factors = {0.5, 0.5, 0.5, 1.0};
    schedule.loads[1].factors = {0.5, 0.5, 0.5, 0.5};
    const ExpertTimes times = balance_of(schedule, true).times.value();
    CHECK(times.work.si() == Approx(7e-3));
    CHECK(times.of_fullest.si() == Approx(10e-3));
    CHECK(times.wait.si() == Approx(3e-3));
    CHECK(times.longest_work_rank == RankId(3));
  }

  TEST_CASE("bytes inside and between nodes follow the counts") {
    // Each of four sends 5 copies to the first and one to each of the others: 8, of 1 MB. To others of the node: 1, 5, 1
    // and 1 of them; to the other node: 2, 2, 6 and 6.
    const Cluster cluster = test::example_run().cluster;  // two nodes of two
    Exchanging program(4);
    program.schedule().exchanges = {{"tokens", 4, {5, 1, 1, 1, 5, 1, 1, 1, 5, 1, 1, 1, 5, 1, 1, 1}}};
    program.exchange("dispatch", 8_MB, ExchangeId(0)).exchange("combine", 8_MB, ExchangeId(0));
    program.exchange("combine-gradient", 16_MB, ExchangeId(0)).exchange("dispatch-gradient", 8_MB);
    program.exchange("all-to-all-sequence", 99_MB);  // not of experts
    const ExpertBalance balance = expert_balance({}, program.schedule(), cluster, std::nullopt).value();
    CHECK(balance.to_experts.inside.si() == Approx(2e6 + 4e6));
    CHECK(balance.to_experts.between.si() == Approx(4e6 + 8e6));
    // Without an exchange each has a quarter for everybody: 2 MB inside, twice 2 between.
    CHECK(balance.back.inside.si() == Approx(2e6 + 2e6));
    CHECK(balance.back.between.si() == Approx(4e6 + 4e6));
    CHECK_FALSE(balance.times.has_value());
  }

  TEST_CASE("by two hops a token crosses to a node once, and is passed on inside") {
    const Cluster cluster = test::example_run().cluster;
    Exchanging program(4);
    // Each has 2 items for both ranks of each node: 8, of 1 MB; to a node they go as 2.
    program.schedule().exchanges = {{"tokens", 4, std::vector(16, 2.0), 2, std::vector(8, 2.0)}};
    program.exchange("dispatch", 8_MB, ExchangeId(0));
    std::get<Collective>(program.schedule().roles[0].program[0].body).algorithm = Algorithm::TwoHop;
    const ExpertBalance balance = expert_balance({}, program.schedule(), cluster, std::nullopt).value();
    CHECK(balance.to_experts.between.si() == Approx(2e6));
    CHECK(balance.to_experts.inside.si() == Approx(4e6));  // own 2, and 2 of the peer on the other node
  }

  TEST_CASE("imbalance of measured counts is the one on paper") {
    const ExpertTokens tokens = expert_tokens(small_job(measured())).value();
    REQUIRE(tokens.layers.size() == 2);
    CHECK(tokens.layers[0].number == 1);
    CHECK(tokens.layers[1].number == 2);
    // Of 16 copies 10, 2, 2 and 2; by rank 12 and 4.
    for (const auto& which : {tokens.imbalance.mean, tokens.imbalance.largest}) {
      CHECK(which.experts.max_over_mean == Approx(2.5));
      CHECK(which.ranks.max_over_mean == Approx(1.5));
      CHECK(which.nodes.max_over_mean == 1);
    }
    CHECK(tokens.dropped == 0);
    CHECK(tokens.routing == "counts of c.csv");
  }

  TEST_CASE("a capacity drops and pads") {
    TrainingJob job = small_job(measured());
    job.shape.experts.capacity = 1;  // 2 of 8 each
    CHECK(expert_tokens(job)->dropped == Approx(3.0 / 8));
    CHECK(expert_tokens(job)->padding == 0);
    job.shape.experts.pad = true;
    CHECK(expert_tokens(job)->padding == Approx(3.0 / 8));
    CHECK(expert_tokens(job)->imbalance.mean.experts.max_over_mean == 1);
  }

  TEST_CASE("balanced by force: everything is 1, nobody waits, and nothing is said to take longer") {
    const RunSummary run = summary_of(small_job(moe::Balanced{}));
    REQUIRE(run.experts.has_value());
    CHECK(run.experts->tokens->imbalance.largest.experts == moe::Imbalance{});
    CHECK(metric_value(run, "expert-imbalance") == 1.0);
    CHECK(metric_value(run, "expert-wait").value() == Approx(0).epsilon(1e-12));
    CHECK(run.experts->times->of_fullest.si() == Approx(run.experts->times->work.si()));
    CHECK(run.experts->times->work > 0_s);
    const std::string table = summary_table(run);
    CHECK(contains(table, "\nExperts: a token goes to 1 of 4, shared by 2 ranks; routing: balanced\n"));
    CHECK_FALSE(contains(table, "uneven tokens"));
  }

  TEST_CASE("skewed: as many bytes as with balance, a longer step, and the report says why") {
    const RunSummary even = summary_of(small_job(moe::Balanced{})), run = summary_of(small_job(measured()));
    CHECK(run.step_time > even.step_time);
    CHECK(metric_value(run, "expert-imbalance").value() == Approx(1.5));
    CHECK(metric_value(run, "expert-imbalance-max").value() == Approx(1.5));
    CHECK(metric_value(run, "expert-wait").value() > 0);
    const ExpertTimes& times = *run.experts->times;
    // All that the fullest ranks work longer is waited for, but for gradients of weights after the last exchange.
    CHECK(times.wait < 1.01 * (times.of_fullest - times.work));
    CHECK(times.wait > 0.7 * (times.of_fullest - times.work));
    const std::string table = summary_table(run);
    CHECK(contains(table, "a layer's fullest rank gets 75.0 % of its group's, not 50.0 %;"));
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(width(line) <= 100, line);

    const auto json = nlohmann::json::parse(summary_json(run))["experts"];
    CHECK(json["imbalance_mean"]["ranks"].get<double>() == Approx(1.5));
    CHECK(json["layers"].size() == 2);
    CHECK(json["wait_s"].get<double>() == Approx(times.wait.si()));
    CHECK(json["work_of_fullest_s"].get<double>() > json["work_s"].get<double>());
    CHECK(json["to_experts_inside_nodes_bytes"] == 0);
    CHECK(json["to_experts_between_nodes_bytes"].get<double>() > 0);
  }

  TEST_CASE("what is dropped is in the model's FLOP all the same, and an MFU above 1 says so") {
    TrainingJob job = small_job(measured());
    job.shape.experts.capacity = 1;
    RunSummary run = summary_of(job);
    CHECK(
        contains(summary_table(run), "37.5 % of the copies of tokens, which model FLOP count all the same"));
    CHECK(contains(summary_table(run), "  as run "));
    CHECK(metric_value(run, "expert-dropped").value() == Approx(3.0 / 8));
    CHECK(metric_value(run, "expert-work").value() == Approx(run.experts->times->work.si()));
    CHECK(metric_value(run, "expert-transfer").value() == Approx(run.experts->times->transfer.si()));
    CHECK(metric_value(run, "expert-between-nodes").value() ==
          Approx((run.experts->to_experts.between + run.experts->back.between).si()));

    Schedule schedule = training_schedule(job, test::device());
    schedule.job.model_flop = schedule.job.model_flop * 1e6;
    const Cluster cluster = star(static_cast<int>(schedule.world_size()), 10_GBps, 1_us, test::device());
    RunContext context;
    context.experts = expert_tokens(job);
    run = summarise(make_simgrid_backend()->run(schedule, cluster, {}), schedule, cluster, context);
    REQUIRE(run.warnings.size() == 1);
    CHECK(contains(run.warnings[0], "it counts the copies of tokens that were dropped, too (37.5 %)"));
  }

  TEST_CASE("exchanges of ranks that share each expert are said not to be counted") {
    TrainingJob job = small_job(moe::Balanced{});
    job.shape.experts.parallel = 1;
    job.shape.experts.tensor = 2;
    const std::string table = summary_table(summary_of(job));
    CHECK(contains(
        table, "Experts: a token goes to 1 of 4, all on every rank, each cut for 2; routing: balanced\n"));
    CHECK(contains(table, "exchanges of the 2 ranks that share each expert"));
    CHECK_FALSE(contains(summary_table(summary_of(small_job(moe::Balanced{}))), "not counted"));
  }

  TEST_CASE("without a timeline times are unknown, tokens and bytes are not") {
    const RunSummary run = summary_of(small_job(measured()), false);
    CHECK_FALSE(metric_value(run, "expert-wait").has_value());
    CHECK(metric_value(run, "expert-imbalance").value() == Approx(1.5));
    CHECK(contains(summary_table(run), "unknown without a timeline"));
    CHECK(nlohmann::json::parse(summary_json(run))["experts"]["wait_s"].is_null());
  }

  TEST_CASE("a model without experts has none to tell of") {
    const RunSummary run = test::example_run().summary();
    CHECK_FALSE(run.experts.has_value());
    CHECK_FALSE(contains(summary_table(run), "Experts"));
    CHECK(nlohmann::json::parse(summary_json(run))["experts"].is_null());
    CHECK_FALSE(expert_tokens(test::gpt(1, 1, 2, 2)).has_value());
  }
}
