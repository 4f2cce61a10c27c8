// Two runs row by row: equal processes leave no error, so that every ratio, interval and sentence is exact.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/results/compare_results.h"
#include "support/prose.h"

namespace assay {
namespace {

using Strings = std::vector<std::string>;

// One run in each process.
Value in_processes(const std::vector<double>& of_process) {
  return {of_process.front(), {}, of_process, "mean"};
}
Row case_with(const std::string& label, std::string_view tag, const std::vector<double>& of_process) {
  Row row;
  row.scenario = Scenario::lengths;
  row.label = label;
  row.parameters = {{"configuration", "nf4"}};
  for (std::size_t i = 0; i < of_process.size(); ++i) row.places.push_back({static_cast<int>(i), 0});
  row.set(tag, in_processes(of_process));
  return row;
}
ResultSet run_of(std::vector<Row> rows) {
  ResultSet results;
  results.rows = std::move(rows);
  return results;
}
Row with_value(std::string_view tag, double value, Scenario scenario = Scenario::lengths) {
  Row row;
  row.scenario = scenario;
  row.label = "a";
  row.parameters = {{"configuration", "nf4"}};
  row.set(tag, value);
  return row;
}
ComparedRow only_row(const ResultSet& a, const ResultSet& b, double margin = 0.02) {
  const ComparedResults compared = compare_results(a, b, margin);
  EXPECT_EQ(compared.rows.size(), 1U);
  return compared.rows.empty() ? ComparedRow{} : compared.rows[0];
}
Comparison of_times(double a, double b, double margin = 0.02, std::string_view tag = "total_latency_s") {
  return only_row(run_of({case_with("a", tag, {a, a, a})}), run_of({case_with("a", tag, {b, b, b})}), margin)
      .comparison;
}

TEST(ComparedRows, SayTheirVerdict) {
  EXPECT_EQ(sentence_of(of_times(2, 3)), "B is 1.5x [1.5, 1.5] slower than A in 3 processes");
  EXPECT_EQ(sentence_of(of_times(3, 2)), "B is 1.5x [1.5, 1.5] faster than A in 3 processes");
  EXPECT_EQ(sentence_of(of_times(2, 3, 0.02, "tokens_per_sec")),
            "B is 1.5x [1.5, 1.5] faster than A in 3 processes (throughput)");
  EXPECT_EQ(sentence_of(of_times(1, 1.01)),
            "B equals A within 2 %: latency ratio 1.01 [1.01, 1.01] in 3 processes");
  EXPECT_EQ(sentence_of(of_times(1, 1.04, 0.05)),
            "B equals A within 5 %: latency ratio 1.04 [1.04, 1.04] in 3 processes");
  EXPECT_EQ(of_times(1, 0.97, 0.05).verdict, Verdict::no_difference);
  EXPECT_EQ(of_times(1, 0.95, 0.05).verdict, Verdict::lower) << "log 0.95 is below -log 1.05";
  EXPECT_EQ(of_times(1, 1, 0).verdict, Verdict::cannot_tell) << "nothing lies within no margin";
  EXPECT_EQ(sentence_of(of_times(1, 1, 0)),
            "B against A is undecided: latency ratio 1 [1, 1] in 3 processes; more than 100 times as many "
            "processes are needed");
}

TEST(ComparedRows, HoldWhereTheyComeFrom) {
  const Row a = case_with("a", "total_latency_s", {2, 2, 2, 2}),
            b = case_with("a", "total_latency_s", {3, 3, 3});
  const ComparedRow row = only_row(run_of({a}), run_of({b}), 0.03);
  EXPECT_EQ(row.scenario, Scenario::lengths);
  EXPECT_EQ(row.label, "a");
  EXPECT_EQ(row.configuration, "nf4");
  EXPECT_EQ(row.unlike, "");
  EXPECT_EQ(row.untested, "");
  const Comparison& c = row.comparison;
  EXPECT_EQ(c.subject, "B");
  EXPECT_EQ(c.baseline, "A");
  EXPECT_EQ(c.metric, "total_latency_s");
  EXPECT_EQ(c.margin, 0.03);
  EXPECT_EQ(c.pairs, 3);
  EXPECT_EQ(c.processes, 3);
  EXPECT_NEAR(c.ratio, 1.5, 1e-12);
  EXPECT_EQ(c.interval->level, 0.95);
  EXPECT_EQ(c.detectable_difference, 0);
}

TEST(ComparedRows, BytesAreCompared) {
  const auto bytes = [](const char* tag, double a, double b) {
    return only_row(run_of({with_value(tag, a)}), run_of({with_value(tag, b)}));
  };
  for (const char* tag : {"working_memory_bytes", "memory_bytes"}) {
    EXPECT_EQ(sentence_of(bytes(tag, 5, 2)), "B takes 3 bytes fewer than A: 2 instead of 5");
    EXPECT_EQ(bytes(tag, 5, 2).comparison.verdict, Verdict::lower);
    EXPECT_EQ(bytes(tag, 5, 2).comparison.ratio, 0.4);
    EXPECT_EQ(sentence_of(bytes(tag, 2, 5)), "B takes 3 bytes more than A: 5 instead of 2");
    EXPECT_EQ(bytes(tag, 2, 5).comparison.verdict, Verdict::higher);
    EXPECT_EQ(sentence_of(bytes(tag, 5, 5)), "B equals A: 5 bytes");
    EXPECT_EQ(bytes(tag, 5, 5).comparison.verdict, Verdict::no_difference);
    EXPECT_EQ(bytes(tag, 0, 5).comparison.ratio, 1) << "there is no ratio to 0";
    EXPECT_FALSE(bytes(tag, 2, 5).comparison.interval);
  }
  // A model has its size once a configuration, its working memory in every case.
  Row first = with_value("memory_bytes", 5), second = with_value("memory_bytes", 6), other = second;
  second.label = "b";
  other.label = "c";
  other.parameters[0].second = "fp4";
  for (Row* row : {&first, &second}) row->set("working_memory_bytes", 7);
  const ComparedResults compared =
      compare_results(run_of({first, second, other}), run_of({first, second, other}), 0.02);
  ASSERT_EQ(compared.rows.size(), 4U);
  EXPECT_EQ(compared.rows[0].comparison.metric, "working_memory_bytes");
  EXPECT_EQ(compared.rows[1].comparison.metric, "memory_bytes");
  EXPECT_EQ(compared.rows[2].label + compared.rows[2].comparison.metric, "bworking_memory_bytes");
  EXPECT_EQ(compared.rows[3].label + compared.rows[3].comparison.metric, "cmemory_bytes");
}

TEST(ComparedRows, LeaveOutWhatIsNotMeasuredInBoth) {
  const auto rows_in = [](const Row& a, const Row& b) {
    return compare_results(run_of({a}), run_of({b}), 0.02).rows.size();
  };
  const Row counted = with_value("total_latency_s", 5),
            sampled = case_with("a", "total_latency_s", {1, 1, 1});
  EXPECT_EQ(rows_in(counted, sampled), 0U);
  EXPECT_EQ(rows_in(sampled, counted), 0U);
  EXPECT_EQ(rows_in(sampled, sampled), 1U);
  EXPECT_EQ(rows_in(with_value("tokens_per_sec", 5), with_value("tokens_per_sec", 5)), 0U);
  EXPECT_EQ(rows_in(with_value("memory_bytes", 5), with_value("load_s", 5)), 0U);
  EXPECT_EQ(rows_in(with_value("load_s", 5), with_value("memory_bytes", 5)), 0U);
  EXPECT_EQ(rows_in(with_value("perplexity", 5), with_value("perplexity", 5)), 0U)
      << "it stands where it was scored";
  const Row scored = with_value("perplexity", 5, Scenario::perplexity);
  EXPECT_EQ(rows_in(scored, scored), 1U);
}

TEST(ComparedRows, AreMatchedByScenarioLabelAndConfiguration) {
  const Row both = with_value("memory_bytes", 5);
  Row elsewhere = both, other = both, renamed = both;
  elsewhere.scenario = Scenario::batches;
  other.parameters[0].second = "fp4";
  renamed.label = "b";
  Row failed = both;
  failed.status = RowStatus::error;
  failed.reason = "no memory";
  ComparedResults compared = compare_results(run_of({both, elsewhere, other}), run_of({renamed, both}), 0.02);
  EXPECT_EQ(compared.only_a, (Strings{"batches | a | nf4", "lengths | a | fp4"}));
  EXPECT_EQ(compared.only_b, (Strings{"lengths | b | nf4"}));
  EXPECT_TRUE(compared.failed.empty());
  EXPECT_EQ(compared.rows.size(), 1U);
  compared = compare_results(run_of({both}), run_of({failed}), 0.02);
  EXPECT_EQ(compared.failed, (Strings{"lengths | a | nf4: no memory"}));
  EXPECT_TRUE(compared.rows.empty());
  compared = compare_results(run_of({failed}), run_of({both}), 0.02);
  EXPECT_TRUE(compared.failed.empty() && compared.rows.empty() && compared.only_a.empty() &&
              compared.only_b.empty());
  EXPECT_TRUE(compare_results(run_of({failed}), run_of({failed}), 0.02).failed.empty());
}

TEST(ComparedRows, SayWhyTheyAreUnlike) {
  const auto unlike = [](const Row& a, const Row& b) { return only_row(run_of({a}), run_of({b})).unlike; };
  const Row bare = with_value("memory_bytes", 5);
  for (const char* tag : {"prompt_tokens", "tokens_generated", "sequences", "tokens_scored"}) {
    Row a = bare, b = bare;
    a.set(tag, 16);
    EXPECT_EQ(unlike(a, b), "") << "one of the two does not tell";
    EXPECT_EQ(unlike(b, a), "");
    b.set(tag, 16);
    EXPECT_EQ(unlike(a, b), "");
    b.set(tag, 32);
    EXPECT_EQ(unlike(a, b), fmt::format("{} is 16 in A and 32 in B", tag));
  }
  for (const char* key :
       {"prompt", "corpus_sha256", "protocol", "cache", "batch_size", "padding", "threads", "device"}) {
    Row a = bare, b = bare;
    a.parameters.emplace_back(key, "x");
    b.parameters.emplace_back(key, "x");
    EXPECT_EQ(unlike(a, b), "");
    b.parameters.back().second = "y";
    EXPECT_EQ(unlike(a, b),
              key == std::string("protocol")
                  ? "A was scored by 'x' and B by 'y', and perplexities of different protocols are "
                    "not compared"
                  : fmt::format("{} is 'x' in A and 'y' in B", key));
  }
  Row a = case_with("a", "total_latency_s", {1, 1, 1}), b = a;
  a.parameters.emplace_back("threads", "1");
  const ComparedRow row = only_row(run_of({a}), run_of({b}));
  EXPECT_EQ(row.unlike, "threads is '1' in A and '' in B");
  EXPECT_EQ(sentence_of(row), "B cannot be compared with A: threads is '1' in A and '' in B");
  EXPECT_FALSE(row.comparison.interval) << "what is unlike is not tested";
  EXPECT_EQ(row.comparison.verdict, Verdict::too_few);
}

TEST(ComparedRows, SayWhyTheyAreNotTested) {
  const Row three = case_with("a", "total_latency_s", {1, 1, 1}),
            two = case_with("a", "total_latency_s", {1, 1}), one = case_with("a", "total_latency_s", {1});
  ResultSet a = run_of({three}), b = run_of({two});
  EXPECT_EQ(
      only_row(a, b).untested,
      "B was measured in 2 processes, and a test needs 3 or more, because equal processes differ. Repeat it "
      "with `assay run --processes 5`");
  b.command = "assay b";
  EXPECT_NE(only_row(a, b).untested.find("`assay b --processes 5`"), std::string::npos);
  b.rows = {three};
  a.rows = {one};
  a.command = "assay a";
  const ComparedRow row = only_row(a, b);
  EXPECT_EQ(
      row.untested,
      "A was measured in one process, and a test needs 3 or more, because equal processes differ. Repeat it "
      "with `assay a --processes 5`");
  EXPECT_EQ(row.comparison.pairs, 1);
  EXPECT_EQ(sentence_of(row), "B against A has no verdict: latency ratio 1; " + row.untested);
}

TEST(ComparedRows, AllCasesTogether) {
  const auto results = [](double first, double second, std::string_view tag) {
    return run_of(
        {case_with("a", tag, {first, first, first}), case_with("b", tag, {second, second, second})});
  };
  for (const char* tag : {"total_latency_s", "tokens_per_sec"}) {
    const ComparedResults compared = compare_results(results(1, 1, tag), results(2, 8, tag), 0.03);
    ASSERT_EQ(compared.all_cases.size(), 1U);
    const ComparedRow& all = compared.all_cases[0];
    EXPECT_EQ(all.label, "all 2 cases together");
    EXPECT_EQ(all.comparison.subject, "B");
    EXPECT_EQ(all.comparison.baseline, "A");
    EXPECT_EQ(all.comparison.metric, tag);
    EXPECT_EQ(all.comparison.margin, 0.03);
    EXPECT_EQ(all.comparison.pairs, 2);
    EXPECT_NEAR(all.comparison.ratio, 4, 1e-12);  // the geometric mean of 2 and 8
    EXPECT_EQ(all.comparison.processes, 3);
    EXPECT_EQ(compared.rows.size(), 2U);
  }
  EXPECT_TRUE(compare_results(run_of({case_with("a", "total_latency_s", {1, 1, 1})}),
                              run_of({case_with("a", "total_latency_s", {2, 2, 2})}), 0.02)
                  .all_cases.empty());
}

TEST(ComparedRows, RunsThatDifferAsAWholeSaySo) {
  ResultSet a = run_of({}), b = run_of({});
  a.machine.cpu = b.machine.cpu = "cpu";
  a.build = b.build = {"1.0", "g++", "Release"};
  EXPECT_TRUE(compare_results(a, b, 0.02).unlike.empty());
  b.machine.cpu = "another";
  EXPECT_EQ(compare_results(a, b, 0.02).unlike, (Strings{"A ran on cpu and B on another"}));
  b.machine.cpu = "cpu";
  for (std::string Build::*member : {&Build::version, &Build::compiler, &Build::type}) {
    b.build = a.build;
    b.build.*member = "x";
    EXPECT_EQ(compare_results(a, b, 0.02).unlike,
              (Strings{fmt::format("A is of assay 1.0 (g++, Release) and B of {} ({}, {})", b.build.version,
                                   b.build.compiler, b.build.type)}));
  }
  b.model.sha256 = "y";
  a.model.id = "m";
  b.model.id = "n";
  try {
    compare_results(a, b, 0.02);
    ADD_FAILURE();
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(),
                 "the runs measured different models (m and n): expected the same files, found "
                 "different ones");
  }
}

}  // namespace
}  // namespace assay
