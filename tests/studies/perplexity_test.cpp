// Perplexity of scripted configurations: rows, failures, stops and predictions; and of sentences on models.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/harness/worker_protocol.h"
#include "assay/model/model.h"
#include "assay/studies/registry.h"
#include "support/fixtures.h"
#include "support/scripted_model.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

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
  context_.sweep.on_progress = [&](const std::string& now_running, std::int64_t done, std::int64_t all,
                                   std::optional<double> left) {
    told.push_back(
        fmt::format("{} | {} of {} | {}", now_running, done, all, left ? fmt::format("{}", *left) : "-"));
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

TEST_F(ScriptedPerplexity, ALateRunKeepsWhatItsJournalHas) {
  const std::filesystem::path file = folder_.path() / "journal.jsonl";
  {
    Journal journal(file, "p", false);
    context_.sweep.journal = &journal;
    context_.sweep.should_stop = [this] { return scored_.size() == 2; };
    scored();
  }
  scored_.clear();
  context_.sweep.should_stop = {};
  context_.sweep.deadline = context_.sweep.clock();
  Journal journal(file, "p", true);
  context_.sweep.journal = &journal;
  const ExperimentResult result = scored();
  EXPECT_EQ(scored_, Lines{});
  EXPECT_EQ(result.rows.size(), 2U);
  EXPECT_FALSE(result.is_interrupted);
  ASSERT_EQ(result.left_out.size(), 1U);
  EXPECT_EQ(result.left_out[0].what, "bfloat16");
  EXPECT_EQ(result.left_out[0].reason, kSlower);
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
  std::string pair;  // for two tokens exactly
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

TEST(ComparePpplx, WarnsOfWhatIsMuchWorseThanTheFirst) {
  const LoadedModel demo = load_model_and_tokenizer({test::demo_model().string()}, "float32", Device{}),
                    wild = load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()},
                                                    "float32", Device{});
  const Lines sentences = {"Once upon a time there was a girl."};
  const auto compared = compare_ppplx({{"demo", &demo}, {"wild", &wild}}, sentences);
  EXPECT_TRUE(compared[0].second.warnings.empty());
  const double ratio = compared[1].second.ppx / compared[0].second.ppx;
  ASSERT_GT(ratio, 1.5);
  ASSERT_FALSE(compared[1].second.warnings.empty());
  EXPECT_EQ(compared[1].second.warnings.back().text,
            fmt::format("the perplexity is {:.2f} times that of demo", ratio));
  EXPECT_TRUE(compare_ppplx({{"wild", &wild}, {"demo", &demo}}, sentences)[1].second.warnings.empty());
}

TEST_F(ScriptedStudies, PredictedPerplexityCountsItsWindows) {
  const test::TemporaryFolder folder;
  std::vector<std::size_t> lengths;
  const auto windows = [&](const std::string& text, std::optional<std::int64_t> window,
                           std::optional<std::int64_t> stride) {
    test::write_file(folder.path() / "text.txt", text);
    lengths.clear();
    return study_named("perplexity")
        .predict_s(context(),
                   PerplexityOptions{.precisions = {"float32", "nf4"},
                                     .corpus = folder.path() / "text.txt",
                                     .context = window,
                                     .stride = stride},
                   [&](const Case& spec) {
                     EXPECT_EQ(spec.new_tokens, 1);
                     lengths.push_back(std::get<Ids>(spec.prompts[0]).size());
                     return spec.configuration.label() == "nf4" ? 100.0 : 1.0;
                   });
  };
  ASSERT_EQ(context().tokenizer->encode("a").size(), 1U);
  EXPECT_EQ(windows("a", {}, {}), 101);
  EXPECT_EQ(lengths, (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(windows("a", 2, {}), 101) << "a stride of one token at least";
  std::string text;
  for (int i = 0; i < 40; ++i) text += "a1";
  const auto tokens = static_cast<std::int64_t>(context().tokenizer->encode(text).size());
  // All windows but the last are whole, and the last ends with the text.
  const std::int64_t whole = (tokens - 8 + 3) / 4;
  EXPECT_DOUBLE_EQ(windows(text, 8, {}), 101.0 * static_cast<double>(whole * 8 + tokens - whole * 4) / 8);
  EXPECT_EQ(lengths[0], 8U);
  // A window that holds the text is the only one, whatever the stride.
  const std::int64_t length = std::min<std::int64_t>(63, tokens);
  EXPECT_DOUBLE_EQ(windows(text, 1000, 3), 101.0 * static_cast<double>(tokens) / static_cast<double>(length));
  EXPECT_EQ(lengths[0], static_cast<std::size_t>(length));
}

}  // namespace
}  // namespace assay
