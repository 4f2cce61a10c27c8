// int8-dynamic with one scale for all inputs of a product: against ONNX Runtime's dynamic quantization
// (tools/make_dynamic_int8_fixtures.py), and what depends on the batch for it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/case.h"
#include "assay/model/model.h"
#include "assay/quant/precision.h"
#include "assay/session/audit.h"
#include "support/fixtures.h"

namespace assay {
namespace {

Precision per_tensor() {
  Precision precision = precision_from_name("int8-dynamic");
  set_input_scale(precision, "per-tensor");
  return precision;
}

double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

TEST(DynamicInt8, LogitsAreThoseOfOnnxRuntime) {
  const auto folder = std::make_shared<const ModelFolder>(test::fixture_model("base"));
  const SafetensorsFile expected(test::fixture_model("base") / "expected.safetensors");
  const auto ids = test::read_ids(expected, "input_ids");
  const auto want =
      test::read_floats(SafetensorsFile(test::fixture("dynamic_int8.safetensors")), "model.logits");
  // A last bit of an input may move its code.
  const double tolerance = 4e-3 * test::standard_deviation_of(want);
  ASSERT_GT(rms_difference(test::read_floats(expected, "logits"), want), 4 * tolerance);
  for (const Isa isa : test::usable_isas()) {
    const auto backend = test::cpu_backend(isa);
    const auto logits = [&](const Precision& precision) {
      return test::all_logits(Model::load(folder, backend, precision).program(), ids);
    };
    EXPECT_LE(rms_difference(logits(per_tensor()), want), tolerance) << name_of(isa);
    EXPECT_GT(rms_difference(logits(precision_from_name("int8-dynamic")), want), 2 * tolerance)
        << name_of(isa);
  }
}

LoadedModel load_demo(const std::string& precision, const std::string& input_scale, const char* remainder) {
  LoadOptions options;
  options.input_scale = input_scale;
  options.remainder = remainder;
  return load_model_and_tokenizer({test::demo_model().string()}, precision, Device{}, options);
}

TEST(DynamicInt8, OneScaleForAllTokensDiffersByDefinition) {
  const std::vector<Prompt> prompts{"It was a dark night", "The old man sat down by the fire and"};
  const LoadedModel loaded = load_demo("int8-dynamic", "per-tensor", "");
  EXPECT_EQ(loaded.dtype_label, "int8-dynamic (input scale per tensor)");
  std::size_t differ = 0;
  for (const AuditRow& row : audit_equivalence(loaded, prompts, 4)) {
    EXPECT_TRUE(row.verdict == AuditVerdict::equal || row.verdict == AuditVerdict::differs_by_definition)
        << name_of(row.verdict);
    differ += row.verdict == AuditVerdict::differs_by_definition ? 1 : 0;
  }
  EXPECT_GT(differ, 0U);
  for (const AuditRow& row : audit_equivalence(load_demo("int8-dynamic", "per-token", ""), prompts, 4))
    EXPECT_EQ(row.verdict, AuditVerdict::equal) << row.what;
}

TEST(DynamicInt8, TheNumberOfThreadsChangesNothing) {
  const std::vector<TokenId> ids{5, 80, 9, 700, 41, 3, 3, 250, 18, 99, 1000, 64};
  std::vector<float> first;
  for (const int threads : {1, 2}) {
    LoadOptions options;
    options.input_scale = "per-tensor";
    options.backend.threads = threads;
    const LoadedModel loaded =
        load_model_and_tokenizer({test::demo_model().string()}, "int8-dynamic", Device{}, options);
    const auto logits = test::all_logits(loaded.model->program(), ids);
    if (first.empty()) first = logits;
    EXPECT_EQ(logits, first) << threads;
  }
}

TEST(DynamicInt8, FlagGoesWithInt8DynamicAlone) {
  for (const char* precision : {"float32", "int8-static", "llm-int8", "nf4"})
    EXPECT_THROW(load_demo(precision, "per-tensor", ""), UsageError) << precision;
  EXPECT_THROW(load_demo("int8-dynamic", "per-row", ""), UsageError);
  EXPECT_EQ(load_demo("int8-dynamic", "PER-TOKEN", "bfloat16").dtype_label,
            "int8-dynamic (remainder bfloat16)");
  Configuration base;
  base.input_scale = "per-tensor";
  EXPECT_EQ(configuration_from_text("nf4", base).input_scale, "");
  EXPECT_EQ(configuration_from_text("int8-static", base).input_scale, "");
  const Configuration kept = configuration_from_text("int8+head", base);
  EXPECT_EQ(kept.label(), "int8-dynamic+head:int8, input scale per-tensor");
  EXPECT_EQ(configuration_from_json(to_json(kept)), kept);
}

}  // namespace
}  // namespace assay
