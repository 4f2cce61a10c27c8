// A row with the label "as stored" is "the model as stored" in every sentence that names it, whatever it
// says.
#include <gtest/gtest.h>

#include "assay/report/prose/prose.h"
#include "support/comparisons.h"

namespace assay::report {
namespace {

using Sentences = std::vector<std::string>;
const std::string kStored = "as stored";

Comparison of_stored(double ratio = 0.5, Verdict verdict = Verdict::lower) {
  return test::comparison_of(
      kStored, kStored, ratio, verdict,
      {.interval = statistics::Interval{0.9 * ratio, 1.1 * ratio, 0.95}, .processes = 9});
}

// Each mention stands behind "the model", and at least `mentions` were there to be seen.
void expect_named(const Sentences& sentences, int mentions) {
  int seen = 0;
  for (const std::string& text : sentences) {
    EXPECT_FALSE(text.starts_with("the model")) << text;
    EXPECT_EQ(text.find(". the model"), std::string::npos) << text;
    for (std::size_t at = text.find(kStored); at != std::string::npos;
         at = text.find(kStored, at + 1), ++seen) {
      const std::string before = at < 10 ? "" : text.substr(at - 10, 10);
      EXPECT_TRUE(before == "the model " || before == "The model ") << text;
    }
  }
  EXPECT_GE(seen, mentions) << testing::PrintToString(sentences);
}

Sentences with_stop(Sentences clauses) {
  for (std::string& clause : clauses) clause.insert(0, "It is said that ");
  return clauses;
}

TEST(ModelAsStored, IsNamedByFindings) {
  TextDivergence diverged{kStored, {{.equal_tokens = 3, .tokens = 8}, {.equal_tokens = 8, .tokens = 8}}};
  TextDivergence equal{kStored, {{.equal_tokens = 8, .tokens = 8}}};
  TaskFlips flips{.subject = kStored, .baseline = kStored, .items = 9, .to_wrong = 2};
  TaskFlips none{.subject = kStored, .baseline = kStored, .items = 9};
  const EdgeDifference edge{.comparison = of_stored(), .phase = "prefill", .percent = 80};
  const std::vector<std::pair<Finding, int>> all = {
      {diverged, 1},
      {equal, 1},
      {PaddingOverhead{.padding_tokens = 3, .computed_tokens = 9, .comparison = of_stored()}, 1},
      {SlowerBatch{of_stored()}, 2},
      {CacheWithoutGain{of_stored()}, 2},
      {KvCacheSaving{kStored, kStored, 0.5, of_stored()}, 4},
      {ThreadChoice{kStored, true, of_stored()}, 2},
      {LengthTrend{{of_stored()}}, 2},
      {flips, 2},
      {none, 2}};
  for (const auto& [finding, mentions] : all) expect_named(sentences_of(finding), mentions);
  expect_named(with_stop(sentences_of(Finding(edge))), 2);

  expect_named(sentences_of(std::vector<Finding>(3, flips)), 2);
  expect_named(sentences_of(std::vector<Finding>(3, edge)), 3);
  TextDivergence later{"nf4", {{.equal_tokens = 5, .tokens = 8}}};
  expect_named(sentences_of(std::vector<Finding>{diverged, later, later}), 1);
}

TEST(ModelAsStored, IsNamedByTakeaways) {
  const BestOf one{{kStored}, {}}, tied{{kStored, "nf4"}, {}}, open{{kStored}, {"nf4"}};
  const Comparison c = of_stored();
  const KlComparison kl{
      .subject = kStored, .other = kStored, .baseline = kStored, .subject_kl = 0.1, .other_kl = 0.2};
  KlComparison decided = kl, within = kl;
  decided.is_decided = within.is_within_floor = true;
  MemoryTakeaway memory;
  memory.smallest = {kStored};
  memory.baseline = kStored;
  memory.bytes = memory.baseline_bytes = 1e6;
  BatchingTakeaway batching{one, {}, c};
  batching.tokens_per_sec.value = 9;
  BatchingTakeaway batching_tied{tied, batching.tokens_per_sec, c};
  const std::vector<std::pair<Takeaway, int>> all = {
      {memory, 2},
      {LatencyTakeaway{one, kStored, false, 0, c, {}}, 2},
      {LatencyTakeaway{tied, kStored, true, 0, c, LatencyTakeaway::Slow{c, 50, ""}}, 6},
      {LatencyTakeaway{open, kStored, true, 0, {}, {}}, 2},
      {QualityTakeaway{kStored, {one, c}, {}}, 2},
      {QualityTakeaway{kStored, {one, c}, QualityTakeaway::Extreme{tied, c}}, 3},
      {DivergenceTakeaway{kl}, 3},
      {DivergenceTakeaway{decided}, 3},
      {DivergenceTakeaway{within}, 3},
      {CacheTakeaway{c, 9}, 2},
      {batching, 2},
      {batching_tied, 3}};
  for (const auto& [takeaway, mentions] : all) expect_named({sentence_of(takeaway)}, mentions);

  Recommendation r;
  r.small_device = r.server = r.best_quality = kStored;
  r.server_tied = r.server_undecided = {kStored};
  r.small_nearest = Recommendation::TooLossy{kStored, 5e5, 1.2};
  expect_named(sentences_of(r), 6);
  r.small_perplexity_ratio = 1.01;
  r.best_quality_speed = c;
  expect_named(sentences_of(r), 7);
}

TEST(ModelAsStored, IsNamedByAChoiceWithinLimits) {
  LimitedChoice choice;
  choice.limits = limits_from_text("ttft=200ms,memory=2GiB");
  choice.candidates = 3;
  choice.best = {kStored, kStored};
  choice.runner_up = kStored;
  choice.runner_up_against_best = of_stored();
  choice.uncertain = {kStored};
  for (const bool is_within_10 : {false, true})
    choice.binding.push_back({choice.limits.limits[0], kStored, 0.3, 0.8, is_within_10});
  expect_named(sentences_of(choice), 8);
  choice.tied = {kStored};
  choice.runner_up_against_best = {};
  expect_named(sentences_of(choice), 6);
  choice.best.clear();
  choice.nearest = kStored;
  expect_named(sentences_of(choice), 2);
}

TEST(ModelAsStored, IsNamedWhereTextsShowQuality) {
  VisibleDegradation found{.kind = VisibleDegradation::Kind::from, .baseline = kStored, .subject = kStored};
  found.perplexity_ratio = 2;
  expect_named({sentence_of(found)}, 2);
  found.times = 4;
  expect_named({sentence_of(found)}, 2);
  found.kind = VisibleDegradation::Kind::undecided;
  found.better = kStored;
  expect_named({sentence_of(found)}, 3);
  found.kind = VisibleDegradation::Kind::none;
  found.steadier = kStored;
  expect_named({sentence_of(found)}, 3);
}

}  // namespace
}  // namespace assay::report
