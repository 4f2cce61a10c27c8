// assay history and assay compare write their documents as pages too.
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class CliHistory : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "runs/later");
    expect_success(run_program({"sweep", "lengths", kModel, "--lengths", "4,8", "-n", "4", "--processes", "1",
                                "-r", "3", "-o", folder_ / "first"}));
    Json json = Json::parse(read_file(folder_ / "first/results.json"));
    write_file(folder_ / "runs/results.json", json.dump());
    json["created"] = "2999-01-01T00:00:00Z";
    write_file(folder_ / "runs/later/results.json", json.dump());
  }

  TemporaryFolder folder_;
};

TEST_F(CliHistory, ShowsChangesAndWritesTrends) {
  const ProgramResult result = run_program({"history", folder_ / "runs", "-o", folder_ / "trends", "--json"});
  expect_success(result);
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_TRUE(rows[0]["against_run_before"].is_null());
  EXPECT_EQ(rows[1]["against_run_before"]["path"], folder_ / "runs/results.json");
  EXPECT_EQ(rows[1]["against_run_before"]["latency"], "not tested") << "one process is no sample";
  EXPECT_TRUE(rows[1]["against_run_before"]["comparison"].is_object());
  EXPECT_NE(read_file(folder_ / "trends/history.html").find("Latency over the runs"), std::string::npos);
  EXPECT_NE(read_file(folder_ / "trends/history.md").find("| 2 | 1 |"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "trends/plots/history_total_latency_s.svg"));
  expect_failure(run_program({"history", folder_ / "runs", "--metric", "speed"}), 2, {"--metric", "'speed'"});
}

TEST_F(CliHistory, CompareWritesItsDocument) {
  const std::string a = folder_ / "runs/results.json", b = folder_ / "runs/later";
  expect_success(run_program({"compare", a, b, "-o", folder_ / "compared"}));
  const std::string page = read_file(folder_ / "compared/comparison.html");
  for (const std::string& part : {std::string("Comparison of run B with run A"), a, b})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(read_file(folder_ / "compared/comparison.md").find("| Scenario |"), std::string::npos);
}

}  // namespace
}  // namespace assay::test
