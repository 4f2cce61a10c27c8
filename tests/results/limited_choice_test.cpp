// What is chosen under limits, from planted rows: each rule where it holds, reversed, undecidable, and where
// a bound is met exactly.
#include "assay/results/limited_choice.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "assay/base/error.h"
#include "assay/report/prose/prose.h"
#include "assay/results/choice_json.h"

namespace assay {
namespace {

constexpr double kMiB = 1024 * 1024;

// Six processes of two rounds each, around a latency; `spread` is how far processes lie apart.
Row limited_row(const std::string& label, double mebibytes, double latency_s, double spread = 0.001) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  row.set("resident_weights_bytes", mebibytes * kMiB);
  row.set("predicted_memory_bytes", (mebibytes + 20) * kMiB);
  std::vector<double> samples;
  for (int process = 0; process < 6; ++process)
    for (int round = 0; round < 2; ++round) {
      row.places.push_back({process, round});
      const double offset = spread * std::sin(1.7 * process + static_cast<double>(label.size()));
      samples.push_back(latency_s * (1 + offset + 0.0001 * round));
    }
  row.set("total_latency_s", value_of_processes(samples, row.places));
  return row;
}

Comparison loss(const std::string& subject, double ratio, double half) {
  Comparison c;
  c.scenario = Scenario::perplexity;
  c.subject = subject;
  c.baseline = "float32";
  c.metric = "perplexity";
  c.ratio = ratio;
  c.interval = statistics::Interval{ratio - half, ratio + half, 0.95};
  return c;
}

// int8 is the fastest, nf4 the smallest, float32 loses nothing.
ResultSet limited_results() {
  ResultSet results;
  results.rows = {limited_row("float32", 400, 1.0), limited_row("bfloat16", 200, 0.6),
                  limited_row("int8", 120, 0.3), limited_row("nf4", 80, 0.5)};
  results.comparisons = {loss("bfloat16", 1.0, 0.001), loss("int8", 1.02, 0.005), loss("nf4", 1.12, 0.02)};
  return results;
}

LimitedChoice chosen(const ResultSet& results, const std::string& limits) {
  const auto found = choose_within(results, limits_from_text(limits));
  EXPECT_TRUE(found.has_value());
  return found.value_or(LimitedChoice{});
}

TEST(Limits, AreReadWithTheirUnitsAndWrittenAgain) {
  const Limits limits =
      limits_from_text("memory=2GiB,ttft=200ms,tokens-per-s=20,kl=0.05,agreement=97%,token=0.1s");
  ASSERT_EQ(limits.limits.size(), 6U);
  EXPECT_EQ(limits.limits[0].bound, 2 * 1024 * kMiB);
  EXPECT_DOUBLE_EQ(limits.limits[1].bound, 0.2);
  EXPECT_EQ(limits.limits[2].bound, 20);
  EXPECT_DOUBLE_EQ(limits.limits[4].bound, 0.97);
  EXPECT_DOUBLE_EQ(limits.limits[5].bound, 100);  // its metric is in ms
  EXPECT_EQ(text_of(limits), "memory=2GiB,ttft=200ms,tokens-per-s=20,kl=0.05,agreement=97%,token=100ms");
  EXPECT_EQ(limits_from_text(text_of(limits)), limits);
  EXPECT_EQ(limits_from_text("memory=500MB").limits[0].bound, 5e8);
  EXPECT_EQ(limits_from_text("memory=1GiB,memory=2GiB").limits[0].bound, 2 * 1024 * kMiB);
  EXPECT_EQ(limits_from_text("agreement=0.97").limits[0].bound, 0.97);
}

TEST(Limits, PresetsAreGoalsWithLimitsThatFurtherOnesNarrow) {
  const Limits laptop = limits_from_text("laptop,memory=1GiB");
  EXPECT_EQ(laptop.goal, Goal::smallest);
  EXPECT_EQ(text_of(laptop), "ppl-ratio=1.05,memory=1GiB");
  EXPECT_EQ(limits_from_text("server").goal, Goal::throughput);
  EXPECT_EQ(limits_from_text("best-quality").goal, Goal::fastest);
  EXPECT_EQ(limits_from_text("laptop,ppl-ratio=1.01").limits.front().bound, 1.01);
}

TEST(Limits, RefuseWhatTheyCannotMean) {
  for (const char* text : {"", "memory", "memory=", "memory=2", "memory=0GiB", "memory=-1GiB", "memory=2ms",
                           "ttft=200", "speed=2", "kl=nan", "kl=inf", "agreement=150%", "agreement=1.5",
                           "laptop,server", "memory=2GiB,", "tokens-per-s=20/s"})
    EXPECT_THROW(limits_from_text(text), FieldError) << text;
  try {
    limits_from_text("memory=2");
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "limit");
    EXPECT_EQ(error.problem(), "memory: expected a size such as 700MiB or 2GiB, found '2'");
  }
}

