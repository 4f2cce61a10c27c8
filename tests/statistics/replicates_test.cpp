// Effects over replicates: against tables, and by simulation of machines whose processes differ.
#include "assay/statistics/replicates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "assay/base/random.h"
#include "assay/results/results.h"

namespace assay {
namespace {

using statistics::Effect;

TEST(StudentT, HasTheQuantilesOfTheTables) {
  EXPECT_NEAR(statistics::student_t_quantile(0.95, 1), 12.7062, 1e-4);
  EXPECT_NEAR(statistics::student_t_quantile(0.95, 4), 2.77645, 1e-5);
  EXPECT_NEAR(statistics::student_t_quantile(0.99, 9), 3.24984, 1e-5);
  EXPECT_NEAR(statistics::student_t_quantile(0.95, 1e6), 1.95997, 1e-5);
  EXPECT_NEAR(statistics::student_t_tail(2.0, 10), 0.07339, 1e-5);
  EXPECT_NEAR(statistics::student_t_tail(-2.0, 10), 0.07339, 1e-5);
  EXPECT_NEAR(statistics::student_t_tail(0, 3), 1, 1e-12);
}

TEST(EffectOf, IsTheMeanWithItsError) {
  const std::vector<double> replicates = {1, 2, 3, 4, 5};
  const auto effect = statistics::effect_of(replicates);
  ASSERT_TRUE(effect);
  EXPECT_DOUBLE_EQ(effect->estimate, 3);
  EXPECT_NEAR(effect->error, std::sqrt(2.5 / 5), 1e-12);
  EXPECT_EQ(effect->degrees, 4);
  EXPECT_NEAR(effect->interval(0.95).high, 3 + 2.77645 * std::sqrt(0.5), 1e-4);
  EXPECT_NEAR(effect->p_value(), 0.01324, 1e-5);  // t = 4.2426
  EXPECT_FALSE(statistics::effect_of(std::vector<double>{1}));
  // Equal replicates: certain, one way or the other.
  EXPECT_EQ(statistics::effect_of(std::vector<double>{0, 0})->p_value(), 1);
  EXPECT_EQ(statistics::effect_of(std::vector<double>{2, 2})->p_value(), 0);
}

TEST(BlockMeans, UseEveryValueOnce) {
  std::vector<double> values;
  for (int i = 0; i < 11; ++i) values.push_back(i);
  EXPECT_EQ(statistics::block_means(values, 5), (std::vector<double>{2, 7.5}));  // 0..4 and 5..10
  EXPECT_TRUE(statistics::block_means(values, 6).empty());
  EXPECT_TRUE(statistics::block_means(values, 0).empty());
}

TEST(Holm, StepsDown) {
  using Divisors = std::vector<int>;
  // 0.01 <= 0.05 / 3, 0.02 <= 0.05 / 2, 0.04 <= 0.05.
  EXPECT_EQ(statistics::holm_divisors(std::vector<double>{0.04, 0.01, 0.02}, 0.05), (Divisors{1, 3, 2}));
  // 0.03 > 0.05 / 2 stops it, and the last keeps that level.
  EXPECT_EQ(statistics::holm_divisors(std::vector<double>{0.04, 0.01, 0.03}, 0.05), (Divisors{2, 3, 2}));
  EXPECT_EQ(statistics::holm_divisors(std::vector<double>{0.5, 0.5}, 0.05), (Divisors{2, 2}));
  EXPECT_TRUE(statistics::holm_divisors({}, 0.05).empty());
}

TEST(RowVariances, LeaveOutWhatAVisitHasInCommon) {
  // Three rows of a visit effect and one that deviates by +-1 alone.
  const std::vector<std::vector<double>> rows = {{10, 20, 30}, {11, 21, 31}, {11, 19, 30}};
  const auto variances = statistics::row_variances(rows);
  ASSERT_EQ(variances.size(), 3u);
  // Residuals of the third: (1, -1, 0) * 2/3; of the others (-1, 1, 0) / 3. Over 2 * 2/3 degrees.
  EXPECT_NEAR(variances[2], 2 * 4.0 / 9 / (4.0 / 3), 1e-9);
  EXPECT_NEAR(variances[0], 2 / 9.0 / (4.0 / 3), 1e-9);
  EXPECT_NEAR(variances[1], variances[0], 1e-9);
  EXPECT_TRUE(statistics::row_variances(std::vector<std::vector<double>>{{1, 2}, {2, 3}}).empty());
}

double normal(Random& random) {
  const double u = 1 - random.uniform(), v = random.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
}

TEST(VariancePrior, IsWorthLittleWhereVariancesDiffer) {
  Random random(5);
  const auto prior_of = [&](double heterogeneity) {
    std::vector<statistics::EstimatedVariance> estimates;
    for (int i = 0; i < 400; ++i) {
      const double deviation = 2 * std::exp(heterogeneity * normal(random));
      double squares = 0;
      for (int j = 0; j < 4; ++j) squares += std::pow(deviation * normal(random), 2);
      estimates.push_back({squares / 4, 4});
    }
    return statistics::variance_prior(estimates);
  };
  const auto equal = prior_of(0), unequal = prior_of(1);
  EXPECT_EQ(equal.degrees, statistics::kMaxPriorDegrees);
  EXPECT_NEAR(equal.variance, 4, 0.6);
  EXPECT_LT(unequal.degrees, 3);
  EXPECT_EQ(statistics::variance_prior(std::vector<statistics::EstimatedVariance>(5, {1, 4})).degrees, 0);
  // Weighed by degrees: (8 * 4 + 4 * 1) / 12 over four replicates... of 5.
  const Effect own{0.5, std::sqrt(1.0 / 5), 4, 5};
  const Effect moderated = statistics::with_prior(own, {4, 8});
  EXPECT_EQ(moderated.degrees, 12);
  EXPECT_NEAR(moderated.error, std::sqrt(36.0 / 12 / 5), 1e-12);
  EXPECT_EQ(moderated.estimate, 0.5);
}

// Times of a machine: visits and processes deviate, runs in a process follow the run before.
struct Machine {
  double between = 0.02, visit = 0.02, within = 0.02, correlation = 0.3;
};

// Rows of one scenario, `cases` of them, over processes and rounds; `factor` gives the truth.
std::vector<Row> rows_of(Random& random, const Machine& m, int cases, int processes, int rounds,
                         const std::function<double(int)>& factor) {
  std::vector<Row> rows(static_cast<std::size_t>(cases));
  std::vector<std::vector<double>> times(rows.size());
  for (int process = 0; process < processes; ++process) {
    const double visit = m.visit * normal(random);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double own = m.between * normal(random);
      double state = normal(random);
      for (int round = 0; round < rounds; ++round) {
        state = m.correlation * state + std::sqrt(1 - m.correlation * m.correlation) * normal(random);
        times[i].push_back(factor(static_cast<int>(i)) * std::exp(visit + own + m.within * state));
        rows[i].places.push_back({process, round});
      }
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].scenario = Scenario::tradeoff;
    rows[i].label = "c" + std::to_string(i);
    rows[i].set("total_latency_s", value_of_processes(std::move(times[i]), rows[i].places));
  }
  return rows;
}

// As a study and the end of its run do it.
ExperimentResult concluded(std::vector<Row> rows) {
  ExperimentResult result;
  result.rows = std::move(rows);
  for (std::size_t i = 1; i < result.rows.size(); ++i)
    result.comparisons.push_back(*compare_rows(result.rows[i], result.rows[0], "total_latency_s", 0.02));
  result.judge_all(0.02);
  return result;
}

bool is_difference(const Comparison& c) {
  return c.verdict == Verdict::lower || c.verdict == Verdict::higher;
}

struct Level {
  double between, correlation;
};
class EqualConfigurations : public ::testing::TestWithParam<Level> {};

// Seventeen against a baseline, all equal but in name.
TEST_P(EqualConfigurations, AreRarelyToldApartAndIntervalsCover) {
  const auto [between, correlation] = GetParam();
  for (const int processes : {3, 5}) {
    Random random(17);
    constexpr int kRuns = 120;
    int false_runs = 0, covered = 0, rows_covered = 0, rows_seen = 0;
    for (int run = 0; run < kRuns; ++run) {
      const auto rows =
          rows_of(random, {between, 0.02, 0.02, correlation}, 18, processes, 3, [](int) { return 1.0; });
      rows_covered +=
          *rows[0].find("total_latency_s")->low() <= 1 && 1 <= *rows[0].find("total_latency_s")->high();
      ++rows_seen;
      const ExperimentResult result = concluded(rows);
      const auto& a = result.comparisons;
      const auto& b = result.other_comparisons;
      false_runs +=
          std::any_of(a.begin(), a.end(), is_difference) || std::any_of(b.begin(), b.end(), is_difference);
      covered += std::abs(a[3].effect->estimate) <= a[3].effect->interval(0.95).high - a[3].effect->estimate;
    }
    EXPECT_LE(false_runs, 0.05 * kRuns) << processes;
    // 95 %, give or take three times the simulation's own error of 2 %; more exactly below.
    EXPECT_GE(covered, 0.89 * kRuns) << processes;
    EXPECT_GE(rows_covered, 0.89 * rows_seen) << processes;
  }
}
INSTANTIATE_TEST_SUITE_P(Levels, EqualConfigurations,
                         ::testing::Values(Level{0, 0}, Level{0.01, 0.3}, Level{0.02, 0.7},
                                           Level{0.04, 0.9}));

// One interval by itself, with many runs, so that the simulation's own error is small.
TEST(Coverage, OfOneComparisonIsNinetyFivePercent) {
  for (const double between : {0.0, 0.01, 0.02, 0.04})
    for (const double correlation : {0.0, 0.5, 0.9}) {
      Random random(23);
      constexpr int kRuns = 4000;
      int covered = 0;
      for (int run = 0; run < kRuns; ++run) {
        std::vector<double> processes;
        for (int p = 0; p < 5; ++p) {
          std::vector<double> rounds;
          const double own = between * normal(random);
          double state = normal(random);
          for (int r = 0; r < 3; ++r) {
            state = correlation * state + std::sqrt(1 - correlation * correlation) * normal(random);
            rounds.push_back(own + 0.02 * state);
          }
          processes.push_back(statistics::median(rounds));
        }
        const statistics::Interval interval = statistics::effect_of(processes)->interval(0.95);
        covered += interval.low <= 0 && 0 <= interval.high;
      }
      EXPECT_GE(covered, 0.93 * kRuns) << between << " " << correlation;
      EXPECT_LE(covered, 0.97 * kRuns) << between << " " << correlation;
    }
}

// What an A/A run of as many processes calls detectable is found nine times in ten.
TEST(DetectableDifference, IsFoundNineTimesInTen) {
  for (const int processes : {3, 5, 10}) {
    Random random(29);
    constexpr int kRuns = 3000;
    int found = 0;
    for (int run = 0; run < kRuns; ++run) {
      const auto sample = [&](double shift) {
        std::vector<double> all;
        for (int p = 0; p < processes; ++p) all.push_back(shift + 0.03 * normal(random));
        return *statistics::effect_of(all);
      };
      const double planted = statistics::detectable_difference(sample(0), 0.95);
      const Effect slowed = sample(planted);
      found += slowed.estimate > 0 && slowed.p_value() <= 0.05;
    }
    EXPECT_GE(found, 0.88 * kRuns) << processes;
    EXPECT_LE(found, 0.92 * kRuns) << processes;
  }
}

// Undecided comparisons, each measured again with as many processes as its advice asks for.
TEST(ReplicatesNeeded, ResolveMostOfWhatWasUndecided) {
  Random random(31);
  int advised = 0, resolved = 0;
  constexpr double kMargin = 0.02, kLevel = 1 - 0.05 / 10;
  const double margin = std::log1p(kMargin);
  for (int run = 0; run < 600; ++run) {
    const double truth = 0.06 * (random.uniform() - 0.5), deviation = 0.01 + 0.02 * random.uniform();
    const auto measured = [&](int n) {
      std::vector<double> all;
      for (int p = 0; p < n; ++p) all.push_back(truth + deviation * normal(random));
      return *statistics::effect_of(all);
    };
    const auto is_resolved = [&](const Effect& effect) {
      const statistics::Interval i = effect.interval(kLevel);
      return i.low > 0 || i.high < 0 || (i.low > -margin && i.high < margin);
    };
    const Effect first = measured(5);
    if (is_resolved(first)) continue;
    const auto needed = statistics::replicates_needed(first, margin, kLevel, 500);
    if (!needed) continue;
    ++advised;
    resolved += is_resolved(measured(*needed));
  }
  ASSERT_GT(advised, 200);
  EXPECT_GE(resolved, 0.8 * advised) << resolved << " of " << advised;
}

TEST(BestRows, NamesAWinnerOnlyWhereItBeatsTheOthers) {
  Random random(37);
  const Machine quiet{0.005, 0.01, 0.005, 0};
  const auto best_of = [&](const std::function<double(int)>& factor, int processes = 5) {
    const ExperimentResult result = concluded(rows_of(random, quiet, 8, processes, 3, factor));
    std::vector<std::string> labels;
    for (const Row* row : best_rows(result.rows, result.other_comparisons, Scenario::tradeoff))
      labels.push_back(row->label);
    std::sort(labels.begin(), labels.end());
    return labels;
  };
  using Labels = std::vector<std::string>;
  EXPECT_EQ(best_of([](int i) { return i == 2 ? 0.5 : 1.0; }), (Labels{"c2"}));
  EXPECT_EQ(best_of([](int i) { return i == 2 ? 2.0 : i == 5 ? 0.7 : 1.0; }), (Labels{"c5"}));
  EXPECT_EQ(best_of([](int i) { return i == 1 || i == 6 ? 0.5 : 1.0; }), (Labels{"c1", "c6"}));
  EXPECT_EQ(best_of([](int) { return 1.0; }).size(), 8u);
  EXPECT_TRUE(best_of([](int i) { return i == 2 ? 0.5 : 1.0; }, 2).empty()) << "no test, no winner";
}

}  // namespace
}  // namespace assay
