// A worker as its session sees it: the lines it is asked, the answers it gives, and every way to lose it.

#include <gtest/gtest.h>

#include <thread>

#include <nlohmann/json.hpp>

#include "assay/assay.h"
#include "assay/base/json_bytes.h"
#include "assay/config/fields_json.h"
#include "assay/harness/case_json.h"
#include "assay/harness/worker_protocol.h"
#include "assay/model/model.h"
#include "assay/results/results_json.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/worker_loss.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A worker that writes down what it is asked, answers with the given lines, and then ends with status 7.
class SpokenWorker : public testing::Test {
 protected:
  std::unique_ptr<Session> worker(const std::vector<OrderedJson>& answers) {
    std::string lines;
    for (const OrderedJson& answer : answers) lines += answer.dump() + "\n";
    return worker_of_lines(lines);
  }
  std::unique_ptr<Session> worker_of_lines(const std::string& lines) {
    std::filesystem::remove(folder_ / "asked");
    test::write_file(folder_ / "answers", lines);
    options_.program = {"/bin/sh", "-c",
                        "exec 3<" + (folder_ / "answers") +
                            "; while read -r line; do printf '%s\\n' \"$line\" >>" + (folder_ / "asked") +
                            "; read -r answer <&3 || exit 7; [ \"$answer\" = sleep ] && exec sleep 100; "
                            "printf '%s\\n' \"$answer\"; done"};
    options_.candidates = {"m", "n"};
    return worker_session(options_);
  }
  std::vector<OrderedJson> asked() const {
    std::vector<OrderedJson> all;
    std::istringstream lines(test::read_file(folder_ / "asked"));
    for (std::string line; std::getline(lines, line);) all.push_back(OrderedJson::parse(line));
    return all;
  }
  static OrderedJson facts(const std::string& kernels) {
    SessionFacts known;
    known.kernels = kernels;
    return {{"ok", true}, {"facts", to_json(known)}};
  }
  const test::TemporaryFolder folder_;
  WorkerOptions options_;
};

TEST_F(SpokenWorker, IsAskedToLoadAndForItsFacts) {
  options_.configuration.threads = 3;
  options_.memory_limit = Bytes{12345};
  options_.needs_tokenizer = false;
  const auto session = worker({facts("first"), facts("second")});
  const SessionFacts now = session->facts();
  EXPECT_EQ(now.kernels, "second");
  const auto all = asked();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0],
            (OrderedJson{
                {"op", "load"},
                {"candidates", {"m", "n"}},
                {"configuration", {{"threads", 3}}},
                {"needs_tokenizer", false},
                {"memory_limit", 12345},
                {"constants", to_json(*make_backend({}, {.threads = 3, .tune = Tune::once})->constants())}}));
  EXPECT_EQ(all[1].dump(), R"({"op":"facts"})");
  options_.memory_limit.reset();
  options_.needs_tokenizer = true;
  worker({facts("first")});
  EXPECT_TRUE(asked()[0]["memory_limit"].is_null());
  EXPECT_EQ(asked()[0]["needs_tokenizer"], true);
}

// It need not know what a later build can be told, nor tell what that tells.
TEST_F(SpokenWorker, OfAnotherBuildChoosesItsOwnConstants) {
  options_.is_this_build = false;
  OrderedJson answer = facts("first");
  answer["facts"].erase("tuning");
  const auto session = worker({answer, answer});
  EXPECT_EQ(asked()[0]["configuration"], OrderedJson::object());
  EXPECT_FALSE(asked()[0].contains("constants"));
  EXPECT_EQ(session->facts().tuning, "");
}

// Nor where nothing is tuned.
TEST_F(SpokenWorker, IsGivenNoConstantsWhereNothingIsTuned) {
  options_.configuration.tune = Tune::off;
  worker({facts("first")});
  EXPECT_FALSE(asked()[0].contains("constants"));
  EXPECT_EQ(asked()[0]["configuration"]["tune"], "off");
}

TEST_F(SpokenWorker, RunsWhatItIsGiven) {
  Case spec;
  spec.label = "a case \xff";  // hidden on the way: no worker is asked in broken UTF-8
  spec.prompts = {std::vector<TokenId>{1, 2}};
  FirstRun first;
  first.seconds = 0.5;
  Sample sample;
  sample.total_latency_s = 0.25;
  CorpusLosses losses;
  losses.corpus_sha256 = "sha";
  losses.tokens = 9;
  AuditRow row;
  row.what = "cache off";
  const auto session = worker({facts("k"),
                               {{"ok", true}, {"first_run", to_json(first)}},
                               {{"ok", true}, {"sample", to_json(sample)}},
                               {{"ok", true}, {"losses", to_json(losses)}},
                               {{"ok", true}, {"losses", to_json(losses)}},
                               {{"ok", true}, {"audit", {to_json(row), to_json(row)}}}});
  EXPECT_EQ(session->first_run(spec).seconds, 0.5);
  EXPECT_EQ(session->run(spec).total_latency_s, 0.25);
  EXPECT_EQ(session->score({"a.txt", 64, 32, ScoreThrough::decode}).corpus_sha256, "sha");
  EXPECT_EQ(session->score({.file = "b.txt"}).tokens, 9);
  const auto rows = session->audit({"a", std::vector<TokenId>{3}}, 5);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].what, "cache off");
  const auto all = asked();
  ASSERT_EQ(all.size(), 6U);
  const auto request = [&](const char* op) {
    OrderedJson json{{"op", op}, {"case", to_json(spec)}};
    hide_bytes(json);
    return json;
  };
  EXPECT_EQ(all[1], request("first_run"));
  EXPECT_EQ(all[2], request("run"));
  EXPECT_EQ(all[3].dump(), R"({"op":"score","file":"a.txt","context":64,"stride":32,"through":"decode"})");
  EXPECT_EQ(all[4].dump(),
            R"({"op":"score","file":"b.txt","context":null,"stride":null,"through":"prefill"})");
  EXPECT_EQ(all[5].dump(), R"({"op":"audit","prompts":["a",[3]],"new_tokens":5})");
}

