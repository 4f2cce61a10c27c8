// Files of a model that are small on disk, or in meaning, and would take all memory: refused before they do.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "assay/base/error.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/checkpoint/safetensors.h"
#include "assay/text/tokenizer.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

std::string refusal_of_folder(const std::filesystem::path& folder) {
  try {
    const ModelFolder opened(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string empty_tensors(std::size_t count, const std::string& prefix = "t") {
  std::string header = "{";
  for (std::size_t i = 0; i < count; ++i)
    header += fmt::format(R"({}"{}{:06}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                          i == 0 ? "" : ",", prefix, i);
  return test::safetensors_with_header(header + "}", "");
}

TEST(CheckpointLimits, EmptyTensors) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "config.json", "{}");
  test::write_file(folder.path() / "model.safetensors", empty_tensors(kMaxTensors));
  EXPECT_EQ(ModelFolder(folder.path()).all().size(), kMaxTensors);
  test::write_file(folder.path() / "model.safetensors", empty_tensors(kMaxTensors + 1));
  EXPECT_EQ(refusal_of_folder(folder.path()), (folder.path() / "model.safetensors").string() +
                                                  ": expected at most 100000 tensors in a file, found more");
}

TEST(CheckpointLimits, EmptyTensorsInShards) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "config.json", "{}");
  test::write_file(folder.path() / "a.safetensors", empty_tensors(kMaxTensors / 2, "a"));
  test::write_file(folder.path() / "b.safetensors", empty_tensors(kMaxTensors / 2 + 1, "b"));
  test::write_file(folder.path() / "model.safetensors.index.json",
                   R"({"weight_map": {"a000000": "a.safetensors", "b000000": "b.safetensors"}})");
  EXPECT_NE(
      refusal_of_folder(folder.path()).find("index.json: expected at most 100000 tensors in all shards"),
      std::string::npos);
}

TEST(CheckpointLimits, OneEntryOfAHeader) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "config.json", "{}");
  std::string sizes = "0";
  for (int i = 0; i < 20'000; ++i) sizes += ",0";
  test::write_file(folder.path() / "model.safetensors",
                   test::safetensors_with_header(
                       R"({"t":{"dtype":"F32","data_offsets":[0,0],"shape":[)" + sizes + "]}}", ""));
  EXPECT_NE(refusal_of_folder(folder.path()).find("more than 10000 values"), std::string::npos);
  const std::string name(20'000, 'n');
  test::write_file(folder.path() / "model.safetensors",
                   test::safetensors_with_header(
                       "{\"" + name + R"(":{"dtype":"F32","data_offsets":[0,0],"shape":[0]}})", ""));
  EXPECT_NE(
      refusal_of_folder(folder.path()).find("the name of a tensor has 20000 bytes, at most 16384 expected"),
      std::string::npos);
}

// What a file holds behind its end is blank; its size alone is what a reader would allocate.
TEST(CheckpointLimits, PaddedConfigurations) {
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors.index.json"}) {
    const test::TemporaryFolder folder;
    test::TinyModel().write(folder.path());
    const std::filesystem::path file = folder.path() / name;
    if (std::string(name).ends_with("index.json"))
      std::filesystem::remove(folder.path() / "model.safetensors");
    if (!std::filesystem::exists(file)) test::write_file(file, "{}");
    std::filesystem::resize_file(file, 200'000'000);
    EXPECT_EQ(refusal_of_folder(folder.path()),
              file.string() + " is too large: 200000000 bytes, at most 16777216 expected");
  }
}

TEST(CheckpointLimits, ManyValuesInAConfiguration) {
  const test::TemporaryFolder folder;
  test::TinyModel().write(folder.path());
  std::string list = "{}";
  for (int i = 0; i < 1'000'000; ++i) list += ",{}";
  test::write_file(folder.path() / "config.json", "{\"a\":[" + list + "]}");
  EXPECT_NE(refusal_of_folder(folder.path()).find("config.json: more than 1000000 values"),
            std::string::npos);
}

TEST(CheckpointLimits, PaddedTokenizerConfiguration) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const test::TemporaryFolder folder;
    const std::filesystem::path model = folder.path() / "model";
    test::copy_model_fixture("with_tokenizer", model);
    if (!std::filesystem::exists(model / name)) test::write_file(model / name, "{}");
    std::filesystem::resize_file(model / name, 200'000'000);
    std::string refusal = "no error";
    try {
      Tokenizer::load(model);
    } catch (const Error& error) {
      refusal = error.what();
    }
    EXPECT_EQ(refusal, (model / name).string() + " is too large: 200000000 bytes, at most 16777216 expected");
  }
}

}  // namespace
}  // namespace assay
