// Predicted times and memory of cases, exact for peaks that the test makes up; and how probes are sized.
#include "assay/harness/predict.h"

#include <gtest/gtest.h>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/harness/sweep.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

using Ids = std::vector<TokenId>;

class ExactPredictions : public testing::Test {
 protected:
  ExactPredictions() : folder_(test::fixture_model("with_tokenizer")) {
    context_.sessions = &sessions_;
    context_.context_length = 64;
    context_.tokenizer =
        std::make_shared<const Tokenizer>(Tokenizer::load(test::fixture_model("with_tokenizer")));
    context_.predicted_memory = [this](const RunConfig&, std::int64_t sequences, std::int64_t tokens) {
      asked_.emplace_back(sequences, tokens);
      return Bytes{1000 * sequences + tokens};
    };
  }
  // As many bytes and operations a second as threads of the configuration.
  ReachedPeaks peaks() {
    return [this](const Plan&, const Precision&, const RunConfig& configuration) {
      peaks_asked_.push_back(configuration.label());
      const double rate = 1e6 * configuration.threads.value_or(1);
      return Roofline::Peaks{.bytes_per_second = rate, .operations_per_second = 2 * rate};
    };
  }
  static double seconds_of(const std::vector<BatchShape>& shapes, double rate, const char* precision) {
    const LoadedModel loaded =
        load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, precision, Device{});
    double all = 0;
    for (const BatchShape& shape : shapes)
      for (const PhaseCosts& costs : step_costs(loaded.model->program().plan(), shape)) {
        const Cost cost = total_cost(costs);
        all += std::max(static_cast<double>(cost.weight_bytes.value + cost.kv_bytes.value) / rate,
                        cost.flops.value / (2 * rate));
      }
    return all;
  }
  static Case case_of(std::vector<Prompt> prompts, std::int64_t batch_size, std::int64_t new_tokens) {
    Case spec;
    spec.prompts = std::move(prompts);
    spec.batch_size = batch_size;
    spec.new_tokens = new_tokens;
    return spec;
  }
  PredictedCase predicted(const Case& spec) {
    return predict_cases(context_, folder_, {spec}, peaks()).front();
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> asked_;
  std::vector<std::string> peaks_asked_;
  Sessions sessions_{[](const RunConfig&) -> std::unique_ptr<Session> { throw Error("nothing is loaded"); }};
  ModelFolder folder_;
  ExperimentContext context_;
};

TEST_F(ExactPredictions, AddUpTheStepsOfTheBatches) {
  const Case three = case_of({Ids(3, 1), Ids(5, 1), Ids(2, 1)}, 2, 4);
  const PredictedCase one = predicted(three);
  EXPECT_DOUBLE_EQ(one.seconds, seconds_of({{{3, 5}, 4, true}, {{2}, 4, true}}, 1e6, "float32"));
  EXPECT_EQ(one.spec.new_tokens, 4);
  EXPECT_EQ(one.why_not, "");
  EXPECT_EQ(one.memory.value, 2000 + 5 + 4 - 1);
  Case together = three;
  together.batch_size = 0;
  together.uses_cache = false;
  together.configuration.threads = 3;
  EXPECT_DOUBLE_EQ(predicted(together).seconds, seconds_of({{{3, 5, 2}, 4, false}}, 3e6, "float32"));
  together.batch_size = 9;
  EXPECT_DOUBLE_EQ(predicted(together).seconds, seconds_of({{{3, 5, 2}, 4, false}}, 3e6, "float32"));
  EXPECT_EQ(asked_.back(), (std::pair<std::int64_t, std::int64_t>(3, 8)));
  together.configuration.precision = preset_from_name("nf4");
  EXPECT_DOUBLE_EQ(predicted(together).seconds, seconds_of({{{3, 5, 2}, 4, false}}, 3e6, "nf4"));
}

