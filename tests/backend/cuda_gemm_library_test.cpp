// Multiplications of many rows by the library of a GPU, which the emulation stands in for: what it is given,
// when it is taken, and what a model makes of it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/run/gemm_library.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/audit.h"
#include "assay/session/load.h"
#include "support/cuda_kernels.h"
#include "support/fixtures.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

using CudaGemmLibrary = CudaKernels;

struct ExpandedShape {
  std::int64_t outputs, inputs;
};
constexpr ExpandedShape kExpandedShapes[] = {{3, 9}, {16, 64}, {70, 203}, {33, 331}};

// Rounded once, from book[code] * scale.
float expanded_value(const TestMatrix& m, std::int64_t row, std::int64_t k, Arithmetic arithmetic) {
  const float value = m.value(row, k);
  return arithmetic == Arithmetic::float16    ? f16_to_float(float_to_f16(value))
         : arithmetic == Arithmetic::bfloat16 ? bf16_to_float(float_to_bf16(value))
                                              : value;
}

TEST_F(CudaGemmLibrary, ExpandsEveryFormatRowByRow) {
  for (const Way& way : ways())
    for (const ExpandedShape& shape : kExpandedShapes) {
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(shape.outputs) + " x " +
                   std::to_string(shape.inputs));
      const TestMatrix m = make_matrix(way.format, shape.outputs, shape.inputs, random_, way.group);
      const std::int64_t stride = expanded_stride(m.inputs), bytes = element_bytes(way.arithmetic);
      const auto out = room<std::byte>(expanded_matrix_bytes(m.outputs, m.inputs, way.arithmetic));
      run(*runtime_,
          ExpandArgs{.matrix = put(m), .arithmetic = way.arithmetic, .out = out, .out_stride = stride});
      const std::vector<std::byte> got = get(out, m.outputs * stride * bytes);
      for (std::int64_t row = 0; row < m.outputs; ++row)
        for (std::int64_t k = 0; k < m.inputs; ++k) {
          const std::byte* at = got.data() + (row * stride + k) * bytes;
          float value = 0;
          std::uint16_t half = 0;
          std::memcpy(bytes == 4 ? static_cast<void*>(&value) : &half, at, at_of(bytes));
          if (way.arithmetic == Arithmetic::float16) value = f16_to_float(half);
          if (way.arithmetic == Arithmetic::bfloat16) value = bf16_to_float(half);
          ASSERT_EQ(value, expanded_value(m, row, k, way.arithmetic)) << "output " << row << ", input " << k;
        }
    }
}

TEST_F(CudaGemmLibrary, AddsBiasAndActivationBehindTheProduct) {
  constexpr std::int64_t kRows = kLibraryRows + 5;
  struct {
    Activation activation;
    bool has_bias, adds;
  } constexpr kEpilogues[] = {{Activation::none, false, false},
                              {Activation::none, true, true},
                              {Activation::gelu_tanh, true, false},
                              {Activation::relu, false, false}};
  for (const Way& way : ways())
    for (const auto& to : kEpilogues) {
      SCOPED_TRACE(text_of(way) + ", activation " + std::to_string(static_cast<int>(to.activation)));
      const auto runtime = make_emulated_runtime();
      DeviceMemory memory(*runtime);
      const TestMatrix m = make_matrix(way.format, 21, 75, random_, way.group);
      const Matrix weight = put_matrix(memory, m);
      const std::int64_t stride = m.inputs + 2, out_stride = m.outputs + 1;
      const Floats x = random_.floats(kRows * stride), before = random_.floats(kRows * out_stride),
                   bias = random_.floats(m.outputs);
      const auto out = memory.put(before);
      const std::int64_t inputs = round_up(kRows * rounded_inputs_stride(m.inputs, way.arithmetic), 256),
                         matrix = expanded_matrix_bytes(m.outputs, m.inputs, way.arithmetic),
                         workspace = library_workspace_bytes(runtime->facts());
      LinearArgs args{
          .x = memory.put(x),
          .x_stride = stride,
          .rows = kRows,
          .weight = weight,
          .arithmetic = way.arithmetic,
          .to = {.activation = to.activation, .adds = to.adds, .out = out, .out_stride = out_stride},
          .scratch = {memory.of<std::byte>(at_of(inputs)), inputs}};
      if (to.has_bias) args.to.bias = memory.put(bias);
      ASSERT_TRUE(multiply_by_library(*runtime, args,
                                      {{memory.of<std::byte>(at_of(matrix)), matrix},
                                       {memory.of<std::byte>(at_of(workspace)), workspace}}));
      EXPECT_EQ(runtime->products(), 1);
      const Floats got = memory.get(out, before.size());
      for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t output = 0; output < m.outputs; ++output) {
          double sum = to.has_bias ? static_cast<double>(bias[at_of(output)]) : 0;
          for (std::int64_t k = 0; k < m.inputs; ++k) {
            Way inputs_as = way;
            inputs_as.format = MatrixFormat::bfloat16;  // rounded by the arithmetic alone
            const float input = x[at_of(row * stride + k)];
            sum +=
                static_cast<double>(expanded_value(m, output, k, way.arithmetic)) *
                static_cast<double>(way.arithmetic == Arithmetic::tf32 ? input : rounded(input, inputs_as));
          }
          if (to.activation == Activation::relu) sum = std::max(sum, 0.0);
          if (to.activation == Activation::gelu_tanh)
            sum = 0.5 * sum * (1 + std::tanh(0.7978845608 * (sum + 0.044715 * sum * sum * sum)));
          const std::size_t at = at_of(row * out_stride + output);
          if (to.adds) sum += static_cast<double>(before[at]);
          expect_near(got[at], sum, 1e-4, "product");
        }
        const std::size_t beyond = at_of(row * out_stride + m.outputs);
        ASSERT_EQ(got[beyond], before[beyond]) << "row " << row;
      }
    }
}

