// Verdicts, their sentences and warnings at the last value on each side of their limits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/base/format.h"
#include "assay/machine/disturbance.h"
#include "assay/machine/gpu_sensors.h"
#include "assay/results/judge.h"
#include "assay/results/metric.h"
#include "assay/results/verdict.h"
#include "assay/results/warning.h"
#include "support/prose.h"

namespace assay {
namespace {

using Processes = std::vector<std::vector<double>>;

Comparison with_metric(Comparison c, const char* metric = "total_latency_s") {
  c.subject = "a";
  c.baseline = "b";
  c.metric = metric;
  return c;
}
// For logarithms that are all the same: an interval of one point.
Comparison certain(double ratio, double margin) {
  Comparison c = with_metric(compare_processes(Processes(5, {std::log(ratio)}), margin));
  judge(c);
  return c;
}

TEST(VerdictLimits, OfCertainRatios) {
  EXPECT_EQ(certain(1.01, 0.02).verdict, Verdict::no_difference);
  EXPECT_EQ(certain(0.99, 0.02).verdict, Verdict::no_difference);
  EXPECT_EQ(certain(1.03, 0.02).verdict, Verdict::higher);
  EXPECT_EQ(certain(0.97, 0.02).verdict, Verdict::lower);
  EXPECT_EQ(certain(1, 0).verdict, Verdict::cannot_tell) << "nothing lies within no margin";
  const Comparison c = certain(0.5, 0.02);
  EXPECT_EQ(sentence_of(c), "a is 2x [2, 2] faster than b");
  EXPECT_EQ(c.margin, 0.02);
  EXPECT_EQ(c.pairs, 5);
  EXPECT_EQ(c.processes, 5);
  EXPECT_EQ(c.more_needed, 0);
  EXPECT_EQ(c.detectable_difference, 0);
  EXPECT_EQ(*c.p_value, 0);
  EXPECT_EQ(c.interval->level, 0.95);
  // At the margin itself it is no equal: log1p(0.5) is the logarithm of 1.5.
  Comparison edge = with_metric({});
  edge.margin = 0.5;
  edge.effect = statistics::Effect{std::log1p(0.5), 0, 4, 5};
  judge(edge);
  EXPECT_EQ(edge.verdict, Verdict::higher);
  edge.effect->estimate = -std::log1p(0.5);
  judge(edge);
  EXPECT_EQ(edge.verdict, Verdict::lower);
}

TEST(VerdictLimits, OfProcesses) {
  const Comparison two = compare_processes(Processes{{0.1, 0.2, 0.9}, {0.4}}, 0.05);
  EXPECT_FALSE(two.effect);
  EXPECT_FALSE(two.interval);
  EXPECT_NEAR(two.ratio, std::exp(0.3), 1e-12) << "of medians 0.2 and 0.4";
  EXPECT_EQ(two.pairs, 4);
  EXPECT_EQ(two.processes, 2);
  const Comparison three = compare_processes(Processes{{0}, {}, {0.1, 0.1, 9}, {0.5}}, 0.05);
  ASSERT_TRUE(three.effect);
  EXPECT_NEAR(three.effect->estimate, 0.2, 1e-12);
  EXPECT_NEAR(three.effect->error, std::sqrt((0.04 + 0.01 + 0.09) / 2 / 3), 1e-12);
  EXPECT_NEAR(three.ratio, std::exp(0.2), 1e-12) << "not of the median process";
  EXPECT_EQ(three.processes, 3) << "an empty one is none";
  // For one process the interval is that of its rounds, of six the whole range.
  Comparison one = with_metric(compare_processes(Processes{{1, 2, 3, 4, 5, 6}}, 0.05));
  EXPECT_NEAR(one.interval->low, std::exp(1), 1e-9);
  EXPECT_NEAR(one.interval->high, std::exp(6), 1e-9);
  judge(one);
  EXPECT_EQ(one.verdict, Verdict::too_few);
  EXPECT_FALSE(compare_processes(Processes{{1, 2, 3, 4, 5}}, 0.05).interval);
}

TEST(VerdictLimits, OfLosses) {
  const auto blocks = [](int n, double rest) {
    std::vector<double> losses;
    for (int i = 0; i < n; ++i) losses.insert(losses.end(), 64, i % 2 == 0 ? 0.1 : 0.3);
    losses.push_back(rest);
    return losses;
  };
  const Comparison five = compare_losses(blocks(5, 0), 0.01);
  EXPECT_FALSE(five.effect);
  EXPECT_EQ(five.processes, 5);
  EXPECT_EQ(five.pairs, 5);
  EXPECT_EQ(five.margin, 0.01);
  EXPECT_EQ(five.metric, "perplexity");
  const Comparison six = compare_losses(blocks(6, 1.0), 0.01);
  ASSERT_TRUE(six.effect);
  const double mean = (6 * 64 * 0.2 + 1) / (6 * 64 + 1);
  EXPECT_NEAR(six.effect->estimate, mean, 1e-12);
  EXPECT_NEAR(six.ratio, std::exp(mean), 1e-12);
  EXPECT_EQ(six.processes, 6);
}

TEST(VerdictLimits, OfUnpaired) {
  const std::vector<double> two = {1, 2}, three = {1, 1, 8}, four = {4, 4, 4, 4};
  EXPECT_FALSE(compare_unpaired(two, four, 0.02).effect);
  const Comparison c = compare_unpaired(three, four, 0.02);
  EXPECT_EQ(c.processes, 3);
  EXPECT_EQ(c.pairs, 3);
  EXPECT_EQ(c.margin, 0.02);
  EXPECT_NEAR(c.ratio, 0.5, 1e-12);  // the geometric mean 2 of 4
  EXPECT_NEAR(c.effect->estimate, std::log(0.5), 1e-12);
  EXPECT_NEAR(compare_unpaired(four, three, 0.02).ratio, 2, 1e-12);
  EXPECT_TRUE(std::isfinite(compare_unpaired(std::vector<double>{0, 1, 1}, four, 0.02).ratio));
}

// What is undecided needs one more at least, 100 times as many at most.
TEST(VerdictLimits, OfWhatIsNeeded) {
  Comparison c = with_metric({});
  c.margin = 0.02;
  for (const double estimate : {0.001, 0.01, 0.03, 0.1, 0.2})
    for (const double error : {0.01, 0.03, 0.09}) {
      c.effect = statistics::Effect{estimate, error, 4, 5};
      judge(c);
      if (c.verdict != Verdict::cannot_tell) {
        EXPECT_EQ(c.more_needed, 0);
        continue;
      }
      const auto needed = statistics::replicates_needed(*c.effect, std::log1p(0.02), 0.95, 500);
      EXPECT_EQ(c.more_needed, needed ? std::max(1, *needed - 5) : kNotInReach) << estimate << " " << error;
    }
  // Undecided by little, with a prior of eight degrees behind it.
  c.effect = statistics::Effect{0.01, 0.005, 12, 5};
  judge(c);
  EXPECT_EQ(c.verdict, Verdict::cannot_tell);
  EXPECT_EQ(c.more_needed, 1);
}

TEST(VerdictLimits, OfANoiseEstimate) {
  // Medians 0, 0.1, 0.5: mean 0.2. Repeats {-1, 0, 1} in each: variance 1.
  const auto noise = noise_estimate(Processes{{-1, 0, 1}, {-0.9, 0.1, 1.1, 0.1}, {-0.5, 0.5, 1.5}});
  ASSERT_TRUE(noise);
  EXPECT_EQ(noise->processes, 3);
  EXPECT_EQ(noise->rounds, 4);
  EXPECT_NEAR(noise->bias, std::expm1(0.2), 1e-12);
  EXPECT_NEAR(noise->within, std::sqrt(6.0 / 7 / 2), 1e-12);  // squares 2, 2 and 2 over 2 + 3 + 2
  EXPECT_EQ(noise->between, 0);
  const double error = std::sqrt((0.04 + 0.01 + 0.09) / 2 / 3);
  EXPECT_NEAR(noise->detectable_difference,
              std::expm1(statistics::detectable_difference({0, error, 2, 3}, 0.95)), 1e-9);
  const auto apart = noise_estimate(Processes{{1, 1}, {3, 3}, {5, 5}});
  EXPECT_NEAR(apart->between, 2 / std::sqrt(2.0), 1e-12);
  EXPECT_EQ(apart->within, 0);
  EXPECT_FALSE(noise_estimate(Processes{{1, 2}, {3, 4}}));
  EXPECT_FALSE(noise_estimate(Processes{{1}, {3}, {2}}));
  EXPECT_FALSE(noise_estimate(Processes{{1, 2}, {3, 4}, {}}));
}

std::string sentence_with(Verdict verdict, const char* metric, int processes, int more = 0,
                          double seconds = 0) {
  Comparison c = with_metric({}, metric);
  c.ratio = 1.23456;
  c.verdict = verdict;
  c.processes = processes;
  c.margin = 0.02;
  c.more_needed = more;
  c.seconds_each = seconds;
  return sentence_of(c);
}

TEST(VerdictSentences, OfEachMetric) {
  EXPECT_EQ(sentence_with(Verdict::higher, "total_latency_s", 5), "a is 1.23x slower than b");
  EXPECT_EQ(sentence_with(Verdict::higher, "inter_token_p90_ms", 5).substr(0, 26),
            "a is 1.23x slower than b (");
  EXPECT_EQ(sentence_with(Verdict::higher, "tokens_per_sec", 5), "a is 1.23x faster than b (throughput)");
  EXPECT_EQ(sentence_with(Verdict::higher, "time_to_first_token_s", 5),
            "a is 1.23x slower than b (time to first token)");
  EXPECT_EQ(sentence_with(Verdict::higher, "memory_bytes", 5),
            "a has a higher memory footprint than b: memory footprint ratio 1.23");
  EXPECT_EQ(sentence_with(Verdict::no_difference, "perplexity", 5),
            "a equals b within 2 %: perplexity ratio 1.235");
  // Where the ratio rests on fewer than usual, it says so.
  EXPECT_EQ(sentence_with(Verdict::higher, "total_latency_s", 4), "a is 1.23x slower than b in 4 processes");
  EXPECT_EQ(sentence_with(Verdict::too_few, "total_latency_s", 1),
            "a against b has no verdict: latency ratio 1.23 within one process; a verdict needs 3 processes");
  EXPECT_EQ(sentence_with(Verdict::too_few, "total_latency_s", 2),
            "a against b has no verdict: latency ratio 1.23 in 2 processes; a verdict needs 3 processes");
  EXPECT_EQ(sentence_with(Verdict::too_few, "perplexity", 5),
            "a against b has no verdict: perplexity ratio 1.235; a verdict needs a text of 384 tokens");
  // Bytes are the same in each process, and a number of processes that is not known is not said.
  EXPECT_EQ(sentence_with(Verdict::higher, "memory_bytes", 1),
            "a has a higher memory footprint than b: memory footprint ratio 1.23");
  EXPECT_EQ(sentence_with(Verdict::too_few, "total_latency_s", 0),
            "a against b has no verdict: latency ratio 1.23; a verdict needs 3 processes");
}

TEST(VerdictSentences, OfWhatIsNeeded) {
  const auto needed = [](const char* metric, int more, double seconds = 0) {
    const std::string text = sentence_with(Verdict::cannot_tell, metric, 5, more, seconds);
    return text.substr(text.find("; ") + 2);
  };
  EXPECT_EQ(needed("total_latency_s", 1), "about 1 more process is needed");
  EXPECT_EQ(needed("total_latency_s", 2, 0.25), "about 2 more processes (about 1 s) are needed");
  EXPECT_EQ(needed("total_latency_s", 1, 40), "about 1 more process (about 40 s) is needed");
  EXPECT_EQ(needed("total_latency_s", 7, 60), "about 7 more processes (about 7 min) are needed");
  EXPECT_EQ(needed("total_latency_s", 1234), "about 1300 more processes are needed");
  EXPECT_EQ(needed("perplexity", 1), "about 64 more tokens of text are needed");
  EXPECT_EQ(needed("perplexity", 2, 9), "about 130 more tokens of text are needed");
  EXPECT_EQ(needed("perplexity", kNotInReach), "more than 100 times as much text is needed");
  EXPECT_EQ(needed("total_latency_s", kNotInReach), "more than 100 times as many processes are needed");
  EXPECT_EQ(shown_duration(90.5), "2 min");
  EXPECT_EQ(shown_duration(89.4), "89 s");
  EXPECT_EQ(shown_duration(1.6), "2 s");
  EXPECT_EQ(shown_duration(36000), "10.0 h");
}

// One part in ten thousand beside each step.
TEST(WarningLimits, OfShares) {
  struct Step {
    double Disturbance::*member;
    std::vector<double> percents;
  };
  const Step steps[] = {{&Disturbance::quota_wait_s, {1, 10, 50}},
                        {&Disturbance::stolen_cpu_s, {1, 5, 20}},
                        {&Disturbance::other_cpu_s, {10, 25, 50}},
                        {&Disturbance::processor_wait_s, {5, 20, 50}}};
  for (const Step& step : steps)
    for (std::size_t i = 0; i < step.percents.size(); ++i) {
      Disturbance d;
      d.seconds = 2;
      d.*step.member = 2 * 3 * step.percents[i] / 100 * 0.9999;
      const auto below = warnings_of(d, 3);
      d.*step.member *= 1.0002;
      const auto above = warnings_of(d, 3);
      ASSERT_EQ(below.size(), i == 0 ? 0U : 1U);
      ASSERT_EQ(above.size(), 1U);
      EXPECT_NE(above[0].text.find(fmt::format("more than {:g} %", step.percents[i])), std::string::npos)
          << above[0].text;
      if (i == 0) continue;
      EXPECT_NE(below[0].text.find(fmt::format("more than {:g} %", step.percents[i - 1])), std::string::npos)
          << below[0].text;
    }
  Disturbance watched;
  watched.seconds = 0.1;
  watched.watched_s = 2;
  watched.watched_stolen_cpu_s = 2 * 3 * 0.05 * 0.9999;
  EXPECT_EQ(warnings_of(watched, 3)[0].text,
            "the hypervisor withheld more than 1 % of the processors' time during the runs");
  watched.watched_stolen_cpu_s *= 1.0002;
  EXPECT_EQ(warnings_of(watched, 3)[0].text,
            "the hypervisor withheld more than 5 % of the processors' time during the runs");
  // Watched for no longer than the runs took: the runs' own counter tells.
  watched.seconds = 2;
  EXPECT_TRUE(warnings_of(watched, 3).empty());
}

// n - 3 sqrt(n) of 10000 are 9700.
TEST(WarningLimits, OfRates) {
  const auto of = [](std::int64_t Disturbance::*member, std::int64_t count, double seconds) {
    Disturbance d;
    d.seconds = seconds;
    d.*member = count;
    const auto warnings = warnings_of(d, 1);
    return warnings.empty() ? std::string() : warnings[0].text;
  };
  EXPECT_EQ(of(&Disturbance::involuntary_switches, 10000, 48.5), "");
  EXPECT_EQ(of(&Disturbance::involuntary_switches, 10000, 48.49),
            "the scheduler interrupted the runs more than 200 times a second");
  EXPECT_EQ(of(&Disturbance::involuntary_switches, 10000, 9.69),
            "the scheduler interrupted the runs more than 1000 times a second");
  EXPECT_EQ(of(&Disturbance::migrations, 10000, 97), "");
  EXPECT_EQ(of(&Disturbance::migrations, 10000, 96.9),
            "the scheduler moved threads to another processor more than 100 times a second");
  EXPECT_EQ(of(&Disturbance::migrations, 10000, 9.69),
            "the scheduler moved threads to another processor more than 1000 times a second");
}

TEST(WarningLimits, OfClocksAndFaults) {
  Disturbance d;
  d.seconds = 1;
  d.highest_mhz = 3000;  // the lowest is not known
  EXPECT_TRUE(warnings_of(d, 1).empty());
  d.lowest_mhz = 2000;
  EXPECT_EQ(
      warnings_of(d, 1),
      (std::vector<Warning>{{WarningKind::cpu_frequency,
                             "the processor's frequency varied by more than 25 % from run to run", 50, 10}}));
  d.lowest_mhz = 0.5;
  d.highest_mhz = 0.51;
  EXPECT_TRUE(warnings_of(d, 1).empty());
  d = {};
  d.throttle_events = 5;
  EXPECT_TRUE(warnings_of(d, 1).empty()) << "nothing ran";
  d.seconds = 1;
  d.major_faults = 1;
  EXPECT_EQ(warnings_of(d, -1),
            (std::vector<Warning>{
                {WarningKind::throttling,
                 "the processor throttled itself during the runs because of heat or power", 5, 0},
                {WarningKind::page_faults, "pages had to be read from a disk during the runs", 1, 0}}));
  // Without a number of processors there is one.
  d = {};
  d.seconds = 1;
  d.quota_wait_s = 0.11;
  EXPECT_EQ(warnings_of(d, 0)[0].text,
            "a control group's CPU quota withheld more than 10 % of the processors' time during the runs");
}

TEST(WarningLimits, OfGpus) {
  EXPECT_TRUE(warnings_of(GpuUse{.lowest_mhz = 1000, .highest_mhz = 1100}).empty());
  EXPECT_EQ(warnings_of(GpuUse{.lowest_mhz = 1000, .highest_mhz = 1101})[0].text,
            "the GPU's clock varied by more than 10 % from run to run");
  EXPECT_TRUE(warnings_of(GpuUse{.lowest_mhz = 0, .highest_mhz = 1000}).empty()) << "the lowest is not known";
  EXPECT_EQ(
      warnings_of(GpuUse{.was_slowed_by_heat = true}),
      (std::vector<Warning>{{WarningKind::gpu_throttling, "the GPU slowed itself down because of heat"}}));
  EXPECT_EQ(warnings_of(GpuUse{.was_slowed_by_power = true}),
            (std::vector<Warning>{
                {WarningKind::gpu_throttling, "the GPU slowed itself down because of its power limit"}}));
  EXPECT_EQ(warnings_of(GpuUse{.others = 2})[0].text, "2 other processes used the GPU during the runs");
  EXPECT_EQ(warnings_of(GpuUse{.others = 1})[0].kind, WarningKind::gpu_shared);
  EXPECT_EQ(roofline_warning(99.6),
            (Warning{WarningKind::roofline_disturbed,
                     "the measurement reached at least 100 % of the roofline", 99.6, 100}));
  EXPECT_EQ(warnings_of(GpuUse{.others = 2})[0].value, 2);
  EXPECT_EQ(warnings_of(GpuUse{.others = 2})[0].limit, 0);
  EXPECT_EQ(sentences_of(std::vector<Warning>{{WarningKind::drift, "d"}, {WarningKind::other, "o"}}),
            (std::vector<std::string>{"d; repeat after the machine has settled", "o"}));
}

TEST(MetricLimits, OfValuesAndHeads) {
  EXPECT_EQ(metric("load_s").least(), 0);
  EXPECT_EQ(metric("load_s").most(), 1e18);
  EXPECT_EQ(metric("quantize_s").least(), -1e18);
  EXPECT_EQ(metric("measured_memory_bytes").least(), -1e18);
  EXPECT_EQ(metric("perplexity").most(), std::numeric_limits<double>::max());
  EXPECT_EQ(metric("perplexity").least(), 0);
  const auto head = [](std::string_view title, std::string_view unit, std::string_view shown) {
    Metric m;
    m.head = title;
    m.unit = unit;
    m.shown_unit = shown;
    return m.column_head();
  };
  EXPECT_EQ(head("Time", "s", "ms"), "Time (ms)");
  EXPECT_EQ(head("Time", "s", ""), "Time (s)");
  EXPECT_EQ(head("Time", "", ""), "Time");
  EXPECT_EQ(head("Tokens/s", "tokens/s", ""), "Tokens/s");
  EXPECT_EQ(head("Tok/s", "tokens/s", ""), "Tok/s (tokens/s)");
  EXPECT_EQ(head("ms", "s", ""), "ms (s)") << "one letter is no name of a unit";
  EXPECT_EQ(head("B", "kB", ""), "B (kB)");
  EXPECT_EQ(head("XB", "kB", ""), "XB");
}

}  // namespace
}  // namespace assay
