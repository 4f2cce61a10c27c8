// assay bench: the product of its lists, its keys and formats, and what it refuses.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/cpu.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "support/wide_model.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

ProgramResult bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"bench", demo_model().string()});
  if (std::find(arguments.begin(), arguments.end(), "-t") == arguments.end())
    arguments.insert(arguments.end(), {"-t", "2"});
  return run_program(arguments);
}

Json bench_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const ProgramResult result = bench(std::move(arguments));
  expect_success(result);
  return Json::parse(result.out);
}

std::vector<std::string> tests_of(const Json& json) {
  std::vector<std::string> names;
  for (const Json& row : json["rows"]) names.push_back(row["test"]);
  return names;
}

TEST(CliBench, JsonKeys) {
  const Json json = bench_json({"-p", "8", "-n", "4", "-r", "3"});
  EXPECT_EQ(json["status"], "complete");
  EXPECT_EQ(tests_of(json), (std::vector<std::string>{"pp8", "tg4"}));
  for (const Json& row : json["rows"]) {
    for (const char* key : {"test",
                            "precision",
                            "threads",
                            "batch",
                            "prompt_tokens",
                            "new_tokens",
                            "depth",
                            "samples_s",
                            "median_s",
                            "spread",
                            "tokens_per_sec",
                            "bytes_per_token",
                            "flops_per_token",
                            "achieved_gb_s",
                            "achieved_gflops",
                            "roofline_gb_s",
                            "roofline_gflops",
                            "percent_of_roofline",
                            "bound",
                            "kernels",
                            "isa",
                            "warnings",
                            "status",
                            "reason"})
      EXPECT_TRUE(row.contains(key)) << key;
    EXPECT_EQ(row["samples_s"].size(), 3U);
    const double median = row["median_s"];
    auto samples = row["samples_s"].get<std::vector<double>>();
    std::sort(samples.begin(), samples.end());
    EXPECT_EQ(median, samples[1]);
    const double tokens = row["test"] == "pp8" ? 8 : 4;
    EXPECT_NEAR(row["tokens_per_sec"].get<double>() * median, tokens, 1e-9);
    EXPECT_NEAR(row["achieved_gb_s"].get<double>() * median * 1e9,
                row["bytes_per_token"].get<double>() * tokens, 1.0);
    EXPECT_EQ(row["threads"], 2);
    EXPECT_EQ(row["status"], "ok");
    EXPECT_TRUE(row["bound"] == "memory" || row["bound"] == "compute");
    EXPECT_GT(row["percent_of_roofline"], 0);
  }
}

TEST(CliBench, ListsMakeTheProduct) {
  const Json json = bench_json({"-p", "4,0", "-n", "2", "-d", "0,3", "-b", "1,2", "-r", "1"});
  EXPECT_EQ(tests_of(json), (std::vector<std::string>{"pp4", "tg2", "pp4 b2", "tg2 b2", "pp4 @ d3",
                                                      "tg2 @ d3", "pp4 @ d3 b2", "tg2 @ d3 b2"}));
  for (const Json& row : json["rows"]) EXPECT_TRUE(row["spread"].is_null()) << "of one sample";
  const Json two = bench_json({"-p", "4", "-n", "0", "-r", "1", "-t", "1,2", "--precision", "float32,bf16"});
  ASSERT_EQ(two["rows"].size(), 4U);
  EXPECT_EQ(two["rows"][1]["threads"], 2);
  EXPECT_EQ(two["rows"][2]["precision"], "bfloat16");
}

// Weights are read once for a whole batch, keys and values for each sequence.
TEST(CliBench, BytesAndFlopsAreThoseOfTheWork) {
  const Json json = bench_json({"-p", "0", "-n", "2", "-d", "0,64", "-b", "1,4", "-r", "1"});
  const auto& rows = json["rows"];
  const auto figure = [&](std::size_t row, const char* key) { return rows[row][key].get<double>(); };
  EXPECT_LT(figure(1, "bytes_per_token"), 0.26 * figure(0, "bytes_per_token"));
  EXPECT_NEAR(figure(1, "flops_per_token"), figure(0, "flops_per_token"), 1);
  EXPECT_GT(figure(2, "bytes_per_token"), figure(0, "bytes_per_token"));
  EXPECT_GT(figure(2, "flops_per_token"), figure(0, "flops_per_token"));
}

