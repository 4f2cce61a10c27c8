// Files whose bytes are in memory are read as those on a disk.
#include <gtest/gtest.h>

#include <memory>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/checkpoint/configuration_file.h"
#include "assay/checkpoint/gguf_source.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/checkpoint/safetensors_checkpoint.h"
#include "support/fixtures.h"

namespace assay {
namespace {

ReadFile in_memory(const std::string& bytes, const char* name) {
  return {name, std::as_bytes(std::span(bytes.data(), bytes.size()))};
}

std::vector<std::byte> bytes_of(const CheckpointTensor& tensor) {
  std::vector<std::byte> bytes(tensor->bytes);
  tensor.read_bytes(0, bytes);
  return bytes;
}

// Names, shapes and every byte of the tensors are the same.
void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  const auto all = a.tensors(), others = b.tensors();
  ASSERT_EQ(all.size(), others.size());
  ASSERT_FALSE(all.empty());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]->name, others[i]->name);
    EXPECT_EQ(all[i]->shape, others[i]->shape);
    EXPECT_EQ(bytes_of(all[i]), bytes_of(others[i])) << all[i]->name;
  }
}

template <typename Read>
std::string refusal_in_memory(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(InMemory, BytesAreReadToTheirEnd) {
  const std::string bytes = "0123456789";
  const ReadFile file = in_memory(bytes, "digits");
  EXPECT_EQ(file.size(), 10U);
  std::string part(4, ' ');
  const auto read = [&](std::uint64_t offset) {
    file.read_exactly(offset, std::as_writable_bytes(std::span(part.data(), part.size())));
  };
  read(6);
  EXPECT_EQ(part, "6789");
  EXPECT_EQ(refusal_in_memory([&] { read(7); }),
            "digits is truncated: expected 4 bytes at offset 7, found 3");
  EXPECT_EQ(refusal_in_memory([&] { read(10); }),
            "digits is truncated: expected 4 bytes at offset 10, found 0");
  EXPECT_EQ(refusal_in_memory([&] { read(~std::uint64_t{0}); }),
            "digits is truncated: expected 4 bytes at offset 18446744073709551615, found 0");
}

TEST(InMemory, AModelFolderIsTheSame) {
  const auto path = test::fixture_model("minimal");
  const ModelFolder stored(path);
  const std::string bytes = read_text_file(path / "model.safetensors");
  const ModelFolder folder(
      "folder", parse_configuration(read_text_file(path / "config.json"), "config.json"), Json::object(),
      SafetensorsCheckpoint::of_file(SafetensorsFile(in_memory(bytes, "m.safetensors"))));
  EXPECT_EQ(folder.config().raw(), stored.config().raw());
  EXPECT_EQ(folder.config().where(), "folder/config.json");
  expect_equal(folder.checkpoint(), stored.checkpoint());
  EXPECT_EQ(refusal_in_memory([&] { SafetensorsFile(in_memory("abc", "m.safetensors")); }),
            "m.safetensors is not a safetensors file: 3 bytes, at least 8 expected");
}

TEST(InMemory, AGgufFileIsTheSame) {
  const auto path = test::fixture("gguf/minimal.gguf");
  const GgufSource stored(path);
  const std::string bytes = read_text_file(path);
  const GgufSource source(std::make_unique<const GgufFile>(in_memory(bytes, "m.gguf")));
  EXPECT_EQ(source.config().raw(), stored.config().raw());
  EXPECT_EQ(source.config().where(), "m.gguf");
  expect_equal(source.checkpoint(), stored.checkpoint());
  EXPECT_EQ(source.has_tokenizer(), stored.has_tokenizer());
  const std::string half = bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(refusal_in_memory([&] { GgufFile(in_memory(half, "m.gguf")); }).substr(0, 6), "m.gguf");
}

}  // namespace
}  // namespace assay
