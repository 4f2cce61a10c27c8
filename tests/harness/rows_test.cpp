// What a row says of its samples: medians, parameters and warnings at their limits; audits from a journal.
#include "assay/harness/rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/worker_protocol.h"
#include "assay/results/results_json.h"
#include "support/fake_session.h"
#include "support/prose.h"
#include "support/scripted_session.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

// Three processes of three rounds, each run of which `change` may change.
CaseResult nine_runs(const std::function<void(Sample&, int)>& change) {
  CaseResult c;
  c.spec.prompts = {"a"};
  for (int i = 0; i < 9; ++i) {
    Sample s = test::scripted_sample(0.5, {0.25, 0.25});
    change(s, i);
    c.samples[{i / 3, i % 3}] = s;
  }
  return c;
}

double value_in(const Row& row, const char* tag) {
  const Value* found = row.find(tag);
  return found == nullptr ? -1 : found->value;
}

std::string warning_in(const Row& row, WarningKind kind) {
  std::string all;
  for (const Warning& warning : row.warnings)
    if (warning.kind == kind) all += warning.text;
  return all;
}

TEST(RowRoofline, IsTheMedianOfTheRuns) {
  const Row row = row_of(nine_runs([](Sample& s, int i) {
                           s.roofline_s = i == 8 ? 90 : 0.25;
                           s.total_latency_s = i == 7 ? 100 : 2;
                           s.roofline_gb_s = 8;
                           s.round_trip_us = 3;
                           s.roofline_gflops = 16;
                           s.memory_bound_s = 0.1;
                           s.bytes = 4e9;
                           s.flops = 6e9;
                         }),
                         {});
  EXPECT_EQ(value_in(row, "roofline_latency_s"), 0.25);
  EXPECT_EQ(value_in(row, "percent_of_roofline"), 12.5);
  EXPECT_EQ(value_in(row, "achieved_gb_s"), 2);
  EXPECT_EQ(value_in(row, "achieved_gflops"), 3);
  EXPECT_DOUBLE_EQ(value_in(row, "roofline_gb_s"), 8);
  EXPECT_DOUBLE_EQ(value_in(row, "roofline_gflops"), 16);
  EXPECT_DOUBLE_EQ(value_in(row, "thread_round_trip_us"), 3);
  EXPECT_EQ(value_in(row, "bytes_per_token"), 4e9 / 3);
  EXPECT_EQ(value_in(row, "flops_per_token"), 2e9);
  EXPECT_EQ(row.parameter("bound"), "compute") << "0.1 s of 0.25 s are of reading";
}

TEST(RowRoofline, LeavesOutWhatIsNotKnown) {
  const Row none = row_of(nine_runs([](Sample& s, int) { s.bytes = 3; }), {});
  EXPECT_EQ(none.find("roofline_latency_s"), nullptr);
  EXPECT_EQ(none.find("roofline_gb_s"), nullptr);
  EXPECT_EQ(none.parameter("bound"), "");
  EXPECT_EQ(value_in(none, "bytes_per_token"), 1);
  const Row some = row_of(nine_runs([](Sample& s, int) { s.roofline_s = 1e-3; }), {});
  EXPECT_NE(some.find("roofline_latency_s"), nullptr);
  EXPECT_EQ(some.find("thread_round_trip_us"), nullptr);
  EXPECT_EQ(some.find("roofline_gflops"), nullptr);
  // Half a microsecond, half of a GFLOP/s are values.
  const Row small = row_of(nine_runs([](Sample& s, int) {
                             s.roofline_s = 1e-3;
                             s.round_trip_us = 0.5;
                             s.roofline_gflops = 0.5;
                           }),
                           {});
  EXPECT_DOUBLE_EQ(value_in(small, "thread_round_trip_us"), 0.5);
  EXPECT_DOUBLE_EQ(value_in(small, "roofline_gflops"), 0.5);
}

