// The bench: its tests, and each figure of a row from its samples and from what a repeat must read and
// compute.
#include "assay/studies/bench.h"

#include <gtest/gtest.h>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/plan/cost.h"
#include "support/fixtures.h"

namespace assay {
namespace {

LoadedModel load_for_bench(const std::string& precision, std::optional<int> threads) {
  if (precision == "nf4") throw Error("it does not load");
  RunConfig config = run_config_from_text(precision);
  config.threads = threads.value_or(1);
  return load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, config);
}

TEST(BenchCase, IsNamedAsOthersNameIt) {
  EXPECT_EQ((BenchCase{512, 0, 0, 1}).name(), "pp512");
  EXPECT_EQ((BenchCase{0, 128, 512, 8}).name(), "tg128 @ d512 b8");
  EXPECT_EQ((BenchCase{0, 128, 1, 2}).name(), "tg128 @ d1 b2");
  EXPECT_EQ((BenchCase{4, 0, 9, 3}).tokens(), 12);
}

TEST(RunBench, RowsFollowFromTheirSamplesAndCosts) {
  BenchOptions options;
  options.prompt_tokens = {4, 0};
  options.new_tokens = {0, 3};
  options.depths = {0, 5};
  options.batches = {2};
  options.repeats = 4;
  std::vector<std::string> told;
  std::int64_t all = 0;
  options.on_progress = [&](const std::string& now, std::int64_t, std::int64_t of) {
    told.push_back(now);
    all = of;
  };
  const std::vector<BenchRow> rows = run_bench(load_for_bench, options);
  ASSERT_EQ(rows.size(), 4U);
  const char* names[] = {"pp4 b2", "tg3 b2", "pp4 @ d5 b2", "tg3 @ d5 b2"};
  const LoadedModel loaded = load_for_bench("float32", 1);
  const Plan& plan = loaded.model->program().plan();
  for (std::size_t i = 0; i < 4; ++i) {
    const BenchRow& row = rows[i];
    SCOPED_TRACE(names[i]);
    EXPECT_EQ(row.test, names[i]);
    EXPECT_EQ(row.status, RowStatus::ok) << row.reason;
    ASSERT_EQ(row.samples_s.size(), 4U);
    const std::int64_t depth = row.spec.depth;
    // Two sequences: keys and values of each, weights once per step.
    Cost cost;
    if (row.spec.prompt_tokens > 0) {
      cost.weight_bytes = cost_of(plan, 8, 0, 2).weight_bytes;
      const Cost own = cost_of(plan, 4, depth, 1);
      cost.kv_bytes = {2 * own.kv_bytes.value};
      cost.flops = {2 * own.flops.value};
    } else {
      for (std::int64_t made = 0; made < 3; ++made) {
        const Cost own = cost_of(plan, 1, depth + made, 1);
        cost.weight_bytes = cost.weight_bytes + cost_of(plan, 2, 0, 2).weight_bytes;
        cost.kv_bytes = cost.kv_bytes + own.kv_bytes + own.kv_bytes;
        cost.flops = {cost.flops.value + 2 * own.flops.value};
      }
    }
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
    const double lowest =
        100 * std::max(reading, computing) / *std::max_element(row.samples_s.begin(), row.samples_s.end());
    const bool is_warned = std::any_of(row.warnings.begin(), row.warnings.end(), [](const Warning& w) {
      return w.kind == WarningKind::roofline_disturbed;
    });
    EXPECT_EQ(is_warned, lowest > 103);
    EXPECT_EQ(row.parameters, plan.parameters());
    EXPECT_EQ(row.threads, 1);
    EXPECT_EQ(row.kernels, loaded.model->backend().kernels());
  }
  EXPECT_EQ(all, 4);
  EXPECT_EQ(told.front(), "pp4 b2 in float32, 1 thread(s), repeat 1 of 4");
  EXPECT_EQ(told.back(), "tg3 @ d5 b2 in float32, 1 thread(s), repeat 4 of 4");
  EXPECT_EQ(told.size(), 20U);  // four repeats, and one that is not timed
}

TEST(RunBench, KeepsWhatRanWhereTheRestCannot) {
  BenchOptions options;
  options.prompt_tokens = {4};
  options.new_tokens = {};
  options.repeats = 1;
  options.precisions = {"float32", "nf4"};
  options.threads = {2, 1};
  const std::vector<BenchRow> rows = run_bench(load_for_bench, options);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].threads, 2);
  EXPECT_EQ(rows[1].threads, 1);
  EXPECT_FALSE(rows[0].spread) << "of one sample";
  EXPECT_EQ(rows[2].status, RowStatus::error);
  EXPECT_EQ(rows[2].reason, "it does not load");
  EXPECT_EQ(rows[2].threads, 2);
  EXPECT_EQ(rows[3].precision, "nf4");
  EXPECT_EQ(rows[3].test, "pp4");
  options.precisions = {"nf4"};
  EXPECT_THROW(run_bench(load_for_bench, options), Error) << "the first has to load";
  // A stop gives back what is finished; time that is over leaves one repeat.
  options.precisions = {"float32"};
  options.threads = {};
  options.new_tokens = {2};
  options.repeats = 3;
  int asked = 0;
  options.should_stop = [&] { return ++asked > 6; };
  EXPECT_EQ(run_bench(load_for_bench, options).size(), 1U);
  options.should_stop = {};
  options.max_time_s = 1e-9;
  EXPECT_EQ(run_bench(load_for_bench, options)[0].samples_s.size(), 1U);
}

TEST(RunBench, RefusesWhatCannotBe) {
  const auto field = [](const std::function<void(BenchOptions&)>& change) -> std::string {
    BenchOptions options;
    options.prompt_tokens = {4};
    options.new_tokens = {2};
    change(options);
    try {
      run_bench(load_for_bench, options);
    } catch (const FieldError& error) {
      return error.field();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(field([](BenchOptions& o) { o.prompt_tokens = o.new_tokens = {0}; }), "prompt_tokens");
  EXPECT_EQ(field([](BenchOptions& o) { o.repeats = 0; }), "repeats");
  EXPECT_EQ(field([](BenchOptions& o) { o.max_time_s = 0; }), "max_time_s");
  EXPECT_EQ(field([](BenchOptions& o) { o.threads = {0}; }), "threads");
  EXPECT_EQ(field([](BenchOptions& o) { o.threads = {1025}; }), "threads");
  EXPECT_EQ(field([](BenchOptions& o) { o.depths = {63}; }),
            "pp4 @ d63: 67 tokens exceed the model's context of 64");
  EXPECT_EQ(field([](BenchOptions& o) { o.depths = {60}, o.repeats = 1; }), "");
}

}  // namespace
}  // namespace assay