TEST_F(CudaGemmLibrary, LeavesToTheKernelsWhatIsNotForIt) {
  const auto runtime = make_emulated_runtime();
  DeviceMemory memory(*runtime);
  const auto is_taken = [&](const auto& change) {
    const TestMatrix m = make_matrix(MatrixFormat::bfloat16, 16, 64, random_);
    constexpr std::int64_t kRows = kLibraryRows;
    LinearArgs args{.x = memory.put(random_.floats(kRows * 64)),
                    .x_stride = 64,
                    .rows = kRows,
                    .weight = {.data = memory.put(m.data), .outputs = 16, .inputs = 64, .format = m.format},
                    .to = {.out = memory.of<float>(kRows * 16), .out_stride = 16},
                    .scratch = {memory.of<std::byte>(kRows * 128), kRows * 128}};
    const std::int64_t workspace = library_workspace_bytes(runtime->facts());
    LibraryScratch scratch{{memory.of<std::byte>(16 * 128), 16 * 128},
                           {memory.of<std::byte>(at_of(workspace)), workspace}};
    change(args, scratch);
    const std::int64_t launches = runtime->launches(), products = runtime->products();
    const bool taken = multiply_by_library(*runtime, args, scratch);
    EXPECT_EQ(runtime->products() - products, taken ? 1 : 0);
    if (!taken) {
      EXPECT_EQ(runtime->launches(), launches);
    }
    return taken;
  };
  EXPECT_TRUE(is_taken([](LinearArgs&, LibraryScratch&) {}));
  EXPECT_FALSE(is_taken([](LinearArgs& args, LibraryScratch&) { args.rows = kLibraryRows - 1; }));
  EXPECT_FALSE(is_taken([](LinearArgs& args, LibraryScratch&) { args.weight.format = MatrixFormat::int8; }));
  EXPECT_FALSE(is_taken([](LinearArgs& args, LibraryScratch&) {
    args.to.activation = Activation::relu;
    args.to.adds = true;
  }));
  EXPECT_FALSE(is_taken([](LinearArgs& args, LibraryScratch&) { args.scratch.bytes -= 256; }));
  EXPECT_FALSE(is_taken([](LinearArgs&, LibraryScratch& scratch) { scratch.matrix.bytes -= 1; }));
}

}  // namespace
}  // namespace assay::cuda

namespace assay {
namespace {

constexpr CudaOptions kByLibrary{.gemm = CudaGemm::cublaslt};

struct GpuWithLibrary {
  explicit GpuWithLibrary(const CudaOptions& options = kByLibrary)
      : backend(make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime, options)) {}
  Model model(const char* name, const Precision& precision) const {
    return Model::load(std::make_shared<const ModelFolder>(test::fixture_model(name)), backend, precision);
  }
  std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
  std::shared_ptr<Backend> backend;
};

std::int64_t products_of(const Plan& plan) {
  return std::count_if(plan.ops.begin(), plan.ops.end(),
                       [](const Op& op) { return std::holds_alternative<LinearOp>(op.kind); });
}

// For sequences that are one batch of many rows.
std::vector<float> batch_logits(Program& program, std::int64_t sequences, std::int64_t length) {
  const auto cache = program.make_cache();
  cache->reserve(sequences * ((length + kKvBlock - 1) / kKvBlock));
  Batch batch;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < sequences; ++i) {
    batch.sequences.push_back({.sequence = cache->add_sequence(), .first_row = i * length, .rows = length});
    for (std::int64_t j = 0; j < length; ++j) {
      rows.push_back(static_cast<std::int64_t>(rows.size()));
      batch.ids.push_back(static_cast<TokenId>((7 * i + 3 * j + 1) % program.plan().vocab));
      batch.positions.push_back(static_cast<std::int32_t>(j));
    }
  }
  program.run(batch, *cache);
  std::vector<float> logits(rows.size() * static_cast<std::size_t>(program.plan().vocab));
  program.head(rows, LogitsSink{logits});
  return logits;
}

