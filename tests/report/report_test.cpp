// Reports: results survive the way to JSON and back, and every format shows the same rows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/report/csv.h"
#include "assay/report/files.h"
#include "assay/report/result_tables.h"
#include "assay/results/metric.h"
#include "assay/statistics/statistics.h"
#include "support/fixtures.h"
#include "support/paths.h"

namespace assay::report {
namespace {

ResultSet sample_results() {
  ResultSet r;
  r.created = "2026-01-31T12:00:00Z";
  r.command = "assay run";
  r.build = {"0.1.0", "g++", "Release"};
  r.machine.cpu = "a CPU";
  r.model.id = "demo";
  r.model.dtype = "float32";
  r.model.parameters = 1000;
  Row row;
  row.scenario = Scenario::baseline;
  row.label = "prompt 1";
  row.parameters = {{"precision", "float32"}, {"prompt", "say \"hi\", you\nthere"}};
  row.set("total_latency_s", Value{0.2, statistics::Interval{0.1, 0.3, 0.95}, {0.1, 0.2, 0.3}});
  row.set("memory_bytes", 4000);
  row.warnings = {{WarningKind::drift, "a warning"}, {WarningKind::other, "another"}};
  Row failed;
  failed.scenario = Scenario::baseline;
  failed.label = "prompt 2";
  failed.status = RowStatus::error;
  failed.reason = "the prompt | is empty";
  r.rows = {row, failed};
  r.texts = {{"prompt 1", "a prompt", " and\ntext", {1, 2}, {3, 4}}};
  r.caption = "A caption.";
  return r;
}

TEST(Csv, QuotesAndKeepsEverySample) {
  const std::string csv = wide_results_csv(sample_results());
  EXPECT_EQ(csv,
            "scenario,label,status,reason,precision,prompt,total_latency_s,memory_bytes,warnings\r\n"
            "baseline,prompt 1,ok,,float32,\"say \"\"hi\"\", you\nthere\",0.2,4000,a warning; another\r\n"
            "baseline,prompt 2,error,the prompt | is empty,,,,,\r\n");
  EXPECT_EQ(samples_csv(sample_results()),
            "run,scenario,label,configuration,process,round,phase,step,value,unit\r\n"
            ",baseline,prompt 1,,,,total_latency_s,0,0.1,s\r\n"
            ",baseline,prompt 1,,,,total_latency_s,1,0.2,s\r\n"
            ",baseline,prompt 1,,,,total_latency_s,2,0.3,s\r\n");
}

TEST(Csv, IsTidyAndSaysWhatIsAbsent) {
  ResultSet results;
  results.run_id = "r1";
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = "nf4\x1b[31m";
  row.parameters = {{"configuration", "nf4"}};
  row.places = {{0, 0}, {0, 1}, {1, 0}};
  row.step_s = {{0.01, 0.02}, {0.03}, {}};
  row.set("total_latency_s", Value{0.2, statistics::Interval{0.1, 0.3, 0.95}, {0.1, 0.2, 0.3}, "mean", 2});
  row.set("tokens_per_sec", Value{5, {}, {10, 5, 3}, "mean", 2});
  row.set("tokenize_s", Value{0.001, {}, {0.001, 0.002, 0.003}, "mean", 2});
  row.set("memory_bytes", 4000.0);
  row.absent = {{"energy_per_token_j", "no counter"}};
  row.losses = LossBlocks{17, {32.5, 2}};
  results.rows = {row};
  const std::string head = "r1,trade-off,nf4\\x1b[31m,nf4,";
  EXPECT_EQ(results_csv(results),
            "run,scenario,label,configuration,status,metric,value,low,high,level,n,processes,statistic,unit,"
            "reason\r\n" +
                head + "ok,total_latency_s,0.2,0.1,0.3,0.95,3,2,mean,s,\r\n" + head +
                "ok,tokens_per_sec,5,,,,3,2,mean,tokens/s,\r\n" + head +
                "ok,tokenize_s,0.001,,,,3,2,mean,s,\r\n" + head + "ok,memory_bytes,4000,,,,1,,,B,\r\n" +
                head + "ok,energy_per_token_j,,,,,0,,,J,no counter\r\n");
  EXPECT_EQ(samples_csv(results), "run,scenario,label,configuration,process,round,phase,step,value,unit\r\n" +
                                      head + "0,0,tokenize,,0.001,s\r\n" + head + "0,0,total,,0.1,s\r\n" +
                                      head + "0,0,decode step,0,0.01,s\r\n" + head +
                                      "0,0,decode step,1,0.02,s\r\n" + head + "0,1,tokenize,,0.002,s\r\n" +
                                      head + "0,1,total,,0.2,s\r\n" + head + "0,1,decode step,0,0.03,s\r\n" +
                                      head + "1,0,tokenize,,0.003,s\r\n" + head + "1,0,total,,0.3,s\r\n" +
                                      head + ",,loss of 16 tokens,0,32.5,nats\r\n" + head +
                                      ",,loss of 16 tokens,1,2,nats\r\n");
}

TEST(Table, AlignsByDisplayWidth) {
  const Table table{{"Name", "Figure"}, {false, true}, {{"日本", "1.0"}, {"abc", "12.5"}}};
  EXPECT_EQ(to_text(table),
            "Name  Figure\n"
            "----  ------\n"
            "日本     1.0\n"
            "abc     12.5\n");
  EXPECT_EQ(to_markdown({{"A"}, {false}, {{"x | y"}}}), "| A |\n|---|\n| x \\| y |\n");
}

TEST(Table, AFailedRowShowsItsReasonAndNoFigures) {
  const Table table = build_results_table(sample_results());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1][1], "prompt 2: failed: the prompt | is empty");
  EXPECT_EQ(table.rows[1].back(), "-");
}

