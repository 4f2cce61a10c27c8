// Reports: results survive the way to JSON and back, and every format shows the same rows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/report/csv.h"
#include "assay/report/files.h"
#include "assay/report/summary.h"
#include "assay/report/table.h"
#include "assay/results/metric.h"
#include "assay/statistics/statistics.h"
#include "support/fixtures.h"
#include "support/paths.h"

namespace assay {
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
  row.scenario = "baseline";
  row.label = "prompt 1";
  row.parameters = {{"precision", "float32"}, {"prompt", "say \"hi\", you\nthere"}};
  row.set("total_latency_s", Value{0.2, Interval{0.1, 0.3, 0.95}, {0.1, 0.2, 0.3}});
  row.set("memory_bytes", 4000);
  row.warnings = {"a warning"};
  Row failed;
  failed.scenario = "baseline";
  failed.label = "prompt 2";
  failed.status = "error";
  failed.reason = "the prompt | is empty";
  r.rows = {row, failed};
  r.texts = {{"prompt 1", "a prompt", " and\ntext", {1, 2}, {3, 4}}};
  r.caption = "A caption.";
  return r;
}

TEST(Results, SurviveJson) {
  const ResultSet r = sample_results();
  const auto json = to_json(r);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["rows"][0]["values"]["total_latency_s"]["samples"].size(), 3u);
  EXPECT_EQ(json["rows"][0]["values"]["total_latency_s"]["unit"], "s");
  const ResultSet back = results_from_json(nlohmann::ordered_json::parse(json.dump()), "r.json");
  EXPECT_EQ(to_json(back).dump(), json.dump());
  EXPECT_EQ(summary_text(back), summary_text(r));
}

TEST(Results, RefuseWhatIsNotOurs) {
  auto json = to_json(sample_results());
  json["schema_version"] = 99;
  EXPECT_THROW(results_from_json(json, "r.json"), Error);
  json["schema_version"] = 1;
  json["rows"][0]["values"]["unheard_of"] = json["rows"][0]["values"]["memory_bytes"];
  EXPECT_THROW(results_from_json(json, "r.json"), Error);
  json.erase("rows");
  EXPECT_THROW(results_from_json(json, "r.json"), Error);
  EXPECT_THROW(results_from_json(nlohmann::ordered_json::array(), "r.json"), Error);
}

TEST(Csv, QuotesAndKeepsEverySample) {
  const std::string csv = results_csv(sample_results());
  EXPECT_EQ(csv,
            "scenario,label,status,reason,precision,prompt,total_latency_s,memory_bytes,warnings\r\n"
            "baseline,prompt 1,ok,,float32,\"say \"\"hi\"\", you\nthere\",0.2,4000,a warning\r\n"
            "baseline,prompt 2,error,the prompt | is empty,,,,,\r\n");
  EXPECT_EQ(samples_csv(sample_results()),
            "scenario,label,metric,unit,index,value\r\n"
            "baseline,prompt 1,total_latency_s,s,0,0.1\r\n"
            "baseline,prompt 1,total_latency_s,s,1,0.2\r\n"
            "baseline,prompt 1,total_latency_s,s,2,0.3\r\n");
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
  EXPECT_EQ(table.rows[1][1], "prompt 2: error: the prompt | is empty");
  EXPECT_EQ(table.rows[1].back(), "-");
}

TEST(OneLine, EscapesAndCutsOnACharacter) {
  EXPECT_EQ(one_line("a\nb\x1b[31m", 100), "a\\nb\\x1b[31m");
  EXPECT_EQ(one_line("ab\xc3\xa9z", 3), "ab...");
  EXPECT_EQ(one_line("ab\xc3\xa9z", 4), "ab\xc3\xa9...");
}

TEST(Metrics, AreDocumentedInWords) {
  const std::string document = read_text_file(std::filesystem::path(source_folder()) / "docs/METRICS.md");
  for (const Metric& m : metric_catalogue()) {
    EXPECT_NE(document.find("`" + std::string(m.tag) + "`"), std::string::npos) << m.tag;
    EXPECT_NE(document.find(m.definition), std::string::npos)
        << m.tag << ": the document says something else";
  }
}

TEST(Statistics, KnownAnswers) {
  const std::vector<double> samples = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(samples), 5);
  EXPECT_DOUBLE_EQ(median(samples), 4.5);
  EXPECT_NEAR(*standard_deviation(samples), 2.13809, 1e-5);
  EXPECT_FALSE(standard_deviation(std::vector<double>{1}).has_value());
}

Row timed_row(const std::string& label, double seconds, double low, double high) {
  Row row;
  row.scenario = "trade-off";
  row.label = label;
  row.set("total_latency_s", Value{seconds, Interval{low, high, 0.95}, {}});
  return row;
}

TEST(Table, ShortTimesKeepThreeDigitsAndSkewedIntervalsBothEnds) {
  ResultSet results;
  results.rows = {timed_row("even", 0.00566, 0.0056, 0.00572), timed_row("skewed", 0.0131, 0.0129, 0.041)};
  const Table table = build_results_table(results);
  EXPECT_EQ(table.rows[0][3], "0.00566 \u00b11.1%");
  EXPECT_EQ(table.rows[1][3], "0.01310 -1.5/+213.0%");
}

TEST(Table, PerplexitiesOfTheTradeOffStandOnce) {
  ResultSet results;
  Row quality;
  quality.scenario = "perplexity";
  quality.label = "nf4";
  quality.set("perplexity", 30);
  Row lost = quality;
  lost.label = "fp4";
  results.rows = {timed_row("nf4", 1, 1, 1), quality, lost};
  results.rows[0].set("perplexity", 30);
  const Table table = build_results_table(results);
  ASSERT_EQ(table.rows.size(), 2u);  // fp4 has no row of the trade-off that shows it
  EXPECT_EQ(table.rows[0][0], "trade-off");
  EXPECT_EQ(table.rows[1][1], "fp4");
}

TEST(Table, ALabelFromAFileStaysOnItsLine) {
  ResultSet results;
  results.rows = {timed_row("a\n\x1b[31mb", 1, 1, 1)};
  EXPECT_EQ(build_results_table(results).rows[0][1], "a\\n\\x1b[31mb");
}

TEST(Summary, ATextThatIsThatOfAnotherIsNotRepeated) {
  ResultSet results;
  results.texts = {{"float32, prompt 1", "a prompt", " one", {}, {}},
                   {"nf4, prompt 1", "a prompt", " one", {}, {}},
                   {"fp4, prompt 1", "a prompt", " two", {}, {}}};
  const std::string text = summary_text(results);
  EXPECT_NE(text.find("float32, prompt 1                -> one\n"), std::string::npos) << text;
  EXPECT_NE(text.find("nf4, prompt 1                    -> the same as float32, prompt 1\n"),
            std::string::npos);
  EXPECT_NE(text.find("fp4, prompt 1                    -> two\n"), std::string::npos);
}

}  // namespace
}  // namespace assay