struct LibraryCase {
  const char* name;
  const char* model;
  Precision (*precision)();
  double bound;  // relative to the deviation of logits
};
void PrintTo(const LibraryCase& what, std::ostream* out) {
  *out << what.name;
}
Precision precision_with(const char* name, const RunConfig& config) {
  Precision precision = precision_from_name(name);
  apply_to(precision, config);
  return precision;
}
Precision in_float16(const char* name) {
  Precision precision = precision_from_name(name);
  use_float16(precision);
  return precision;
}
// Sums in another order; of 16 bits an activation that rounds the other way; of 4-bit codes weights that are
// rounded behind their scale.
const LibraryCase kLibraryCases[] = {
    {"float32", "base", [] { return precision_from_name("float32"); }, 1e-5},
    {"float32_llama", "llama_grouped", [] { return precision_from_name("float32"); }, 1e-5},
    {"tf32", "llama_grouped",
     [] { return precision_with("float32", {.float32_matmul = Float32Matmul::tf32}); }, 1e-2},
    {"float16", "base", [] { return in_float16("float16"); }, 1e-2},
    {"bfloat16", "base", [] { return precision_from_name("bfloat16"); }, 5e-2},
    {"bfloat16_llama", "llama_grouped", [] { return precision_from_name("bfloat16"); }, 5e-2},
    {"nf4", "base", [] { return precision_from_name("nf4"); }, 1e-5},
    {"fp4_dq", "llama_grouped", [] { return precision_from_name("fp4-dq"); }, 1e-5},
    {"int4_float16", "llama_grouped", [] { return in_float16("int4-g128"); }, 5e-2},
    {"nf4_bfloat16", "base", [] { return precision_with("nf4", {.dtype = DType::bf16}); }, 1e-1},
};

class CudaLibraryModel : public testing::TestWithParam<LibraryCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, CudaLibraryModel, testing::ValuesIn(kLibraryCases),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(CudaLibraryModel, HasTheLogitsOfOwnKernels) {
  const GpuWithLibrary gpu, own(CudaOptions{});
  const Model model = gpu.model(GetParam().model, GetParam().precision()),
              reference = own.model(GetParam().model, GetParam().precision());
  constexpr std::int64_t kSequences = 3, kLength = 44;
  const std::vector<float> got = batch_logits(model.program(), kSequences, kLength),
                           want = batch_logits(reference.program(), kSequences, kLength);
  EXPECT_EQ(gpu.runtime->products(), products_of(model.program().plan()));
  EXPECT_EQ(own.runtime->products(), 0);
  const double error = test::largest_difference(got, want) / test::standard_deviation_of(want);
  RecordProperty("error", fmt::format("{:.1e}", error));
  EXPECT_LE(error, GetParam().bound);
  // Fewer rows have the kernels and the bits of the others.
  EXPECT_EQ(batch_logits(model.program(), 1, 20), batch_logits(reference.program(), 1, 20));
  EXPECT_EQ(gpu.runtime->products(), products_of(model.program().plan()));
}