TEST(RowRoofline, IsWarnedOfWhereTheIntervalIsAboveIt) {
  const auto warning_of = [](double roofline_s, double wide) {
    return warning_in(row_of(nine_runs([&](Sample& s, int i) {
                               s.roofline_s = roofline_s;
                               s.total_latency_s = std::exp(wide * (i / 3 - 1));
                             }),
                             {}),
                      WarningKind::roofline_disturbed);
  };
  EXPECT_EQ(warning_of(1.0299, 0), "");
  EXPECT_EQ(warning_of(1.05, 0), "the measurement reached at least 105 % of the roofline");
  // Half an interval of 4.302653 * 0.01 / sqrt(3) = 2.5 %: 1.05 is within what 103 % allow.
  EXPECT_EQ(warning_of(1.05, 0.01), "");
  EXPECT_EQ(warning_of(1.1, 0.01), "the measurement reached at least 107 % of the roofline");
}

TEST(RowRoofline, NamesTheLargestGap) {
  const auto gap = [](std::vector<CaseProfile::Part> parts) {
    CaseResult c = nine_runs([](Sample& s, int) { s.roofline_s = 1; });
    c.first.profile.parts = std::move(parts);
    return row_of(c, {}).parameter("largest_gap");
  };
  EXPECT_EQ(gap({}), "");
  EXPECT_EQ(gap({{"a", 1, 2}, {"b", 1, 1}}), "") << "nothing is above its roofline";
  EXPECT_EQ(gap({{"a", 2, 1}, {"b", 4, 1}, {"c", 3, 3.5}}), "b (75 % of the time above the roofline)");
  EXPECT_EQ(gap({{"a", 3, 1}, {"b", 3, 1}}), "a (50 % of the time above the roofline)");
  EXPECT_EQ(gap({{"a", 1.5, 1}, {"b", 0.5, 1}}), "a (100 % of the time above the roofline)");
}

TEST(RowWarnings, AreOfAllRunsTogether) {
  const Row row = row_of(nine_runs([](Sample& s, int i) {
                           s.gpu = GpuUse{1000.0 + i, 1500.0 + i, 60.0 + i, 200, false, false, 0};
                           s.disturbance.lowest_mhz = 2000 + i;
                           s.disturbance.highest_mhz = 2100 + i;
                           s.roofline_repeats = i < 2 ? 1 : 0;
                           s.ids_hash = i == 5 ? "other" : "same";
                         }),
                         {});
  EXPECT_EQ(row.parameter("gpu_state"), "1000 to 1508 MHz, 200 W, up to 68 C");
  EXPECT_EQ(row.parameter("frequency_mhz"), "2000 to 2108");
  EXPECT_NE(warning_in(row, WarningKind::gpu_frequency), "");
  EXPECT_EQ(warning_in(row, WarningKind::roofline_disturbed),
            "the roofline was disturbed in 2 of 9 runs and was measured again");
  EXPECT_EQ(warning_in(row, WarningKind::nondeterministic), "equal runs generated different token ids");
  const Row quiet = row_of(nine_runs([](Sample&, int) {}), {});
  EXPECT_TRUE(quiet.warnings.empty());
  for (const char* key : {"gpu_state", "frequency_mhz", "bound", "largest_gap"})
    for (const auto& [name, text] : quiet.parameters) EXPECT_NE(name, key);
  // Clocks of less than 1 MHz are clocks.
  const Row slow = row_of(nine_runs([](Sample& s, int) {
                            s.gpu = GpuUse{.lowest_mhz = 0.5, .highest_mhz = 0.75};
                            s.disturbance.lowest_mhz = 0.5;
                            s.disturbance.highest_mhz = 0.75;
                          }),
                          {});
  EXPECT_EQ(slow.parameter("frequency_mhz"), "0 to 1");
  EXPECT_EQ(slow.parameter("gpu_state"), "0 to 1 MHz, 0 W, up to 0 C");
}

