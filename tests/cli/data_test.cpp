// The files of a run are read by programs that others use, and say the same there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;

class CliData : public testing::Test {
 protected:
  static void run_into(const std::string& out) {
    expect_success(run_program({"run", kModel, "-p", "hello", "-n", "12", "--processes", "3", "-r", "2",
                                "--corpus", kText, "-o", out, "--precision", "float32,nf4", "--skip",
                                "noise,lengths,ablation,batches,batched-precisions,edge"}));
  }
  TemporaryFolder folder_;
};

TEST_F(CliData, IsReadByPandasDuckDbAndASchemaValidator) {
  if (std::system("/usr/bin/python3 -c '' 2> /dev/null") != 0) GTEST_SKIP() << "there is no /usr/bin/python3";
  const std::string out = folder_ / "out", said = folder_ / "said";
  run_into(out);
  const std::string tests = source_folder() + "/tests/report/read_reports.py",
                    schema = source_folder() + "/docs/results.schema.json",
                    recompute = source_folder() + "/examples/recompute_verdict.py";
  const int code = std::system(
      ("/usr/bin/python3 " + tests + " " + out + " " + schema + " " + recompute + " > " + said + " 2>&1")
          .c_str());
  const std::string words = read_file(said);
  EXPECT_EQ(code, 0) << words;
  EXPECT_NE(words.find("ok: with_csv"), std::string::npos) << words;
  EXPECT_NE(words.find("ok: with_recomputation"), std::string::npos) << words;
  if (words.find("skipped") != std::string::npos) GTEST_SKIP() << words;
}

TEST_F(CliData, AReportThatCannotBeWrittenChangesNothing) {
  const std::string out = folder_ / "out", again = folder_ / "again";
  run_into(out);
  fs::create_directories(again + "/samples.csv");  // no file can take its place
  write_file(again + "/results.csv", "mine");
  expect_failure(run_program({"report", out + "/results.json", "-o", again}), 1, {"samples.csv"});
  EXPECT_EQ(read_file(again + "/results.csv"), "mine");
  for (const auto& entry : fs::directory_iterator(again))
    EXPECT_TRUE(entry.path().filename() == "results.csv" || entry.path().filename() == "samples.csv")
        << entry.path();
  // Pictures are not worth a result.
  fs::remove_all(again);
  fs::create_directories(again);
  write_file(again + "/plots", "no folder");
  const ProgramResult shown = run_program({"report", out + "/results.json", "-o", again});
  expect_success(shown);
  EXPECT_NE(shown.err.find("Not every plot was written"), std::string::npos) << shown.err;
  EXPECT_EQ(read_file(again + "/results.json"), read_file(out + "/results.json"));
}

TEST_F(CliData, ResumingRemovesWhatAKilledRunLeftBehind) {
  const std::string out = folder_ / "out";
  fs::create_directories(out + "/plots");
  const std::string stale = out + "/results.csv.4194303-0.tmp", mine = out + "/mine.tmp";
  write_file(stale, "half");
  write_file(out + "/plots/a.svg.4194303-12.tmp", "half");
  write_file(mine, "whole");
  expect_success(run_program({"sweep", "lengths", kModel, "--lengths", "4", "-n", "2", "--processes", "1",
                              "-r", "1", "-o", out, "--resume"}));
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_FALSE(fs::exists(out + "/plots/a.svg.4194303-12.tmp"));
  EXPECT_TRUE(fs::exists(mine));
}

// The model is found wherever it stands, as without a file.
TEST_F(CliData, AConfigurationFileBeforeTheModel) {
  write_file(folder_ / "k.json", R"({"model": "absent", "lengths": "4", "max-new-tokens": 2})");
  const std::string k = folder_ / "k.json";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"sweep", "lengths", "--config", k, "--dry-run", kModel},
        {"sweep", "lengths", "-r", "1", "--config", k, kModel, "--dry-run"},
        {"sweep", "lengths", kModel, "--dry-run", "--config=" + k}}) {
    const ProgramResult result = run_program(words);
    expect_success(result);
    EXPECT_NE(result.out.find("1 case takes about"), std::string::npos) << result.out;
  }
}

TEST_F(CliData, WhatIsCutOrMalformedIsSaid) {
  const ProgramResult plan =
      run_program({"sweep", "lengths", kModel, "--lengths", "8,8,5000", "-n", "4", "--dry-run"});
  expect_success(plan);
  EXPECT_NE(plan.err.find("8 tokens: the case was asked for more than once"), std::string::npos) << plan.err;
  EXPECT_NE(plan.err.find("5000 prompt tokens were asked for, but 60 "), std::string::npos) << plan.err;
  const ProgramResult cut = run_program(
      {"generate", kModel, "-p", std::string(200, 'x'), "-n", "4", "--truncate", "left", "--no-progress"});
  expect_success(cut);
  EXPECT_NE(cut.err.find("warning: prompt 1 was cut on the left from "), std::string::npos) << cut.err;
  for (const char* ids : {"1,,2", ",1", "1,"})
    expect_failure(run_program({"generate", kModel, "--ids", ids, "-n", "2"}), 2, {"--ids", "comma"});
  expect_success(run_program({"generate", kModel, "--ids", "[1, 2]", "-n", "2"}));
}

}  // namespace
}  // namespace assay::test
