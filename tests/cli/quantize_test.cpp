// assay quantize as a user runs it, and what the other commands say of its folders.
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/fixtures.h"
#include "support/program.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class CliQuantize : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string out_ = folder_ / "out";

  ProgramResult quantize(std::vector<std::string> more, const ProgramOptions& options = {}) const {
    more.insert(more.begin(), {"quantize", kModel, out_});
    return run_program(more, options);
  }
};

TEST_F(CliQuantize, AnswersWithCoverageSizesAndErrors) {
  const ProgramResult result = quantize({"--precision", "nf4", "--json"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  for (const char* key : {"path", "precision", "dtype", "coverage", "sizes", "tensors", "files"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["path"], out_);
  for (const char* key : {"quantized", "weights_share", "kept"}) EXPECT_TRUE(json["coverage"].contains(key));
  EXPECT_EQ(json["sizes"]["weight_file_bytes_after"], fs::file_size(out_ + "/model.safetensors"));
  EXPECT_EQ(json["tensors"].size(), json["coverage"]["quantized"]);
  std::uint64_t header = 0;
  const std::string file = read_file(out_ + "/model.safetensors");
  std::memcpy(&header, file.data(), sizeof header);
  EXPECT_NEAR(json["sizes"]["bits_per_weight"],
              8.0 * static_cast<double>(file.size() - sizeof header - header) / 17440, 1e-9);
  for (const char* key :
       {"name", "shape", "bytes_before", "bytes_after", "rmse", "snr_db", "max_abs_error", "cosine"})
    EXPECT_TRUE(json["tensors"][0].contains(key)) << key;
  const ProgramResult text = quantize({"--precision", "llm-int8", "--force"});
  expect_success(text);
  EXPECT_NE(text.out.find("SNR"), std::string::npos);
  const double mebibyte = 1024 * 1024;
  const std::string now = fmt::format(
      "{:.1f} MiB now", static_cast<double>(fs::file_size(out_ + "/model.safetensors")) / mebibyte);
  EXPECT_NE(text.out.find(now), std::string::npos) << text.out;
}

// The tokenizer and the keys of a GGUF file are not weights: both commands say the same of it.
TEST_F(CliQuantize, CountsTheBitsOfWeightsAlone) {
  const std::string file = folder_ / "out.gguf";
  const ProgramResult written = run_program({"quantize", "demo", file, "--recipe", "Q4_K_M", "--json"});
  expect_success(written);
  const ProgramResult inspected = run_program({"inspect", file, "--json"});
  expect_success(inspected);
  EXPECT_NEAR(Json::parse(written.out)["sizes"]["bits_per_weight"].get<double>(),
              Json::parse(inspected.out)["types"]["bits_per_weight"].get<double>(), 0.01);
  const ProgramResult text = run_program({"quantize", "demo", file, "--recipe", "Q4_K_M", "--force"});
  expect_success(text);
  EXPECT_NE(text.out.find("tensors are quantized (Q4_K_M), "), std::string::npos) << text.out;
}

TEST_F(CliQuantize, EveryCommandReadsTheFolder) {
  expect_success(quantize({"--precision", "fp4-dq"}));
  const ProgramResult generated = run_program({"generate", out_, "-p", "hello", "-n", "4", "--ignore-end"});
  expect_success(generated);
  EXPECT_NE(generated.err.find("dtype=fp4-dq (as stored)"), std::string::npos) << generated.err;
  expect_success(run_program({"perplexity", out_, kModel + "/config.json"}));
  expect_success(run_program({"tokenize", out_, "--text", "hello"}));
  const ProgramResult bench = run_program({"bench", out_, "-p", "4", "-n", "2", "-r", "1", "--json"});
  expect_success(bench);
  EXPECT_EQ(Json::parse(bench.out)["rows"][0]["precision"], "fp4-dq (as stored)");
  expect_success(run_program({"run", out_, "-p", "x", "-n", "2", "-r", "1", "--processes", "1", "--corpus",
                              kModel + "/config.json", "-o", folder_ / "results"}));
  const ProgramResult inspected = run_program({"inspect", out_, "--json"});
  expect_success(inspected);
  const Json json = Json::parse(inspected.out);
  EXPECT_EQ(json["stored_as"], "fp4-dq (as stored)");
  ASSERT_EQ(json["memory"].size(), 1U);
  EXPECT_EQ(json["memory"][0]["precision"], "fp4-dq");
  for (const Json& tensor : json["tensors"]) EXPECT_EQ(tensor["used"], true) << tensor["name"];
  expect_success(run_program(
      {"generate", out_, "--ids", "1", "-n", "2", "--dtype", "bfloat16", "--quantize-head", "int8"}));
}

TEST_F(CliQuantize, AModelIsNotQuantizedTwice) {
  expect_success(quantize({"--precision", "nf4"}));
  const auto refused = [&](std::vector<std::string> arguments) {
    expect_failure(run_program(arguments), 1, {out_, "quantized already", "nf4"});
  };
  refused({"quantize", out_, folder_ / "twice", "--precision", "nf4"});
  for (const char* precision : {"float32", "bfloat16", "int8", "fp4", "nf4-dq"})
    refused({"generate", out_, "--ids", "1", "-n", "1", "--precision", precision});
  expect_failure(run_program({"generate", out_, "--ids", "1", "-n", "1", "--exclude", "h.0."}), 1,
                 {"quantized already", "exclude"});
  for (const char* precision : {"nf4", "stored"})
    expect_success(run_program({"generate", out_, "--ids", "1", "-n", "1", "--precision", precision}));
  expect_failure(run_program({"generate", kModel, "--ids", "1", "-n", "1", "--precision", "stored"}), 2,
                 {"--precision", "'stored': the model is not quantized"});
  EXPECT_FALSE(fs::exists(folder_ / "twice"));
}

// Its blocks can be read as numbers, of which another precision is made.
TEST_F(CliQuantize, AGgufFileIsDequantizedFirst) {
  const std::string file = (test::fixture("gguf") / "quantized_q8_0.gguf").string();
  expect_failure(run_program({"quantize", file, out_, "--precision", "nf4"}), 1,
                 {file, "quantized already, q8_0", "--precision bfloat16 writes a folder"});
  const auto precision_of = [&](const char* precision) {
    return run_program({"generate", file, "--ids", "1", "-n", "1", "--precision", precision}).err;
  };
  EXPECT_NE(precision_of("nf4").find("dtype=nf4 of dequantized weights"), std::string::npos);
  EXPECT_EQ(precision_of("stored").find("of dequantized weights"), std::string::npos);
}

TEST_F(CliQuantize, WhatExistsIsReplacedOnlyWhenForced) {
  expect_success(quantize({"--precision", "nf4"}));
  const std::string before = read_file(out_ + "/model.safetensors");
  expect_failure(quantize({"--precision", "fp4"}), 1, {out_, "exists already", "--force"});
  EXPECT_TRUE(before == read_file(out_ + "/model.safetensors"));
  expect_success(quantize({"--precision", "fp4", "--force"}));
  EXPECT_FALSE(before == read_file(out_ + "/model.safetensors"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}), 1);
  expect_failure(run_program({"quantize", kModel, kModel, "--precision", "nf4", "--force"}), 2,
                 {kModel, "the model itself"});
  expect_failure(run_program({"quantize", kModel, kModel + "/config.json", "--precision", "nf4"}), 1,
                 {"exists"});
}

TEST_F(CliQuantize, FlagsThatSayNothingSensible) {
  expect_failure(quantize({}), 2, {"--precision"});
  expect_failure(quantize({"--precision", "nf5"}), 2, {"nf5", "nf4"});
  expect_failure(quantize({"--precision", "nf4+head"}), 2, {"LM head", "'nf4'", "'nf4+head'"});
  expect_failure(quantize({"--precision", "float16"}), 2, {"nf4", "llm-int8", "bfloat16", "float16"});
  expect_failure(quantize({"--recipe", "Q8_0"}), 2, {"--recipe", ".gguf"});
  const std::string gguf = (folder_.path() / "m.gguf").string();
  expect_failure(run_program({"quantize", kModel, gguf}), 2, {"--recipe", "Q4_K_M"});
  expect_failure(run_program({"quantize", kModel, gguf, "--recipe", "Q4_K_N"}), 2, {"Q4_K_N", "nearest"});
  expect_failure(run_program({"quantize", kModel, gguf, "--precision", "nf4"}), 2,
                 {"--precision", "--recipe"});
  expect_failure(run_program({"quantize", kModel, gguf, "--recipe", "Q8_0", "--dtype", "float32"}), 2,
                 {"--dtype", "GGUF"});
  expect_failure(quantize({"--precision", "nf4", "--dtype", "int8"}), 2, {"--dtype", "int8"});
  expect_failure(quantize({"--precision", "nf4", "--exclude", "no-such"}), 2,
                 {"--exclude", "no-such", "none"});
  expect_failure(quantize({"--precision", "nf4", "--include", "*.nothing"}), 2, {"--include", "*.nothing"});
  expect_failure(quantize({"--precision", "nf4", "--exclude", "*"}), 1, {"nf4", "nothing"});
  expect_failure(quantize({"--precision", "nf4", "--llm-int8-threshold", "5"}), 2, {"--llm-int8-threshold"});
  expect_failure(run_program({"quantize", kModel, "", "--precision", "nf4"}), 2, {"OUT", "empty"});
  expect_failure(run_program({"quantize", kModel, "/proc/none/out", "--precision", "nf4"}), 1,
                 {"/proc/none"});
  expect_failure(run_program({"generate", kModel, "--ids", "1", "-n", "1", "--exclude", "h.0."}), 2,
                 {"--exclude", "quantized"});
  EXPECT_TRUE(folder_.is_empty());
}

TEST_F(CliQuantize, ChosenModulesAreNamedInResults) {
  const ProgramResult result = run_program({"generate", kModel, "--ids", "1", "-n", "1", "--precision", "nf4",
                                            "--include", "*.mlp.*", "--exclude", "h.1."});
  expect_success(result);
  EXPECT_NE(result.err.find("nf4, only *.mlp.*, without h.1."), std::string::npos) << result.err;
  const ProgramResult all_out =
      run_program({"generate", kModel, "--ids", "1", "-n", "1", "--precision", "nf4", "--exclude", "*"});
  expect_failure(all_out, 1, {"quantizes nothing"});
  expect_success(run_program(
      {"bench", kModel, "-p", "2", "-n", "0", "-r", "1", "--precision", "float32,nf4", "--exclude", "c_fc"}));
}

// The signal comes while the large table is written: nothing is left that looks finished.
class CliQuantizeStopped : public CliQuantize {
 protected:
  std::string model_;
  void SetUp() override { model_ = TinyModel(1 << 20).write(folder_.path() / "model"); }
  pid_t start() const {
    int nothing = open("/dev/null", O_RDWR);
    const pid_t child =
        detail::spawn({"quantize", model_, out_, "--precision", "nf4"}, {}, nothing, nothing, nothing);
    close(nothing);
    // Until it has begun to write.
    for (int i = 0; i < 20000; ++i) {
      for (const auto& entry : fs::directory_iterator(folder_.path()))
        if (entry.path().extension() == ".partial") return child;
      usleep(100);
    }
    return child;
  }
};

TEST_F(CliQuantizeStopped, ByCtrlC) {
  const pid_t child = start();
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  // It may have been done before the signal came; then the folder is whole.
  EXPECT_EQ(WEXITSTATUS(status), fs::exists(out_) ? 0 : 130);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
}

TEST_F(CliQuantizeStopped, ByBeingKilled) {
  const pid_t child = start();
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    EXPECT_FALSE(fs::exists(out_));
  }
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (entry.path().extension() != ".partial") continue;
    EXPECT_NE(run_program({"inspect", entry.path().string()}).exit_code, 0);
  }
}

}  // namespace
}  // namespace assay::test
