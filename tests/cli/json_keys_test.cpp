// The keys that scripts read: names here are a promise.
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

// The one document on standard output.
Json run_json(std::vector<std::string> arguments, const ProgramOptions& options = {}) {
  arguments.emplace_back("--json");
  const ProgramResult result = run_program(arguments, options);
  expect_success(result);
  EXPECT_TRUE(result.out.ends_with("\n"));
  return Json::parse(result.out);
}

void expect_keys(const Json& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) EXPECT_TRUE(json.contains(key)) << key;
}

TEST(CliJsonKeys, Generate) {
  const Json json = run_json({"generate", kModel, "-p", "hello there", "-n", "7", "--ignore-end"});
  expect_keys(json, {"prompt_ids", "ids", "text", "total_latency_s", "tokens_generated", "tokens_per_sec",
                     "avg_latency_per_token_ms", "time_to_first_token_s", "token_times_s"});
  EXPECT_EQ(json["ids"].size(), 7U);
  EXPECT_EQ(json["tokens_generated"], 7);
  EXPECT_EQ(json["token_times_s"].size(), 7U);
  double phases = 0;
  for (const char* key : {"startup_s", "load_s", "warm_up_s", "tokenize_s", "prefill_s", "decode_s",
                          "sampling_s", "detokenize_s"}) {
    ASSERT_TRUE(json["phases"].contains(key)) << key;
    EXPECT_GE(json["phases"][key].get<double>(), 0) << key;
    phases += json["phases"][key].get<double>();
  }
  EXPECT_LE(phases, json["phases"]["process_s"].get<double>() + 0.02);  // the kernel counts in 10 ms
  const double latency = json["total_latency_s"];
  EXPECT_GT(latency, 0);
  EXPECT_NEAR(json["tokens_per_sec"].get<double>(), 7 / latency, 1e-6 * 7 / latency);
  EXPECT_NEAR(json["avg_latency_per_token_ms"].get<double>(), 1e3 * latency / 7, 1e-6 * latency);
  double before = 0;
  for (const double time : json["token_times_s"].get<std::vector<double>>()) {
    EXPECT_GE(time, before);
    before = time;
  }
  EXPECT_LE(before, latency);
  EXPECT_EQ(json["token_times_s"][0], json["time_to_first_token_s"]);
}

TEST(CliJsonKeys, GenerateSeveral) {
  const Json json = run_json({"generate", kModel, "-p", "one", "-p", "two", "--ids", "1,2", "-n", "2"});
  ASSERT_EQ(json["generations"].size(), 3U);
  for (const Json& each : json["generations"])
    expect_keys(each, {"prompt_ids", "ids", "text", "total_latency_s"});
  EXPECT_EQ(json["generations"][2]["prompt_ids"], Json::parse("[1, 2]"));
}

