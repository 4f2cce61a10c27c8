// The document of two runs: which rows it shows, and what it says of those without a verdict.
#include <gtest/gtest.h>

#include "assay/report/render.h"
#include "assay/report/result_document.h"

namespace assay::report {
namespace {

ComparedRow row_of_two(const std::string& label, const std::string& metric, double ratio, Verdict verdict) {
  ComparedRow row;
  row.scenario = Scenario::lengths;
  row.label = label;
  row.configuration = "nf4";
  row.comparison.metric = metric;
  row.comparison.ratio = ratio;
  row.comparison.verdict = verdict;
  row.comparison.subject = "B";
  row.comparison.baseline = "A";
  row.comparison.processes = 5;
  row.comparison.more_needed = 2;
  return row;
}
const std::string kComparedHead =
    "# Comparison of run B with run A\n\n"
    "| Scenario | Case | Configuration | Metric | B / A | 95 % interval | Verdict |\n"
    "|---|---|---|---|---:|---|---|\n";

TEST(ComparedSections, HoldEveryRowThatTellsSomething) {
  ComparedResults compared;
  ComparedRow all = row_of_two("all 2 cases together", "total_latency_s", 0.98765, Verdict::lower);
  all.configuration = "";
  all.comparison.interval = statistics::Interval{0.95, 0.99, 0.95};
  ComparedRow unsure = row_of_two("all of them", "total_latency_s", 1, Verdict::cannot_tell);
  unsure.configuration = "";
  compared.all_cases = {all, unsure, row_of_two("speed", "tokens_per_sec", 1, Verdict::lower)};
  ComparedRow unlike = row_of_two("unlike", "memory_bytes", 1, Verdict::no_difference);
  unlike.unlike = "the threads differ";
  ComparedRow untested = row_of_two("untested", "total_latency_s", 1.5, Verdict::too_few);
  untested.untested = "too few.";
  compared.rows = {row_of_two("same", "memory_bytes", 1, Verdict::no_difference),
                   row_of_two("more", "memory_bytes", 1.25, Verdict::higher),
                   row_of_two("rate", "tokens_per_sec", 2, Verdict::higher),
                   unlike,
                   untested,
                   row_of_two("few", "total_latency_s", 3, Verdict::too_few),
                   row_of_two("equal", "total_latency_s", 1, Verdict::no_difference),
                   row_of_two("open", "perplexity", 1.001, Verdict::cannot_tell)};
  compared.only_a = {"x"};
  compared.only_b = {"y"};
  compared.failed = {"z: why"};
  compared.unlike = {"A ran elsewhere", "Again."};
  EXPECT_EQ(
      to_markdown(document_of(compared)),
      kComparedHead +
          "|  | all 2 cases together |  | Latency | 0.988 | [0.950, 0.990] | faster |\n"
          "|  | all of them |  | Latency | 1.000 | - | undecided |\n"
          "| lengths | more | nf4 | Memory footprint | 1.250 | - | higher |\n"
          "| lengths | unlike | nf4 | Memory footprint | - | - | not comparable |\n"
          "| lengths | untested | nf4 | Latency | 1.500 | - | not tested |\n"
          "| lengths | few | nf4 | Latency | 3.000 | - | not tested |\n"
          "| lengths | equal | nf4 | Latency | 1.000 | - | no difference |\n"
          "| lengths | open | nf4 | Perplexity | 1.001 | - | undecided |\n\n"
          "## Undecided\n\n- all of them: B against A is undecided: latency ratio 1; about 2 more processes "
          "are needed.\n"
          "- lengths, open: B against A is undecided: perplexity ratio 1.001; about 130 more tokens of text "
          "are needed.\n\n"
          "## Not tested\n\n- lengths, untested: too few.\n\n"
          "## Not comparable\n\n- lengths, unlike: the threads differ.\n\n"
          "## Cases of one run alone\n\n- Only in A: x\n- Only in B: y\n\n"
          "## Failed in B\n\n- z: why\n\n"
          "## Warnings\n\n- A ran elsewhere.\n- Again.\n");
}

TEST(ComparedSections, SayOneReasonOnce) {
  ComparedResults compared;
  compared.rows = {row_of_two("a", "total_latency_s", 1, Verdict::too_few),
                   row_of_two("b", "total_latency_s", 1, Verdict::too_few)};
  compared.rows[0].untested = "one reason";
  compared.rows[1].untested = "another";
  const auto reasons = [&] {
    const std::string page = to_markdown(document_of(compared));
    return page.substr(page.find("## Not tested"));
  };
  EXPECT_EQ(reasons(), "## Not tested\n\n- lengths, a: one reason.\n- lengths, b: another.\n");
  compared.rows[1].untested = "one reason";
  EXPECT_EQ(reasons(), "## Not tested\n\n- one reason.\n");
  compared.rows.push_back(row_of_two("c", "total_latency_s", 1, Verdict::too_few));
  compared.rows[2].untested = "another";
  EXPECT_EQ(reasons(), "## Not tested\n\n- another.\n- one reason.\n");
  // A row that is not shown has no reason to give.
  compared.rows.push_back(row_of_two("d", "tokens_per_sec", 1, Verdict::too_few));
  compared.rows[3].untested = "of a rate";
  EXPECT_EQ(reasons(), "## Not tested\n\n- another.\n- one reason.\n");
}

TEST(ComparedSections, OfNothing) {
  EXPECT_EQ(to_markdown(document_of(ComparedResults{})), "# Comparison of run B with run A\n");
  EXPECT_EQ(to_terminal(document_of(ComparedResults{}), 80), "");
}

// What goes first where a terminal is narrow: the configuration, then the interval, then the metric.
TEST(ComparedSections, GiveWayByRank) {
  ComparedResults compared;
  compared.rows = {row_of_two("a", "total_latency_s", 1.25, Verdict::higher)};
  const auto head = [&](std::size_t width) {
    const std::string text = to_terminal(document_of(compared), width);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(head(73), "Scenario  Case  Configuration  Metric   B / A  95 % interval  Verdict");
  EXPECT_EQ(head(60), "Scenario  Case  Metric   B / A  95 % interval  Verdict");
  EXPECT_EQ(head(45), "Scenario  Case  Metric   B / A  Verdict");
  EXPECT_EQ(head(35), "Scenario  Case  B / A  Verdict");
}

}  // namespace
}  // namespace assay::report
