// Intervals and verdicts on data with known answers, and by simulation.
#include "assay/results/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "assay/base/random.h"

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
    const auto interval = repeated_median_interval(samples);
    if (interval && (interval->high - interval->low) / 2 <= narrow * median(samples)) break;
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
  const double expected = median(long_run);
  constexpr int kRuns = 3000;
  int covered = 0;
  for (int run = 0; run < kRuns; ++run) {
    NoisyMachine machine(1000 + static_cast<std::uint64_t>(run), correlation, burst_chance);
    for (int i = 0; i < 20; ++i) machine.next();
    const auto interval = repeated_median_interval(adaptive_run(machine, 0.02, 60));
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
  const auto shift = paired_shift(six);
  ASSERT_TRUE(shift);
  EXPECT_DOUBLE_EQ(shift->estimate, 3.5);
  EXPECT_DOUBLE_EQ(shift->interval.low, 1);
  EXPECT_DOUBLE_EQ(shift->interval.high, 6);
  EXPECT_FALSE(paired_shift(std::span(six).first(5)));
  EXPECT_FALSE(paired_shift(six, 0.99));  // six pairs cannot give it
  // R: wilcox.test(c(1.1,2.2,0.3,-0.4,1.5,0.6,2.7,1.8,0.9,1.0), conf.int=TRUE) -> [0.45, 1.75]... by hand: 10
  // differences leave out 8 averages at each end.
  const std::vector<double> ten = {1.1, 2.2, 0.3, -0.4, 1.5, 0.6, 2.7, 1.8, 0.9, 1.0};
  std::vector<double> averages;
  for (std::size_t i = 0; i < ten.size(); ++i)
    for (std::size_t j = i; j < ten.size(); ++j) averages.push_back((ten[i] + ten[j]) / 2);
  std::sort(averages.begin(), averages.end());
  const auto of_ten = paired_shift(ten);
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
      const auto shift = paired_shift(differences);
      covered += shift->interval.low <= 0.5 && 0.5 <= shift->interval.high ? 1 : 0;
    }
    EXPECT_GE(covered, 0.94 * kRuns) << n;
    EXPECT_LE(covered, 0.985 * kRuns) << n;
  }
}

TEST(IndependentShift, CoversAsItClaims) {
  Random random(6);
  int covered = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> a, b;
    for (int i = 0; i < 9; ++i) a.push_back(normal(random));
    for (int i = 0; i < 12; ++i) b.push_back(1 + normal(random));
    const auto shift = independent_shift(a, b);
    covered += shift->interval.low <= 1 && 1 <= shift->interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 0.94 * kRuns);
  EXPECT_LE(covered, 0.985 * kRuns);
}

std::vector<double> times(double center, int n, std::uint64_t seed, double spread) {
  Random random(seed);
  std::vector<double> all;
  for (int i = 0; i < n; ++i) all.push_back(center * std::exp(spread * normal(random)));
  return all;
}

TEST(ComparePaired, SaysWhatTheDataAllow) {
  const std::vector<double> base = times(1, 12, 1, 0.003);
  const CompareOptions options{.margin = 0.02, .comparisons = 1};
  EXPECT_EQ(compare_paired(times(0.8, 12, 2, 0.003), base, options).verdict, Verdict::lower);
  EXPECT_EQ(compare_paired(times(1.2, 12, 3, 0.003), base, options).verdict, Verdict::higher);
  EXPECT_EQ(compare_paired(times(1, 12, 4, 0.003), base, options).verdict, Verdict::no_difference);
  // A real but small difference is none within the margin.
  EXPECT_EQ(compare_paired(times(1.008, 12, 5, 0.001), base, options).verdict, Verdict::no_difference);
  // One that is told from none, but that equals in two processes could have too, is not claimed.
  std::vector<double> near;
  for (int i = 0; i < 40; ++i) near.push_back(std::exp(0.03 + 0.06 * (i - 19.5) / 39));
  EXPECT_EQ(compare_paired(near, std::vector<double>(40, 1.0), {.margin = 0.035, .comparisons = 1}).verdict,
            Verdict::cannot_tell);
  const Comparison unsure = compare_paired(times(1.02, 7, 6, 0.1), std::span(base).first(7), options);
  EXPECT_EQ(unsure.verdict, Verdict::cannot_tell);
  EXPECT_GT(unsure.more_needed, 10);
  const Comparison few = compare_paired(std::span(base).first(3), std::span(base).first(3), options);
  EXPECT_EQ(few.verdict, Verdict::too_few);
  EXPECT_FALSE(few.interval);
  EXPECT_THROW(compare_paired(base, std::span(base).first(3), options), std::logic_error);
}

