// assay sensitivity and assay mix on the demo model: tables, JSON, the recipe that other commands take.
#include <gtest/gtest.h>

#include <map>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

TEST(CliSensitivity, ShowsItemsClassesLayersAndTheirSum) {
  const ProgramResult result = run_program({"sensitivity", "demo", "--max-tokens", "1600"});
  expect_success(result);
  for (const char* words : {"Item", "lm_head", "Tensor class", "transformer.h.*.mlp.c_fc", "layer 0",
                            "All items together in nf4: KL ", "add up"})
    EXPECT_NE(result.out.find(words), std::string::npos) << words << "\n" << result.out;
  EXPECT_NE(result.out.find(" ["), std::string::npos) << "an interval\n" << result.out;
  const ProgramResult json =
      run_program({"sensitivity", "demo", "--precision", "int8-dynamic", "--max-tokens", "200", "--json"});
  expect_success(json);
  const Json found = Json::parse(json.out);
  EXPECT_EQ(found["format"], "int8");
  EXPECT_GE(found["items"][0]["kl"]["value"], found["items"][1]["kl"]["value"]);
  EXPECT_GT(found["together_over_sum"], 0);
}

TEST(CliSensitivity, DrawsAHeatMapOfItsNumbers) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string();
  const ProgramResult result =
      run_program({"sensitivity", "demo", "--max-tokens", "200", "--json", "-o", out});
  expect_success(result);
  const std::string svg = read_file(out + "/plots/sensitivity.svg");
  const Json found = Json::parse(result.out);
  for (const Json& item : found["items"]) {
    const std::string name = item["name"];
    char number[40];
    std::snprintf(number, sizeof number, ">%.3g</text>\n</g>", item["kl"]["value"].get<double>());
    const std::size_t at = svg.find("<title>" + name + ": KL ");
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_EQ(svg.find(number, at), svg.find("</text>\n</g>", at) - std::string(number).find('<')) << name;
  }
  for (const char* words : {">layer 0<", ">outside of layers<", ">mlp.c_fc<"})
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  EXPECT_NE(read_file(out + "/report.html").find("class=\"mark\""), std::string::npos);
  EXPECT_NE(read_file(out + "/report.md").find("(plots/sensitivity.svg)"), std::string::npos);
}

