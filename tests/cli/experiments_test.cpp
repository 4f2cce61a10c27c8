// assay sweep, ablate, probe, tradeoff, run, compare and history, as users type them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "assay/base/process.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<std::string> sweep_of(std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"sweep", "lengths",     kModel, "--lengths", "4,8", "-n",
                                    "4",     "--processes", "1",    "-r",        "3"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(CliSweep, GivesRowsAsJson) {
  const ProgramResult result = run_program(sweep_of({"--json"}));
  expect_success(result);
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["rows"].size(), 2U);
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["status"], "ok");
    EXPECT_EQ(row["values"]["total_latency_s"]["samples"].size(), 3U);
    for (const char* tag : {"percent_of_roofline", "measured_memory_bytes", "predicted_memory_bytes",
                            "kv_cache_bytes", "bytes_per_token", "flops_per_token"})
      EXPECT_TRUE(row["values"].contains(tag)) << tag;
    EXPECT_FALSE(row["parameters"]["bound"].get<std::string>().empty());
    EXPECT_FALSE(row["parameters"]["largest_gap"].get<std::string>().empty());
  }
}

TEST(CliSweep, PredictedMemoryIsNearWhatIsMeasured) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer's own memory counts too";
  const ProgramResult result = run_program({"sweep", "precisions", "demo", "--precision",
                                            "float32,bfloat16,nf4+head", "-n", "4", "-r", "1", "--json"});
  expect_success(result);
  const Json rows = Json::parse(result.out)["rows"];
  for (const Json& row : rows) {
    const double predicted = row["values"]["predicted_memory_bytes"]["value"],
                 measured = row["values"]["measured_memory_bytes"]["value"];
    EXPECT_LT(measured, predicted + (24 << 20)) << row["label"];
    EXPECT_GT(measured, 0.3 * predicted) << row["label"];
  }
}

TEST(CliSweep, OtherAxes) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"sweep", "batches", kModel, "--batch-size", "1,2", "-p", "a", "-p", "b c"},
        {"sweep", "threads", kModel, "-t", "1,2", "-p", "a"},
        {"sweep", "precisions", kModel, "--precision", "float32,fp16,int8", "-p", "a"},
        {"ablate", "padding", kModel, "-p", "a", "-p", "b c d"},
        {"ablate", "cache", kModel, "--lengths", "4"},
        {"tradeoff", kModel, "--precision", "float32,nf4", "-p", "a", "--corpus", kText}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"-n", "4", "-r", "2", "--processes", "1", "--json"});
    SCOPED_TRACE(all[0] + " " + all[1]);
    const ProgramResult result = run_program(all);
    expect_success(result);
    EXPECT_GE(Json::parse(result.out)["rows"].size(), 2U);
  }
}

// Memory, speed and quality of a precision in one row.
TEST(CliTradeoff, RunsThePerplexityToo) {
  const ProgramResult result =
      run_program({"tradeoff", kModel, "--precision", "float32,nf4", "-p", "a", "--corpus", kText, "-n", "4",
                   "-r", "2", "--processes", "2", "--json"});
  expect_success(result);
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 5U);  // the last is that of the divergence
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rows[i]["scenario"], "trade-off");
    EXPECT_EQ(rows[i + 2]["scenario"], "perplexity");
    EXPECT_EQ(rows[i]["label"], rows[i + 2]["label"]);
    EXPECT_EQ(rows[i]["values"]["perplexity"]["value"], rows[i + 2]["values"]["perplexity"]["value"]);
  }
  // What cannot be scored is known before anything is written.
  const TemporaryFolder folder;
  expect_failure(run_program({"tradeoff", kModel, "--precision", "float32", "--corpus", folder / "absent",
                              "-o", folder / "out"}),
                 1, {"absent"});
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
}

