// The CUDA backend's host part over the emulated device: models against the CPU backend and Transformers.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/calibrate.h"
#include "assay/session/load.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/family_like_plans.h"
#include "support/family_models.h"
#include "support/fixtures.h"

namespace assay {
namespace {

struct EmulatedGpu {
  std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
  std::shared_ptr<Backend> backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime);
};

struct Fixture {
  std::vector<TokenId> ids;
  std::vector<float> logits;
};
Fixture fixture_of(const std::string& name) {
  const SafetensorsFile file(test::fixture_model(name) / "expected.safetensors");
  return {test::read_ids(file, "input_ids"), test::read_floats(file, "logits")};
}

// Calibrated on the CPU, where that is needed: the same ranges for every backend.
Model model_on(const std::shared_ptr<Backend>& backend, const std::string& name, const Precision& precision) {
  const auto folder = std::make_shared<const ModelFolder>(test::fixture_model(name));
  Calibration calibration;
  if (precision.needs_calibration())
    calibration = calibrate(folder, test::cpu_backend(Isa::scalar), precision, fixture_of(name).ids);
  return Model::load(folder, backend, precision, calibration);
}

// Relative to the deviation of `want`.
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  return test::largest_difference(got, want) / test::standard_deviation_of(want);
}

std::vector<TokenId> first_of(const std::vector<TokenId>& ids, std::size_t count) {
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()))};
}

class CudaModel : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Basic, CudaModel,
                         testing::Values("base", "odd_heads", "untied", "n_inner", "gelu_erf", "relu",
                                         "inverse_layer", "no_scale", "llama_grouped", "llama_scaled",
                                         "llama_biased"),
                         [](const auto& p) { return std::string(p.param); });
INSTANTIATE_TEST_SUITE_P(OfFamilies, CudaModel, testing::ValuesIn(test::kFamilyModels),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(CudaModel, HasTheLogitsOfTheCpuAndOfTransformers) {
  const Fixture fixture = fixture_of(GetParam());
  const Precision precision = precision_from_name("float32");
  const EmulatedGpu gpu;
  const Model model = model_on(gpu.backend, GetParam(), precision),
              cpu = model_on(test::cpu_backend(Isa::scalar), GetParam(), precision);
  // Few positions: thousands of emulated threads compute each. Where angles depend on the length of the text,
  // all.
  const bool is_length_known = rotary_switches(model.program().plan()).empty();
  const std::vector<TokenId> ids = is_length_known ? first_of(fixture.ids, 24) : fixture.ids;
  const std::vector<float> got = test::all_logits(model.program(), ids);
  EXPECT_LE(relative_error(got, test::all_logits(cpu.program(), ids)), 1e-5);
  EXPECT_LE(relative_error(got, {fixture.logits.begin(),
                                 fixture.logits.begin() + static_cast<std::ptrdiff_t>(got.size())}),
            2e-5);
}

TokenId next_token_of(Program& program, KvCache& cache, int sequence, const std::vector<TokenId>& ids) {
  Batch batch;
  const auto past = static_cast<std::int32_t>(cache.length(sequence));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    batch.ids.push_back(ids[i]);
    batch.positions.push_back(past + static_cast<std::int32_t>(i));
  }
  const auto rows = static_cast<std::int64_t>(ids.size()), last = rows - 1;
  batch.sequences = {{.sequence = sequence, .first_row = 0, .rows = rows}};
  batch.wants_all = false;
  batch.wanted = {last};
  program.run(batch, cache);
  TokenId id = -1;
  program.head(std::span(&last, 1), ArgmaxSink{std::span(&id, 1)});
  return id;
}