TEST(CliJsonKeys, Perplexity) {
  TemporaryFolder folder;
  write_file(folder / "corpus.txt", "abc");
  const Json json = run_json({"perplexity", kModel, folder / "corpus.txt"});
  expect_keys(json, {"loss", "perplexity", "tokens_scored", "standard_error", "protocol", "corpus_sha256"});
  EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(json["loss"].get<double>()),
              1e-9 * json["perplexity"].get<double>());
  EXPECT_EQ(json["through"], "prefill");
  const Json decode = run_json({"perplexity", kModel, folder / "corpus.txt", "--through", "decode"});
  EXPECT_EQ(decode["through"], "decode");
  EXPECT_EQ(decode["loss"], json["loss"]);
  EXPECT_EQ(decode["protocol"], json["protocol"].get<std::string>() + " through=decode");
  EXPECT_EQ(json["corpus_sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(json["protocol"].get<std::string>().find("context=64"), std::string::npos);
}

TEST(CliJsonKeys, Tokenize) {
  const Json ids = run_json({"tokenize", kModel, "--text", "hello"});
  expect_keys(ids, {"ids"});
  const Json text = run_json({"tokenize", kModel, "--decode"}, {.input = ids["ids"].dump()});
  expect_keys(text, {"ids", "text"});
  EXPECT_EQ(text["text"], "hello");
  EXPECT_EQ(text["ids"], ids["ids"]);
}

TEST(CliJsonKeys, TokenizeSaysWhatWasAdded) {
  TemporaryFolder folder;
  const std::filesystem::path kind = source_folder() + "/tests/fixtures/tokenizers/qwen2/tokenizer.json";
  TinyModel().write(folder.path());
  std::filesystem::copy(kind, folder.path() / "tokenizer.json");
  write_file(folder / "tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  const std::string model = folder.path().string();
  const Json with = run_json({"tokenize", model, "--text", "the ferry"}),
             without = run_json({"tokenize", model, "--text", "the ferry", "--no-special-tokens"});
  const Json bos = {{"id", 1}, {"text", "<s>"}}, eos = {{"id", 2}, {"text", "</s>"}};
  EXPECT_EQ(with["added"], (Json{{"before", {bos}}, {"after", {eos}}}));
  EXPECT_EQ(without["added"], (Json{{"before", Json::array()}, {"after", Json::array()}}));
  Json around = without["ids"];
  around.insert(around.begin(), 1);
  around.push_back(2);
  EXPECT_EQ(with["ids"], around);
  EXPECT_EQ(with["tokens"], without["tokens"].get<int>() + 2);
  // In words, on standard error, where something was added.
  const ProgramResult plain = run_program({"tokenize", model, "--text", "the ferry"}),
                      bare = run_program({"tokenize", model, "--text", "the ferry", "--no-special-tokens"});
  EXPECT_EQ(plain.err, "added '<s>' (1) before the text and '</s>' (2) after it\n");
  EXPECT_EQ(bare.err, "");
  EXPECT_EQ(run_program({"tokenize", kModel, "--text", "hi"}).err, "");
  // The other way round they are left out.
  const std::string ids = with["ids"].dump();
  EXPECT_EQ(run_json({"tokenize", model, "--ids", ids})["text"], "<s>the ferry</s>");
  EXPECT_EQ(run_json({"tokenize", model, "--ids", ids, "--no-special-tokens"})["text"], "the ferry");
}

TEST(CliJsonKeys, Logits) {
  TemporaryFolder folder;
  const std::string path = folder / "x.npy";
  const Json json = run_json({"logits", kModel, "--ids", "1,2,3", "-o", path});
  EXPECT_EQ(json["shape"], Json::parse("[3, 300]"));
  EXPECT_EQ(json["path"], path);
  const std::string file = read_file(path);
  ASSERT_TRUE(file.starts_with(std::string_view("\x93NUMPY\x01\x00", 8)));
  const std::size_t header = static_cast<unsigned char>(file[8]) + 256U * static_cast<unsigned char>(file[9]);
  EXPECT_EQ((10 + header) % 64, 0U);
  const std::string dictionary = file.substr(10, header);
  for (const char* part : {"'descr': '<f4'", "'fortran_order': False", "'shape': (3, 300)"})
    EXPECT_NE(dictionary.find(part), std::string::npos) << dictionary;
  EXPECT_EQ(dictionary.back(), '\n');
  ASSERT_EQ(file.size(), 10 + header + 3 * 300 * sizeof(float));
  std::vector<float> values(900);
  std::memcpy(values.data(), file.data() + 10 + header, 3600);
  for (const float value : values) ASSERT_TRUE(std::isfinite(value));
  const auto last = values.begin() + 600;
  const Json next = run_json({"generate", kModel, "--ids", "1,2,3", "-n", "1", "--ignore-end"});
  EXPECT_EQ(next["ids"][0], std::max_element(last, values.end()) - last);
}

TEST(CliJsonKeys, LogitsOfTextAreThoseOfItsIds) {
  TemporaryFolder folder;
  const Json ids = run_json({"tokenize", kModel, "--text", "hello"});
  std::string list = ids["ids"].dump();
  expect_success(run_program({"logits", kModel, "--text", "hello", "-o", folder / "text.npy"}));
  expect_success(
      run_program({"logits", kModel, "--ids", list.substr(1, list.size() - 2), "-o", folder / "ids.npy"}));
  EXPECT_EQ(read_file(folder / "text.npy"), read_file(folder / "ids.npy"));
}

TEST(CliJsonKeys, Inspect) {
  const Json json = run_json({"inspect", kModel});
  expect_keys(json, {"path", "spec", "parameters", "weight_file_bytes", "memory", "tensors"});
  expect_keys(json["spec"], {"family", "vocab", "context", "hidden", "layers", "heads"});
  EXPECT_EQ(json["spec"]["vocab"], 300);
  EXPECT_EQ(json["parameters"], 17440);
  expect_keys(json["tensors"][0], {"name", "dtype", "shape", "bytes"});
  bool has_float32 = false;
  for (const Json& row : json["memory"]) {
    expect_keys(row, {"precision", "footprint_bytes", "weights_bytes", "kv_bytes_per_token"});
    if (row["precision"] != "float32") continue;
    has_float32 = true;
    EXPECT_EQ(row["footprint_bytes"], 4 * 17440);
  }
  EXPECT_TRUE(has_float32);
}

TEST(CliJsonKeys, Kernels) {
  for (const char* isa : {"scalar", ""}) {
    std::vector<std::string> arguments{"kernels"};
    if (*isa != '\0') arguments.insert(arguments.end(), {"--isa", isa});
    const Json json = run_json(arguments);
    ASSERT_FALSE(json["rows"].empty());
    for (const Json& row : json["rows"]) {
      expect_keys(row, {"op", "format", "kernel"});
      if (*isa != '\0') {
        EXPECT_EQ(row["kernel"], isa);
      }
    }
  }
}

// Same seed, same text, whatever the number of threads.
TEST(CliJsonKeys, SeedFixesTheText) {
  const auto ids = [](const char* threads, const char* seed) {
    return run_json({"generate", kModel, "-p", "hello", "-n", "40", "--temperature", "1.5", "--seed", seed,
                     "-t", threads, "--ignore-end"})["ids"];
  };
  EXPECT_EQ(ids("1", "7"), ids("2", "7"));
  EXPECT_NE(ids("1", "7"), ids("1", "8"));
}

TEST(CliJsonKeys, CacheChangesNothing) {
  const auto ids = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", kModel, "-p", "hello", "-n", "30", "--ignore-end"});
    return run_json(more)["ids"];
  };
  EXPECT_EQ(ids({}), ids({"--no-cache"}));
}

}  // namespace
}  // namespace assay::test
