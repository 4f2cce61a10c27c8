// Rules at their limits: what lies just within and just beyond each, and figures worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/format.h"
#include "assay/machine/disturbance.h"
#include "assay/results/compare_results.h"
#include "assay/results/judge.h"
#include "assay/results/takeaways.h"
#include "support/prose.h"

namespace assay {
namespace {

// The percent or rate that the only warning names; "" without a warning.
std::string step_of(const Disturbance& d, int processors = 1) {
  const std::vector<Warning> warnings = warnings_of(d, processors);
  if (warnings.empty()) return "";
  EXPECT_EQ(warnings.size(), 1U);
  const std::size_t at = warnings[0].text.find("more than ") + 10;
  return warnings[0].text.substr(at, warnings[0].text.find(' ', at) - at);
}

TEST(WarningSteps, AreNamedFromTheirLimitOn) {
  const auto of_share = [](double Disturbance::*member, double share) {
    Disturbance d;
    d.seconds = 2;
    d.*member = 2 * share;
    return step_of(d);
  };
  const auto expect = [&](double Disturbance::*member, std::vector<double> percents) {
    EXPECT_EQ(of_share(member, 0.0099 * percents[0]), "");
    for (std::size_t i = 0; i < percents.size(); ++i) {
      EXPECT_EQ(of_share(member, 0.0101 * percents[i]), fmt::format("{:g}", percents[i]));
      if (i == 0) continue;
      EXPECT_EQ(of_share(member, 0.0099 * percents[i]), fmt::format("{:g}", percents[i - 1]));
    }
  };
  expect(&Disturbance::quota_wait_s, {1, 10, 50});
  expect(&Disturbance::stolen_cpu_s, {1, 5, 20});
  expect(&Disturbance::other_cpu_s, {10, 25, 50});
  expect(&Disturbance::processor_wait_s, {5, 20, 50});
  const auto of_rate = [](std::int64_t Disturbance::*member, double rate) {
    Disturbance d;
    d.seconds = 100;
    // Three deviations are subtracted: n - 3 sqrt(n).
    const double n = 100 * rate, root = (3 + std::sqrt(9 + 4 * n)) / 2;
    d.*member = static_cast<std::int64_t>(root * root);
    return step_of(d);
  };
  EXPECT_EQ(of_rate(&Disturbance::involuntary_switches, 199), "");
  EXPECT_EQ(of_rate(&Disturbance::involuntary_switches, 201), "200");
  EXPECT_EQ(of_rate(&Disturbance::involuntary_switches, 1001), "1000");
  EXPECT_EQ(of_rate(&Disturbance::migrations, 99), "");
  EXPECT_EQ(of_rate(&Disturbance::migrations, 101), "100");
  EXPECT_EQ(of_rate(&Disturbance::migrations, 1001), "1000");
  Disturbance d;
  d.seconds = 1;
  d.lowest_mhz = 1000;
  d.highest_mhz = 1099;
  EXPECT_EQ(step_of(d), "");
  d.highest_mhz = 1101;
  EXPECT_EQ(step_of(d), "10");
  d.highest_mhz = 1251;
  EXPECT_EQ(step_of(d), "25");
  // Ticks need 0.2 s: of the runs, or of what was watched around them.
  d = {};
  d.seconds = 0.2;
  d.stolen_cpu_s = 0.1;
  EXPECT_EQ(step_of(d), "20");
  d.seconds = 0.19;
  EXPECT_EQ(step_of(d), "");
  d.watched_s = 0.2;
  d.watched_stolen_cpu_s = 0.02;
  EXPECT_EQ(step_of(d), "5");
  EXPECT_EQ(step_of(d, 4), "1") << "of four processors";
  d.watched_s = 0.1999;
  EXPECT_EQ(step_of(d), "");
  d = {};
  d.seconds = 0.19;
  d.other_cpu_s = 0.1;
  EXPECT_EQ(step_of(d), "");
  d.seconds = 0.2;
  EXPECT_EQ(step_of(d), "25");
  d = {};
  d.seconds = 1;
  d.throttle_events = 1;
  EXPECT_EQ(warnings_of(d, 1).size(), 1U);
  d.throttle_events = 0;
  d.major_faults = 1;
  EXPECT_EQ(warnings_of(d, 0).size(), 1U);
}

TEST(ShownDuration, HasOneUnit) {
  EXPECT_EQ(shown_duration(0.2), "1 s");
  EXPECT_EQ(shown_duration(89), "89 s");
  EXPECT_EQ(shown_duration(90), "2 min");
  EXPECT_EQ(shown_duration(150), "2 min");
  EXPECT_EQ(shown_duration(5399), "90 min");
  EXPECT_EQ(shown_duration(5400), "1.5 h");
}

TEST(Sentence, AsksForRoundNumbers) {
  const auto needed = [](int more) {
    Comparison c;
    c.metric = "total_latency_s";
    c.verdict = Verdict::cannot_tell;
    c.processes = 5;
    c.more_needed = more;
    const std::string sentence = sentence_of(c);
    const std::size_t at = sentence.find("about ") + 6;
    return sentence.substr(at, sentence.find(' ', at) - at);
  };
  EXPECT_EQ(needed(5), "5");
  EXPECT_EQ(needed(99), "99");
  EXPECT_EQ(needed(100), "100");
  EXPECT_EQ(needed(101), "110");
  EXPECT_EQ(needed(1010), "1100");
}

TEST(LossBlocks, HoldSixteenTokensEach) {
  const LossBlocks blocks = loss_blocks(std::vector<double>(33, 0.5));
  EXPECT_EQ(blocks.tokens, 33);
  EXPECT_EQ(blocks.sums, (std::vector<double>{8, 8, 0.5}));
  EXPECT_TRUE(loss_blocks({}).sums.empty());
}

TEST(ValueOfProcesses, ByHand) {
  const std::vector<SampleId> places = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}};
  const Value two = value_of_processes({1, 2, 99, 8, 8, 1}, places);
  EXPECT_NEAR(two.value, 4, 1e-12);  // the geometric mean of 2 and 8
  EXPECT_FALSE(two.interval);
  EXPECT_EQ(two.processes, 2);
  EXPECT_EQ(two.statistic, "mean of medians");
  // Not all are above 0: their mean, 1, 2 and 6 less 3, with the error of 1, 2, 6.
  const std::vector<SampleId> three = {{0, 0}, {1, 0}, {2, 0}};
  const Value mixed = value_of_processes({-2, -1, 3}, three);
  EXPECT_NEAR(mixed.value, 0, 1e-12);
  EXPECT_NEAR(mixed.interval->high, 4.302653 * std::sqrt(7.0 / 3), 1e-5);
  EXPECT_NEAR(mixed.interval->low, -4.302653 * std::sqrt(7.0 / 3), 1e-5);
  EXPECT_NEAR(value_of_processes({0, 1, 2}, three).value, 1, 1e-12) << "0 has no logarithm";
  const Value one = value_of_repeats({1, 2, 6});
  EXPECT_EQ(one.value, 3);
  EXPECT_EQ(one.statistic, "mean");
  const Value six = value_of_repeats({1, 2, 3, 4, 5, 60});
  EXPECT_EQ(six.value, 3.5);
  EXPECT_EQ(six.statistic, "median");
}

