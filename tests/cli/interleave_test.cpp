// assay interleave, as users type it.
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

class CliInterleave : public testing::Test {
 protected:
  // Three pairs of one case.
  static std::vector<std::string> words(const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "interleave", program_path(), program_path(), kModel, "-n", "4", "--processes", "3", "-r", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  TemporaryFolder folder_;
};

TEST_F(CliInterleave, TwoRunsThatCompareFindsPaired) {
  const std::string out = folder_ / "out";
  const ProgramResult result = run_program(
      words({"--precision", "float32,nf4", "--corpus", kText, "-o", out, "--json", "--margin", "900"}));
  expect_success(result);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["a"], out + "/a/results.json");
  EXPECT_EQ(json["b"], out + "/b/results.json");
  int timed = 0, scored = 0, sized = 0;
  for (const Json& row : json["rows"]) {
    if (row["metric"] == "total_latency_s") {
      ++timed;
      EXPECT_EQ(row["processes"], 3);
      EXPECT_FALSE(row["interval"].is_null())
          << row;  // three pairs of runs of a millisecond: how wide is chance
    }
    if (row["metric"] == "memory_bytes") {
      ++sized;
      EXPECT_EQ(row["ratio"], 1);
    }
    if (row["metric"] == "perplexity") {
      ++scored;
      EXPECT_EQ(row["ratio"], 1);
    }
  }
  EXPECT_EQ(timed, 2);
  EXPECT_EQ(scored, 2);
  EXPECT_EQ(sized, 2);
  EXPECT_EQ(json["all_cases"].size(), 2U) << "latency and throughput";
  const Json a = Json::parse(read_file(out + "/a/results.json")),
             b = Json::parse(read_file(out + "/b/results.json"));
  EXPECT_NE(a["interleave_id"], "");
  EXPECT_EQ(a["interleave_id"], b["interleave_id"]);
  EXPECT_NE(a["run_id"], b["run_id"]);
  const Json again = Json::parse(
      run_program({"compare", out + "/a/results.json", out + "/b/results.json", "--json", "--margin", "900"})
          .out);
  EXPECT_EQ(again["rows"], json["rows"]);
}

TEST_F(CliInterleave, ShowsTheComparisonAndJudgesIt) {
  const ProgramResult shown =
      run_program({"interleave", program_path(), program_path(), kModel, "-n", "16", "-r", "3", "--processes",
                   "10", "--no-perplexity", "--fail-on", "latency:900%,memory:0%"});
  expect_success(shown);
  EXPECT_NE(shown.out.find("float32, prompt 1"), std::string::npos) << shown.out;
  EXPECT_NE(shown.err.find("--fail-on latency:900% holds"), std::string::npos) << shown.err;
  EXPECT_EQ(shown.out.find("perplexity"), std::string::npos) << shown.out;
  // Two pairs are no test.
  expect_failure(run_program({"interleave", program_path(), program_path(), kModel, "-n", "2", "--processes",
                              "2", "-r", "1", "--no-perplexity", "--fail-on", "latency:3%", "--json"}),
                 1, {"2 processes", " --processes 5`"});
}

TEST_F(CliInterleave, RefusesWhatIsNoBuild) {
  const std::string own = program_path(), absent = folder_ / "absent";
  expect_failure(run_program({"interleave", own, absent, kModel}), 1, {absent, "no such file"});
  expect_failure(run_program({"interleave", "/bin/echo", own, kModel}), 1, {"/bin/echo", "found 'echo"});
  expect_failure(run_program({"interleave", own, "/bin/sh", kModel}), 1, {"/bin/sh", "found"});
  write_file(folder_ / "text", "assay");
  expect_failure(run_program({"interleave", own, folder_ / "text", kModel}), 1, {"text"});
  expect_failure(run_program({"interleave", own, own, absent}), 1, {absent});
  expect_failure(run_program({"interleave", own, own}), 2, {"MODEL"});
  expect_failure(run_program(words({"--fail-on", "speed:3%"})), 2, {"--fail-on", "speed:3%"});
  expect_failure(run_program(words({"--margin", "-1"})), 2, {"--margin"});
  expect_failure(run_program(words({"--max-time", "0"})), 2, {"--max-time"});
  expect_failure(run_program(words({"--precision", "float33"})), 2, {"float33"});
  expect_failure(run_program(words({"--corpus", absent})), 1, {absent});
}

}  // namespace
}  // namespace assay::test
