// The context of an experiment: its settings as text, and the memory that it plans with, to the byte.
#include "assay/harness/context.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/assay.h"
#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/config/fields_json.h"
#include "assay/harness/sweep.h"
#include "assay/model/model.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

TEST(ConfigurationOf, ListsEverySetting) {
  ExperimentContext context;
  context.sweep.seed = 7;
  context.sweep.repeats = 4;
  context.sweep.narrow = 0.03;
  context.sweep.time_s = 12;
  context.sweep.max_time_s = 90;
  context.margin = 0.05;
  context.context_length = 64;
  context.baseline.precision = Preset::nf4;
  context.common.threads = 3;
  std::vector<std::pair<std::string, std::string>> expected = {
      {"seed", "7"},    {"processes", "none"}, {"repeats", "4"},   {"narrow", "0.03"},
      {"time_s", "12"}, {"max_time_s", "90"},  {"margin", "0.05"}, {"context_length", "64"}};
  const auto all = configuration_of(context);
  ASSERT_GT(all.size(), expected.size());
  EXPECT_EQ((std::vector<std::pair<std::string, std::string>>(all.begin(), all.begin() + 8)), expected);
  const nlohmann::ordered_json baseline = to_json(context.baseline), common = to_json(context.common);
  ASSERT_EQ(all.size(), 8 + baseline.size() + common.size());
  std::size_t at = 8;
  for (const auto& [prefix, json] : {std::pair("baseline.", &baseline), {"common.", &common}})
    for (const auto& [key, value] : json->items()) {
      EXPECT_EQ(all[at].first, prefix + key);
      EXPECT_EQ(all[at].second, value.is_string() ? value.get<std::string>() : value.dump()) << key;
      ++at;
    }
  const auto has = [&](const char* key, const char* text) {
    return std::find(all.begin(), all.end(), std::pair<std::string, std::string>(key, text)) != all.end();
  };
  EXPECT_TRUE(has("baseline.precision", "nf4")) << "without quotes";
  EXPECT_TRUE(has("common.threads", "3"));
}

TEST(AllowedOnDevice, IsNineTenthsOrWhatWasGiven) {
  const DeviceMemory memory{.free = {1005}, .total = {5000}, .allocated = {}, .peak = {}};
  EXPECT_EQ(allowed_on_device(memory, {}).value, 900);
  EXPECT_EQ(allowed_on_device(memory, Bytes{800}).value, 800);
  EXPECT_EQ(allowed_on_device(memory, Bytes{2000}).value, 900);
  EXPECT_EQ(allowed_on_device({}, {}).value, 0);
  EXPECT_EQ(usable_share({100}).value, 90);
  EXPECT_EQ(allowed_on_device({}, Bytes{800}).value, 0);
}

TEST(LocalExperiments, HaveTheModelThatIsLoaded) {
  const LoadedModel loaded =
      load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{});
  SweepOptions sweep;
  sweep.repeats = 2;
  bool is_stopped = false;
  sweep.should_stop = [&] { return is_stopped; };
  const LocalExperiment made(loaded, sweep);
  const ExperimentContext& context = made;
  EXPECT_EQ(context.baseline, loaded.config);
  EXPECT_EQ(context.common, loaded.config);
  EXPECT_EQ(context.tokenizer, loaded.tokenizer);
  EXPECT_EQ(context.context_length, 64);
  EXPECT_EQ(context.sweep.repeats, 2);
  EXPECT_FALSE(context.sessions->have_processes());
  EXPECT_EQ(context.sessions->of(loaded.config).facts().context, 64);
  RunConfig other = loaded.config;
  other.precision = Preset::nf4;
  try {
    context.sessions->of(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "nf4: this experiment runs only configuration float32");
  }
  // A stop reaches the session.
  is_stopped = true;
  Case spec;
  spec.prompts = {std::vector<TokenId>{1}};
  EXPECT_THROW(context.sessions->of(loaded.config).run(spec), Error);
}

TEST(LocalExperiments, LoadWhatAStudyAsksFor) {
  RunConfig baseline;
  baseline.precision = Preset::float32;
  SweepOptions sweep;
  sweep.repeats = 2;
  LocalExperiment made({"/nonexistent", test::fixture_model("with_tokenizer").string()}, baseline, sweep);
  const ExperimentContext& context = made;
  EXPECT_EQ(context.baseline, baseline);
  EXPECT_EQ(context.common, baseline);
  EXPECT_EQ(context.sweep.repeats, 2);
  EXPECT_EQ(context.context_length, 64);
  EXPECT_EQ(context.tokenizer->encode("a b"),
            Tokenizer::load(test::fixture_model("with_tokenizer")).encode("a b"));
  RunConfig nf4;
  nf4.precision = Preset::nf4;
  EXPECT_EQ(context.sessions->of(nf4).facts().model.dtype, "nf4");
  made.get().margin = 0.5;
  EXPECT_EQ(context.margin, 0.5);
}