TEST(ComparePaired, CorrectsForTheNumberOfComparisons) {
  const std::vector<double> base = times(1, 6, 1, 0.003), slow = times(1.2, 6, 2, 0.003);
  EXPECT_EQ(compare_paired(slow, base, {.margin = 0.02, .comparisons = 1}).verdict, Verdict::higher);
  // Six pairs give 96.9 % at most, ten comparisons need 99.5 %.
  const Comparison corrected = compare_paired(slow, base, {.margin = 0.02, .comparisons = 10});
  EXPECT_EQ(corrected.verdict, Verdict::cannot_tell);
  EXPECT_GE(corrected.more_needed, 2);
  const Comparison enough =
      compare_paired(times(1.2, 12, 2, 0.003), times(1, 12, 1, 0.003), {.margin = 0.02, .comparisons = 10});
  EXPECT_EQ(enough.verdict, Verdict::higher);
  EXPECT_NEAR(enough.interval->level, 0.995, 1e-12);
}

TEST(NoiseMargin, EqualsAreRarelyToldApartAndTwiceTheBudgetIsFound) {
  int told_apart = 0, found = 0;
  constexpr int kRuns = 1000, kPairs = 10;
  for (int run = 0; run < kRuns; ++run) {
    NoisyMachine machine(static_cast<std::uint64_t>(run) + 1, 0.3, 0.05);
    const auto pair_of = [&](double factor, std::vector<double>& a, std::vector<double>& b) {
      for (int i = 0; i < kPairs; ++i) {
        const bool is_first = (i + run) % 2 == 0;
        const double x = machine.next(), y = machine.next();
        a.push_back(is_first ? x : y);
        b.push_back(factor * (is_first ? y : x));
      }
    };
    std::vector<double> a, b, ratios;
    pair_of(1, a, b);
    for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(std::log(b[i] / a[i]));
    const NoiseMargin margin = noise_margin(ratios, kPairs);
    EXPECT_GT(margin.smallest_difference, 0);
    const CompareOptions options{.margin = margin.smallest_difference, .comparisons = 1};
    std::vector<double> c, d;
    pair_of(1, c, d);
    const Verdict equal = compare_paired(d, c, options).verdict;
    told_apart += equal == Verdict::lower || equal == Verdict::higher ? 1 : 0;
    std::vector<double> e, f;
    pair_of(1 + 2 * margin.smallest_difference, e, f);
    found += compare_paired(f, e, options).verdict == Verdict::higher ? 1 : 0;
  }
  EXPECT_LE(told_apart, 0.08 * kRuns);
  EXPECT_GE(found, 0.9 * kRuns);
}

TEST(BlockBootstrap, CoversTheMeanOfDependentValues) {
  int covered = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    Random random(static_cast<std::uint64_t>(run) + 1);
    std::vector<double> values;
    double state = 0;
    for (int i = 0; i < 4000; ++i) values.push_back(3 + (state = 0.7 * state + normal(random)));
    const auto interval = block_bootstrap_mean(values, 64, 1, 500);
    covered += interval->low <= 3 && 3 <= interval->high ? 1 : 0;
  }
  EXPECT_GE(covered, 0.90 * kRuns);
  EXPECT_LE(covered, 0.99 * kRuns);
  EXPECT_FALSE(block_bootstrap_mean(std::vector<double>(100, 1.0), 64));
}

TEST(FitPolynomial, FindsWhatIsThere) {
  std::vector<double> x, y;
  for (int i = 1; i <= 50; ++i) {
    x.push_back(i * 10);
    y.push_back(2 + 0.03 * x.back() + 1e-5 * x.back() * x.back());
  }
  const auto fit = fit_polynomial(x, y, 2);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->coefficients[0], 2, 1e-9);
  EXPECT_NEAR(fit->coefficients[1], 0.03, 1e-11);
  EXPECT_NEAR(fit->coefficients[2], 1e-5, 1e-13);
  EXPECT_NEAR(fit->r2, 1, 1e-12);
  EXPECT_NEAR(fit->at(100), 5.1, 1e-9);
  EXPECT_FALSE(fit_polynomial(std::vector<double>{1, 2}, std::vector<double>{1, 2}, 1));
  EXPECT_FALSE(fit_polynomial(std::vector<double>{2, 2, 2, 2}, std::vector<double>{1, 2, 3, 4}, 1));
}