// As in every experiment, a precision of the list says whether its head is quantized.
TEST(CliBench, APrecisionNamesItsHead) {
  const Json json = bench_json({"-p", "0", "-n", "1", "-r", "1", "--precision",
                                "nf4,nf4+head,nf4+head:int8,float32", "--dtype", "bfloat16"});
  const auto& rows = json["rows"];
  ASSERT_EQ(rows.size(), 4u);
  const auto bytes = [&](std::size_t row) { return rows[row]["weight_bytes"].get<double>(); };
  EXPECT_LT(bytes(1), bytes(2));
  EXPECT_LT(bytes(2), bytes(0));
  EXPECT_LT(bytes(0), bytes(3));
  const auto generated = test::run_program(
      {"generate", "demo", "--ids", "1,2", "-n", "1", "--precision", "nf4+head:int8", "--json"});
  test::expect_success(generated);
  EXPECT_NE(generated.out.find("nf4+head:int8"), std::string::npos) << generated.out;
  test::expect_failure(test::run_program({"bench", "demo", "--precision", "nf4+tail"}), 2,
                       {"--precision", "nf4+tail"});
  test::expect_failure(test::run_program({"bench", "demo", "--precision", ","}), 2, {"--precision", "','"});
  test::expect_failure(test::run_program({"bench", "demo", "--precision", "+head"}), 2,
                       {"--precision", "'+head'"});
}

TEST(CliBench, APrecisionIsMeasuredOnce) {
  const Json json = bench_json({"-p", "4", "-n", "0", "-r", "1", "--precision", "nf4,float32,nf4"});
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][1]["precision"], "float32");
}

// What is measured stays where a later model cannot be loaded; where the first cannot there is nothing.
TEST(CliBench, AModelThatCannotBeLoadedIsARow) {
  const TemporaryFolder folder;
  const std::string stored = folder / "nf4";
  test::expect_success(run_program({"quantize", "demo", stored, "--precision", "nf4"}));
  const auto run = [&](const char* precisions) {
    return run_program(
        {"bench", stored, "-p", "4,8", "-n", "0", "-r", "1", "-t", "1", "--json", "--precision", precisions});
  };
  const ProgramResult result = run("nf4,float32");
  EXPECT_EQ(result.exit_code, 3);
  const Json json = Json::parse(result.out);
  const auto& rows = json["rows"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["status"], "ok");
  for (const std::size_t row : {2U, 3U}) {
    EXPECT_EQ(rows[row]["status"], "error");
    EXPECT_EQ(rows[row]["precision"], "float32");
    const std::string reason = rows[row]["reason"];
    EXPECT_NE(reason.find("quantized already"), std::string::npos) << reason;
  }
  test::expect_failure(run("float32,nf4"), 1, {stored, "quantized already", "float32"});
  const ProgramResult dry =
      run_program({"sweep", "precisions", stored, "--precision", "nf4,float32", "--dry-run"});
  EXPECT_NE(dry.out.find(stored + ": the model is quantized already"), std::string::npos) << dry.out;
}

// A flag that only some of the list take is theirs alone; one that none takes is an error.
TEST(CliBench, FlagsThatApplyToNothingAreRefused) {
  for (const std::vector<std::string>& flag : {std::vector<std::string>{"--quantize-head", "int8"},
                                               {"--dtype", "bfloat16"},
                                               {"--smooth-quant=0.5"},
                                               {"--input-scale", "per-tensor"},
                                               {"--calibrator", "minmax"},
                                               {"--calibration", "nowhere.txt"},
                                               {"--include", "*.mlp.*"},
                                               {"--exclude", "*.mlp.*"}}) {
    std::vector<std::string> arguments{"bench", "demo", "-p",          "4",
                                       "-n",    "0",    "--precision", "float32,bfloat16"};
    arguments.insert(arguments.end(), flag.begin(), flag.end());
    const std::string name = flag.front().substr(0, flag.front().find('='));
    test::expect_failure(test::run_program(arguments), 2, {name + ": ", "float32; bfloat16"});
  }
  test::expect_failure(
      test::run_program({"bench", "demo", "--precision", "nf4+head", "--lm-head-search", "int8"}), 2,
      {"--lm-head-search", "nf4+head:nf4"});
}

