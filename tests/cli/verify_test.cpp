// assay verify repeats a run and says what is reproduced.
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using VerifyJson = nlohmann::json;

class CliVerify : public testing::Test {
 protected:
  void SetUp() override {
    expect_success(
        run_program({"run", kModel, "-p", "hello", "-n", "4", "--processes", "1", "-r", "2", "--corpus",
                     kText, "--precision", "float32,nf4", "--skip",
                     "noise,lengths,ablation,batches,batched-precisions,edge", "-o", out_, "--quiet"}));
  }
  TemporaryFolder folder_;
  const std::string out_ = folder_ / "out";
};

TEST_F(CliVerify, RepeatsTheRunAndFindsItsCountedFiguresAgain) {
  const ProgramResult result = run_program({"verify", out_, "--json", "--rows", "perplexity"});
  const VerifyJson json = VerifyJson::parse(result.out);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  ASSERT_EQ(json["rows"].size(), 2U);
  for (const VerifyJson& row : json["rows"]) {
    EXPECT_EQ(row["scenario"], "perplexity");
    EXPECT_EQ(row["outcome"], "reproduced");
  }
  // One process is none that a test of speed can rest on.
  const ProgramResult all = run_program({"verify", out_, "--against", out_});
  EXPECT_EQ(all.exit_code, 1) << all.out << all.err;
  EXPECT_NE(all.out.find("cannot tell"), std::string::npos);
  EXPECT_NE(all.out.find("Generated ids"), std::string::npos);
}

TEST_F(CliVerify, FindsOneWrongDigit) {
  VerifyJson json = VerifyJson::parse(read_file(out_ + "/results.json"));
  for (VerifyJson& row : json["rows"])
    if (row["scenario"] == "perplexity" && row["label"] == "nf4")
      row["values"]["perplexity"]["value"] = row["values"]["perplexity"]["value"].get<double>() * (1 + 1e-9);
  write_file(folder_ / "other.json", json.dump());
  const ProgramResult result = run_program({"verify", out_, "--against", folder_ / "other.json"});
  EXPECT_EQ(result.exit_code, 4) << result.out << result.err;
  EXPECT_NE(result.out.find("differs"), std::string::npos);
}

TEST_F(CliVerify, RefusesWhatItCannotRepeat) {
  expect_failure(run_program({"verify", out_, "--rows", "nothing"}), 2, {"--rows", "'nothing'"});
  VerifyJson json = VerifyJson::parse(read_file(out_ + "/results.json"));
  json["command"] = "assay dance";
  write_file(folder_ / "other.json", json.dump());
  expect_failure(run_program({"verify", folder_ / "other.json"}), 1, {"assay dance"});
  expect_failure(run_program({"verify", out_, "--against", out_, "-o", folder_ / "x"}), 2, {"--against"});
}

// One sentence, and nothing is measured.
TEST_F(CliVerify, RefusesAnotherModel) {
  VerifyJson json = VerifyJson::parse(read_file(out_ + "/results.json"));
  json["model"]["sha256"] = std::string(64, '0');
  write_file(folder_ / "other.json", json.dump());
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"-o", folder_ / "x"}}) {
    std::vector<std::string> command{"verify", folder_ / "other.json"};
    command.insert(command.end(), more.begin(), more.end());
    const ProgramResult result = run_program(command);
    expect_failure(result, 1, {"SHA-256", std::string(64, '0')});
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
  expect_failure(run_program({"verify", out_, "--against", folder_ / "other.json"}), 1, {"different models"});
  const ProgramResult moved = run_program({"verify", out_, "--model-path", folder_ / "gone"});
  expect_failure(moved, 1, {folder_ / "gone"});
  EXPECT_EQ(lines_of(moved.err).size(), 1U) << moved.err;
  for (auto& [name, value] : json["configuration"].items())
    if (name == "--model") value = folder_ / "gone";
  write_file(folder_ / "other.json", json.dump());
  expect_failure(run_program({"verify", folder_ / "other.json"}), 1, {folder_ / "gone", "--model-path"});
  expect_failure(run_program({"verify", out_, "--rows", "perplexities"}), 2, {"nearest is 'perplexity'"});
}

// What is said of the plan is of the rows that are repeated, and names no folder that is gone afterwards.
TEST(CliVerifyPlan, IsThatOfTheChosenRows) {
  TemporaryFolder folder;
  const std::string out = folder / "out", kept = folder / "kept";
  expect_success(run_program({"run", kModel, "-p", "hello", "-n", "4", "--corpus", kText, "--precision",
                              "float32,nf4", "--budget", "1s", "--skip", "noise,edge", "-o", out}));
  const auto chosen_s = [](const std::string& of) {
    double all = 0;
    const VerifyJson json = VerifyJson::parse(read_file(of + "/results.json"));
    for (const VerifyJson& study : json["budget"]["studies"]) all += study["predicted_s"].get<double>();
    return all;
  };
  const ProgramResult result = run_program({"verify", out, "--rows", "baseline", "-o", kept});
  EXPECT_NE(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.err.find("assay-verify"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("Left out"), std::string::npos) << result.err;
  EXPECT_LT(chosen_s(kept), chosen_s(out));
  EXPECT_FALSE(std::filesystem::exists(kept + "/verify.json"));
}

}  // namespace
}  // namespace assay::test
