// --baseline: which row of a comparison the others are compared with.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class CliBaseline : public ::testing::Test {
 protected:
  CliBaseline() : other_(fs::path(folder_.path()) / "other") {
    fs::copy(kModel, other_, fs::copy_options::recursive);
  }

  static Json answer_of(std::vector<std::string> words) {
    words.insert(words.end(), {"-p", "a", "-n", "4", "-r", "2", "--processes", "2", "--json"});
    const ProgramResult result = run_program(words);
    expect_success(result);
    return Json::parse(result.out);
  }
  static std::vector<std::string> planned(std::vector<std::string> words) {
    words.insert(words.end(), {"--dry-run", "--json", "-p", "a", "-n", "4"});
    const ProgramResult result = run_program(words);
    expect_success(result);
    std::vector<std::string> labels;
    const Json cases = Json::parse(result.out)["cases"];
    for (const Json& spec : cases) labels.push_back(spec["label"]);
    return labels;
  }

  const TemporaryFolder folder_;
  const fs::path other_;
};

TEST_F(CliBaseline, SpeedAndQualityAreComparedWithIt) {
  const Json json = answer_of({"tradeoff", kModel, "--precision", "float32,bfloat16,nf4", "--baseline",
                               "bfloat16", "--corpus", kText});
  ASSERT_EQ(json["rows"].size(), 8U);  // three trade-offs and perplexities, two divergences
  EXPECT_EQ(json["rows"][0]["label"], "bfloat16");
  int of_quality = 0;
  for (const Json& comparison : json["comparisons"]) {
    EXPECT_EQ(comparison["baseline"], "bfloat16") << comparison;
    of_quality += comparison["scenario"] == "perplexity" ? 1 : 0;
  }
  EXPECT_EQ(of_quality, 2);
  EXPECT_EQ(json["configuration"]["--baseline"], "bfloat16");
  EXPECT_EQ(json["configuration"]["baseline.precision"], "bfloat16");
  for (const Json& row : json["rows"])
    if (row["scenario"] == "perplexity") {
      EXPECT_EQ(row["values"].contains("perplexity_ratio"), row["label"] != "bfloat16") << row["label"];
    }
}

// By the name of its file or folder, a path to it, a row's label, or a precision in another spelling.
TEST_F(CliBaseline, IsFoundByEveryNameOfIt) {
  const std::vector<std::string> two{"tradeoff", kModel, "--with", other_, "--precision", "float32,int8"};
  const auto first = [&](const std::string& name) {
    std::vector<std::string> words = two;
    words.insert(words.end(), {"--baseline", name});
    return planned(words).front();
  };
  EXPECT_EQ(planned(two).front(), "with_tokenizer: float32");
  EXPECT_EQ(first("other"), "other: float32");
  EXPECT_EQ(first(other_.string() + "/."), "other: float32");
  EXPECT_EQ(first("other: int8-dynamic"), "other: int8-dynamic");
  EXPECT_EQ(first("int8"), "with_tokenizer: int8-dynamic");
  EXPECT_EQ(first("int8-dynamic"), "with_tokenizer: int8-dynamic");
  EXPECT_EQ(planned({"sweep", "precisions", kModel, "--precision", "float32,nf4", "--baseline", "nf4"}),
            (std::vector<std::string>{"nf4", "float32"}));
}

TEST_F(CliBaseline, ARunMeasuresItsStudiesOnTheModelThatItNames) {
  const std::string out = folder_ / "results";
  const ProgramResult result = run_program(
      {"run",         kModel,        "--with",     other_,
       "--precision", "float32,nf4", "--baseline", "other: nf4",
       "-o",          out,           "--skip",     "noise,lengths,ablation,batches,batched-precisions,edge",
       "--corpus",    kText,         "-p",         "a",
       "-n",          "4",           "-r",         "1",
       "--processes", "1",           "--json"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(fs::path(json["model"]["id"].get<std::string>()).filename(), "other");
  EXPECT_EQ(json["other_models"][0]["name"], "with_tokenizer");
  for (const Json& row : json["rows"])
    if (row["scenario"] == "baseline") {
      EXPECT_EQ(row["setting"]["model"], "other");
      EXPECT_EQ(row["setting"]["precision"], "nf4");
    }
}

TEST_F(CliBaseline, PerplexityComparesWithIt) {
  const ProgramResult result =
      run_program({"perplexity", kModel, kText, "--with", other_, "--baseline", "other", "--json"});
  expect_success(result);
  const Json models = Json::parse(result.out)["models"];
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0]["model"], other_.string());
  EXPECT_EQ(models[1]["comparison"]["baseline"], other_.string());
}

TEST_F(CliBaseline, AnUnknownNameListsThoseThereAre) {
  expect_failure(run_program({"tradeoff", kModel, "--with", other_, "--precision", "float32,nf4",
                              "--baseline", "thrid", "--dry-run"}),
                 2,
                 {"--baseline: expected one of with_tokenizer, other, with_tokenizer: float32, "
                  "with_tokenizer: nf4, other: float32, other: nf4, found 'thrid'"});
  expect_failure(
      run_program({"run", kModel, "--precision", "float32,nf4", "--baseline", "int8", "--dry-run"}), 2,
      {"--baseline: expected one of float32, nf4, found 'int8'"});
  expect_failure(run_program({"perplexity", kModel, kText, "--with", other_, "--baseline", "thrid"}), 2,
                 {"--baseline: expected one of " + kModel + ", " + other_.string() + ", found 'thrid'"});
}

}  // namespace
}  // namespace assay::test
