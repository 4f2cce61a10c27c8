// How many comparisons are undecided, and what would decide them, where each condition just holds and just
// does not.
#include <gtest/gtest.h>

#include "assay/results/takeaways.h"
#include "support/comparisons.h"
#include "support/prose.h"

namespace assay {
namespace {

Comparison undecided_by(int processes, int more, Scenario scenario = Scenario::tradeoff) {
  Comparison c = test::comparison_of(
      "a", "b", 1, Verdict::cannot_tell,
      {.scenario = scenario, .interval = statistics::Interval{0.5, 2, 0.95}, .processes = processes});
  c.more_needed = more;
  return c;
}

TEST(MoreProcessesLimits, OfTexts) {
  ResultSet results;
  Comparison text = undecided_by(50, 7);
  text.metric = "perplexity";
  text.seconds_each = 9;
  results.comparisons = {text};
  const auto more = more_processes_of(results);
  ASSERT_TRUE(more);
  EXPECT_EQ(sentence_of(*more),
            "Undecided: 1 of 1 comparisons. 1 comparison of perplexity needs a longer text.");
  EXPECT_EQ(more->processes, 0);
  EXPECT_EQ(more->decided, 0);
  EXPECT_EQ(more->seconds, 0);
  text.subject = "c";
  results.other_comparisons = {text};
  EXPECT_EQ(sentence_of(*more_processes_of(results)),
            "Undecided: 2 of 2 comparisons. 2 comparisons of perplexity need a longer text.");
  // A text's blocks are no processes: ten times 5 are 50, not 500.
  results.comparisons.push_back(undecided_by(5, 46));
  EXPECT_EQ(sentence_of(*more_processes_of(results)),
            "Undecided: 3 of 3 comparisons. 2 comparisons of perplexity need a longer text. 10 times as many "
            "processes would not decide the others.");
  results.comparisons.back().more_needed = 45;
  results.command = "assay run";
  EXPECT_EQ(
      sentence_of(*more_processes_of(results)),
      "Undecided: 3 of 3 comparisons. 2 comparisons of perplexity need a longer text. 50 processes would "
      "probably decide 1 of the others: assay run --processes 50");
}

// The best of several may be compared with the baseline again, the other way round.
TEST(MoreProcessesLimits, CountAPairOnce) {
  ResultSet results;
  results.comparisons = {undecided_by(5, 5)};
  Comparison again = undecided_by(5, 40), other = undecided_by(5, 2);
  std::swap(again.subject, again.baseline);
  other.subject = "c";
  results.other_comparisons = {again, other};
  const auto more = more_processes_of(results);
  EXPECT_EQ(more->undecided, 2);
  EXPECT_EQ(more->comparisons, 2);
  EXPECT_EQ(more->decided, 2);
  EXPECT_EQ(more->processes, 10);
  // Another scenario or metric is another pair.
  results.other_comparisons[0].scenario = Scenario::batches;
  EXPECT_EQ(more_processes_of(results)->comparisons, 3);
  results.other_comparisons[0] = again;
  results.other_comparisons[0].metric = "tokens_per_sec";
  EXPECT_EQ(more_processes_of(results)->comparisons, 3);
}

TEST(MoreProcessesLimits, OfTime) {
  ResultSet results;
  results.comparisons = {undecided_by(5, 5), undecided_by(5, 2), undecided_by(5, 1, Scenario::cache)};
  results.comparisons[0].seconds_each = 1;
  results.comparisons[1].seconds_each = 3;
  results.comparisons[2].seconds_each = 0.5;
  Comparison decided = undecided_by(3, 0, Scenario::threads);
  decided.verdict = Verdict::lower;
  decided.seconds_each = 2;
  results.comparisons.push_back(decided);
  const auto more = more_processes_of(results);
  EXPECT_EQ(more->undecided, 3);
  EXPECT_EQ(more->comparisons, 4);
  EXPECT_EQ(more->processes, 10);
  EXPECT_EQ(more->decided, 3);
  EXPECT_EQ(more->seconds, 55) << "of each sweep the longest: 3, 0.5 and 2";
  EXPECT_EQ(sentence_of(*more),
            "Undecided: 3 of 4 comparisons. 10 processes would probably decide 3 of them, in about 55 s.");
  for (Comparison& c : results.comparisons) c.seconds_each = 0.02;
  EXPECT_TRUE(sentence_of(*more_processes_of(results)).ends_with("decide 3 of them, in about 1 s."));
  results.comparisons = {decided};
  EXPECT_FALSE(more_processes_of(results));
  EXPECT_EQ(test::takeaway_texts(results), std::vector<std::string>{});
  results.comparisons = {undecided_by(5, kNotInReach)};
  EXPECT_EQ(test::takeaway_texts(results),
            (std::vector<std::string>{
                "Undecided: 1 of 1 comparisons. 10 times as many processes would not decide them."}));
}

TEST(MoreProcessesLimits, OfTheCommand) {
  ResultSet results;
  results.comparisons = {undecided_by(5, 1)};
  const std::pair<const char*, const char*> commands[] = {
      {"assay run", "assay run --processes 6"},
      {"assay run --processes 5", "assay run --processes 6"},
      {"assay run --processes=5 -o x", "assay run -o x --processes 6"},
      {"assay run --processes  5 -o x", "assay run -o x --processes 6"},
      {"assay run --processes", "assay run --processes 6"}};
  for (const auto& [command, expected] : commands) {
    results.command = command;
    EXPECT_EQ(sentence_of(*more_processes_of(results)),
              std::string("Undecided: 1 of 1 comparisons. 6 processes would probably decide 1 of them: ") +
                  expected);
  }
}

}  // namespace
}  // namespace assay
