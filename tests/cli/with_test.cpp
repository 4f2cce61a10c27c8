// --with: several models as rows of one run, in run, tradeoff, bench and perplexity.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A model with kModel's tokenizer and other numbers.
class CliWith : public ::testing::Test {
 protected:
  CliWith() : other_(copy_of_model("other")) {
    std::string weights = text_of(other_ / "model.safetensors");
    for (std::size_t i = weights.size() - 400; i < weights.size(); i += 4) weights[i + 2] ^= 0x20;
    write_file(other_ / "model.safetensors", weights);
  }

  fs::path copy_of_model(const std::string& name) const {
    const fs::path copy = fs::path(folder_.path()) / name;
    fs::copy(kModel, copy, fs::copy_options::recursive);
    return copy;
  }
  static std::string text_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Its tokenizer is kModel's but for two ids, which change places.
  fs::path model_of_other_tokens() const {
    const fs::path copy = copy_of_model("other-tokens");
    const fs::path file = copy / "tokenizer.json";
    Json json = Json::parse(text_of(file));
    Json& vocab = json["model"]["vocab"];
    std::swap(vocab["a"], vocab["e"]);
    write_file(file, json.dump());
    return copy;
  }
  static Json rows_of(const std::vector<std::string>& words) {
    std::vector<std::string> all = words;
    all.emplace_back("--json");
    const ProgramResult result = run_program(all);
    expect_success(result);
    return Json::parse(result.out)["rows"];
  }
  // Labels of what would run, and nothing runs.
  static std::vector<std::string> planned(std::vector<std::string> words) {
    words.insert(words.end(), {"--dry-run", "--json", "-p", "a", "-n", "4", "--corpus", kText});
    const ProgramResult result = run_program(words);
    expect_success(result);
    std::vector<std::string> labels;
    const Json cases = Json::parse(result.out)["cases"];
    for (const Json& spec : cases) labels.push_back(spec["label"]);
    return labels;
  }
  // With weights that are no numbers.
  fs::path broken_model() const {
    const fs::path copy = copy_of_model("broken");
    std::string weights = text_of(copy / "model.safetensors");
    weights.replace(weights.size() - 400, 400, 400, '\xff');
    write_file(copy / "model.safetensors", weights);
    return copy;
  }
  std::string stored_model() const {
    const std::string stored = folder_ / "stored";
    expect_success(run_program({"quantize", kModel, stored, "--precision", "nf4"}));
    return stored;
  }
  static std::vector<std::string> labels_of(const Json& rows, const std::string& scenario) {
    std::vector<std::string> labels;
    for (const Json& row : rows)
      if (row["scenario"] == scenario) labels.push_back(row["label"]);
    return labels;
  }

  const TemporaryFolder folder_;
  const fs::path other_;
};

TEST_F(CliWith, TradeoffComparesModelsAsRowsOfOneTable) {
  const Json rows = rows_of({"tradeoff", kModel, "--with", other_, "--precision", "float32,nf4", "-p", "a",
                             "--corpus", kText, "-n", "4", "-r", "2", "--processes", "1"});
  const std::vector<std::string> expected{"with_tokenizer: float32", "with_tokenizer: nf4", "other: float32",
                                          "other: nf4"};
  EXPECT_EQ(labels_of(rows, "trade-off"), expected);
  EXPECT_EQ(labels_of(rows, "perplexity"), expected);
  for (const Json& row : rows) {
    EXPECT_EQ(row["status"], "ok") << row["reason"];
    const std::string label = row["label"];
    EXPECT_EQ(row["setting"]["model"], label.substr(0, label.find(':')));
    EXPECT_EQ(row["parameters"]["model"], row["setting"]["model"]);
    // What the other model takes longer to load is not the time that quantizing takes; that of a tiny model
    // may be within the noise of loading.
    const bool has_time = row["values"].contains("quantize_s"),
               has_reason = row.contains("absent") && row["absent"].contains("quantize_s");
    EXPECT_EQ(has_time || has_reason, row["scenario"] == "trade-off" && label == "with_tokenizer: nf4");
    if (row["scenario"] == "perplexity") {
      EXPECT_EQ(row["values"].contains("perplexity_ratio"), label != expected[0]);
    }
  }
  const auto perplexity = [&](const std::string& label) {
    for (const Json& row : rows)
      if (row["scenario"] == "perplexity" && row["label"] == label)
        return row["values"]["perplexity"]["value"].get<double>();
    return 0.0;
  };
  EXPECT_NE(perplexity(expected[0]), perplexity(expected[2]));
}

