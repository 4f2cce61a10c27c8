// The history of a project's runs: changes with verdicts, and trends.
#include "assay/report/history_document.h"

#include <gtest/gtest.h>

#include "assay/report/html/html.h"
#include "assay/report/render.h"
#include "support/drawn_marks.h"
#include "support/result_sets.h"
#include "support/xml.h"

namespace assay::report {
namespace {

// A run of one configuration in five processes whose latencies lie around `seconds`.
ResultSet run_of(const std::string& created, double seconds, double memory = 1e6) {
  ResultSet results = test::full_results();
  results.created = created;
  results.model.sha256 = "the model";
  results.rows.resize(1);
  Row& row = results.rows[0];
  std::vector<double> samples;
  for (int process = 0; process < 5; ++process)
    for (int round = 0; round < 3; ++round) {
      row.places.push_back({process, round});
      samples.push_back(seconds * (1 + 0.002 * process - 0.001 * round));
    }
  row.set("total_latency_s", value_of_processes(samples, row.places));
  row.set("working_memory_bytes", memory);
  return results;
}

std::vector<RunRecord> three_runs() {
  return {{"a/results.json", run_of("2026-01-01", 0.1)},
          {"b/results.json", run_of("2026-01-02", 0.2)},
          {"c/results.json", run_of("2026-01-03", 0.2, 2e6)}};
}

TEST(History, ComparesEachRunWithTheOneBeforeOfItsModel) {
  std::vector<RunRecord> runs = three_runs();
  runs[1].results.model.sha256 = "another model";
  const std::vector<RunChange> changes = changes_over(runs, 0.02);
  EXPECT_FALSE(changes[0].before);
  EXPECT_FALSE(changes[1].before);
  ASSERT_TRUE(changes[2].before);
  EXPECT_EQ(*changes[2].before, 0U);
  EXPECT_EQ(shown_latency_change(changes[2]), "slower 2.00x \u00b10.5%");
  EXPECT_EQ(shown_change(changes[2], "working_memory_bytes"), "higher in 1 of 1");
  EXPECT_EQ(shown_change(changes[2], "perplexity"), "-");
}

TEST(History, ShowsLargeFiguresWithoutAnExponent) {
  std::vector<RunRecord> runs = three_runs();
  runs[0].results.rows[0].set("tokens_per_sec", 12345.6);
  const std::string page = to_markdown(history_document(runs, changes_over(runs, 0.02), {}));
  EXPECT_NE(page.find("| 12346 |"), std::string::npos) << page;
}

TEST(History, SaysWhatCannotBeCompared) {
  std::vector<RunRecord> runs = three_runs();
  runs[1].results.rows[0].label = "another case";
  runs[2].results.rows[0].places.assign(15, SampleId{});
  runs[2].results.rows[0].label = "another case";
  const std::vector<RunChange> changes = changes_over(runs, 0.02);
  EXPECT_EQ(shown_latency_change(changes[1]), "not comparable");
  EXPECT_EQ(changes[1].why_not, "the two runs have no measured case in common");
  EXPECT_EQ(shown_latency_change(changes[2]), "not tested");
  const std::string page = to_markdown(history_document(runs, changes, {}));
  EXPECT_NE(page.find("- Run 2 against run 1: the two runs have no measured case in common."),
            std::string::npos);
  EXPECT_NE(page.find("B was measured in one process"), std::string::npos) << page;
}

TEST(History, ShowsRunsChangesAndTrends) {
  const std::vector<RunRecord> runs = three_runs();
  const std::vector<std::string> metrics = {"total_latency_s", "perplexity", "kl_mean"};
  const Document document = history_document(runs, changes_over(runs, 0.02), metrics);
  const std::string page = to_markdown(document);
  EXPECT_NE(page.find("| 2 | 1 | 0.1.0 | slower 2"), std::string::npos) << page;
  EXPECT_NE(page.find("| 3 | 2 | 0.1.0 | tied | higher in 1 of 1 | - | 0 |"), std::string::npos) << page;
  EXPECT_NE(page.find("(plots/history_total_latency_s.svg)"), std::string::npos);
  EXPECT_EQ(page.find("history_kl_mean"), std::string::npos) << "no run measured it";
  const auto& figure = std::get<Figure>(document.sections.back().blocks[0].content);
  ASSERT_EQ(figure.plot.series.size(), 1U);
  ASSERT_EQ(figure.plot.series[0].points.size(), 3U);
  EXPECT_NEAR(figure.plot.series[0].points[1].y, 200, 2);
  EXPECT_EQ(figure.plot.series[0].points[1].x, 2);
  EXPECT_TRUE(figure.plot.series[0].points[1].text.starts_with("run 2, 2026-01-02, float32: Latency "));
  EXPECT_EQ(test::why_not_xml(to_html(document)), "");
  // One run has neither.
  const std::string alone = to_markdown(history_document(std::span(runs).first(1), {}, metrics));
  EXPECT_EQ(alone.find("plots/"), std::string::npos);
  EXPECT_EQ(alone.find("Changes"), std::string::npos);
}

TEST(History, DrawsTheValuesOfTheRuns) {
  const std::vector<RunRecord> runs = three_runs();
  const std::vector<std::string> metrics = {"total_latency_s"};
  const Document document = history_document(runs, changes_over(runs, 0.02), metrics);
  const std::string svg = to_svg(std::get<Figure>(document.sections.back().blocks[0].content).plot);
  const test::TickScale across = test::ticks_of(svg, true), up = test::ticks_of(svg, false);
  ASSERT_GE(across.ticks.size(), 2U);
  ASSERT_GE(up.ticks.size(), 2U);
  const std::vector<std::string> marks = test::marks_in(svg);
  ASSERT_EQ(marks.size(), runs.size()) << svg;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const auto [x, y] = test::middle_of(marks[i]);
    EXPECT_NEAR(across.value_at(x), static_cast<double>(i + 1), 0.01) << marks[i];
    const double shown_ms = 1e3 * runs[i].results.rows[0].find("total_latency_s")->value;
    EXPECT_NEAR(up.value_at(y), shown_ms, 0.5) << marks[i];
  }
}

TEST(History, KeepsAsManyLinesAsThereAreColoursAndEscapes) {
  std::vector<RunRecord> runs = three_runs();
  for (RunRecord& run : runs) {
    run.path = run.results.model.id = run.results.build.version = "<script>\n|";
    for (int i = 0; i < 12; ++i) {
      Row row = run.results.rows[0];
      row.label = "<b>" + std::to_string(i);
      run.results.rows.push_back(row);
    }
  }
  const std::vector<std::string> metrics = {"total_latency_s"};
  const Document document = history_document(runs, changes_over(runs, 0.02), metrics);
  const auto& figure = std::get<Figure>(document.sections.back().blocks[0].content);
  EXPECT_EQ(figure.plot.series.size(), 8U);
  EXPECT_EQ(figure.plot.caption, "5 lines with fewer runs are left out.");
  const std::string page = to_html(document);
  EXPECT_EQ(test::why_not_xml(page), "");
  EXPECT_EQ(page.find("<b>"), std::string::npos);
}

}  // namespace
}  // namespace assay::report
