// Files of schema 1 are read: their names of the roofline, their remarks, their texts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/written_results.h"
#include "assay/results/compare_results.h"
#include "assay/results/results_json.h"
#include "support/prose.h"
#include "support/result_sets.h"

namespace assay {
namespace {

using OldJson = nlohmann::ordered_json;

// As the version before wrote it.
OldJson schema_one() {
  ResultSet results = test::full_results();
  results.rows[0].set("percent_of_roofline", 40);
  results.rows[0].set("roofline_gb_s", 20);
  results.rows[0].absent = {{"roofline_gflops", "no counter"}};
  results.texts.push_back({"edge prompt: code", "", "x", {}, {}, Scenario::edge_prompts, "code"});
  results.texts.push_back({"prompt 1", "a prompt", "x", {}, {}, Scenario::baseline, "prompt 1"});
  OldJson json = report::results_json(results);
  json["schema_version"] = 1;
  json.erase("findings");
  json["takeaways"] = {"A takeaway of then."};
  for (OldJson& text : json["texts"]) text.erase("scenario"), text.erase("generated_by");
  for (OldJson& row : json["rows"]) {
    row.erase("setting");
    for (OldJson& warning : row["warnings"]) warning.erase("value"), warning.erase("limit");
  }
  OldJson& row = json["rows"][0];
  for (const auto& [old, now] :
       {std::pair("percent_of_roof", "percent_of_roofline"), std::pair("roof_gb_s", "roofline_gb_s")}) {
    row["values"][old] = row["values"][now];
    row["values"].erase(now);
  }
  row["absent"] = {{"roof_gflops", "no counter"}};
  return json;
}

TEST(SchemaOne, HasOtherNamesOfTheRoofline) {
  const ResultSet results = results_from_json(schema_one(), "r.json");
  EXPECT_EQ(results.rows[0].find("percent_of_roofline")->value, 40);
  EXPECT_EQ(results.rows[0].find("roofline_gb_s")->value, 20);
  EXPECT_EQ(results.rows[0].find("percent_of_roof"), nullptr);
  EXPECT_EQ(results.rows[0].absent[0].first, "roofline_gflops");
  EXPECT_EQ(to_json(results)["schema_version"], 2);
  OldJson compared = schema_one();
  compared["comparisons"][0]["metric"] = "roof_latency_s";
  EXPECT_EQ(results_from_json(compared, "r.json").comparisons[0].metric, "roofline_latency_s");
}

TEST(SchemaOne, TellsByLabelsWhatGeneratedATextAndByParametersWhatRan) {
  const ResultSet results = results_from_json(schema_one(), "r.json");
  ASSERT_EQ(results.texts.size(), 4U);
  EXPECT_EQ(results.texts[1].scenario, Scenario::tradeoff);
  EXPECT_EQ(results.texts[1].generated_by, "nf4");
  EXPECT_EQ(results.texts[2].scenario, Scenario::edge_prompts);
  EXPECT_EQ(results.texts[2].generated_by, "code");
  EXPECT_EQ(results.texts[3].scenario, Scenario::baseline);
  EXPECT_EQ(results.rows[1].setting.precision, "nf4");
  EXPECT_EQ(results.rows[1].setting.threads, 2);
}

TEST(SchemaOne, IsReportedAndCompared) {
  const ResultSet results = results_from_json(schema_one(), "r.json");
  EXPECT_EQ(test::remarks_of(results), std::vector<std::string>{"A remark."});
  const std::string page = report::to_markdown(report::document_of(results));
  EXPECT_NE(page.find("- A remark.\n"), std::string::npos);
  EXPECT_NE(page.find("- Latency: nf4 is the fastest, 2.00x [1.96, 2.04] faster than float32.\n"),
            std::string::npos)
      << page;
  EXPECT_FALSE(compare_results(results, test::full_results(), 0.02).rows.empty());
}

}  // namespace
}  // namespace assay