Row row_at(const std::string& label, const std::vector<double>& of_processes) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  for (std::size_t i = 0; i < of_processes.size(); ++i) row.places.push_back({static_cast<int>(i), 0});
  row.set("total_latency_s", value_of_processes(of_processes, row.places));
  return row;
}

TEST(CompareRows, PairsByPlace) {
  Row a = row_at("a", {2, 4, 8}), b = row_at("b", {1, 1, 1, 1});
  b.places = {{2, 0}, {1, 0}, {0, 0}, {5, 0}};
  Value other = *b.find("total_latency_s");
  other.samples = {8, 1, 1, 100};
  b.set("total_latency_s", other);
  const auto c = compare_rows(a, b, "total_latency_s", 0.02);
  ASSERT_TRUE(c);
  EXPECT_NEAR(c->ratio, 2, 1e-12);  // 2, 4 and 1
  EXPECT_EQ(c->processes, 3);
  EXPECT_EQ(c->subject, "a");
  EXPECT_EQ(c->baseline, "b");
  EXPECT_EQ(c->margin, 0.02);
  EXPECT_FALSE(compare_rows(a, b, "perplexity", 0.02));
  b.places.pop_back();
  EXPECT_FALSE(compare_rows(a, b, "total_latency_s", 0.02)) << "it does not say where its samples come from";
  b.places = {{7, 0}, {8, 0}, {9, 0}, {10, 0}};
  EXPECT_FALSE(compare_rows(a, b, "total_latency_s", 0.02)) << "nothing is in common";
}

