// The gate between two runs: what it must find, what it must not, and what it refuses to judge.
#include "assay/results/compare_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/base/random.h"
#include "support/prose.h"

namespace assay {
namespace {

constexpr int kCases = 6;

double normal_of(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(2 * M_PI * random.uniform());
}

Row timed_case(const std::string& label, const std::vector<std::vector<double>>& by_process) {
  Row row;
  row.scenario = Scenario::lengths;
  row.label = label;
  row.parameters = {{"configuration", "float32"}};
  std::vector<double> times, speeds;
  for (std::size_t p = 0; p < by_process.size(); ++p)
    for (std::size_t r = 0; r < by_process[p].size(); ++r) {
      row.places.push_back({static_cast<int>(p), static_cast<int>(r)});
      times.push_back(by_process[p][r]);
      speeds.push_back(10 / by_process[p][r]);
    }
  row.set("total_latency_s", value_of_repeats(times));
  row.set("tokens_per_sec", value_of_repeats(speeds));
  return row;
}

// Cases of one configuration: processes differ by `between`, their runs by 1 %.
ResultSet timed_results(Random& random, double factor, double between, int processes = 5) {
  ResultSet results;
  results.command = "assay run demo -o old";
  std::vector<double> of_process;
  for (int p = 0; p < processes; ++p) of_process.push_back(std::exp(between * normal_of(random)));
  for (int c = 0; c < kCases; ++c) {
    std::vector<std::vector<double>> all;
    for (const double speed : of_process) {
      std::vector<double>& own = all.emplace_back();
      for (int r = 0; r < 3; ++r)
        own.push_back(0.01 * (c + 1) * factor * speed * std::exp(0.01 * normal_of(random)));
    }
    results.rows.push_back(timed_case(std::to_string(c), all));
  }
  return results;
}

std::size_t broken_by(const ResultSet& a, const ResultSet& b, const std::string& rule) {
  return report::broken_by(judge_rule(compare_results(a, b, 0.02), failure_rules(rule).front())).size();
}

std::string refusal_of(const ResultSet& a, const ResultSet& b, const std::string& rule) {
  try {
    broken_by(a, b, rule);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Gate, EqualProgramsRaiseFewAlarmsAndSlowerOnesAlways) {
  Random random(7);
  int false_alarms = 0, found = 0, throughput = 0, faster = 0, refused = 0;
  for (int i = 0; i < 40; ++i) {
    const ResultSet a = timed_results(random, 1, 0.01), b = timed_results(random, 1, 0.01),
                    slow = timed_results(random, 1.05, 0.01);
    try {
      false_alarms += broken_by(a, b, "latency:3%") > 0 ? 1 : 0;
    } catch (const Error&) {
      ++refused;
    }
    found += broken_by(a, slow, "slower:3%") > 0 ? 1 : 0;
    throughput += broken_by(a, slow, "throughput:2%") > 0 ? 1 : 0;
    faster += broken_by(slow, a, "faster:2%") > 0 ? 1 : 0;
  }
  EXPECT_LE(false_alarms, 2);
  EXPECT_LE(refused, 2);
  EXPECT_GE(found, 39);
  EXPECT_GE(throughput, 39);
  EXPECT_GE(faster, 39);
}

// 30 runs of one process: their spread says nothing of other processes.
TEST(Gate, ResultsOfOneProcessAreRefusedWithWhatToRun) {
  Random random(7);
  const ResultSet many = timed_results(random, 1, 0.01), one = timed_results(random, 1, 0.01, 1);
  const std::string refusal = refusal_of(one, many, "latency:3%");
  EXPECT_NE(refusal.find("A was measured in one process, and a test needs 3 or more"), std::string::npos)
      << refusal;
  EXPECT_NE(refusal.find("`assay run demo -o old --processes 5`"), std::string::npos) << refusal;
  EXPECT_NE(refusal_of(many, timed_results(random, 2, 0.01, 2), "throughput:3%").find("B was measured in 2"),
            std::string::npos);
  // Without a gate it is no error, and no verdict.
  const ComparedResults compared = compare_results(one, many, 0.02);
  for (const ComparedRow& row : compared.rows) EXPECT_EQ(row.comparison.verdict, Verdict::too_few);
  EXPECT_TRUE(compared.all_cases.empty());
}

TEST(Gate, AProcessCountsOnceHoweverOftenItRuns) {
  // Medians of A: 1, 1.1, 0.9; of B twice as long. Means of logarithms differ by log 2 exactly.
  ResultSet a, b;
  a.rows = {timed_case("0", {{1, 1, 1, 1, 50}, {1.1}, {0.9, 0.9, 0.9}})};
  b.rows = {timed_case("0", {{2}, {2.2, 2.2, 2.2, 2.2}, {1.8, 1.8, 90}})};
  const Comparison c = compare_results(a, b, 0.02).rows.front().comparison;
  EXPECT_NEAR(c.ratio, 2, 1e-12);
  ASSERT_TRUE(c.interval);
  // Deviation of log {1, 1.1, 0.9}: 0.100378; Welch with 4 degrees: t = 2.776445.
  const double half = 2.776445 * std::sqrt(2.0 / 3) * 0.100378;
  EXPECT_NEAR(c.interval->low, 2 * std::exp(-half), 1e-4);
  EXPECT_NEAR(c.interval->high, 2 * std::exp(half), 1e-4);
  EXPECT_EQ(sentence_of(c), fmt::format("B is 2.0x [{:.1f}, {:.1f}] slower than A in 3 processes",
                                        c.interval->low, c.interval->high));
}

// A row whose process i ran while the machine read `gb_s[i]` and its threads synchronized in `round_trip[i]`.
Row timed_beside(const std::vector<double>& seconds, const std::vector<double>& gb_s,
                 const std::vector<double>& round_trip) {
  std::vector<std::vector<double>> by_process;
  for (const double each : seconds) by_process.push_back({each});
  Row row = timed_case("0", by_process);
  row.set("roofline_gb_s", value_of_repeats(gb_s));
  row.set("thread_round_trip_us", value_of_repeats(round_trip));
  return row;
}

// Half the bandwidth and twice the time: the machine, not the program. The same time at half of the bandwidth
// would be a faster program, at twice of it a slower one, and is neither as it was measured.
TEST(Gate, AMachineThatReadsSlowerIsNoSlowerProgram) {
  const std::vector<double> near{0.1, 0.11, 0.09}, fast{100, 99, 101}, slow{50, 49.5, 50.5};
  ResultSet a, b;
  a.rows = {timed_beside({1, 1.01, 0.99}, fast, near)};
  b.rows = {timed_beside({2, 2.02, 1.98}, slow, near)};
  EXPECT_EQ(broken_by(a, b, "latency:5%"), 0u);
  EXPECT_EQ(broken_by(b, a, "faster:5%"), 0u);
  EXPECT_EQ(broken_by(a, b, "throughput:5%"), 0u);
  b.rows = {timed_beside({2, 2.02, 1.98}, fast, near)};
  EXPECT_EQ(broken_by(a, b, "latency:3%"), 1u);
  EXPECT_EQ(broken_by(a, b, "throughput:3%"), 1u);
  b.rows = {timed_beside({1, 1.01, 0.99}, {200, 199, 201}, near)};
  EXPECT_EQ(broken_by(a, b, "latency:5%"), 0u);
}

// 12 % slower as it was measured, and faster beside a machine that read a fifth slower: nothing is shown. 1 %
// as it was measured and 10 % in what the machine read: 1 %. Slower by 5 %, but not beside the machine: not
// equal either.
TEST(Gate, SaysWhatHoldsInEveryUnit) {
  const std::vector<double> near{0.1, 0.11, 0.09}, fast{100, 100.1, 99.9};
  ResultSet a, b;
  const auto compared_with = [&](double seconds, double gb_s) {
    a.rows = {timed_beside({1, 1.001, 0.999}, fast, near)};
    b.rows = {
        timed_beside({seconds, seconds * 1.001, seconds * 0.999}, {gb_s, gb_s * 1.001, gb_s * 0.999}, near)};
    return compare_results(a, b, 0.02).rows.front().comparison;
  };
  EXPECT_EQ(compared_with(1.12, 80).verdict, Verdict::cannot_tell);
  EXPECT_EQ(broken_by(a, b, "latency:3%") + broken_by(a, b, "faster:3%"), 0U);
  const Comparison small = compared_with(1.01, 109);
  EXPECT_NEAR(small.ratio, 1.01, 1e-3);
  EXPECT_EQ(broken_by(a, b, "latency:3%"), 0U);
  EXPECT_EQ(compared_with(1.05, 95.2).verdict, Verdict::cannot_tell);
  EXPECT_EQ(compared_with(1.05, 100).verdict, Verdict::higher);
}

// Configurations that did not fit into memory together ran in processes of other numbers.
TEST(Gate, RowsOfOtherProcessesCountTogether) {
  const auto results = [](double factor) {
    ResultSet all;
    for (int group = 0; group < 2; ++group) {
      Row row = timed_case(group == 0 ? "float32" : "nf4", {{factor}, {1.01 * factor}, {0.99 * factor}});
      for (SampleId& place : row.places) place.process = 2 * place.process + group;
      all.rows.push_back(row);
    }
    return all;
  };
  const ComparedResults compared = compare_results(results(1), results(1.5), 0.02);
  ASSERT_FALSE(compared.all_cases.empty());
  EXPECT_EQ(compared.all_cases.front().comparison.verdict, Verdict::higher);
}

TEST(Gate, RefusesRunsBetweenWhichTheProcessorsMoved) {
  const std::vector<double> near{0.1, 0.11, 0.09}, far{0.34, 0.33, 0.35}, fast{100, 99, 101};
  ResultSet a, b;
  a.rows = {timed_beside({1, 1.01, 0.99}, fast, near)};
  b.rows = {timed_beside({1.3, 1.31, 1.29}, fast, far)};
  EXPECT_EQ(refusal_of(a, b, "latency:3%"),
            "'latency:3%' cannot be judged: lengths, 0: threads took 0.10 us to synchronize in A and "
            "0.34 us in B, so the host has moved the processors; repeat the runs until both times agree");
  EXPECT_NE(refusal_of(b, a, "faster:3%"), "");
  b.rows = {timed_beside({1.3, 1.31, 1.29}, fast, {0.14, 0.14, 0.14})};  // 1.4 times
  EXPECT_EQ(broken_by(a, b, "latency:3%"), 1u);
}

// Two configurations of equal programs, whose visits share the machine of their moment: three observations,
// not six. Apart, each would exclude 1.
TEST(Gate, RowsOfAVisitAreOneObservation) {
  const auto results = [](double a, double b, double c) {
    ResultSet all;
    for (const char* name : {"float32", "nf4"}) {
      Row row = timed_case(name, {{a}, {b}, {c}});
      row.parameters = {{"configuration", name}};
      all.rows.push_back(row);
    }
    return all;
  };
  const ComparedResults compared = compare_results(results(1, 1.1, 0.9), results(1.2, 1.3, 1.1), 0.02);
  ASSERT_FALSE(compared.all_cases.empty());
  const Comparison& all = compared.all_cases.front().comparison;
  ASSERT_TRUE(all.interval);
  // Welch of three against three: the interval of each row, whatever the number of rows.
  const double low = std::log(all.interval->low), high = std::log(all.interval->high);
  const auto alone = statistics::difference_of(std::vector{std::log(1.0), std::log(1.1), std::log(0.9)},
                                               std::vector{std::log(1.2), std::log(1.3), std::log(1.1)});
  const statistics::Interval expected = alone->interval(all.interval->level);
  EXPECT_NEAR(low, expected.low, 1e-9);
  EXPECT_NEAR(high, expected.high, 1e-9);
}

// A text of alternating easy and hard passages: its interval over texts is wide.
Row scored_row(double factor, std::int64_t tokens, std::uint64_t seed = 5) {
  Random text(5), random(seed);
  std::vector<double> losses;
  for (std::int64_t i = 0; i < tokens; ++i)
    losses.push_back((i / 100 % 2 == 0 ? 1 : 6) + text.uniform() + std::log(factor) +
                     0.1 * (random.uniform() - 0.5));
  Row row;
  row.scenario = Scenario::perplexity;
  row.label = "nf4";
  row.parameters = {{"configuration", "nf4"}, {"corpus_sha256", "abc"}, {"protocol", "hf"}};
  const double loss = statistics::mean(losses);
  Value perplexity{std::exp(loss), {}, {}};
  perplexity.interval = statistics::Interval{0.7 * perplexity.value, 1.4 * perplexity.value, 0.95};
  row.set("perplexity", perplexity);
  row.set("tokens_scored", static_cast<double>(tokens));
  row.losses = loss_blocks(losses);
  return row;
}

ResultSet of_rows(std::vector<Row> rows) {
  ResultSet results;
  results.rows = std::move(rows);
  return results;
}

TEST(Gate, PerplexityIsPairedOnTheSameTokens) {
  const ResultSet a = of_rows({scored_row(1, 3001)});
  EXPECT_EQ(broken_by(a, a, "worse:0%"), 0U);
  EXPECT_EQ(compare_results(a, a, 0.02).rows.front().comparison.verdict, Verdict::no_difference);
  EXPECT_EQ(broken_by(a, of_rows({scored_row(1.15, 3001)}), "worse:1%"), 1U);  // the intervals overlap
  for (std::uint64_t seed = 10; seed < 30; ++seed) {
    EXPECT_EQ(broken_by(a, of_rows({scored_row(1.01, 3001, seed)}), "perplexity:0.5%"), 1U) << seed;
    EXPECT_EQ(broken_by(a, of_rows({scored_row(1, 3001, seed)}), "perplexity:0.5%"), 0U) << seed;
  }
  EXPECT_EQ(broken_by(of_rows({scored_row(1.15, 3001)}), a, "worse:1%"), 0U);  // better is not worse
  EXPECT_NEAR(compare_results(a, of_rows({scored_row(1.15, 3001)}), 0.02).rows.front().comparison.ratio, 1.15,
              1e-9);
}

TEST(Gate, PerplexitiesThatCannotBePairedAreRefused) {
  const ResultSet a = of_rows({scored_row(1, 3001)});
  ResultSet b = a;
  b.rows[0].parameters[1].second = "def";
  EXPECT_NE(refusal_of(a, b, "worse:1%").find("corpus_sha256 is 'abc' in A and 'def' in B"),
            std::string::npos);
  b = a;
  b.rows[0].parameters[2].second = "sliding";
  EXPECT_NE(refusal_of(a, b, "worse:1%").find("protocol"), std::string::npos);
  EXPECT_NE(refusal_of(a, of_rows({scored_row(1, 3000)}), "worse:1%").find("tokens_scored"),
            std::string::npos);
  b = a;
  b.rows[0].losses.reset();
  EXPECT_NE(refusal_of(b, a, "worse:1%").find("A does not hold the losses of its text"), std::string::npos);
  const ResultSet brief = of_rows({scored_row(1, 100)});
  EXPECT_NE(refusal_of(brief, brief, "worse:1%").find("the text has 100 tokens"), std::string::npos);
}

TEST(Gate, ATensorLessQuantizedIsFoundExactly) {
  Row row;
  row.label = "nf4";
  row.parameters = {{"configuration", "nf4"}};
  row.set("memory_bytes", 500'000'000.0);
  row.set("working_memory_bytes", 700'000'000.0);
  const ResultSet a = of_rows({row});
  row.set("memory_bytes", 500'000'064.0);
  row.set("working_memory_bytes", 700'000'128.0);
  const ResultSet b = of_rows({row});
  for (const char* rule : {"memory:0%", "size:0%"}) {
    EXPECT_EQ(broken_by(a, b, rule), 1U) << rule;
    EXPECT_EQ(broken_by(a, a, rule), 0U) << rule;
    EXPECT_EQ(broken_by(b, a, rule), 0U) << rule;
  }
  EXPECT_EQ(broken_by(a, b, "memory:1%"), 0U);
  EXPECT_EQ(sentence_of(compare_results(a, b, 0.02).rows.front()),
            "B takes 128 bytes more than A: 700000128 instead of 700000000");
}

// Processes that differ by 6 % hide what is asked for; five per cent are found where they differ by 1 %.
TEST(Gate, RefusesToPassRunsThatCouldNotHaveShownTheBound) {
  Random random(11);
  int passed = 0, refused = 0, found = 0;
  for (int i = 0; i < 40; ++i) {
    const ResultSet a = timed_results(random, 1, 0.06), slow = timed_results(random, 1.05, 0.06);
    try {
      ++(broken_by(a, slow, "slower:3%") > 0 ? found : passed);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_LE(passed, 1);
  EXPECT_GE(refused, 30);
}

// Logarithms of A and B deviate alike: an error of that times sqrt(2 / 5), with 8 degrees. Student's t
// at 97.5 % is 2.306; a power of 90 % takes 1.3 errors more, and that the error is an estimate some more.
TEST(Gate, TellsWhichDifferenceItWouldHaveFound) {
  const double s = 0.01, a = s * std::sqrt(0.5), e = s * std::sqrt(2.0) * std::sqrt(0.5);
  const auto row_of = [&](double scale) {
    std::vector<std::vector<double>> by_process;
    for (const double log : {-e, -a, 0.0, a, e}) by_process.push_back({std::exp(scale * log)});
    return of_rows({timed_case("0", by_process)});
  };
  // Deviation of {-e, -a, 0, a, e}: sqrt((2 e^2 + 2 a^2) / 4).
  const double error = std::sqrt((e * e + a * a) / 2) * std::sqrt(2.0 / 5);
  const auto outcome =
      judge_rule(compare_results(row_of(1), row_of(1), 0.02), failure_rules("latency:3%").front());
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_NEAR(outcome.detectable_difference,
              std::expm1(statistics::detectable_difference({0, error, 8, 5}, 0.95)), 1e-9);
  EXPECT_GT(outcome.detectable_difference, 3.6 * error);
  EXPECT_LT(outcome.detectable_difference, 5 * error);
  // 4 times the spread and a bound of 3 %: (4 * 2.42 % / 6 %)^2 = about 2.8 times the processes.
  const std::string refusal = refusal_of(row_of(4), row_of(4), "latency:3%");
  EXPECT_NE(refusal.find("and 6 % should show. Repeat both with about 15 processes"), std::string::npos)
      << refusal;
  // What is asked for is as much as can be found.
  EXPECT_EQ(broken_by(row_of(4), row_of(4), "latency:0%"), 0U);
}

// Losses of which half say nothing of the other: 1 % would be missed, and a longer text is what helps.
TEST(Gate, RefusesPerplexityThatTheTextCannotShow) {
  const ResultSet a = of_rows({scored_row(1, 3001)});
  const ResultSet b = of_rows({scored_row(1, 3001, 6)});
  const auto rule = failure_rules("worse:10%").front();
  const auto outcome = judge_rule(compare_results(a, b, 0.02), rule);
  EXPECT_GT(outcome.detectable_difference, 0);
  const std::string tight = fmt::format("worse:{}%", 100 * outcome.detectable_difference / 4);
  EXPECT_NE(refusal_of(a, b, tight).find("Repeat both with a text of 4 times the length"), std::string::npos)
      << refusal_of(a, b, tight);
}

TEST(Gate, JudgesWhatIsThereOrRefuses) {
  Random random(7);
  const ResultSet a = timed_results(random, 1, 0.01);
  EXPECT_NE(refusal_of(a, a, "perplexity:1%").find("no case in common that measured Perplexity"),
            std::string::npos);
  ResultSet b = a;
  b.rows[2].status = RowStatus::error;
  b.rows[2].reason = "not enough memory";
  EXPECT_EQ(broken_by(a, b, "latency:3%"), 1U);
  EXPECT_EQ(compare_results(a, b, 0.02).failed,
            (std::vector<std::string>{"lengths | 2 | float32: not enough memory"}));
  EXPECT_EQ(broken_by(b, a, "latency:3%"), 0U);  // it was mended
}

TEST(Gate, SentencesSayWhatTheIntervalsHold) {
  ResultSet a, b;
  a.rows = {timed_case("0", {{1}, {1.001}, {0.999}})};
  const auto sentence_against = [&](const std::vector<std::vector<double>>& by_process) {
    b.rows = {timed_case("0", by_process)};
    return sentence_of(compare_results(a, b, 0.02).rows.front());
  };
  EXPECT_EQ(sentence_against({{1}, {1.001}, {0.999}}).rfind("B equals A within 2 %: latency ratio 1", 0), 0U);
  EXPECT_EQ(sentence_against({{0.8}, {1}, {1.25}}).rfind("B against A is undecided: latency ratio 1.0 [0", 0),
            0U)
      << sentence_against({{0.8}, {1}, {1.25}});
  EXPECT_EQ(sentence_against({{0.5}, {0.501}, {0.499}}),
            "B is 2.000x [1.992, 2.008] faster than A in 3 processes");
}

TEST(Gate, RunsOfOtherProgramsAndProcessorsAreSaidToBe) {
  Random random(7);
  ResultSet a = timed_results(random, 1, 0.01);
  a.machine.cpu = "a CPU";
  a.build = {"0.1.0", "g++", "Release"};
  ResultSet b = a;
  EXPECT_TRUE(compare_results(a, b, 0.02).unlike.empty());
  b.build.type = "Debug";
  EXPECT_EQ(compare_results(a, b, 0.02).unlike,
            std::vector<std::string>{"A is of assay 0.1.0 (g++, Release) and B of 0.1.0 (g++, Debug)"});
  b.build = {"0.1.0", "clang", "Release"};
  b.machine.cpu = "another";
  EXPECT_EQ(compare_results(a, b, 0.02).unlike,
            (std::vector<std::string>{"A ran on a CPU and B on another",
                                      "A is of assay 0.1.0 (g++, Release) and B of 0.1.0 (clang, Release)"}));
  b = a;
  b.build.version = "0.2.0";
  EXPECT_EQ(compare_results(a, b, 0.02).unlike.size(), 1U);
}

TEST(Gate, RulesAreReadStrictly) {
  EXPECT_EQ(failure_rules("slower:3%,memory:0%,worse:0.5").size(), 3U);
  EXPECT_DOUBLE_EQ(failure_rules("worse:0.5").front().margin, 0.005);
  for (const char* wrong :
       {"", "slower", "slower:", "slower:x%", "slower:-1%", "quicker:3%", "slower:3%,", "memory:nan%"})
    EXPECT_THROW(failure_rules(wrong), FieldError) << wrong;
}

}  // namespace
}  // namespace assay
