// Precisions that read a text first: in every command, and what is said when the text or a flag is wrong.
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

TEST(CliCalibration, EveryCommandTakesItsFlags) {
  TemporaryFolder folder;
  write_file(folder / "corpus.txt",
             "It was a dark night, and the rain came down upon the roof of the old house.");
  const std::vector<std::string> how{"--precision", "int8-static", "--calibrator", "minmax",
                                     "--smooth-quant=0.4"};
  for (std::vector<std::string> arguments : std::vector<std::vector<std::string>>{
           {"generate", "demo", "-p", "Once", "-n", "3", "--json"},
           {"perplexity", "demo", folder / "corpus.txt", "--json"},
           {"bench", "demo", "-p", "8", "-n", "0", "-r", "1", "--format", "json"},
           {"logits", "demo", "--ids", "1,2,3", "-o", folder / "x.npy", "--json"},
           {"run", "demo", "-p", "Once", "-n", "2", "-r", "1", "--corpus", folder / "corpus.txt", "--skip",
            "noise,lengths,ablation,batches,batched-precisions,edge", "--processes", "1", "-o",
            folder / "out", "--quiet"}}) {
    arguments.insert(arguments.end(), how.begin(), how.end());
    const ProgramResult result = run_program(arguments);
    SCOPED_TRACE(arguments[0]);
    expect_success(result);
  }
  const Json results = Json::parse(read_file(folder / "out/results.json"));
  expect_success(run_program({"report", folder / "out/results.json", "-o", folder / "again"}));
  EXPECT_EQ(Json::parse(read_file(folder / "again/results.json"))["model"], results["model"]);
  EXPECT_EQ(results["model"]["dtype"], "int8-static, minmax calibration, SmoothQuant 0.4");
  EXPECT_EQ(results["model"]["quantization"]["saturation"], 0.0);
  EXPECT_EQ(results["model"]["quantization"]["quantized_tensors"], 16);
}

TEST(CliCalibration, WorkerTakesThemToo) {
  const std::string input =
      R"({"op":"load","model":"demo","precision":"int8-static","calibrator":"entropy","smooth_quant":0.5})"
      "\n"
      R"({"op":"load","model":"demo","precision":"int8-static","smooth_quant":-1})"
      "\n"
      R"({"op":"load","model":"demo","precision":"int8-dynamic","input_scale":"per-tensor"})"
      "\n";
  const ProgramResult result = run_program({"worker"}, {.input = input});
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(Json::parse(lines[2])["label"], "int8-dynamic, input scale per tensor") << lines[2];
  EXPECT_EQ(Json::parse(lines[0])["label"], "int8-static, entropy calibration, SmoothQuant 0.5") << lines[0];
  EXPECT_NE(lines[1].find("smooth_quant"), std::string::npos);
}

// A mixed list: flags go to the precisions they belong to.
TEST(CliCalibration, BenchGivesFlagsToTheirPrecisions) {
  const ProgramResult result =
      run_program({"bench", "demo", "-p", "8", "-n", "0", "-r", "1", "--format", "json", "--precision",
                   "float32,nf4,int8-dynamic,int8-static,int4-g128", "--calibrator", "minmax",
                   "--input-scale", "per-tensor", "--smooth-quant"});
  expect_success(result);
  for (const char* label : {"\"float32\"", "\"nf4\"", "int8-dynamic, input scale per tensor, SmoothQuant 0.5",
                            "int8-static, minmax calibration, SmoothQuant 0.5", "\"int4-g128\""})
    EXPECT_NE(result.out.find(label), std::string::npos) << label;
}

TEST(CliCalibration, WrongFlagsAndTextsAreRefused) {
  TemporaryFolder folder;
  write_file(folder / "short.txt", "Too short.");
  write_file(folder / "empty.txt", "");
  const auto refused = [](std::vector<std::string> more, int code, std::initializer_list<std::string> words) {
    more.insert(more.begin(), {"generate", "demo", "-p", "hi", "-n", "1"});
    expect_failure(run_program(more), code, words);
  };
  refused({"--precision", "int8-static", "--calibrator", "best"}, 2, {"--calibrator", "minmax", "best"});
  refused({"--precision", "nf4", "--calibrator", "minmax"}, 2, {"--calibrator", "int8-static", "nf4"});
  refused({"--precision", "nf4", "--smooth-quant"}, 2, {"--smooth-quant", "nf4"});
  refused({"--precision", "int8-static", "--input-scale", "per-tensor"}, 2,
          {"--input-scale", "int8-dynamic"});
  refused({"--precision", "int8-dynamic", "--input-scale", "best"}, 2,
          {"--input-scale", "per-token", "per-tensor", "best"});
  for (const char* alpha : {"2", "-0.1", "nan", "x"})
    refused({"--precision", "int8-dynamic", "--smooth-quant=" + std::string(alpha)}, 2,
            {"--smooth-quant", alpha});
  refused({"--precision", "int8-dynamic", "--calibration", folder / "short.txt"}, 2, {"--calibration"});
  refused({"--precision", "int8-static", "--calibration", folder / "missing.txt"}, 1, {"missing.txt"});
  refused({"--precision", "int8-static", "--calibration", folder / "empty.txt"}, 1, {"empty.txt", "empty"});
  refused({"--precision", "int8-static", "--calibration", folder / "short.txt"}, 1,
          {"short.txt", "32 tokens"});
  // The text that is scored is not the one to calibrate on.
  write_file(folder / "novel.txt", std::string(40, 'a') +
                                       " few words, and then some more of them, again and again: "
                                       "the rain, the roof, the house, the night, the road.");
  expect_failure(run_program({"perplexity", "demo", folder / "novel.txt", "--precision", "int8-static",
                              "--calibration", folder / "novel.txt"}),
                 1, {"novel.txt", "calibrated"});
}

}  // namespace
}  // namespace assay::test
