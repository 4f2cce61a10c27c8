// Intervals and verdicts on data with known answers, and by simulation.
#include "assay/results/verdict.h"
#include "assay/results/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "assay/base/random.h"
#include "assay/results/results_json.h"
#include "support/prose.h"

namespace assay {
namespace {

double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

// Times as machines give them: log-normal, each depending on the one before, with bursts in which all is
// slower. Its marginal median is found by a long run.
class NoisyMachine {
 public:
  NoisyMachine(std::uint64_t seed, double correlation, double burst_chance)
      : random_(seed), correlation_(correlation), burst_chance_(burst_chance) {}
  double next() {
    state_ = correlation_ * state_ + std::sqrt(1 - correlation_ * correlation_) * normal(random_);
    if (burst_ > 0)
      --burst_;
    else if (random_.uniform() < burst_chance_)
      burst_ = 1 + static_cast<int>(random_.next() % 3);
    return std::exp(0.04 * state_) * (burst_ > 0 ? 1.3 : 1.0);
  }

 private:
  Random random_;
  double correlation_, burst_chance_, state_ = 0;
  int burst_ = 0;
};

// As run_sweep() stops: at ever rarer looks, when the interval is narrow, or at the most.
std::vector<double> adaptive_run(NoisyMachine& machine, double narrow, int most) {
  std::vector<double> samples;
  for (int look = 6; look <= most; look += std::max(2, look * 2 / 5)) {
    while (static_cast<int>(samples.size()) < look) samples.push_back(machine.next());
    const auto interval = statistics::repeated_median_interval(samples);
    if (interval && (interval->high - interval->low) / 2 <= narrow * statistics::median(samples)) break;
  }
  return samples;
}

struct Noise {
  double correlation, burst_chance;
};
class AdaptiveCoverage : public ::testing::TestWithParam<Noise> {};

TEST_P(AdaptiveCoverage, OfTheMedianIsWhatItClaims) {
  const auto [correlation, burst_chance] = GetParam();
  std::vector<double> long_run;
  NoisyMachine truth(99, correlation, burst_chance);
  for (int i = 0; i < 200'000; ++i) long_run.push_back(truth.next());
  const double expected = statistics::median(long_run);
  constexpr int kRuns = 3000;
  int covered = 0;
  for (int run = 0; run < kRuns; ++run) {
    NoisyMachine machine(1000 + static_cast<std::uint64_t>(run), correlation, burst_chance);
    for (int i = 0; i < 20; ++i) machine.next();
    const auto interval = statistics::repeated_median_interval(adaptive_run(machine, 0.02, 60));
    ASSERT_TRUE(interval);
    covered += interval->low <= expected && expected <= interval->high ? 1 : 0;
  }
  const double coverage = static_cast<double>(covered) / kRuns;
  RecordProperty("coverage", std::to_string(coverage));
  EXPECT_GE(coverage, 0.94) << correlation << " " << burst_chance;
  EXPECT_LE(coverage, 0.99) << correlation << " " << burst_chance;
}
INSTANTIATE_TEST_SUITE_P(Noise, AdaptiveCoverage,
                         ::testing::Values(Noise{0, 0}, Noise{0.3, 0}, Noise{0.5, 0}, Noise{0, 0.05},
                                           Noise{0.3, 0.05}, Noise{0.5, 0.1}));

TEST(PairedShift, KnownAnswers) {
  // Six differences: only all 21 averages reach 95 % (1 - 2 / 64 = 96.9 %).
  const std::vector<double> six = {1, 2, 3, 4, 5, 6};
  const auto shift = statistics::paired_shift(six);
  ASSERT_TRUE(shift);
  EXPECT_DOUBLE_EQ(shift->estimate, 3.5);
  EXPECT_DOUBLE_EQ(shift->interval.low, 1);
  EXPECT_DOUBLE_EQ(shift->interval.high, 6);
  EXPECT_FALSE(statistics::paired_shift(std::span(six).first(5)));
  EXPECT_FALSE(statistics::paired_shift(six, 0.99));  // six pairs cannot give it
  // R: wilcox.test(c(1.1,2.2,0.3,-0.4,1.5,0.6,2.7,1.8,0.9,1.0), conf.int=TRUE) -> [0.45, 1.75]... by hand: 10
  // differences leave out 8 averages at each end.
  const std::vector<double> ten = {1.1, 2.2, 0.3, -0.4, 1.5, 0.6, 2.7, 1.8, 0.9, 1.0};
  std::vector<double> averages;
  for (std::size_t i = 0; i < ten.size(); ++i)
    for (std::size_t j = i; j < ten.size(); ++j) averages.push_back((ten[i] + ten[j]) / 2);
  std::sort(averages.begin(), averages.end());
  const auto of_ten = statistics::paired_shift(ten);
  ASSERT_TRUE(of_ten);
  EXPECT_DOUBLE_EQ(of_ten->interval.low, averages[8]);
  EXPECT_DOUBLE_EQ(of_ten->interval.high, averages[averages.size() - 9]);
}

TEST(PairedShift, CoversAsItClaims) {
  Random random(5);
  for (const std::size_t n : {6UL, 10UL, 80UL}) {
    int covered = 0;
    constexpr int kRuns = 2000;
    for (int run = 0; run < kRuns; ++run) {
      std::vector<double> differences;
      for (std::size_t i = 0; i < n; ++i) differences.push_back(0.5 + normal(random));
      const auto shift = statistics::paired_shift(differences);
      covered += shift->interval.low <= 0.5 && 0.5 <= shift->interval.high ? 1 : 0;
    }
    EXPECT_GE(covered, 0.94 * kRuns) << n;
    EXPECT_LE(covered, 0.985 * kRuns) << n;
  }
}

using Ratios = std::vector<std::vector<double>>;

// Three rounds in each process, around its own log ratio.
Ratios ratios_of(const std::vector<double>& processes) {
  Ratios all;
  for (const double own : processes) all.push_back({own - 0.001, own, own + 0.002});
  return all;
}

Comparison judged(const Ratios& ratios, double margin = 0.02) {
  Comparison c = compare_processes(ratios, margin);
  c.subject = "a";
  c.baseline = "b";
  c.metric = "total_latency_s";
  judge(c);
  return c;
}

TEST(CompareProcesses, SaysWhatTheDataAllow) {
  EXPECT_EQ(judged(ratios_of({-0.2, -0.21, -0.19, -0.2, -0.22})).verdict, Verdict::lower);
  EXPECT_EQ(judged(ratios_of({0.2, 0.21, 0.19, 0.2, 0.22})).verdict, Verdict::higher);
  EXPECT_EQ(judged(ratios_of({0.001, -0.002, 0, 0.003, -0.001})).verdict, Verdict::no_difference);
  // A real but small difference is none within the margin, and one where it reaches beyond it.
  EXPECT_EQ(judged(ratios_of({0.008, 0.009, 0.008, 0.007, 0.008})).verdict, Verdict::no_difference);
  EXPECT_EQ(judged(ratios_of({0.008, 0.009, 0.008, 0.007, 0.008}), 0.008).verdict, Verdict::higher);
  const Comparison unsure = judged(ratios_of({0.1, -0.06, 0.12, 0.05, -0.03}));
  EXPECT_EQ(unsure.verdict, Verdict::cannot_tell);
  EXPECT_GT(unsure.more_needed, 5);
  EXPECT_GT(unsure.detectable_difference, 0.1);
}

TEST(CompareProcesses, SaysNothingOfFewerThanThree) {
  // Sixty runs of one process, all of one mind, are one sample.
  const Comparison one = judged({std::vector<double>(60, 0.3)});
  EXPECT_EQ(one.verdict, Verdict::too_few);
  EXPECT_EQ(sentence_of(one),
            "a against b has no verdict: latency ratio 1.35 [1.35, 1.35] within one process; a "
            "verdict needs 3 processes");
  EXPECT_FALSE(one.p_value);
  const Comparison two = judged(ratios_of({0.3, 0.3001}));
  EXPECT_EQ(two.verdict, Verdict::too_few);
  EXPECT_EQ(sentence_of(two),
            "a against b has no verdict: latency ratio 1.35 in 2 processes; a verdict needs 3 processes");
  EXPECT_EQ(judged(ratios_of({0.3, 0.3001, 0.2999})).verdict, Verdict::higher);
}

TEST(CompareProcesses, OneOutlierMovesNothingFar) {
  Ratios ratios = ratios_of({0.2, 0.21, 0.19, 0.2, 0.22});
  const Comparison clean = judged(ratios);
  ratios[2][0] = 5;  // one run 150 times as long
  const Comparison dirty = judged(ratios);
  const auto width = [](const Comparison& c) { return c.interval->high - c.interval->low; };
  EXPECT_LT(width(dirty), 2 * width(clean));
  EXPECT_EQ(dirty.verdict, Verdict::higher);
}

TEST(Judge, CorrectsAllComparisonsTogether) {
  // p of each alone is about 0.006 to 0.02: three of a family of three hold, one of a family of thirty does
  // not.
  const Ratios clear = ratios_of({0.2, 0.21, 0.19, 0.2, 0.22}),
               faint = ratios_of({0.06, 0.03, 0.07, 0.05, 0.02});
  EXPECT_EQ(judged(faint).verdict, Verdict::higher);
  const auto verdicts_of = [&](int n_faint, int n_clear) {
    std::vector<Comparison> all(static_cast<std::size_t>(n_faint), compare_processes(faint, 0.0001));
    all.insert(all.end(), static_cast<std::size_t>(n_clear), compare_processes(clear, 0.0001));
    std::vector<Comparison*> family;
    for (Comparison& c : all) {
      c.metric = "total_latency_s";
      family.push_back(&c);
    }
    judge(family);
    return std::pair(all.front().verdict, all.back().verdict);
  };
  EXPECT_EQ(verdicts_of(3, 0).first, Verdict::higher);
  EXPECT_EQ(verdicts_of(30, 0).first, Verdict::cannot_tell);
  // The step-down: those that are clear do not count against the faint one.
  EXPECT_EQ(verdicts_of(1, 30), std::pair(Verdict::higher, Verdict::higher));
}

TEST(Judge, ThatABestWasChosenCosts) {
  Comparison c = compare_processes(ratios_of({0.06, 0.03, 0.07, 0.05, 0.02}), 0.0001);
  c.metric = "total_latency_s";
  judge(c);
  EXPECT_EQ(c.verdict, Verdict::higher);
  const double p = *c.p_value;
  c.chosen_among = 2 * static_cast<int>(std::ceil(0.05 / p));
  judge(c);
  EXPECT_EQ(c.verdict, Verdict::cannot_tell);
  EXPECT_EQ(*c.p_value, p);
}

TEST(CompareLosses, TakesBlocksOfATextForReplicates) {
  // Ten blocks of 64 whose means are 0.01, 0.03, 0.01, ...: mean 0.02, deviation 0.0105409, t of 9 degrees
  // 2.262157.
  std::vector<double> losses;
  for (int block = 0; block < 10; ++block)
    for (int i = 0; i < 64; ++i) losses.push_back((block % 2 == 0 ? 0.01 : 0.03) + (i % 2 == 0 ? 0.5 : -0.5));
  Comparison c = compare_losses(losses, 0.005);
  judge(c);
  const double half = 2.262157 * 0.01054093 / std::sqrt(10.0);
  EXPECT_NEAR(c.interval->low, std::exp(0.02 - half), 1e-7);
  EXPECT_NEAR(c.interval->high, std::exp(0.02 + half), 1e-7);
  EXPECT_EQ(c.verdict, Verdict::higher);
  EXPECT_EQ(c.processes, 10);
  EXPECT_EQ(compare_losses(std::span(losses).first(5 * 64), 0.005).verdict, Verdict::too_few);
}

// One token of 64 costs 6.4 more: the ratio is of the mean loss, which that token raises by 0.1.
TEST(CompareLosses, RatioIsOfTheMeanLoss) {
  std::vector<double> losses;
  for (int block = 0; block < 8; ++block)
    for (int i = 0; i < 64; ++i) losses.push_back(i == 5 ? 6.4 + 0.01 * block : 0);
  const Comparison c = compare_losses(losses, 0.005);
  const double mean = 0.1 + 0.01 * 3.5 / 64;
  EXPECT_NEAR(c.ratio, std::exp(mean), 1e-9);
  EXPECT_NEAR(c.effect->estimate, mean, 1e-9);
}

TEST(CompareUnpaired, IsWelchs) {
  const std::vector<double> a = {1.00, 1.02, 0.98, 1.01, 0.99}, b = {1.10, 1.30, 1.20};
  Comparison c = compare_unpaired(b, a, 0.02);
  c.metric = "total_latency_s";
  judge(c);
  // For the logarithms: means 0.18000 and -0.00010, errors 0.04824 and 0.00707, 2.0864 degrees: t = 3.694,
  // p = 0.0624.
  EXPECT_NEAR(std::log(c.ratio), 0.18010, 1e-5);
  EXPECT_NEAR(*c.p_value, 0.0624, 0.002);
  EXPECT_EQ(c.verdict, Verdict::cannot_tell);
  EXPECT_EQ(compare_unpaired(std::span(b).first(2), a, 0.02).effect.has_value(), false);
}

TEST(NoiseEstimate, TellsTheTwoLevelsApart) {
  // Processes deviate by 3 %, runs by 1 %, of each of two sides: ratios by the square root of two more.
  Random random(3);
  Ratios ratios;
  for (int process = 0; process < 400; ++process) {
    const double own = 0.03 * std::sqrt(2.0) * normal(random);
    std::vector<double>& rounds = ratios.emplace_back();
    for (int i = 0; i < 5; ++i) rounds.push_back(own + 0.01 * std::sqrt(2.0) * normal(random));
  }
  const auto noise = noise_estimate(ratios);
  ASSERT_TRUE(noise);
  EXPECT_NEAR(noise->between, 0.03, 0.003);
  EXPECT_NEAR(noise->within, 0.01, 0.001);
  EXPECT_EQ(noise->processes, 400);
  EXPECT_EQ(noise->rounds, 5);
  EXPECT_NEAR(noise->bias, 0, 0.006);
  // 3.25 errors: 1.96 to exclude 0, 1.28 for the chance of 90 %.
  EXPECT_NEAR(noise->detectable_difference, 3.24 * 0.0432 / 20, 0.001);
  ratios.resize(2);
  EXPECT_FALSE(noise_estimate(ratios));
}

TEST(FitPolynomial, FindsWhatIsThere) {
  std::vector<double> x, y;
  for (int i = 1; i <= 50; ++i) {
    x.push_back(i * 10);
    y.push_back(2 + 0.03 * x.back() + 1e-5 * x.back() * x.back());
  }
  const auto fit = statistics::fit_polynomial(x, y, 2);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->coefficients[0], 2, 1e-9);
  EXPECT_NEAR(fit->coefficients[1], 0.03, 1e-11);
  EXPECT_NEAR(fit->coefficients[2], 1e-5, 1e-13);
  EXPECT_NEAR(fit->r2, 1, 1e-12);
  EXPECT_NEAR(fit->at(100), 5.1, 1e-9);
  EXPECT_FALSE(statistics::fit_polynomial(std::vector<double>{1, 2}, std::vector<double>{1, 2}, 1));
  EXPECT_FALSE(
      statistics::fit_polynomial(std::vector<double>{2, 2, 2, 2}, std::vector<double>{1, 2, 3, 4}, 1));
}

TEST(ModifiedZScore, FlagsOutliers) {
  EXPECT_EQ(statistics::outliers(std::vector<double>{1, 1.1, 0.9, 1.05, 0.95, 3}),
            std::vector<std::size_t>{5});
  EXPECT_TRUE(statistics::outliers(std::vector<double>{1, 1, 1, 1}).empty());
}

TEST(SupportedQuantile, KnowsItsSampleSize) {
  const std::vector<double> ten(10, 1.0);
  EXPECT_TRUE(statistics::supported_quantile(ten, 0.9));
  EXPECT_FALSE(statistics::supported_quantile(ten, 0.99));
  EXPECT_TRUE(statistics::supported_quantile(std::vector<double>(100, 1.0), 0.99));
}

TEST(Comparison, SurvivesJson) {
  Comparison c = judged(ratios_of({0.2, 0.21, 0.19, 0.2, 0.22}));
  c.subject = "nf4";
  c.baseline = "float32";
  c.scenario = Scenario::batches;
  c.seconds_each = 2;
  EXPECT_NE(sentence_of(c).find("nf4 is 1.2"), std::string::npos) << sentence_of(c);
  EXPECT_EQ(verdict_word(c), "slower");
  const Comparison back = comparison_from_json(to_json(c));
  EXPECT_EQ(sentence_of(back), sentence_of(c));
  EXPECT_EQ(back.verdict, c.verdict);
  EXPECT_EQ(back.interval->low, c.interval->low);
  EXPECT_EQ(back.scenario, c.scenario);
  EXPECT_EQ(back.processes, 5);
  EXPECT_EQ(back.p_value, c.p_value);
  EXPECT_EQ(back.effect->error, c.effect->error);
  EXPECT_EQ(to_json(back).dump(), to_json(c).dump());
  c.more_needed = kNotInReach;
  EXPECT_EQ(comparison_from_json(to_json(c)).more_needed, kNotInReach);
}

Comparison unsure_of(const char* metric, int pairs, int more) {
  Comparison c;
  c.subject = "a";
  c.baseline = "b";
  c.metric = metric;
  c.verdict = Verdict::cannot_tell;
  c.processes = pairs;
  c.more_needed = more;
  return c;
}

Comparison decided(const char* metric, Verdict verdict) {
  Comparison c;
  c.subject = "a";
  c.baseline = "b";
  c.metric = metric;
  c.ratio = 0.4123;
  c.interval = statistics::Interval{0.4, 0.43, 0.95};
  c.margin = 0.02;
  c.processes = 5;
  c.verdict = verdict;
  return c;
}

TEST(Sentence, SaysTheVerdictByTheDirectionOfTheMetric) {
  EXPECT_EQ(sentence_of(decided("total_latency_s", Verdict::lower)), "a is 2.43x [2.33, 2.50] faster than b");
  EXPECT_EQ(sentence_of(decided("tokens_per_sec", Verdict::lower)),
            "a is 2.43x [2.33, 2.50] slower than b (throughput)");
  EXPECT_EQ(sentence_of(decided("perplexity", Verdict::lower)),
            "a has a lower perplexity than b: perplexity ratio 0.412 [0.400, 0.430]");
  EXPECT_EQ(sentence_of(decided("total_latency_s", Verdict::no_difference)),
            "a equals b within 2 %: latency ratio 0.412 [0.400, 0.430]");
  Comparison few = decided("perplexity", Verdict::too_few);
  few.interval.reset();
  few.processes = 4;
  EXPECT_EQ(sentence_of(few),
            "a against b has no verdict: perplexity ratio 0.4123; a verdict needs a text of 384 tokens");
  EXPECT_EQ(verdict_word(few), "too little text");
  Comparison three = decided("total_latency_s", Verdict::lower);
  three.processes = 3;
  EXPECT_EQ(sentence_of(three), "a is 2.43x [2.33, 2.50] faster than b in 3 processes");
}

TEST(Sentence, NamesTheRemedyThatHelps) {
  EXPECT_EQ(sentence_of(unsure_of("total_latency_s", 10, 169)),
            "a against b is undecided: latency ratio 1; about 170 more processes are needed");
  EXPECT_EQ(sentence_of(unsure_of("total_latency_s", 10, 1)),
            "a against b is undecided: latency ratio 1; about 1 more process is needed");
  EXPECT_EQ(sentence_of(unsure_of("total_latency_s", 10, kNotInReach)),
            "a against b is undecided: latency ratio 1; more than 100 times as many processes are needed");
  Comparison timed = unsure_of("total_latency_s", 10, 20);
  timed.seconds_each = 30;
  EXPECT_EQ(sentence_of(timed),
            "a against b is undecided: latency ratio 1; about 20 more processes (about 10 min) are needed");
  // The same text has the same losses again: only more of it tells more.
  EXPECT_EQ(sentence_of(unsure_of("perplexity", 61, 169)),
            "a against b is undecided: perplexity ratio 1; about 11000 more tokens of text are needed");
  EXPECT_EQ(sentence_of(unsure_of("perplexity", 61, kNotInReach)),
            "a against b is undecided: perplexity ratio 1; more than 100 times as much text is needed");
}

}  // namespace
}  // namespace assay