TEST(ModifiedZScore, FlagsOutliers) {
  EXPECT_EQ(outliers(std::vector<double>{1, 1.1, 0.9, 1.05, 0.95, 3}), std::vector<std::size_t>{5});
  EXPECT_TRUE(outliers(std::vector<double>{1, 1, 1, 1}).empty());
}

TEST(SupportedQuantile, KnowsItsSampleSize) {
  const std::vector<double> ten(10, 1.0);
  EXPECT_TRUE(supported_quantile(ten, 0.9));
  EXPECT_FALSE(supported_quantile(ten, 0.99));
  EXPECT_TRUE(supported_quantile(std::vector<double>(100, 1.0), 0.99));
}

TEST(Comparison, SurvivesJson) {
  Comparison c = compare_paired(times(1.2, 8, 2, 0.003), times(1, 8, 1, 0.003), {});
  c.subject = "nf4";
  c.baseline = "float32";
  c.metric = "total_latency_s";
  set_sentence(c);
  EXPECT_NE(c.sentence.find("nf4 is slower than float32: latency ratio 1.2"), std::string::npos)
      << c.sentence;
  EXPECT_EQ(verdict_word(c), "slower");
  const Comparison back = comparison_from_json(to_json(c));
  EXPECT_EQ(back.sentence, c.sentence);
  EXPECT_EQ(back.verdict, c.verdict);
  EXPECT_EQ(back.interval->low, c.interval->low);
}

Comparison unsure_of(const char* metric, int pairs, int more) {
  Comparison c;
  c.subject = "a";
  c.baseline = "b";
  c.metric = metric;
  c.verdict = Verdict::cannot_tell;
  c.pairs = pairs;
  c.more_needed = more;
  set_sentence(c);
  return c;
}

Comparison decided(const char* metric, Verdict verdict) {
  Comparison c;
  c.subject = "a";
  c.baseline = "b";
  c.metric = metric;
  c.ratio = 0.4123;
  c.interval = Interval{0.4, 0.43, 0.95};
  c.margin = 0.02;
  c.pairs = 4;
  c.verdict = verdict;
  set_sentence(c);
  return c;
}

TEST(Sentence, SaysTheVerdictByTheDirectionOfTheMetric) {
  EXPECT_EQ(decided("total_latency_s", Verdict::lower).sentence,
            "a is faster than b: latency ratio 0.412 [0.4, 0.43]");
  EXPECT_EQ(decided("tokens_per_sec", Verdict::lower).sentence,
            "a is slower than b: throughput ratio 0.412 [0.4, 0.43]");
  EXPECT_EQ(decided("perplexity", Verdict::lower).sentence,
            "a is lower than b: perplexity ratio 0.4123 [0.4, 0.43]");
  EXPECT_EQ(decided("total_latency_s", Verdict::no_difference).sentence,
            "a equals b within 2 %: latency ratio 0.412 [0.4, 0.43]");
  Comparison few = decided("total_latency_s", Verdict::too_few);
  few.interval.reset();
  set_sentence(few);
  EXPECT_EQ(few.sentence, "a against b has no verdict: latency ratio 0.412, from only 4 runs");
  EXPECT_EQ(verdict_word(few), "too few runs");
  few.metric = "perplexity";
  set_sentence(few);
  EXPECT_EQ(few.sentence,
            "a against b has no verdict: perplexity ratio 0.4123, from a text of only 256 tokens");
  EXPECT_EQ(verdict_word(few), "too little text");
}

TEST(Sentence, NamesTheRemedyThatHelps) {
  EXPECT_EQ(unsure_of("total_latency_s", 10, 169).sentence,
            "a against b is undecided: latency ratio 1; about 170 more runs are needed");
  EXPECT_EQ(unsure_of("total_latency_s", 10, 1).sentence,
            "a against b is undecided: latency ratio 1; about 1 more run is needed");
  EXPECT_EQ(unsure_of("total_latency_s", 9, 891).sentence,
            "a against b is undecided: latency ratio 1; 100 times as many runs are needed at least");
  // The same text has the same losses again: only more of it tells more.
  EXPECT_EQ(unsure_of("perplexity", 61, 169).sentence,
            "a against b is undecided: perplexity ratio 1; about 11000 more tokens of text are needed");
  EXPECT_EQ(unsure_of("perplexity", 61, 6039).sentence,
            "a against b is undecided: perplexity ratio 1; a text 100 times as long is needed at least");
}

}  // namespace
}  // namespace assay