TEST_F(ExactPredictions, KnowRandomPromptsAndTheirDepth) {
  Case spec = case_of({}, 0, 4);
  spec.random_prompts = RandomPrompts{.sequences = 2, .tokens = 3, .depth = 7};
  const PredictedCase one = predicted(spec);
  EXPECT_EQ(one.why_not, "");
  EXPECT_DOUBLE_EQ(one.seconds, seconds_of({{{3, 3}, 4, true, 7, 512}}, 1e6, "float32"));
  EXPECT_EQ(asked_.back(), (std::pair<std::int64_t, std::int64_t>(2, 7 + 3 + 4 - 1)));
}

TEST_F(ExactPredictions, CountTheTokensOfATextAsFarAsTheyFit) {
  const auto tokens = static_cast<std::int64_t>(context_.tokenizer->encode("a text of tokens").size());
  EXPECT_DOUBLE_EQ(predicted(case_of({"a text of tokens"}, 0, 2)).seconds,
                   seconds_of({{{tokens}, 2, true}}, 1e6, "float32"));
  Case cut = case_of({Ids(90, 1)}, 0, 4);
  EXPECT_EQ(predicted(cut).why_not,
            "90 tokens of the prompt and 4 new ones exceed the model's context of 64");
  EXPECT_EQ(predicted(cut).seconds, 0);
  cut.truncation = Truncation::left;
  EXPECT_DOUBLE_EQ(predicted(cut).seconds, seconds_of({{{60}, 4, true}}, 1e6, "float32"));
  EXPECT_EQ(predicted(case_of({Ids(60, 1)}, 0, 4)).why_not, "");
  EXPECT_EQ(predicted(case_of({Ids(1, 1)}, 0, 64)).why_not,
            "1 token of the prompt and 64 new ones exceed the model's context of 64");
  context_.predicted_memory = {};
  EXPECT_EQ(predicted(case_of({Ids(60, 1)}, 0, 4)).memory.value, 0);
}

TEST_F(ExactPredictions, AskForPeaksOncePerConfiguration) {
  Case one = case_of({Ids(3, 1)}, 0, 2), two = one;
  two.configuration.threads = 2;
  const auto cases = predict_cases(context_, folder_, {one, two, one}, peaks());
  EXPECT_EQ(peaks_asked_, (std::vector<std::string>{one.configuration.label(), two.configuration.label()}));
  EXPECT_DOUBLE_EQ(cases[0].seconds, 2 * cases[1].seconds);
  EXPECT_DOUBLE_EQ(cases[2].seconds, cases[0].seconds);
  // For a predictor for the time left, the first configuration's peaks stand for all.
  peaks_asked_.clear();
  const auto seconds = seconds_predictor(context_, folder_, peaks());
  EXPECT_TRUE(peaks_asked_.empty());
  EXPECT_DOUBLE_EQ(seconds(two), cases[1].seconds);
  EXPECT_DOUBLE_EQ(seconds(one), cases[1].seconds);
  EXPECT_EQ(peaks_asked_.size(), 1U);
}

TEST(UsualShare, IsSevenTenthsOfReadingAndThreeOfComputing) {
  const Roofline::Peaks share = usual_share({.bytes_per_second = 100, .operations_per_second = 1000});
  EXPECT_DOUBLE_EQ(share.bytes_per_second, 70);
  EXPECT_DOUBLE_EQ(share.operations_per_second, 300);
}

TEST(UsualPeaks, AreMeasuredOnThisMachine) {
  const LoadedModel loaded =
      load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{});
  const Roofline::Peaks peaks =
      usual_peaks(loaded.model->program().plan(), precision_from_name("float32"), RunConfig{});
  EXPECT_GT(peaks.bytes_per_second, 1e8);
  EXPECT_LT(peaks.bytes_per_second, 1e14);
  EXPECT_EQ(peaks.operations_per_second > 1e8,
            peak_instruction(precision_from_name("float32"), isa_from_name(loaded.model->backend().kernels()))
                .has_value());
}

