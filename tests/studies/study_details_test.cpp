// What studies make of their cases: perplexity, trade-off, edge prompts and ablation, each sentence and field
// on both sides of its limit.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/studies/registry.h"
#include "support/fixtures.h"
#include "support/scripted_model.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::kDeviation;
using test::ScriptedStudies;
using Lines = std::vector<std::string>;
using Ids = std::vector<TokenId>;

class ScriptedPerplexity : public ScriptedStudies {
 protected:
  ScriptedPerplexity() {
    test::write_file(folder_.path() / "text.txt", "a text");
    script_.facts = [](const RunConfig& configuration) {
      SessionFacts facts;
      facts.device = "cpu";
      facts.kernels = "scripted";
      facts.threads = 2;
      facts.model.memory_bytes = 77;
      if (configuration.label() == "nf4") facts.model.dtype = "what ran";
      facts.warnings = {{WarningKind::other, "of the load"}};
      return facts;
    };
    script_.score = [this](const RunConfig& configuration) {
      scored_.push_back(configuration.label());
      if (configuration.label() == fails_) throw Error("it cannot be scored");
      if (configuration.label() == dies_) throw WorkerLost(cause_, "it died");
      CorpusLosses losses;
      losses.corpus_sha256 = "sha";
      losses.protocol = "guide";
      losses.log_probabilities.assign(tokens_, -2);
      losses.warnings = {{WarningKind::other, "of the text"}};
      return losses;
    };
    context_ = context();
    options_.precisions = {"float32", "nf4", "bfloat16"};
    options_.corpus = folder_.path() / "text.txt";
  }
  ExperimentResult scored() { return compare_perplexity(context_, options_); }
  const test::TemporaryFolder folder_;
  Lines scored_;
  std::string fails_, dies_;
  WorkerLost::Cause cause_ = WorkerLost::Cause::crashed;
  std::size_t tokens_ = 128;
  ExperimentContext context_;
  PerplexityOptions options_;
};

TEST_F(ScriptedPerplexity, RowsSayWhatWasScored) {
  const ExperimentResult result = scored();
  ASSERT_EQ(result.rows.size(), 3U);
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const Row& row = result.rows[1];
  EXPECT_EQ(row.scenario, Scenario::perplexity);
  EXPECT_EQ(row.label, "nf4");
  EXPECT_EQ(row.parameters, (Pairs{{"configuration", "nf4"},
                                   {"precision", "what ran"},
                                   {"device", "cpu"},
                                   {"kernels", "scripted"},
                                   {"threads", "2"},
                                   {"corpus", "text.txt"},
                                   {"corpus_sha256", "sha"},
                                   {"protocol", "guide"}}));
  EXPECT_EQ(result.rows[0].parameter("precision"), "float32");
  ASSERT_EQ(row.warnings.size(), 2U);
  EXPECT_EQ(row.warnings[0].text, "of the load");
  EXPECT_EQ(row.warnings[1].text, "of the text");
  EXPECT_EQ(row.find("memory_bytes")->value, 77);
  EXPECT_EQ(row.find("tokens_scored")->value, 128);
  EXPECT_EQ(row.find("loss")->value, 2);
  EXPECT_FALSE(row.find("loss")->interval) << "of less than a block";
  EXPECT_EQ(row.losses->tokens, 128);
  ASSERT_EQ(result.comparisons.size(), 2U);
  EXPECT_EQ(result.comparisons[1].scenario, Scenario::perplexity);
  EXPECT_EQ(result.comparisons[1].subject, "bfloat16");
  EXPECT_EQ(result.comparisons[1].baseline, "float32");
  EXPECT_EQ(result.rows[1].find("perplexity_ratio")->value, 1);
  EXPECT_FALSE(result.is_interrupted);
}

