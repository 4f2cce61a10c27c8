// The study of speed alone: its tests, and each figure of a row from its samples and from what a repeat must
// read and compute.
#include "assay/studies/bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/harness/sweep.h"
#include "assay/model/model.h"
#include "assay/plan/cost.h"
#include "assay/studies/registry.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

LoadedModel load_for_bench(const RunConfig& configuration) {
  if (configuration.precision == preset_from_name("nf4")) throw Error("it does not load");
  LoadedModel loaded =
      load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, configuration);
  loaded.warnings = {{WarningKind::other, "of the load"}};
  return loaded;
}

class Bench : public testing::Test {
 protected:
  Bench() {
    context_.sessions = &sessions_;
    context_.context_length = 64;
    context_.common.threads = context_.baseline.threads = 1;
    context_.sweep.repeats = 2;
    options_.prompt_tokens = {4};
    options_.new_tokens = {};
    options_.precisions = {"float32"};
  }
  std::vector<BenchRow> run() {
    const ExperimentResult result = measure_bench(context_, options_);
    return bench_rows(result.rows, sessions_.facts(context_.baseline).model);
  }
  // The field of a FieldError with its problem, or the text of another error.
  std::string refusal() {
    try {
      run();
    } catch (const FieldError& error) {
      return error.field() + ": " + error.problem();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  Sessions sessions_{[this](const RunConfig& configuration) {
    return local_session(load_for_bench(configuration), context_.sweep.should_stop);
  }};
  ExperimentContext context_;
  BenchOptions options_;
};

TEST(BenchCase, IsNamedAsOthersNameIt) {
  EXPECT_EQ((BenchCase{512, 0, 0, 1}).name(), "pp512");
  EXPECT_EQ((BenchCase{0, 128, 512, 8}).name(), "tg128 @ d512 b8");
  EXPECT_EQ((BenchCase{0, 128, 1, 2}).name(), "tg128 @ d1 b2");
  EXPECT_EQ((BenchCase{4, 0, 9, 3}).tokens(), 12);
}

// "auto" of each where no precision is named.
TEST_F(Bench, MeasuresEveryModelOfARun) {
  context_.models.resize(2);
  for (ContextModel& model : context_.models) model.context_length = 64;
  context_.models[0].name = "a";
  context_.models[1].name = "b";
  context_.common.model = context_.baseline.model = "a";
  options_.precisions = {};
  std::vector<std::string> models;
  for (const Row& row : measure_bench(context_, options_).rows) models.push_back(row.parameter("model"));
  EXPECT_EQ(models, (std::vector<std::string>{"a", "b"}));
}

TEST_F(Bench, AsksForCasesOfRandomPrompts) {
  options_.new_tokens = {3};
  options_.depths = {5};
  options_.batches = {2};
  options_.precisions = {"float32", "nf4", "float32"};
  options_.threads = {2};
  const std::vector<Case> cases = study_named("bench").cases(context_, options_);
  ASSERT_EQ(cases.size(), 4U) << "a precision is measured once";
  EXPECT_EQ(cases[0].label, "pp4 @ d5 b2, float32, 2 threads");
  EXPECT_EQ(cases[3].label, "tg3 @ d5 b2, nf4, 2 threads");
  for (const Case& spec : cases) {
    EXPECT_EQ(spec.scenario, Scenario::bench);
    EXPECT_EQ(spec.sequences(), 2);
    EXPECT_EQ(spec.random_prompts->depth, 5);
    EXPECT_EQ(spec.configuration.threads, 2);
  }
  EXPECT_EQ(cases[0].random_prompts->tokens, 4) << "a prompt is read";
  EXPECT_EQ(cases[0].new_tokens, 1) << "as far as its next token";
  EXPECT_EQ(cases[1].random_prompts->tokens, 1) << "from one token on";
  EXPECT_EQ(cases[1].new_tokens, 3);
}

// Two sequences: keys and values of each, weights once per step.
Cost cost_of_two(const Plan& plan, const BenchCase& spec) {
  Cost cost;
  const auto add_step = [&](std::int64_t rows, std::int64_t past) {
    const Cost own = cost_of(plan, rows, past, 1);
    cost.weight_bytes = cost.weight_bytes + cost_of(plan, 2 * rows, 0, 2).weight_bytes;
    cost.kv_bytes = cost.kv_bytes + own.kv_bytes + own.kv_bytes;
    cost.flops = {cost.flops.value + 2 * own.flops.value};
  };
  if (spec.prompt_tokens > 0) add_step(spec.prompt_tokens, spec.depth);
  for (std::int64_t made = 0; made < spec.new_tokens; ++made) add_step(1, spec.depth + made);
  return cost;
}

void expect_figures(const BenchRow& row, const Cost& cost) {
  const double bytes = static_cast<double>(cost.weight_bytes.value + cost.kv_bytes.value),
               tokens = row.spec.prompt_tokens > 0 ? 8 : 6, time = row.median_s;
  EXPECT_DOUBLE_EQ(time, statistics::median(row.samples_s));
  EXPECT_DOUBLE_EQ(
      *row.spread,
      (statistics::quantile(row.samples_s, 0.75) - statistics::quantile(row.samples_s, 0.25)) / time);
  EXPECT_DOUBLE_EQ(row.tokens_per_sec, tokens / time);
  EXPECT_DOUBLE_EQ(row.bytes_per_token, bytes / tokens);
  EXPECT_NEAR(row.flops_per_token, cost.flops.value / tokens, 1e-9 * cost.flops.value);
  EXPECT_DOUBLE_EQ(row.achieved_gb_s, bytes / time / 1e9);
  EXPECT_NEAR(row.achieved_gflops, cost.flops.value / time / 1e9, 1e-9 * row.achieved_gflops);
  ASSERT_GT(row.roofline_gb_s, 0);
  const double reading = bytes / 1e9 / row.roofline_gb_s,
               computing = row.roofline_gflops > 0 ? cost.flops.value / 1e9 / row.roofline_gflops : 0;
  EXPECT_NEAR(row.percent_of_roofline, 100 * std::max(reading, computing) / time,
              1e-9 * row.percent_of_roofline);
  EXPECT_EQ(row.bound, reading >= computing ? "memory" : "compute");
}

TEST_F(Bench, RowsFollowFromTheirSamplesAndCosts) {
  options_ = {.prompt_tokens = {4, 0},
              .new_tokens = {0, 3},
              .depths = {0, 5},
              .batches = {2},
              .precisions = {"float32"}};
  context_.sweep.repeats = 4;
  std::vector<std::string> told;
  context_.sweep.on_progress = [&](const std::string& now, std::int64_t, std::int64_t,
                                   std::optional<double>) { told.push_back(now); };
  const std::vector<BenchRow> rows = run();
  ASSERT_EQ(rows.size(), 4U);
  const char* names[] = {"pp4 b2", "tg3 b2", "pp4 @ d5 b2", "tg3 @ d5 b2"};
  const LoadedModel loaded = load_for_bench(context_.baseline);
  const Plan& plan = loaded.model->program().plan();
  for (std::size_t i = 0; i < 4; ++i) {
    const BenchRow& row = rows[i];
    SCOPED_TRACE(names[i]);
    EXPECT_EQ(row.test, names[i]);
    EXPECT_EQ(row.status, RowStatus::ok) << row.reason;
    ASSERT_EQ(row.samples_s.size(), 4U);
    expect_figures(row, cost_of_two(plan, row.spec));
    EXPECT_EQ(row.parameters, plan.parameters());
    EXPECT_EQ(row.threads, 1);
    EXPECT_EQ(row.kernels, loaded.model->backend().kernels());
  }
  EXPECT_EQ(told.front(), "test 1 of 4: warming up pp4 b2, float32, 1 thread");
  EXPECT_EQ(told.back(), "test 4 of 4: tg3 @ d5 b2, float32, 1 thread, process 1, run 4");
  EXPECT_EQ(told.size(), 20U);  // each warms up once, and has four repeats
}

TEST_F(Bench, RowsSayWhatRan) {
  options_.precisions = {"bfloat16", "nf4"};
  context_.baseline.precision = preset_from_name("bfloat16");
  const ExperimentResult result = measure_bench(context_, options_);
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].label, "pp4, bfloat16, 1 thread");
  EXPECT_EQ(result.rows[0].parameter("test"), "pp4");
  EXPECT_EQ(result.rows[0].find("time_to_first_token_s"), nullptr);
  const LoadedModel loaded = load_for_bench(context_.baseline);
  const std::vector<BenchRow> rows = bench_rows(result.rows, sessions_.facts(context_.baseline).model);
  EXPECT_EQ(rows[0].model, loaded.id);
  EXPECT_EQ(rows[0].precision, "bfloat16");
  EXPECT_EQ(rows[0].device, "cpu");
  EXPECT_EQ(rows[0].isa, loaded.model->backend().kernels());
  EXPECT_EQ(rows[0].kernels, rows[0].isa);
  EXPECT_EQ(rows[0].weight_bytes, loaded.model->program().memory().weights.value);
  EXPECT_EQ(rows[0].spec.prompt_tokens, 4);
  EXPECT_EQ(rows[0].warnings.front().text, "of the load");
  EXPECT_TRUE(std::none_of(rows[0].warnings.begin(), rows[0].warnings.end(), [](const Warning& warning) {
    return warning.kind == WarningKind::too_few_runs;
  })) << "nothing is compared";
  EXPECT_EQ(rows[1].spec.prompt_tokens, 4);
  EXPECT_TRUE(rows[1].samples_s.empty());
}