// Each row is what the model gives alone.
TEST_F(CliWith, ARowIsThatOfTheModelAlone) {
  const std::vector<std::string> rest{"--precision", "float32", "-p", "a", "--corpus",    kText,
                                      "-n",          "4",       "-r", "1", "--processes", "1"};
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), rest.begin(), rest.end());
    return rows_of(words);
  };
  const Json both = run({"tradeoff", kModel, "--with", other_}), alone = run({"tradeoff", other_});
  ASSERT_EQ(both.size(), 5U);
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_GT(both[4]["values"]["kl_mean"]["value"], 0) << "the other model diverges from the first";
  EXPECT_EQ(alone[1]["label"], "float32");
  EXPECT_FALSE(alone[1]["setting"].contains("model"));
  EXPECT_EQ(both[3]["values"]["perplexity"]["value"], alone[1]["values"]["perplexity"]["value"]);
  EXPECT_EQ(both[1]["values"]["memory_bytes"]["value"], alone[0]["values"]["memory_bytes"]["value"]);
}

TEST_F(CliWith, OtherTokensAreNotCompared) {
  const fs::path model = model_of_other_tokens();
  const ProgramResult result =
      run_program({"tradeoff", kModel, "--with", model, "--precision", "float32", "-p", "a", "--corpus",
                   kText, "-n", "4", "-r", "1", "--processes", "1", "--json"});
  expect_success(result);
  const Json json = Json::parse(result.out), &rows = json["rows"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_TRUE(rows[3]["values"].contains("perplexity"));
  EXPECT_FALSE(rows[3]["values"].contains("perplexity_ratio"));
  const Json& warnings = rows[3]["warnings"];
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(),
                          [](const Json& warning) { return warning["kind"] == "other_tokens"; }));
  // Nor is what follows another prompt a divergence.
  EXPECT_EQ(json["findings"], Json::array());
}

TEST_F(CliWith, AStoredModelRunsOnlyAsItIsStored) {
  const Json rows =
      rows_of({"tradeoff", kModel, "--with", stored_model(), "--precision", "float32,int8-dynamic", "-p", "a",
               "--corpus", kText, "-n", "4", "-r", "1", "--processes", "1"});
  EXPECT_EQ(labels_of(rows, "trade-off"),
            (std::vector<std::string>{"with_tokenizer: float32", "with_tokenizer: int8-dynamic",
                                      "stored: as stored"}));
}

TEST_F(CliWith, BenchNamesTheModelOfEachTest) {
  const ProgramResult result =
      run_program({"bench", kModel, "--with", other_, "-p", "8", "-n", "0", "-r", "1", "--json"});
  expect_success(result);
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["model"], "with_tokenizer");
  EXPECT_EQ(rows[1]["model"], "other");
  EXPECT_GT(rows[1]["median_s"].get<double>(), 0);

  const ProgramResult table =
      run_program({"bench", kModel, "--with", other_, "-p", "8", "-n", "0", "-r", "1"});
  expect_success(table);
  EXPECT_NE(table.out.find("Model"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("\nother "), std::string::npos) << table.out;
}