TEST(CliStudies, HelpShowsTheirOptions) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"sweep", "lengths"},
                                                {"sweep", "precisions"},
                                                {"sweep", "batches"},
                                                {"sweep", "threads"},
                                                {"ablate", "cache"},
                                                {"ablate", "padding"},
                                                {"probe"},
                                                {"tradeoff"}}) {
    std::vector<std::string> all = words;
    all.emplace_back("--help");
    const ProgramResult help = run_program(all);
    expect_success(help);
    EXPECT_NE(help.out.find("--max-new-tokens"), std::string::npos) << words.back();
    EXPECT_NE(help.out.find("Example: assay " + words.front()), std::string::npos) << words.back();
  }
  const ProgramResult lengths = run_program({"sweep", "lengths", "--help"});
  EXPECT_NE(lengths.out.find("[32,128,512,0]"), std::string::npos) << lengths.out;
  const std::string run = run_program({"run", "--help"}).out;
  for (const char* word : {"--lengths", "--ablation-lengths", "--batch-size", "--noise-pairs", "--corpus",
                           "batches,batched-precisions,perplexity,task,divergence,edge"})
    EXPECT_NE(run.find(word), std::string::npos) << word;
}

TEST(CliSweep, ADryRunPredictsAndRunsNothing) {
  const TemporaryFolder folder;
  const ProgramResult result = run_program(sweep_of({"--dry-run", "--json", "-o", folder / "out"}));
  expect_success(result);
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["cases"].size(), 2U);
  EXPECT_GT(json["cases"][0]["predicted_s"].get<double>(), 0);
  EXPECT_GT(json["cases"][0]["predicted_memory_bytes"].get<double>(), 0);
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
  const ProgramResult all = run_program({"run", kModel, "--dry-run", "-n", "4"});
  expect_success(all);
  EXPECT_NE(all.out.find("edge prompts"), std::string::npos);
}

// Whatever its first precision is.
TEST(CliSweep, FlagsGoToEveryPrecisionOfTheListThatTakesThem) {
  for (const char* list : {"float32,nf4", "nf4,float32"}) {
    const ProgramResult result = run_program(
        {"sweep", "precisions", kModel, "--precision", list, "--dtype", "bfloat16", "--dry-run", "--json"});
    expect_success(result);
    std::vector<std::string> names;
    const Json json = Json::parse(result.out);
    for (const Json& what : json["cases"]) names.push_back(what["label"]);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"float32", "nf4, dtype bfloat16"})) << list;
  }
  expect_failure(
      run_program({"sweep", "precisions", kModel, "--precision", "float32,nf4", "--smooth-quant=0.5"}), 2,
      {"--smooth-quant", "float32; nf4"});
}

TEST(CliSweep, BadFlags) {
  expect_failure(run_program({"sweep", "lengths", kModel, "-r", "0"}), 2, {"--repeats", "0"});
  expect_failure(run_program({"sweep", "lengths", kModel, "--lengths", "4,x"}), 2, {"--lengths", "x"});
  expect_failure(run_program({"sweep", "batches", kModel, "--batch-size", "0"}), 2,
                 {"--batch-size: expected whole numbers from 1, found 0"});
  expect_failure(run_program({"sweep", "precisions", kModel, "--precision", "float32,nf5"}), 2,
                 {"nf5", "nf4"});
  expect_failure(run_program(sweep_of({"--resume"})), 2, {"--resume", "--output"});
  expect_failure(run_program(sweep_of({"--narrow", "0"})), 2, {"--narrow"});
  expect_failure(run_program(sweep_of({"--time", "-1"})), 2, {"--time", "-1"});
  expect_failure(run_program(sweep_of({"-o", ""})), 2, {"--output", "empty"});
  expect_failure(run_program(sweep_of({"--base", ""})), 2, {"--base", "empty"});
  expect_failure(run_program({"sweep", "width", kModel}), 2, {"unknown command 'width' behind sweep"});
  expect_failure(run_program({"ablate", "cache", kModel, "-n", "64"}), 1, {"64", "context"});
  expect_failure(run_program({"run", kModel, "--skip", "nothing", "--corpus", kText}), 2,
                 {"--skip", "nothing"});
  expect_failure(run_program(sweep_of({"--max-time", "-1"})), 2, {"--max-time", "-1"});
  expect_failure(run_program({"sweep", "batches", kModel, "--padding", "middle"}), 2,
                 {"--padding", "middle"});
  expect_failure(run_program({"sweep", "threads", kModel, "-t", "0"}), 2, {"--threads", "0"});
  expect_failure(run_program({"sweep", "lengths", "/no/such/model"}), 1, {"/no/such/model"});
}

