#include "sim/pipeline/torch_csv.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "sim/pipeline/replay.hpp"
#include "tests/pipeline/published.hpp"

using namespace syncline;
using namespace syncline::pipeline;
using namespace syncline::pipeline::testing;

namespace {

constexpr CsvTransfers BothTransfers[] = {CsvTransfers::Posted, CsvTransfers::Rendezvous};

/// The errors of a text, one a line: "2:5 message"; empty when it is read.
std::string errors_of(const std::string& text) {
  try {
    (void)read_torch_csv(text, "s.csv");
    return "";
  } catch (const InputError& error) {
    std::string found;
    for (const Diagnostic& d : error.diagnostics())
      found += fmt::format("{}{}:{} {}", found.empty() ? "" : "\n", d.place.line, d.place.column, d.message);
    return found;
  }
}

/// The same of what keeps a schedule from running.
std::string stops(const TorchCsv& csv, CsvTransfers transfers) {
  std::string found;
  for (const Diagnostic& d : check_communication(csv, transfers))
    found += fmt::format("{}{}:{} {}", found.empty() ? "" : "\n", d.place.line, d.place.column, d.message);
  return found;
}

TorchCsv lowered(const Order& order, CsvReceives receives = CsvReceives::AtSend,
                 CsvNotation notation = CsvNotation::New) {
  return to_torch_csv(order, CsvForm::ComputeComms, notation, {receives, 3, true});
}

/// The text without one cell, and with that cell twice.
std::vector<std::string> without_and_twice(const TorchCsv& csv, std::size_t rank, std::size_t cell) {
  TorchCsv without = csv, twice = csv;
  const auto at = static_cast<std::ptrdiff_t>(cell);
  without.rows[rank].erase(without.rows[rank].begin() + at);
  twice.rows[rank].insert(twice.rows[rank].begin() + at, csv.rows[rank][cell]);
  return {write_torch_csv(without), write_torch_csv(twice)};
}

}  // namespace