TEST(Judge, GivesFiguresOfItsLevel) {
  // Log ratios 0.1, 0.2, 0.3: error 0.1 / sqrt(3), 2 degrees.
  const std::vector<std::vector<double>> ratios = {{0.1}, {0.2}, {0.3}};
  Comparison c = compare_processes(ratios, 0.02);
  c.metric = "total_latency_s";
  judge(c);
  const double error = 0.1 / std::sqrt(3.0);
  EXPECT_EQ(c.verdict, Verdict::cannot_tell);
  EXPECT_EQ(c.interval->level, 0.95);
  EXPECT_NEAR(c.interval->low, std::exp(0.2 - 4.302653 * error), 1e-6);
  // 3.4641 errors: 1 - t / sqrt(2 + t^2).
  const double t = 0.2 / error;
  EXPECT_NEAR(*c.p_value, 1 - t / std::sqrt(2 + t * t), 1e-12);
  EXPECT_GE(c.more_needed, 1);
  const double detectable = c.detectable_difference;
  EXPECT_NEAR(detectable, std::expm1(statistics::detectable_difference(*c.effect, 0.95)), 1e-12);
  // Two such are a family: the smaller p is tested at 2.5 %, and so is the other, since it is not rejected.
  Comparison d = c;
  Comparison* family[] = {&c, &d};
  judge(family);
  EXPECT_NEAR(c.interval->level, 0.975, 1e-12);
  EXPECT_NEAR(d.interval->level, 0.975, 1e-12);
  EXPECT_GT(c.detectable_difference, detectable);
  // The best of six stands for three comparisons; the best of two for one.
  c.chosen_among = 6;
  judge(c);
  EXPECT_NEAR(c.interval->level, 1 - 0.05 / 3, 1e-12);
  c.chosen_among = 1;
  judge(c);
  EXPECT_NEAR(c.interval->level, 0.95, 1e-12);
}

TEST(Conclude, TakesPriorsFromOtherRows) {
  // Six rows whose processes deviate alike: their variances stand behind each comparison.
  ExperimentResult with, without;
  const double own[6][3] = {{0, 1, -1}, {1, 0, -1}, {-1, 1, 0}, {0, -1, 1}, {1, -1, 0}, {-1, 0, 1}};
  for (int i = 0; i < 6; ++i) {
    std::vector<double> times;
    for (const double deviation : own[i]) times.push_back(std::exp(0.01 * deviation));
    with.rows.push_back(row_at("r" + std::to_string(i), times));
  }
  without.rows = {with.rows[0], with.rows[1]};
  for (ExperimentResult* result : {&with, &without}) {
    result->comparisons.push_back(*compare_rows(result->rows[1], result->rows[0], "total_latency_s", 0.02));
    result->comparisons[0].seconds_each = 7;
    result->judge_all(0.02);
  }
  EXPECT_EQ(without.comparisons[0].effect->degrees, 2);
  EXPECT_EQ(with.comparisons[0].effect->degrees, 2 + statistics::kMaxPriorDegrees);
  // Column means are 0, so that each row's variance is 1e-4 over 1 - 1/6; of two degrees the logarithm has
  // the mean -0.5772. Of a difference twice as much, and 8 degrees of it against 2 of the three log ratios.
  const double prior = 2 * 1e-4 / (1 - 1 / 6.0) * std::exp(0.5772156649015329);
  constexpr double kMaxDegrees = statistics::kMaxPriorDegrees;
  const double deviations[] = {0.01, -0.01, 0};  // r1 / r0
  double squares = 0;
  for (const double x : deviations) squares += x * x;
  EXPECT_NEAR(with.comparisons[0].effect->error,
              std::sqrt((kMaxDegrees * prior + 2 * squares / 2) / (kMaxDegrees + 2) / 3), 1e-9);
  // The best against the five others.
  ASSERT_EQ(with.other_comparisons.size(), 5U);
  EXPECT_EQ(with.other_comparisons[0].chosen_among, 6);
  EXPECT_EQ(with.other_comparisons[0].seconds_each, 7);
  EXPECT_EQ(with.other_comparisons[0].effect->degrees, 10);
}

Row sized(const std::string& label, double megabytes) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  row.set("resident_weights_bytes", megabytes * 1024 * 1024);
  row.set("total_latency_s", 1);
  return row;
}

Comparison loss_of(const std::string& subject, double low, double high, Verdict verdict) {
  Comparison c;
  c.scenario = Scenario::perplexity;
  c.subject = subject;
  c.baseline = "base";
  c.metric = "perplexity";
  c.ratio = (low + high) / 2;
  c.interval = statistics::Interval{low, high, 0.95};
  c.verdict = verdict;
  c.processes = 50;
  return c;
}

TEST(Takeaways, NameTheModelThatIsStored) {
  ResultSet results;
  results.rows = {sized("as stored", 100), sized("nf4", 50)};
  results.comparisons = {loss_of("nf4", 1.1, 1.2, Verdict::higher)};
  results.comparisons[0].baseline = "as stored";
  std::vector<std::string> all = test::takeaway_texts(results);
  for (const std::string& text : test::recommendation_texts(results)) all.push_back(text);
  ASSERT_GE(all.size(), 3U);
  for (const std::string& text : all) {
    if (const std::size_t at = text.find("as stored"); at != std::string::npos) {
      EXPECT_EQ(text.rfind("the model ", at), at - 10) << text;
    }
  }
  EXPECT_TRUE(test::recommendation_texts(results)[0].starts_with(
      "For a small device, choose the model as stored, the baseline, "));
}

