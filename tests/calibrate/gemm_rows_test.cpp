// Rows of measured kernels: what each kind of row says, and what is wrong with a table.
#include "sim/calibrate/gemm_rows.hpp"

#include <doctest/doctest.h>

namespace syncline::calibrate {
namespace {

const std::string GemmHeader =
    "id,source,chip,kind,m,n,k,groups,dtype,out_dtype,stage,achieved_tflops,peak_tflops,note\n";

KernelRows read(const std::string& lines, const std::string& chip = "X1") {
  return read_kernel_rows(CsvTable::parse(GemmHeader + lines, "t.csv"), chip);
}

std::string error_of(const std::string& text, const std::string& chip = "X1") {
  try {
    static_cast<void>(read_kernel_rows(CsvTable::parse(text, "t.csv"), chip));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a product's bytes are its operands and its result, the latter twice where it is added to") {
  // 100 × 10 by 10 × 20: 2·100·20·10 = 40000 FLOP; operands 100·10 + 10·20 = 1200 numbers, result 2000.
  struct Row {
    const char* name;
    std::string dtype, out, stage;
    double bytes;
  };
  for (const Row& row : {Row{"bf16 to bf16", "bf16", "", "accumulate=False", 2 * 1200 + 2 * 2000},
                         Row{"bf16 added up in fp32", "bf16", "fp32", "accumulate=True", 2 * 1200 + 8 * 2000},
                         Row{"fp8", "fp8", "", "", 1200 + 2 * 2000},
                         Row{"fp4 and a scale in 16", "nvfp4", "", "", 0.5625 * 1200 + 2 * 2000}}) {
    CAPTURE(row.name);
    const KernelRows rows =
        read("a,S,X1,matmul,100,20,10,," + row.dtype + "," + row.out + "," + row.stage + ",0.04,1,\n");
    REQUIRE(rows.products.size() == 1);
    CHECK(rows.products[0].kernel.hbm.si() == doctest::Approx(row.bytes).epsilon(1e-12));
    CHECK(rows.products[0].kernel.flop.si() == 40000);
    CHECK(rows.products[0].time.si() == doctest::Approx(1e-6).epsilon(1e-12));  // 40000 / 0.04e12
  }
}

TEST_CASE("a grouped product's backward has other sizes than its forward") {
  struct Row {
    const char* stage;
    std::int64_t m, n, k;
  };
  for (const Row& row : {Row{"fwd", 3, 5, 7}, Row{"bwd_grad_act", 3, 7, 5}, Row{"bwd_grad_w", 7, 5, 3}}) {
    CAPTURE(row.stage);
    const KernelRows rows =
        read("a,S,X1,grouped matmul,3,5,7,4,bf16,bf16," + std::string(row.stage) + ",1,1,\n");
    REQUIRE(rows.grouped.size() == 1);
    const Kernel& kernel = rows.grouped[0].kernel;
    CHECK(kernel.batch == 4);
    CHECK(kernel.m == row.m);
    CHECK(kernel.n == row.n);
    CHECK(kernel.k == row.k);
    CHECK(kernel.flop.si() == 2 * 3 * 5 * 7 * 4);
    CHECK(kernel.grouped);
    CHECK(kernel.launches == 4);
    CHECK(rows.grouped[0].bytes_said == (std::string(row.stage) != "bwd_grad_w"));
    const bool sums = std::string(row.stage) == "bwd_grad_w";  // what is there is read
    CHECK(kernel.hbm.si() == 4 * 2 * (row.m * row.k + row.k * row.n + (sums ? 2 : 1) * row.m * row.n));
  }
}

TEST_CASE("attention counts the causal half of what its source does") {
  // forward 2 products over the square: 2·1·8·4096²·(128 + 128) FLOP at 100 TFLOP/s; half of them are done
  const double square = 2.0 * 8 * 4096 * 4096 * 256;
  const std::string note =
      "batch=1; seq_len=4096; head_num=8; kv_head_num=1; qk_head_dim=128; v_head_dim=128";
  const KernelRows rows = read("a,S,X1,attention fwd,,,,,bf16,,sdp_fwd,100,1," + note + "\n" +
                               "b,S,X1,attention bwd,,,,,bf16,,sdp_bwd,100,1," + note + "\n");
  REQUIRE(rows.attention.size() == 2);
  CHECK(rows.attention[0].kernel.flop.si() == doctest::Approx(square / 2).epsilon(1e-12));
  CHECK(rows.attention[0].time.si() == doctest::Approx(square / 1e14).epsilon(1e-12));
  CHECK(rows.attention[1].kernel.backward);
  CHECK(rows.attention[1].kernel.flop.si() == doctest::Approx(2.5 * square / 2).epsilon(1e-12));
  CHECK(rows.attention[1].kernel.k == 128);
}

TEST_CASE("a best shape is kept apart, block scales are told by dtype or kind") {
  const KernelRows rows = read(
      "a,S,X1,\"matmul, best shape found\",1,2,3,,bf16,,,1,1,\n"
      "b,S,X1,fp8 block-scaled GEMM,1,2,3,,fp8,bf16,,1,1,\n"
      "c,S,X1,matmul,1,2,3,,fp8_block,,,1,1,\n");
  CHECK(rows.best.size() == 1);
  REQUIRE(rows.products.size() == 2);
  CHECK(rows.products[0].kernel.precision == Precision::Fp8Block);
  CHECK(rows.products[1].kernel.precision == Precision::Fp8Block);
}

TEST_CASE("bad tables are refused with the place") {
  struct Row {
    const char* name;
    std::string text, chip, message;
  };
  const std::string good = "a,S,X1,matmul,1,2,3,,bf16,,,1,1,\n";
  for (const Row& row :
       {Row{"another chip", GemmHeader + good, "X2",
            "t.csv: error: no row has this chip: unknown chip \"X2\"; did you mean \"X1\"?"},
        Row{"no column", "chip,kind,m,n,dtype\n", "X1",
            "t.csv:1: error: column \"achieved_tflops\" is missing"},
        Row{"no column either", "chip,kind,m,n,dtype\n", "X1", "t.csv:1: error: column \"k\" is missing"},
        Row{"no number", GemmHeader + good + "b,S,X1,matmul,1,two,3,,bf16,,,1,1,\n", "X1",
            "t.csv:3: error: column \"n\" is \"two\", expected a number above 0"},
        Row{"an empty number", GemmHeader + "b,S,X1,matmul,1,2,3,,bf16,,,,1,\n", "X1",
            "t.csv:2: error: column \"achieved_tflops\" is \"\", expected a number above 0"},
        Row{"half a row", GemmHeader + "b,S,X1,matmul,1.5,2,3,,bf16,,,1,1,\n", "X1",
            "t.csv:2: error: column \"m\" is \"1.5\", expected a whole number"},
        Row{"zero", GemmHeader + "b,S,X1,matmul,1,2,0,,bf16,,,1,1,\n", "X1", "column \"k\" is \"0\""},
        Row{"infinity", GemmHeader + "b,S,X1,matmul,1,2,3,,bf16,,,inf,1,\n", "X1",
            "column \"achieved_tflops\" is \"inf\""},
        Row{"a precision", GemmHeader + "b,S,X1,matmul,1,2,3,,bf17,,,1,1,\n", "X1",
            "t.csv:2: error: unknown dtype \"bf17\"; did you mean \"bf16\"?"},
        Row{"attention without sizes", GemmHeader + "b,S,X1,attention fwd,,,,,bf16,,,1,1,batch=1\n", "X1",
            "t.csv:2: error: column \"note: seq_len\" is \"\""}}) {
    CAPTURE(row.name);
    const std::string message = error_of(row.text, row.chip);
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace syncline::calibrate