TEST_F(ScriptedPerplexity, IntervalsNeedSixBlocksOf512) {
  tokens_ = 6 * 512;
  EXPECT_TRUE(scored().rows[0].find("loss")->interval);
  EXPECT_EQ(scored().rows[0].find("perplexity")->interval->level, 0.95);
  tokens_ = 5 * 512;
  EXPECT_FALSE(scored().rows[0].find("loss")->interval);
}

TEST_F(ScriptedPerplexity, OfAFailureSaysWhyAndGoesOn) {
  fails_ = "nf4";
  ExperimentResult result = scored();
  ASSERT_EQ(result.rows.size(), 3U);
  EXPECT_EQ(result.rows[1].status, RowStatus::error);
  EXPECT_EQ(result.rows[1].reason, "it cannot be scored");
  EXPECT_EQ(result.rows[1].find("loss"), nullptr);
  EXPECT_EQ(result.comparisons.size(), 1U);
  EXPECT_FALSE(result.is_interrupted);
  fails_ = "float32";  // without a baseline nothing is compared
  result = scored();
  EXPECT_EQ(result.rows[2].find("loss")->value, 2);
  EXPECT_EQ(result.rows[2].find("perplexity_ratio"), nullptr);
  EXPECT_TRUE(result.comparisons.empty());
  fails_ = "";
  dies_ = "nf4";
  result = scored();
  EXPECT_EQ(result.rows[1].reason, "it died");
  EXPECT_EQ(result.rows.size(), 3U);
  cause_ = WorkerLost::Cause::stopped;
  result = scored();
  EXPECT_EQ(result.rows.size(), 1U);
  EXPECT_TRUE(result.is_interrupted);
}

TEST_F(ScriptedPerplexity, OfTextsOfOtherLengthsIsNotCompared) {
  script_.score = [](const RunConfig& configuration) {
    CorpusLosses losses;
    losses.log_probabilities.assign(configuration.label() == "nf4" ? 127 : 128, -2);
    return losses;
  };
  const ExperimentResult result = scored();
  EXPECT_EQ(result.comparisons.size(), 1U);
  EXPECT_EQ(result.rows[1].find("perplexity_ratio"), nullptr);
}

TEST_F(ScriptedPerplexity, TellsItsProgressByItsClock) {
  Lines told;
  TimePoint now;
  context_.sweep.clock = [&] { return now; };
  context_.sweep.on_progress = [&](const std::string& what, std::int64_t done, std::int64_t all,
                                   std::optional<double> left) {
    told.push_back(fmt::format("{} | {} of {} | {}", what, done, all, left ? fmt::format("{}", *left) : "-"));
    now += std::chrono::seconds(6);
  };
  scored();
  // 6 s for one of three, 12 s for two.
  EXPECT_EQ(told, (Lines{"perplexity: float32 | 0 of 3 | -", "perplexity: nf4 | 1 of 3 | 12",
                         "perplexity: bfloat16 | 2 of 3 | 6"}));
}

TEST_F(ScriptedPerplexity, StopsBetweenConfigurationsAndGoesOnFromAJournal) {
  const std::filesystem::path file = folder_.path() / "journal.jsonl";
  {
    Journal journal(file, "p", false);
    context_.sweep.journal = &journal;
    context_.sweep.should_stop = [this] { return scored_.size() == 2; };
    const ExperimentResult result = scored();
    EXPECT_TRUE(result.is_interrupted);
    EXPECT_EQ(result.rows.size(), 2U);
  }
  scored_.clear();
  context_.sweep.should_stop = {};
  Journal journal(file, "p", true);
  context_.sweep.journal = &journal;
  const ExperimentResult result = scored();
  EXPECT_EQ(scored_, Lines{"bfloat16"});
  ASSERT_EQ(result.rows.size(), 3U);
  EXPECT_EQ(result.rows[1].find("loss")->value, 2);
  EXPECT_EQ(result.rows[1].parameter("kernels"), "scripted");
  EXPECT_FALSE(result.is_interrupted);
  // An error while everything stops is no failure.
  context_.sweep.journal = nullptr;
  fails_ = "nf4";
  context_.sweep.should_stop = [this] { return scored_.back() == "nf4"; };
  EXPECT_EQ(scored().rows.size(), 1U);
}

