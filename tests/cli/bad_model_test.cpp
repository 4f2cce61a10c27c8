// Model folders that are missing, empty, incomplete or strange; indexes of shards that lie.
#include <sys/stat.h>

#include "support/program.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;

void expect_model_refused(const std::string& model, std::initializer_list<std::string> words) {
  expect_failure(run_program({"inspect", model}), 1, words);
  expect_failure(run_program({"generate", model, "--ids", "1,2", "-n", "2"}), 1, words);
  expect_failure(run_program({"logits", model, "--ids", "1,2", "-o",
                              (std::filesystem::temp_directory_path() / "assay-never.npy").string()}),
                 1, words);
}

class CliBadModel : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string model_ = folder_ / "model";
};

TEST_F(CliBadModel, NoSuchFolder) {
  expect_model_refused(model_, {model_, "no such folder"});
  expect_model_refused("", {"empty", "demo"});
  expect_model_refused("no-such-model", {"no-such-model", "no such folder", "Hugging Face cache"});
  expect_model_refused("../no-such-model", {"../no-such-model", "no such folder"});
}

TEST_F(CliBadModel, EmptyFolder) {
  fs::create_directory(model_);
  expect_model_refused(model_, {model_, "config.json", "missing"});
}

TEST_F(CliBadModel, ConfigurationWithoutWeights) {
  TinyModel().write(model_);
  fs::remove(model_ + "/model.safetensors");
  expect_model_refused(model_, {model_, "model.safetensors", "model.safetensors.index.json"});
  write_file(model_ + "/pytorch_model.bin", "pickled");
  expect_model_refused(model_, {"pytorch_model.bin", "model.safetensors"});
}

TEST_F(CliBadModel, AFileWhereAFolderIsExpected) {
  TinyModel().write(model_);
  expect_model_refused(model_ + "/config.json", {"config.json", "expected a model folder", "file"});
  expect_model_refused("/dev/null", {"/dev/null", "expected a model folder"});
}

TEST_F(CliBadModel, PipesDoNotHang) {
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"}) {
    TinyModel().write(model_);
    fs::remove(fs::path(model_) / name);
    ASSERT_EQ(mkfifo((model_ + "/" + name).c_str(), 0644), 0);
    expect_model_refused(model_, {name, "expected a regular file"});
    fs::remove_all(model_);
  }
}

TEST_F(CliBadModel, FoldersWhereFilesAreExpected) {
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"}) {
    TinyModel().write(model_);
    fs::remove(fs::path(model_) / name);
    fs::create_directory(fs::path(model_) / name);
    expect_model_refused(model_, {name, "expected a regular file"});
    fs::remove_all(model_);
  }
}

TEST_F(CliBadModel, LoopsOfSymbolicLinks) {
  fs::create_symlink("b", folder_.path() / "a");
  fs::create_symlink("a", folder_.path() / "b");
  expect_model_refused(folder_ / "a", {folder_ / "a", "symbolic links"});
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"}) {
    TinyModel().write(model_);
    fs::remove(fs::path(model_) / name);
    fs::create_symlink(name, fs::path(model_) / name);
    expect_model_refused(model_, {name, "symbolic links"});
    fs::remove_all(model_);
  }
}

// The sentence is about the name, not about how the standard library words its exceptions.
TEST_F(CliBadModel, NamesThatNoFileCanHave) {
  expect_model_refused(std::string(5000, 'a'), {"too long"});
}

// A sentence stays one line and does not steer the terminal, whatever it quotes.
TEST_F(CliBadModel, NamesWithControlCharacters) {
  expect_model_refused("two\nlines", {"no such folder"});
  expect_model_refused("red \x1b[31m", {"no such folder"});
}

TEST_F(CliBadModel, DanglingLink) {
  TinyModel().write(model_);
  fs::remove(fs::path(model_) / "model.safetensors");
  fs::create_symlink("../blobs/gone", fs::path(model_) / "model.safetensors");
  expect_model_refused(model_, {"model.safetensors"});
}

class CliBadShards : public testing::Test {
 protected:
  CliBadShards() {
    copy_model_fixture("sharded", model_);
    index_ = nlohmann::ordered_json::parse(read_file(index_path_));
  }
  void expect_map_refused(const std::string& tensor, const nlohmann::ordered_json& shard,
                          std::initializer_list<std::string> words) {
    nlohmann::ordered_json index = index_;
    index["weight_map"][tensor] = shard;
    expect_index_refused(index.dump(), words);
  }
  void expect_index_refused(std::string_view text, std::initializer_list<std::string> words) {
    write_file(index_path_, text);
    expect_model_refused(model_, words);
  }

  TemporaryFolder folder_;
  const std::string model_ = folder_ / "model", index_path_ = model_ + "/model.safetensors.index.json";
  const std::string second_ = model_ + "/model-00002-of-00003.safetensors";
  nlohmann::ordered_json index_;
};

TEST_F(CliBadShards, TheSoundOneLoads) {
  expect_success(run_program({"generate", model_, "--ids", "1,2", "-n", "2"}));
}

TEST_F(CliBadShards, Truncated) {
  fs::resize_file(second_, fs::file_size(second_) - 1);
  expect_model_refused(model_, {"model-00002-of-00003.safetensors"});
  fs::resize_file(second_, 3);
  expect_model_refused(model_, {"model-00002-of-00003.safetensors"});
}

TEST_F(CliBadShards, Absent) {
  fs::remove(second_);
  expect_model_refused(model_, {"index.json", "model-00002-of-00003.safetensors", "does not exist"});
}

TEST_F(CliBadShards, ClimbingOut) {
  fs::copy_file(second_, folder_ / "outside.safetensors");
  const std::string tensor = index_["weight_map"].begin().key();
  for (const std::string& shard :
       {std::string("../outside.safetensors"), folder_ / "outside.safetensors", std::string("."),
        std::string(".."), std::string(), std::string("a/../../outside.safetensors")})
    expect_map_refused(tensor, shard, {"index.json", "weight_map", tensor});
}

TEST_F(CliBadShards, ControlCharactersInNames) {
  const std::string tensor = index_["weight_map"].begin().key();
  expect_map_refused(tensor, std::string("x\0.safetensors", 14), {"index.json", tensor});
  expect_map_refused(tensor, "x\n\x1b[31m.safetensors", {"index.json"});
}

TEST_F(CliBadShards, WrongEntries) {
  const std::string tensor = index_["weight_map"].begin().key();
  expect_map_refused(tensor, 3, {"index.json", tensor});
  expect_map_refused("no.such.tensor", "model-00002-of-00003.safetensors",
                     {"index.json", "no.such.tensor", "model-00002-of-00003.safetensors"});
  fs::copy_file(second_, model_ + "/again.safetensors");
  expect_map_refused("h.0.ln_1.weight", "again.safetensors", {"index.json", "again.safetensors"});
}

TEST_F(CliBadShards, NotAnIndex) {
  expect_index_refused("", {"index.json", "JSON"});
  expect_index_refused("{}", {"index.json", "weight_map"});
  expect_index_refused("{\"weight_map\": []}", {"index.json", "weight_map", "object"});
  expect_index_refused("{\"weight_map\": {}}", {"index.json", "no shard"});
  expect_index_refused("{\"weight_map\": " + std::string(100'000, '['), {"index.json"});
  expect_index_refused("{\"weight_map\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}",
                       {"index.json", "nested"});
}

}  // namespace
}  // namespace assay::test
