// Perplexity by protocol, tasks and corpora on the command line: what is printed, and what is refused.
#include <algorithm>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/fixtures.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

class CliQuality : public testing::Test {
 protected:
  static Json json_of(std::vector<std::string> words) {
    words.emplace_back("--json");
    const ProgramResult result = run_program(words);
    expect_success(result);
    return Json::parse(result.out);
  }
  const TemporaryFolder folder_;
  const std::string llama_ = fixture("quality/llama").string(), gpt2_ = fixture("quality/gpt2").string(),
                    text_ = fixture("quality/text.txt").string(),
                    choices_ = fixture("quality/choices.jsonl").string();
};

TEST_F(CliQuality, ReadsNoModelForATextThatIsNotThere) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"/nowhere/book.txt"}, {"--sentences", "/nowhere/book.txt"}}) {
    std::vector<std::string> command{"perplexity", llama_};
    command.insert(command.end(), words.begin(), words.end());
    ProgramResult result = run_program(command);
    expect_failure(result, 1, {"/nowhere/book.txt"});
    EXPECT_EQ(result.err.find("Loaded"), std::string::npos) << result.err;
    command.insert(command.end(), {"--with", gpt2_});
    expect_failure(run_program(command), 1, {"/nowhere/book.txt"});
  }
}

TEST_F(CliQuality, EachProtocolNamesItself) {
  const Json hf = json_of({"perplexity", llama_, text_});
  EXPECT_EQ(hf["protocol"], "hf context=64 stride=32 bos=0");
  EXPECT_NE(hf["protocol_perplexity"], hf["perplexity"]);
  EXPECT_TRUE(hf["standard_error"].is_null()) << "four blocks of 256 tokens";
  EXPECT_EQ(hf["dtype"], "float32");
  const Json llama_cpp = json_of({"perplexity", llama_, text_, "--protocol", "llama.cpp"});
  EXPECT_EQ(llama_cpp["protocol"], "llama.cpp context=64 bos=replace:0");
  EXPECT_GT(llama_cpp["independent_standard_error"].get<double>(), 0);
  const Json lm_eval = json_of({"perplexity", llama_, text_, "--protocol", "lm-eval", "--bos", "none"});
  EXPECT_EQ(lm_eval["protocol"], "lm-eval context=64 prefix=0 bos=none");
  for (const char* key : {"words", "bytes", "word_perplexity", "byte_perplexity", "bits_per_byte"})
    EXPECT_GT(lm_eval[key].get<double>(), 0) << key;
  EXPECT_EQ(json_of({"perplexity", gpt2_, text_, "--protocol", "gptq"})["protocol"],
            "gptq context=64 bos=none");
  const ProgramResult shown = run_program({"perplexity", gpt2_, text_, "--protocol", "lm-eval"});
  EXPECT_NE(shown.err.find("bits per byte"), std::string::npos) << shown.err;
}

TEST_F(CliQuality, RefusesWhatDoesNotGoTogether) {
  expect_failure(run_program({"perplexity", gpt2_, text_, "--protocol", "mlx"}), 2, {"--protocol", "mlx"});
  expect_failure(run_program({"perplexity", gpt2_, text_, "--bos", "often"}), 2, {"--bos", "often"});
  expect_failure(run_program({"perplexity", gpt2_, text_, "--protocol", "gptq", "--stride", "8"}), 2,
                 {"--stride", "gptq"});
  expect_failure(run_program({"perplexity", llama_, text_, "--protocol", "lm-eval", "--bos", "each"}), 2,
                 {"--bos", "lm-eval"});
  expect_failure(run_program({"perplexity", gpt2_, text_, "--sentences", text_}), 2, {"FILE", "both"});
  expect_failure(run_program({"perplexity", gpt2_}), 2, {"FILE", "neither"});
  write_file(folder_.path() / "short.txt", "The river.");
  expect_failure(run_program({"perplexity", gpt2_, folder_ / "short.txt", "--protocol", "llama.cpp"}), 1,
                 {"llama.cpp", "at least 128"});
}