TEST_F(CliWith, PerplexityComparesOnTheSameWindows) {
  const ProgramResult result = run_program({"perplexity", kModel, kText, "--with", other_, "--json"}),
                      alone = run_program({"perplexity", other_, kText, "--json"});
  expect_success(result);
  expect_success(alone);
  const Json models = Json::parse(result.out)["models"];
  ASSERT_EQ(models.size(), 2U);
  EXPECT_FALSE(models[0].contains("comparison"));
  EXPECT_EQ(models[0]["protocol"], models[1]["protocol"]);
  EXPECT_EQ(models[1]["perplexity"], Json::parse(alone.out)["perplexity"]);
  const double ratio = models[1]["comparison"]["ratio"];
  EXPECT_NEAR(ratio, models[1]["perplexity"].get<double>() / models[0]["perplexity"].get<double>(),
              1e-9 * ratio);

  const ProgramResult table = run_program({"perplexity", kModel, kText, "--with", other_});
  expect_success(table);
  EXPECT_NE(table.out.find("Ratio"), std::string::npos) << table.out;

  const ProgramResult others =
      run_program({"perplexity", kModel, kText, "--with", model_of_other_tokens(), "--json"});
  expect_success(others);
  EXPECT_TRUE(Json::parse(others.out)["models"][1]["comparison"].is_null());
}

// Windows are as long as the shortest context allows.
TEST_F(CliWith, PerplexityTakesTheShortestContext) {
  const std::string shorter = TinyModel(6).write(folder_ / "short"),
                    longer = TinyModel(16).write(folder_ / "long"), ids = folder_ / "ids.txt";
  write_file(ids, "1 2 3 4 5 6 7 8 9 10 1 2 3 4 5 6 7");
  const ProgramResult result = run_program({"perplexity", longer, ids, "--ids", "--with", shorter, "--json"});
  expect_success(result);
  const Json models = Json::parse(result.out)["models"];
  ASSERT_EQ(models.size(), 2U);
  for (const Json& model : models)
    EXPECT_EQ(model["protocol"].get<std::string>().substr(0, 21), "hf context=6 stride=3");
}

TEST_F(CliWith, RunMeasuresEveryModel) {
  const std::string out = folder_ / "results";
  expect_success(run_program(
      {"run",      kModel, "--with", other_,        "--precision",
       "float32",  "-o",   out,      "--skip",      "noise,lengths,ablation,batches,batched-precisions,edge",
       "--corpus", kText,  "-p",     "a",           "-n",
       "4",        "-r",   "1",      "--processes", "1"}));
  const Json json = Json::parse(text_of(fs::path(out) / "results.json"));
  EXPECT_EQ(labels_of(json["rows"], "trade-off"),
            (std::vector<std::string>{"with_tokenizer: float32", "other: float32"}));
  ASSERT_EQ(json["other_models"].size(), 1U);
  EXPECT_EQ(json["other_models"][0]["name"], "other");
  EXPECT_NE(json["other_models"][0]["sha256"], json["model"]["sha256"]);
  EXPECT_NE(text_of(fs::path(out) / "report.md").find("Assay: " + kModel + ", other"), std::string::npos);

  // The journal is of these models alone.
  write_file(other_ / "model.safetensors", text_of(fs::path(kModel) / "model.safetensors"));
  const ProgramResult changed = run_program(
      {"run",      kModel, "--with", other_,        "--precision",
       "float32",  "-o",   out,      "--skip",      "noise,lengths,ablation,batches,batched-precisions,edge",
       "--corpus", kText,  "-p",     "a",           "-n",
       "4",        "-r",   "1",      "--processes", "1",
       "--resume"});
  expect_failure(changed, 1, {"journal"});
}

TEST_F(CliWith, TwoOfOneNameAreCalledByTheirPaths) {
  fs::create_directory(fs::path(folder_.path()) / "b");
  const fs::path second = copy_of_model("b/other");
  const Json rows = rows_of({"bench", other_, "--with", second, "-p", "8", "-n", "0", "-r", "1"});
  EXPECT_EQ(rows[0]["model"], other_.string());
  EXPECT_EQ(rows[1]["model"], second.string());
}

TEST_F(CliWith, RefusesAModelTwiceAndOneThatIsNotThere) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"tradeoff", kModel}, {"bench", kModel}, {"perplexity", kModel, kText}}) {
    const auto with = [&](const std::string& model) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--with", model});
      return run_program(words);
    };
    SCOPED_TRACE(command.front());
    expect_failure(with(kModel), 2, {"--with", "not given yet", kModel});
    expect_failure(with(folder_ / "absent"), 2, {"--with", folder_ / "absent", "no such folder"});
  }
  expect_failure(run_program({"sweep", "lengths", kModel, "--with", other_}), 2, {"--with"});
}

