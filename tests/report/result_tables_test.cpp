// Tables of results cell by cell: decimals, intervals, verdicts, failed rows and ranks.
#include "assay/report/result_tables.h"

#include <gtest/gtest.h>

#include "assay/results/metric.h"
#include "support/comparisons.h"

namespace assay::report {
namespace {

using Line = std::vector<std::string>;

Row measured(Scenario scenario, const std::string& label) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  return row;
}
Line column_of(const Table& table, const std::string& head) {
  const auto at = std::find(table.head.begin(), table.head.end(), head);
  if (at == table.head.end()) return {};
  Line cells;
  for (const auto& row : table.rows) cells.push_back(row[static_cast<std::size_t>(at - table.head.begin())]);
  return cells;
}
// The cells of one metric in rows that have these values of it.
Line cells_of(const char* tag, const std::vector<double>& values) {
  ResultSet results;
  for (const double value : values) {
    Row row = measured(Scenario::baseline, "a");
    row.set(tag, value);
    results.rows.push_back(row);
  }
  return column_of(every_metric_table(results, Scenario::baseline), metric(tag).column_head());
}

// Latencies are in milliseconds: three digits of the smallest, six decimals at most.
TEST(ResultTables, TimesHaveThreeDigits) {
  EXPECT_EQ(cells_of("total_latency_s", {0.0125, 1.5}), (Line{"12.5", "1500.0"}));
  EXPECT_EQ(cells_of("total_latency_s", {0.00125}), (Line{"1.25"}));
  EXPECT_EQ(cells_of("total_latency_s", {0.01}), (Line{"10.0"}));
  EXPECT_EQ(cells_of("total_latency_s", {0.125}), (Line{"125"}));
  EXPECT_EQ(cells_of("total_latency_s", {12.5}), (Line{"12500"})) << "none is taken off";
  EXPECT_EQ(cells_of("total_latency_s", {1.26e-8, 0}), (Line{"0.000013", "0.000000"}));
  EXPECT_EQ(cells_of("total_latency_s", {0}), (Line{"0.0"})) << "as the metric has them";
  EXPECT_EQ(cells_of("load_s", {0.25}), (Line{"0.250"}));
  EXPECT_EQ(cells_of("inter_token_p90_ms", {2.5}), (Line{"2.50"}));
}

TEST(ResultTables, LargeFiguresHaveNoDecimals) {
  EXPECT_EQ(cells_of("tokens_per_sec", {999.5, 20000}), (Line{"999.5", "20000.0"}));
  EXPECT_EQ(cells_of("tokens_per_sec", {1000, 20000.25}), (Line{"1000", "20000"}));
  EXPECT_EQ(cells_of("tokens_per_sec", {1000.75}), (Line{"1001"}));
  EXPECT_EQ(cells_of("memory_bytes", {1572864}), (Line{"1.5"}));
}

// 64 with ends that are whole 64ths: exact percentages.
TEST(ResultTables, IntervalsHaveOneNumberWhereTheyAreAboutEven) {
  ResultSet results;
  const auto interval = [&](double value, double low, double high) {
    Row row = measured(Scenario::lengths, "a");
    row.set("total_latency_s", Value{value, statistics::Interval{low, high, 0.95}, {}});
    results.rows = {row};
    return scenario_table(results, Scenario::lengths).rows[0][2];
  };
  EXPECT_EQ(interval(64, 60, 68), "\u00b16.2%");
  EXPECT_EQ(interval(64, 63, 66), "\u00b12.3%") << "half as far on one side";
  EXPECT_EQ(interval(64, 63.5, 66), "-0.8%/+3.1%");
  EXPECT_EQ(interval(64, 62, 64.5), "-3.1%/+0.8%");
  EXPECT_EQ(interval(0, 0, 1), "-");
}

TEST(ResultTables, RowsWithoutAFigureHaveADash) {
  ResultSet results;
  Row timed = measured(Scenario::lengths, "timed"), bare = measured(Scenario::lengths, "bare"),
      counted_only = measured(Scenario::lengths, "counted");
  timed.set("total_latency_s", Value{0.5, statistics::Interval{0.49, 0.51, 0.95}, {}});
  counted_only.set("total_latency_s", 0.25);
  bare.status = RowStatus::error;
  results.rows = {timed, bare, counted_only, measured(Scenario::cache, "elsewhere")};
  const Table table = scenario_table(results, Scenario::lengths);
  EXPECT_EQ(table.head, (Line{"Prompt length", "Latency (ms)", "95 % CI"}));
  EXPECT_EQ(table.is_number, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(table.rank, (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(table.rows,
            (std::vector<Line>{
                {"timed", "500", "\u00b12.0%"}, {"bare (failed)", "-", "-"}, {"counted", "250", "-"}}));
  const Table every = every_metric_table(results, Scenario::lengths);
  EXPECT_EQ(every.rows, table.rows);
  EXPECT_EQ(every.rank, (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(scenario_table(results, Scenario::cache).head, (Line{"KV cache"}));
  EXPECT_TRUE(scenario_table(results, Scenario::threads).rows.empty());
}

TEST(ResultTables, LabelsHaveTheirLimit) {
  ResultSet results;
  results.rows = {measured(Scenario::lengths, std::string(120, 'a')),
                  measured(Scenario::lengths, std::string(121, 'b'))};
  const Table table = scenario_table(results, Scenario::lengths);
  EXPECT_EQ(table.rows[0][0], std::string(120, 'a'));
  EXPECT_EQ(table.rows[1][0], std::string(120, 'b') + "...");
}

TEST(ResultTables, VerdictsStandBesideTheLatency) {
  ResultSet results;
  for (const char* label : {"a", "b", "c"}) {
    Row row = measured(Scenario::threads, label);
    row.set("total_latency_s", 0.5);
    row.set("tokens_per_sec", 5);
    results.rows.push_back(row);
  }
  EXPECT_EQ(scenario_table(results, Scenario::threads).head, (Line{"Threads", "Latency (ms)", "Tokens/s"}));
  const std::string fourteen(14, 'x');
  results.comparisons = {test::comparison_of("b", "y", 3, Verdict::higher, {.metric = "tokens_per_sec"}),
                         test::comparison_of("b", fourteen, 0.41234, Verdict::lower),
                         test::comparison_of("c", fourteen, 2, Verdict::cannot_tell)};
  Table table = scenario_table(results, Scenario::threads);
  EXPECT_EQ(table.head, (Line{"Threads", "Latency (ms)", "vs. " + fourteen, "Tokens/s"}));
  EXPECT_EQ(table.rank, (std::vector<int>{0, 1, 2, 2}));
  EXPECT_EQ(table.is_number, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(column_of(table, "vs. " + fourteen), (Line{"-", "faster 2.43x", "undecided"}));
  // A longer name is not repeated, nor is one of several.
  for (std::size_t i = 1; i < 3; ++i) results.comparisons[i].baseline = fourteen + "x";
  EXPECT_EQ(scenario_table(results, Scenario::threads).head[2], "vs. baseline");
  results.comparisons[1].baseline = "y";
  results.comparisons[2].baseline = "z";
  EXPECT_EQ(scenario_table(results, Scenario::threads).head[2], "vs. baseline");
  results.comparisons[2].baseline = "y";
  EXPECT_EQ(scenario_table(results, Scenario::threads).head[2], "vs. y");
}

TEST(ResultTables, APerplexityIsShownOnce) {
  ResultSet results;
  Row scored = measured(Scenario::perplexity, "nf4"), tradeoff = measured(Scenario::tradeoff, "nf4");
  tradeoff.set("perplexity", 20);
  const auto shown = [&](const Row& other) {
    results.rows = {scored, other};
    return is_shown(scored, results);
  };
  EXPECT_FALSE(shown(tradeoff));
  EXPECT_TRUE(is_shown(tradeoff, results));
  Row other = tradeoff;
  other.label = "fp4";
  EXPECT_TRUE(shown(other)) << "another precision";
  other = tradeoff;
  other.status = RowStatus::error;
  EXPECT_TRUE(shown(other)) << "a failed row shows nothing";
  EXPECT_TRUE(shown(measured(Scenario::tradeoff, "nf4"))) << "without a perplexity";
  other = tradeoff;
  other.scenario = Scenario::lengths;
  EXPECT_TRUE(shown(other)) << "no row of the trade-off";
  scored.status = RowStatus::error;
  EXPECT_TRUE(shown(tradeoff)) << "it failed, which nothing else says";
  EXPECT_FALSE(is_shown(measured(Scenario::step_times, "a"), results));
  EXPECT_TRUE(is_shown(measured(Scenario::baseline, "a"), results));
}

TEST(ResultTables, AllRowsInOneTable) {
  ResultSet results;
  Row a = measured(Scenario::baseline, "prompt 1"), b = measured(Scenario::lengths, "32\n");
  a.parameters = {{"precision", "float32"}};
  a.set("total_latency_s", Value{0.5, statistics::Interval{0.45, 0.55, 0.95}, {}});
  a.set("avg_latency_per_token_ms", 2.5);
  a.set("tokenize_s", 0.5);  // in no table
  b.status = RowStatus::error;
  b.reason = std::string(121, 'r');
  b.parameters = {{"precision", std::string(121, 'p')}};
  results.rows = {a, measured(Scenario::step_times, "cache on"), b};
  const Table table = build_results_table(results);
  EXPECT_EQ(table.head, (Line{"Scenario", "Case", "Precision", "Latency (ms)", "95 % CI",
                              metric("avg_latency_per_token_ms").column_head()}));
  EXPECT_EQ(table.rows,
            (std::vector<Line>{{"Baseline", "prompt 1", "float32", "500", "\u00b110%", "2.50"},
                               {"Prompt length", "32\\n: failed: " + std::string(120, 'r') + "...",
                                std::string(120, 'p') + "...", "-", "-", "-"}}));
  EXPECT_EQ(table.rank, (std::vector<int>{0, 0, 0, 1, 1, metric("avg_latency_per_token_ms").rank}));
}

TEST(ResultTables, OfTheTradeOff) {
  ResultSet results;
  Row base = measured(Scenario::tradeoff, "float32"), nf4 = measured(Scenario::tradeoff, "nf4"),
      failed = measured(Scenario::tradeoff, "fp4");
  base.set("memory_bytes", 1024.5 * 1024 * 1024);
  base.set("total_latency_s", Value{1, {}, {1, 2, 6}});
  nf4.set("memory_bytes", 1024 * 1024 / 2);
  failed.status = RowStatus::error;
  failed.reason = "no memory";
  results.rows = {measured(Scenario::lengths, "32"), base, nf4, failed};
  EXPECT_EQ(tradeoff_table(results).head, (Line{"Float Precision", "Memory (MB)", "Avg Latency (s)"}));
  EXPECT_EQ(tradeoff_table(results).rows[0], (Line{"float32 (baseline)", "1024.50", "3.0000"})) << "the mean";
  results.texts = {{"edge", "", "no prompt", {}, {}},
                   {"float32, prompt 1", "one", "a text", {}, {}, Scenario::tradeoff, "float32"},
                   {"nf4, prompt 1", "one", "b text", {}, {}, Scenario::tradeoff, "nf4"},
                   {"float32, prompt 2", "two", "c\ntext", {}, {}, Scenario::tradeoff, "float32"},
                   {"nf4, prompt 2", "two", "d text", {}, {}, Scenario::tradeoff, "nf4"}};
  const Table table = tradeoff_table(results);
  EXPECT_EQ(table.head, (Line{"Float Precision", "Memory (MB)", "Avg Latency (s)", "Prompt 1 Output",
                              "Prompt 2 Output"}));
  EXPECT_EQ(table.is_number, (std::vector<bool>{false, true, true, false, false}));
  EXPECT_EQ(table.rows, (std::vector<Line>{{"float32 (baseline)", "1024.50", "3.0000", "a text", "c\ntext"},
                                           {"nf4", "0.50", "Error", "b text", "d text"},
                                           {"fp4", "Error", "Error", "Error: no memory", "Error"}}));
}

// What says how much is lost stays on narrow terminals, and throughput, which is latency the other way round,
// gives way.
// Beside the names of precisions there is no room for how many more processes would decide.
TEST(ResultTables, OfPrecisionsInBatchesKeepTheirThroughputWhereTheyAreNarrow) {
  ResultSet results;
  for (const char* label : {"float32", "int8-dynamic+head:int8"}) {
    Row row = measured(Scenario::batched_precisions, label);
    row.set("total_latency_s", 0.0105);
    row.set("tokens_per_sec", 4000);
    results.rows.push_back(row);
  }
  results.comparisons = {test::comparison_of("int8-dynamic+head:int8", "float32", 1.1, Verdict::cannot_tell,
                                             {.scenario = Scenario::batched_precisions})};
  results.comparisons.front().more_needed = 210;
  const Table table = scenario_table(results, Scenario::batched_precisions, Detail::percent);
  EXPECT_EQ(column_of(table, "vs. float32"), (Line{"-", "undecided"}));
  EXPECT_NE(to_text(table, 80).find("Tokens/s"), std::string::npos);
  const Table whole = scenario_table(results, Scenario::batched_precisions);
  EXPECT_NE(column_of(whole, "vs. float32"), (Line{"-", "undecided"})) << "a page has room for it";
}

TEST(ResultTables, KeepQualityWhereTheyAreNarrow) {
  ResultSet results;
  for (const char* label : {"float32", "int8-dynamic+head:int8"}) {
    Row row = measured(Scenario::tradeoff, label);
    row.set("resident_weights_bytes", 12.5e6);
    row.set("total_latency_s", 0.0105);
    row.set("tokens_per_sec", 4000);
    row.set("perplexity", 33.126);
    row.set("perplexity_ratio", Value{1.01, statistics::Interval{1, 1.02, 0.95}, {}});
    row.set("kl_mean", Value{0.0123, statistics::Interval{0.011, 0.014, 0.95}, {}});
    row.set("top1_agreement", 0.95);
    results.rows.push_back(row);
  }
  const auto head_at = [&](std::size_t width) {
    const std::string text = to_text(scenario_table(results, Scenario::tradeoff, Detail::percent), width);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(head_at(80), "Precision               Weights (MiB)  Latency (ms)  Tokens/s     PPL  KL (nats)");
  const auto has_all = [&](std::size_t width, std::initializer_list<const char*> heads) {
    const std::string head = head_at(width);
    for (const char* one : heads)
      if (head.find(one) == std::string::npos) return false;
    return true;
  };
  for (Row& row : results.rows) row.set("accuracy", 0.5);
  EXPECT_EQ(head_at(80), "Precision               Weights (MiB)  Latency (ms)     PPL  KL (nats)  Acc. (%)");
  results.comparisons = {test::comparison_of("int8-dynamic+head:int8", "float32", 0.41234, Verdict::lower)};
  results.comparisons[0].interval = statistics::Interval{0.4012, 0.4234, 0.95};
  for (const std::size_t width : {100, 104, 110})
    EXPECT_TRUE(has_all(width, {"vs. float32", "KL (nats)"}) &&
                (has_all(width, {"PPL"}) || has_all(width, {"Perplexity"})))
        << head_at(width);
  EXPECT_TRUE(has_all(80, {"vs. float32", "PPL"})) << head_at(80);
  // Beside a verdict whose interval has two ends of its own the head of the weights is shortened too.
  results.comparisons[0].interval = statistics::Interval{0.2512, 0.6634, 0.95};
  EXPECT_TRUE(has_all(80, {"Size (MiB)", "vs. float32", "PPL"})) << head_at(80);
  // What has room keeps its whole name.
  EXPECT_TRUE(has_all(200, {"vs. float32", "Perplexity", "KL (nats)", "Accuracy (%)"})) << head_at(200);
  const std::string wide = head_at(200);
  for (const char* head : {"Tokens/s", "PPL ratio", "Top-1 (%)"})
    EXPECT_NE(wide.find(head), std::string::npos) << wide;
}

}  // namespace
}  // namespace assay::report
