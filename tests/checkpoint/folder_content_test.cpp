// What lies beside a model's weights, what is said where there are none, and which shard a tensor is read
// from.
#include "assay/checkpoint/folder_content.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/checkpoint/model_folder.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class FolderContent : public testing::Test {
 protected:
  void add(const std::string& name, std::string_view content = "x") const {
    fs::create_directories((folder_.path() / name).parent_path());
    test::write_file(folder_.path() / name, content);
  }
  std::vector<std::string> beside() const {
    std::vector<std::string> names;
    for (const fs::path& file : files_beside_weights(folder_.path())) names.push_back(file.string());
    return names;
  }
  const test::TemporaryFolder folder_;
};

TEST_F(FolderContent, EverythingButWeights) {
  for (const char* name : {"config.json",
                           "generation_config.json",
                           "tokenizer.model",
                           "tekken.json",
                           "spiece.model",
                           "vocab.txt",
                           "LICENSE",
                           "README.md",
                           "chat_template.jinja",
                           "chat_templates/config.json",
                           "chat_templates/tool.jinja",
                           "modeling_own.py",
                           "model.safetensors",
                           "model.safetensors.index.json",
                           "pytorch_model.bin",
                           "pytorch_model.bin.index.json",
                           "tf_model.h5",
                           "flax_model.msgpack",
                           "consolidated.00.pth",
                           "a.gguf",
                           "onnx/model.onnx",
                           "onnx/config.json",
                           "original/deep/consolidated.pth",
                           "original/params.json",
                           ".git/HEAD",
                           ".gitignore",
                           "adapter_config.json",
                           "adapter_model.safetensors"})
    add(name);
  EXPECT_EQ(beside(), (std::vector<std::string>{"LICENSE", "README.md", "chat_template.jinja",
                                                "chat_templates/config.json", "chat_templates/tool.jinja",
                                                "generation_config.json", "modeling_own.py", "spiece.model",
                                                "tekken.json", "tokenizer.model", "vocab.txt"}));
}

// As in a cache of the hub; and a link that leads round ends.
TEST_F(FolderContent, LinksAreFollowed) {
  add("blobs/abc");
  fs::create_directory(folder_.path() / "model");
  fs::create_symlink("../blobs/abc", folder_.path() / "model/tokenizer.model");
  fs::create_symlink("../blobs/gone", folder_.path() / "model/vocab.json");
  fs::create_directory_symlink(".", folder_.path() / "model/loop");
  const std::vector<fs::path> files = files_beside_weights(folder_.path() / "model");
  EXPECT_TRUE(std::find(files.begin(), files.end(), "tokenizer.model") != files.end());
  EXPECT_TRUE(std::find(files.begin(), files.end(), "vocab.json") == files.end());
  EXPECT_LT(files.size(), 10U);
}

TEST_F(FolderContent, SaysWhatToDoWithOtherFormats) {
  EXPECT_EQ(advice_on(folder_.path()), "");
  EXPECT_EQ(advice_on(folder_.path() / "absent"), "");
  const auto says = [&](const char* words) {
    const std::string advice = advice_on(folder_.path());
    EXPECT_NE(advice.find(words), std::string::npos) << advice;
  };
  add("consolidated.00.pth");
  says("consolidated.00.pth, weights of another format");
  add("a-00002-of-00003.gguf");
  says("it holds a-00002-of-00003.gguf, a shard of a model whose first one is missing");
  fs::remove(folder_.path() / "a-00002-of-00003.gguf");
  add("model-q4.gguf");
  says(
      ("model-q4.gguf: give that file as the model, " + (folder_.path() / "model-q4.gguf").string()).c_str());
  add("pytorch_model-00001-of-00002.bin");
  says(
      "pytorch_model-00001-of-00002.bin, pickled weights: save the model again with safe_serialization=True");
  says("@refs/pr/N");
  add("model.fp16.safetensors");
  says("model.fp16.safetensors: expected the name model.safetensors, or an index");
  add("adapter_config.json", "{");
  says("an adapter: merge it into its base model");
  add("adapter_config.json", R"({"base_model_name_or_path": "org/base\n"})");
  says("an adapter: merge it into 'org/base\\n' with PEFT's merge_and_unload()");
}

TEST_F(FolderContent, IsNamedWhereAModelIsMissing) {
  add("adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  const auto refusal = [&] {
    try {
      ModelFolder{folder_.path()};
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal().find("config.json is missing; it holds an adapter"), std::string::npos) << refusal();
  fs::remove(folder_.path() / "adapter_config.json");
  add("config.json", "{}");
  add("pytorch_model.bin");
  EXPECT_NE(refusal().find("found; it holds pytorch_model.bin"), std::string::npos) << refusal();
}

// The index decides, as where a shard of corrected weights is laid over another.
TEST_F(FolderContent, OfOverlaidShardsTheIndexDecides) {
  const fs::path model = folder_.path() / "model";
  test::copy_model_fixture("sharded", model);
  const fs::path index_path = model / "model.safetensors.index.json";
  nlohmann::json index = nlohmann::json::parse(test::read_file(index_path));
  const fs::path extra = model / "model-00000-of-00003.safetensors";  // the first by name
  fs::copy_file(model / "model-00002-of-00003.safetensors", extra);
  std::vector<std::string> overlaid;
  for (const auto& [tensor, shard] : index["weight_map"].items())
    if (shard == "model-00002-of-00003.safetensors") overlaid.push_back(tensor);
  ASSERT_GE(overlaid.size(), 2U);
  index["weight_map"][overlaid[0]] = extra.filename().string();
  test::write_file(index_path, index.dump());
  const ModelFolder folder(model);
  EXPECT_EQ(folder.find(overlaid[0]).file(), extra);
  EXPECT_EQ(folder.find(overlaid[1]).file(), model / "model-00002-of-00003.safetensors");
  EXPECT_EQ(folder.all().size(), ModelFolder(test::fixture_model("sharded")).all().size());
  ASSERT_EQ(folder.checkpoint().warnings().size(), 1U);
  EXPECT_NE(folder.checkpoint().warnings()[0].find("the index gives the name to another shard"),
            std::string::npos);
  EXPECT_TRUE(ModelFolder(test::fixture_model("sharded")).checkpoint().warnings().empty());
  // Nothing decides of a tensor that the index leaves out.
  index["weight_map"].erase(overlaid[1]);
  test::write_file(index_path, index.dump());
  EXPECT_THROW(ModelFolder{model}, Error);
}

}  // namespace
}  // namespace assay
