// Rows of scripted runs: percentiles, energy, warnings at their limits, batches.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "assay/assay.h"
#include "assay/harness/rows.h"
#include "support/scripted_model.h"

namespace assay {
namespace {

using test::ScriptedModel;

TEST_F(ScriptedModel, PercentilesNeedTheirSteps) {
  // Steps of 1 to 100 ms: p90 lies at 0.9 * 99 = 89.1 of them, p80 would be 80.2.
  std::vector<double> steps;
  for (int i = 100; i > 0; --i) steps.push_back(1e-3 * i);
  script_.run = [&](const Case&, int) { return test::scripted_sample(0.01, steps); };
  PrecisionsOptions options{.precisions = {"float32"}, .prompt = std::vector<TokenId>{1}, .new_tokens = 101};
  const auto row_of_run = [&] { return run_varied_precision(context(), options).rows.front(); };
  Row row = row_of_run();
  EXPECT_NEAR(row.find("inter_token_p90_ms")->value, 90.1, 1e-9);
  EXPECT_NEAR(row.find("inter_token_p95_ms")->value, 95.05, 1e-9);
  EXPECT_NEAR(row.find("inter_token_p99_ms")->value, 99.01, 1e-9);
  EXPECT_NEAR(row.find("step_latency_ms")->value, 50.5, 1e-9);
  EXPECT_NEAR(row.find("avg_latency_per_token_ms")->value, 1e3 * 5.06 / 101, 1e-9);
  EXPECT_EQ(row.step_s.size(), 9U);
  steps.resize(19);
  row = row_of_run();
  EXPECT_NE(row.find("inter_token_p90_ms"), nullptr);
  EXPECT_EQ(row.find("inter_token_p95_ms"), nullptr);
  const auto why = [&](const char* tag) {
    for (const auto& [name, reason] : row.absent)
      if (name == tag) return reason;
    return std::string();
  };
  EXPECT_EQ(why("inter_token_p95_ms"), "a run has 19 decode steps, and this percentile needs 20");
  EXPECT_EQ(why("inter_token_p99_ms"), "a run has 19 decode steps, and this percentile needs 100");
  EXPECT_EQ(why("inter_token_p90_ms"), "");
  steps.resize(1);
  row = row_of_run();
  EXPECT_EQ(why("inter_token_p90_ms"), "a run has 1 decode step, and this percentile needs 10");
  steps.clear();  // one new token: nothing is decoded
  row = row_of_run();
  EXPECT_EQ(row.find("decode_latency_s"), nullptr);
  EXPECT_EQ(row.find("tokens_generated")->value, 1);
}

TEST_F(ScriptedModel, EnergyIsThatOfAllRunsByAllTokens) {
  bool fails = false;
  script_.run = [&](const Case&, int process) {
    Sample s = test::scripted_sample(0.1, {0.1, 0.1, 0.1});
    if (!(fails && process % 3 == 1)) s.energy_j = 2.0 + process % 3;
    return s;
  };
  PrecisionsOptions options{.precisions = {"float32"}, .prompt = std::vector<TokenId>{1}, .new_tokens = 4};
  // 2, 3 and 4 J for four tokens each.
  const Row row = run_varied_precision(context(), options).rows.front();
  EXPECT_DOUBLE_EQ(row.find("energy_per_token_j")->value, 0.75);
  fails = true;
  const Row without = run_varied_precision(context(), options).rows.front();
  EXPECT_EQ(without.find("energy_per_token_j"), nullptr);
  EXPECT_EQ(without.absent.back().first, "energy_per_token_j");
}

TEST_F(ScriptedModel, WarningsSayWhatTheRunsShow) {
  int run = 0;
  std::function<void(Sample&)> change = [](Sample&) {};
  script_.run = [&](const Case&, int) {
    Sample s = test::scripted_sample(0.5, {0.25, 0.25});
    s.roofline_s = 0.5;
    s.memory_bound_s = 0.25;
    ++run;
    change(s);
    return s;
  };
  PrecisionsOptions options{.precisions = {"float32"}, .prompt = std::vector<TokenId>{1}, .new_tokens = 3};
  ExperimentContext four = context();
  four.sweep.processes = 4;
  const auto row_with = [&](std::function<void(Sample&)> changed) {
    run = 0;
    change = std::move(changed);
    return run_varied_precision(four, options).rows.front();
  };
  const auto texts = [&](std::function<void(Sample&)> changed, WarningKind kind) {
    return warnings_of_kind(row_with(std::move(changed)), kind);
  };
  using Texts = std::vector<std::string>;
  EXPECT_TRUE(row_with([](Sample&) {}).warnings.empty());
  EXPECT_EQ(row_with([](Sample&) {}).parameter("bound"), "memory") << "half of the time is";
  // For 104 % of the roofline, and of 102 %.
  EXPECT_EQ(texts([](Sample& s) { s.roofline_s = 1.04; }, WarningKind::roofline_disturbed),
            Texts{"the measurement reached at least 104 % of the roofline"});
  EXPECT_EQ(texts([](Sample& s) { s.roofline_s = 1.02; }, WarningKind::roofline_disturbed), Texts{});
  EXPECT_EQ(texts([](Sample& s) { s.roofline_repeats = 2; }, WarningKind::roofline_disturbed),
            Texts{"the roofline was disturbed in 12 of 12 runs and was measured again"});
  EXPECT_EQ(texts([&](Sample& s) { s.ids_hash = std::to_string(run); }, WarningKind::nondeterministic),
            Texts{"equal runs generated different token ids"});
  Row row = row_with([&](Sample& s) {
    s.disturbance.lowest_mhz = 2000 - run;
    s.disturbance.highest_mhz = 3000 + run;
    s.disturbance.seconds = 1;
  });
  EXPECT_EQ(warnings_of_kind(row, WarningKind::cpu_frequency).size(), 1U);
  EXPECT_EQ(row_with([](Sample&) {}).parameter("frequency_mhz"), "") << "where nobody could read it";
  EXPECT_EQ(row.parameter("frequency_mhz").substr(5, 4), "to 3") << row.parameter("frequency_mhz");
  four.sweep.processes = 2;
  EXPECT_EQ(texts([](Sample&) {}, WarningKind::too_few_runs),
            Texts{"2 processes are too few for an interval or a verdict"});
  four.sweep.processes = 1;
  EXPECT_EQ(texts([](Sample&) {}, WarningKind::too_few_runs),
            Texts{"3 runs in one process are too few for a verdict"});
  four.sweep.repeats = 1;
  EXPECT_EQ(texts([](Sample&) {}, WarningKind::too_few_runs),
            Texts{"1 run in one process is too few for a verdict"});
}

// Rows of twelve runs whose times are given.
Row row_of_times(const std::vector<double>& times) {
  CaseResult c;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const int at = static_cast<int>(i);
    Sample& s = c.samples[{at / 3, at % 3}];
    s = test::scripted_sample(times[i], {});
  }
  return row_of(c, {});
}

TEST(RowWarnings, DriftAndOutliersHaveTheirLimits) {
  const auto texts = [](const std::vector<double>& times, WarningKind kind) {
    std::string all;
    for (const Warning& warning : row_of_times(times).warnings)
      if (warning.kind == kind) all += warning.text;
    return all;
  };
  const auto halves = [](double first, double second, std::size_t n = 6) {
    std::vector<double> times(n, first);
    times.insert(times.end(), n, second);
    return times;
  };
  EXPECT_EQ(texts(halves(1, 1.11), WarningKind::drift),
            "the second half of the runs was more than 10 % slower than the first");
  EXPECT_EQ(texts(halves(1.11, 1), WarningKind::drift),
            "the second half of the runs was more than 10 % faster than the first");
  EXPECT_EQ(texts(halves(1, 1.09), WarningKind::drift), "");
  EXPECT_EQ(texts(halves(1.09, 1), WarningKind::drift), "");
  EXPECT_EQ(texts(halves(1, 2, 5), WarningKind::drift), "") << "of ten runs too little is known";
  // 1.00 to 1.08, and two of ten, or one, far away.
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(1 + 0.01 * i);
  times.push_back(9);
  EXPECT_EQ(texts(times, WarningKind::outliers), "") << "a tenth is no more than that";
  times[0] = 9;
  EXPECT_EQ(texts(times, WarningKind::outliers),
            "more than a tenth of the runs are outliers, which are kept");
}

TEST(RowOfBatches, CountsSequencesAndPredictsMemory) {
  CaseResult c;
  c.spec.prompts = {"a", "b", "c", "d", "e"};
  c.spec.batch_size = 2;
  c.spec.new_tokens = 4;
  Sample s = test::scripted_sample(1, {0.5, 0.5, 1, 1}, 50);
  s.sequences = 5;
  s.batches = 3;
  s.new_tokens = 20;
  for (int process = 0; process < 3; ++process) c.samples[{process, 0}] = s;
  ExperimentContext context;
  std::int64_t asked_sequences = 0, asked_tokens = 0;
  context.predicted_memory = [&](const RunConfig&, std::int64_t sequences, std::int64_t tokens) {
    asked_sequences = sequences;
    asked_tokens = tokens;
    return Bytes{12345};
  };
  const Row row = row_of(c, context);
  EXPECT_EQ(row.find("sequences")->value, 5);
  EXPECT_NEAR(row.find("tokens_per_sec")->value, 5, 1e-12);                          // 20 in 4 s
  EXPECT_NEAR(row.find("tokens_per_sec_per_sequence")->value, 4 / (4 / 3.0), 1e-9);  // in a batch's time
  EXPECT_NEAR(row.find("decode_tokens_per_sec")->value, 15 / 3.0, 1e-9);
  EXPECT_EQ(asked_sequences, 2);        // five in three batches
  EXPECT_EQ(asked_tokens, 10 + 4 - 1);  // the last new token is never fed
  EXPECT_EQ(row.find("predicted_memory_bytes")->value, 12345);
  EXPECT_EQ(row.parameter("batch_size"), "2");
  EXPECT_EQ(row.parameter("padding"), "none");
  EXPECT_EQ(row.parameter("cache"), "on");
  EXPECT_EQ(row.parameter("max_new_tokens"), "4");
  c.spec.batch_size = 0;
  c.spec.uses_cache = false;
  EXPECT_EQ(row_of(c, {}).parameter("batch_size"), "5");
  EXPECT_EQ(row_of(c, {}).parameter("cache"), "off");
  EXPECT_EQ(row_of(c, {}).find("predicted_memory_bytes"), nullptr);
}

}  // namespace
}  // namespace assay
