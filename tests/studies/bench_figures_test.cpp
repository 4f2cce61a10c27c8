// The figures of a bench's row, exact for samples, costs and readings that the test makes up.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/plan/cost.h"
#include "assay/studies/bench_figures.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

Cost cost_of_bytes(std::int64_t weights, std::int64_t kv, double flops) {
  Cost cost;
  cost.weight_bytes = {weights};
  cost.kv_bytes = {kv};
  cost.flops = {flops};
  return cost;
}

BenchRow row_of_samples(std::vector<double> samples) {
  BenchRow row;
  row.spec = {.prompt_tokens = 4, .new_tokens = 0, .depth = 0, .batch = 2};
  row.samples_s = std::move(samples);
  return row;
}

TEST(BenchFigures, SpeedIsThatOfTheMedianSample) {
  BenchRow row = row_of_samples({1, 2, 4, 8, 16});
  set_speed(row, cost_of_bytes(6'000'000'000, 2'000'000'000, 16e9));
  EXPECT_EQ(row.median_s, 4);
  EXPECT_DOUBLE_EQ(*row.spread, (8.0 - 2) / 4);
  EXPECT_DOUBLE_EQ(row.tokens_per_sec, 2);
  EXPECT_DOUBLE_EQ(row.bytes_per_token, 1e9);
  EXPECT_DOUBLE_EQ(row.flops_per_token, 2e9);
  EXPECT_DOUBLE_EQ(row.achieved_gb_s, 2);
  EXPECT_DOUBLE_EQ(row.achieved_gflops, 4);
  row = row_of_samples({1, 3});
  set_speed(row, cost_of_bytes(1, 1, 1));
  EXPECT_DOUBLE_EQ(*row.spread, 0.5);  // 1.5 to 2.5, of 2
  row = row_of_samples({2});
  set_speed(row, cost_of_bytes(1, 1, 1));
  EXPECT_EQ(row.median_s, 2);
  EXPECT_FALSE(row.spread);
}

class BenchRoofline : public testing::Test {
 protected:
  // Of 8 GB and so many operations in samples of these times.
  BenchRow row(double flops, std::vector<double> reading, std::vector<double> computing,
               std::vector<double> samples = {4}) {
    BenchRow made = row_of_samples(std::move(samples));
    const Cost cost = cost_of_bytes(6'000'000'000, 2'000'000'000, flops);
    set_speed(made, cost);
    set_roofline(made, cost, reading, computing);
    return made;
  }
};

TEST_F(BenchRoofline, IsTheLongerOfTheTwoTimes) {
  BenchRow made = row(10e9, {2e9, 4e9, 9e9}, {10e9, 10e9, 90e9});
  EXPECT_DOUBLE_EQ(made.roofline_gb_s, 4) << "a median";
  EXPECT_DOUBLE_EQ(made.roofline_gflops, 10);
  EXPECT_EQ(made.bound, "memory");
  EXPECT_DOUBLE_EQ(made.percent_of_roofline, 50);  // 2 s of 4 s: computing would take 1 s
  made = row(30e9, {4e9}, {10e9});
  EXPECT_EQ(made.bound, "compute");
  EXPECT_DOUBLE_EQ(made.percent_of_roofline, 75);
  EXPECT_EQ(row(20e9, {4e9}, {10e9}).bound, "memory") << "where both take as long";
  made = row(30e9, {4e9}, {0});
  EXPECT_EQ(made.bound, "memory");
  EXPECT_EQ(made.roofline_gflops, 0);
  EXPECT_DOUBLE_EQ(made.percent_of_roofline, 50);
}

TEST_F(BenchRoofline, IsNotThereWhereReadingIsNotKnown) {
  const BenchRow made = row(30e9, {0}, {10e9});
  EXPECT_EQ(made.bound, "");
  EXPECT_EQ(made.roofline_gb_s, 0);
  EXPECT_EQ(made.roofline_gflops, 0);
  EXPECT_EQ(made.percent_of_roofline, 0);
  EXPECT_TRUE(made.warnings.empty());
  EXPECT_EQ(row(0, {1}, {0}).bound, "memory") << "a byte a second is a rate";
}