TEST_F(Bench, KeepsWhatRanWhereTheRestCannot) {
  options_.precisions = {"float32", "nf4"};
  options_.threads = {2, 1};
  context_.sweep.repeats = 1;
  context_.baseline.threads = 2;
  const std::vector<BenchRow> rows = run();
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].threads, 2);
  EXPECT_EQ(rows[1].threads, 1);
  EXPECT_FALSE(rows[0].spread) << "of one sample";
  EXPECT_EQ(rows[2].status, RowStatus::error);
  EXPECT_EQ(rows[2].reason, "it does not load");
  EXPECT_EQ(rows[2].threads, 2);
  EXPECT_EQ(rows[3].test, "pp4");
  EXPECT_EQ(rows[3].precision, "nf4") << "its threads are said apart";
  options_.precisions = {"nf4"};
  EXPECT_THROW(run(), Error) << "the first has to load";
}

TEST_F(Bench, RefusesWhatCannotBe) {
  const BenchOptions usual = options_;
  const auto refused = [&](const std::function<void(BenchOptions&)>& change) {
    options_ = usual;
    change(options_);
    return refusal();
  };
  EXPECT_EQ(refused([](BenchOptions& o) { o.prompt_tokens = {0}; }),
            "prompt_tokens: expected a length above 0 here or in new_tokens, found none");
  EXPECT_EQ(refused([](BenchOptions& o) { o.prompt_tokens = {}, o.new_tokens = {1}; }), "");
  EXPECT_EQ(refused([](BenchOptions& o) { o.threads = {0}; }),
            "threads: expected whole numbers from 1 to 1024, found 0");
  EXPECT_EQ(refused([](BenchOptions& o) { o.threads = {1025}; }),
            "threads: expected whole numbers from 1 to 1024, found 1025");
  context_.sweep.repeats = 0;
  EXPECT_EQ(refused([](BenchOptions&) {}), "repeats: expected a whole number from 1, found 0");
  context_.sweep.repeats = 1;
  context_.sweep.max_time_s = 0;
  EXPECT_EQ(refused([](BenchOptions&) {}), "max_time_s: expected a number above 0, found 0");
  context_.sweep.max_time_s.reset();
  // The context of 64 may be filled, not exceeded.
  const auto exceeded = [&](std::int64_t prompt, std::int64_t made, std::int64_t depth) {
    return refused([=](BenchOptions& o) {
      o.prompt_tokens = {prompt};
      o.new_tokens = {made};
      o.depths = {depth};
    });
  };
  EXPECT_EQ(exceeded(64, 0, 0), "");
  EXPECT_EQ(exceeded(60, 0, 4), "");
  EXPECT_EQ(exceeded(0, 4, 60), "");
  EXPECT_EQ(exceeded(0, 5, 60), "tg5 @ d60: 65 tokens exceed the model's context of 64");
  EXPECT_EQ(exceeded(61, 0, 4), "pp61 @ d4: 65 tokens exceed the model's context of 64");
}

