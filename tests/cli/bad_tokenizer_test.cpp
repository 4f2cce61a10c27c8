// Folders whose tokenizer is missing or broken.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

class CliBadTokenizer : public testing::Test {
 protected:
  CliBadTokenizer() { copy_model_fixture("with_tokenizer", model_); }
  OrderedJson tokenizer() const { return OrderedJson::parse(read_file(file_)); }
  void expect_refused(std::initializer_list<std::string> words) {
    expect_failure(run_program({"tokenize", model_, "--text", "hi"}), 1, words);
    expect_failure(run_program({"generate", model_, "-p", "hi", "-n", "2"}), 1, words);
  }
  void expect_text_refused(std::string_view text, std::initializer_list<std::string> words) {
    write_file(file_, text);
    expect_refused(words);
  }

  TemporaryFolder folder_;
  const std::string model_ = folder_ / "model", file_ = model_ + "/tokenizer.json";
};

TEST_F(CliBadTokenizer, TheSoundOneLoads) {
  expect_success(run_program({"tokenize", model_, "--text", "hi"}));
}

// The model has fewer tokens than the tokenizer: a text that needs one of the others cannot be run.
TEST_F(CliBadTokenizer, MoreTokensThanTheModel) {
  constexpr std::int64_t kVocab = 270, kHidden = 20;
  TensorList weights(fs::path(model_) / "model.safetensors");
  WrittenTensor& table = weights["transformer.wte.weight"];
  table.shape = {kVocab, kHidden};
  table.bytes.resize(static_cast<std::size_t>(kVocab * kHidden * 4));
  write_file(model_ + "/model.safetensors", weights.file());
  OrderedJson config = OrderedJson::parse(read_file(model_ + "/config.json"));
  config["vocab_size"] = kVocab;
  config.erase("eos_token_id");
  write_file(model_ + "/config.json", config.dump());
  const ProgramResult low = run_program({"generate", model_, "-p", "q", "-n", "2"});
  expect_success(low);
  EXPECT_NE(low.err.find("the tokenizer knows 300 tokens but the model only 270"), std::string::npos)
      << low.err;
  const OrderedJson ids =
      OrderedJson::parse(run_program({"tokenize", model_, "--text", "<|endoftext|>", "--json"}).out)["ids"];
  ASSERT_GE(ids[0].get<int>(), kVocab);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", model_, "-p", "q<|endoftext|>", "-n", "2"},
        {"logits", model_, "-p", "q<|endoftext|>", "-o", folder_ / "never.npy"},
        {"perplexity", model_, kText}})
    expect_failure(run_program(command), 1, {model_, "token id", "is outside the model's vocabulary of 270"});
}

TEST_F(CliBadTokenizer, NoneWithText) {
  fs::remove(file_);
  expect_refused({model_, "tokenizer.json", "vocab.json"});
  const std::string corpus = folder_ / "corpus.txt";
  write_file(corpus, "some text");
  expect_failure(run_program({"perplexity", model_, corpus}), 1, {model_, "tokenizer.json"});
  expect_failure(run_program({"run", model_, "-p", "hi", "--corpus", corpus, "-o", folder_ / "out"}), 1,
                 {model_, "tokenizer.json"});
}

TEST_F(CliBadTokenizer, NoneWithIds) {
  fs::remove(file_);
  const ProgramResult generated =
      run_program({"generate", model_, "--ids", "1,2", "-n", "3", "--ignore-end", "--json"});
  expect_success(generated);
  EXPECT_EQ(OrderedJson::parse(generated.out)["ids"].size(), 3U);
  const ProgramResult shown =
      run_program({"generate", model_, "--ids", "1,2", "-n", "3", "--ignore-end", "--quiet"});
  expect_success(shown);
  EXPECT_EQ(std::count(shown.out.begin(), shown.out.end(), '\n'), 1);
  expect_success(run_program({"logits", model_, "--ids", "1,2", "-o", folder_ / "x.npy"}));
}

TEST_F(CliBadTokenizer, OnlyTextNeedsOneThatCanBeRead) {
  OrderedJson json = tokenizer();
  json["model"]["type"] = "Morphemes";
  write_file(file_, json.dump());
  const std::string ids = folder_ / "ids.txt";
  write_file(ids, "1,2,3,4,5");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", model_, "--ids", "1,2", "-n", "3"},
        {"logits", model_, "--ids", "1,2", "-o", folder_ / "x.npy"},
        {"perplexity", model_, ids, "--ids"},
        {"bench", model_, "-p", "8", "-n", "4", "-r", "1"}})
    expect_success(run_program(command));
  const ProgramResult result = run_program({"generate", model_, "--ids", "1,2", "-n", "3"});
  EXPECT_NE(
      result.err.find("token ids stand in place of text, because the tokenizer cannot be read: " + file_),
      std::string::npos)
      << result.err;
  expect_refused({"tokenizer.json", "Morphemes"});
}

