// Prompts, token ids and texts that cannot be used.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

class CliBadInput : public testing::Test {
 protected:
  std::string file(std::string_view text) {
    const std::string path = folder_ / "input.txt";
    write_file(path, text);
    return path;
  }
  ProgramResult generate(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"generate", kModel};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  TemporaryFolder folder_;
};

TEST_F(CliBadInput, IdsBeyondTheVocabulary) {
  for (const char* ids : {"300", "1,2,300", "2147483647", "1,-1", "-2147483648"}) {
    const std::string id = std::string(ids).substr(std::string(ids).rfind(',') + 1);
    expect_failure(generate({"--ids", ids}), 1, {"token id " + id, "300"});
    expect_failure(run_program({"logits", kModel, "--ids", ids, "-o", folder_ / "x.npy"}), 1,
                   {"token id " + id, "300"});
    const ProgramResult decoded = run_program({"tokenize", kModel, "--ids", ids});
    if (id.starts_with('-')) {
      expect_failure(decoded, 1, {"token id " + id});
    } else {
      expect_success(decoded);
      EXPECT_NE(decoded.err.find("token id " + id + " is outside the vocabulary"), std::string::npos)
          << decoded.err;
    }
  }
  expect_failure(generate({"--ids=-1"}), 1, {"token id -1"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.npy"));
}

TEST_F(CliBadInput, IdsThatAreNoIds) {
  for (const char* ids : {"1,x", "x", "1.5", "1;2", "0x10", "1e3", "99999999999", "1,,x"}) {
    expect_failure(generate({"--ids", ids}), 2, {"--ids", "1,2,3"});
    expect_failure(run_program({"logits", kModel, "--ids", ids, "-o", folder_ / "x.npy"}), 2, {"--ids"});
  }
  expect_failure(generate({"--ids", ""}), 2, {"--ids"});
}

TEST_F(CliBadInput, BeyondTheContext) {
  expect_failure(generate({"--ids", "1,2,3", "-n", "62"}), 1, {"3 tokens", "62", "context of 64"});
  expect_success(generate({"--ids", "1,2,3", "-n", "61"}));
  std::string ids = "1";
  for (int i = 0; i < 64; ++i) ids += ",1";
  expect_failure(generate({"--ids", ids, "-n", "1"}), 1, {"65", "64"});
  expect_failure(run_program({"logits", kModel, "--ids", ids, "-o", folder_ / "x.npy"}), 1, {"65", "64"});
  EXPECT_TRUE(folder_.is_empty());
}

TEST_F(CliBadInput, EmptyPrompt) {
  expect_failure(generate({"-p", ""}), 1, {"prompt", "empty"});
  expect_failure(run_program({"logits", kModel, "-p", "", "-o", folder_ / "x.npy"}), 1, {"prompt", "empty"});
  expect_failure(generate({}), 2, {"prompt", "--ids"});
  EXPECT_TRUE(folder_.is_empty());
}

TEST_F(CliBadInput, MalformedUtf8) {
  for (const auto& [text, at] : {std::pair{std::string("ab\xff"), 2},
                                 {std::string("\xc3"), 0},
                                 {std::string("a\xed\xa0\x80"), 1},
                                 {std::string("abc\xc0\xaf"), 3},
                                 {std::string("\xf5\x80\x80\x80"), 0}}) {
    const std::string where = "byte " + std::to_string(at);
    expect_failure(generate({"-p", text}), 1, {"prompt", "UTF-8", where});
    expect_failure(generate({"--prompts-file", file(text)}), 1, {"UTF-8", where});
    expect_failure(run_program({"perplexity", kModel, file(text)}), 1, {"input.txt", "UTF-8", where});
    expect_failure(run_program({"tokenize", kModel, file(text)}), 1, {"input.txt", "UTF-8", where});
    expect_failure(run_program({"tokenize", kModel}, {.input = text}), 1, {"standard input", "UTF-8", where});
    expect_failure(run_program({"tokenize", kModel, "--text", text}), 1, {"--text", "UTF-8", where});
  }
}

TEST_F(CliBadInput, PromptsFile) {
  expect_failure(generate({"--prompts-file", folder_ / "absent"}), 1, {"absent", "No such file"});
  expect_failure(generate({"--prompts-file", folder_.path()}), 1, {folder_.path(), "regular file"});
  expect_failure(generate({"--prompts-file", file("")}), 1, {"input.txt", "no prompt"});
  expect_failure(generate({"--prompts-file", file("\n\r\n\n")}), 1, {"input.txt", "no prompt"});
  const ProgramResult three =
      generate({"--prompts-file", file("\xEF\xBB\xBFone\r\n\r\ntwo\rthree"), "-n", "2", "--json"});
  expect_success(three);
  EXPECT_EQ(nlohmann::json::parse(three.out)["generations"].size(), 3U);
}

TEST_F(CliBadInput, Corpus) {
  expect_failure(run_program({"perplexity", kModel, folder_ / "absent"}), 1, {"absent", "No such file"});
  expect_failure(run_program({"perplexity", kModel, folder_.path()}), 1, {folder_.path(), "regular file"});
  expect_failure(run_program({"perplexity", kModel, file("")}), 1, {"input.txt", "empty"});
  expect_failure(run_program({"perplexity", kModel, file("a")}), 1, {"1 token;", "at least 2"});
  expect_success(run_program({"perplexity", kModel, file("ab")}));
}

// A missing text is known before the work begins, and nothing is written.
TEST_F(CliBadInput, CorpusOfARun) {
  expect_failure(run_program({"run", kModel, "-p", "a", "-n", "2", "-r", "1", "--corpus", folder_ / "absent",
                              "-o", folder_ / "out"}),
                 1, {"absent"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/results.json"));
}

TEST_F(CliBadInput, PipesInPlaceOfTexts) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0644), 0);
  expect_failure(run_program({"perplexity", kModel, pipe}), 1, {pipe, "regular file"});
  expect_failure(run_program({"tokenize", kModel, pipe}), 1, {pipe, "regular file"});
  expect_failure(run_program({"report", pipe}), 1, {pipe, "regular file"});
  expect_failure(generate({"--prompts-file", pipe}), 1, {pipe, "regular file"});
}

TEST_F(CliBadInput, DecodingWhatIsNoList) {
  expect_failure(run_program({"tokenize", kModel, file("{\"ids\": 1}"), "--decode"}), 2,
                 {"input.txt", "1,2,3"});
  expect_failure(run_program({"tokenize", kModel, "--decode", "--text", "x"}), 2, {"--text", "--decode"});
  expect_failure(run_program({"tokenize", kModel, "--ids", "5", "--text", "x"}), 2, {"--text", "--ids"});
  expect_failure(run_program({"tokenize", kModel, "--decode"}, {.input = "1 2 three"}), 2,
                 {"standard input", "three"});
  expect_failure(run_program({"tokenize", kModel, "--decode"}, {.input = std::string("\0\1\2", 3)}), 2,
                 {"standard input"});
}

// A prompt is text, whatever it looks like.
TEST_F(CliBadInput, PromptsThatLookLikeSomethingElse) {
  for (const std::string prompt : {"[hello, world]", "[x]", "[]", "{}", "a,b", "\"quoted\"", "'q'", "%%",
                                   "--json", "-n", "-1", "a=b", "@file", "[1,2"}) {
    const ProgramResult result = generate({"-p", prompt, "-n", "1", "--ignore-end", "--json"});
    SCOPED_TRACE(prompt);
    expect_success(result);
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    ASSERT_TRUE(json.contains("prompt_ids"));
    std::string ids;
    for (const auto& id : json["prompt_ids"]) ids += (ids.empty() ? "" : ",") + std::to_string(id.get<int>());
    EXPECT_EQ(run_program({"tokenize", kModel, "--ids", ids}).out, prompt);
  }
}

// What cannot be run is known before the first text is written.
TEST_F(CliBadInput, OneBadPromptAmongGoodOnes) {
  expect_failure(generate({"-p", "good", "-p", "bad \xff", "-n", "2", "--json"}), 1, {"UTF-8"});
}

}  // namespace
}  // namespace assay::test