TEST(OneLine, EscapesAndCutsOnACharacter) {
  EXPECT_EQ(one_line("a\nb\x1b[31m", 100), "a\\nb\\x1b[31m");
  EXPECT_EQ(one_line("ab\xc3\xa9z", 3), "ab...");
  EXPECT_EQ(one_line("ab\xc3\xa9z", 4), "ab\xc3\xa9...");
}

TEST(Metrics, AreDocumentedAsTheyAre) {
  const std::string document = read_text_file(source_folder() + "/docs/METRICS.md");
  std::string expected = "| metric | title | unit | better | definition |\n|---|---|---|---|---|\n";
  for (const Metric& m : metric_catalogue())
    expected += fmt::format("| `{}` | {} | {} | {} | {} |\n", m.tag, m.title, m.unit.empty() ? "-" : m.unit,
                            m.better == Better::lower    ? "lower"
                            : m.better == Better::higher ? "higher"
                                                         : "neither",
                            m.definition);
  EXPECT_EQ(document.substr(document.find("| metric |")), expected) << "run tools/make_metrics.py";
}

TEST(Metrics, AreCompleteAndHaveTheirUnitInTheHead) {
  std::set<std::string_view> tags;
  for (const Metric& m : metric_catalogue()) {
    EXPECT_TRUE(tags.insert(m.tag).second) << m.tag << " stands twice";
    for (const std::string_view text : {m.tag, m.title, m.head, m.definition})
      EXPECT_FALSE(text.empty()) << m.tag;
    EXPECT_TRUE(m.definition.ends_with(".")) << m.tag;
    EXPECT_GT(m.scale, 0) << m.tag;
    EXPECT_NE(m.tables.is_empty(), m.rank < 9)
        << m.tag << ": a rank orders the columns of the tables it is in";
    EXPECT_EQ(find_metric(m.tag), &metric(m.tag));
  }
  EXPECT_EQ(metric("time_to_first_token_s").column_head(), "TTFT (ms)");
  EXPECT_EQ(metric("tokens_per_sec").column_head(), "Tokens/s");
  EXPECT_EQ(metric("tokens_per_sec_per_sequence").column_head(), "Tokens/s per sequence");
  EXPECT_EQ(metric("percent_of_roofline").column_head(), "Roofline (%)");
  EXPECT_EQ(metric("load_s").column_head(), "Load (s)");
  EXPECT_EQ(metric("perplexity").column_head(), "Perplexity");
  EXPECT_EQ(metric("memory_bytes").column_head(), "Footprint (MiB)");
  EXPECT_EQ(find_metric("nothing"), nullptr);
  EXPECT_THROW(metric("nothing"), std::logic_error);
}

TEST(Statistics, KnownAnswers) {
  const std::vector<double> samples = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(statistics::mean(samples), 5);
  EXPECT_DOUBLE_EQ(statistics::median(samples), 4.5);
  EXPECT_NEAR(*statistics::standard_deviation(samples), 2.13809, 1e-5);
  EXPECT_FALSE(statistics::standard_deviation(std::vector<double>{1}).has_value());
}

Row timed_row(const std::string& label, double seconds, double low, double high) {
  Row row;
  row.scenario = Scenario::tradeoff;
  row.label = label;
  row.set("total_latency_s", Value{seconds, statistics::Interval{low, high, 0.95}, {}});
  return row;
}

TEST(Table, PerplexitiesOfTheTradeOffStandOnce) {
  ResultSet results;
  Row quality;
  quality.scenario = Scenario::perplexity;
  quality.label = "nf4";
  quality.set("perplexity", 30);
  Row lost = quality;
  lost.label = "fp4";
  results.rows = {timed_row("nf4", 1, 1, 1), quality, lost};
  results.rows[0].set("perplexity", 30);
  const Table table = build_results_table(results);
  ASSERT_EQ(table.rows.size(), 2u);  // fp4 has no row of the trade-off that shows it
  EXPECT_EQ(table.rows[0][0], "Precision trade-off");
  EXPECT_EQ(table.rows[1][1], "fp4");
}

TEST(Table, ALabelFromAFileStaysOnItsLine) {
  ResultSet results;
  results.rows = {timed_row("a\n\x1b[31mb", 1, 1, 1)};
  EXPECT_EQ(build_results_table(results).rows[0][1], "a\\n\\x1b[31mb");
}

}  // namespace
}  // namespace assay::report