TEST(CliMix, WritesARecipeThatGivesTheMeasuredKlAgain) {
  const TemporaryFolder folder;
  const std::string recipe = (folder.path() / "small.toml").string(), ids = (folder.path() / "ids").string(),
                    half = (folder.path() / "half").string();
  std::string all, second;
  for (int i = 0; i < 400; ++i) {
    const std::string id = std::to_string((37 * i + i * i) % 1000) + " ";
    all += id;
    if (i >= 200) second += id;
  }
  write_file(ids, all);
  write_file(half, second);
  const ProgramResult result = run_program(
      {"mix", "demo", "--limit", "memory=3600KiB", "--ids", "--text", ids, "-o", recipe, "--json"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["recipe"]["name"], "small");
  EXPECT_LE(json["bytes"], 3600 * 1024);
  EXPECT_GT(json["predicted_kl"], 0);
  EXPECT_EQ(json["uniform"].size(), 3U);
  EXPECT_EQ(json["neighbours"].size(), 2U);
  EXPECT_EQ(json["baseline"], "float32");
  EXPECT_GT(json["together"]["predicted_kl"], 0);
  // The parts say how the sums came about.
  double bytes = 0, kl = 0;
  for (const Json& part : json["parts"]) {
    const Json& own = part["formats"][part["chosen"].get<std::string>()];
    bytes += own["bytes"].get<double>();
    kl += own["kl"].get<double>();
  }
  EXPECT_LT(bytes, json["bytes"].get<double>());
  EXPECT_NEAR(kl, json["predicted_kl"].get<double>(), 1e-9);
  const ProgramResult diverged = run_program(
      {"diverge", "demo", "recipe:" + recipe, "--ids", "--text", half, "--no-noise-floor", "--json"});
  expect_success(diverged);
  EXPECT_EQ(Json::parse(diverged.out)["candidates"][0]["kl_mean"]["value"], json["measured_kl"]);
  const ProgramResult inspected = run_program({"inspect", "demo", "--recipe", recipe, "--json"});
  expect_success(inspected);
  EXPECT_NE(inspected.out.find("small"), std::string::npos);
}

TEST(CliMix, SaysWhatTheTestsShow) {
  const ProgramResult result = run_program({"mix", "demo", "--limit", "memory=3600KiB", "--max-tokens", "100",
                                            "--held-out-tokens", "1600", "--candidates", "nf4,bfloat16"});
  expect_success(result);
  for (const char* words : {"[[modules]]", "# Chosen under memory=3600KiB: ", "default = ", "Measured KL",
                            "bfloat16", "of at most its size"})
    EXPECT_NE(result.out.find(words), std::string::npos) << words << "\n" << result.out;
  const ProgramResult kl = run_program({"mix", "demo", "--limit", "kl=0.05", "--max-tokens", "50",
                                        "--held-out-tokens", "100", "--candidates", "nf4,bfloat16"});
  expect_success(kl);
  EXPECT_NE(kl.out.find("On the tokens held out it has a KL of"), std::string::npos) << kl.out;
}

// The interval of the mean holds the sum; the differences token by token do not hold 0.
TEST(CliMix, SaysWhereTheSumMisleadsByWhatTestShowsIt) {
  const ProgramResult result = run_program({"mix", "demo", "--limit", "memory=5MiB", "--candidates",
                                            "q6_k,q8_0", "--held-out-tokens", "50", "--exchanges", "0"});
  expect_success(result);
  EXPECT_NE(result.out.find("The sum of the parts misleads: token by token, the KL of all parts together "
                            "differs from their sum, "),
            std::string::npos)
      << result.out;
}

TEST(CliMix, ReadsNoModelForATextThatIsNotThere) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"mix", "demo", "--limit", "kl=1"}, {"sensitivity", "demo"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--text", "/nowhere/book.txt"});
    const ProgramResult result = run_program(words);
    expect_failure(result, 1, {"/nowhere/book.txt"});
    EXPECT_EQ(result.err.find("Loaded"), std::string::npos) << result.err;
  }
}

TEST(CliMix, ShowsTheTimeOfDecodeStepsWhereThatIsLimited) {
  const std::vector<std::string> mix{
      "mix",          "demo",       "--max-tokens", "50",     "--held-out-tokens", "50", "--candidates",
      "nf4,bfloat16", "--baseline", "bfloat16",     "--limit"};
  std::vector<std::string> args = mix;
  args.push_back("memory=3600KiB,token=10s");
  const ProgramResult result = run_program(args);
  expect_success(result);
  for (const char* words : {"Step (ms)", "A decode step of one token takes", "within the limit of 1e+04 ms",
                            "KL from bfloat16", "smaller", "larger"})
    EXPECT_NE(result.out.find(words), std::string::npos) << words << "\n" << result.out;
  args.back() = "tokens-per-s=1000000000";
  expect_failure(run_program(args), 1, {"limit tokens-per-s=1000000000:", "the fastest decode step"});
}