TEST_P(CudaLibraryModel, TakesWhatItPredicts) {
  const GpuWithLibrary gpu, own(CudaOptions{});
  const Model model = gpu.model(GetParam().model, GetParam().precision());
  Program& program = model.program();
  const MemoryReport memory = program.memory();
  EXPECT_EQ(gpu.runtime->live_bytes(), (memory.weights + memory.packing + memory.workspace).value);
  const PredictedMemory predicted = gpu.backend->predict(program.plan(), 44);
  EXPECT_EQ(predicted.program.workspace, memory.workspace);
  std::int64_t largest = 0;
  for (const Op& op : program.plan().ops)
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) {
      const WeightSpec& weight = program.plan().weight(linear->weight);
      const bool is_half = weight.format == formats::kFloat16 || weight.format == formats::kBfloat16 ||
                           (is_four_bit(weight.format) && weight.arithmetic.multiply != Multiply::float32);
      largest = std::max(largest, weight.rows * cuda::round_up(weight.columns, 64) * (is_half ? 2 : 4));
    }
  EXPECT_EQ(
      predicted.program.workspace.value - own.backend->predict(program.plan(), 44).program.workspace.value,
      cuda::round_up(largest, 256) + (std::int64_t{32} << 20));
  gpu.runtime->reset_peak();
  const std::int64_t before = gpu.runtime->live_bytes();
  batch_logits(program, 3, 44);
  EXPECT_EQ(gpu.runtime->memory_info().peak.value - before, 3 * program.cache_bytes(44).value);
}

TEST(CudaLibrary, LeavesInt8ToOwnKernels) {
  const GpuWithLibrary gpu, own(CudaOptions{});
  const Precision precision = precision_from_name("int8-dynamic");
  const Model model = gpu.model("base", precision), reference = own.model("base", precision);
  EXPECT_EQ(batch_logits(model.program(), 3, 44), batch_logits(reference.program(), 3, 44));
  EXPECT_EQ(gpu.runtime->products(), 0);
  EXPECT_EQ(model.program().memory().workspace, reference.program().memory().workspace);
}

TEST(CudaLibrary, IsPartOfRecordedSteps) {
  const GpuWithLibrary gpu, own(CudaOptions{});
  const Precision precision = precision_from_name("float32");
  const Model model = gpu.model("base", precision), reference = own.model("base", precision);
  std::vector<std::vector<TokenId>> prompts, ids[2];
  for (TokenId i = 0; i < static_cast<TokenId>(cuda::kLibraryRows); ++i) prompts.push_back({i % 100});
  const GenerationOptions options{.max_new_tokens = 5};
  const GenerationTrace traces[] = {generate(*gpu.backend, model.program(), prompts, options),
                                    generate(*own.backend, reference.program(), prompts, options)};
  for (int i = 0; i < 2; ++i)
    for (const SequenceTrace& sequence : traces[i].sequences) ids[i].push_back(sequence.ids);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_GT(gpu.runtime->replays(), 0);
  // For the prompts and four steps, unless sequences end before.
  EXPECT_GE(gpu.runtime->products(), 3 * products_of(model.program().plan()));
}

TEST(CudaLibrary, IsRefusedInASentence) {
  cuda::EmulatedDevice device;
  device.has_gemm_library = false;
  const Device gpu{Device::Kind::cuda, 0};
  EXPECT_NE(make_cuda_backend(gpu, cuda::make_emulated_runtime(device)), nullptr);
  try {
    make_cuda_backend(gpu, cuda::make_emulated_runtime(device), kByLibrary);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuda_gemm"), std::string::npos) << error.what();
  }
  BackendOptions options;
  options.cuda_gemm = CudaGemm::cublaslt;
  try {
    make_backend(Device{}, options);
    FAIL();
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "cuda_gemm");
    EXPECT_EQ(error.problem(), "cublaslt applies to GPUs; the device is a CPU");
  }
}

TEST(CudaLibrary, AuditsStateATolerance) {
  std::vector<Prompt> prompts;
  for (TokenId i = 1; i <= 3; ++i) prompts.emplace_back(std::vector<TokenId>(44, i));
  for (const auto& [preset, bound] : {std::pair(Preset::float32, 1e-3), std::pair(Preset::float16, 0.1)}) {
    const GpuWithLibrary gpu;
    LoadOptions options;
    options.shared_backend = gpu.backend;
    options.needs_tokenizer = false;
    RunConfig config;
    config.precision = preset;
    config.cuda_gemm = CudaGemm::cublaslt;
    const LoadedModel loaded =
        load_model_and_tokenizer({test::fixture_model("base").string()}, config, options);
    EXPECT_EQ(loaded.dtype_label, std::string(name_of(preset)) + ", cuBLASLt");
    int within = 0;
    for (const AuditRow& row : audit_equivalence(loaded, prompts, 2)) {
      EXPECT_FALSE(row.has_failed()) << row.what << ": " << row.first_divergence;
      EXPECT_GT(row.tolerance, 0);
      EXPECT_LT(row.tolerance, 10 * bound);
      within += row.verdict == AuditVerdict::within_tolerance ? 1 : 0;
    }
    EXPECT_GT(within, 0);
  }
}

}  // namespace
}  // namespace assay
