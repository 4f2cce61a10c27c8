// What rows have in common, where cells show each: all one way, some the other way, tied, undecided,
// untested.
#include <gtest/gtest.h>

#include "assay/report/prose/prose.h"
#include "support/comparisons.h"

namespace assay::report {
namespace {

using Sentences = std::vector<std::string>;

Comparison of_row(const std::string& subject, double ratio, Verdict verdict,
                  const std::string& metric = "total_latency_s", const std::string& baseline = "float32") {
  return test::comparison_of(subject, baseline, ratio, verdict,
                             {.metric = metric, .margin = 0.02, .processes = 9});
}

TEST(VerdictCell, TellsTheIntervalAsFarAsItIsAsked) {
  Comparison c = of_row("nf4", 0.5, Verdict::lower);
  EXPECT_EQ(verdict_cell(c, Detail::ends), "faster 2x") << "without an interval";
  c.interval = statistics::Interval{0.48, 0.525, 0.95};
  EXPECT_EQ(verdict_cell(c, Detail::none), "faster 2.00x");
  EXPECT_EQ(verdict_cell(c, Detail::percent), "faster 2.00x \u00b15%");
  EXPECT_EQ(verdict_cell(c, Detail::ends), "faster 2.00x [1.90, 2.08]");
  c = of_row("nf4", 1 / 1.04, Verdict::lower);
  c.interval = statistics::Interval{1 / 1.1, 1 / 1.015, 0.95};
  EXPECT_EQ(verdict_cell(c), "faster 1.04x -2/+6%") << "the longer side would reach beyond 1";
  c = of_row("nf4", 1 / 1.6, Verdict::lower);
  c.interval = statistics::Interval{1 / 2.6, 1 / 1.02, 0.95};
  EXPECT_EQ(verdict_cell(c, Detail::ends), "faster 1.6x [1.02, 2.6]")
      << "not [1.0, 2.6], which says the same speed";
  EXPECT_EQ(factor_with_interval(c), "1.6x [1.02, 2.6] faster");
  c.verdict = Verdict::cannot_tell;
  c.interval = statistics::Interval{1 / 2.6, 1 / 0.98, 0.95};
  EXPECT_EQ(factor_with_interval(c), "1.6x [1.0, 2.6] faster");
  c = of_row("nf4", 1.122, Verdict::higher, "perplexity");
  c.interval = statistics::Interval{1.097, 1.148, 0.95};
  EXPECT_EQ(verdict_cell(c, Detail::ends), "higher 1.122x [1.097, 1.148]");
  EXPECT_EQ(verdict_cell(c), "higher 1.12x \u00b12%");
  c.verdict = Verdict::no_difference;
  EXPECT_EQ(verdict_cell(c, Detail::ends), "tied");
  c = of_row("nf4", 1.01, Verdict::cannot_tell);
  c.more_needed = 9;
  c.seconds_each = 46.0 / 9;
  EXPECT_EQ(verdict_cell(c, Detail::ends), "undecided: 9 more processes, 46 s");
  EXPECT_EQ(verdict_cell(of_row("nf4", 1.01, Verdict::too_few)), "no verdict");
}

TEST(InSentence, AModelAsStoredIsNamed) {
  EXPECT_EQ(in_sentence("as stored"), "the model as stored");
  EXPECT_EQ(at_start("as stored"), "The model as stored");
  EXPECT_EQ(in_sentence("as stored, activations int8"), "the model as stored (activations int8)");
  EXPECT_EQ(at_start("as stored, activations int8"), "The model as stored (activations int8)");
  EXPECT_EQ(in_sentence("batch 8 of as stored"), "batch 8 of the model as stored");
  EXPECT_EQ(at_start("batch 8 of as stored, activations int8"),
            "batch 8 of the model as stored (activations int8)");
  for (const char* label : {"nf4", "as storedx", "gpt2: as stored", "batch 8 of nf4", "q4_1 (as stored)", ""})
    EXPECT_EQ(in_sentence(label), label);
}

TEST(SharedSentences, NameTheModelThatIsStored) {
  const std::vector<Comparison> all = {
      of_row("nf4", 0.5, Verdict::lower, "total_latency_s", "as stored"),
      of_row("int8", 0.25, Verdict::lower, "total_latency_s", "as stored"),
      of_row("bfloat16", 0.8, Verdict::lower, "total_latency_s", "as stored")};
  EXPECT_EQ(shared_sentences(all),
            (Sentences{"All 3 are faster than the model as stored, from 1.25x (bfloat16) to 4x (int8)."}));
  EXPECT_EQ(sentence_of(of_row("as stored", 1, Verdict::no_difference)),
            "the model as stored equals float32 within 2 %: latency ratio 1");
  EXPECT_TRUE(sentence_of(all[0]).starts_with("nf4 is 2x faster than the model as stored"))
      << sentence_of(all[0]);
  EXPECT_EQ(joined(Sentences{"as stored", "nf4 of dequantized weights"}),
            "the model as stored and nf4 of dequantized weights");
  EXPECT_EQ(in_sentence("as stored, batch 8"), "as stored, batch 8") << "another row's label";
}

TEST(SharedSentences, SayNothingOfWhatIsSeenAtOnce) {
  EXPECT_EQ(shared_sentences({}), Sentences{});
  const std::vector<Comparison> two = {of_row("a", 0.5, Verdict::lower), of_row("b", 2, Verdict::higher)};
  EXPECT_EQ(shared_sentences(two), Sentences{});
  Comparison undecided = of_row("a", 1.01, Verdict::cannot_tell);
  undecided.more_needed = 9;
  EXPECT_EQ(shared_sentences({&undecided, 1}), Sentences{}) << "the cell says what it would take";
}

TEST(SharedSentences, OfRowsThatGoOneWay) {
  std::vector<Comparison> all = {of_row("nf4", 0.5, Verdict::lower), of_row("int8", 0.25, Verdict::lower),
                                 of_row("bfloat16", 0.8, Verdict::lower)};
  EXPECT_EQ(shared_sentences(all),
            (Sentences{"All 3 are faster than float32, from 1.25x (bfloat16) to 4x (int8)."}));
  // Reversed.
  for (Comparison& c : all) {
    c.ratio = 1 / c.ratio;
    c.verdict = Verdict::higher;
  }
  EXPECT_EQ(shared_sentences(all),
            (Sentences{"All 3 are slower than float32, from 1.25x (bfloat16) to 4x (int8)."}));
  for (Comparison& c : all) c.metric = "perplexity";
  EXPECT_EQ(shared_sentences(all),
            (Sentences{"All 3 have a higher perplexity than float32, from 1.25x (bfloat16) to 4x (int8)."}));
  all[1].baseline = "another";
  EXPECT_NE(shared_sentences(all).front().find("than their baselines, from"), std::string::npos)
      << shared_sentences(all).front();
}

TEST(SharedSentences, NameWhatGoesTheOtherWay) {
  std::vector<Comparison> all = {of_row("a", 2, Verdict::higher), of_row("b", 4, Verdict::higher),
                                 of_row("c", 8, Verdict::higher), of_row("d", 0.5, Verdict::lower)};
  EXPECT_EQ(shared_sentences(all), (Sentences{"3 of 4 are slower than float32, from 2x (a) to 8x (c).",
                                              "The other way round, d is faster than float32 (2x)."}));
  all.push_back(of_row("e", 0.25, Verdict::lower));
  EXPECT_EQ(shared_sentences(all)[1], "The other way round, d and e are faster than float32.");
  for (Comparison& c : all) c.metric = "perplexity";
  EXPECT_EQ(shared_sentences(all)[1], "The other way round, d and e have a lower perplexity than float32.");
}

TEST(SharedSentences, SayWhatIsTiedUndecidedOrUntested) {
  std::vector<Comparison> all = {of_row("a", 1, Verdict::no_difference), of_row("b", 1, Verdict::cannot_tell),
                                 of_row("c", 1, Verdict::cannot_tell)};
  all[1].more_needed = 9;
  all[1].seconds_each = 5;
  all[2].more_needed = 2;
  all[2].seconds_each = 5;
  EXPECT_EQ(
      shared_sentences(all),
      (Sentences{"Within 2 % of float32: a.",
                 "Undecided against float32: b and c; 9 more processes (45 s) would probably decide all "
                 "of them."}));
  all[2].more_needed = kNotInReach;
  EXPECT_EQ(shared_sentences(all)[1],
            "Undecided against float32: b and c; 9 more processes (45 s) would probably decide all but c.");
  all[1].more_needed = kNotInReach;
  EXPECT_EQ(shared_sentences(all)[1], "Undecided against float32: b and c.");
  all[1] = of_row("b", 1, Verdict::too_few);
  EXPECT_EQ(shared_sentences(all).back(), "There is no verdict for b: it takes 3 processes.");
  const Comparison alone = of_row("b", 1, Verdict::too_few, "perplexity");
  const auto tokens = statistics::kLossBlock * static_cast<std::int64_t>(statistics::kMinForInterval);
  EXPECT_EQ(shared_sentences({&alone, 1}),
            (Sentences{"There is no verdict: it takes a text of " + std::to_string(tokens) + " tokens."}));
}

TextDivergence leaving_after(const std::string& subject, std::int64_t first, std::int64_t second,
                             double repeated = 0) {
  return {subject, {{first, 50, repeated, 0.1}, {second, 50, 0, 0}}};
}

TEST(GroupedFindings, OfTextsSayWhereTheyPart) {
  std::vector<Finding> all = {leaving_after("bfloat16", 50, 33), leaving_after("nf4", 0, 8)};
  EXPECT_EQ(sentences_of(all).size(), 2U) << "two have sentences of their own";
  EXPECT_EQ(sentences_of(all)[1],
            "nf4 diverges from the baseline's text: prompt 1 after 0 tokens, prompt 2 after 8 tokens.");
  all.emplace_back(leaving_after("fp4", 1, 8, 0.9));
  EXPECT_EQ(
      sentences_of(all),
      (Sentences{"Prompt 1: 1 of 3 texts equals the baseline's; nf4 diverges soonest, after 0 tokens, and "
                 "fp4 latest, after 1 token.",
                 "Prompt 2: no text equals the baseline's; nf4 and fp4 diverge soonest, after 8 tokens, "
                 "and bfloat16 latest, after 33 tokens.",
                 "A repeated passage makes up 90 % of a text, more than in the baseline's, with fp4."}));
  std::get<TextDivergence>(all[2]).prompts[0].equal_tokens = 0;
  EXPECT_EQ(sentences_of(all)[0],
            "Prompt 1: 1 of 3 texts equals the baseline's; the others diverge after 0 tokens.");
  for (Finding& finding : all)
    for (TextDivergence::Prompt& prompt : std::get<TextDivergence>(finding).prompts) prompt = {50, 50, 0, 0};
  EXPECT_EQ(sentences_of(all), (Sentences{"Prompt 1: all 3 texts equal the baseline's.",
                                          "Prompt 2: all 3 texts equal the baseline's."}));
}

TEST(GroupedFindings, OfPromptsNameTheirPhase) {
  std::vector<Finding> all;
  for (const auto& [subject, percent] : {std::pair("code", 93.0), {"long", 87.0}, {"short", 73.0}})
    all.emplace_back(EdgeDifference{of_row(subject, 1.5, Verdict::higher, "total_latency_s", "typical"),
                                    "prefill", percent, 56, 30});
  EXPECT_EQ(sentences_of(all),
            (Sentences{"Prefill explains most of the difference from typical (30 tokens) for 3 prompts: 73 % "
                       "(short, 56 tokens) to 93 % (code, 56 tokens)."}));
  std::get<EdgeDifference>(all[0]).phase = "decode";
  EXPECT_EQ(sentences_of(all).size(), 3U) << "one of a phase and two of another";
  EXPECT_NE(sentences_of(all)[0].find("decode explains 93 %"), std::string::npos);
}

TEST(GroupedFindings, OfATaskSayWhatIsNotShown) {
  const auto flips = [](const char* subject, double low, double high, bool is_shown) {
    return TaskFlips{subject, "float32", 150, 4, 2, -0.013, low, high, 0.7, is_shown, 0.05};
  };
  std::vector<Finding> all = {flips("bfloat16", -0.012, 0.025, false), flips("int8", 0, 0, false),
                              flips("nf4", -0.048, 0.021, false)};
  EXPECT_EQ(
      sentences_of(all),
      (Sentences{"No change of accuracy against float32 is shown for bfloat16, int8 and nf4: their 95 % "
                 "intervals lie between -4.8 and +2.5 points. With as many flips as bfloat16 has, 150 "
                 "items show a change of 5.0 points nine times in ten."}));
  std::get<TaskFlips>(all[2]).is_shown = true;
  const Sentences mixed = sentences_of(all);
  ASSERT_EQ(mixed.size(), 2U);
  EXPECT_EQ(mixed[0].substr(0, 19), "nf4 flips 6 of 150 ");
  EXPECT_TRUE(mixed[1].starts_with("No change of accuracy against float32 is shown for bfloat16 and int8: "));
}

TEST(GroupedFindings, OfPaddingCountItOnce) {
  const auto padded = [](const char* subject, std::int64_t tokens) {
    return PaddingOverhead{tokens, 384, of_row(subject, 1.4, Verdict::higher)};
  };
  std::vector<Finding> all = {padded("padded left", 208), padded("padded right", 208)};
  EXPECT_EQ(
      sentences_of(all),
      (Sentences{"padded left and padded right: 208 of 384 computed prompt tokens are padding (54 %)."}));
  std::get<PaddingOverhead>(all[1]).padding_tokens = 100;
  EXPECT_EQ(sentences_of(all).size(), 2U);
}

TEST(LeftOut, HasALineForEachStudyWithItsCommand) {
  const std::vector<LeftOut> all = {
      {"lengths", "8176 tokens", "", "assay run demo --lengths 8176", 40},
      {"lengths", "4096 tokens", "the run was slower than predicted", "", 0},
      {"lengths", "2048 tokens", "the run was slower than predicted", "", 0},
      {"lengths", "processes beyond the first 2", "", "assay run demo --skip batches", 90},
      {"perplexity", "the whole study (nf4)", "", "", 0}};
  EXPECT_EQ(
      sentences_of(all, "assay run demo --budget 1min -o out"),
      (Sentences{"From the study lengths, the budget left out 8176 tokens, as well as processes beyond the "
                 "first 2; and also 4096 tokens and 2048 tokens because the run was slower than predicted. "
                 "Measure it in about 2 min with: assay run demo --skip batches",
                 "The budget left out the whole study perplexity (nf4). Measure it with the rest of the run "
                 "by: assay run demo -o out --budget none"}));
  EXPECT_EQ(sentences_of(std::span(all).last(1)).front(),
            "The budget left out the whole study perplexity (nf4).");
}

std::string left_out(const std::vector<LeftOut>& all) {
  const Sentences found = sentences_of(all);
  return found.size() == 1 ? found.front() : "";
}

// The forms that a choice and a run that was slower give.
TEST(LeftOut, ReadsAsASentenceInEachForm) {
  const std::string slower(kSlower);
  EXPECT_EQ(left_out({{"trade-off", "int8-static; llm-int8; nf4; fp4 and 10 others", "", "", 0},
                      {"trade-off", "new tokens beyond the first 16", "", "", 0}}),
            "From the study trade-off, the budget left out int8-static, llm-int8, nf4, fp4 and 10 others, as "
            "well as new tokens beyond the first 16.");
  EXPECT_EQ(left_out({{"baseline", "prompt 2; prompt 3", "", "", 0}}),
            "From the study baseline, the budget left out prompt 2 and prompt 3.");
  EXPECT_EQ(left_out({{"noise", "the whole study (baseline; baseline again)", "", "", 0}}),
            "The budget left out the whole study noise (baseline and baseline again).");
  EXPECT_EQ(
      left_out({{"ablation", "the whole study (cache on, 128 tokens; no padding; padded left)", "", "", 0}}),
      "The budget left out the whole study ablation (cache on, 128 tokens; no padding; and padded left).");
  // What the choice had taken of a study that was not begun needs no word.
  EXPECT_EQ(left_out({{"edge", "very long", "", "", 0},
                      {"edge", "processes beyond the first 3", "", "", 0},
                      {"edge", "the whole study", slower, "", 0}}),
            "The budget left out the whole study edge because the run was slower than predicted.");
  EXPECT_EQ(
      left_out({{"ablation", "the audit", slower, "", 0}}),
      "From the study ablation, the budget left out the audit because the run was slower than predicted.");
}

}  // namespace
}  // namespace assay::report