// In a unit in which the bound is exact: what was typed, or a shorter text of the same bound.
TEST(LimitedChoice, RepeatsEveryBoundExactly) {
  for (const char* text : {"memory=3600KiB", "memory=700MB", "memory=3686401B", "memory=1.5GiB",
                           "weights=123456789B", "latency=1.5s", "latency=1234.5678ms", "ttft=0.5ms",
                           "token=8.125ms", "token=2s", "tokens-per-s=12.34567", "ppl-ratio=1.00001",
                           "kl=0.0123456789", "agreement=99.999%", "accuracy=0.5%"}) {
    EXPECT_EQ(text_of(limits_from_text(text)), text);
    EXPECT_EQ(limits_from_text(text_of(limits_from_text(text))), limits_from_text(text)) << text;
  }
  const std::pair<const char*, const char*> shorter[] = {{"memory=2048MiB", "memory=2GiB"},
                                                         {"latency=0.2s", "latency=200ms"},
                                                         {"agreement=0.97", "agreement=97%"}};
  for (const auto& [given, text] : shorter) EXPECT_EQ(text_of(limits_from_text(given)), text);
  EXPECT_EQ(shown_bound({"memory", 3600 * 1024}), "3600 KiB");
  EXPECT_EQ(shown_bound({"kl", 0.02}), "0.02");
  // What no unit has exactly is read back all the same.
  for (const double bound : {1.0 / 3, 1e-7, 12345.678901234567}) {
    const Limits limits{Goal::fastest, {{"latency", bound}, {"kl", bound}}};
    EXPECT_EQ(limits_from_text(text_of(limits)), limits) << text_of(limits);
  }
  ResultSet results = limited_results();
  EXPECT_NE(report::sentences_of(chosen(results, "memory=1000KiB"))[0].find("within memory=1000KiB."),
            std::string::npos)
      << report::sentences_of(chosen(results, "memory=1000KiB"))[0];
}

TEST(LimitedChoice, TakesTheFastestThatKeepsEveryLimit) {
  const LimitedChoice free = chosen(limited_results(), "memory=1GiB");
  EXPECT_EQ(free.best, std::vector<std::string>{"int8"});
  EXPECT_TRUE(free.is_tested);
  EXPECT_EQ(free.runner_up, "nf4");
  ASSERT_TRUE(free.runner_up_against_best);
  EXPECT_EQ(free.runner_up_against_best->verdict, Verdict::higher);
  EXPECT_TRUE(free.binding.empty());

  const LimitedChoice careful = chosen(limited_results(), "ppl-ratio=1.01");
  EXPECT_EQ(careful.best, std::vector<std::string>{"bfloat16"});
  EXPECT_EQ(careful.runner_up, "float32");
  ASSERT_EQ(careful.binding.size(), 1U);
  EXPECT_EQ(careful.binding[0].without_it, "int8");
  EXPECT_TRUE(careful.binding[0].is_within_10);  // its interval ends at 1.025
  EXPECT_NEAR(careful.binding[0].value, 1.025, 1e-9);
  EXPECT_NEAR(careful.binding[0].gain, 0.5, 0.01);
}

TEST(LimitedChoice, KeepsABoundThatIsMetExactly) {
  EXPECT_EQ(chosen(limited_results(), "memory=100MiB").best, std::vector<std::string>{"nf4"});
  EXPECT_TRUE(chosen(limited_results(), "memory=99.999MiB").best.empty());
  EXPECT_EQ(chosen(limited_results(), "ppl-ratio=1.025").best, std::vector<std::string>{"int8"});
}

