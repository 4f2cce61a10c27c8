// assay diverge: a table, verdicts and tokens in context on the demo model; JSON; what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "support/wide_model.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

TEST(CliDiverge, SaysWhichWeightsAreInAnotherFormat) {
  const TemporaryFolder folder;
  wide_llama(96).write(folder.path());
  std::string ids;
  for (int i = 0; i < 40; ++i) ids += std::to_string(i) + " ";
  const std::string file = (folder.path() / "ids.txt").string();
  write_file(file, ids);
  const ProgramResult result =
      run_program({"diverge", folder.path().string(), "q4_k", "--ids", "--text", file});
  expect_success(result);
  EXPECT_NE(
      result.err.find("warning: q4_k: 1 of 7 weights have inputs that blocks of 256 (q4_k) do not divide"),
      std::string::npos)
      << result.err;
}

TEST(CliDiverge, TellsNf4FromFp4OnTheDemo) {
  const ProgramResult result =
      run_program({"diverge", "demo", "nf4", "fp4", "float32", "bfloat16", "--context", "256", "--json"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["candidates"].size(), 4U);
  const Json &nf4 = json["candidates"][0], &fp4 = json["candidates"][1], &copy = json["candidates"][2],
             &bf16 = json["candidates"][3];
  EXPECT_LT(nf4["kl_mean"]["high"], fp4["kl_mean"]["low"]);
  EXPECT_GT(nf4["top1_agreement"]["value"], fp4["top1_agreement"]["value"]);
  EXPECT_EQ(nf4["worst_tokens"].size(), 3U);
  EXPECT_EQ(nf4["worst_tokens"][0]["kl"], nf4["kl_max"]);
  EXPECT_EQ(nf4["worst_tokens"][0]["token"], nf4["kl_max_token"]);
  EXPECT_EQ(nf4["is_within_noise_floor"], false);
  EXPECT_LT(nf4["greedy"]["equal_tokens"], nf4["greedy"]["new_tokens"]);
  EXPECT_EQ(copy["kl_max"], 0);
  EXPECT_EQ(copy["kl_mean"]["value"], 0);
  EXPECT_EQ(copy["top1_agreement"]["value"], 1);
  EXPECT_EQ(copy["greedy"]["equal_tokens"], copy["greedy"]["new_tokens"]);
  EXPECT_EQ(bf16["kl_mean"]["value"], json["noise_floor"]["value"]);
  EXPECT_EQ(json["noise_floor"]["of"], "float32 against bfloat16");
  EXPECT_EQ(bf16["is_within_noise_floor"], true);
  EXPECT_EQ(json["passes"], 1);
  const Json& pair = json["pairs"][0];
  EXPECT_EQ(pair["first"], "nf4");
  EXPECT_EQ(pair["second"], "fp4");
  EXPECT_EQ(pair["diverges_less"], "nf4");
  EXPECT_LT(pair["kl_difference"]["high"], 0);
}

TEST(CliDiverge, SaysThatFewTokensAllowNoTest) {
  const ProgramResult result = run_program({"diverge", "demo", "nf4", "fp4", "--max-tokens", "300"});
  expect_success(result);
  EXPECT_NE(result.out.find("undecided, their KL differs by "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("; these tokens are too few for a test."), std::string::npos) << result.out;
}

TEST(CliDiverge, PrintsATableAndSentences) {
  const ProgramResult result = run_program({"diverge", "demo", "nf4", "bfloat16", "--worst", "1"});
  expect_success(result);
  for (const char* words : {"KL (nats)", "bfloat16 is not distinguishable from the noise floor",
                            "bfloat16 diverges less than nf4",
                            "nf4: greedy generation diverges from the baseline's text after ", "nf4: KL "})
    EXPECT_NE(result.out.find(words), std::string::npos) << words << "\n" << result.out;
  EXPECT_NE(result.err.find("tokens scored"), std::string::npos) << result.err;
  const ProgramResult three = run_program({"diverge", "demo", "nf4", "fp4", "int8", "--worst", "0"});
  EXPECT_NE(three.out.find("All 3 pairs are judged together (Holm): the chance of any false verdict is 5 % "
                           "at most."),
            std::string::npos)
      << three.out;
  // A short text has no interval, and says what is missing.
  const ProgramResult few = run_program({"diverge", "demo", "nf4", "--max-tokens", "300"});
  expect_success(few);
  EXPECT_NE(few.err.find("Intervals and verdicts need 1536 scored tokens"), std::string::npos) << few.err;
}

// The passes of a memory that holds one candidate at a time give the same numbers.
TEST(CliDiverge, TakesSeveralPassesWhereMemoryIsShort) {
  const auto measured = [](const std::string& memory) {
    const ProgramResult result = run_program({"diverge", "demo", "nf4", "fp4", "--max-tokens", "400",
                                              "--no-noise-floor", "--max-memory", memory, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out);
  };
  const Json one = measured("100000"), several = measured("1");
  EXPECT_EQ(one["passes"], 1);
  EXPECT_EQ(several["passes"], 2);
  EXPECT_EQ(one["candidates"], several["candidates"]);
  EXPECT_EQ(one["noise_floor"], nullptr);
}

TEST(CliDiverge, AnotherVocabularyFailsAlone) {
  const ProgramResult result =
      run_program({"diverge", "demo", kModel, "nf4", "--max-tokens", "200", "--json"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_NE(json["candidates"][0]["error"].get<std::string>().find("vocabulary"), std::string::npos)
      << json["candidates"][0];
  EXPECT_TRUE(json["candidates"][1].contains("kl_mean"));
}

TEST(CliDiverge, FailsOnLimits) {
  const auto with_limits = [](const std::string& rules, const std::string& tokens) {
    return run_program({"diverge", "demo", "nf4", "--max-tokens", tokens, "--no-noise-floor", "--worst", "0",
                        "--fail-on", rules});
  };
  EXPECT_EQ(with_limits("kl:1,agreement:0.5", "0").exit_code, 0);
  const ProgramResult broken = with_limits("kl:0.001,agreement:0.999", "0");
  EXPECT_EQ(broken.exit_code, 4);
  for (const char* words : {"--fail-on kl:0.001 is broken: divergence, nf4: its KL divergence of ",
                            "--fail-on agreement:0.999 is broken: divergence, nf4: its top-1 agreement of "})
    EXPECT_NE(broken.err.find(words), std::string::npos) << broken.err;
  EXPECT_NE(broken.out.find("KL (nats)"), std::string::npos) << "the table is shown all the same";
  const ProgramResult undecided = with_limits("kl:0.05", "300");
  EXPECT_EQ(undecided.exit_code, 1);
  EXPECT_NE(undecided.err.find("error: 'kl:0.05' is undecided: divergence, nf4"), std::string::npos)
      << undecided.err;
  expect_failure(with_limits("kl:2%", "300"), 2, {"--fail-on", "'kl:2%'", "kl:0.02"});
  expect_failure(with_limits("accuracy:1%", "300"), 2, {"--fail-on", "'accuracy:1%'"});
}

// A GGUF file, a folder and a recipe of the baseline's vocabulary, in one pass. The folder holds the codes
// that the precision of its name gives.
TEST(CliDiverge, TakesFilesFoldersAndRecipes) {
  const TemporaryFolder folder;
  const std::string q8 = folder / "q8.gguf", nf4 = folder / "nf4", recipe = folder / "mixed.toml";
  expect_success(run_program({"quantize", "demo", q8, "--recipe", "Q8_0"}));
  expect_success(run_program({"quantize", "demo", nf4, "--precision", "nf4"}));
  write_file(recipe,
             "name = \"mixed\"\ndefault = \"nf4\"\n[[modules]]\nmatch = \"*.attn.*\"\nformat = \"int8\"\n");
  const ProgramResult result =
      run_program({"diverge", "demo", q8, nf4, "recipe:" + recipe, "nf4", "--max-tokens", "2400", "--json",
                   "--no-noise-floor", "--fail-on", "kl:1,agreement:0.5"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["candidates"].size(), 4U);
  EXPECT_EQ(json["passes"], 1);
  const auto kl_of = [&](std::size_t i) { return json["candidates"][i]["kl_mean"]["value"].get<double>(); };
  EXPECT_LT(kl_of(0), kl_of(2)) << "8 bits are nearer than 4 and 8";
  EXPECT_LT(kl_of(2), kl_of(3)) << "and those than 4";
  EXPECT_EQ(kl_of(1), kl_of(3));
  EXPECT_GT(kl_of(0), 0);
  // Verdicts say of how many they are.
  EXPECT_EQ(json["pairs"].size(), 6U);
  EXPECT_EQ(json["pairs_correction"], (Json{{"method", "holm"}, {"comparisons", 6}, {"error", 0.05}}));
  EXPECT_EQ(json["pairs"][0]["diverges_less"], json["pairs"][0]["first"]);
  EXPECT_LE(json["pairs"][0]["error_level"], 0.05);
  ASSERT_EQ(json["limits"].size(), 8U);
  EXPECT_EQ(json["limits_correction"]["comparisons"], 8);
  for (const Json& limit : json["limits"]) EXPECT_EQ(limit["verdict"], "kept") << limit;
  EXPECT_NE(result.err.find("8 limits of quality are judged together (Holm)"), std::string::npos)
      << result.err;
}

// The baseline's own text, for a model without one.
TEST(CliDiverge, ScoresASampleThatTheBaselineWrites) {
  const auto sampled = [](const std::string& flag) {
    const ProgramResult result =
        run_program({"diverge", "demo", "nf4", "float32", flag, "--no-noise-floor", "--json"});
    expect_success(result);
    return Json::parse(result.out);
  };
  const Json once = sampled("--sample=2048"), again = sampled("--sample=2048");
  EXPECT_EQ(once["candidates"], again["candidates"]) << "one seed";
  EXPECT_EQ(once["corpus_sha256"], again["corpus_sha256"]);
  EXPECT_EQ(once["corpus_sha256"].get<std::string>().size(), 64U);
  EXPECT_EQ(once["tokens"], 2048);
  EXPECT_EQ(once["tokens_scored"], 2044) << "each of four sequences has a first token";
  EXPECT_EQ(once["protocol"],
            "hf context=512 stride=512; sample of float32: seed=1 temperature=1 sequences=4x512");
  EXPECT_EQ(once["candidates"][1]["kl_max"], 0);
  EXPECT_GT(once["candidates"][0]["kl_mean"]["low"], 0);
  // On its own text the baseline's loss is its entropy, so that the mean change of the loss is the KL.
  const double ratio = once["candidates"][0]["log_perplexity_ratio"]["value"],
               kl = once["candidates"][0]["kl_mean"]["value"];
  EXPECT_NEAR(ratio, kl, 0.5 * kl);
  expect_failure(run_program({"diverge", "demo", "nf4", "--sample=1"}), 2, {"--sample", "2 to", "found '1'"});
  expect_failure(run_program({"diverge", "demo", "nf4", "--sample", "--stride", "4"}), 2, {"--sample"});
  expect_failure(run_program({"diverge", "demo", "nf4", "--sample=x"}), 2, {"--sample", "found 'x'"});
}

TEST(CliDiverge, RefusesWhatItCannotCompare) {
  expect_failure(run_program({"diverge", "demo"}), 2, {"CANDIDATE"});
  expect_failure(run_program({"diverge", "demo", "nf4", "nf4"}), 2, {"CANDIDATE", "'nf4'"});
  expect_failure(run_program({"diverge", "demo", "nf5"}), 2, {"nf5"});
  expect_failure(run_program({"diverge", "demo", "nf4", "--text", "/absent.txt"}), 1, {"/absent.txt"});
  expect_failure(run_program({"diverge", "demo", "nf4", "--context", "1"}), 1, {"context", "expected 2 to"});
  expect_failure(run_program({"diverge", "demo", "nf4", "--ids"}), 2, {"--ids", "--text"});
}

// A file that holds blocks is compared with what could be made of it, behind everything else that a decision
// needs, and where memory holds it.
TEST(CliPrecisions, OthersAreMadeOfAFileOfBlocksAndSaySo) {
  const TemporaryFolder folder;
  const std::string file = folder / "m.gguf";
  expect_success(run_program({"quantize", "demo", file, "--recipe", "Q4_0"}));
  const auto labels_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"tradeoff",  file,       "--device", "cpu",
                                   "--dry-run", "--budget", "none",     "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_program(words);
    expect_success(result);
    const Json plan = Json::parse(result.out);
    std::vector<std::string> labels;
    for (const Json& row : plan.at("cases")) labels.push_back(row["label"]);
    return labels;
  };
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels_of({}), (Labels{"as stored", "as stored, activations int8",
                                   "bfloat16 of dequantized weights", "int8-dynamic of dequantized weights",
                                   "nf4 of dequantized weights", "float32 of dequantized weights"}));
  EXPECT_EQ(labels_of({"--activations", "int8"}).at(0), "as stored, activations int8");
  EXPECT_EQ(labels_of({"--activations", "int8"}).at(1), "bfloat16 of dequantized weights");
  EXPECT_EQ(labels_of({"--precision", "stored,stored+activations:int8"}),
            (Labels{"as stored", "as stored, activations int8"}));
  EXPECT_EQ(labels_of({"--precision", "nf4+head,stored"}),
            (Labels{"nf4+head:nf4 of dequantized weights", "as stored"}));
  EXPECT_EQ(labels_of({"--max-memory", "1"}), Labels{"as stored"}) << "nothing else fits";
  EXPECT_EQ(labels_of({"--with", "demo"}).at(0), "m.gguf: as stored");
  for (const std::string& label : labels_of({"--with", "demo"}))
    EXPECT_EQ(label.find("dequantized"), std::string::npos) << label;
}

// "stored" is what a quantized model holds, and a name in lists of precisions.
TEST(CliPrecisions, StoredIsWhatAQuantizedModelHolds) {
  const TemporaryFolder folder;
  const std::string file = folder / "m.gguf";
  expect_success(run_program({"quantize", "demo", file, "--recipe", "Q4_0"}));
  const ProgramResult swept =
      run_program({"sweep", "precisions", file, "--precision", "float32,stored", "-p", "a", "-n", "2", "-r",
                   "1", "--processes", "1", "--budget", "none", "--json"});
  expect_success(swept);
  const Json rows = Json::parse(swept.out)["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["label"], "float32 of dequantized weights");
  EXPECT_EQ(rows[0]["setting"]["precision"], "float32");
  EXPECT_EQ(rows[1]["label"], "as stored");
  EXPECT_LT(rows[1]["values"]["resident_weights_bytes"]["value"],
            rows[0]["values"]["resident_weights_bytes"]["value"]);
  // The blocks stand for the numbers that they are read as.
  const ProgramResult diverged = run_program(
      {"diverge", file, "stored", "q8_0", "--precision", "float32", "--max-tokens", "100", "--json"});
  expect_success(diverged);
  EXPECT_EQ(Json::parse(diverged.out)["candidates"][0]["candidate"], "as stored");
  EXPECT_LT(Json::parse(diverged.out)["candidates"][0]["kl_mean"]["value"], 1e-6);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"sweep", "precisions", "demo", "--precision", "float32,stored"},
        {"bench", "demo", "--precision", "stored"},
        {"diverge", "demo", "stored"},
        {"diverge", "demo", "nf4", "--precision", "stored"}})
    expect_failure(run_program(command), 2, {"--precision", "found 'stored'", "plain numbers"});
}

}  // namespace
}  // namespace assay::test