TEST_F(CliBadTokenizer, IdsAreShownAsTextWhereATokenizerIsPadded) {
  OrderedJson json = tokenizer();
  auto& vocab = json["model"]["vocab"];
  std::vector<std::string> last;
  for (const auto& [text, id] : vocab.items())
    if (id.get<int>() > 290) last.push_back(text);
  for (const std::string& text : last) vocab.erase(text);
  json["model"]["merges"] = OrderedJson::array();
  json["added_tokens"] = OrderedJson::array();
  write_file(file_, json.dump());
  const ProgramResult result = run_program({"tokenize", model_, "--decode", "--ids", "72,295,299,73"});
  expect_success(result);
  expect_success(run_program({"generate", model_, "--ids", "295,299", "-n", "20", "--ignore-end"}));
}

TEST_F(CliBadTokenizer, NotJson) {
  expect_text_refused("", {"tokenizer.json", "JSON"});
  expect_text_refused("[]", {"tokenizer.json", "object"});
  expect_text_refused("{}", {"tokenizer.json"});
  expect_text_refused("{\"model\": 3}", {"tokenizer.json", "model"});
  expect_text_refused("{\"model\": {\"type\": \"WordPiece\"}}", {"tokenizer.json"});
  const std::string whole = read_file(model_fixture("with_tokenizer/tokenizer.json"));
  expect_text_refused(whole.substr(0, whole.size() / 2), {"tokenizer.json", "JSON"});
}

TEST_F(CliBadTokenizer, DeepNesting) {
  constexpr std::size_t kDepth = 100'000;
  const std::string open(kDepth, '['), shut(kDepth, ']');
  expect_text_refused("{\"model\": " + open + shut + "}", {"tokenizer.json", "nested"});
  expect_text_refused(open + shut, {"tokenizer.json"});
}

TEST_F(CliBadTokenizer, MergesOfUnknownTokens) {
  OrderedJson json = tokenizer();
  json["model"]["merges"].push_back("zzz qqq");
  expect_text_refused(json.dump(), {"tokenizer.json", "merges", "zzz"});
  json = tokenizer();
  json["model"]["merges"].push_back({"zzz", "qqq"});
  expect_text_refused(json.dump(), {"tokenizer.json", "merges", "zzz"});
  for (const char* odd : {"\"onlyone\"", "\"a b c\"", "3", "[\"a\"]", "null"}) {
    json = tokenizer();
    json["model"]["merges"].push_back(OrderedJson::parse(odd));
    expect_text_refused(json.dump(), {"tokenizer.json", "merges"});
  }
}

TEST_F(CliBadTokenizer, Vocabulary) {
  for (const char* odd : {"-1", "1.5", "\"1\"", "18446744073709551615", "9223372036854775807", "null"}) {
    OrderedJson json = tokenizer();
    json["model"]["vocab"]["zzz"] = OrderedJson::parse(odd);
    expect_text_refused(json.dump(), {"tokenizer.json", "zzz"});
  }
  OrderedJson json = tokenizer();
  json["model"]["vocab"]["zzz"] = 5;  // taken
  expect_text_refused(json.dump(), {"tokenizer.json", "zzz", "5"});
  json["model"]["vocab"] = OrderedJson::object();
  expect_text_refused(json.dump(), {"tokenizer.json"});
  json["model"]["vocab"] = OrderedJson::array();
  expect_text_refused(json.dump(), {"tokenizer.json", "vocab"});
}

TEST_F(CliBadTokenizer, SpecialFiles) {
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0644), 0);
  expect_refused({"tokenizer.json", "expected a regular file"});
  fs::remove(file_);
  fs::create_directory(file_);
  expect_refused({"tokenizer.json", "expected a regular file"});
  fs::remove(file_);
  fs::create_symlink("tokenizer.json", file_);
  expect_refused({"tokenizer.json"});
}

TEST_F(CliBadTokenizer, VocabularyFilesAlone) {
  fs::remove(file_);
  write_file(model_ + "/vocab.json", "{\"h\": 0, \"i\": 1}");
  expect_refused({"merges.txt"});
  write_file(model_ + "/merges.txt", "#version: 0.2\nh z\n");
  expect_refused({"merges.txt", "z"});
  write_file(model_ + "/vocab.json", "nothing");
  expect_refused({"vocab.json"});
}

// A tokenizer may know more tokens than the model has rows: the text that needs them is refused, nothing is
// read from beyond the table.
TEST_F(CliBadTokenizer, TokensBeyondTheModel) {
  OrderedJson json = tokenizer();
  json["added_tokens"].push_back({{"id", 300},
                                  {"content", "<more>"},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}});
  write_file(file_, json.dump());
  expect_failure(run_program({"generate", model_, "-p", "a<more>", "-n", "2"}), 1, {"300"});
  expect_success(run_program({"generate", model_, "-p", "a", "-n", "2"}));
}

}  // namespace
}  // namespace assay::test
