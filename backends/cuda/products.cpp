#include "backends/cuda/products.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <array>

#include "backends/cuda/call.hpp"

namespace syncline::cuda {
namespace {

/// How cuBLASLt names what a precision is.
struct Types {
  Precision precision;
  cudaDataType_t operand, result;
  cublasComputeType_t compute;
};
constexpr std::array<Types, 5> AllTypes{{
    {Precision::Fp32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {Precision::Tf32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
    {Precision::Fp16, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
    {Precision::Bf16, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
    {Precision::Fp8, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
}};

const Types& types_of(Precision precision) {
  for (const Types& types : AllTypes)
    if (types.precision == precision) return types;
  throw CallFailed(fmt::format("products of {} are not carried out", name_of(precision)));
}

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    static_cast<void>(Destroy(object));
  }
};
using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Deleter<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Deleter<cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Deleter<cublasLtMatmulPreferenceDestroy>>;
using DeviceFloat = std::unique_ptr<float, Deleter<cudaFree>>;

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

/// `batch` matrices of rows × columns, column after column.
Layout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  Layout matrix(made);
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t stride = rows * columns;
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                         sizeof stride),
        "cublasLtMatrixLayoutSetAttribute");
  return matrix;
}

Operation operation_of(const Types& types, int multiprocessors, const float* scale) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, types.compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  Operation operation(made);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(CUBLAS_OP_T));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(CUBLAS_OP_N));
  if (multiprocessors > 0)
    set(operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(multiprocessors));
  if (types.precision == Precision::Fp8) {  // one scale a tensor
    set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(1));
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale);
  }
  return operation;
}

std::string text(const Product& product) {
  return fmt::format("{} {} × {} × {}, batch {}", name_of(product.precision), product.m, product.n, product.k,
                     product.batch);
}

}  // namespace

struct Products::Handle {
  Handle() {
    check(cublasLtCreate(&library), "cublasLtCreate");
    void* memory = nullptr;
    check(cudaMalloc(&memory, sizeof(float)), "cudaMalloc of a scale");
    scale.reset(static_cast<float*>(memory));
    const float one = 1;
    check(cudaMemcpy(memory, &one, sizeof one, cudaMemcpyHostToDevice), "cudaMemcpy of a scale");
  }
  ~Handle() { static_cast<void>(cublasLtDestroy(library)); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cublasLtHandle_t library = nullptr;
  DeviceFloat scale;  // of fp8 tensors: 1
};

/// In cuBLAS's order, column after column: C (n × m) = Aᵀ (n × k) · B (k × m), so A is our right operand, B
/// our left one.
struct Products::Plan {
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
};

Products::Products(std::size_t workspace, int multiprocessors)
    : workspace_(workspace), multiprocessors_(multiprocessors), handle_(std::make_unique<Handle>()) {}

Products::~Products() = default;

void Products::prepare(const Product& product) {
  if (plans_.contains(product)) return;
  const Types& types = types_of(product.precision);
  auto plan = std::make_unique<Plan>();
  plan->operation = operation_of(types, multiprocessors_, handle_->scale.get());
  plan->a = layout(types.operand, product.k, product.n, product.batch);
  plan->b = layout(types.operand, product.k, product.m, product.batch);
  plan->c = layout(types.result, product.n, product.m, product.batch);

  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Preference preference(made);
  check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_,
                                             sizeof workspace_),
        "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t result =
      cublasLtMatmulAlgoGetHeuristic(handle_->library, plan->operation.get(), plan->a.get(), plan->b.get(),
                                     plan->c.get(), plan->c.get(), made, 1, &best, &found);
  const std::string call = fmt::format("cublasLtMatmulAlgoGetHeuristic for {}", text(product));
  check(result, call);
  if (found == 0) throw CallFailed(call + ": there is no algorithm for it on this device");
  plan->algorithm = best.algo;
  plans_.emplace(product, std::move(plan));
}

void Products::run(cudaStream_t stream, const Product& product, const void* left, const void* right,
                   void* result, void* workspace) {
  const Plan& plan = *plans_.at(product);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(handle_->library, plan.operation.get(), &one, right, plan.a.get(), left, plan.b.get(),
                       &zero, result, plan.c.get(), result, plan.c.get(), &plan.algorithm, workspace,
                       workspace_, stream),
        fmt::format("cublasLtMatmul for {}", text(product)));
}

}  // namespace syncline::cuda