TEST(CliSweep, AMemoryLimitOfAWorkerIsARow) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer's own memory counts too";
  // The weights of float32 take 18 MB, those of nf4 with its head 3.
  const ProgramResult result =
      run_program({"sweep", "precisions", "demo", "--precision", "nf4+head,float32", "-t", "1", "-n", "4",
                   "-r", "2", "--json", "--worker-memory", "22"});
  EXPECT_EQ(result.exit_code, 3) << result.err << result.out;
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["status"], "ok") << rows[0]["reason"];
  EXPECT_EQ(rows[1]["status"], "error");
  const auto reason = rows[1]["reason"].get<std::string>();
  EXPECT_TRUE(reason.starts_with("not enough memory") && reason.ends_with("MiB (--worker-memory)")) << reason;
}

TEST(CliSweep, ACaseThatTakesTooLongIsARow) {
  // Without the cache 900 tokens are computed 100 times.
  const ProgramResult result =
      run_program({"ablate", "cache", "demo", "--lengths", "8,900", "-n", "100", "-r", "1", "-t", "1",
                   "--processes", "1", "--case-timeout", "2", "--json"},
                  {.timeout = std::chrono::minutes(5)});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  const Json rows = Json::parse(result.out)["rows"];
  EXPECT_NE(rows[3]["reason"].get<std::string>().find("timed out"), std::string::npos) << rows[3];
  EXPECT_EQ(rows[3]["status"], "error");
}

TEST(CliSweep, AJournalThatWasTamperedWithIsRefusedByName) {
  const TemporaryFolder folder;
  expect_success(run_program(sweep_of({"-o", folder / "out", "--json"})));
  const std::string file = folder / "out/journal.jsonl", sound = read_file(file);
  const std::string head = sound.substr(0, sound.find('\n') + 1);
  std::string sample = sound;
  const std::size_t at = sample.find("\"total_latency_s\":");
  ASSERT_NE(at, std::string::npos);
  sample.insert(at + 18, "\"x\",\"y\":");
  for (const std::string& text :
       {sample, head + "{\"kind\":1,\"key\":\"\",\"data\":1}\n", std::string("{\"journal\":\"1\"}\n"),
        std::string("{\"journal\":1,\"plan\":7}\n"), std::string("[1]\n")}) {
    write_file(file, text);
    const ProgramResult result = run_program(sweep_of({"-o", folder / "out", "--resume", "--json"}));
    expect_failure(result, 1, {"journal.jsonl"});
    EXPECT_EQ(result.err.find("json.exception"), std::string::npos) << result.err;
  }
}

TEST(CliSweep, MemoryThatCannotBeHadIsPredicted) {
  const ProgramResult result = run_program(sweep_of({"--max-memory", "1", "--json"}));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(Json::parse(result.out)["rows"][0]["reason"].get<std::string>().find("out of memory predicted"),
            std::string::npos);
}

TEST(CliSweep, KilledAtTwentyMomentsAndResumedItHoldsEveryCaseOnce) {
  const TemporaryFolder folder;
  std::vector<std::string> words = {
      "sweep",        "batches", kModel,     "--batch-size", "1,2,3", "-p", "a",  "-p",
      "b c",          "-p",      "d",        "-n",           "16",    "-r", "40", "-o",
      folder / "out", "--json",  "--resume", "--processes",  "1"};
  std::srand(7);
  int killed = 0;
  for (int i = 0; i < 20; ++i) {
    const ProgramResult result =
        run_program(words, {.timeout = std::chrono::milliseconds(60 + std::rand() % 700)});
    killed += result.is_timed_out ? 1 : 0;
  }
  EXPECT_GE(killed, 3);
  const ProgramResult result = run_program(words);
  expect_success(result);
  const Json json = Json::parse(result.out);
  std::set<std::string> labels;
  for (const Json& row : json["rows"]) {
    labels.insert(row["label"]);
    EXPECT_EQ(row["status"], "ok");
    EXPECT_EQ(row["values"]["total_latency_s"]["samples"].size(), 40U) << row["label"];
  }
  EXPECT_EQ(json["rows"].size(), 3U);
  EXPECT_EQ(labels.size(), 3U);
  // Another plan is not resumed.
  words[4] = "1,2";
  expect_failure(run_program(words), 1, {"journal.jsonl", "another plan"});
}

