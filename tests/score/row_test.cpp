// Rows of both sets of columns.
#include <doctest/doctest.h>

#include <string>

#include "tests/score/table.hpp"

namespace syncline::score {
namespace {

using test::row_of;

std::string error_of(const std::string& header, const std::string& cells) {
  try {
    static_cast<void>(row_of(header, cells));
  } catch (const InputError& error) {
    return format_diagnostic(error.diagnostics().front());
  }
  return "";
}

TEST_CASE("both sets of columns come to the same names and SI units") {
  const TrainingRow published =
      row_of("id,iter_time_s,mem_gb,tflops_per_gpu,mfu_pct,grad_accum,params_b", "a,2.5,80,150,50,4,1.5");
  const TrainingRow measured =
      row_of("id,iteration_time_s,peak_memory_bytes,num_microbatches", "b,2.5,80000000000,4");
  for (const TrainingRow* row : {&published, &measured}) {
    CHECK(row->number("step_time") == 2.5);
    CHECK(row->number("memory_bytes") == 80e9);
    CHECK(row->number("microbatches") == 4);
    CHECK(row->table() == "some");
  }
  CHECK(published.number("flops_per_gpu") == 150e12);
  CHECK(published.number("mfu") == 0.5);
  CHECK(published.number("params") == 1.5e9);
  CHECK(measured.number("params") == std::nullopt);
}

TEST_CASE(
    "a cell that is no number is refused with its line and column, blank ones and words where they may be "
    "are not") {
  CHECK(error_of("id,gbs", "a,many")
            .find("folder/some.csv:2: error: column \"gbs\": expected a number, not \"many\"") == 0);
  CHECK(error_of("id,gbs", "a,-3").find("column \"gbs\" is -3; expected 0 or more") != std::string::npos);
  CHECK(error_of("id,gbs", ",3").find("has no \"id\"") != std::string::npos);
  CHECK(error_of("id,gbs,kv_heads", "a,,MLA").empty());
  const CsvTable twice = CsvTable::parse("id\na\na\n", "t.csv");
  CHECK_THROWS_AS(static_cast<void>(read_training_rows(twice)), InputError);
}

TEST_CASE("what follows from other cells is filled in, and nothing else") {
  struct Row {
    const char *header, *cells, *column;
    std::optional<double> value;
  };
  for (const Row& row :
       {Row{"id,n_gpus,tp,pp,cp", "a,64,2,4,2", "dp", 4},  // 64 / (2 · 4 · 2)
        Row{"id,tp,pp,cp,dp", "a,2,4,2,4", "n_gpus", 64},
        Row{"id,n_gpus,tp,pp,cp,gbs,grad_accum", "a,64,2,4,1,128,8", "mbs", 2},  // 128 / (8 · 8)
        Row{"id,gbs,dp,mbs", "a,128,8,2", "microbatches", 8},
        Row{"id,dp,mbs,grad_accum", "a,8,2,8", "gbs", 128}, Row{"id,gbs,dp", "a,128,8", "mbs", std::nullopt},
        Row{"id,n_gpus,tp", "a,64,2", "dp", std::nullopt}}) {
    CAPTURE(row.cells);
    TrainingRow read = row_of(row.header, row.cells);
    read.complete();
    CHECK(read.number(row.column) == row.value);
  }
}

}  // namespace
}  // namespace syncline::score
