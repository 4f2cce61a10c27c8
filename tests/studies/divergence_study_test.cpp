// The study of divergence: its rows and finding on the model that ships; passes, floors and lost processes.
#include "assay/studies/divergence.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "assay/base/error.h"
#include "assay/harness/sessions.h"
#include "assay/harness/worker_protocol.h"
#include "assay/studies/measured_divergence.h"
#include "assay/studies/registry.h"
#include "support/fake_session.h"
#include "support/fixtures.h"
#include "support/simulated_text.h"

namespace assay {
namespace {

TEST(DivergenceStudy, GivesRowsAndComparesTheSmallest) {
  LocalExperiment local({test::demo_model().string()}, run_config_from_text("float32"));
  local.get().common = RunConfig{};
  DivergenceStudyOptions options;
  options.precisions = {"float32", "bfloat16", "nf4", "fp4"};
  options.context = 256;
  options.max_tokens = 1700;
  const ExperimentResult result = run_divergence(local, options);
  ASSERT_EQ(result.rows.size(), 3U);
  const Row &bf16 = result.rows[0], &nf4 = result.rows[1], &fp4 = result.rows[2];
  for (const Row& row : result.rows) {
    EXPECT_EQ(row.scenario, Scenario::divergence);
    EXPECT_EQ(row.status, RowStatus::ok) << row.reason;
    EXPECT_EQ(row.parameter("divergence_from"), "float32");
    EXPECT_EQ(row.find("tokens_scored")->value, 1699);
    ASSERT_TRUE(row.find("kl_mean")->interval);
    EXPECT_EQ(row.find("noise_floor")->value, bf16.find("kl_mean")->value);
    EXPECT_LE(row.find("kl_median")->value, row.find("kl_p99")->value);
    EXPECT_LE(row.find("kl_p99")->value, row.find("kl_max")->value);
  }
  EXPECT_EQ(nf4.parameter("noise_floor_of"), "float32 against bfloat16");
  EXPECT_LT(nf4.find("kl_mean")->interval->high, fp4.find("kl_mean")->interval->low);
  EXPECT_GT(nf4.find("top1_agreement")->value, fp4.find("top1_agreement")->value);
  ASSERT_EQ(result.findings.size(), 1U);
  const auto& smallest = std::get<KlComparison>(result.findings.front());
  EXPECT_EQ(smallest.subject, nf4.label);
  EXPECT_EQ(smallest.other, fp4.label);
  EXPECT_TRUE(smallest.is_decided);
  EXPECT_FALSE(smallest.is_within_floor);
  EXPECT_GT(smallest.difference_low, 0);
  EXPECT_LT(smallest.difference_low, smallest.other_kl - smallest.subject_kl);
  EXPECT_GT(smallest.difference_high, smallest.other_kl - smallest.subject_kl);
}

// A session that answers with a fixed KL, and takes its process with it where a candidate is "fp4".
class DivergingSession : public test::FakeSession {
 public:
  explicit DivergingSession(RunConfig configuration)
      : FakeSession(configuration, {}), label_(configuration.label()) {}
  CorpusDivergence diverge(const std::vector<Session*>& candidates, const DivergeRequest&) override {
    CorpusDivergence found;
    found.ids = {1, 2, 3};
    found.divergence.scored = {1, 2};
    for (Session* candidate : candidates) {
      const std::string& label = dynamic_cast<DivergingSession&>(*candidate).label_;
      if (label == "fp4") throw WorkerLost(WorkerLost::Cause::crashed, "the worker was killed");
      TokenDivergence token;
      token.kl = label == "nf4" ? 0.3 : label == "bfloat16" ? 0.2 : 0.7;
      found.divergence.candidates.push_back({.tokens = {token, token}});
    }
    return found;
  }