TEST(CliSweep, TwoRunsIntoOneFolder) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "out");
  const FolderLock lock(folder / "out");
  expect_failure(run_program(sweep_of({"-o", folder / "out"})), 1, {"another run"});
}

TEST(CliConfig, JsonAndTomlAndFlagsThatWin) {
  const TemporaryFolder folder;
  write_file(folder / "a.json",
             R"({"model": ")" + kModel +
                 R"(", "lengths": [4, 8], "max-new-tokens": 4, "processes": 1, "repeats": 2})");
  write_file(folder / "a.toml",
             "lengths = [4, 8]\nmax-new-tokens = 4\nprocesses = 1\nrepeats = 2\nno-cache = true\n");
  const auto rows_of = [](const ProgramResult& result) {
    expect_success(result);
    return Json::parse(result.out)["rows"];
  };
  Json rows = rows_of(run_program({"sweep", "lengths", "--config", folder / "a.json", "--json"}));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["values"]["total_latency_s"]["samples"].size(), 2U);
  rows = rows_of(run_program(
      {"sweep", "lengths", kModel, "--config", folder / "a.toml", "--json", "--lengths", "5", "-r3"}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["label"], "5 tokens");
  EXPECT_EQ(rows[0]["parameters"]["cache"], "off");
  EXPECT_EQ(rows[0]["values"]["total_latency_s"]["samples"].size(), 3U);
  // What was in force lies beside the results, and can be given again.
  rows_of(run_program({"sweep", "lengths", "--config", folder / "a.json", "--json", "-o", folder / "out"}));
  rows = rows_of(run_program({"sweep", "lengths", "--config", folder / "out/config.json", "--json"}));
  EXPECT_EQ(rows.size(), 2U);
}

TEST(CliConfig, FieldsOfTheConfigurationAreReadAndKeptWhole) {
  const TemporaryFolder folder;
  write_file(folder / "a.json", R"({"model": ")" + kModel +
                                    R"(", "precision": "nf4", "include": ["*.mlp.*", "c_attn"],
                                    "allow_non_finite": true, "kv-cache": "int8", "threads": 1,
                                    "prompt": "a", "max-new-tokens": 2, "repeats": 1})");
  const std::string label = "nf4, only *.mlp.* c_attn, KV cache int8, NaN as 0, 1 thread";
  for (const std::string& file : {folder / "a.json", folder / "out/config.json"}) {
    const ProgramResult result =
        run_program({"sweep", "precisions", "--config", file, "--json", "-o", folder / "out"});
    expect_success(result);
    EXPECT_EQ(Json::parse(result.out)["rows"][0]["label"], label) << file;
  }
}

