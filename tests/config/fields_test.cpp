// The table of the configuration's fields: whatever a field is, it is told apart, written and read back.
#include "assay/config/fields.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "assay/base/error.h"
#include "assay/config/fields_json.h"
#include "support/field_values.h"
#include "support/program.h"

namespace assay {
namespace {

TEST(Fields, EachAloneTellsConfigurationsApart) {
  const RunConfig plain;
  std::set<std::string> keys{plain.key()};
  for (const Field& field : fields()) {
    SCOPED_TRACE(field.key);
    RunConfig other;
    field.parse(other, test::value_of(field));
    EXPECT_TRUE(field.is_set(other));
    EXPECT_EQ(field.print(other), std::vector<std::string>{test::value_of(field)});
    EXPECT_NE(other, plain);
    EXPECT_TRUE(keys.insert(other.key()).second) << other.key();
    EXPECT_NE(other.label(), plain.label());
    const nlohmann::ordered_json json = to_json(other);
    EXPECT_EQ(json.size(), 1U);
    EXPECT_EQ(run_config_from_json(nlohmann::ordered_json::parse(json.dump())), other) << json;
    check_values(other);
    field.clear(other);
    EXPECT_EQ(other, plain);
  }
}

TEST(Fields, AllTogetherSurviveJson) {
  RunConfig all;
  for (const Field& field : fields()) field.parse(all, test::value_of(field));
  all.include.emplace_back("c_attn");
  const nlohmann::ordered_json json = to_json(all);
  EXPECT_EQ(json.size(), fields().size());
  EXPECT_EQ(run_config_from_json(json), all);
  EXPECT_EQ(json["threads"], 3);
  EXPECT_EQ(json["smooth_quant"], 0.25);
  EXPECT_EQ(json["allow_non_finite"], true);
  EXPECT_EQ(json["include"].size(), 2U);
}

// One list of two is not two lists of one, and a text cannot end its own value.
TEST(Fields, KeysHaveNoTwoReadings) {
  const std::vector<RunConfig> unequal{
      {.include = {"a", "b"}},          {.include = {"a,b"}},
      {.include = {"a\",\"b"}},         {.include = {"a"}, .exclude = {"b"}},
      {.include = {"a\" exclude=\"b"}}, {.calibration = "a"},
      {.calibration = "a\\"},           {.calibration = "a\\\" threads=\"1"}};
  std::set<std::string> keys;
  for (const RunConfig& config : unequal) keys.insert(config.key());
  EXPECT_EQ(keys.size(), unequal.size());
}

TEST(Fields, WhatTheyDoNotAllowNamesThem) {
  for (const auto& [key, values] : std::map<std::string, std::vector<std::string>>{
           {"precision", {"", "nf5", "nf4+head"}},
           {"dtype", {"", "int8", "float64"}},
           {"quantize_head", {"bfloat16", "nf4-dq"}},
           {"llm_int8_threshold", {"-1", "nan", "inf", "six", "2e6", ""}},
           {"input_scale", {"calibrated"}},
           {"calibrator", {"mse"}},
           {"smooth_quant", {"-0.1", "1.1", "nan", "0.5x"}},
           {"calibration", {""}},
           {"kv_cache", {"nf4"}},
           {"float32_matmul", {"bf16x9"}},
           {"lm_head_search", {"true", "nf4"}},
           {"isa", {"avx3"}},
           {"device", {"tpu", "cpu:0"}},
           {"cuda_gemm", {"", "cublas", "true"}},
           {"tune", {"", "on", "twice"}},
           {"threads", {"0", "1025", "1.5", "-1"}},
           {"cpu_mask", {"0", "g"}},
           {"replica", {"-1"}}})
    for (const std::string& value : values) {
      RunConfig config;
      try {
        field(key).parse(config, value);
        ADD_FAILURE() << key << " took '" << value << "'";
      } catch (const FieldError& error) {
        EXPECT_EQ(error.field(), key);
        EXPECT_EQ(error.what(), key + ": " + error.problem());
      }
      EXPECT_EQ(config, RunConfig{}) << key;
    }
}

// Set by a program, which no parse() has seen.
TEST(Fields, ValuesOutOfRangeAreFound) {
  for (const auto& [key, config] :
       std::map<std::string, RunConfig>{{"llm_int8_threshold", {.llm_int8_threshold = -2}},
                                        {"smooth_quant", {.smooth_quant = 1.5}},
                                        {"dtype", {.dtype = DType::i8}},
                                        {"quantize_head", {.quantize_head = formats::kFloat32}},
                                        {"input_scale", {.input_scale = InputScale::calibrated}},
                                        {"calibration", {.calibration = ""}},
                                        {"threads", {.threads = 0}},
                                        {"replica", {.replica = -1}}})
    try {
      check_values(config);
      ADD_FAILURE() << key;
    } catch (const FieldError& error) {
      EXPECT_EQ(error.field(), key);
    }
}

TEST(Fields, JsonOfAnotherTypeIsRefused) {
  for (const char* text :
       {R"({"threads":"2"})", R"({"threads":1.5})", R"({"smooth_quant":"0.5"})", R"({"smooth_quant":true})",
        R"({"allow_non_finite":1})", R"({"include":"a"})", R"({"include":[1]})", R"({"precision":4})"})
    EXPECT_THROW(run_config_from_json(nlohmann::ordered_json::parse(text)), FieldError) << text;
  EXPECT_THROW(run_config_from_json(nlohmann::ordered_json::parse(R"({"remainder":"bfloat16"})")), Error);
  EXPECT_THROW(run_config_from_json(nlohmann::ordered_json::parse("[1]")), Error);
  EXPECT_EQ(run_config_from_json(nlohmann::ordered_json::parse(R"({"isa":null})")), RunConfig{});
}

TEST(Fields, HelpIsShort) {
  for (const Field& field : fields()) {
    EXPECT_FALSE(field.help.empty()) << field.key;
    EXPECT_LE(field.help.size(), 160U) << field.key;  // two lines
    if (field.has_flag) {
      EXPECT_NE(field.help.find('['), std::string_view::npos) << field.key;
    }
  }
}

// Every field has its flag in a command that loads a model, and the flag sets it.
TEST(Fields, FlagsComeFromTheTable) {
  const test::ProgramResult help = test::run_program({"generate", "--help"});
  test::expect_success(help);
  for (const Field& field : fields())
    EXPECT_EQ(help.out.find(flag_of(field.key) + " ") != std::string::npos ||
                  help.out.find(flag_of(field.key) + "\n") != std::string::npos,
              field.has_flag)
        << field.key;
  EXPECT_EQ(flag_of("llm_int8_threshold"), "--llm-int8-threshold");
}

TEST(RunConfig, LabelsAreWords) {
  EXPECT_EQ(RunConfig{}.label(), "as stored");
  const RunConfig config{.precision = Preset::int8_static,
                         .dtype = DType::bf16,
                         .quantize_head = formats::kInt8,
                         .calibrator = Calibrator::minmax,
                         .calibration = "text.txt",
                         .isa = Isa::avx2,
                         .threads = 1};
  EXPECT_EQ(config.label(),
            "int8-static+head:int8, dtype bfloat16, minmax calibration, calibrated on text.txt, avx2, "
            "1 thread");
  EXPECT_EQ((RunConfig{.precision = Preset::nf4, .cuda_gemm = CudaGemm::cublaslt}).label(), "nf4, cuBLASLt");
  EXPECT_EQ((RunConfig{.precision = Preset::nf4, .cuda_gemm = CudaGemm::automatic}).label(),
            "nf4, cuda_gemm auto");
  EXPECT_EQ(config.label_of_numbers(), "+head:int8, dtype bfloat16, minmax calibration");
}

TEST(RunConfig, IsReadFromText) {
  const RunConfig common{.dtype = DType::bf16, .threads = 1};
  const RunConfig nf4 = run_config_from_text("NF4+head", common);
  EXPECT_EQ(
      nf4,
      (RunConfig{
          .precision = Preset::nf4, .dtype = DType::bf16, .quantize_head = formats::kNf4, .threads = 1}));
  EXPECT_EQ(run_config_from_text("fp32", common), (RunConfig{.precision = Preset::float32, .threads = 1}));
  EXPECT_EQ(run_config_from_text("llm-int8+head:fp4", common).quantize_head, formats::kFp4);
  EXPECT_EQ(run_config_from_text("int8+head").quantize_head, formats::kInt8);
  EXPECT_EQ(run_config_from_text("fp4-dq+head").quantize_head, formats::kFp4);
  EXPECT_EQ(run_config_from_text("nf4-dq+head").quantize_head, formats::kNf4);
  EXPECT_EQ(run_config_from_text("int4-g128+head").quantize_head, formats::kInt8);
  EXPECT_EQ(run_config_from_text("q4_k+head").quantize_head, formats::kQ4K);
  EXPECT_EQ(run_config_from_text("Q4_K+head:q6_k").label(), "q4_k+head:q6_k");
  EXPECT_EQ(run_config_from_text("nf4+head:q5_1").quantize_head, formats::kQ5_1);
  const RunConfig stored = run_config_from_text("stored+activations:int8", {.threads = 1});
  EXPECT_EQ(stored, (RunConfig{.activations = Activations::int8, .threads = 1}));
  EXPECT_EQ(stored.label(), "as stored, activations int8, 1 thread");
  EXPECT_EQ(run_config_from_text("auto+activations:int8", {.threads = 1}), stored);
  EXPECT_THROW(run_config_from_text("stored+head", common), FieldError);
  EXPECT_THROW(run_config_from_text("stored+activations:int4", common), FieldError);
  EXPECT_EQ(run_config_from_text("nf4+activations:int8"),
            (RunConfig{.precision = Preset::nf4, .activations = Activations::int8}));
  EXPECT_EQ(run_config_from_text("int4+head:int8+activations:int8"),
            (RunConfig{.precision = Preset::int4_g128,
                       .quantize_head = formats::kInt8,
                       .activations = Activations::int8}));
  EXPECT_EQ(run_config_from_text("auto", common), common);
  EXPECT_EQ(run_config_from_text("nf4+head+replica:2"),
            (RunConfig{.precision = Preset::nf4, .quantize_head = formats::kNf4, .replica = 2}));
  EXPECT_EQ(run_config_from_text("float32+replica:1").label(), "float32, replica 1");
  EXPECT_EQ(run_config_from_text("nf4+head@cuda:1").device, (Device{Device::Kind::cuda, 1}));
  EXPECT_EQ(run_config_from_text("nf4+head@cuda:1").quantize_head, formats::kNf4);
  EXPECT_EQ(run_config_from_text("float32@cpu").device, Device{});
  EXPECT_THROW(run_config_from_text("float32@tpu"), FieldError);
  for (const char* text :
       {"float32+replica:-1", "float32+replica", "nf4+", "nf4+head+", "nf4+activations",
        "nf4+activations:int4", "int8+activations:int8", "nf4+tail", "nf4+head:int3", "nf4+head:iq4_xs",
        "nf4+head:llm-int8", "nf4+head:", "float32+head", "", "nf5", "+head", "auto+head"})
    EXPECT_THROW(run_config_from_text(text, common), FieldError) << text;
}

// Each precision keeps of the common fields those that it takes.
TEST(RunConfig, TakesWhatAppliesToItsPrecision) {
  const RunConfig common{.dtype = DType::bf16,
                         .llm_int8_threshold = 3,
                         .input_scale = InputScale::per_tensor,
                         .calibrator = Calibrator::minmax,
                         .smooth_quant = 0.5,
                         .calibration = "text.txt",
                         .exclude = {"h.0."},
                         .kv_cache = KvFormat::int8,
                         .allow_non_finite = true,
                         .float32_matmul = Float32Matmul::bf16x3,
                         .lm_head_search = LmHeadSearch::int8};
  const auto kept = [&](const char* precision) {
    std::vector<std::string_view> keys;
    const RunConfig made = run_config_from_text(precision, common);
    for (const Field& field : fields())
      if (field.is_set(made)) keys.push_back(field.key);
    return keys;
  };
  using Keys = std::vector<std::string_view>;
  EXPECT_EQ(kept("float32"), (Keys{"precision", "kv_cache", "float32_matmul"}));
  EXPECT_EQ(kept("bfloat16"), (Keys{"precision", "kv_cache", "lm_head_search"}));
  EXPECT_EQ(kept("nf4"),
            (Keys{"precision", "dtype", "exclude", "kv_cache", "allow_non_finite", "lm_head_search"}));
  EXPECT_EQ(kept("nf4+head"),
            (Keys{"precision", "dtype", "quantize_head", "exclude", "kv_cache", "allow_non_finite"}));
  EXPECT_EQ(kept("llm-int8"), (Keys{"precision", "dtype", "llm_int8_threshold", "exclude", "kv_cache",
                                    "allow_non_finite", "lm_head_search"}));
  EXPECT_EQ(kept("int8-dynamic"), (Keys{"precision", "dtype", "input_scale", "smooth_quant", "calibration",
                                        "exclude", "kv_cache", "allow_non_finite", "lm_head_search"}));
  EXPECT_EQ(kept("int8-static"), (Keys{"precision", "dtype", "calibrator", "smooth_quant", "calibration",
                                       "exclude", "kv_cache", "allow_non_finite", "lm_head_search"}));
  // What none of a list takes is an error.
  const RunConfig made[] = {run_config_from_text("float32", common), run_config_from_text("nf4", common)};
  try {
    require_used(common, made);
    ADD_FAILURE();
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "llm_int8_threshold");
  }
  require_used({.dtype = DType::bf16}, made);
}

// Asked for of one precision, what does not apply is an error that names the field.
TEST(RunConfig, AppliesToAPrecisionOrSaysWhyNot) {
  for (const auto& [key, config] : std::map<std::string, RunConfig>{
           {"dtype", {.precision = Preset::bfloat16, .dtype = DType::bf16}},
           {"quantize_head", {.precision = Preset::float32, .quantize_head = formats::kInt8}},
           {"llm_int8_threshold", {.precision = Preset::nf4, .llm_int8_threshold = 3}},
           {"input_scale", {.precision = Preset::int8_static, .input_scale = InputScale::per_token}},
           {"calibrator", {.precision = Preset::int8_dynamic, .calibrator = Calibrator::minmax}},
           {"smooth_quant", {.precision = Preset::llm_int8, .smooth_quant = 0.5}},
           {"calibration", {.precision = Preset::int8_dynamic, .calibration = "text.txt"}},
           {"include", {.precision = Preset::float32, .include = {"a"}}},
           {"exclude", {.precision = Preset::float32, .exclude = {"a"}}},
           {"allow_non_finite", {.precision = Preset::float32, .allow_non_finite = true}},
           {"cuda_gemm", {.precision = Preset::int8_dynamic, .cuda_gemm = CudaGemm::cublaslt}},
           {"float32_matmul", {.precision = Preset::nf4, .float32_matmul = Float32Matmul::bf16x3}},
           {"lm_head_search",
            {.precision = Preset::nf4,
            .quantize_head = formats::kNf4,
            .lm_head_search = LmHeadSearch::int8}}}) {
    Precision precision = precision_of(*config.precision);
    try {
      apply_to(precision, config);
      ADD_FAILURE() << key;
    } catch (const FieldError& error) {
      EXPECT_EQ(error.field(), key) << error.what();
    }
  }
}

}  // namespace
}  // namespace assay
