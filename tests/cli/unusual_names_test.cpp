// Folders whose names are no UTF-8, as disks of older systems have them, through workers and reports.
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;

class CliUnusualNames : public testing::Test {
 protected:
  CliUnusualNames() { copy_model_fixture("with_tokenizer", model_); }
  ProgramResult run(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"run",
                                   model_,
                                   "-o",
                                   folder_ / "re\xE9sults",
                                   "-p",
                                   "a",
                                   "-n",
                                   "2",
                                   "--precision",
                                   "float32",
                                   "--processes",
                                   "1",
                                   "--repeats",
                                   "2",
                                   "--noise-pairs",
                                   "0",
                                   "--quiet",
                                   "--skip",
                                   "edge,lengths,ablation,batches,batched-precisions"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  TemporaryFolder folder_;
  const std::string model_ = folder_ /
                             "mod\xFF"
                             "el";
};

TEST_F(CliUnusualNames, AModelIsMeasuredInWorkers) {
  const std::string text = folder_ / "t\xE9xt.txt";
  write_file(text, read_file(kText));
  const ProgramResult result = run({"--corpus", text});
  expect_success(result);
  const fs::path out = folder_ / "re\xE9sults";
  const auto results = nlohmann::json::parse(read_file(out / "results.json"));
  EXPECT_NE(results["model"]["id"].get<std::string>().find("mod\\xffel"), std::string::npos);
  EXPECT_NE(results["model"]["path"].get<std::string>().find("mod\\xffel"), std::string::npos);
  EXPECT_EQ(results["status"], "complete");
  for (const char* file : {"results.csv", "report.md"})
    EXPECT_EQ(read_file(out / file).find('\xFF'), std::string::npos) << file;
  expect_success(run_program({"report", (out / "results.json").string(), "-o", folder_ / "again"}));
}

TEST_F(CliUnusualNames, EveryCommandTakesThem) {
  expect_success(run_program({"generate", model_, "-p", "a", "-n", "2", "--json"}));
  expect_success(run_program({"inspect", model_, "--json"}));
  expect_success(run_program({"tokenize", model_, "--text", "a", "--json"}));
  expect_success(run_program({"bench", model_, "-p", "4", "-n", "2", "-r", "1"}));
  expect_success(run_program({"quantize", model_, folder_ / "o\xFFut", "--precision", "nf4", "--json"}));
  EXPECT_TRUE(fs::exists(folder_ / "o\xFFut/model.safetensors"));
}

// Results show such a name and do not hold it: whoever verifies them says where the model lies.
TEST_F(CliUnusualNames, VerifyingTakesThem) {
  expect_success(run());
  const ProgramResult result = run_program({"verify", folder_ / "re\xE9sults/results.json", "--model-path",
                                            model_, "--drift", "1000000", "--json", "--quiet"});
  EXPECT_NE(result.out.find("\"schema\": \"assay.verification\""), std::string::npos) << result.err;
}

TEST_F(CliUnusualNames, ErrorsShowThem) {
  expect_failure(run_program({"generate", folder_ / "n\xFFone", "-p", "a"}), 1, {"no such folder"});
}

}  // namespace
}  // namespace assay::test