TEST(CliConfig, BadFiles) {
  const TemporaryFolder folder;
  write_file(folder / "unknown.json", R"({"lenghts": [4]})");
  expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "unknown.json"}), 1,
                 {"unknown.json", "lenghts", "lengths"});
  write_file(folder / "broken.json", R"({"lengths": )");
  expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "broken.json"}), 1,
                 {"broken.json", "JSON"});
  write_file(folder / "deep.json", R"({"lengths": {"a": 1}})");
  expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "deep.json"}), 1,
                 {"deep.json", "lengths"});
  for (const auto& [text, word] : {std::pair{"prompt = \"x\n", "line 1: not valid TOML"},
                                   {"lengths = 4\nx\n", "line 2"},
                                   {"[a]\nb = 1\n", "key 'a'"},
                                   {"repeats = 3\nrepeats = 4\n", "line 2: not valid TOML"}}) {
    write_file(folder / "bad.toml", text);
    expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "bad.toml"}), 1,
                   {"bad.toml", word});
  }
  write_file(folder / "list.toml", "lengths = [4,\n  8,\n]\nrepeats = 1\n");
  expect_success(run_program({"sweep", "lengths", kModel, "--config", folder / "list.toml", "--dry-run"}));
  write_file(folder / "unknown.toml", "lenghts = 4\n");
  expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "unknown.toml"}), 1,
                 {"unknown.toml", "lenghts"});
  expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "absent.json"}), 1,
                 {"absent.json"});
  expect_failure(run_program({"sweep", "lengths", kModel, "--config", ""}), 2, {"--config"});
  // A value that its flag refuses names the file too; one of the command line does not.
  write_file(folder / "value.toml", "repeats = \"many\"\nthreads = 0\n");
  for (const char* flag : {"--repeats", "--threads"})
    expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "value.toml",
                                flag == std::string("--repeats") ? "--threads=1" : "--repeats=1"}),
                   2, {"value.toml: ", flag});
  const ProgramResult own = run_program(
      {"sweep", "lengths", kModel, "--config", folder / "value.toml", "--repeats=few", "--threads=1"});
  EXPECT_EQ(own.err.find("value.toml: "), std::string::npos) << own.err;
  // What says nothing must not quietly mean the defaults.
  const std::pair<const char*, const char*> kBroken[] = {
      {R"({"no-cache": "yes"})", "no-cache"},
      {R"({"no-cache": 1})", "no-cache"},
      {R"({"repeats": []})", "repeats"},
      {R"({"repeats": null})", "found null"},
      {R"({"help": true})", "unknown key 'help'"},
      {"[1, 2]", "found a JSON array"},
      {"7", "found a JSON number"},
      {"", "found an empty file"},
      {"[sweep]\n", "sweep"},
      {"[sweep\n", "line 1: not valid TOML"},
      {"precision = [\"nf4\"\n", "not valid TOML"},
      {R"({"isa": "avx2", "isa": "scalar"})", "duplicate key 'isa'"},
      {"{", "line 1"}};
  for (const auto& [text, word] : kBroken) {
    write_file(folder / "broken.cfg", text);
    expect_failure(run_program({"sweep", "lengths", kModel, "--config", folder / "broken.cfg"}), 1,
                   {"broken.cfg", word});
  }
}

TEST(CliConfig, ValuesThatAreEmptyOrLookLikeFlags) {
  const TemporaryFolder folder;
  // The folder of no name must not take the next word for its own.
  write_file(folder / "empty.json", R"({"output": "", "lengths": 4, "repeats": 1, "max-new-tokens": 2})");
  expect_failure(
      run_program({"sweep", "lengths", kModel, "--config", folder / "empty.json"}, {.folder = folder.path()}),
      2, {"--output", "empty"});
  write_file(folder / "flag.json",
             R"({"model": [")" + kModel + R"("], "prompt": ["--help"], "batch-size": 1, "repeats": 1,
                 "max-new-tokens": 2, "json": true})");
  const ProgramResult result = run_program({"sweep", "batches", "--config", folder / "flag.json"});
  expect_success(result);
  EXPECT_EQ(Json::parse(result.out)["rows"].size(), 1U);
}

class CliCompare : public testing::Test {
 protected:
  CliCompare() {
    const ProgramResult result = run_program({"sweep", "lengths", kModel, "--lengths", "4,8", "-n", "4",
                                              "--processes", "4", "-r", "2", "-o", folder_ / "a"});
    expect_success(result);
    sound_ = Json::parse(read_file(folder_ / "a/results.json"));
    // Real times depend on what else the machine does: these do not.
    for (Json& row : sound_["rows"])
      for (auto& [tag, value] : row["values"].items()) {
        int i = 0;
        for (Json& sample : value["samples"]) sample = value["value"].get<double>() * (1 + 0.001 * ++i);
      }
    write_file(folder_ / "a/results.json", sound_.dump());
  }
  std::string changed(const std::string& name, const Json& json) {
    write_file(folder_ / name, json.dump());
    return folder_ / name;
  }
  Json scaled(double factor) const {
    Json json = sound_;
    int i = 0;  // not all the same: the ranks have no ties
    for (Json& sample : json["rows"][1]["values"]["total_latency_s"]["samples"])
      sample = sample.get<double>() * (factor + 0.0001 * ++i);
    return json;
  }
  TemporaryFolder folder_;
  Json sound_;
};

