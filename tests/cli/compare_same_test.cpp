// assay compare of a run with itself.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

class CliCompareSame : public testing::Test {
 protected:
  // One process, which no test could tell from another.
  CliCompareSame() {
    expect_success(run_program({"sweep", "lengths", kModel, "--lengths", "4,8", "-n", "4", "--processes", "1",
                                "-r", "3", "-o", run_}));
  }
  TemporaryFolder folder_;
  const std::string run_ = folder_ / "run", file_ = run_ + "/results.json";
};

TEST_F(CliCompareSame, IsSaidInALineWhereTheFileOrItsBytesAreOne) {
  const std::string copy = folder_ / "copy.json";
  std::filesystem::copy_file(file_, copy);
  for (const std::string& other : {file_, run_, run_ + "/../run/results.json", copy}) {
    const ProgramResult result = run_program({"compare", file_, other, "--fail-on", "latency:3%,size:0%"});
    expect_success(result);
    EXPECT_NE(result.out.find("A and B are the same run: nothing can differ between them."),
              std::string::npos)
        << result.out;
    EXPECT_EQ((result.out + result.err).find("ndecided"), std::string::npos) << result.out << result.err;
    EXPECT_LE(lines_of(result.out).size(), 4U) << result.out;
  }
}

TEST_F(CliCompareSame, HasEveryRowInJsonWithoutADifference) {
  const ProgramResult result = run_program({"compare", run_, run_, "--json"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["same_run"], true);
  EXPECT_GE(json["rows"].size(), 6U);
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["verdict"], "no difference") << row;
    EXPECT_EQ(row["ratio"], 1) << row;
    EXPECT_EQ(row["untested"], "") << row;
  }
  // What it did not measure is not held against it.
  expect_failure(run_program({"compare", run_, run_, "--fail-on", "perplexity:1%", "--json"}), 1,
                 {"no case in common"});
}

// The same figures of another run are two processes, which are no test.
TEST_F(CliCompareSame, IsNotSaidOfTwoRunsOfOneProcess) {
  Json other = Json::parse(read_file(file_));
  other["created"] = "2026-12-01T00:00:00Z";
  write_file(folder_ / "other.json", other.dump());
  const ProgramResult result = run_program({"compare", file_, folder_ / "other.json", "--json"});
  expect_success(result);
  EXPECT_EQ(Json::parse(result.out)["same_run"], false);
  expect_failure(run_program({"compare", file_, folder_ / "other.json", "--fail-on", "latency:3%", "--json"}),
                 1, {"one process", "--processes 5"});
}

}  // namespace
}  // namespace assay::test