// 4 layers of 4 heads of 64: a key and a value of each, at 501 positions.
TEST(CliBench, KeysAndValuesInFewerBitsMoveFewerBytes) {
  const auto row_of = [](const char* kv_cache) {
    return bench_json({"-p", "0", "-n", "1", "-d", "500", "-r", "1", "--kv-cache", kv_cache})["rows"][0];
  };
  const Json wide = row_of("bfloat16"), narrow = row_of("int8");
  EXPECT_EQ(narrow["precision"], "float32, KV cache int8");
  EXPECT_DOUBLE_EQ(wide["bytes_per_token"].get<double>() - narrow["bytes_per_token"].get<double>(),
                   501.0 * 2 * 4 * 4 * (64 * 2 - 68));
}

TEST(CliBench, APromptLongerThanAStepReadsTheWeightsAgain) {
  const Json json = bench_json({"-p", "512,513", "-n", "0", "-r", "1", "--precision", "bfloat16"});
  const double one = json["rows"][0]["bytes_per_token"].get<double>() * 512,
               two = json["rows"][1]["bytes_per_token"].get<double>() * 513;
  EXPECT_GT(two, 1.2 * one);
}

TEST(CliBench, Formats) {
  const auto run = [](const std::string& format) {
    const ProgramResult result = bench({"-p", "4", "-n", "2", "-r", "2", "--format", format});
    expect_success(result);
    return lines_of(result.out);
  };
  EXPECT_EQ(run("md").size(), 4U);
  for (const std::string& line : run("table")) EXPECT_LE(line.size(), 80U) << line;
  const auto csv = run("csv");
  ASSERT_EQ(csv.size(), 3U);
  EXPECT_TRUE(csv[0].starts_with("test,status,")) << csv[0];
  EXPECT_EQ(std::count(csv[0].begin(), csv[0].end(), ','), std::count(csv[1].begin(), csv[1].end(), ','));
  const auto jsonl = run("jsonl");
  ASSERT_EQ(jsonl.size(), 2U);
  EXPECT_EQ(Json::parse(jsonl[1])["test"], "tg2");
  const auto llama = run("llama-bench");
  ASSERT_EQ(llama.size(), 4U);
  EXPECT_EQ(llama[0], "| model | size | params | backend | threads | test | t/s |");
  EXPECT_NE(llama[2].find("| pp4 | "), std::string::npos) << llama[2];
  EXPECT_NE(llama[2].find(" ± "), std::string::npos) << llama[2];
}

// As every study: reports in a folder, with rows of what each test is.
TEST(CliBench, WritesAReportWhereAFolderIsGiven) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const Json printed =
      bench_json({"-p", "8", "-n", "4", "-d", "3", "-r", "2", "--precision", "float32,nf4", "-o", out});
  const Json written = Json::parse(read_file(out + "/results.json"));
  EXPECT_EQ(written["status"], "complete");
  ASSERT_EQ(written["rows"].size(), 4U);
  const std::vector<std::string> labels{"pp8 @ d3, float32, 2 threads", "tg4 @ d3, float32, 2 threads",
                                        "pp8 @ d3, nf4, 2 threads", "tg4 @ d3, nf4, 2 threads"};
  for (std::size_t i = 0; i < 4; ++i) {
    const Json &row = written["rows"][i], &values = row["values"];
    EXPECT_EQ(row["scenario"], "bench");
    EXPECT_EQ(row["label"], labels[i]);
    EXPECT_EQ(values["total_latency_s"]["samples"], printed["rows"][i]["samples_s"]);
    for (const char* key : {"tokens_per_sec", "percent_of_roofline", "bytes_per_token"})
      EXPECT_EQ(values[key]["value"], printed["rows"][i][key]) << key;
    EXPECT_FALSE(values.contains("time_to_first_token_s"));
    EXPECT_GT(values["kv_cache_bytes"]["value"], 0);
  }
  EXPECT_NE(read_file(out + "/report.md").find("| pp8 @ d3, nf4, 2 threads |"), std::string::npos);
  EXPECT_FALSE(read_file(out + "/journal.jsonl").empty());
  expect_success(run_program({"report", out + "/results.json"}));
}

