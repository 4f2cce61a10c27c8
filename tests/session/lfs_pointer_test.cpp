#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/source.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

// What a clone without Git LFS holds in place of each large file.
TEST(LfsPointers, AreNamedInPlaceOfAnyFileOfAModel) {
  const test::TemporaryFolder folder;
  const std::filesystem::path model = folder.path() / "model";
  test::copy_model_fixture("base", model);
  std::filesystem::copy_file(test::fixture("tokenizers/llama3") / "tokenizer.json", model / "tokenizer.json");
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') + "\nsize 497774208\n";
  const auto expect_named = [&](const std::filesystem::path& path) {
    test::write_file(path, pointer);
    const bool is_file = path.extension() == ".gguf";
    std::string text;
    try {
      open_source(locate_model(is_file ? path.string() : model.string()));
      tokenizer_files_at(model);
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_NE(
        text.find(path.filename().string() + ": expected the file itself, found the pointer that Git LFS"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find("'git lfs pull'"), std::string::npos);
    std::filesystem::remove(path);
  };
  expect_named(folder.path() / "m.gguf");
  expect_named(model / "tokenizer.json");
  expect_named(model / "tokenizer.model");
  expect_named(model / "model.safetensors");
  expect_named(model / "config.json");
}

}  // namespace
}  // namespace assay
