// Calibration on a text, and what models with it compute: against ONNX Runtime's ranges and the arithmetic of
// its static scheme (tools/make_calibration_fixtures.py).
#include "assay/session/calibrate.h"

#include <gtest/gtest.h>

#include <map>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/session/load_parts.h"
#include "assay/session/perplexity.h"
#include "assay/session/static_ptq.h"
#include "assay/session/time_generate.h"
#include "support/family_models.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

const SafetensorsFile& fixtures() {
  static const SafetensorsFile file(test::fixture("calibration.safetensors"));
  return file;
}

Precision static_precision(const char* calibrator) {
  Precision precision = precision_from_name("int8-static");
  set_calibrator(precision, calibrator_from_name(calibrator));
  return precision;
}

struct BaseModel {
  std::shared_ptr<const ModelFolder> folder =
      std::make_shared<const ModelFolder>(test::fixture_model("base"));
  std::vector<TokenId> ids;
  std::vector<float> logits;  // in float32
  BaseModel() {
    const SafetensorsFile expected(test::fixture_model("base") / "expected.safetensors");
    ids = test::read_ids(expected, "input_ids");
    logits = test::read_floats(expected, "logits");
  }
};

class CalibrateTest : public testing::TestWithParam<const char*> {
 protected:
  const BaseModel base_;
};

TEST_P(CalibrateTest, RangesOfAModelAreThoseOfOnnxRuntime) {
  const std::string prefix = std::string("model.") + GetParam() + ".";
  const Calibration found =
      calibrate(base_.folder, test::cpu_backend(best_usable_isa()), static_precision(GetParam()), base_.ids);
  EXPECT_EQ(found.size(), 8U);
  for (const auto& [name, input] : found) {
    const auto want = test::read_floats(fixtures(), prefix + name);
    // The activations differ in their last bits, which may move a value to the next bin of a histogram.
    EXPECT_NEAR(input.range.low, want[0], 2e-5F) << name;
    EXPECT_NEAR(input.range.high, want[1], 2e-5F) << name;
    EXPECT_NEAR(static_cast<float>(uint8_code(input.range).zero_point), want[3], 0) << name;
  }
}