class CudaGreedy : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, CudaGreedy,
                         testing::Values("qwen3_heads", "gpt_neox_parallel", "gemma3_scaled", "falcon_alibi",
                                         "opt_projected", "phi3_longrope"),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(CudaGreedy, WritesTheTokensOfTransformersWithAndWithoutTheCache) {
  const SafetensorsFile file(test::fixture_model(GetParam()) / "expected.safetensors");
  const std::vector<TokenId> prompt = test::read_ids(file, "prompt_ids"),
                             want = first_of(test::read_ids(file, "greedy_ids"), 5);
  const EmulatedGpu gpu;
  const Model model = model_on(gpu.backend, GetParam(), precision_from_name("float32"));
  Program& program = model.program();
  const auto cache = program.make_cache();
  const int sequence = cache->add_sequence();
  std::vector<TokenId> cached{next_token_of(program, *cache, sequence, prompt)}, all = prompt, uncached;
  while (cached.size() < want.size())
    cached.push_back(next_token_of(program, *cache, sequence, {cached.back()}));
  while (uncached.size() < want.size()) {
    const auto fresh = program.make_cache();
    uncached.push_back(next_token_of(program, *fresh, fresh->add_sequence(), all));
    all.push_back(uncached.back());
  }
  EXPECT_EQ(cached, want);
  EXPECT_EQ(uncached, want);
}

// Against the CPU in the same precision, or in float32 where the CPU computes otherwise. Bounds are a few
// times what is seen; float16 and bfloat16 round activations to 11 and 8 bits.
struct Case {
  const char* name;
  const char* model;
  Precision (*precision)();
  const char* reference;
  double bound;
};
void PrintTo(const Case& what, std::ostream* out) {
  *out << what.name;
}
Precision half_of(const char* name) {
  Precision precision = precision_from_name(name);
  use_float16(precision);
  return precision;
}
Precision brain_of(const char* name) {
  Precision precision = precision_from_name(name);
  set_dtype(precision, DType::bf16);
  return precision;
}
Precision with(const char* name, const RunConfig& config) {
  Precision precision = precision_from_name(name);
  apply_to(precision, config);
  return precision;
}
const Case kCases[] = {
    {"float16", "base", [] { return half_of("float16"); }, "float32", 2e-2},
    {"float16_llama", "llama_grouped", [] { return half_of("float16"); }, "float32", 2e-2},
    {"bfloat16", "base", [] { return precision_from_name("bfloat16"); }, "bfloat16", 1e-1},
    {"bfloat16_llama", "llama_grouped", [] { return precision_from_name("bfloat16"); }, "bfloat16", 1e-1},
    {"int8", "base", [] { return precision_from_name("int8-dynamic"); }, "int8-dynamic", 1e-5},
    {"int8_llama", "llama_grouped", [] { return precision_from_name("int8-dynamic"); }, "int8-dynamic", 1e-5},
    {"int8_per_tensor", "base",
     [] {
       Precision precision = precision_from_name("int8-dynamic");
       set_input_scale(precision, InputScale::per_tensor);
       return precision;
     },
     nullptr, 5e-4},
    {"llm_int8", "base", [] { return precision_from_name("llm-int8"); }, "llm-int8", 1e-5},
    {"llm_int8_outliers", "llama_grouped",
     [] {
       Precision precision = precision_from_name("llm-int8");
       set_outlier_threshold(precision, 1.5);
       return precision;
     },
     nullptr, 5e-4},
    {"int8_static", "base", [] { return precision_from_name("int8-static"); }, nullptr, 1e-5},
    {"int8_static_llama", "llama_grouped", [] { return precision_from_name("int8-static"); }, nullptr, 1e-5},
    {"int8_smooth", "llama_grouped", [] { return with("int8-static", {.smooth_quant = 0.5}); }, nullptr,
     1e-5},
    {"kv_int8", "llama_grouped", [] { return with("float32", {.kv_cache = KvFormat::int8}); }, nullptr, 1e-5},
    {"kv_bfloat16", "base", [] { return with("float32", {.kv_cache = KvFormat::bfloat16}); }, nullptr, 1e-5},
    {"head_nf4", "untied", [] { return with("int8-dynamic", {.quantize_head = formats::kNf4}); }, nullptr,
     1e-5},
    {"tf32", "llama_grouped", [] { return with("float32", {.float32_matmul = Float32Matmul::tf32}); },
     "float32", 1e-2},
    {"nf4", "base", [] { return precision_from_name("nf4"); }, "nf4", 1e-5},
    {"nf4_llama", "llama_grouped", [] { return precision_from_name("nf4"); }, "nf4", 1e-5},
    {"fp4_dq", "base", [] { return precision_from_name("fp4-dq"); }, "fp4-dq", 1e-5},
    {"int4", "llama_grouped", [] { return precision_from_name("int4-g128"); }, "int4-g128", 1e-5},
    {"nf4_float16", "llama_grouped", [] { return half_of("nf4"); }, "nf4", 5e-2},
    {"nf4_bfloat16", "llama_grouped", [] { return brain_of("nf4"); }, nullptr, 2e-1},
};