TEST_F(BenchRoofline, ThatTheSamplesSurelyExceedIsDoubted) {
  // Ten samples of which the interval leaves out the first and the last: 2 s are allowed.
  const auto warned = [&](double slow, double slowest) {
    std::vector<double> samples(8, 1.5);
    samples.push_back(slow);
    samples.push_back(slowest);
    const BenchRow made = row(0, {4e9}, {0}, samples);
    return made.warnings.empty() ? std::string() : made.warnings[0].text;
  };
  EXPECT_EQ(warned(1.9, 9), "the measurement reached at least 105 % of the roofline");
  EXPECT_EQ(warned(1.95, 9), "") << "102.6 % may be noise";
  EXPECT_EQ(row(0, {4e9}, {0}, {1, 1.9}).warnings.size(), 1U);
  EXPECT_EQ(row(0, {4e9}, {0}, {1, 3}).warnings.size(), 0U);
}

LoadedModel load_named(const std::string& precision, std::optional<int> threads) {
  if (precision == "nf4") throw Error("it does not load");
  RunConfig config = run_config_from_text(precision);
  config.threads = threads.value_or(1);
  LoadedModel loaded = load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, config);
  loaded.warnings = {{WarningKind::other, "of the load"}};
  return loaded;
}

BenchOptions short_bench() {
  BenchOptions options;
  options.prompt_tokens = {4};
  options.new_tokens = {};
  options.repeats = 2;
  return options;
}

TEST(BenchRows, SayWhatRan) {
  BenchOptions options = short_bench();
  options.precisions = {"bfloat16", "nf4"};
  const std::vector<BenchRow> rows = run_bench(load_named, options);
  ASSERT_EQ(rows.size(), 2U);
  const LoadedModel loaded = load_named("bfloat16", 1);
  EXPECT_EQ(rows[0].model, loaded.id);
  EXPECT_EQ(rows[0].precision, "bfloat16");
  EXPECT_EQ(rows[0].device, "cpu");
  EXPECT_EQ(rows[0].isa, loaded.model->backend().kernels());
  EXPECT_EQ(rows[0].kernels, rows[0].isa);
  EXPECT_EQ(rows[0].weight_bytes, loaded.model->program().memory().weights.value);
  EXPECT_EQ(rows[0].spec.prompt_tokens, 4);
  EXPECT_EQ(rows[0].warnings.front().text, "of the load");
  EXPECT_EQ(rows[1].model, loaded.id);
  EXPECT_EQ(rows[1].spec.prompt_tokens, 4);
  EXPECT_EQ(rows[1].threads, default_thread_count()) << "the number that was not asked for";
  EXPECT_TRUE(rows[1].samples_s.empty());
}

TEST(BenchRows, BeginNoRepeatAfterTheirTime) {
  // The clock moves a second whenever it is read: at the beginning, and before each repeat but the first.
  BenchOptions options = short_bench();
  options.repeats = 9;
  TimePoint now;
  options.clock = [&] { return now += std::chrono::seconds(1); };
  const auto samples_in = [&](double seconds) {
    options.max_time_s = seconds;
    return run_bench(load_named, options)[0].samples_s.size();
  };
  EXPECT_EQ(samples_in(1), 1U) << "at its limit it is over";
  EXPECT_EQ(samples_in(1.5), 2U);
  EXPECT_EQ(samples_in(4), 4U);
  EXPECT_EQ(samples_in(100), 9U);
  options.max_time_s.reset();
  EXPECT_EQ(run_bench(load_named, options)[0].samples_s.size(), 9U);
}

TEST(BenchRows, TellTheirProgress) {
  BenchOptions options = short_bench();
  options.new_tokens = {2};
  options.repeats = 1;
  options.precisions = {"float32", "bfloat16"};
  options.threads = {1, 2};
  std::vector<std::string> told;
  options.on_progress = [&](const std::string& now, std::int64_t done, std::int64_t all) {
    told.push_back(fmt::format("{} | {} of {}", now, done, all));
  };
  run_bench(load_named, options);
  ASSERT_EQ(told.size(), 16U);  // each test tells of a repeat that is not timed and of one that is
  EXPECT_EQ(told[0], "pp4 in float32, 1 thread(s), repeat 1 of 1 | 0 of 8");
  EXPECT_EQ(told[3], "tg2 in float32, 1 thread(s), repeat 1 of 1 | 1 of 8");
  EXPECT_EQ(told[15], "tg2 in bfloat16, 2 thread(s), repeat 1 of 1 | 7 of 8");
}