TEST_F(CliWith, RefusesAModelThatIsGivenByAnotherPath) {
  const fs::path link = fs::path(folder_.path()) / "link";
  fs::create_directory_symlink(kModel, link);
  for (const std::string& same : {link.string(), kModel + "/", kModel + "/."})
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"tradeoff", kModel}, {"bench", kModel}, {"perplexity", kModel, kText}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--with", same});
      SCOPED_TRACE(command.front() + " " + same);
      expect_failure(run_program(words), 2, {"--with", "not given yet", same});
    }
  expect_failure(run_program({"perplexity", kModel, kText, "--with", link, "--context", "8"}), 2,
                 {"--with", "not given yet"});
}

TEST_F(CliWith, TheFolderOneIsInHasItsName) {
  const ProgramResult result = run_program(
      {"bench", ".", "--with", kModel, "-p", "8", "-n", "0", "-r", "1", "--json"}, {.folder = other_});
  expect_success(result);
  EXPECT_EQ(Json::parse(result.out)["rows"][0]["model"], "other");
}

// Which of them is first changes the baseline, not what is measured.
TEST_F(CliWith, EveryPrecisionIsMeasuredBesideAStoredModel) {
  const std::string stored = stored_model();
  std::vector<std::string> first = planned({"tradeoff", stored, "--with", kModel}),
                           last = planned({"tradeoff", kModel, "--with", stored});
  EXPECT_EQ(first.front(), "stored: as stored");
  EXPECT_EQ(last.front(), "with_tokenizer: float32");
  EXPECT_GT(first.size(), 10U);
  std::sort(first.begin(), first.end());
  std::sort(last.begin(), last.end());
  EXPECT_EQ(first, last);
}

// What says how to quantize is for the models whose weights are plain numbers.
TEST_F(CliWith, AStoredModelTakesNoRecipe) {
  const std::string recipe = folder_ / "recipe.toml", stored = stored_model();
  write_file(recipe, "name = \"eight\"\ndefault = \"int8\"\n");
  const std::vector<std::string> rest{"-p", "a", "--corpus", kText, "-n", "4", "-r", "1", "--processes", "1"};
  const auto rows = [&](std::vector<std::string> words) {
    words.insert(words.end(), rest.begin(), rest.end());
    return rows_of(words);
  };
  const Json of_recipe =
      rows({"tradeoff", kModel, "--with", stored, "--precision", "auto", "--recipe", recipe});
  ASSERT_EQ(of_recipe.size(), 5U);
  EXPECT_NE(of_recipe[0]["label"].get<std::string>().find("recipe eight"), std::string::npos);
  EXPECT_EQ(of_recipe[1]["label"], "stored: as stored");
  EXPECT_EQ(of_recipe[1]["status"], "ok") << of_recipe[1]["reason"];
  const Json of_others = rows({"tradeoff", kModel, "--with", stored, "--precision", "llm-int8+head",
                               "--include", "mlp", "--llm-int8-threshold", "5"});
  ASSERT_EQ(of_others.size(), 5U);
  EXPECT_EQ(of_others[1]["label"], "stored: as stored");
  EXPECT_EQ(of_others[1]["status"], "ok") << of_others[1]["reason"];
}

TEST_F(CliWith, APlanSaysWhichCasesWillFail) {
  const ProgramResult result = run_program({"tradeoff", kModel, "--with", other_, "--precision", "float32",
                                            "-p", "a", "-n", "64", "--corpus", kText, "--dry-run", "--json"});
  expect_success(result);
  const Json cases = Json::parse(result.out)["cases"];
  ASSERT_EQ(cases.size(), 2U);
  for (const Json& spec : cases)
    EXPECT_NE(spec.value("error", "").find("context of 64"), std::string::npos) << spec;
}

