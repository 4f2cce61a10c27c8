// Repetition of generated texts, and from which precision on degradation is visible: true, the other way
// round, and undecided.
#include <gtest/gtest.h>

#include "assay/results/text_quality.h"
#include "support/prose.h"

namespace assay {
namespace {

TEST(Repetition, CountsDistinctNGrams) {
  const std::vector<int> ids{1, 2, 3, 1, 2, 3, 1};
  // 12 23 31 12 23 31: three of six; 1231 2312 3123 1231: three of four.
  EXPECT_DOUBLE_EQ(distinct_share(ids, 2), 0.5);
  EXPECT_DOUBLE_EQ(repeated_share(ids, 4), 0.25);
  EXPECT_DOUBLE_EQ(distinct_share(ids, 1), 3.0 / 7);
  EXPECT_DOUBLE_EQ(distinct_share(ids, 7), 1);
  EXPECT_DOUBLE_EQ(distinct_share(ids, 8), 1) << "there is none";
  EXPECT_DOUBLE_EQ(distinct_share({}, 4), 1);
}

TEST(Repetition, FindsAPhraseAtTheEnd) {
  EXPECT_EQ(phrase_at_end(std::vector<int>{9, 8, 1, 2, 1, 2, 1, 2}), 3);
  EXPECT_EQ(phrase_at_end(std::vector<int>{9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}), 3) << "cut within a phrase";
  EXPECT_EQ(phrase_at_end(std::vector<int>{9, 8, 1, 2, 1, 2}), 0) << "twice";
  EXPECT_EQ(phrase_at_end(std::vector<int>{1, 2, 1, 2, 1, 2, 9}), 0) << "not at the end";
  EXPECT_EQ(phrase_at_end(std::vector<int>{9, 1, 1, 1}), 0) << "one token three times";
  EXPECT_EQ(phrase_at_end(std::vector<int>{9, 1, 1, 1, 1}), 4);
  EXPECT_EQ(phrase_at_end({}), 0);
}

const std::vector<int> kSteady{1, 2, 3, 4, 5, 6, 7, 8, 9}, kRepeats{1, 2, 3, 7, 8, 7, 8, 7, 8};

GeneratedText text_by(const std::string& label, int prompt, bool repeats) {
  return {label,
          "prompt " + std::to_string(prompt),
          repeats ? "once the sea the sea the sea" : "once there was a sea, and a ship",
          {prompt},
          repeats ? kRepeats : kSteady,
          Scenario::tradeoff,
          label};
}

// Configurations of falling size, each with how it does at each prompt.
ResultSet results_with(const std::vector<std::pair<std::string, std::vector<bool>>>& configurations) {
  ResultSet results;
  double bytes = 16 << 20;
  for (const auto& [label, repeats] : configurations) {
    Row row;
    row.scenario = Scenario::tradeoff;
    row.label = label;
    row.set("resident_weights_bytes", bytes);
    results.rows.push_back(row);
    bytes /= 2;
    for (std::size_t i = 0; i < repeats.size(); ++i)
      results.texts.push_back(text_by(label, static_cast<int>(i + 1), repeats[i]));
  }
  return results;
}
std::string degradation_in(const ResultSet& results) {
  const auto found = visible_degradation(results);
  return found ? report::sentence_of(*found) : "";
}

TEST(VisibleDegradation, BeginsWhereTheTextsRepeat) {
  EXPECT_EQ(
      degradation_in(results_with({{"float32", {false, false, true}},
                                   {"int8", {false, false, true}},
                                   {"nf4", {false, true, true}},
                                   {"fp4", {true, true, true}}})),
      "Degradation is visible from nf4 (4.0 MiB of weights) on: after \"prompt 2\" its text ends in a phrase "
      "that stands 3 times in a row, \"once the sea the sea the sea\", where that of float32 does not.");
}

TEST(VisibleDegradation, IsNoneWhereTheBaselineRepeatsMore) {
  EXPECT_EQ(
      degradation_in(results_with({{"float32", {true, false}}, {"nf4", {false, false}}})),
      "In 2 prompts no precision shows visible degradation: none ends in a repeated phrase more often than "
      "float32, and perplexities were not measured. float32 repeats itself where nf4 does not.");
  ResultSet scored = results_with({{"float32", {false}}, {"nf4", {false}}});
  scored.rows[1].set("perplexity", 12);
  EXPECT_EQ(
      degradation_in(scored),
      "In 1 prompt no precision shows visible degradation: none ends in a repeated phrase more often than "
      "float32, and no perplexity is shown to be 1.5 times as high.");
  EXPECT_EQ(degradation_in(results_with({{"float32", {true, false}}})), "") << "nothing to compare";
  ResultSet others = results_with({{"float32", {false}}, {"nf4", {true}}});
  others.texts[1].prompt_ids = {77};
  EXPECT_EQ(degradation_in(others), "") << "of another tokenizer";
}

TEST(VisibleDegradation, IsUndecidedWhereASmallerOneIsNotWorse) {
  EXPECT_EQ(
      degradation_in(results_with({{"float32", {false}}, {"int8", {true}}, {"nf4", {false}}})),
      "From 1 prompt it is undecided at which precision degradation becomes visible. It shows in int8: after "
      "\"prompt 1\" its text ends in a phrase that stands 3 times in a row, \"once the sea the sea the "
      "sea\", where "
      "that of float32 does not; but nf4 is smaller, and its texts are not visibly worse.");
  const std::string mixed =
      degradation_in(results_with({{"float32", {true, false}}, {"nf4", {false, true}}}));
  EXPECT_NE(mixed.find("From 2 prompts it is undecided"), std::string::npos) << mixed;
  EXPECT_NE(mixed.find("after another prompt it is the other way round."), std::string::npos) << mixed;
}

// Nonsense need not repeat itself.
TEST(VisibleDegradation, ShowsInThePerplexityToo) {
  ResultSet results = results_with({{"float32", {false}}, {"int2", {false}}});
  results.texts[1].text = "once there was xq zz";
  Comparison c;
  c.metric = "perplexity";
  c.subject = "int2";
  c.baseline = "float32";
  c.ratio = 3.25;
  c.verdict = Verdict::cannot_tell;
  results.comparisons = {c};
  EXPECT_NE(degradation_in(results).find("no precision shows"), std::string::npos) << "it is not shown";
  results.comparisons[0].verdict = Verdict::higher;
  EXPECT_EQ(degradation_in(results),
            "Degradation is visible from int2 (8.0 MiB of weights) on: its perplexity is 3.2 times that of "
            "float32, and after \"prompt 1\" it goes on with \"...xq zz\".");
  results.comparisons[0].ratio = 1.4;
  EXPECT_NE(degradation_in(results).find("no precision shows"), std::string::npos);
}

}  // namespace
}  // namespace assay
