// int8-dynamic with one scale for all inputs of a product: against ONNX Runtime's dynamic quantization
// (tools/make_dynamic_int8_fixtures.py), and what depends on the batch for it.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/quant/precision.h"
#include "assay/session/audit.h"
#include "assay/session/load.h"
#include "support/fixtures.h"

namespace assay {
namespace {

Precision per_tensor() {
  Precision precision = precision_from_name("int8-dynamic");
  set_input_scale(precision, InputScale::per_tensor);
  return precision;
}

TEST(DynamicInt8, LogitsAreThoseOfOnnxRuntime) {
  const auto folder = std::make_shared<const ModelFolder>(test::fixture_model("base"));
  const SafetensorsFile expected(test::fixture_model("base") / "expected.safetensors");
  const auto ids = test::read_ids(expected, "input_ids");
  const auto want =
      test::read_floats(SafetensorsFile(test::fixture("dynamic_int8.safetensors")), "model.logits");
  // A last bit of an input may move its code.
  const double tolerance = 4e-3 * test::standard_deviation_of(want);
  ASSERT_GT(test::rms_difference(test::read_floats(expected, "logits"), want), 4 * tolerance);
  for (const Isa isa : test::usable_isas()) {
    const auto backend = test::cpu_backend(isa);
    const auto logits = [&](const Precision& precision) {
      return test::all_logits(Model::load(folder, backend, precision).program(), ids);
    };
    EXPECT_LE(test::rms_difference(logits(per_tensor()), want), tolerance) << name_of(isa);
    EXPECT_GT(test::rms_difference(logits(precision_from_name("int8-dynamic")), want), 2 * tolerance)
        << name_of(isa);
  }
}

LoadedModel load_demo(Preset precision, InputScale input_scale, std::optional<DType> dtype = {}) {
  return load_model_and_tokenizer({test::demo_model().string()},
                                  {.precision = precision, .dtype = dtype, .input_scale = input_scale});
}

TEST(DynamicInt8, OneScaleForAllTokensDiffersByDefinition) {
  const std::vector<Prompt> prompts{"It was a dark night", "The old man sat down by the fire and"};
  const LoadedModel loaded = load_demo(Preset::int8_dynamic, InputScale::per_tensor);
  EXPECT_EQ(loaded.dtype_label, "int8-dynamic, input scale per tensor");
  std::size_t differ = 0;
  for (const AuditRow& row : audit_equivalence(loaded, prompts, 4)) {
    EXPECT_TRUE(row.verdict == AuditVerdict::equal || row.verdict == AuditVerdict::differs_by_definition)
        << name_of(row.verdict);
    differ += row.verdict == AuditVerdict::differs_by_definition ? 1 : 0;
  }
  EXPECT_GT(differ, 0U);
  for (const AuditRow& row :
       audit_equivalence(load_demo(Preset::int8_dynamic, InputScale::per_token), prompts, 4))
    EXPECT_EQ(row.verdict, AuditVerdict::equal) << row.what;
}

TEST(DynamicInt8, TheNumberOfThreadsChangesNothing) {
  const std::vector<TokenId> ids{5, 80, 9, 700, 41, 3, 3, 250, 18, 99, 1000, 64};
  std::vector<float> first;
  for (const int threads : {1, 2}) {
    const LoadedModel loaded = load_model_and_tokenizer(
        {test::demo_model().string()},
        {.precision = Preset::int8_dynamic, .input_scale = InputScale::per_tensor, .threads = threads});
    const auto logits = test::all_logits(loaded.model->program(), ids);
    if (first.empty()) first = logits;
    EXPECT_EQ(logits, first) << threads;
  }
}

TEST(DynamicInt8, InputScaleGoesWithInt8DynamicAlone) {
  for (const Preset precision : {Preset::float32, Preset::int8_static, Preset::llm_int8, Preset::nf4})
    EXPECT_THROW(load_demo(precision, InputScale::per_tensor), FieldError) << name_of(precision);
  EXPECT_THROW(load_demo(Preset::int8_dynamic, InputScale::calibrated), FieldError);
  EXPECT_EQ(load_demo(Preset::int8_dynamic, InputScale::per_token, DType::bf16).dtype_label,
            "int8-dynamic, dtype bfloat16, input scale per token");
}

}  // namespace
}  // namespace assay