// Rates of a device that the test makes up.
class RatedBackend : public Backend {
 public:
  Device device() const override { return {Device::Kind::cuda, 0}; }
  std::string kernels() const override { return "made up"; }
  bool multiplies_bfloat16() const override { return true; }
  int threads() const override { return 1; }
  std::unique_ptr<Program> prepare(const Plan&, const WeightSource&) override { return nullptr; }
  PredictedMemory predict(const Plan&, std::int64_t) override { return {}; }
  std::optional<DeviceRates> measure_rates(Bytes working_set, Multiply multiply, Seconds each) override {
    if (is_silent) return std::nullopt;
    asked = multiply;
    return DeviceRates{static_cast<double>(working_set.value), each.value};
  }
  void synchronize() override {}
  Event record() override { return {}; }
  Seconds between(const Event&, const Event&) override { return {}; }
  bool is_silent = false;
  Multiply asked = Multiply::int8;
};

TEST(DevicePeaks, AreTheRatesThatTheDeviceMeasures) {
  RatedBackend backend;
  Roofline::Peaks peaks = device_peaks(backend, {123}, precision_from_name("nf4"), {0.5});
  EXPECT_EQ(peaks.bytes_per_second, 123);
  EXPECT_EQ(peaks.operations_per_second, 0.5);
  EXPECT_EQ(backend.asked, Multiply::float32);
  device_peaks(backend, {123}, precision_from_name("bfloat16"), {0.5});
  EXPECT_EQ(backend.asked, Multiply::bfloat16);
  backend.is_silent = true;
  peaks = device_peaks(backend, {123}, precision_from_name("nf4"), {0.5});
  EXPECT_EQ(peaks.bytes_per_second, 0);
  EXPECT_EQ(peaks.operations_per_second, 0);
}

TEST(PlanProbe, ReadsAsMuchAsAStepWithinAnEighthOfAnOctave) {
  const std::int64_t mega = 1 << 20;
  const auto plan = [](std::int64_t working_set, std::int64_t weights, std::int64_t available = 0) {
    return plan_probe({working_set}, {weights}, {available});
  };
  // 2^20 is 160 eighths; 2^(161 / 8) is 9 % more.
  EXPECT_EQ(plan(mega, 0).eighths, 160);
  EXPECT_EQ(plan(mega, 0).buffer.value, mega);
  EXPECT_TRUE(plan(mega, 0).reads_weights);
  EXPECT_EQ(plan(1094000, 0).eighths, 160);
  EXPECT_EQ(plan(1096000, 0).eighths, 161);
  EXPECT_EQ(plan(1096000, 0).buffer.value, 1143480);  // 2^20.125
  // From 64 KiB to 1 GiB, and no more than a quarter of what is there.
  EXPECT_EQ(plan(1, 0).buffer.value, 1 << 16);
  EXPECT_EQ(plan(mega << 20, 0).buffer.value, mega << 10);
  EXPECT_EQ(plan(mega << 20, 0, mega << 20).buffer.value, mega << 10);
  EXPECT_EQ(plan(mega << 20, 0, mega << 10).buffer.value, mega << 8);
  EXPECT_EQ(plan(mega << 20, 0, 1).buffer.value, 1 << 16);
  // Weights that fill it, to 9 %, are read alone; what lacks is a buffer.
  EXPECT_EQ(plan(mega, mega / 2).buffer.value, mega / 2);
  EXPECT_TRUE(plan(mega, mega / 2).reads_weights);
  EXPECT_EQ(plan(mega, 962000).buffer.value, 0) << "962000 * 1.09 = 1048580";
  EXPECT_EQ(plan(mega, 961000).buffer.value, mega - 961000);
  EXPECT_TRUE(plan(mega, 1142000).reads_weights);
  EXPECT_EQ(plan(mega, 1142000).buffer.value, 0);
  // For more weights than a step reads, none.
  EXPECT_FALSE(plan(mega, 1144000).reads_weights) << "1.09 times as much is 1142947";
  EXPECT_EQ(plan(mega, 1144000).buffer.value, mega);
}

TEST(MultiplyOf, FourBitCodesIsThatOfEverythingElse) {
  Precision precision = precision_from_name("nf4");
  precision.dtype = formats::kBfloat16;
  EXPECT_EQ(multiply_of(precision), Multiply::bfloat16);
  precision.weights = formats::kInt8;
  EXPECT_EQ(multiply_of(precision), Multiply::int8);
}

}  // namespace
}  // namespace assay