TEST_F(ScriptedPerplexity, TakesTheConfigurationsItIsGiven) {
  RunConfig config;
  config.precision = Preset::float32;
  config.threads = 2;
  options_.configurations = {config};
  scored();
  EXPECT_EQ(scored_, Lines{config.label()});
  options_.corpus = folder_.path() / "absent.txt";
  EXPECT_THROW(scored(), Error);
  EXPECT_THROW(study_named("perplexity").cases(context_, options_), Error);
  options_.corpus = folder_.path() / "text.txt";
  EXPECT_TRUE(study_named("perplexity").cases(context_, options_).empty());
  options_.configurations.clear();
  options_.precisions = {"no such"};
  EXPECT_THROW(study_named("perplexity").cases(context_, options_), UsageError);
}

// The sums of sentences, and the limits of what is warned of.
TEST(ComparePpplx, CountsSentencesOfTwoTokensAndWarnsOfARise) {
  const auto load = [](const char* precision) {
    return load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, precision, Device{});
  };
  const LoadedModel one = load("float32");
  const std::vector<TokenId> two = one.tokenizer->encode("ab");
  std::string pair;  // of two tokens exactly
  for (const char* text : {"ab", "a b", "a1", "zq", "xy"})
    if (one.tokenizer->encode(text).size() == 2) pair = text;
  ASSERT_FALSE(pair.empty());
  const auto compared = compare_ppplx({{"one", &one}, {"two", &one}}, {pair, "a"});
  EXPECT_EQ(compared[0].second.tokens, 1);
  const Score scored = score(one.model->program(), one.tokenizer->encode(pair), {});
  EXPECT_DOUBLE_EQ(compared[0].second.loss, scored.loss);
  EXPECT_DOUBLE_EQ(compared[0].second.ppx, std::exp(scored.loss));
  for (const Warning& warning : compared[1].second.warnings)
    EXPECT_NE(warning.kind, WarningKind::perplexity_rise) << "it is equal";
  try {
    compare_ppplx({{"one", &one}}, {"a"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "one: expected a sentence of two tokens or more, found none");
  }
}

TEST_F(ScriptedStudies, TradeoffPaysWhereItIsFaster) {
  const auto break_even = [&](double own_s, double load_s) {
    take({{"float32", {4, 0}}, {"nf4", {own_s, 0.1}}});
    script_.facts = [load_s](const RunConfig& configuration) {
      SessionFacts facts;
      facts.kernels = "scripted";
      facts.model.load_s = configuration.label() == "nf4" ? load_s : 3;
      return facts;
    };
    const ExperimentResult result = run("trade-off", [](std::any& o) {
      auto& options = std::any_cast<TradeoffOptions&>(o);
      options.precisions = {"float32", "nf4"};
      options.prompts = {Ids{1}};
      options.new_tokens = 4;
    });
    EXPECT_EQ(result.find("nf4")->find("load_s")->value, load_s);
    EXPECT_DOUBLE_EQ(result.find("nf4")->find("quantize_s")->value, load_s - 3);
    EXPECT_EQ(result.find("float32")->find("quantize_s"), nullptr);
    EXPECT_EQ(result.find("float32")->find("break_even_tokens"), nullptr);
    const Value* found = result.find("nf4")->find("break_even_tokens");
    return found == nullptr ? -1 : found->value;
  };
  // (5 - 3) s, of which each token saves (4 - 2) / 4 s.
  EXPECT_NEAR(break_even(2, 5), 4, 1e-9);
  EXPECT_NEAR(break_even(2, 2.5), 0, 1e-12) << "it loads faster: it pays at once";
  EXPECT_EQ(break_even(4, 5), -1);
  EXPECT_EQ(break_even(5, 5), -1);
}