TEST_SUITE("PyTorch's CSV: as PyTorch writes it") {
  TEST_CASE(
      "both forms of PyTorch's files are read, hold the same order, and are written back byte for byte") {
    int files = 0;
    for (const Published& data : all_published())
      for (const PublishedTorchCsv& published : data.torch_csvs) {
        CAPTURE(published.id);
        const TorchCsv only = read_torch_csv(published.compute_only, "only.csv");
        const TorchCsv comms = read_torch_csv(published.compute_comms, "comms.csv");
        CHECK(only.form == CsvForm::ComputeOnly);
        CHECK(comms.form == CsvForm::ComputeComms);
        CHECK(only.notation == CsvNotation::New);
        CHECK(comms.notation == CsvNotation::New);
        CHECK(comms.told_by != "");  // REDUCE_GRAD at the least
        CHECK(only.order == comms.order);
        CHECK(only.order.ranks.size() == static_cast<std::size_t>(published.p));
        CHECK(only.order.stages == published.p * published.v);
        CHECK(only.order.microbatches == published.m);
        CHECK(write_torch_csv(only) == published.compute_only);
        CHECK(write_torch_csv(comms) == published.compute_comms);
        ++files;
      }
    CHECK(files >= 7);
  }

  TEST_CASE("lowering gives PyTorch's own completed schedule, to the last cell") {
    // Of all seven, stages are below 8, where the order of the last RESHARDs is PyTorch's too.
    for (const Published& data : all_published())
      for (const PublishedTorchCsv& published : data.torch_csvs) {
        CAPTURE(published.id);
        const Order order = read_torch_csv(published.compute_only, "only.csv").order;
        CHECK(write_torch_csv(lowered(order)) == published.compute_comms);
      }
  }

  TEST_CASE("PyTorch's completed schedules run whether sends wait or not, and no message crosses another") {
    for (const Published& data : all_published())
      for (const PublishedTorchCsv& published : data.torch_csvs)
        for (const CsvTransfers transfers : BothTransfers) {
          CAPTURE(published.id);
          CHECK(stops(read_torch_csv(published.compute_comms, "comms.csv"), transfers) == "");
          CHECK(stops(read_torch_csv(published.compute_only, "only.csv"), transfers) == "");
        }
  }

  TEST_CASE("receives before their use stand as in PyTorch's pull request 172833") {
    // Interleaved 1F1B, p = 2, m = 4, v = 2: the output shown in the description of the pull request.
    const Order order = parse_order(
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3\n"
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3\n",
        "order");
    CHECK(
        write_torch_csv(lowered(order, CsvReceives::AtUse)) ==
        "0UNSHARD,2UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,0F2,0SEND_"
        "F2,"
        "2RECV_B0,2B0,2SEND_B0,0F3,0SEND_F3,2RECV_B1,2B1,2SEND_B1,2RECV_F2,2F2,2SEND_F2,0RECV_B0,0B0,2RECV_"
        "F3,2F3,"
        "2SEND_F3,0RECV_B1,0B1,2RECV_B2,2B2,2SEND_B2,2RECV_B3,2B3,2SEND_B3,2REDUCE_GRAD,2RESHARD,0RECV_B2,"
        "0B2,"
        "0RECV_B3,0B3,0REDUCE_GRAD,0RESHARD\n"
        "1UNSHARD,3UNSHARD,1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,"
        "3F1,3B1,"
        "3SEND_B1,1RECV_F2,1F2,1SEND_F2,1RECV_B0,1B0,1SEND_B0,1RECV_F3,1F3,1SEND_F3,1RECV_B1,1B1,1SEND_B1,"
        "3RECV_F2,"
        "3F2,3B2,3SEND_B2,3RECV_F3,3F3,3B3,3SEND_B3,3REDUCE_GRAD,3RESHARD,1RECV_B2,1B2,1SEND_B2,1RECV_B3,1B3,"
        "1SEND_B3,1REDUCE_GRAD,1RESHARD\n");
  }
}