TEST(RowWarnings, OfDriftIsFromATenthOn) {
  const auto drift = [](double first, double second, int n) {
    CaseResult c;
    for (int i = 0; i < n; ++i) {
      Sample& s = c.samples[{i / 3, i % 3}];
      s = test::scripted_sample(i < n / 2 ? first : second, {});
    }
    return warning_in(row_of(c, {}), WarningKind::drift);
  };
  EXPECT_EQ(drift(1, 1.1, 12), "") << "a tenth is no more than that";
  EXPECT_EQ(drift(1.1, 1, 12), "");
  EXPECT_EQ(drift(1, 1.11, 12), "the second half of the runs was more than 10 % slower than the first");
  EXPECT_EQ(drift(1.11, 1, 12), "the second half of the runs was more than 10 % faster than the first");
  EXPECT_EQ(drift(1, 2, 11), "") << "too few";
  EXPECT_NE(drift(1, 2, 13), "");
  // One wild run in a half does not move its median.
  CaseResult c = nine_runs([](Sample&, int) {});
  for (int i = 0; i < 12; ++i)
    c.samples[{i / 3, i % 3}] = test::scripted_sample(i == 1 || i == 2 ? 90 : 1, {});
  EXPECT_EQ(warning_in(row_of(c, {}), WarningKind::drift), "");
  for (int i = 0; i < 12; ++i)
    c.samples[{i / 3, i % 3}] = test::scripted_sample(i == 8 || i == 9 ? 90 : 1, {});
  EXPECT_EQ(warning_in(row_of(c, {}), WarningKind::drift), "");
}

TEST(RowParameters, SayWhatRan) {
  CaseResult c = nine_runs([](Sample&, int) {});
  c.spec.label = "a label";
  c.spec.scenario = Scenario::threads;
  c.spec.configuration.precision = Preset::nf4;
  c.spec.new_tokens = 9;
  c.spec.parameters = {{"prompt", "mine"}};
  c.facts.device = "cpu";
  c.facts.kernels = "avx2";
  c.facts.threads = 3;
  c.facts.warnings = {{WarningKind::other, "of the load"}};
  c.warnings = {{WarningKind::duplicate_case, "of the case"}};
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  Row row = row_of(c, {});
  EXPECT_EQ(row.label, "a label");
  EXPECT_EQ(row.scenario, Scenario::threads);
  EXPECT_EQ(row.parameters, (Pairs{{"configuration", "nf4"},
                                   {"precision", "nf4"},
                                   {"device", "cpu"},
                                   {"kernels", "avx2"},
                                   {"threads", "3"},
                                   {"max_new_tokens", "9"},
                                   {"cache", "on"},
                                   {"prompt", "mine"}}));
  ASSERT_EQ(row.warnings.size(), 2U);
  EXPECT_EQ(row.warnings[0].text, "of the load");
  EXPECT_EQ(row.warnings[1].text, "of the case");
  EXPECT_EQ(row.places, c.places());
  c.facts.model.dtype = "what ran";
  c.spec.prompts = {"a", "b"};
  c.spec.padding = Padding::right;
  c.spec.uses_cache = false;
  row = row_of(c, {});
  EXPECT_EQ(row.parameter("precision"), "what ran");
  EXPECT_EQ(row.parameter("batch_size"), "2");
  EXPECT_EQ(row.parameter("padding"), "right");
  EXPECT_EQ(row.parameter("cache"), "off");
  c.status = RowStatus::error;
  c.reason = "it broke";
  row = row_of(c, {});
  EXPECT_EQ(row.reason, "it broke");
  EXPECT_TRUE(row.values.empty());
  c.status = RowStatus::ok;
  c.samples.clear();
  EXPECT_TRUE(row_of(c, {}).values.empty());
}