TEST(LimitedChoice, NamesAllThatTheTestsDoNotTellApart) {
  ResultSet results = limited_results();
  results.rows[3] = limited_row("nf4", 80, 0.306, 0.03);  // as fast as int8, for all that its spread tells
  const LimitedChoice tied = chosen(results, "memory=1GiB");
  EXPECT_EQ(tied.best, (std::vector<std::string>{"int8", "nf4"}));
  EXPECT_TRUE(tied.is_tested);
  EXPECT_EQ(tied.runner_up, "bfloat16");
  EXPECT_TRUE(tied.tied.empty()) << "nobody has shown that the two are equal";
  EXPECT_NE(report::sentences_of(tied).front().find("best figure, but it is undecided against nf4 ("),
            std::string::npos)
      << report::sentences_of(tied).front();
  results.rows[3] = limited_row("nf4", 80, 0.3006);  // within the margin of 2 %
  const LimitedChoice equal = chosen(results, "memory=1GiB");
  EXPECT_EQ(equal.best, (std::vector<std::string>{"int8", "nf4"}));
  EXPECT_EQ(equal.tied, std::vector<std::string>{"nf4"});
  EXPECT_EQ(to_json(equal)["tied"], equal.tied);
  EXPECT_NE(report::sentences_of(equal).front().find("it is tied with nf4 for the fastest ("),
            std::string::npos)
      << report::sentences_of(equal).front();
  for (Row& row : results.rows) row.places.clear();  // nothing to test
  const LimitedChoice untested = chosen(results, "memory=1GiB");
  EXPECT_EQ(untested.best.size(), 4U);
  EXPECT_FALSE(untested.is_tested);
  EXPECT_NE(report::sentences_of(untested).front().find("no test tells it from"), std::string::npos);
}

TEST(LimitedChoice, LeavesOutWhatMayBreakALimit) {
  const LimitedChoice choice = chosen(limited_results(), "ppl-ratio=1.02");
  EXPECT_EQ(choice.best, std::vector<std::string>{"bfloat16"});
  EXPECT_EQ(choice.uncertain, std::vector<std::string>{"int8"});
}

TEST(LimitedChoice, NamesTheNearestWhereNoneQualifies) {
  const LimitedChoice choice = chosen(limited_results(), "memory=90MiB,ppl-ratio=1.15");
  EXPECT_TRUE(choice.best.empty());
  EXPECT_EQ(choice.nearest, "nf4");
  ASSERT_EQ(choice.nearest_excess.size(), 1U);
  EXPECT_EQ(choice.nearest_excess[0].value, 100 * kMiB);
  EXPECT_EQ(report::sentences_of(choice).at(1),
            "The nearest is nf4: its peak memory is 100 MiB (limit: at most 90 MiB).");
}

TEST(LimitedChoice, TakesTheSmallestByItsBytes) {
  const LimitedChoice choice = chosen(limited_results(), "laptop");
  EXPECT_EQ(choice.best, std::vector<std::string>{"int8"});
  EXPECT_EQ(choice.runner_up, "bfloat16");
  EXPECT_FALSE(choice.runner_up_against_best);
  ASSERT_EQ(choice.binding.size(), 1U);
  EXPECT_EQ(choice.binding[0].without_it, "nf4");
  EXPECT_TRUE(choice.binding[0].is_within_10);
}

TEST(LimitedChoice, SaysThatALimitWasNotMeasured) {
  const LimitedChoice choice = chosen(limited_results(), "kl=0.05");
  EXPECT_TRUE(choice.best.empty());
  EXPECT_TRUE(choice.nearest.empty());
  EXPECT_EQ(choice.unmeasured, std::vector<std::string>{"kl"});
}

TEST(LimitedChoice, ChoosesBatchesByThroughputWithTheQualityOfTheirConfiguration) {
  ResultSet results = limited_results();
  for (int batch : {1, 4, 16}) {
    Row row = limited_row("batch " + std::to_string(batch), 120, 0.3 + 0.05 * batch);
    row.scenario = Scenario::batches;
    row.parameters = {{"configuration", "int8"}};
    row.set("tokens_per_sec", 50 * batch / (0.3 + 0.05 * batch));
    row.set("time_per_output_token_ms", 20.0 * batch);
    results.rows.push_back(row);
  }
  EXPECT_EQ(chosen(results, "server").best.front(), "batch 4 of int8");
  EXPECT_EQ(chosen(results, "server,token=1s").best.front(), "batch 16 of int8");
  EXPECT_TRUE(chosen(results, "server,ppl-ratio=1.001").best.empty());
}