TEST_SUITE("PyTorch's CSV: every published order") {
  TEST_CASE("every order is read back from either form, placement and notation, and runs") {
    int schedules = 0;
    const std::optional<Published> data = load_published(compact_folder());
    REQUIRE(data);
    for (const PublishedOrder& published : data->orders) {
      CAPTURE(published.id);
      const Order& order = published.order;
      bool fused = false;
      for (const RankOrder& rank : order.ranks)
        for (const Block& block : rank) fused = fused || block.fused;
      for (const CsvNotation notation : {CsvNotation::Old, CsvNotation::New}) {
        if (fused && notation == CsvNotation::Old) continue;
        const TorchCsv written[] = {to_torch_csv(order, CsvForm::ComputeOnly, notation),
                                    lowered(order, CsvReceives::AtSend, notation),
                                    lowered(order, CsvReceives::AtUse, notation)};
        for (const TorchCsv& csv : written) {
          const TorchCsv read = read_torch_csv(write_torch_csv(csv), "x");
          CHECK(read.order == order);
          CHECK(read.rows == csv.rows);
          CHECK(read.form == csv.form);
          CHECK(read.notation == notation);
          CHECK(read.told_by == csv.told_by);
          CHECK(read.lines == csv.lines);
          for (std::size_t rank = 0; rank < read.rows.size(); ++rank)
            for (std::size_t i = 0; i < read.rows[rank].size(); ++i)
              CHECK(read.rows[rank][i].column == csv.rows[rank][i].column);
          ++schedules;
        }
        CHECK(stops(written[0], CsvTransfers::Rendezvous) == "");
        CHECK(stops(written[1], CsvTransfers::Posted) == "");
        CHECK(stops(written[1], CsvTransfers::Rendezvous) == "");
        CHECK(stops(written[2], CsvTransfers::Posted).find("deadlock") == std::string::npos);
      }
    }
    CHECK(schedules > 300);
  }

  TEST_CASE("a completed schedule sends what crosses ranks, once, and gathers no more stages than it may") {
    const std::optional<Published> data = load_published(compact_folder());
    REQUIRE(data);
    for (const PublishedOrder& published : data->orders) {
      CAPTURE(published.id);
      const TorchCsv csv = lowered(published.order);
      std::vector<int> rank_of(static_cast<std::size_t>(csv.order.stages));
      int sends = 0, receives = 0, reductions = 0;
      for (std::size_t rank = 0; rank < csv.rows.size(); ++rank) {
        int gathered = 0;
        for (const CsvCell& cell : csv.rows[rank]) {
          if (cell.computes()) rank_of[static_cast<std::size_t>(cell.stage)] = static_cast<int>(rank);
          sends += cell.kind == CsvKind::SendForward || cell.kind == CsvKind::SendBackward;
          receives += cell.kind == CsvKind::ReceiveForward || cell.kind == CsvKind::ReceiveBackward;
          reductions += cell.kind == CsvKind::ReduceGrad;
          gathered += (cell.kind == CsvKind::Unshard) - (cell.kind == CsvKind::Reshard);
          CHECK(gathered <= 3);
        }
        CHECK(gathered == 0);
      }
      int borders = 0;  // between neighbouring stages on different ranks
      for (std::size_t s = 0; s + 1 < rank_of.size(); ++s) borders += rank_of[s] != rank_of[s + 1];
      CHECK(sends == 2 * borders * csv.order.microbatches);  // an activation and a gradient each
      CHECK(receives == sends);
      CHECK(reductions == csv.order.stages);
    }
  }

  TEST_CASE("without any one of its cells, or with it twice, a completed schedule is refused") {
    const std::optional<Published> data = load_published(compact_folder());
    REQUIRE(data);
    int refused = 0;
    for (const PublishedTorchCsv& published : data->torch_csvs) {
      if (published.p > 2) continue;
      const TorchCsv csv = read_torch_csv(published.compute_comms, "comms.csv");
      for (std::size_t rank = 0; rank < csv.rows.size(); ++rank)
        for (std::size_t i = 0; i < csv.rows[rank].size(); ++i) {
          const CsvKind kind = csv.rows[rank][i].kind;
          const std::vector<std::string> texts = without_and_twice(csv, rank, i);
          for (std::size_t t = 0; t < texts.size(); ++t) {
            CAPTURE(texts[t]);
            // Parameters may stay gathered at the end, and gradients need not be summed here.
            const bool allowed = t == 0 && (kind == CsvKind::Reshard || kind == CsvKind::ReduceGrad);
            CHECK((errors_of(texts[t]) == "") == allowed);
            refused += !allowed;
          }
        }
    }
    CHECK(refused > 200);
  }
}

