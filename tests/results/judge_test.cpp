// Verdicts come from one place: families are corrected apart, units must agree, bytes are exact.
#include "assay/results/judge.h"

#include <gtest/gtest.h>

#include <cmath>

namespace assay {
namespace {

Comparison with_effect(const char* metric, double estimate, double error) {
  Comparison c;
  c.metric = metric;
  c.ratio = std::exp(estimate);
  c.effect = statistics::Effect{estimate, error, 9, 10};
  c.processes = 10;
  return c;
}

TEST(JudgeFamilies, AreCorrectedApart) {
  Comparison speed = with_effect("total_latency_s", 0.1, 0.03), text = with_effect("perplexity", 0.1, 0.03);
  Comparison alone = speed;
  judge(alone);
  std::vector<Comparison> texts(20, text);
  std::vector<Comparison*> all = {&speed};
  for (Comparison& c : texts) all.push_back(&c);
  judge(all);
  EXPECT_EQ(speed.interval->level, alone.interval->level) << "comparisons of quality cost speed nothing";
  EXPECT_EQ(speed.verdict, alone.verdict);
  EXPECT_GT(texts[0].interval->level, 0.99);
  EXPECT_EQ(texts[0].verdict, Verdict::cannot_tell);
  EXPECT_EQ(speed.verdict, Verdict::higher);
}

TEST(JudgeFamilies, FollowFromTheMetric) {
  EXPECT_EQ(family_of("total_latency_s"), Family::speed);
  EXPECT_EQ(family_of("step_latency_ms"), Family::speed);
  EXPECT_EQ(family_of("tokens_per_sec"), Family::speed);
  EXPECT_EQ(family_of("working_memory_bytes"), Family::memory);
  EXPECT_EQ(family_of("perplexity"), Family::quality);
}

TEST(JudgeFamily, NeedsEveryUnitToAgree) {
  Comparison c;
  c.metric = "total_latency_s";
  c.margin = 0.02;
  const statistics::Effect up{0.2, 0.01, 9, 10}, more{0.3, 0.01, 9, 10}, down{-0.2, 0.01, 9, 10};
  Judged judged{&c, {more, up}};
  judge_family(std::span(&judged, 1));
  EXPECT_EQ(c.verdict, Verdict::higher);
  EXPECT_DOUBLE_EQ(c.ratio, std::exp(0.2)) << "the unit that says least";
  judged.effects = {up, down};
  judge_family(std::span(&judged, 1));
  EXPECT_EQ(c.verdict, Verdict::cannot_tell);
  EXPECT_EQ(*c.p_value, 1);
  judged.effects.clear();
  judge_family(std::span(&judged, 1));
  EXPECT_EQ(c.verdict, Verdict::too_few);
}

// A comparison is judged again when more is measured: what was said before is no part of it.
TEST(JudgeFamily, ForgetsAnEarlierVerdict) {
  Comparison c = with_effect("total_latency_s", 0.1, 0.2);
  judge(c);
  EXPECT_EQ(c.verdict, Verdict::cannot_tell);
  EXPECT_NE(c.more_needed, 0);
  c.effect->error = 0.001;
  judge(c);
  EXPECT_EQ(c.verdict, Verdict::higher);
  EXPECT_EQ(c.more_needed, 0);
}

// As many as the unit needs that says least.
TEST(JudgeFamily, NeedsMoreForTheUnitThatNeedsMost) {
  const statistics::Effect clear{0.1, 0.05, 9, 10}, vague{0.1, 0.12, 9, 10};
  const auto needed = [](std::vector<statistics::Effect> effects) {
    Comparison c;
    c.metric = "total_latency_s";
    c.margin = 0.02;
    const Judged judged{&c, std::move(effects)};
    judge_family(std::span(&judged, 1));
    EXPECT_EQ(c.verdict, Verdict::cannot_tell);
    return c.more_needed;
  };
  const int most = needed({vague});
  EXPECT_GT(most, needed({clear}));
  EXPECT_EQ(needed({clear, vague}), most);
  EXPECT_EQ(needed({vague, clear}), most);
}

TEST(JudgeExactly, CountsBytes) {
  Comparison c;
  judge_exactly(c, 3, 2);
  EXPECT_EQ(c.verdict, Verdict::higher);
  EXPECT_EQ(c.ratio, 1.5);
  judge_exactly(c, 2, 2);
  EXPECT_EQ(c.verdict, Verdict::no_difference);
  judge_exactly(c, 1, 2);
  EXPECT_EQ(c.verdict, Verdict::lower);
  judge_exactly(c, 1, 0);
  EXPECT_EQ(c.ratio, 1);
}

}  // namespace
}  // namespace assay