TEST_F(CliWith, AutoTakesWhatAppliesToTheBaseline) {
  EXPECT_EQ(planned({"tradeoff", kModel, "--with", other_, "--precision", "auto,nf4", "--dtype", "bfloat16"}),
            (std::vector<std::string>{"with_tokenizer: float32", "with_tokenizer: nf4, dtype bfloat16",
                                      "other: float32", "other: nf4, dtype bfloat16"}));
}

TEST_F(CliWith, PerplexityScoresAStoredModelAsItIs) {
  const std::string stored = stored_model();
  const ProgramResult result = run_program({"perplexity", kModel, kText, "--with", stored, "--precision",
                                            "int8-dynamic", "--exclude", "mlp", "--json"});
  expect_success(result);
  const Json models = Json::parse(result.out)["models"];
  EXPECT_EQ(models[0]["dtype"].get<std::string>().substr(0, 12), "int8-dynamic");
  EXPECT_EQ(models[1]["dtype"], "nf4 (as stored)");
}

TEST_F(CliWith, PerplexityNamesTheModelWhoseContextIsTooShort) {
  const std::string shorter = TinyModel(6).write(folder_ / "short"),
                    longer = TinyModel(16).write(folder_ / "long"), ids = folder_ / "ids.txt";
  write_file(ids, "1 2 3 4 5 6 7 8 9 10 1 2 3 4 5 6 7");
  for (const bool is_first : {true, false})
    expect_failure(run_program({"perplexity", is_first ? shorter : longer, ids, "--ids", "--with",
                                is_first ? longer : shorter, "--context", "7"}),
                   2, {"--context", "2 to 6", shorter, "found 7"});
}

TEST_F(CliWith, AModelThatFailsLeavesTheOthersTheirPerplexity) {
  const fs::path broken = broken_model();
  const std::vector<std::string> words{"perplexity", kModel, kText, "--with", broken, "--with", other_};
  const ProgramResult table = run_program(words);
  EXPECT_EQ(table.exit_code, 3);
  EXPECT_NE(table.err.find("error: " + broken.string() + " in float32: the log-prob"), std::string::npos)
      << table.err;
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const ProgramResult result = run_program(as_json);
  EXPECT_EQ(result.exit_code, 3);
  const Json models = Json::parse(result.out)["models"];
  ASSERT_EQ(models.size(), 3U);
  EXPECT_NE(models[1]["error"].get<std::string>().find("not finite"), std::string::npos);
  EXPECT_TRUE(models[1]["comparison"].is_null());
  EXPECT_FALSE(models[2]["comparison"].is_null());

  // Without the first there is nothing to compare with.
  const ProgramResult first = run_program({"perplexity", broken, kText, "--with", kModel, "--json"});
  EXPECT_EQ(first.exit_code, 3);
  const Json of_first = Json::parse(first.out)["models"];
  EXPECT_TRUE(of_first[0].contains("error"));
  EXPECT_GT(of_first[1]["perplexity"].get<double>(), 1);
  EXPECT_TRUE(of_first[1]["comparison"].is_null());
}

TEST_F(CliWith, NamesMayHoldWhatSeparates) {
  const fs::path blank = copy_of_model("o: y"), comma = copy_of_model("a,b"), quoted = copy_of_model("\"q\"");
  write_file(blank / "model.safetensors", text_of(other_ / "model.safetensors"));
  const std::string config = folder_ / "config.json";
  write_file(
      config,
      Json{{"with", {blank.string(), comma.string(), quoted.string()}}, {"precision", "float32"}}.dump());
  const Json rows = rows_of({"tradeoff", kModel, "--config", config, "-p", "a", "--corpus", kText, "-n", "4",
                             "-r", "1", "--processes", "1"});
  EXPECT_EQ(labels_of(rows, "perplexity"),
            (std::vector<std::string>{"with_tokenizer: float32", "o: y: float32", "a,b: float32",
                                      "\"q\": float32"}));
  for (const Json& row : rows) EXPECT_EQ(row["status"], "ok") << row["reason"];
}

}  // namespace
}  // namespace assay::test