// Precisions in batches first, then the sizes of the baseline's batches.
TEST(LimitedChoice, ChoosesAmongPrecisionsInBatches) {
  ResultSet results = limited_results();
  const auto add = [&](Scenario scenario, const std::string& label, double seconds, double token_ms) {
    Row row = limited_row(label, 120, seconds);
    row.scenario = scenario;
    row.setting.batch_size = 16;
    row.parameters = {{"configuration", scenario == Scenario::batches ? "float32" : label}};
    row.set("tokens_per_sec", 800 / seconds);
    row.set("time_per_output_token_ms", token_ms);
    results.rows.push_back(row);
  };
  add(Scenario::batches, "batch 1", 3, 20);
  add(Scenario::batched_precisions, "float32", 1, 90);
  add(Scenario::batched_precisions, "int8", 0.5, 45);
  add(Scenario::batched_precisions, "nf4", 0.25, 30);
  const LimitedChoice any = chosen(results, "server");
  EXPECT_EQ(any.best.front(), "batch 16 of nf4");
  EXPECT_EQ(any.scenario, Scenario::batched_precisions);
  EXPECT_EQ(any.candidates, 3);
  EXPECT_EQ(chosen(results, "server,ppl-ratio=1.04").best.front(), "batch 16 of int8")
      << "the loss is that of the configuration";
  const LimitedChoice slow = chosen(results, "server,token=25ms");
  EXPECT_EQ(slow.best.front(), "batch 1 of float32") << "a smaller batch is in time";
  EXPECT_EQ(slow.scenario, Scenario::batches);
  EXPECT_EQ(chosen(results, "server,token=5ms").scenario, Scenario::batched_precisions);
}

TEST(LimitedChoice, IsEmptyWithoutRows) {
  EXPECT_FALSE(choose_within({}, limits_from_text("memory=1GiB")));
}

TEST(LimitedChoice, SaysWhatWasNotMeasuredForTheGoal) {
  ResultSet results = limited_results();
  results.limits = limits_from_text("server");
  EXPECT_EQ(report::answer_to_limits(results),
            std::vector<std::string>{
                "There is nothing to choose among: no batches were measured, as the study batches does."});
  results.rows.clear();
  results.limits = limits_from_text("laptop");
  EXPECT_EQ(report::answer_to_limits(results),
            std::vector<std::string>{
                "There is nothing to choose among: no configurations were compared, as a trade-off does."});
}

TEST(LimitedChoice, SpeaksInWholeSentences) {
  const std::vector<std::string> said = report::sentences_of(chosen(limited_results(), "ppl-ratio=1.01"));
  ASSERT_EQ(said.size(), 3U);
  EXPECT_EQ(said[0], "Choose bfloat16: it is the fastest within ppl-ratio=1.01 (latency 600 ms).");
  EXPECT_EQ(said[1].rfind("The runner-up is float32: float32 is 1.6669x", 0), 0U) << said[1];
  EXPECT_EQ(said[2],
            "The limit ppl-ratio=1.01 binds: relaxed by 10 %, it would let in int8 (perplexity over the "
            "baseline's may be 1.025; its speed is 2x that of the choice).");
}

TEST(LimitsJson, ComesBackAndRefusesWhatIsUnknown) {
  const Limits limits = limits_from_text("laptop,memory=2GiB,ttft=150ms");
  const nlohmann::ordered_json json = to_json(limits);
  EXPECT_EQ(limits_from_json(JsonReader(json)), limits);
  nlohmann::ordered_json bad = json;
  bad["goal"] = "nicest";
  EXPECT_THROW(limits_from_json(JsonReader(bad)), Error);
  bad = json;
  bad["bounds"]["colour"] = 1;
  EXPECT_THROW(limits_from_json(JsonReader(bad)), Error);
}

}  // namespace
}  // namespace assay