TEST(CliBench, IsResumedWhereItWasInterrupted) {
  const TemporaryFolder folder;
  std::vector<std::string> words{
      "bench", demo_model().string(), "-p",    "4", "-n", "300", "-r", "20", "-t", "1",
      "-o",    folder / "out",        "--json"};
  const ProgramResult first = run_program(words, {.interrupts = true, .timeout = std::chrono::seconds(60)});
  EXPECT_EQ(first.exit_code, 130) << first.err;
  EXPECT_EQ(Json::parse(read_file(folder / "out/results.json"))["status"], "interrupted");
  words.emplace_back("--resume");
  words.insert(words.end(), {"--format", "csv"});
  const ProgramResult second = run_program(words);
  expect_success(second);
  const Json json = Json::parse(second.out);
  EXPECT_EQ(tests_of(json), (std::vector<std::string>{"pp4", "tg300"}));
  for (const Json& row : json["rows"]) EXPECT_EQ(row["samples_s"].size(), 20U);
  // All of it is in the journal now.
  const ProgramResult third = run_program(words);
  expect_success(third);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(Json::parse(third.out)["rows"][i]["samples_s"], json["rows"][i]["samples_s"]);
  words[3] = "5";
  expect_failure(run_program(words), 1, {"journal.jsonl", "another plan"});
  expect_failure(bench({"--resume"}), 2, {"--resume", "--output"});
}

TEST(CliBench, ADryRunShowsItsTests) {
  const ProgramResult result = bench({"-p", "512", "-n", "16", "-d", "0,100", "--dry-run"});
  expect_success(result);
  for (const char* test : {"pp512, float32", "tg16, float32", "pp512 @ d100", "tg16 @ d100", "4 cases"})
    EXPECT_NE(result.out.find(test), std::string::npos) << result.out;
}

// Token ids are all that a test needs.
TEST(CliBench, AModelWithoutATokenizerIsMeasured) {
  const TemporaryFolder folder;
  const std::string model = TinyModel().write(folder / "m");
  const ProgramResult result = run_program({"bench", model, "-p", "4", "-n", "2", "-d", "12", "-r", "1"});
  expect_success(result);
  EXPECT_NE(result.out.find("pp4 @ d12"), std::string::npos) << result.out;
}

