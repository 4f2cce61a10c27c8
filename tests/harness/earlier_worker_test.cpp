// Builds of different age speak with each other where `assay interleave` compares them: what a worker of an
// earlier build answers, and what an earlier build reads of this one's worker.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/harness/case_json.h"
#include "assay/harness/worker_protocol.h"
#include "support/scripted_session.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

TEST(EarlierWorker, CallsTheRooflineRoof) {
  Sample sample;
  sample.bytes = 5;
  sample.roofline_gflops = 7;
  OrderedJson json = to_json(sample);
  json["roof"] = json["roofline"];
  json.erase("roofline");
  const Sample back = sample_from_json(json);
  EXPECT_EQ(back.bytes, 5);
  EXPECT_EQ(back.roofline_gflops, 7);

  FirstRun first;
  first.profile.parts.push_back({"attention", 0.5, 0.25});
  OrderedJson first_json = to_json(first);
  OrderedJson& part = first_json["profile"][0];
  part["roof_s"] = part["roofline_s"];
  part.erase("roofline_s");
  EXPECT_EQ(first_run_from_json(first_json).profile.parts.at(0).roofline_s, 0.25);
}

// It is told both names of each.
TEST(EarlierParent, ReadsTheRoofline) {
  test::Script script;
  script.run = [](const Case&, int) {
    Sample sample = test::scripted_sample(1, {});
    sample.bytes = 5;
    return sample;
  };
  script.first_run = [](const Case&) {
    FirstRun first;
    first.profile.parts.push_back({"attention", 0.5, 0.25});
    return first;
  };
  test::ScriptedSession session({}, script, 0);
  const OrderedJson request{{"case", to_json(Case{})}};
  const OrderedJson sample = answer_request(session, "run", JsonReader(request))["sample"];
  EXPECT_EQ(sample["roof"], sample["roofline"]);
  EXPECT_EQ(sample["roof"][0], 5);
  const OrderedJson first = answer_request(session, "first_run", JsonReader(request))["first_run"];
  EXPECT_EQ(first["profile"][0]["roof_s"], 0.25);
  EXPECT_EQ(first["profile"][0]["roofline_s"], 0.25);
}

}  // namespace
}  // namespace assay
