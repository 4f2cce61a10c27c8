// The exact text of every CSV file: fields in quotes, failed rows, absent figures, every phase of a run.
#include "assay/report/csv.h"

#include <gtest/gtest.h>

namespace assay::report {
namespace {

constexpr const char* kSamplesHead =
    "run,scenario,label,configuration,process,round,phase,step,value,unit\r\n";
constexpr const char* kResultsHead =
    "run,scenario,label,configuration,status,metric,value,low,high,level,n,processes,statistic,unit,"
    "reason\r\n";

ResultSet set_of(std::vector<Row> rows) {
  ResultSet results;
  results.run_id = "r";
  results.rows = std::move(rows);
  return results;
}

TEST(CsvField, IsQuotedWhereItHasToBe) {
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("a b; c\td"), "a b; c\td");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
  EXPECT_EQ(csv_field("a\rb"), "\"a\rb\"");
  EXPECT_EQ(csv_field("\""), "\"\"\"\"");
  EXPECT_EQ(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(csv_field("\x1f \x7f~\x01,"), "\"\\x1f \\x7f~\\x01,\"");
  EXPECT_EQ(csv_field("\xc3\xa9"), "\xc3\xa9") << "what is no ASCII stays";
}

TEST(CsvField, IsNoFormula) {
  EXPECT_EQ(csv_field("=1+1"), "'=1+1");
  EXPECT_EQ(csv_field("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_field("+cmd|' /C calc'!A0"), "'+cmd|' /C calc'!A0");
  EXPECT_EQ(csv_field("-2+3"), "'-2+3");
  EXPECT_EQ(csv_field("--5"), "'--5");
  EXPECT_EQ(csv_field("- a list"), "'- a list");
  EXPECT_EQ(csv_field("\t=1"), "'\t=1");
  EXPECT_EQ(csv_field("=HYPERLINK(\"x\",\"y\")"), "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"");
  for (const char* number : {"-0.5", "-1e-05", "+3", "-inf", "-3.2%", "7", "-12", "-"})
    EXPECT_EQ(csv_field(number), number);
  EXPECT_EQ(csv_field("a=b"), "a=b");
}

TEST(ResultsCsv, HasALineForEachRowThatFailed) {
  Row failed;
  failed.scenario = Scenario::perplexity;
  failed.label = "fp4, x";
  failed.status = RowStatus::error;
  failed.reason = "no memory, \"none\"";
  Row half = failed;
  half.label = "half";
  half.reason = "why";
  half.parameters = {{"configuration", "c"}};
  half.set("load_s", 2.5);
  EXPECT_EQ(results_csv(set_of({failed, half})),
            std::string(kResultsHead) +
                "r,perplexity,\"fp4, x\",,error,,,,,,0,,,,\"no memory, \"\"none\"\"\"\r\n"
                "r,perplexity,half,c,error,load_s,2.5,,,,1,,,s,\r\n"
                "r,perplexity,half,c,error,,,,,,0,,,,why\r\n");
  EXPECT_EQ(results_csv({}), kResultsHead);
  EXPECT_EQ(wide_results_csv(set_of({failed, half})),
            "scenario,label,status,reason,configuration,load_s,warnings\r\n"
            "perplexity,\"fp4, x\",error,\"no memory, \"\"none\"\"\",,,\r\n"
            "perplexity,half,error,why,c,2.5,\r\n");
  EXPECT_EQ(wide_results_csv({}), "scenario,label,status,reason,warnings\r\n");
}

// The processes are those of the row's runs; one where it names none.
TEST(ResultsCsv, CountsTheProcessesOfSampledFigures) {
  Row row;
  row.label = "a";
  row.set("total_latency_s", Value{2, statistics::Interval{1.5, 3, 0.9}, {1, 2, 3, 4}, "median"});
  row.set("perplexity", Value{5, statistics::Interval{4, 6, 0.95}, {}});
  Row placed = row;
  placed.places = {{0, 0}, {1, 0}, {4, 0}, {4, 1}};
  EXPECT_EQ(results_csv(set_of({row, placed})),
            std::string(kResultsHead) +
                "r,baseline,a,,ok,total_latency_s,2,1.5,3,0.9,4,1,median,s,\r\n"
                "r,baseline,a,,ok,perplexity,5,4,6,0.95,1,,,,\r\n"
                "r,baseline,a,,ok,total_latency_s,2,1.5,3,0.9,4,3,median,s,\r\n"
                "r,baseline,a,,ok,perplexity,5,4,6,0.95,1,,,,\r\n");
}

TEST(SamplesCsv, NamesEveryPhaseOfARun) {
  Row row;
  row.label = "a";
  row.places = {{3, 7}};
  int value = 0;
  for (const char* tag :
       {"end_to_end_s", "total_latency_s", "detokenize_s", "sampling_s", "prefill_latency_s",
        "time_to_first_token_s", "tokenize_s", "roofline_gb_s", "roofline_gflops", "thread_round_trip_us"})
    row.set(tag, Value{0, {}, {static_cast<double>(++value)}});
  row.step_s = {{0.5, 0.25}};
  const std::string head = "r,baseline,a,,3,7,";
  EXPECT_EQ(samples_csv(set_of({row})),
            kSamplesHead + head + "tokenize,,7,s\r\n" + head + "first token,,6,s\r\n" + head +
                "prefill,,5,s\r\n" + head + "sampling,,4,s\r\n" + head + "detokenize,,3,s\r\n" + head +
                "total,,2,s\r\n" + head + "end to end,,1,s\r\n" + head + "roofline of reading,,8,GB/s\r\n" +
                head + "roofline of computing,,9,GFLOP/s\r\n" + head + "thread synchronization,,10,us\r\n" +
                head + "decode step,0,0.5,s\r\n" + head + "decode step,1,0.25,s\r\n");
}

// A figure with fewer samples than there were runs, and fewer lists of steps.
TEST(SamplesCsv, HasWhatIsThere) {
  Row row;
  row.label = "a";
  row.places = {{0, 0}, {0, 1}, {1, 0}};
  row.set("total_latency_s", Value{0, {}, {1, 2}});
  row.step_s = {{}, {0.5}};
  Row scored;
  scored.label = "b";
  scored.losses = LossBlocks{20, {40, 8.5}};
  EXPECT_EQ(samples_csv(set_of({row, scored})), std::string(kSamplesHead) +
                                                    "r,baseline,a,,0,0,total,,1,s\r\n"
                                                    "r,baseline,a,,0,1,total,,2,s\r\n"
                                                    "r,baseline,a,,0,1,decode step,0,0.5,s\r\n"
                                                    "r,baseline,b,,,,loss of 16 tokens,0,40,nats\r\n"
                                                    "r,baseline,b,,,,loss of 16 tokens,1,8.5,nats\r\n");
}

TEST(TableCsv, QuotesHeadAndCells) {
  EXPECT_EQ(to_csv({{"a,b", "c"}, {false, true}, {{"x", "1"}, {"\"", "2\n"}}}),
            "\"a,b\",c\r\nx,1\r\n\"\"\"\",\"2\n\"\r\n");
}

}  // namespace
}  // namespace assay::report