TEST_F(CliQuality, SentencesAreScoredOneByOne) {
  write_file(folder_.path() / "s.txt", "The river sold it.\nHer brother followed the old ferry.\n");
  const Json json = json_of({"perplexity", gpt2_, "--sentences", folder_ / "s.txt"});
  EXPECT_EQ(json["texts"], 2);
  EXPECT_EQ(json["file"], folder_ / "s.txt");
}

TEST_F(CliQuality, TwoRunsOfDifferentProtocolsAreNotCompared) {
  for (const char* context : {"32", "64"})
    expect_success(run_program({"tradeoff", gpt2_, "--precision", "float32", "-p", "The river", "-n", "2",
                                "-r", "1", "--processes", "1", "--corpus", text_, "--context", context, "-o",
                                folder_ / context, "--quiet"}));
  const ProgramResult result =
      run_program({"compare", folder_ / "32", folder_ / "64", "--fail-on", "perplexity:1%"});
  EXPECT_EQ(result.exit_code, 1);
  for (const char* words : {"hf context=32 stride=16", "hf context=64 stride=32", "not compared"})
    EXPECT_NE(result.err.find(words), std::string::npos) << words;
}

TEST_F(CliQuality, ATaskHasRowsFlipsAndAnswers) {
  const Json json = json_of({"task", llama_, choices_, "--precision", "float32,nf4"});
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][0]["scenario"], "task");
  EXPECT_NEAR(json["rows"][0]["values"]["accuracy"]["value"].get<double>(), 13.0 / 30, 1e-12);
  EXPECT_EQ(json["rows"][1]["values"]["items"]["value"], 30);
  EXPECT_TRUE(json["rows"][1]["values"].contains("flips"));
  EXPECT_EQ(json["rows"][1]["answers"].size(), 30U);
  EXPECT_EQ(json["rows"][1]["answers"][2]["log_likelihoods"].size(), 4U);
  const ProgramResult shown = run_program({"task", gpt2_, choices_, "--precision", "float32,nf4"});
  expect_success(shown);
  EXPECT_NE(shown.out.find("Accuracy"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("McNemar"), std::string::npos) << shown.out;
}

TEST_F(CliQuality, ABadLineOfATaskIsNamed) {
  write_file(
      folder_.path() / "t.jsonl",
      "{\"prompt\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 0}\n{\"prompt\": \"a\", \"choices\": "
      "[\"b\"], \"answer\": 0}\n");
  expect_failure(run_program({"task", llama_, folder_ / "t.jsonl"}), 1, {"t.jsonl:2", "choices", "found 1"});
  expect_failure(run_program({"task", llama_, folder_ / "absent.jsonl"}), 1, {"absent.jsonl"});
  expect_failure(run_program({"task", llama_}), 2, {"FILE"});
}

// Whatever a task's file holds, one sentence says what is wrong with it.
TEST_F(CliQuality, AFileThatIsNoTaskIsNamed) {
  const std::string item = R"({"prompt": "The ferry is", "choices": ["late", "green"], "answer": 0})";
  std::string binary(512, '\0');
  for (std::size_t i = 0; i < binary.size(); ++i) binary[i] = static_cast<char>(i);
  for (const auto& [content, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"", {"a JSON object on each line", "found none"}},
           {" \n\n", {"a JSON object on each line", "found none"}},
           {binary, {"not valid UTF-8 at byte 128"}},
           {"[\n" + item + "\n]\n", {"t.jsonl:1", "over several lines"}},
           {"{\n\"prompt\": \"a\"\n}\n", {"t.jsonl:1", "over several lines"}},
           {"[" + item + "]\n", {"t.jsonl:1", "expected an object"}},
           {R"({"prompt": "a", "choices": ["b", "c"], "answer": null})", {"a choice or its place", "null"}},
           {R"({"prompt": "a", "choices": ["b", "c"], "answer": true})", {"a choice or its place", "true"}},
           {item + "\r\n" + R"({"prompt": "a", "choices": ["b", "c"], "answer": 2})",
            {"t.jsonl:2", "0 to 1"}},
           {std::string(5'000'000, '['), {"t.jsonl:1", "nested deeper"}}}) {
    write_file(folder_.path() / "t.jsonl", content);
    expect_failure(run_program({"task", llama_, folder_ / "t.jsonl"}), 1, {words.front(), words.back()});
  }
}