class CudaPrecision : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, CudaPrecision, testing::ValuesIn(kCases),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(CudaPrecision, IsNearTheCpu) {
  const Case& what = GetParam();
  const std::vector<TokenId> ids = first_of(fixture_of(what.model).ids, 24);
  const Precision precision = what.precision();
  const EmulatedGpu gpu;
  const Model model = model_on(gpu.backend, what.model, precision),
              cpu = model_on(test::cpu_backend(Isa::scalar), what.model,
                             what.reference == nullptr ? precision : precision_from_name(what.reference));
  const double error =
      relative_error(test::all_logits(model.program(), ids), test::all_logits(cpu.program(), ids));
  RecordProperty("error", fmt::format("{:.1e}", error));
  EXPECT_LE(error, what.bound);
  if (precision.weights != formats::kLlmInt8) return;
  EXPECT_EQ(model.program().outlier_share(), cpu.program().outlier_share());
}

TEST_P(CudaPrecision, TakesWhatItPredicts) {
  const EmulatedGpu gpu;
  const Model model = model_on(gpu.backend, GetParam().model, GetParam().precision());
  Program& program = model.program();
  const MemoryReport own = program.memory();
  EXPECT_EQ(gpu.runtime->live_bytes(), (own.weights + own.packing + own.workspace).value);
  const PredictedMemory predicted = gpu.backend->predict(program.plan(), 70);
  EXPECT_EQ(predicted.program.weights, own.weights);
  EXPECT_EQ(predicted.program.packing, own.packing);
  EXPECT_EQ(predicted.program.workspace, own.workspace);
  EXPECT_GE(own.packing.value, 0);
  const std::int64_t before = gpu.runtime->live_bytes();
  const auto cache = program.make_cache();
  next_token_of(program, *cache, cache->add_sequence(), {1, 2, 3});
  EXPECT_EQ(cache->bytes(), program.cache_bytes(3));
  EXPECT_EQ(gpu.runtime->live_bytes() - before, cache->bytes().value);
  EXPECT_EQ(predicted.kv_cache, program.cache_bytes(70));
}

