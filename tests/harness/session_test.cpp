// A session in this process does what it is asked with the model that it holds.
#include "assay/harness/session.h"

#include <gtest/gtest.h>

#include <thread>

#include "assay/assay.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

class LocalSessions : public testing::Test {
 protected:
  LocalSessions()
      : loaded_(
            load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{})) {
    what_.prompts = {std::vector<TokenId>{1, 2, 3}};
    what_.new_tokens = 4;
  }
  LoadedModel loaded_;
  Case what_;
};

TEST_F(LocalSessions, TellTheFactsOfTheirModel) {
  loaded_.warnings = {{WarningKind::other, "a warning"}};
  const SessionFacts facts = local_session(loaded_)->facts();
  EXPECT_EQ(facts.model.id, loaded_.id);
  EXPECT_EQ(facts.model.dtype, "float32");
  EXPECT_EQ(facts.device, "cpu");
  EXPECT_EQ(facts.kernels, loaded_.model->backend().kernels());
  EXPECT_EQ(facts.threads, loaded_.model->backend().threads());
  EXPECT_EQ(facts.context, 64);
  EXPECT_EQ(facts.warnings, loaded_.warnings);
}

TEST_F(LocalSessions, ScoreAndAuditWithWhatTheyAreAsked) {
  const auto session = local_session(loaded_);
  const std::string file = (test::fixture_model("with_tokenizer") / "prompt.txt").string();
  const CorpusLosses losses =
      session->score({.file = file, .context = 16, .stride = 8, .through = ScoreThrough::decode});
  const CorpusScore scored =
      score_file(loaded_, file, {.context = 16, .stride = 8, .through = ScoreThrough::decode});
  EXPECT_EQ(losses.corpus_sha256, scored.corpus_sha256);
  EXPECT_EQ(losses.protocol, scored.score.protocol);
  EXPECT_EQ(losses.log_probabilities, scored.score.log_probabilities);
  EXPECT_EQ(losses.tokens, scored.score.tokens);
  EXPECT_GT(losses.seconds, 0);
  EXPECT_EQ(losses.warnings, scored.warnings);
  EXPECT_FALSE(session->audit({std::vector<TokenId>{1, 2}}, 3).empty());
}

// The pause before a run belongs to what was watched, the run before it does not.
TEST_F(LocalSessions, WatchFromTheEndOfTheRunBefore) {
  const auto session = local_session(loaded_);
  const auto watched_after = [&](const std::function<void()>& before) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    before();
    const TimePoint begin = Clock::now();
    const double watched = session->run(what_).disturbance.watched_s;
    EXPECT_LT(watched, elapsed(begin, Clock::now()).value + 0.03);
    EXPECT_GT(watched, 0);
  };
  watched_after([&] { session->first_run(what_); });
  watched_after([&] { session->run(what_); });
}

TEST_F(LocalSessions, CountTheMemoryThatTheModelTook) {
  const auto measured = [&](std::int64_t held_before) {
    return local_session(loaded_, {}, Bytes{held_before})->first_run(what_).measured_memory_bytes;
  };
  const double mega = 1 << 20;
  EXPECT_NEAR(measured(0) - measured(std::int64_t{1000} << 20), 1000 * mega, 200 * mega);
}

}  // namespace
}  // namespace assay