// A name in the table of mixes means what it means to other commands.
TEST(CliMix, NamesUniformFormatsAsPrecisionsAreTyped) {
  const TemporaryFolder folder;
  const std::string ids = folder / "ids", half = folder / "half";
  std::string all, second;
  for (int i = 0; i < 200; ++i) {
    const std::string id = std::to_string((37 * i + i * i) % 1000) + " ";
    all += id;
    if (i >= 100) second += id;
  }
  write_file(ids, all);
  write_file(half, second);
  const ProgramResult result =
      run_program({"mix", "demo", "--limit", "kl=1", "--exchanges", "0", "--candidates",
                   "q4_k,nf4,int8-dynamic,bfloat16", "--ids", "--text", ids, "--json"});
  expect_success(result);
  std::vector<std::string> diverge{"diverge", "demo"};
  std::map<std::string, double> kl;
  const Json mix = Json::parse(result.out);
  for (const Json& row : mix["uniform"]) {
    kl[row["name"]] = row["measured_kl"];
    // The precision bfloat16 has keys, values and the rest in bfloat16 too.
    if (row["name"] != "bfloat16") diverge.push_back(row["name"]);
  }
  EXPECT_EQ(kl.size(), 4U);
  for (const char* name : {"q4_k+head:q4_k", "nf4+head:nf4", "int8-dynamic+head:int8", "bfloat16"})
    EXPECT_EQ(kl.count(name), 1U) << name;
  for (const char* word : {"--ids", "--text", half.c_str(), "--no-noise-floor", "--json"})
    diverge.emplace_back(word);
  const ProgramResult diverged = run_program(diverge);
  expect_success(diverged);
  const Json divergence = Json::parse(diverged.out);
  for (const Json& candidate : divergence["candidates"])
    EXPECT_EQ(candidate["kl_mean"]["value"], kl.at(candidate["candidate"])) << candidate["candidate"];
}

TEST(CliMix, ReplacesNoRecipeUnlessForced) {
  const TemporaryFolder folder;
  const std::string recipe = folder / "mine.toml";
  write_file(recipe, "name = \"mine\"");
  std::vector<std::string> args{
      "mix",          "demo",         "--max-tokens", "50",   "--limit",           "kl=1", "--exchanges", "0",
      "--candidates", "nf4,bfloat16", "-o",           recipe, "--held-out-tokens", "50"};
  const ProgramResult refused = run_program(args);
  expect_failure(refused, 1, {recipe, "exists already: expected a new name, or --force"});
  EXPECT_EQ(refused.err.find("Loaded"), std::string::npos) << "before the model is loaded\n" << refused.err;
  EXPECT_EQ(read_file(recipe), "name = \"mine\"");
  args.push_back("--force");
  expect_success(run_program(args));
  EXPECT_NE(read_file(recipe).find("# Chosen under kl=1"), std::string::npos) << read_file(recipe);
}

TEST(CliMix, RefusesWhatItCannotKeep) {
  const auto failed = [](const std::string& limit) {
    return run_program({"mix", "demo", "--max-tokens", "50", "--held-out-tokens", "50", "--limit", limit});
  };
  expect_failure(failed("memory=100KiB"), 1, {"memory=100KiB", "smallest recipe", "MiB"});
  expect_failure(failed("kl=1e-12"), 1, {"least KL"});
  expect_failure(failed("ttft=2s"), 2, {"--limit", "ttft"});
  for (const char* limit : {"speed=1", "memory", "laptop"}) {  // what other commands keep is not offered
    const ProgramResult refused = failed(limit);
    expect_failure(refused, 2, {"--limit", limit, "memory, kl and agreement"});
    EXPECT_EQ(refused.err.find("accuracy"), std::string::npos) << refused.err;
    EXPECT_EQ(refused.err.find("presets"), std::string::npos) << refused.err;
  }
  expect_failure(failed("memory=4MiB,kl=1"), 2, {"--limit", "one of each"});
  expect_failure(failed("token=1ms,tokens-per-s=5"), 2, {"--limit", "one of each"});
  expect_failure(failed("agreement=90%,token=1s"), 2, {"agreement"});
  expect_failure(run_program({"mix", "demo", "--limit", "kl=1", "--baseline", "nf4"}), 2,
                 {"--baseline", "nf4"});
  expect_failure(run_program({"mix", "demo"}), 2, {"--limit"});
  expect_failure(run_program({"mix", "demo", "--limit", "kl=1", "--candidates", "nf5"}), 2,
                 {"candidates", "nf5"});
  expect_failure(run_program({"sensitivity", "demo", "--precision", "int8-static"}), 2, {"calibration"});
}

}  // namespace
}  // namespace assay::test