// Texts of two prompts, of which the second is generated apart.
class ScriptedTexts : public ScriptedStudies {
 protected:
  ScriptedTexts() {
    take({});
    script_.first_run = [this](const Case& what) {
      ++generated_;
      FirstRun first;
      first.seconds = 9;
      first.texts = {"text of " + what.label};
      first.prompt_ids = {std::get<Ids>(what.prompts[0])};
      first.ids = {ids_(what.configuration.label(), std::get<Ids>(what.prompts[0])[0])};
      return first;
    };
  }
  ExperimentResult texts(ExperimentContext context) {
    TradeoffOptions options;
    options.precisions = {"float32", "nf4"};
    options.prompts = {Ids{1}, Ids{2}};
    options.new_tokens = 4;
    return run_quantization_tradeoff(context, options);
  }
  int generated_ = 0;
  std::function<Ids(const std::string&, TokenId prompt)> ids_ = [](const std::string&, TokenId prompt) {
    return Ids{prompt, 2, 3, 4};
  };
};

TEST_F(ScriptedTexts, NameThePlaceWhereTheyDiverge) {
  const auto remarks = [&](std::function<Ids(const std::string&, TokenId)> ids) {
    ids_ = std::move(ids);
    return texts(context()).remarks;
  };
  EXPECT_EQ(remarks(ids_), Lines{"nf4 does not diverge from the baseline's text."});
  EXPECT_EQ(remarks([](const std::string& label, TokenId prompt) {
              return label == "nf4" && prompt == 2 ? Ids{2, 9, 3, 4} : Ids{prompt, 2, 3, 4};
            }),
            Lines{"nf4 diverges from the baseline's text: prompt 1 not at all, prompt 2 after 1 token."});
  EXPECT_EQ(
      remarks([](const std::string& label, TokenId) {
        return label == "nf4" ? Ids{9, 2, 3, 4} : Ids{1, 2, 3, 4};
      }),
      Lines{"nf4 diverges from the baseline's text: prompt 1 after 0 tokens, prompt 2 after 0 tokens."});
  // Half of it repeats a passage, where a tenth more is more than in the baseline's.
  const auto repeated = [&](Ids own, const Ids& baseline) {
    return remarks([=](const std::string& label, TokenId) { return label == "nf4" ? own : baseline; })[0];
  };
  EXPECT_EQ(
      repeated({1, 2, 7, 7}, {1, 2, 3, 4}),
      "nf4 diverges from the baseline's text: prompt 1 after 2 tokens (a repeated passage makes up 50 % "
      "of it, more than in the baseline's), prompt 2 after 2 tokens (a repeated passage makes up 50 % of "
      "it, more than in the baseline's).");
  EXPECT_EQ(repeated({1, 2, 3, 7, 7}, {1, 2, 3, 4, 5}),
            "nf4 diverges from the baseline's text: prompt 1 after 3 tokens, prompt 2 after 3 tokens.")
      << "40 %";
  EXPECT_EQ(repeated({1, 2, 7, 7}, {1, 2, 5, 5}),
            "nf4 diverges from the baseline's text: prompt 1 after 2 tokens, prompt 2 after 2 tokens.");
}

TEST_F(ScriptedTexts, AreKeptAndGeneratedOnce) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "journal.jsonl";
  ExperimentContext made = context();
  {
    Journal journal(file, "p", false);
    made.sweep.journal = &journal;
    const ExperimentResult result = texts(made);
    ASSERT_EQ(result.texts.size(), 4U);
    EXPECT_EQ(result.texts[0].label, "float32, prompt 1");
    EXPECT_EQ(result.texts[1].label, "float32, prompt 2");
    EXPECT_EQ(result.texts[1].prompt, "ids 2");
    EXPECT_EQ(result.texts[1].text.rfind("text of ", 0), 0U);
    EXPECT_TRUE(result.texts[1].text.ends_with(" | prompt 2")) << result.texts[1].text;
    EXPECT_EQ(result.texts[1].prompt_ids, Ids{2});
    EXPECT_EQ(result.texts[1].ids, (Ids{2, 2, 3, 4}));
    EXPECT_EQ(generated_, 4);
  }
  Journal journal(file, "p", true);
  made.sweep.journal = &journal;
  EXPECT_EQ(texts(made).texts.size(), 4U);
  EXPECT_EQ(generated_, 4);
}

