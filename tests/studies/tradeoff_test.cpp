// What the trade-off makes of its cases: when a precision pays, and where its texts diverge.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/harness/worker_protocol.h"
#include "assay/studies/registry.h"
#include "support/prose.h"
#include "support/scripted_model.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::kDeviation;
using test::ScriptedStudies;
using Lines = std::vector<std::string>;
using Ids = std::vector<TokenId>;

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
    // A difference of two loads within what loads differ by is no time that quantizing took.
    const Value* more = result.find("nf4")->find("quantize_s");
    EXPECT_EQ(more != nullptr, load_s > 3.3);
    if (more != nullptr) {
      EXPECT_DOUBLE_EQ(more->value, load_s - 3);
    }
    std::string reason;
    for (const auto& [tag, why] : result.find("nf4")->absent)
      if (tag == "quantize_s") reason = why;
    EXPECT_EQ(reason, more != nullptr
                          ? ""
                          : fmt::format("below the noise of loading: {} s, and the baseline 3 s", load_s));
    EXPECT_EQ(result.find("float32")->find("quantize_s"), nullptr);
    EXPECT_EQ(result.find("float32")->find("break_even_tokens"), nullptr);
    const Value* found = result.find("nf4")->find("break_even_tokens");
    return found == nullptr ? -1 : found->value;
  };
  // (5 - 3) s, of which each of the three tokens that a run generates saves (4 - 2) / 3 s.
  EXPECT_NEAR(break_even(2, 5), 3, 1e-9);
  EXPECT_NEAR(break_even(2, 2.5), 0, 1e-12) << "it loads faster: it pays at once";
  EXPECT_NEAR(break_even(2, 3.2), 0.3, 1e-9) << "by the loads as they were timed";
  EXPECT_EQ(break_even(4, 5), -1);
  EXPECT_EQ(break_even(5, 5), -1);
}

// Texts of two prompts, of which the second is generated apart.
class ScriptedTexts : public ScriptedStudies {
 protected:
  ScriptedTexts() {
    take({});
    script_.first_run = [this](const Case& spec) {
      ++generated_;
      FirstRun first;
      first.seconds = 9;
      first.texts = {"text of " + spec.label};
      first.prompt_ids = {std::get<Ids>(spec.prompts[0])};
      first.ids = {ids_(spec.configuration.label(), std::get<Ids>(spec.prompts[0])[0])};
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
    return test::remarks_of(texts(context()));
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
  EXPECT_EQ(
      repeated({7, 7, 7, 7}, {1, 2, 3, 4}).substr(0, 116),
      "nf4 diverges from the baseline's text: prompt 1 after 0 tokens (a repeated passage makes up 100 % "
      "of it, more than i");
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
  script_.first_run = [&](const Case& spec) {
    if (std::get<Ids>(spec.prompts[0])[0] == 2 && spec.configuration.label() == "nf4") fail();
    return first(spec);
  };
  fail = [] { throw Error("it fails"); };
  ExperimentResult result = texts(context());
  EXPECT_EQ(result.texts.size(), 3U);
  EXPECT_FALSE(result.is_interrupted);
  fail = [] { throw WorkerLost(WorkerLost::Cause::crashed, "it died"); };
  int started = 0;  // facts are asked for whenever a session starts, and after a first run
  script_.facts = [&](const RunConfig& configuration) {
    started += configuration.label() == "nf4" ? 1 : 0;
    SessionFacts facts;
    facts.kernels = "scripted";
    return facts;
  };
  result = texts(context());
  const int before = started;
  sessions_.of(run_config_from_text("nf4"));
  EXPECT_EQ(started, before + 1) << "the session that died starts again";
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