TEST_F(CliQuality, LineEndsMarksAndLongLinesOfATaskAreRead) {
  const std::string item = R"({"prompt": "The ferry is", "choices": ["late", "green"], "answer": 0})";
  write_file(folder_.path() / "t.jsonl", "\xEF\xBB\xBF" + item + "\r\n" + item + "\r\n");
  const Json read = json_of({"task", llama_, folder_ / "t.jsonl", "--precision", "float32"});
  EXPECT_EQ(read["rows"][0]["answers"].size(), 2U);
  std::string prompt;
  while (prompt.size() < 1'000'000) prompt += "The ferry is ";
  write_file(folder_.path() / "t.jsonl",
             R"({"prompt": ")" + prompt + R"(", "choices": ["late", "green"], "answer": 0})");
  const Json cut = json_of({"task", llama_, folder_ / "t.jsonl", "--precision", "float32"});
  EXPECT_EQ(cut["rows"][0]["warnings"][0]["kind"], "prompt_truncated");
}

// What the calibration has read is no fair question; another precision of the same run gets no warning.
TEST_F(CliQuality, ItemsOfTheCalibrationTextAreTold) {
  const auto kinds_of = [&](const std::string& calibration) {
    const Json result = json_of(
        {"task", llama_, choices_, "--precision", "float32,int8-static", "--calibration", calibration});
    std::vector<std::vector<std::string>> kinds;
    for (const Json& row : result["rows"]) {
      kinds.emplace_back();
      for (const Json& warning : row["warnings"]) kinds.back().push_back(warning["kind"]);
    }
    return kinds;
  };
  const auto seen = kinds_of(text_);  // one item's prompt is the text's first paragraphs
  ASSERT_EQ(seen.size(), 2U);
  const auto has = [](const std::vector<std::string>& kinds) {
    return std::count(kinds.begin(), kinds.end(), "calibrated_items") > 0;
  };
  EXPECT_FALSE(has(seen[0]));
  EXPECT_TRUE(has(seen[1]));
  std::string other;
  for (int i = 0; i < 100; ++i) other += std::to_string(i * i) + " words of another text. ";
  write_file(folder_.path() / "other.txt", other);
  EXPECT_FALSE(has(kinds_of(folder_ / "other.txt")[1]));
}

TEST_F(CliQuality, TheFirstTokensOfATextAreScored) {
  const Json some = json_of({"perplexity", gpt2_, text_, "--max-tokens", "200"});
  EXPECT_EQ(some["tokens"], 200);
  EXPECT_EQ(some["protocol"], "hf context=64 stride=32 first=200");
  EXPECT_TRUE(some["words"].is_null()) << "they are those of the whole text";
  EXPECT_EQ(some["corpus_sha256"], json_of({"perplexity", gpt2_, text_})["corpus_sha256"]);
  const Json two = json_of({"perplexity", gpt2_, text_, "--max-tokens", "200", "--with", llama_});
  EXPECT_EQ(two["models"][0]["perplexity"], some["perplexity"]);
  expect_failure(run_program({"perplexity", gpt2_, "--sentences", text_, "--max-tokens", "9"}), 2,
                 {"--max-tokens", "one text file"});
  expect_failure(run_program({"perplexity", gpt2_, choices_, "--max-tokens", "9"}), 2, {"--max-tokens"});
}