TEST_F(CliCompare, FindsWhatIsSlowerAndFailsOnIt) {
  const std::string a = folder_ / "a/results.json";
  Json later = sound_;
  later["created"] = "2026-12-01T00:00:00Z";
  const std::string b = changed("later.json", later);
  const ProgramResult same =
      run_program({"compare", a, b, "--margin", "500", "--fail-on", "slower:3%", "--json"});
  expect_success(same);
  const Json same_rows = Json::parse(same.out)["rows"];
  EXPECT_GE(same_rows.size(), 6U);
  for (const Json& row : same_rows) EXPECT_EQ(row["verdict"], "no difference") << row;
  const std::string slow = changed("slow.json", scaled(20));
  const ProgramResult result = run_program({"compare", a, slow, "--fail-on", "slower:3%", "--json"});
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const Json json = Json::parse(result.out);
  for (const Json& row : json["rows"])
    if (row["metric"] == "total_latency_s" && row["label"] == "8 tokens") {
      EXPECT_EQ(row["verdict"], "higher");
    }
  EXPECT_EQ(json["broken"].size(), 2U);  // the case, and all cases together
  EXPECT_EQ(run_program({"compare", slow, a, "--fail-on", "faster:3%"}).exit_code, 4);
  const ProgramResult shown = run_program({"compare", a, slow});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_NE(shown.out.find("slower"), std::string::npos) << shown.out;
  for (const std::string& line : lines_of(shown.out)) EXPECT_LE(line.size(), 80U) << line;
}

TEST_F(CliCompare, RunsThatAreNotAlikeAreMarkedOrRefused) {
  const std::string a = folder_ / "a/results.json";
  Json json = scaled(20);
  json["rows"][1]["values"]["tokens_generated"]["value"] = 5;
  const std::string b = changed("b.json", json);
  const ProgramResult unlike = run_program({"compare", a, b, "--json"});
  expect_success(unlike);
  std::size_t marked = 0;
  const Json unlike_rows = Json::parse(unlike.out)["rows"];
  for (const Json& row : unlike_rows)
    if (row["unlike"].get<std::string>().find("tokens_generated") != std::string::npos) {
      EXPECT_EQ(row["label"], "8 tokens");
      ++marked;
    }
  EXPECT_GE(marked, 2U);
  const ProgramResult refused = run_program({"compare", a, b, "--fail-on", "slower:3%"});
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  EXPECT_NE(refused.err.find("tokens_generated"), std::string::npos) << refused.err;
  json = sound_;
  json["model"]["sha256"] = "other";
  expect_failure(run_program({"compare", a, changed("c.json", json)}), 1, {"different models"});
  json = sound_;
  json["schema_version"] = 9;
  expect_failure(run_program({"compare", a, changed("d.json", json)}), 1, {"d.json", "schema_version"});
  expect_failure(run_program({"compare", a, a, "--fail-on", "slower"}), 2, {"--fail-on", "slower"});
  expect_failure(run_program({"compare", a, folder_ / "absent.json"}), 1, {"absent.json"});
}

TEST_F(CliCompare, HistoryListsThem) {
  changed("a/not_results.json", Json::array());
  fs::create_directories(folder_ / "b");
  changed("b/results.json", Json("nonsense"));
  const ProgramResult result = run_program({"history", folder_.path().string(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("left out"), std::string::npos);
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["sha256"], sound_["model"]["sha256"]);
  expect_failure(run_program({"history", folder_ / "absent"}), 1, {"absent"});
}

}  // namespace
}  // namespace assay::test