TEST_P(CalibrateTest, LogitsAreThoseOfItsArithmetic) {
  const Precision precision = static_precision(GetParam());
  const auto want = test::read_floats(fixtures(), std::string("model.") + GetParam() + ".logits");
  const double deviation = test::standard_deviation_of(want), tolerance = 4e-3;
  ASSERT_GT(test::rms_difference(base_.logits, want), 4 * tolerance * deviation);
  for (const Isa isa : test::usable_isas()) {
    const auto backend = test::cpu_backend(isa);
    const Calibration found = calibrate(base_.folder, backend, precision, base_.ids);
    const Model model = Model::load(base_.folder, backend, precision, found);
    // A last bit of an input may move its code.
    EXPECT_LE(test::rms_difference(test::all_logits(model.program(), base_.ids), want), tolerance * deviation)
        << name_of(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(Calibrators, CalibrateTest, testing::Values("minmax", "percentile", "entropy"));

TEST(Calibrate, FactorsGoIntoTheNormBeforeAProductOrIntoItsInputs) {
  const BaseModel base;
  Precision precision = precision_from_name("int8-dynamic");
  precision.smooth_quant = 0.5;
  const Calibration found = calibrate(base.folder, test::cpu_backend(best_usable_isa()), precision, base.ids);
  const ModelSpec spec = spec_from_source(*base.folder);
  const Plan plan = plan_forward(spec, precision, found);
  const auto factors = [&](WeightId id) { return plan.weights[static_cast<std::size_t>(id)].column_factors; };
  const NormOp* norm = nullptr;
  int in_norms = 0, in_inputs = 0;
  for (const Op& op : plan.ops) {
    if (const auto* linear = std::get_if<LinearOp>(&op.kind)) {
      const auto into_weights = factors(linear->weight);
      ASSERT_EQ(into_weights, found.at(op.name + ".weight").smoothing);
      const bool is_in_norm = norm != nullptr && norm->out == linear->in && linear->input_factors.empty();
      const auto inverse = is_in_norm ? factors(norm->gain) : linear->input_factors;
      ASSERT_EQ(inverse.size(), into_weights.size()) << op.name;
      for (std::size_t i = 0; i < inverse.size(); ++i) EXPECT_FLOAT_EQ(inverse[i] * into_weights[i], 1);
      if (is_in_norm) {
        EXPECT_EQ(factors(norm->bias), inverse);
      }
      ++(is_in_norm ? in_norms : in_inputs);
      EXPECT_FALSE(linear->static_input.has_value());
    }
    norm = std::get_if<NormOp>(&op.kind);
  }
  EXPECT_EQ(in_norms, 2 * spec.layers);
  EXPECT_EQ(in_inputs, 2 * spec.layers);
  // Weights in another format have nothing of it.
  for (const WeightSpec& weight : plan_forward(spec, precision_from_name("nf4"), found).weights)
    EXPECT_TRUE(weight.column_factors.empty()) << weight.name;
}

// What the whole model's products see, without smoothing.
Calibration ranges_of_the_whole(const Model& model, Calibrator calibrator, std::span<const TokenId> ids) {
  Program& program = model.program();
  std::map<WeightId, RangeObserver> observers;
  program.observe_inputs([&](const ObservedInput& in) {
    std::vector<float> batch;
    for (std::int64_t row = 0; row < in.rows; ++row)
      batch.insert(batch.end(), in.x + row * in.stride, in.x + row * in.stride + in.columns);
    observers.try_emplace(in.weight, ObserverOptions{.calibrator = calibrator}).first->second.observe(batch);
  });
  const auto context = static_cast<std::size_t>(program.plan().context);
  for (std::size_t first = 0; first < ids.size(); first += context) {
    const auto cache = program.make_cache();
    const StepItem item{cache->add_sequence(), ids.subspan(first, std::min(context, ids.size() - first))};
    run_in_steps(program, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
  }
  Calibration calibration;
  for (const auto& [id, observer] : observers)
    for (const TensorPart& part : tensors_of(program.plan().weight(id))) {
      calibration[part.spec.name].range = observer.range();
      calibration[part.spec.name].clipped_share = observer.clipped_share();
    }
  return calibration;
}

TEST(Calibrate, ALayerAtATimeGivesTheBitsOfTheWholeModel) {
  std::vector<std::string> models(std::begin(test::kFamilyModels), std::end(test::kFamilyModels));
  models.insert(models.end(), {"base", "odd_heads", "llama_grouped"});
  for (const std::string& name : models)
    for (const Calibrator calibrator : {Calibrator::minmax, Calibrator::percentile}) {
      SCOPED_TRACE(name);
      const auto folder = std::make_shared<const ModelFolder>(test::fixture_model(name));
      const auto backend = test::cpu_backend(best_usable_isa());
      const Model model = Model::load(folder, backend, precision_from_name("float32"));
      // Beyond the context, and more than a step takes.
      std::vector<TokenId> ids;
      for (int i = 0; i < 700; ++i) ids.push_back(static_cast<TokenId>((i * i + 3 * i) % model.spec().vocab));
      Precision precision = precision_from_name("int8-static");
      set_calibrator(precision, calibrator);
      const Calibration want = ranges_of_the_whole(model, calibrator, ids),
                        found = calibrate(folder, backend, precision, ids);
      ASSERT_EQ(found.size(), want.size());
      for (const auto& [tensor, input] : want) {
        ASSERT_TRUE(found.contains(tensor)) << tensor;
        EXPECT_EQ(found.at(tensor).range.low, input.range.low) << tensor;
        EXPECT_EQ(found.at(tensor).range.high, input.range.high) << tensor;
        EXPECT_EQ(found.at(tensor).clipped_share, input.clipped_share) << tensor;
      }
    }
}

TEST(Calibrate, TokensAndTensorsThatAreNotThereAreErrors) {
  const BaseModel base;
  std::vector<TokenId> ids = base.ids;
  ids.back() = 1 << 30;
  EXPECT_THROW(calibrate(base.folder, test::cpu_backend(Isa::scalar), static_precision("minmax"), ids),
               Error);
  test::TemporaryFolder folder;
  test::TinyModel model(64);
  std::swap(model.tensors.back(), model.tensor("transformer.h.0.ln_1.bias"));
  model.tensors.pop_back();
  model.write(folder.path());
  const auto broken = std::make_shared<const ModelFolder>(folder.path());
  EXPECT_THROW(calibrate(broken, test::cpu_backend(Isa::scalar), static_precision("minmax"),
                         std::vector<TokenId>(40, 1)),
               Error);
}

TEST(Calibrate, TooFewTokensAreRefused) {
  const BaseModel base;
  const std::vector<TokenId> few(base.ids.begin(), base.ids.begin() + 31);
  EXPECT_THROW(calibrate(base.folder, test::cpu_backend(Isa::scalar), static_precision("minmax"), few),
               Error);
  EXPECT_THROW(Model::load(base.folder, test::cpu_backend(Isa::scalar), static_precision("minmax")), Error);
}

LoadedModel load_demo(Preset precision, RunConfig config = {}) {
  config.precision = precision;
  return load_model_and_tokenizer({test::demo_model().string()}, config);
}

TEST(Calibrate, CoverageTellsTheShareThatIsClipped) {
  const LoadedModel loaded = load_demo(Preset::int8_static, {.calibrator = Calibrator::percentile});
  EXPECT_EQ(loaded.dtype_label, "int8-static, percentile calibration");
  const CoverageFacts facts = coverage_of(loaded.model->program().plan());
  ASSERT_TRUE(facts.saturation.has_value());
  EXPECT_GT(*facts.saturation, 0);
  EXPECT_LT(*facts.saturation, 1e-4);
  EXPECT_FALSE(coverage_of(load_demo(Preset::int8_dynamic).model->program().plan()).saturation.has_value());
}

// For the text that ships to be scored, which calibration does not see.
TEST(Calibrate, TheShippedModelLosesLittle) {
  if (kIsSanitized)
    GTEST_SKIP() << "long texts take minutes under a sanitizer; the release build scores them";
  const auto perplexity = [](Preset precision, const RunConfig& config) {
    return score_file(load_demo(precision, config), test::demo_model() / "texts/evaluate.txt",
                      {.stride = 1024})
        .score.perplexity;
  };
  const double plain = perplexity(Preset::float32, {});
  EXPECT_LT(perplexity(Preset::int8_dynamic, {}), 1.007 * plain);
  EXPECT_LT(perplexity(Preset::int8_dynamic, {.smooth_quant = 0.5}), 1.004 * plain);
  const double best = perplexity(Preset::int8_static, {.calibrator = Calibrator::percentile});
  EXPECT_LT(best, 1.012 * plain);
  for (const Calibrator calibrator : {Calibrator::minmax, Calibrator::entropy})
    EXPECT_LT(perplexity(Preset::int8_static, {.calibrator = calibrator}), 1.015 * plain)
        << name_of(calibrator);
  EXPECT_LT(perplexity(Preset::int8_static, {.calibrator = Calibrator::percentile, .smooth_quant = 0.5}),
            best);
  EXPECT_LT(perplexity(Preset::int4_g128, {}), 1.13 * plain);
}

// The exercise: from an id or from a loaded model to one that answers, and a sentence on what it is.
TEST(StaticPtq, GivesAModelThatAnswers) {
  TimeOptions time;
  time.max_new_tokens = 8;
  time.has_warm_up = false;
  const LoadedModel plain = load_demo(Preset::float32);
  const std::string prompt = "The old man sat down by the";
  const std::string want = time_generate(plain, prompt, time).text;
  RunConfig options{.calibrator = Calibrator::minmax};
  for (const StaticPtq& found :
       {run_static_ptq_optimum(test::demo_model().string()), run_static_ptq_optimum(plain, options)}) {
    const TimedGeneration answer = time_generate(found.loaded, prompt, time);
    EXPECT_EQ(answer.ids.size(), 8U);
    EXPECT_EQ(answer.text, want);  // so near that the most probable words are the same
    for (const char* word : {"cpu", "int8-static", "int8 weights", "zero point", "the text that ships"})
      EXPECT_NE(found.sentence.find(word), std::string::npos) << found.sentence;
    EXPECT_EQ(coverage_of(found.loaded.model->program().plan()).quantized, 16);
  }
  EXPECT_NE(run_static_ptq_optimum(plain, options).sentence.find("minmax"), std::string::npos);
  options.calibration = "/nonexistent/text.txt";
  EXPECT_THROW(run_static_ptq_optimum(plain, options), Error);
}

TEST(Calibrate, TheTextItSawIsNotScored) {
  const auto text = test::demo_model() / "texts/calibrate.txt";
  EXPECT_THROW(score_file(load_demo(Preset::int8_static), text), Error);
}

TEST(Calibrate, BadTextsAreRefused) {
  test::TemporaryFolder folder;
  RunConfig options;
  const auto refused = [&](const std::string& name, const std::string& content) {
    if (!content.empty() || name == "empty.txt") test::write_file(folder / name, content);
    options.calibration = folder / name;
    try {
      load_demo(Preset::int8_static, options);
      ADD_FAILURE() << name << " was accepted";
    } catch (const UsageError& error) {
      ADD_FAILURE() << error.what();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refused("missing.txt", "");
  refused("empty.txt", "");
  refused("short.txt", "A few words are too few.");
  refused("broken.txt", std::string(500, 'a') + "\xff" + std::string(500, 'b'));
}

TEST(Calibrate, FieldsGoWithTheirPrecisions) {
  EXPECT_THROW(load_demo(Preset::int8_dynamic, {.calibrator = Calibrator::minmax}), FieldError);
  for (const Preset precision : {Preset::float32, Preset::llm_int8, Preset::nf4})
    EXPECT_THROW(load_demo(precision, {.smooth_quant = 0.5}), FieldError) << name_of(precision);
  EXPECT_THROW(load_demo(Preset::int8_dynamic, {.calibration = "some.txt"}), FieldError);
  EXPECT_THROW(load_demo(Preset::int8_dynamic, {.smooth_quant = 1.5}), FieldError);
}

}  // namespace
}  // namespace assay
