// What a worker is asked becomes what its session is asked, and nothing of the answer is lost; audits go on
// where one of them fails.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/rows.h"
#include "assay/harness/worker_protocol.h"
#include "support/fake_session.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

AuditRow audit_row(const std::string& what) {
  AuditRow row;
  row.what = what;
  return row;
}

// Remembers what it was asked, and fails to audit nf4.
class AskedSession : public test::FakeSession {
 public:
  explicit AskedSession(RunConfig configuration = {})
      : FakeSession(configuration, [](const RunConfig&, const Case&) { return 0.1; }),
        configuration_(std::move(configuration)) {}
  CorpusLosses score(const CorpusRequest& corpus) override {
    asked = corpus;
    return {};
  }
  std::vector<AuditRow> audit(const std::vector<Prompt>& prompts, std::int64_t new_tokens) override {
    if (configuration_.precision == Preset::nf4) throw Error("nf4 is not audited");
    audited = prompts.size() * 100 + static_cast<std::size_t>(new_tokens);
    return {audit_row("cache off"), audit_row("padding")};
  }
  CorpusRequest asked;
  std::size_t audited = 0;

 private:
  RunConfig configuration_;
};

OrderedJson answer(Session& session, const std::string& op, const OrderedJson& request) {
  return answer_request(session, op, JsonReader(request, "request"));
}

TEST(AnswerRequest, ACorpusIsScoredAsItIsAsked) {
  AskedSession session;
  answer(session, "score", {{"file", "a.txt"}});
  EXPECT_EQ(session.asked.file, "a.txt");
  EXPECT_FALSE(session.asked.context);
  EXPECT_FALSE(session.asked.stride);
  EXPECT_EQ(session.asked.through, ScoreThrough::prefill);
  answer(session, "score", {{"file", "a.txt"}, {"context", 64}, {"stride", 7}, {"through", "decode"}});
  EXPECT_EQ(session.asked.context, 64);
  EXPECT_EQ(session.asked.stride, 7);
  EXPECT_EQ(session.asked.through, ScoreThrough::decode);
}

TEST(AnswerRequest, AnAuditHasItsRows) {
  AskedSession session;
  const OrderedJson json = answer(session, "audit", {{"prompts", {"a", "b"}}, {"new_tokens", 7}});
  EXPECT_EQ(session.audited, 207U);
  ASSERT_EQ(json["audit"].size(), 2U);
  EXPECT_EQ(json["audit"][1]["what"], "padding");
  EXPECT_TRUE(answer(session, "dance", OrderedJson::object()).is_null());
}

TEST(Audit, GoesOnAfterAFailureUnlessItIsStopped) {
  Sessions sessions(
      [](const RunConfig& configuration) { return std::make_unique<AskedSession>(configuration); });
  ExperimentContext context;
  context.sessions = &sessions;
  RunConfig float32, nf4, bfloat16;
  float32.precision = Preset::float32;
  nf4.precision = Preset::nf4;
  bfloat16.precision = Preset::bfloat16;
  const auto configurations_of = [&] {
    std::vector<std::string> labels;
    for (const AuditRow& row : audit(context, {float32, nf4, bfloat16}, {"a"}, 4))
      labels.push_back(row.configuration + " " + row.what);
    return labels;
  };
  EXPECT_EQ(configurations_of(), (std::vector<std::string>{"float32 cache off", "float32 padding",
                                                           "bfloat16 cache off", "bfloat16 padding"}));
  int asked = 0;
  context.sweep.should_stop = [&] { return ++asked > 2; };
  EXPECT_EQ(configurations_of(), (std::vector<std::string>{"float32 cache off", "float32 padding"}));
  context.sweep.should_stop = [] { return true; };
  EXPECT_TRUE(configurations_of().empty());
}

}  // namespace
}  // namespace assay