// Neighbours, padding, steps over the cache and rows left out change no bit.
TEST_P(CudaPrecision, HasBitsThatDependOnTheSequenceAlone) {
  const Precision precision = GetParam().precision();
  const bool mixes_rows =
      precision.input_scale == InputScale::per_tensor || precision.weights == formats::kLlmInt8;
  if (mixes_rows) GTEST_SKIP() << "its scheme looks at all rows of a batch";
  const EmulatedGpu gpu;
  const Model model = model_on(gpu.backend, GetParam().model, precision);
  Program& program = model.program();
  const std::vector<TokenId> ids = first_of(fixture_of(GetParam().model).ids, 9);
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  const std::vector<float> whole = test::all_logits(program, ids);
  const std::vector<float> want(whole.end() - static_cast<std::ptrdiff_t>(vocab), whole.end());

  // Another sequence of 3 tokens, then ours behind 4 tokens of padding, of which the last row is wanted.
  const auto cache = program.make_cache();
  Batch batch;
  batch.ids = {5, 6, 7, 0, 0, 0, 0};
  batch.positions = {0, 1, 2, 0, 0, 0, 0};
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    batch.ids.push_back(ids[i]);
    batch.positions.push_back(static_cast<std::int32_t>(i));
  }
  const int other = cache->add_sequence(), padded = cache->add_sequence();
  batch.sequences = {{.sequence = other, .first_row = 0, .rows = 3},
                     {.sequence = padded,
                      .first_row = 3,
                      .rows = static_cast<std::int64_t>(batch.ids.size()) - 3,
                      .first_key = 4}};
  batch.wants_all = false;
  batch.wanted = {2, static_cast<std::int64_t>(batch.ids.size()) - 1};
  program.run(batch, *cache);
  std::vector<float> got(vocab);
  program.head(std::span(&batch.wanted.back(), 1), LogitsSink{got});
  EXPECT_EQ(got, std::vector<float>(whole.end() - static_cast<std::ptrdiff_t>(2 * vocab),
                                    whole.end() - static_cast<std::ptrdiff_t>(vocab)));
  const std::int64_t unwanted = 0;
  EXPECT_THROW(program.head(std::span(&unwanted, 1), LogitsSink{got}), Error);

  Batch last;
  last.ids = {8, ids.back()};
  last.positions = {3, static_cast<std::int32_t>(ids.size()) - 1};
  last.sequences = {{.sequence = other, .first_row = 0, .rows = 1},
                    {.sequence = padded, .first_row = 1, .rows = 1, .first_key = 4}};
  program.run(last, *cache);
  const std::int64_t row = 1;
  program.head(std::span(&row, 1), LogitsSink{got});
  EXPECT_EQ(got, want);
}

// Every ingredient of the vocabulary of plans, some of which no family has together.
class CudaPlans : public testing::TestWithParam<test::Ingredients> {};
INSTANTIATE_TEST_SUITE_P(All, CudaPlans, testing::ValuesIn(test::kPlans),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(CudaPlans, HaveTheLogitsOfTheCpu) {
  const test::HandWrittenPlan p = test::written(GetParam());
  const EmulatedGpu gpu;
  const auto program = gpu.backend->prepare(p.plan, p),
             cpu = test::cpu_backend(Isa::scalar)->prepare(p.plan, p);
  std::vector<TokenId> ids(20);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 7 % test::kPlanVocab);
  EXPECT_LE(relative_error(test::all_logits(*program, ids), test::all_logits(*cpu, ids)), 1e-5);
}

TEST(CudaHead, ScoresTargetsAsTheCpuDoes) {
  const EmulatedGpu gpu;
  const Precision precision = precision_from_name("float32");
  std::vector<double> scores[2];
  int i = 0;
  for (const auto& backend : {gpu.backend, test::cpu_backend(Isa::scalar)}) {
    const Model model = model_on(backend, "gemma2_capped", precision);
    const auto cache = model.program().make_cache();
    const std::vector<TokenId> targets{2, 3, 4};
    Batch batch;
    batch.ids = {1, 2, 3};
    batch.positions = {0, 1, 2};
    batch.sequences = {{.sequence = cache->add_sequence(), .first_row = 0, .rows = 3}};
    model.program().run(batch, *cache);
    scores[i].resize(3);
    const std::vector<std::int64_t> rows{0, 1, 2};
    model.program().head(rows, LogProbabilitySink{targets, scores[i++]});
  }
  for (std::size_t row = 0; row < 3; ++row) EXPECT_NEAR(scores[0][row], scores[1][row], 1e-5);
}

TEST(CudaProgram, ShowsTheInputsOfItsProducts) {
  const EmulatedGpu gpu;
  std::vector<std::vector<float>> seen[2];
  int i = 0;
  for (const auto& backend : {gpu.backend, test::cpu_backend(Isa::scalar)}) {
    const Model model = model_on(backend, "llama_grouped", precision_from_name("float32"));
    model.program().observe_inputs([&](const ObservedInput& input) {
      std::vector<float>& x = seen[i].emplace_back();
      for (std::int64_t row = 0; row < input.rows; ++row)
        x.insert(x.end(), input.x + row * input.stride, input.x + row * input.stride + input.columns);
    });
    const auto cache = model.program().make_cache();
    next_token_of(model.program(), *cache, cache->add_sequence(), {1, 2, 3});
    ++i;
  }
  ASSERT_EQ(seen[0].size(), seen[1].size());
  ASSERT_GT(seen[0].size(), 4U);
  for (std::size_t product = 0; product < seen[0].size(); ++product)
    EXPECT_LE(test::largest_difference(seen[0][product], seen[1][product]), 1e-4) << product;
}