TEST(RowMemory, LeavesOutWhatTheSystemDoesNotTell) {
  CaseResult c = nine_runs([](Sample&, int) {});
  for (const char* tag : {"peak_rss_bytes", "current_rss_bytes", "device_used_bytes", "head_computed_percent",
                          "quantized_weights_percent", "bits_per_weight", "outlier_columns_percent",
                          "saturation_percent", "predicted_memory_bytes", "sequences"})
    EXPECT_EQ(row_of(c, {}).find(tag), nullptr) << tag;
  c.first.peak_rss_bytes = c.first.current_rss_bytes = c.first.device_used_bytes = 1;
  c.facts.model.coverage.quantized = 1;
  const Row row = row_of(c, {});
  EXPECT_EQ(value_in(row, "peak_rss_bytes"), 1);
  EXPECT_EQ(value_in(row, "current_rss_bytes"), 1);
  EXPECT_EQ(value_in(row, "device_used_bytes"), 1);
  EXPECT_EQ(value_in(row, "quantized_weights_percent"), 0);
  EXPECT_EQ(row.find("saturation_percent"), nullptr);
  EXPECT_EQ(row.find("outlier_columns_percent"), nullptr);
  ExperimentContext context;
  std::int64_t bytes = 0;
  context.predicted_memory = [&](const RunConfig&, std::int64_t, std::int64_t) { return Bytes{bytes}; };
  EXPECT_EQ(row_of(c, context).find("predicted_memory_bytes"), nullptr);
  bytes = 1;
  EXPECT_EQ(value_in(row_of(c, context), "predicted_memory_bytes"), 1);
}

TEST(RowTimes, OfTwoSequencesAreSharedAndOfNoTimeAreNone) {
  const Row two = row_of(nine_runs([](Sample& s, int) {
                           s.sequences = 2;
                           s.new_tokens = 6;
                         }),
                         {});
  EXPECT_EQ(value_in(two, "sequences"), 2);
  EXPECT_DOUBLE_EQ(value_in(two, "tokens_per_sec_per_sequence"), 3);  // 6 in a second, in two sequences
  const Row none = row_of(nine_runs([](Sample& s, int) { s = test::scripted_sample(0, {}); }), {});
  EXPECT_EQ(value_in(none, "tokens_per_sec"), 0);
  EXPECT_EQ(value_in(none, "prefill_tokens_per_sec"), 0);
}

TEST(RowEnergy, NeedsAllRuns) {
  const auto row_with = [](const char* why) {
    return row_of(nine_runs([&](Sample& s, int i) {
                    if (i != 4) s.energy_j = 3.0 * (i + 1);
                    s.energy_why_not = i == 4 ? why : "";
                  }),
                  {});
  };
  const auto absent = [](const Row& row) {
    for (const auto& [tag, why] : row.absent)
      if (tag == "energy_per_token_j") return why;
    return std::string("nothing");
  };
  EXPECT_EQ(absent(row_with("too short")), "too short");
  EXPECT_EQ(absent(row_with("")), "a run could not read the energy counters");
  EXPECT_EQ(row_with("").find("energy_per_token_j"), nullptr);
  const Row all = row_of(nine_runs([](Sample& s, int i) { s.energy_j = 3.0 * (i + 1); }), {});
  EXPECT_DOUBLE_EQ(value_in(all, "energy_per_token_j"), 5);  // 135 J for 27 tokens
  EXPECT_EQ(absent(all), "nothing");
}

TEST(CompareCases, AreNoneWhereOneHasFailed) {
  CaseResult one = nine_runs([](Sample&, int) {}), two = one;
  one.spec.label = "one";
  one.spec.scenario = Scenario::lengths;
  one.visit_s = 4.5;
  two.spec.label = "two";
  ExperimentContext context;
  context.margin = 0.03;
  const auto comparison = compare_cases(one, two, context);
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->scenario, Scenario::lengths);
  EXPECT_EQ(comparison->subject, "one");
  EXPECT_EQ(comparison->baseline, "two");
  EXPECT_EQ(comparison->metric, "total_latency_s");
  EXPECT_EQ(comparison->seconds_each, 4.5);
  EXPECT_EQ(comparison->margin, 0.03);
  EXPECT_FALSE(sentence_of(*comparison).empty());
  CaseResult failed = one;
  failed.status = RowStatus::error;
  EXPECT_FALSE(compare_cases(failed, two, context));
  EXPECT_FALSE(compare_cases(two, failed, context));
  failed.status = RowStatus::ok;
  failed.samples.clear();
  EXPECT_FALSE(compare_cases(failed, two, context));
}