TEST_SUITE("PyTorch's CSV: notation") {
  TEST_CASE("the notation is told by content, and what told it is named") {
    struct Row {
      std::string name, text, description, order;
    };
    const Row rows[] = {
        {"I and W", "0F0,0I0,0W0\n", "compute_only, new notation (told by 0I0)", "0F0 0I0 0W0"},
        {"old: W beside B", "0F0,0B0,0W0\n", "compute_only, old notation (told by 0W0)", "0F0 0I0 0W0"},
        {"old: BW", "0F0,0BW0\n", "compute_only, old notation (told by 0BW0)", "0F0 0B0"},
        {"old: BW beside halves", "0F0,0F1,0BW0,0B1,0W1\n", "compute_only, old notation (told by 0BW0)",
         "0F0 0F1 0B0 0I1 0W1"},
        {"neither", "0F0,0B0\n", "compute_only, new notation (assumed: nothing in it tells)", "0F0 0B0"},
        {"a fused block is of the new", "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n",
         "compute_only, new notation (told by (0F1;0B0)OVERLAP_F_B)", "0F0 (0F1;0B0)OVERLAP_F_B 0B1"},
        {"REDUCE_GRAD is of the new", "0F0,0B0,0REDUCE_GRAD\n",
         "compute_only, new notation (told by 0REDUCE_GRAD)", "0F0 0B0"},
        {"old, with transfers", "0F0,0SEND_F0,0RECV_B0,0B0,0W0\n1RECV_F0,1F0,1B0,1SEND_B0,1W0\n",
         "compute_comms, old notation (told by 0W0)", "0F0 0I0 0W0"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.name);
      const TorchCsv csv = read_torch_csv(row.text, "s.csv");
      CHECK(describe(csv) == row.description);
      CHECK(to_text(csv.order.ranks.front()) == row.order);
      CHECK(write_torch_csv(csv) == row.text);
    }
  }

  TEST_CASE("an order is written in either notation") {
    const Order order = parse_order("0F0 0F1 0I0 0W0 0B1\n1F0 1I0 1W0 1F1 1B1\n", "order");
    const auto text = [&](CsvForm form, CsvNotation notation) {
      return write_torch_csv(to_torch_csv(order, form, notation));
    };
    CHECK(text(CsvForm::ComputeOnly, CsvNotation::New) == "0F0,0F1,0I0,0W0,0B1\n1F0,1I0,1W0,1F1,1B1\n");
    CHECK(text(CsvForm::ComputeOnly, CsvNotation::Old) == "0F0,0F1,0B0,0W0,0BW1\n1F0,1B0,1W0,1F1,1BW1\n");
    // No REDUCE_GRAD in the old one. Turns: 0UNSHARD 1UNSHARD | 0F0 1F0 | 0F1 1I0 | 0I0 1W0 | 0W0 1F1 | - 1B1
    // | 0B1.
    CHECK(text(CsvForm::ComputeComms, CsvNotation::Old) ==
          "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0W0,0RECV_B1,0BW1,0RESHARD\n"
          "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1W0,1F1,1BW1,1SEND_B1,1RESHARD\n");
  }

  TEST_CASE("what PyTorch cannot run is not written") {
    const Order both_ways = parse_order("0F0 0B0 1F1 1B1\n1F0 1B0 0F1 0B1\n", "order");
    CHECK_THROWS_WITH_AS(
        to_torch_csv(both_ways, CsvForm::ComputeOnly),
        "stage 1 is on ranks 0 and 1, but PyTorch runs a stage on one rank alone; try dualpipe-v in "
        "place of dualpipe",
        std::invalid_argument);
    const Order fused = parse_order("0F0 (0F1;0B0)OVERLAP_F_B 0B1\n", "order");
    CHECK_THROWS_WITH_AS(
        to_torch_csv(fused, CsvForm::ComputeOnly, CsvNotation::Old),
        "(0F1;0B0)OVERLAP_F_B is a fused block, which PyTorch's old notation cannot write; take the "
        "new one",
        std::invalid_argument);
    const Order stuck = parse_order("0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1\n", "order");
    CHECK_THROWS_AS(lowered(stuck), std::invalid_argument);
  }
}