TEST(BenchRows, HaveTheirLimits) {
  const auto refusal = [](const std::function<void(BenchOptions&)>& change) -> std::string {
    BenchOptions options = short_bench();
    options.repeats = 1;
    change(options);
    try {
      run_bench([](const std::string&, std::optional<int>) -> LoadedModel { throw Error("loading"); },
                options);
    } catch (const FieldError& error) {
      return error.field() + ": " + error.problem();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](BenchOptions&) {}), "loading");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.prompt_tokens = {}; }),
            "prompt_tokens: expected a length above 0 here or in new_tokens, found none");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.prompt_tokens = {1}; }), "loading");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.prompt_tokens = {}, o.new_tokens = {1}; }), "loading");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.repeats = 0; }),
            "repeats: expected a whole number from 1, found 0");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.max_time_s = 0; }),
            "max_time_s: expected a number above 0, found 0");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.threads = {0}; }),
            "threads: expected whole numbers from 1 to 1024, found 0");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.threads = {1025}; }),
            "threads: expected whole numbers from 1 to 1024, found 1025");
  EXPECT_EQ(refusal([](BenchOptions& o) { o.threads = {1, 1024}; }), "loading");
  // The context of 64 may be filled, not exceeded.
  const auto exceeded = [](std::int64_t prompt, std::int64_t made, std::int64_t depth) -> std::string {
    BenchOptions options = short_bench();
    options.repeats = 1;
    options.prompt_tokens = {prompt};
    options.new_tokens = {made};
    options.depths = {depth};
    try {
      run_bench(load_named, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(exceeded(64, 0, 0), "");
  EXPECT_EQ(exceeded(60, 0, 4), "");
  EXPECT_EQ(exceeded(0, 4, 60), "");
  EXPECT_EQ(exceeded(0, 5, 60), "tg5 @ d60: 65 tokens exceed the model's context of 64");
  EXPECT_EQ(exceeded(61, 0, 4), "pp61 @ d4: 65 tokens exceed the model's context of 64");
}

// Tokens are chosen and looked at: of a model that computes NaN there is no speed.
TEST(BenchRows, OfAModelThatComputesNaNAreErrors) {
  const test::TemporaryFolder folder;
  test::TinyModel tiny;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tiny.tensor("transformer.ln_f.bias").bytes.data(), &nan, sizeof(nan));
  const std::string model = tiny.write(folder.path() / "m");
  const auto load = [&](const std::string&, std::optional<int>) {
    LoadOptions options;
    options.needs_tokenizer = false;
    RunConfig config;
    config.threads = 1;
    return load_model_and_tokenizer({model}, config, options);
  };
  BenchOptions options = short_bench();
  options.new_tokens = {2};
  for (const BenchRow& row : run_bench(load, options)) {
    EXPECT_EQ(row.status, RowStatus::error) << row.test;
    EXPECT_FALSE(row.reason.empty());
    EXPECT_TRUE(row.samples_s.empty());
  }
}

TEST(BenchRows, OfDeepSequencesReadTheirKeysAndValues) {
  BenchOptions options = short_bench();
  options.prompt_tokens = {1};
  options.new_tokens = {1};
  options.depths = {1, 8};
  options.repeats = 1;
  const std::vector<BenchRow> rows = run_bench(load_named, options);
  ASSERT_EQ(rows.size(), 4U);
  const LoadedModel loaded = load_named("float32", 1);
  const Plan& plan = loaded.model->program().plan();
  for (const BenchRow& row : rows) {
    const Cost cost = cost_of(plan, 1, row.spec.depth, 1);
    EXPECT_DOUBLE_EQ(row.bytes_per_token, static_cast<double>(cost.weight_bytes.value + cost.kv_bytes.value))
        << row.test;
  }
}

}  // namespace
}  // namespace assay