TEST_F(SpokenWorker, WhatItCannotDoIsAnErrorAndItLivesOn) {
  const auto session = worker({facts("k"), {{"ok", false}, {"error", "no such file"}}, facts("later")});
  EXPECT_EQ(test::loss_of([&] { session->facts(); }), test::Loss(-1, "no such file"));
  EXPECT_EQ(session->facts().kernels, "later");
}

TEST_F(SpokenWorker, ThatEndsIsLostForGood) {
  const auto session = worker({facts("k")});
  EXPECT_EQ(test::loss_of([&] { session->facts(); }), test::Loss(test::kCrashed, "the worker exited with 7"));
  EXPECT_EQ(test::loss_of([&] { session->facts(); }), test::Loss(test::kCrashed, "the worker is gone"));
  EXPECT_EQ(test::loss_of([&] { worker({}); }), test::Loss(test::kCrashed, "the worker exited with 7"));
}

TEST_F(SpokenWorker, ThatSaysNothingUnderstandableIsLost) {
  const auto session = worker_of_lines(facts("k").dump() + "\n{\"no\":1}\n");
  const test::Loss missing = test::loss_of([&] { session->facts(); });
  EXPECT_EQ(missing.first, test::kCrashed);
  EXPECT_EQ(missing.second.rfind("cannot parse the worker's answer: ", 0), 0U) << missing.second;
  EXPECT_EQ(test::loss_of([&] { session->facts(); }), test::Loss(test::kCrashed, "the worker is gone"));
  EXPECT_EQ(test::loss_of([&] { worker_of_lines("what?\n"); }).first, test::kCrashed);
}

// An answer of the right form without what was asked for, such as one of another version.
TEST_F(SpokenWorker, ThatLeavesOutWhatWasAskedForIsLost) {
  const auto session =
      worker({facts("k"), {{"ok", true}, {"sample", {{"total_latency_s", 1}}}}, facts("later")});
  const test::Loss missing = test::loss_of([&] { session->run(Case{}); });
  EXPECT_EQ(missing.first, test::kCrashed);
  EXPECT_EQ(missing.second.rfind("cannot parse the worker's answer: sample", 0), 0U) << missing.second;
  EXPECT_EQ(test::loss_of([&] { session->facts(); }), test::Loss(test::kCrashed, "the worker is gone"));
}

// The key is in each request; without one there is none in the JSON, which earlier builds would refuse.
TEST_F(SpokenWorker, OfSeveralModelsIsToldWhich) {
  options_.configuration.tune = Tune::off;
  worker({facts("k")});
  test::write_file(folder_ / "answers",
                   facts("a").dump() + "\n" + facts("b").dump() + "\n" + facts("b").dump() + "\n");
  std::filesystem::remove(folder_ / "asked");
  const auto sessions =
      worker_sessions(options_, {{"a", {"m"}, options_.configuration}, {"b", {"n"}, options_.configuration}});
  EXPECT_EQ(sessions[1]->facts().kernels, "b");
  const auto all = asked();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["key"], "a");
  EXPECT_EQ(all[1]["key"], "b");
  EXPECT_EQ(all[1]["candidates"].dump(), R"(["n"])");
  EXPECT_EQ(all[2].dump(), R"({"op":"facts","key":"b"})");
  // The process is lost to both.
  EXPECT_EQ(test::loss_of([&] { sessions[0]->facts(); }),
            test::Loss(test::kCrashed, "the worker exited with 7"));
  EXPECT_EQ(test::loss_of([&] { sessions[1]->facts(); }), test::Loss(test::kCrashed, "the worker is gone"));
}

TEST_F(SpokenWorker, ThatFailsForGoodSaysWhy) {
  const auto fails = [&](const OrderedJson& is_fatal) {
    const auto session =
        worker({facts("k"), {{"ok", false}, {"error", "it broke"}, {"is_fatal", is_fatal}}, facts("later")});
    return test::loss_of([&] { session->facts(); });
  };
  EXPECT_EQ(fails(true), test::Loss(test::kCrashed, "it broke"));
  EXPECT_EQ(fails(false), test::Loss(-1, "it broke"));
  EXPECT_EQ(fails(nullptr), test::Loss(-1, "it broke"));
}

TEST_F(SpokenWorker, ThatDoesNotAnswerIsLost) {
  bool is_stopped = false;
  options_.time_limit = {0.5};
  options_.should_stop = [&] { return is_stopped; };
  const auto slow = worker_of_lines(facts("k").dump() + "\nsleep\n");
  EXPECT_EQ(test::loss_of([&] { slow->facts(); }),
            test::Loss(test::kTimedOut, "timed out: no answer within 0.5 s"));
  options_.time_limit = {60};
  const auto stopped = worker_of_lines(facts("k").dump() + "\nsleep\n");
  is_stopped = true;
  EXPECT_EQ(test::loss_of([&] { stopped->facts(); }), test::Loss(test::kStopped, "interrupted"));
}

}  // namespace
}  // namespace assay