TEST_SUITE("PyTorch's CSV: bad input") {
  TEST_CASE("every fault is named with its line and column") {
    struct Row {
      std::string name, text, errors;
    };
    const std::string good_comms[] = {"0F0,0SEND_F0,0RECV_B0,0B0\n", "1RECV_F0,1F0,1B0,1SEND_B0\n"};
    const std::string kinds =
        "; expected stage, kind (F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD) "
        "and "
        "microbatch such as 3F1";
    const Row rows[] = {
        {"good", "0F0,0B0\n1F0,1B0\n", ""},
        {"good with transfers", good_comms[0] + good_comms[1], ""},
        {"good: idle slots, blanks, CR LF and empty lines at the end",
         "0F0,, 0B0 \r\n,1F0\t,1B0,\r\n\r\n \r\n", ""},
        {"empty", "", "0:0 has no row; expected a line a rank, such as \"0F0,0F1,0B0,0B1\""},
        {"empty lines alone", "\n \r\n",
         "0:0 has no row; expected a line a rank, such as \"0F0,0F1,0B0,0B1\""},
        // One cell.
        {"unknown kind", "0F0,0X0\n1F0,1B0\n", "1:5 unknown action \"0X0\"" + kinds},
        {"nearly a kind", "0F0,0SENDF0,0B0\n",
         "1:5 unknown action \"0SENDF0\" (did you mean SEND_F?)" + kinds},
        {"no kind", "12,0B0\n", "1:1 unknown action \"12\"" + kinds},
        {"small letters", "0f0,0B0\n1F0, 1b0\n",
         "1:1 unknown action \"0f0\"; capitals matter: F, not f\n2:6 unknown action \"1b0\"; capitals "
         "matter: B, not b"},
        {"no stage", "F0,0B0\n",
         "1:1 \"F0\" is no action; expected the stage, F and the microbatch, numbers up to 9999999"},
        {"a number too large", "0F0,0B99999999\n",
         "1:5 \"0B99999999\" is no action; expected the stage, B and the microbatch, numbers up to 9999999"},
        {"something behind", "0F0x,0B0\n",
         "1:1 \"0F0x\" is no action; expected the stage, F and the microbatch, numbers up to 9999999"},
        {"no microbatch", "0F,0B0\n", "1:1 \"0F\" lacks its microbatch; expected such as 0F0"},
        {"a microbatch too many", "0F0,0B0,0RESHARD0\n",
         "1:9 \"0RESHARD0\" is of no microbatch; expected such as 0RESHARD"},
        {"a fused block without end", "(0F0;0B0,0F1\n",
         "1:1 unknown action \"(0F0;0B0\"; expected a forward and a whole backward such as "
         "(0F3;3B1)OVERLAP_F_B"},
        {"a fused block the wrong way round", "0F0,(0B0;0F1)OVERLAP_F_B,0B1\n",
         "1:5 \"(0B0;0F1)OVERLAP_F_B\" fuses other things; expected a forward and a whole backward such as "
         "(0F3;3B1)OVERLAP_F_B"},
        {"both notations", "0F0,0I0,0W0\n1F0,1BW0\n",
         "2:5 \"1BW0\" is of the old notation, but 0I0 of the new"},
        // Holes.
        {"a row without action", "0F0,0B0\n\n1F0,1B0\n", "2:1 rank 1 has no action; a line is a rank"},
        {"a row of idle slots", "0F0,0B0\n,,\n1F0,1B0\n", "2:1 rank 1 has no action; a line is a rank"},
        {"a hole beside transfers", "0F0,0SEND_F0,,0RECV_B0,0B0\n" + good_comms[1],
         "1:14 an empty cell in a file with transfers; only computation alone may have idle slots"},
        {"a hole at the end", good_comms[0] + "1RECV_F0,1F0,1B0,1SEND_B0,\n",
         "2:27 an empty cell in a file with transfers; only computation alone may have idle slots"},
        {"a missing microbatch", "0F0,0F2,0B0,0B2\n",
         "1:1 stage 0 has 2 of the 3 microbatches that are named; 0F1 is missing"},
        {"a missing stage", "0F0,0B0\n2F0,2B0\n", "2:1 stage 2 is here, but no rank computes stage 1"},
        {"no backward", "0F0,0F1,0B0\n", "1:5 0F1 has no backward 0B1"},
        {"no weight half", "0F0,0F1,0I0,0W0,0I1\n", "1:17 0I1 has no 0W1"},
        // Twice, and out of turn.
        {"twice", "0F0,0F0,0B0\n1F0,1B0,1B0\n",
         "1:5 0F0 stands twice, first in line 1, column 1\n2:9 1B0 stands twice, first in line 2, column 5"},
        {"a whole backward and its halves", "0F0,0I0,0W0,0B0\n",
         "1:13 0B0 beside 0I0 in line 1, column 5: a microbatch goes backward through a stage once"},
        {"a stage on two ranks", "0F0,0B0,0F1\n1F0,1B0,0B1,1F1,1B1\n",
         "2:9 0B1 is on rank 1, but stage 0 is on rank 0 (line 1, column 1)"},
        {"a backward before its forward", "0B0,0F0\n", "1:1 0B0 before its 0F0 in line 1, column 5"},
        {"a weight half before its input half", "0F0,0W0,0I0\n",
         "1:5 0W0 before its 0I0 in line 1, column 9"},
        {"the same in the old notation", "0F0,0W0,0B0\n", "1:5 0W0 before its 0B0 in line 1, column 9"},
        {"a weight half after a whole backward", "0F0,0F1,0I0,0W0,0B1,0W1\n", "1:21 0W1 without its 0I1"},
        // Transfers.
        {"a missing receive", good_comms[0] + "1F0,1B0,1SEND_B0\n",
         "1:5 0SEND_F0 without its 1RECV_F0 on rank 1\n2:1 1F0 without its 1RECV_F0"},
        {"a missing send", "0F0,0RECV_B0,0B0\n" + good_comms[1],
         "2:1 1RECV_F0 without its 0SEND_F0 on rank 0"},
        {"both ends missing", "0F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n", "2:1 1F0 without its 1RECV_F0"},
        {"used before it is received", good_comms[0] + "1F0,1RECV_F0,1B0,1SEND_B0\n",
         "2:1 1F0 before its 1RECV_F0 in line 2, column 5"},
        {"sent before it is made", "0SEND_F0,0F0,0RECV_B0,0B0\n" + good_comms[1],
         "1:1 0SEND_F0 before its 0F0 in line 1, column 10"},
        {"a send from the wrong rank", "0F0,0RECV_B0,0B0\n0SEND_F0,1RECV_F0,1F0,1B0,1SEND_B0\n",
         "2:1 0SEND_F0 is on rank 1, but stage 0 is on rank 0 (line 1, column 1)"},
        {"a send within a rank", "0F0,0SEND_F0,1F0,1B0,0B0\n",
         "1:5 0SEND_F0 between stages 0 and 1, which are both on rank 0; PyTorch hands on there without a "
         "transfer"},
        {"transfers past the ends", "0RECV_F0," + good_comms[0] + "1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0\n",
         "1:1 0RECV_F0 is a transfer with stage -1, which no rank computes\n"
         "2:14 1SEND_F0 is a transfer with stage 2, which no rank computes"},
        // Parameters.
        {"gathered twice", "0UNSHARD,0UNSHARD,0F0,0B0,0RESHARD\n",
         "1:10 0UNSHARD of parameters that are already gathered"},
        {"not gathered", "0F0,0UNSHARD,0B0,0RESHARD,0RESHARD\n",
         "1:1 0F0 while the parameters of stage 0 are not gathered\n"
         "1:27 0RESHARD of parameters that are not gathered"},
        {"gathered for nothing", "0F0,0B0,1RESHARD\n", "1:9 1RESHARD is of stage 1, which no rank computes"},
        {"summed too early", "0F0,0F1,0B0,0REDUCE_GRAD,0B1\n",
         "1:13 0REDUCE_GRAD before the last backward of stage 0"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.name);
      CHECK(errors_of(row.text) == row.errors);
    }
  }

  TEST_CASE("an error shows its line with a caret under the cell") {
    CHECK_THROWS_WITH_AS((void)read_torch_csv("0F0,0B0\n1F0, 1W0,1I0\n", "mine.csv"),
                         "mine.csv:2:6: error: 1W0 before its 1I0 in line 2, column 10\n"
                         "    2 | 1F0, 1W0,1I0\n"
                         "      |      ^",
                         InputError);
  }

  TEST_CASE("at most 20 errors are listed, however many there are and however large the numbers") {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "x,";
    CHECK_THROWS_AS((void)read_torch_csv(text + "\n", "s.csv"), InputError);
    const std::string far_apart = "0F0,0B0,9999999F9999999,9999999B9999999\n1000F5,1000B5\n";
    for (const std::string& bad : {text, far_apart}) {
      const std::string found = errors_of(bad);
      CHECK(found != "");
      CHECK(std::count(found.begin(), found.end(), '\n') < 20);
    }
  }

  TEST_CASE("no text makes the reader crash or hang") {
    const std::optional<Published> data = load_published(compact_folder());
    REQUIRE(data);
    const std::string pieces[] = {",",
                                  "\n",
                                  "0",
                                  "1",
                                  "F",
                                  "B",
                                  "I",
                                  "W",
                                  "(",
                                  ";",
                                  ")",
                                  "SEND_F",
                                  "1RECV_F0",
                                  "OVERLAP_F_B",
                                  "UNSHARD",
                                  "\xff",
                                  std::string(1, '\0'),
                                  "\r",
                                  "9999999"};
    constexpr std::uint32_t Seed = 20;
    std::mt19937 random(Seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    int read = 0, refused = 0;
    for (int round = 0; round < 3000; ++round) {
      const PublishedTorchCsv& published = data->torch_csvs[below(data->torch_csvs.size())];
      if (published.p > 2) continue;
      std::string text = round % 2 == 0 ? published.compute_only : published.compute_comms;
      for (std::size_t edits = 1 + below(3); edits > 0; --edits)
        text.replace(below(text.size()), below(6), pieces[below(std::size(pieces))]);
      CAPTURE(Seed);
      CAPTURE(round);
      CAPTURE(text);
      try {
        const TorchCsv csv = read_torch_csv(text, "s.csv");
        for (const CsvTransfers transfers : BothTransfers) (void)check_communication(csv, transfers);
        CHECK(check_order(csv.order).empty());
        CHECK(read_torch_csv(write_torch_csv(csv), "s.csv").order == csv.order);
        ++read;
      } catch (const InputError& error) {
        for (const Diagnostic& d : error.diagnostics()) {
          CHECK(d.place.line > 0);
          CHECK(d.place.column > 0);
        }
        ++refused;
      }
    }
    CHECK(read > 5);
    CHECK(refused > 300);
  }
}

TEST_SUITE("PyTorch's CSV: deadlocks") {
  TEST_CASE("ranks that wait for each other are named with their actions and places") {
    struct Row {
      std::string name, text;
      std::string posted, rendezvous;
    };
    const std::string head = "0F0,0SEND_F0,0F1,0SEND_F1,";
    const Row rows[] = {
        {"computation alone, a swapped pair on each rank", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
         "1:5 deadlock: rank 0 waits in 0B0 (line 1, column 5) for 1B0 (line 2, column 9) of rank 1, which "
         "comes after "
         "1F1; rank 1 waits in 1F1 (line 2, column 5) for 0F1 (line 1, column 9) of rank 0, which comes "
         "after 0B0",
         "the same"},
        {"a V turn the wrong way round waits for itself", "1F0,0F0,0B0,1B0\n",
         "1:1 deadlock: rank 0 waits in 1F0 (line 1, column 1) for 0F0 (line 1, column 5) of rank 0, which "
         "comes after "
         "1F0",
         "the same"},
        {"a receive before the send it is an answer to",
         "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
         "1:5 deadlock: rank 0 waits in 0RECV_B0 (line 1, column 5) for 1SEND_B0 (line 2, column 18) of rank "
         "1, which "
         "comes after 1RECV_F0; rank 1 waits in 1RECV_F0 (line 2, column 1) for 0SEND_F0 (line 1, column 14) "
         "of rank 0, "
         "which comes after 0RECV_B0",
         "the same"},
        // Rank 0 sends its second activation while rank 1 sends its first gradient: each waits for the other
        // to receive.
        {"1F1B with receives before their use",
         head + "0RECV_B0,0B0,0RECV_B1,0B1\n"
                "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
         "",
         "1:18 deadlock: rank 0 waits in 0SEND_F1 (line 1, column 18) for 1RECV_F1 (line 2, column 27) of "
         "rank 1, which "
         "comes after 1SEND_B0; rank 1 waits in 1SEND_B0 (line 2, column 18) for 0RECV_B0 (line 1, column "
         "27) of rank "
         "0, which comes after 0SEND_F1"},
        {"1F1B with receives where they are sent",
         head + "0RECV_B0,0B0,0RECV_B1,0B1\n"
                "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
         "", ""},
        {"receives in another order than the sends",
         head + "0RECV_B0,0B0,0RECV_B1,0B1\n"
                "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
         "2:1 1RECV_F1 would get what 0SEND_F0 (line 1, column 5) sends: each is message 1 from rank 0 to "
         "rank 1, and "
         "NCCL matches messages by their order alone",
         "1:5 deadlock: rank 0 waits in 0SEND_F0 (line 1, column 5) for 1RECV_F0 (line 2, column 10) of rank "
         "1, which "
         "comes after 1RECV_F1; rank 1 waits in 1RECV_F1 (line 2, column 1) for 0SEND_F1 (line 1, column 18) "
         "of rank 0, "
         "which comes after 0SEND_F0\n"
         "2:1 1RECV_F1 would get what 0SEND_F0 (line 1, column 5) sends: each is message 1 from rank 0 to "
         "rank 1, and "
         "NCCL matches messages by their order alone"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.name);
      const TorchCsv csv = read_torch_csv(row.text, "s.csv");
      CHECK(stops(csv, CsvTransfers::Posted) == row.posted);
      CHECK(stops(csv, CsvTransfers::Rendezvous) ==
            (row.rendezvous == "the same" ? row.posted : row.rendezvous));
    }
  }

  TEST_CASE("receives before their use deadlock where sends wait, and cross in V shapes") {
    const std::optional<Published> data = load_published(compact_folder());
    REQUIRE(data);
    for (const PublishedTorchCsv& published : data->torch_csvs) {
      CAPTURE(published.id);
      const TorchCsv csv = lowered(read_torch_csv(published.compute_only, "x").order, CsvReceives::AtUse);
      const bool v_shape = published.schedule == "zb-v-handcrafted" || published.schedule == "dualpipev";
      const bool crossed = v_shape && published.p > 2;
      const bool one_way_at_a_time = published.schedule == "gpipe";  // all forwards, then all backwards
      CHECK((stops(csv, CsvTransfers::Posted).find("NCCL matches") != std::string::npos) == crossed);
      CHECK((stops(csv, CsvTransfers::Rendezvous).find("deadlock") != std::string::npos) ==
            !one_way_at_a_time);
    }
  }

  TEST_CASE("computation alone halts exactly where the replay halts") {
    // Every swap of two neighbours of a rank that leaves each microbatch's own order alone.
    const Order good = parse_order(
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3\n"
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3\n",
        "order");
    int halted = 0, ran = 0;
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (std::size_t i = 0; i < good.ranks[rank].size(); ++i)
        for (std::size_t k = i + 1; k < good.ranks[rank].size(); ++k) {
          Order order = good;
          std::swap(order.ranks[rank][i], order.ranks[rank][k]);
          if (!check_order(order).empty()) continue;
          CAPTURE(to_text(order.ranks[rank]));
          const bool halts = deadlock(order) != "";
          CHECK((stops(to_torch_csv(order, CsvForm::ComputeOnly), CsvTransfers::Posted) != "") == halts);
          (halts ? halted : ran) += 1;
        }
    CHECK(halted > 10);
    CHECK(ran > 10);
  }
}