class AuditingSession : public test::FakeSession {
 public:
  AuditingSession(const RunConfig& configuration, std::vector<std::string>& log)
      : FakeSession(configuration, [](const RunConfig&, const Case&) { return 0.1; }),
        label_(configuration.label()),
        log_(log) {}
  std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) override {
    log_.push_back(fmt::format("{}: {} prompts, {} tokens", label_, prompts.size(), new_tokens));
    if (label_ == "nf4") throw WorkerLost(WorkerLost::Cause::crashed, "it died");
    if (label_ == "fp4") throw WorkerLost(WorkerLost::Cause::stopped, "interrupted");
    AuditRow row;
    row.what = "cache off";
    row.largest_difference = 0.5;
    return {row};
  }

 private:
  std::string label_;
  std::vector<std::string>& log_;
};

class JournaledAudit : public testing::Test {
 protected:
  std::vector<std::string> rows(const std::vector<const char*>& precisions) {
    std::vector<RunConfig> configurations;
    for (const char* name : precisions) configurations.push_back(run_config_from_text(name));
    log_.clear();
    std::vector<std::string> all;
    for (const AuditRow& row : audit(context_, configurations, {"a", "b"}, 7))
      all.push_back(fmt::format("{} {} {}", row.configuration, row.what, row.largest_difference));
    return all;
  }
  JournaledAudit() { context_.sessions = &sessions_; }
  using Lines = std::vector<std::string>;
  Lines log_;
  int made_ = 0;
  Sessions sessions_{[this](const RunConfig& configuration) {
    ++made_;
    return std::make_unique<AuditingSession>(configuration, log_);
  }};
  ExperimentContext context_;
};

TEST_F(JournaledAudit, IsTakenFromTheJournalWhereItIsThere) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "journal.jsonl";
  {
    Journal journal(file, "p", false);
    context_.sweep.journal = &journal;
    EXPECT_EQ(rows({"float32"}), Lines{"float32 cache off 0.5"});
    EXPECT_EQ(log_, Lines{"float32: 2 prompts, 7 tokens"});
  }
  Journal journal(file, "p", true);
  context_.sweep.journal = &journal;
  EXPECT_EQ(rows({"float32", "bfloat16"}), (Lines{"float32 cache off 0.5", "bfloat16 cache off 0.5"}));
  EXPECT_EQ(log_, Lines{"bfloat16: 2 prompts, 7 tokens"});
}

TEST_F(JournaledAudit, TellsWhatItDoesAndEndsWhenItIsStopped) {
  Lines told;
  context_.sweep.on_progress = [&](const std::string& now, std::int64_t done, std::int64_t all,
                                   std::optional<double> left) {
    told.push_back(fmt::format("{} | {} of {} | {}", now, done, all, left.has_value()));
  };
  EXPECT_EQ(rows({"nf4", "float32"}), Lines{"float32 cache off 0.5"});
  EXPECT_EQ(told, (Lines{"audit: nf4 | 0 of 1 | false", "audit: float32 | 0 of 1 | false"}));
  EXPECT_EQ(made_, 2);
  rows({"nf4"});
  EXPECT_EQ(made_, 3) << "a worker that died is started again";
  EXPECT_EQ(rows({"float32", "fp4", "bfloat16"}), Lines{"float32 cache off 0.5"}) << "it was stopped";
  context_.sweep.should_stop = [] { return false; };
  EXPECT_EQ(rows({"float32"}).size(), 1U);
  context_.sweep.should_stop = [] { return true; };
  EXPECT_TRUE(rows({"float32"}).empty());
  EXPECT_TRUE(log_.empty());
}

// The LM head of a recipe is a setting as that of a flag is.
TEST(SettingOf, KnowsTheLmHeadOfARecipe) {
  const auto head_of = [](std::optional<WeightFormat> lm_head) {
    RunConfig config;
    config.recipe = Recipe{.name = "own", .default_format = formats::kQ4K, .lm_head = lm_head};
    return setting_of(config, SessionFacts{}).lm_head;
  };
  EXPECT_EQ(head_of(formats::kQ6K), "q6_k");
  EXPECT_EQ(head_of(formats::kBfloat16), "");
  EXPECT_EQ(head_of({}), "");
}

}  // namespace
}  // namespace assay