TEST_F(ScriptedTexts, ThatCannotBeGeneratedAreLeftOut) {
  const auto first = script_.first_run;
  std::function<void()> fail;
  script_.first_run = [&](const Case& what) {
    if (std::get<Ids>(what.prompts[0])[0] == 2 && what.configuration.label() == "nf4") fail();
    return first(what);
  };
  fail = [] { throw Error("it fails"); };
  ExperimentResult result = texts(context());
  EXPECT_EQ(result.texts.size(), 3U);
  EXPECT_FALSE(result.is_interrupted);
  fail = [] { throw WorkerLost(WorkerLost::Cause::crashed, "it died"); };
  result = texts(context());
  EXPECT_EQ(result.texts.size(), 3U);
  EXPECT_FALSE(result.is_interrupted);
  fail = [] { throw WorkerLost(WorkerLost::Cause::stopped, "interrupted"); };
  EXPECT_TRUE(texts(context()).is_interrupted);
  fail = [] { throw JournalError("it is full"); };
  EXPECT_THROW(texts(context()), JournalError);
  bool is_stopped = false;
  ExperimentContext made = context();
  made.sweep.should_stop = [&] { return is_stopped; };
  fail = [&] {
    is_stopped = true;
    throw Error("interrupted");
  };
  EXPECT_TRUE(texts(made).is_interrupted);
}

TEST(RepetitionShare, IsOfTheLongestPassageAtTheEnd) {
  EXPECT_EQ(repetition_share({1}), 0);
  EXPECT_EQ(repetition_share({1, 1}), 1);
  EXPECT_EQ(repetition_share({1, 2}), 0);
  EXPECT_DOUBLE_EQ(repetition_share({1, 2, 2}), 2 / 3.0);
  EXPECT_EQ(repetition_share({1, 2, 1, 2}), 1);
  EXPECT_EQ(repetition_share({1, 2, 3, 1, 2}), 0) << "half a passage more is none";
  EXPECT_DOUBLE_EQ(repetition_share({5, 1, 2, 3, 1, 2, 3}), 6 / 7.0);
  EXPECT_DOUBLE_EQ(repetition_share({2, 2, 1, 1}), 0.5);
  EXPECT_DOUBLE_EQ(repetition_share({9, 1, 1, 2, 1, 1, 2, 1, 1}), 8 / 9.0) << "longer than 1, 1";
}

Row quality_row(Scenario scenario, const char* label, double perplexity) {
  Row row;
  row.scenario = scenario;
  row.label = label;
  if (perplexity > 0) {
    row.set("perplexity", perplexity);
    row.set("perplexity_ratio", perplexity / 8);
  }
  return row;
}

TEST(MergeQuality, GivesRowsOfTheTradeoffTheirPerplexity) {
  std::vector<Row> rows{quality_row(Scenario::tradeoff, "a", 0), quality_row(Scenario::tradeoff, "b", 0),
                        quality_row(Scenario::lengths, "a", 0), quality_row(Scenario::perplexity, "a", 16),
                        quality_row(Scenario::lengths, "b", 32)};
  rows.push_back(quality_row(Scenario::tradeoff, "a", 0));
  rows.back().status = RowStatus::error;
  merge_quality(rows);
  EXPECT_EQ(rows[0].find("perplexity")->value, 16);
  EXPECT_EQ(rows[0].find("perplexity_ratio")->value, 2);
  EXPECT_EQ(rows[1].find("perplexity"), nullptr);
  EXPECT_EQ(rows[2].find("perplexity"), nullptr);
  EXPECT_EQ(rows[5].find("perplexity"), nullptr) << "it failed";
}

}  // namespace
}  // namespace assay