TEST(CudaProgram, ProfilesItsPhases) {
  const EmulatedGpu gpu;
  const Model model = model_on(gpu.backend, "base", precision_from_name("float32"));
  const auto cache = model.program().make_cache();
  model.program().begin_profile();
  next_token_of(model.program(), *cache, cache->add_sequence(), {1, 2});
  const StepProfile profile = model.program().end_profile();
  for (const StepProfile::Part& part : profile.parts) EXPECT_GT(part.time.value, 0);
  const Event begin = gpu.backend->record();
  EXPECT_GE(gpu.backend->between(begin, gpu.backend->record()).value, 0);
}

std::string why_refused(Backend& backend, const test::HandWrittenPlan& p) {
  try {
    backend.prepare(p.plan, p);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CudaProgram, RefusesWhatItDoesNotRunInASentence) {
  const EmulatedGpu gpu;
  const test::HandWrittenPlan plain = test::written(test::kPlans[0]);
  const auto refused = [&](const auto& change, const char* want) {
    test::HandWrittenPlan p = plain;
    change(p.plan);
    const std::string why = why_refused(*gpu.backend, p);
    EXPECT_NE(why.find(want), std::string::npos) << why;
    EXPECT_THROW(gpu.backend->predict(p.plan, 1), Error) << want;
    EXPECT_EQ(gpu.runtime->live_bytes(), 0);
  };
  refused([](Plan& p) { p.has_candidate_search = true; }, "does not search the LM head in int8");
  refused([](Plan& p) { p.head.product.has_int8_activations = true; }, "does not multiply int8 activations");
  refused([](Plan& p) { p.weights[p.head.product.weight].arithmetic.multiply = Multiply::bfloat16_x3; },
          "expected float32 or tf32 on a GPU, found 3 x bfloat16");
  refused([](Plan& p) { p.head.soft_cap = -1; }, "lm_head: the CUDA backend does not run a soft cap");
  refused([](Plan& p) { p.head.scale = 0; }, "logits whose scale is not a positive number");
  refused([](Plan& p) { p.head_dim = 513; }, "attention heads of 513 elements");
}

TEST(CudaProgram, SaysWhatTheDeviceIsTooSmallFor) {
  cuda::EmulatedDevice device;
  device.facts.memory_bytes = 1 << 14;
  const std::shared_ptr<cuda::Runtime> runtime = cuda::make_emulated_runtime(device);
  const test::HandWrittenPlan p = test::written(test::kPlans[0]);
  const std::string why = why_refused(*make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime), p);
  EXPECT_NE(why.find("not enough GPU memory for the weights and the activations"), std::string::npos) << why;
}

TEST(CudaProgram, RefusesBatchesBeyondItsBounds) {
  const EmulatedGpu gpu;
  const Model model = model_on(gpu.backend, "base", precision_from_name("float32"));
  const auto cache = model.program().make_cache();
  const int sequence = cache->add_sequence();
  EXPECT_THROW(next_token_of(model.program(), *cache, sequence, {-1}), Error);
  EXPECT_THROW(
      next_token_of(model.program(), *cache, sequence, {static_cast<TokenId>(model.program().plan().vocab)}),
      Error);
  EXPECT_THROW(next_token_of(model.program(), *cache, sequence, std::vector<TokenId>(513)), Error);
}

TEST(CudaDevice, GoesWithNoInstructionSet) {
  BackendOptions options;
  options.is_isa_forced = true;
  try {
    make_backend(Device{Device::Kind::cuda, 0}, options);
    FAIL();
  } catch (const FieldError& error) {
    EXPECT_EQ(std::string(error.what()), "isa: scalar applies to CPUs; the device is cuda:0");
  }
}

}  // namespace
}  // namespace assay
