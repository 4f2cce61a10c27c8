// --with: each figure is of the model that its row names, where models differ in size and context.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

// What `assay tradeoff` answers, in JSON, of float32 and one prompt.
Json traded_off(std::vector<std::string> words) {
  words.insert(words.begin(), "tradeoff");
  words.insert(words.end(), {"--precision", "float32", "-p", "a", "-n", "4", "-r", "1", "--processes", "1",
                             "--corpus", kText, "--json"});
  const ProgramResult result = run_program(words);
  expect_success(result);
  return Json::parse(result.out);
}

// The model that ships has 250 times the weights of kModel.
TEST(CliWithFigures, APlanPredictsEachModel) {
  const Json both = traded_off({kModel, "--with", "demo", "--dry-run"})["cases"],
             alone = traded_off({"demo", "--dry-run"})["cases"];
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[1]["label"], "demo: float32");
  EXPECT_EQ(both[1]["predicted_memory_bytes"], alone[0]["predicted_memory_bytes"]);
  EXPECT_LT(both[0]["predicted_memory_bytes"], both[1]["predicted_memory_bytes"]);
  // What was measured for them on a busy machine differs; their weights differ by a factor of hundreds.
  EXPECT_GT(both[1]["predicted_s"].get<double>(), 2 * both[0]["predicted_s"].get<double>());
}

// What a worker may take is that of its own model: the larger one does not fit, the smaller runs.
TEST(CliWithFigures, MemoryIsThatOfEachModel) {
  const ProgramResult result =
      run_program({"tradeoff", kModel, "--with", "demo", "--precision", "float32", "-p", "a", "-n", "4", "-r",
                   "1", "--processes", "1", "--corpus", kText, "--max-memory", "60", "--json"});
  EXPECT_EQ(result.exit_code, 3);
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["status"], "ok") << rows[0]["reason"];
  EXPECT_NE(rows[1]["reason"].get<std::string>().find("out of memory predicted"), std::string::npos);
}

TEST(CliWithFigures, WindowsAreThoseOfTheShortestContext) {
  const Json rows = traded_off({"demo", "--with", kModel})["rows"];
  ASSERT_EQ(rows.size(), 4U);
  for (const Json& row : rows)
    if (row["scenario"] == "perplexity") {
      EXPECT_EQ(row["parameters"]["protocol"].get<std::string>().substr(0, 23), "hf context=64 stride=32")
          << row["label"];
    }
}

}  // namespace
}  // namespace assay::test