class WorkerExperiments : public testing::Test {
 protected:
  WorkerExperiments() {
    options_.program = {program_path(), "worker"};
    options_.candidates = {"/nonexistent", test::fixture_model("with_tokenizer").string()};
    options_.baseline.precision = Preset::float32;
    options_.baseline.threads = options_.common.threads = 1;
  }
  // The program, and what a sequence of so many tokens takes.
  static std::pair<std::int64_t, std::int64_t> taken(const std::string& model, std::int64_t tokens) {
    RunConfig config;
    config.precision = Preset::float32;
    config.threads = 1;
    LoadOptions options;
    options.needs_tokenizer = false;
    const LoadedModel loaded = load_model_and_tokenizer({model}, config, options);
    const PredictedMemory memory = loaded.model->backend().predict(loaded.model->program().plan(), tokens);
    return {(memory.program.weights + memory.program.packing + memory.program.workspace).value,
            memory.kv_cache.value};
  }
  std::string why_not(std::int64_t budget) {
    options_.memory_budget = Bytes{budget};
    const WorkerExperiment made(options_);
    return static_cast<const ExperimentContext&>(made).sessions->why_not(options_.baseline).value_or("");
  }
  WorkerExperimentOptions options_;
};

TEST_F(WorkerExperiments, NeedATokenizerWhereTextIsAsked) {
  options_.candidates = {test::fixture_model("base").string()};
  EXPECT_THROW(WorkerExperiment{options_}, Error);
  options_.needs_tokenizer = false;
  const WorkerExperiment made(options_);
  const ExperimentContext& context = made;
  EXPECT_EQ(context.tokenizer, nullptr);
  EXPECT_EQ(context.sessions->of(context.baseline).facts().context, context.context_length);
}

TEST_F(WorkerExperiments, AreOfTheFirstCandidateThatIsOne) {
  options_.sweep.repeats = 5;
  options_.common.precision = Preset::nf4;
  const WorkerExperiment made(options_);
  const ExperimentContext& context = made;
  EXPECT_EQ(made.id(), options_.candidates[1]);
  EXPECT_EQ(made.source().path(), test::fixture_model("with_tokenizer"));
  EXPECT_EQ(context.context_length, 64);
  EXPECT_EQ(context.common, options_.common);
  EXPECT_EQ(context.baseline, options_.baseline);
  EXPECT_EQ(context.sweep.repeats, 5);
  EXPECT_FALSE(context.is_quantized_already);
  EXPECT_TRUE(context.sessions->have_processes());
  EXPECT_EQ(context.tokenizer->encode("a b"),
            Tokenizer::load(test::fixture_model("with_tokenizer")).encode("a b"));
  const SessionFacts facts = context.sessions->of(context.baseline).facts();
  EXPECT_EQ(facts.threads, 1);
  EXPECT_EQ(facts.model.dtype, "float32");
  options_.baseline.precision = Preset::nf4;
  const WorkerExperiment given(options_);
  EXPECT_EQ(static_cast<const ExperimentContext&>(given).baseline.precision, Preset::nf4);
  options_.baseline.precision.reset();
  const WorkerExperiment unset(options_);
  EXPECT_EQ(static_cast<const ExperimentContext&>(unset).baseline.precision, Preset::float32);
}

TEST_F(WorkerExperiments, OfAQuantizedCheckpointKeepItsPrecision) {
  options_.baseline.precision.reset();
  const std::filesystem::path folder = test::fixture("quantized") / "fp4";
  const test::TemporaryFolder copy;
  std::filesystem::copy(folder, copy.path() / "m", std::filesystem::copy_options::recursive);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(test::fixture_model("with_tokenizer") / name, copy.path() / "m" / name);
  options_.candidates = {(copy.path() / "m").string()};
  const WorkerExperiment made(options_);
  const ExperimentContext& context = made;
  EXPECT_TRUE(context.is_quantized_already);
  EXPECT_FALSE(context.baseline.precision);
}

TEST_F(WorkerExperiments, PredictTheProgramAndItsSequences) {
  const WorkerExperiment made(options_);
  const ExperimentContext& context = made;
  const auto [program, sequence] = taken(options_.candidates[1], 20);
  EXPECT_EQ(context.predicted_memory(options_.baseline, 3, 20).value, program + 3 * sequence);
  EXPECT_EQ(context.predicted_memory(options_.baseline, 0, 20).value, program);
}

TEST_F(WorkerExperiments, FitTheirBudgetToTheByte) {
  // Eight sequences as long as the context, the roofline's buffer and 40 MiB of a process.
  const auto [program, sequence] = taken(options_.candidates[1], 64);
  const std::int64_t needed = 2 * program + 8 * sequence + (std::int64_t{40} << 20);
  EXPECT_EQ(why_not(needed), "");
  EXPECT_EQ(why_not(needed - 1).rfind("out of memory predicted: ", 0), 0U);
  // A long context counts as 4096 tokens.
  const test::TemporaryFolder folder;
  const std::string model = test::TinyModel(5000).write(folder.path() / "m");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(test::fixture_model("with_tokenizer") / name, folder.path() / "m" / name);
  options_.candidates = {model};
  const auto [of_long, long_sequence] = taken(model, 4096);
  const std::int64_t long_needed = 2 * of_long + 8 * long_sequence + (std::int64_t{40} << 20);
  EXPECT_EQ(why_not(long_needed), "");
  EXPECT_EQ(why_not(long_needed - 1).rfind("out of memory predicted: ", 0), 0U);
}

}  // namespace
}  // namespace assay