 private:
  std::string label_;
};

MeasuredDivergences fake_divergences(const std::vector<const char*>& texts, std::int64_t budget = 0,
                                     std::optional<TimePoint> deadline = {}) {
  Sessions sessions(
      [](const RunConfig& own) -> std::unique_ptr<Session> {
        if (own.label() == "int4-g128") throw Error("it cannot be loaded");
        return std::make_unique<DivergingSession>(own);
      },
      [](const RunConfig&) { return Bytes{1}; }, Bytes{budget});
  ExperimentContext context;
  context.sessions = &sessions;
  context.sweep.deadline = deadline;
  DivergenceRun run;
  for (const char* text : texts) run.configurations.push_back(run_config_from_text(text));
  return measure_divergences(context, run);
}

TEST(MeasureDivergences, ALostProcessFailsOneCandidateAlone) {
  const MeasuredDivergences found = fake_divergences({"float32", "nf4", "fp4", "int8-dynamic", "int4-g128"});
  ASSERT_EQ(found.candidates.size(), 4U);
  EXPECT_EQ(found.candidates[0].figures->kl_mean.value, 0.3);
  EXPECT_EQ(found.candidates[1].failure, "the worker was killed");
  EXPECT_EQ(found.candidates[2].figures->kl_mean.value, 0.7);
  EXPECT_EQ(found.candidates[3].failure, "it cannot be loaded");
  EXPECT_FALSE(found.candidates[3].figures);
  EXPECT_EQ(found.floor->value, 0.2);
  EXPECT_EQ(found.floor_of, "float32 against bfloat16");
  EXPECT_TRUE(is_within_floor(found.candidates[0], found)) << "0.3 is below three times 0.2";
  EXPECT_FALSE(is_within_floor(found.candidates[2], found));
}

TEST(MeasureDivergences, TakesAPassForWhatFitsTogether) {
  EXPECT_EQ(fake_divergences({"float32", "nf4", "int8-dynamic", "llm-int8"}).passes, 1);
  // The baseline and one candidate; the floor's bfloat16 is a candidate too.
  const MeasuredDivergences found = fake_divergences({"float32", "nf4", "int8-dynamic", "llm-int8"}, 2);
  EXPECT_EQ(found.passes, 4);
  EXPECT_EQ(found.candidates[0].figures->kl_mean.value, 0.3);
  EXPECT_EQ(found.candidates[2].figures->kl_mean.value, 0.7);
  EXPECT_EQ(fake_divergences({"float32", "nf4", "int8-dynamic", "llm-int8"}, 3).passes, 2);
}

TEST(MeasureDivergences, BeginsNoFurtherPassAfterItsDeadline) {
  const std::vector<const char*> texts{"float32", "nf4", "int8-dynamic", "llm-int8"};
  const MeasuredDivergences late = fake_divergences(texts, 3, TimePoint::min());
  EXPECT_EQ(late.passes, 1);
  EXPECT_TRUE(late.was_late);
  EXPECT_FALSE(late.is_interrupted);
  EXPECT_TRUE(late.candidates[0].figures);
  EXPECT_FALSE(late.candidates[2].figures);
  EXPECT_EQ(late.candidates[2].failure, "");
  EXPECT_FALSE(fake_divergences(texts, 3).was_late);
}

TEST(MeasureDivergences, NeedsABaselineThatLoads) {
  EXPECT_THROW(fake_divergences({"float32"}), FieldError);
  EXPECT_THROW(fake_divergences({"int4-g128", "nf4"}), Error);
}

TEST(MeasureDivergences, TheFloorOfABfloat16BaselineIsFloat32) {
  EXPECT_EQ(fake_divergences({"bfloat16", "nf4"}).floor_of, "bfloat16 against float32");
  EXPECT_EQ(fake_divergences({"nf4", "int8-dynamic"}).floor_of, "nf4 against nf4, dtype bfloat16");
}

// Without a text the baseline writes one, and its rows say so.
TEST(DivergenceStudy, MeasuresOnASample) {
  LocalExperiment local({test::demo_model().string()}, run_config_from_text("float32"));
  local.get().common = RunConfig{};
  DivergenceStudyOptions options;
  options.precisions = {"float32", "nf4"};
  options.sample_tokens = 600;
  const ExperimentResult result = run_divergence(local, options);
  ASSERT_EQ(result.rows.size(), 1U);
  EXPECT_EQ(result.rows[0].parameter("corpus"), "sample of float32");
  EXPECT_EQ(result.rows[0].parameter("protocol"),
            "hf context=512 stride=512; sample of float32: seed=1 temperature=1 sequences=2x512");
  EXPECT_EQ(result.rows[0].find("tokens_scored")->value, 1022);
  options.sample_tokens = 1;
  EXPECT_THROW(run_divergence(local, options), FieldError);
}

// Four candidates of one distribution make six pairs: any verdict is a false one.
TEST(DivergencePairs, FamiliesSeldomHaveAFalseVerdict) {
  constexpr int kRuns = 1000;
  test::SimulatedText text(13);
  int is_false = 0, found = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<MeasuredCandidate> four(4);
    for (MeasuredCandidate& candidate : four)
      for (const double kl : text.next(test::kTextTokens)) candidate.tokens.push_back({.kl = kl});
    const auto pairs = compare_pairs(four);
    is_false += std::any_of(pairs.begin(), pairs.end(), [](const auto& pair) { return pair.verdict != 0; });
    for (TokenDivergence& token : four[2].tokens) token.kl *= 2;
    const auto apart = compare_pairs(four);
    ASSERT_EQ(apart.size(), 6U);
    found += apart[1].verdict < 0;
    EXPECT_GE(apart[1].divisor, 1);
    EXPECT_LE(apart[1].divisor, 6);
  }
  EXPECT_LE(is_false, 0.055 * kRuns);
  EXPECT_GE(found, 0.8 * kRuns);
}

// Seven blocks have no p value below 2 / 2^7, however clear the difference: six pairs need eight.
TEST(DivergencePairs, SayWhatAFamilyNeeds) {
  std::vector<MeasuredCandidate> four(4);
  for (std::size_t i = 0; i < 4; ++i)
    for (int token = 0; token < 7 * 256; ++token)
      four[i].tokens.push_back({.kl = static_cast<double>(i + 1) + 0.001 * (token % 7)});
  for (const DivergencePair& pair : compare_pairs(four)) {
    EXPECT_EQ(pair.verdict, 0);
    EXPECT_EQ(pair.divisor, 6);
    ASSERT_TRUE(pair.paired.tokens_needed);
    EXPECT_EQ(pair.paired.tokens_needed->about, 8 * 256);
  }
  four.pop_back();
  for (const DivergencePair& pair : compare_pairs(four)) EXPECT_EQ(pair.verdict, -1) << "three need seven";
}

}  // namespace
}  // namespace assay
