// What a worker of an earlier build answers, which `assay interleave` compares with this one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/harness/case_json.h"

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

}  // namespace
}  // namespace assay