TEST(Takeaways, HoldTheirLimits) {
  ResultSet results;
  results.rows = {sized("base", 100), sized("a", 50), sized("b", 20)};
  results.comparisons = {loss_of("a", 1, 1.04, Verdict::higher), loss_of("b", 1.03, 1.05, Verdict::higher)};
  EXPECT_EQ(recommendation_of(results)->small_device, "b") << "up to 1.05";
  results.comparisons[1].interval->high = 1.0501;
  EXPECT_EQ(recommendation_of(results)->small_device, "a");
  results.comparisons[0].interval->high = 1.06;
  EXPECT_EQ(recommendation_of(results)->small_device, "base");
  EXPECT_EQ(
      test::recommendation_texts(results)[0],
      "For a small device, choose base, the baseline, whose weights take 100.0 MiB: none with smaller "
      "weights is shown to have a perplexity of at most 1.05 times the baseline's. b takes 20.0 MiB, but "
      "its perplexity may be 1.05 times the baseline's.");
  results.comparisons[1].interval->high = 1.07;
  EXPECT_NE(test::recommendation_texts(results)[0].find(" a takes 50.0 MiB, but its perplexity may be 1.06 "),
            std::string::npos)
      << "the one that comes nearest: " << test::recommendation_texts(results)[0];
  results.comparisons.pop_back();
  EXPECT_NE(test::recommendation_texts(results)[0].find(
                "One configuration with smaller weights has no comparison of perplexity."),
            std::string::npos)
      << test::recommendation_texts(results)[0];
  for (Row& row : results.rows) row.set("resident_weights_bytes", 100 * 1024 * 1024);
  EXPECT_EQ(test::recommendation_texts(results)[0],
            "For a small device, choose base, the baseline, whose weights take 100.0 MiB: none has smaller "
            "weights.");
  results.comparisons.clear();
  EXPECT_FALSE(recommendation_of(results)) << "no quality is known";
  // Five are tied: the first four are named.
  results.rows = {sized("base", 100)};
  for (const char* label : {"a", "b", "c", "d"}) results.rows.push_back(sized(label, 10));
  EXPECT_NE(test::takeaway_texts(results)[0].find("weights of a, b, c and d take 10.0 MiB each, 10.0x less"),
            std::string::npos)
      << test::takeaway_texts(results)[0];
  results.rows.push_back(sized("e", 10));
  EXPECT_NE(test::takeaway_texts(results)[0].find("weights of a, b, c, d and 1 other take"),
            std::string::npos)
      << test::takeaway_texts(results)[0];
  results.rows = {sized("base", 100), sized("nf4+head:nf4", 10)};
  results.rows[1].set("bits_per_weight", 4.5);
  results.rows[1].setting.lm_head = "nf4";
  EXPECT_NE(test::takeaway_texts(results)[0].find(
                "4.5 bits per weight, because positions, norms and biases are not quantized"),
            std::string::npos);
  results.rows.resize(1);
  EXPECT_TRUE(takeaways_of(results).empty());
}

TEST(MoreProcesses, AsksForTenTimesAsManyAtMost) {
  ResultSet results;
  Comparison c;
  c.scenario = Scenario::tradeoff;
  c.metric = "total_latency_s";
  c.verdict = Verdict::cannot_tell;
  c.processes = 5;
  c.seconds_each = 3;
  results.comparisons = {c, c, c};
  results.comparisons[0].more_needed = 45;  // 50 processes
  results.comparisons[1].more_needed = 46;
  results.comparisons[2].more_needed = 10;
  results.comparisons[2].scenario = Scenario::lengths;
  results.comparisons[2].seconds_each = 4;
  const auto more = more_processes_of(results);
  EXPECT_EQ(more->processes, 50);
  EXPECT_EQ(more->decided, 2);
  EXPECT_EQ(more->undecided, 3);
  EXPECT_EQ(more->seconds, 350);
  EXPECT_EQ(sentence_of(*more),
            "Undecided: 3 of 3 comparisons. 50 processes would probably decide 2 of them, in about 6 min.");
  results.comparisons.resize(1);
  results.comparisons[0].seconds_each = 0;
  for (const auto& [command, expected] :
       {std::pair("assay run", "assay run --processes 50"),
        {"assay run --processes=5 x", "assay run x --processes 50"},
        {"assay run --budget 90s -o r --resume", "assay run -o r --processes 50 --budget none"},
        {"assay run --processes 5", "assay run --processes 50"}}) {
    results.command = command;
    EXPECT_EQ(sentence_of(*more_processes_of(results)),
              std::string("Undecided: 1 of 1 comparisons. 50 processes would probably decide 1 of them: ") +
                  expected);
  }
}

}  // namespace
}  // namespace assay