TEST_F(Bench, TestsOfDeepSequencesReadTheirKeysAndValues) {
  options_ = {
      .prompt_tokens = {1}, .new_tokens = {1}, .depths = {1, 8}, .batches = {1}, .precisions = {"float32"}};
  const std::vector<BenchRow> rows = run();
  ASSERT_EQ(rows.size(), 4U);
  const LoadedModel loaded = load_for_bench(context_.baseline);
  for (const BenchRow& row : rows) {
    const Cost cost = cost_of(loaded.model->program().plan(), 1, row.spec.depth, 1);
    EXPECT_DOUBLE_EQ(row.bytes_per_token, static_cast<double>(cost.weight_bytes.value + cost.kv_bytes.value))
        << row.test;
  }
}

// Tokens are chosen and looked at: of a model that computes NaN there is no speed.
TEST(BenchOfABrokenModel, IsErrors) {
  const test::TemporaryFolder folder;
  test::TinyModel tiny;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tiny.tensor("transformer.ln_f.bias").bytes.data(), &nan, sizeof(nan));
  LoadOptions load;
  load.needs_tokenizer = false;
  RunConfig config;
  config.threads = 1;
  LocalExperiment experiment(load_model_and_tokenizer({tiny.write(folder.path() / "m")}, config, load));
  const ExperimentResult result =
      measure_bench(experiment, {.prompt_tokens = {4}, .new_tokens = {2}, .depths = {0}, .batches = {1}});
  ASSERT_EQ(result.rows.size(), 2U);
  for (const Row& row : result.rows) {
    EXPECT_EQ(row.status, RowStatus::error) << row.label;
    EXPECT_FALSE(row.reason.empty());
    EXPECT_EQ(row.find("total_latency_s"), nullptr);
  }
}

}  // namespace
}  // namespace assay
