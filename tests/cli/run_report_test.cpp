// assay run writes everything that a report needs; assay report writes it again without a model.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kBaselineAndPerplexity =
    "noise,trade-off,lengths,ablation,batches,batched-precisions,divergence,edge";

class CliRunReport : public testing::Test {
 protected:
  ProgramResult run(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"run",   kModel,        "-p",       "hello",       "-p",
                               "world", "-n",          "5",        "--processes", "1",
                               "-r",    "3",           "--corpus", kText,         "-o",
                               out_,    "--precision", "float32",  "--skip",      kBaselineAndPerplexity});
    return run_program(more);
  }
  Json results() const { return Json::parse(read_file(out_ + "/results.json")); }
  ProgramResult report_of(const Json& json) {
    write_file(folder_ / "other.json", json.dump());
    return run_program({"report", folder_ / "other.json", "-o", folder_ / "again"});
  }

  TemporaryFolder folder_;
  const std::string out_ = folder_ / "deep/out";
};

TEST_F(CliRunReport, FilesAndTheirPaths) {
  const ProgramResult result = run({"--json"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["results"], out_ + "/results.json");
  for (const char* name :
       {"results.json", "results.csv", "results_wide.csv", "samples.csv", "report.md", "report.html"}) {
    EXPECT_FALSE(read_file(out_ + "/" + name).empty()) << name;
    EXPECT_NE(std::find(json["files"].begin(), json["files"].end(), out_ + "/" + name), json["files"].end())
        << name;
  }
  for (const auto& entry : fs::directory_iterator(out_))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

TEST_F(CliRunReport, Results) {
  expect_success(run());
  const Json json = results();
  EXPECT_EQ(json["schema"], "assay.results");
  EXPECT_TRUE(json["schema_version"].is_number_integer());
  EXPECT_EQ(json["status"], "complete");
  EXPECT_FALSE(json["environment"]["machine"]["cpu"].get<std::string>().empty());
  EXPECT_FALSE(json["environment"]["build"]["version"].get<std::string>().empty());
  EXPECT_EQ(json["model"]["sha256"].get<std::string>().size(), 64U);
  ASSERT_EQ(json["rows"].size(), 3U);  // two prompts and the text
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& values = json["rows"][i]["values"];
    for (const char* tag :
         {"total_latency_s", "tokens_per_sec", "avg_latency_per_token_ms", "time_to_first_token_s"})
      EXPECT_EQ(values[tag]["samples"].size(), 3U) << tag;
    EXPECT_EQ(values["tokens_generated"]["value"], 5);
    EXPECT_EQ(json["rows"][i]["status"], "ok");
  }
  EXPECT_TRUE(json["rows"][2]["values"].contains("perplexity"));
  ASSERT_EQ(json["texts"].size(), 2U);
  EXPECT_EQ(json["texts"][0]["prompt"], "hello");
}

TEST_F(CliRunReport, SamplesHaveARowEach) {
  expect_success(run());
  const std::vector<std::string> lines = lines_of(read_file(out_ + "/samples.csv"));
  std::size_t latencies = 0;
  for (const std::string& line : lines) latencies += line.find(",total,") != std::string::npos ? 1 : 0;
  EXPECT_EQ(latencies, 6U);  // two prompts, three times
  EXPECT_EQ(std::count(lines[0].begin(), lines[0].end(), ','),
            std::count(lines[1].begin(), lines[1].end(), ','));
}

TEST_F(CliRunReport, TheModelIsKnownByItsContent) {
  expect_success(run());
  const std::string before = results()["model"]["sha256"];
  copy_model_fixture("with_tokenizer", folder_ / "moved");
  expect_success(run_program({"run", folder_ / "moved", "-p", "a", "-n", "2", "-r", "1", "--corpus", kText,
                              "-o", out_, "--precision", "float32", "--skip", kBaselineAndPerplexity}));
  EXPECT_EQ(results()["model"]["sha256"], before);
  std::string weights = read_file(folder_ / "moved/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write_file(folder_ / "moved/model.safetensors", weights);
  expect_success(run_program({"run", folder_ / "moved", "-p", "a", "-n", "2", "-r", "1", "--corpus", kText,
                              "-o", out_, "--precision", "float32", "--skip", kBaselineAndPerplexity}));
  EXPECT_NE(results()["model"]["sha256"], before);
}

TEST_F(CliRunReport, AFailedCaseIsARowWithItsReason) {
  const ProgramResult result = run({"-p", std::string(200, 'x')});  // beyond the context
  EXPECT_EQ(result.exit_code, 3) << result.err;
  const Json json = results();
  ASSERT_EQ(json["rows"].size(), 4U);
  EXPECT_EQ(json["rows"][2]["status"], "error");
  EXPECT_NE(json["rows"][2]["reason"].get<std::string>().find("context of 64"), std::string::npos);
  std::string told = result.out + result.err;
  std::replace(told.begin(), told.end(), '\n', ' ');  // prose is wrapped
  EXPECT_NE(std::regex_replace(told, std::regex(" +"), " ").find("context of 64"), std::string::npos)
      << "the user is told, not the file alone";
}

TEST_F(CliRunReport, TextsThatAreHardToWrite) {
  const std::string prompt = "=1+1, \"quoted\"\n| pipe `tick` <b> \\ \t\xF0\x9F\x98\x80";
  expect_success(run({"-p", prompt}));
  EXPECT_EQ(results()["texts"][2]["prompt"], prompt);
}

TEST_F(CliRunReport, ReportsAreRebuiltByteForByte) {
  expect_success(run());
  expect_success(run_program({"report", out_ + "/results.json", "-o", folder_ / "again"}));
  for (const char* name : {"results.json", "results.csv", "samples.csv", "report.md", "report.html"})
    EXPECT_EQ(read_file(out_ + "/" + name), read_file(folder_ / "again/" + name)) << name;
}

TEST_F(CliRunReport, LimitsAreAnsweredByARunAndWithoutAModel) {
  expect_success(run({"--limit", "memory=100GiB"}));
  EXPECT_NE(read_file(out_ + "/report.md").find("no configurations were compared"), std::string::npos);
  expect_success(
      run_program({"tradeoff", kModel, "--precision", "float32,nf4", "-p", "a", "--corpus", kText, "-n", "4",
                   "--processes", "1", "-r", "2", "-o", out_, "--limit", "memory=100GiB"}));
  const std::string page = read_file(out_ + "/report.md");
  EXPECT_NE(page.find("## Recommendation under limits"), std::string::npos);
  EXPECT_NE(page.find("within memory=100GiB"), std::string::npos);
  EXPECT_EQ(results()["limits"]["bounds"]["memory"], 100.0 * 1024 * 1024 * 1024);
  const ProgramResult other =
      run_program({"report", out_ + "/results.json", "--limit", "memory=1KiB", "--limit", "latency=10s"});
  expect_success(other);
  EXPECT_NE(other.out.find("is certain to stay within"), std::string::npos);
  EXPECT_NE(other.out.find("The nearest is"), std::string::npos);
  const ProgramResult json = run_program({"report", out_, "--limit", "memory=1GiB", "--json"});
  EXPECT_EQ(Json::parse(json.out)["recommendation_under_limits"]["best"].size(), 2U);  // one process: no test
  expect_failure(run_program({"report", out_ + "/results.json", "--limit", "memory=2"}), 2,
                 {"--limit", "memory", "700MiB", "'2'"});
}

TEST_F(CliRunReport, ReportSpeaksTheFormatsOfOtherTools) {
  expect_success(run());
  const auto printed = [&](const char* format) {
    const ProgramResult result = run_program({"report", out_, "--format", format});
    expect_success(result);
    return result.out;
  };
  EXPECT_EQ(printed("md"), read_file(out_ + "/report.md"));
  EXPECT_TRUE(printed("github").starts_with("## Assay: "));
  for (const char* format : {"benchmark-action", "benchmark-action-bigger"}) {
    const Json entries = Json::parse(printed(format));
    ASSERT_FALSE(entries.empty()) << format;
    EXPECT_TRUE(entries[0]["value"].is_number());
  }
  EXPECT_TRUE(printed("openmetrics").ends_with("# EOF\n"));
  expect_failure(run_program({"report", out_, "--format", "toml"}), 2, {"--format", "openmetrics", "'toml'"});
  expect_failure(run_program({"report", out_, "--format", "md", "--json"}), 2, {"--json", "--format md"});
}

TEST_F(CliRunReport, ReportWithoutAFolderWritesNothing) {
  expect_success(run());
  const ProgramResult result = run_program({"report", out_ + "/results.json"}, {.folder = folder_.path()});
  expect_success(result);
  EXPECT_NE(result.out.find("Latency (ms)"), std::string::npos);
  for (const std::string& line : lines_of(result.out))
    if (line.find("results.json") == std::string::npos) {  // a path stays whole
      EXPECT_LE(line.size(), 80U) << line;
    }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(CliRunReport, ReportGivesItsPathsAsJson) {
  expect_success(run());
  const ProgramResult result =
      run_program({"report", out_ + "/results.json", "-o", folder_ / "again", "--json"});
  expect_success(result);
  EXPECT_TRUE(Json::accept(result.out)) << result.out;
}

TEST_F(CliRunReport, AnotherSchemaIsRefused) {
  expect_success(run());
  const Json sound = results();
  for (const Json& version :
       {Json(0), Json(99), Json(-1), Json("1"), Json(nullptr), Json(1.5), Json::array()}) {
    Json json = sound;
    json["schema_version"] = version;
    SCOPED_TRACE(version.dump());
    expect_failure(report_of(json), 1, {"other.json", "schema"});
  }
  for (const Json& schema : {Json(5), Json("other"), Json(nullptr)}) {
    Json json = sound;
    json["schema"] = schema;
    expect_failure(report_of(json), 1, {"other.json", "schema"});
  }
  EXPECT_FALSE(fs::exists(folder_ / "again"));
}

TEST_F(CliRunReport, DamagedResultsAreRefused) {
  expect_success(run());
  const Json sound = results();
  for (const char* key : {"environment", "model", "rows", "texts", "status"}) {
    Json json = sound;
    json.erase(key);
    expect_failure(report_of(json), 1, {"other.json", key});
    json[key] = 7;
    expect_failure(report_of(json), 1, {"other.json"});
  }
  Json json = sound;
  json["rows"][0]["values"]["total_latency_s"]["value"] = "fast";
  expect_failure(
      report_of(json), 1,
      {"other.json: rows[0].values.total_latency_s.value: expected a number, found the string 'fast'"});
  json = sound;
  json["rows"][0]["values"]["no_such_metric"] = json["rows"][0]["values"]["total_latency_s"];
  expect_failure(report_of(json), 1, {"other.json", "no_such_metric"});
  for (const std::string& text :
       {std::string(), std::string("{"), "{\"schema\": " + std::string(100'000, '['), std::string("[]"),
        std::string("null")}) {
    write_file(folder_ / "other.json", text);
    expect_failure(run_program({"report", folder_ / "other.json", "-o", folder_ / "again"}), 1,
                   {"other.json"});
  }
  expect_failure(run_program({"report", folder_ / "absent.json"}), 1, {"absent.json", "No such file"});
  expect_failure(run_program({"report", folder_.path()}), 1, {folder_.path()});
  EXPECT_FALSE(fs::exists(folder_ / "again"));
}

}  // namespace
}  // namespace assay::test
