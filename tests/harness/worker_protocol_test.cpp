// What a worker answers, as JSON: every request and every field by hand.
#include "assay/harness/worker_protocol.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/case_json.h"
#include "support/scripted_session.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

SessionFacts known_facts() {
  SessionFacts facts;
  facts.model.id = "demo";
  facts.model.dtype = "nf4";
  facts.model.parameters = 12;
  facts.device = "cpu";
  facts.kernels = "avx2";
  facts.threads = 3;
  facts.context = 64;
  facts.warnings = {{WarningKind::drift, "slower and slower"}};
  return facts;
}

CorpusLosses known_losses() {
  return {"sha", "guide", {-0.5, -1.5}, 3, 0.25, {{WarningKind::worse_than_uniform, "it guesses"}}};
}

TEST(SessionFactsJson, EveryFieldHasItsPlace) {
  const OrderedJson json = to_json(known_facts());
  EXPECT_EQ(json["model"]["id"], "demo");
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_EQ(json["kernels"], "avx2");
  EXPECT_EQ(json["threads"], 3);
  EXPECT_EQ(json["context"], 64);
  EXPECT_EQ(json["warnings"][0]["text"], "slower and slower");
  const SessionFacts back = session_facts_from_json(json);
  EXPECT_EQ(back.model.id, "demo");
  EXPECT_EQ(back.model.parameters, 12);
  EXPECT_EQ(back.device, "cpu");
  EXPECT_EQ(back.kernels, "avx2");
  EXPECT_EQ(back.threads, 3);
  EXPECT_EQ(back.context, 64);
  EXPECT_EQ(back.warnings, known_facts().warnings);
}

TEST(CorpusLossesJson, EveryFieldHasItsPlace) {
  OrderedJson json = to_json(known_losses());
  EXPECT_EQ(json["corpus_sha256"], "sha");
  EXPECT_EQ(json["protocol"], "guide");
  EXPECT_EQ(json["log_probabilities"].dump(), "[-0.5,-1.5]");
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(json["seconds"], 0.25);
  const CorpusLosses back = corpus_losses_from_json(json);
  EXPECT_EQ(back.corpus_sha256, "sha");
  EXPECT_EQ(back.protocol, "guide");
  EXPECT_EQ(back.log_probabilities, (std::vector<double>{-0.5, -1.5}));
  EXPECT_EQ(back.tokens, 3);
  EXPECT_EQ(back.seconds, 0.25);
  EXPECT_EQ(back.warnings, known_losses().warnings);
  json.erase("warnings");  // as an earlier version has it
  EXPECT_TRUE(corpus_losses_from_json(json).warnings.empty());
}

TEST(AnswerRequest, HasWhatTheSessionGives) {
  test::Script script;
  script.facts = [](const RunConfig&) { return known_facts(); };
  script.score = [](const RunConfig&) { return known_losses(); };
  script.run = [](const Case& spec, int) {
    return test::scripted_sample(static_cast<double>(spec.new_tokens), {});
  };
  script.first_run = [](const Case& spec) {
    FirstRun first;
    first.texts = {spec.label};
    return first;
  };
  test::ScriptedSession session({}, script, 0);
  const auto answer = [&](const std::string& op, const OrderedJson& request) {
    return answer_request(session, op, JsonReader(request, "request"));
  };
  Case spec;
  spec.label = "mine";
  spec.new_tokens = 5;
  const OrderedJson facts = answer("facts", OrderedJson::object());
  EXPECT_EQ(facts["ok"], true);
  EXPECT_EQ(facts["facts"], to_json(known_facts()));
  const OrderedJson first = answer("first_run", {{"case", to_json(spec)}});
  EXPECT_EQ(first["ok"], true);
  EXPECT_EQ(first["first_run"]["texts"].dump(), R"(["mine"])");
  const OrderedJson run = answer("run", {{"case", to_json(spec)}});
  EXPECT_EQ(run["ok"], true);
  EXPECT_EQ(run["sample"]["total_latency_s"], 5);
  const OrderedJson losses = answer("score", {{"file", "a.txt"}});
  EXPECT_EQ(losses["ok"], true);
  EXPECT_EQ(losses["losses"], to_json(known_losses()));
  const OrderedJson audit = answer("audit", {{"prompts", {"a"}}, {"new_tokens", 1}});
  EXPECT_EQ(audit["ok"], true);
  EXPECT_EQ(audit["audit"].dump(), "[]");
  EXPECT_TRUE(answer("Facts", OrderedJson::object()).is_null());
  EXPECT_THROW(answer("run", OrderedJson::object()), Error);
}

}  // namespace
}  // namespace assay