TEST_F(CliQuality, ACorpusThatIsNoTextIsNamed) {
  for (const auto& [content, words] :
       std::vector<std::pair<std::string, std::string>>{{"", "is empty"},
                                                        {"\xEF\xBB\xBF", "is empty"},
                                                        {"ab\xFF", "not valid UTF-8 at byte 2"},
                                                        {"a", "1 token"}}) {
    const std::string file = folder_ / "c.txt";
    write_file(file, content);
    expect_failure(run_program({"perplexity", gpt2_, file}), 1, {words});
    expect_failure(run_program({"perplexity", gpt2_, file, "--max-tokens", "50"}), 1, {words});
    expect_failure(run_program({"diverge", gpt2_, "nf4", "--text", file, "--no-noise-floor"}), 1, {words});
    expect_failure(
        run_program({"diverge", gpt2_, "nf4", "--text", file, "--max-tokens", "50", "--no-noise-floor"}), 1,
        {words});
  }
}

TEST_F(CliQuality, TheTradeoffShowsAccuracy) {
  const Json json = json_of({"tradeoff", llama_, "--precision", "float32,nf4", "-p", "The river", "-n", "2",
                             "-r", "1", "--processes", "1", "--corpus", text_, "--task", choices_});
  int found = 0;
  for (const Json& row : json["rows"])
    if (row["scenario"] == "trade-off") {
      ++found;
      EXPECT_TRUE(row["values"].contains("accuracy"));
      EXPECT_TRUE(row["values"].contains("perplexity"));
      EXPECT_TRUE(row["values"].contains("total_latency_s"));
    }
  EXPECT_EQ(found, 2);
}

TEST_F(CliQuality, TheTaskThatShipsIsWellFormed) {
  const Json json =
      json_of({"task", "demo", demo_model() / "tasks/continuations.jsonl", "--precision", "float32"});
  EXPECT_EQ(json["rows"][0]["values"]["items"]["value"], 150);
  EXPECT_GT(json["rows"][0]["values"]["accuracy"]["value"].get<double>(), 0.35) << "chance is 0.25";
}

TEST_F(CliQuality, ACorpusIsPreparedAndHashed) {
  write_file(folder_.path() / "in.txt", " = A = \n \n One , two .\n");
  const Json json = json_of({"corpus", folder_ / "in.txt", folder_ / "out.jsonl", "--form", "lm-eval"});
  EXPECT_EQ(json["documents"], 1);
  EXPECT_EQ(json["sha256"].get<std::string>().size(), 64U);
  expect_success(run_program({"perplexity", gpt2_, folder_ / "out.jsonl", "--protocol", "lm-eval"}));
  expect_failure(run_program({"corpus", folder_ / "in.txt", folder_ / "out.jsonl", "--form", "lm-eval"}), 1,
                 {"exists already", "--force"});
  expect_failure(run_program({"corpus", folder_ / "in.txt", folder_ / "out.txt", "--form", "lm-eval"}), 2,
                 {"OUT", ".jsonl"});
  expect_failure(run_program({"corpus", folder_ / "in.txt", folder_ / "x.txt", "--form", "best"}), 2,
                 {"--form", "best"});
  write_file(folder_.path() / "p.parquet", "PAR1....");
  expect_failure(run_program({"corpus", folder_ / "p.parquet", folder_ / "x.txt"}), 1,
                 {"Parquet", "to_json"});
}

TEST(CliSample, GivesAPerplexityWithoutAText) {
  const auto scored = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"perplexity", "demo", "--sample=1024", "--json"});
    const ProgramResult result = run_program(more);
    expect_success(result);
    return nlohmann::json::parse(result.out);
  };
  const auto full = scored({}), nf4 = scored({"--precision", "nf4"});
  EXPECT_EQ(full["corpus_sha256"], nf4["corpus_sha256"]) << "float32 writes the text of both";
  EXPECT_EQ(full["sampled"], true);
  EXPECT_LT(full["loss"], nf4["loss"]);
  EXPECT_EQ(nf4["protocol"],
            "hf context=512 stride=512; sample of float32: seed=1 temperature=1 sequences=2x512");
  expect_failure(run_program({"perplexity", "demo"}), 2, {"FILE", "--sample", "assay corpus"});
  expect_failure(run_program({"perplexity", "demo", kText, "--sample"}), 2, {"--sample"});
  expect_failure(run_program({"perplexity", "demo", "--sample", "--protocol", "gptq"}), 2, {"--sample"});
}

}  // namespace
}  // namespace assay::test