// What is wrong with a model's files is so for every test.
TEST(CliBench, AWarningIsSaidOnce) {
  const TemporaryFolder folder;
  const std::string model = folder / "model";
  copy_model_fixture("with_tokenizer", model);
  write_file(model + "/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  const ProgramResult all = run_program({"bench", model, "-p", "8,16", "-n", "4", "-r", "2", "-t", "1"});
  expect_success(all);
  const std::size_t at = all.err.find("BertTokenizer");
  ASSERT_NE(at, std::string::npos) << all.err;
  EXPECT_EQ(all.err.find("BertTokenizer", at + 1), std::string::npos) << all.err;
  EXPECT_EQ(all.err.find("warning: " + model), all.err.rfind("warning: ", at)) << all.err;
  // What two of four rows have names their tests, each once.
  wide_llama(96).write(folder.path() / "wide");
  const ProgramResult some = run_program({"bench", folder / "wide", "--precision", "float32,q4_k", "-p",
                                          "8,4", "-n", "0", "-r", "2", "-t", "1"});
  EXPECT_NE(some.err.find("warning: pp8, pp4: 1 of "), std::string::npos) << some.err;
  const ProgramResult one = run_program({"bench", model, "-p", "0", "-n", "4", "-r", "2", "-t", "1"});
  EXPECT_NE(one.err.find("warning: tg4: " + model), std::string::npos) << one.err;
}

TEST(CliBench, BadFlags) {
  expect_failure(bench({"-r", "0"}), 2, {"--repeats", "0"});
  expect_failure(bench({"-t", "0"}), 2, {"--threads", "0"});
  expect_failure(bench({"-p", "0", "-n", "0"}), 2, {"--n-prompt", "--n-gen"});
  for (const char* value : {"", "1,,2", "1,", "-1", "4.5", "many"}) {
    expect_failure(bench({"-p", value}), 2, {"--n-prompt"});
    expect_failure(bench({"-d", value}), 2, {"--n-depth"});
  }
  expect_failure(bench({"-b", "0"}), 2, {"--batch-size", "0"});
  expect_failure(bench({"--max-time", "-1"}), 2, {"--max-time", "-1"});
  expect_failure(bench({"--format", "xml"}), 2, {"--format", "xml", "llama-bench"});
  expect_failure(bench({"--precision", "float32,fp8"}), 2, {"fp8", "nearest"});
  expect_failure(run_program({"bench", "no-such-model"}), 1, {"no-such-model"});
}

TEST(CliBench, LengthsBeyondTheContextAreRefusedFirst) {
  expect_failure(bench({"-p", "4,100000", "-n", "0"}), 1, {"pp100000", "context"});
  expect_failure(bench({"-p", "0", "-n", "2", "-d", "0,100000"}), 1, {"tg2 @ d100000", "context"});
}

TEST(CliBench, ProductsOfPartsAreNamedAndFloat32Alone) {
  expect_failure(bench({"--precision", "nf4", "--float32-matmul", "bf16x3"}), 2, {"--float32-matmul", "nf4"});
  expect_failure(bench({"--float32-matmul", "bf16x9"}), 2, {"--float32-matmul", "bf16x9"});
  if (best_usable_isa() < Isa::avx512bf16) GTEST_SKIP() << "this machine has no fast products of bfloat16";
  const Json json = bench_json(
      {"-p", "4", "-n", "0", "-r", "1", "--precision", "float32,bfloat16", "--float32-matmul", "bf16x3"});
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][0]["precision"], "float32, bf16x3 matmul");
  EXPECT_EQ(json["rows"][1]["precision"], "bfloat16");
}

TEST(CliBench, ThresholdOfOutliersIsTaken) {
  expect_failure(bench({"--precision", "nf4", "--llm-int8-threshold", "3"}), 2,
                 {"--llm-int8-threshold", "nf4"});
  // Without outliers no product looks at all rows together: those that nobody reads are left out.
  const auto flops = [](const char* threshold) {
    const Json json = bench_json(
        {"-p", "8", "-n", "0", "-r", "1", "--precision", "llm-int8", "--llm-int8-threshold", threshold});
    return json["rows"][0]["flops_per_token"].get<double>();
  };
  EXPECT_LT(flops("0"), 0.95 * flops("6"));
}

TEST(CliBench, TimeLimitEndsTheRepeats) {
  const Json json = bench_json({"-p", "4", "-n", "0", "-r", "100000", "--max-time", "0.2"});
  EXPECT_GE(json["rows"][0]["samples_s"].size(), 1U);
  EXPECT_LT(json["rows"][0]["samples_s"].size(), 100000U);
}

TEST(CliBench, InterruptKeepsTheFinishedRows) {
  const ProgramResult result =
      run_program({"bench", demo_model().string(), "-p", "4", "-n", "4", "-r", "100000000", "--json"},
                  {.interrupts = true, .timeout = std::chrono::seconds(20)});
  EXPECT_FALSE(result.is_timed_out);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["status"], "interrupted");
  EXPECT_TRUE(json["rows"].empty());
}

}  // namespace
}  // namespace assay::test
