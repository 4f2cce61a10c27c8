// The container of GGUF files: values, tensors, shards, and what is wrong with damaged ones.
#include "assay/checkpoint/gguf_file.h"

#include <gtest/gtest.h>

#include <functional>

#include "assay/base/error.h"
#include "assay/checkpoint/gguf_shards.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::GgufBytes;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;

std::string refusal_of_gguf(const std::string& bytes, const std::string& name = "m.gguf") {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / name, bytes);
  try {
    const GgufFile file(folder.path() / name);
  } catch (const Error& error) {
    std::string text = error.what();
    const std::string path = (folder.path() / name).string();
    for (std::size_t at; (at = text.find(path)) != std::string::npos;) text.replace(at, path.size(), "M");
    return text;
  }
  return "no error";
}

GgufBytes two_tensors() {
  GgufBytes file;
  file.text("general.architecture", "llama");
  file.tensor("a", {3, 2}, kF32, 24).tensor("b", {32, 2}, kQ8_0, 68);
  return file;
}

TEST(GgufFile, ReadsValuesOfEveryType) {
  const test::TemporaryFolder folder;
  GgufBytes bytes = two_tensors();
  bytes.version = 2;
  bytes.value("u8", test::kGgufU8, test::raw<std::uint8_t>(200))
      .value("i64", test::kGgufI64, test::raw<std::int64_t>(-5))
      .value("f32", test::kGgufF32, test::raw(0.25F))
      .value("yes", test::kGgufBool, test::raw<std::uint8_t>(1))
      .value("huge", test::kGgufU64, test::raw(~std::uint64_t{0}))
      .texts("words", {"", "one", "two words"})
      .numbers<std::int32_t>("types", test::kGgufI32, {1, -2});
  test::write_file(folder.path() / "m", bytes.bytes());
  const GgufFile file(folder.path() / "m");
  EXPECT_TRUE(GgufFile::is_one(folder.path() / "m"));
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.number("u8"), 200.0);
  EXPECT_EQ(file.integer("i64"), -5);
  EXPECT_EQ(file.number("f32"), 0.25);
  EXPECT_EQ(file.boolean("yes"), true);
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("absent"), std::nullopt);
  const GgufValue* words = file.array("words", "texts");
  ASSERT_EQ(words->size(), 3U);
  EXPECT_EQ(words->text(0), "");
  EXPECT_EQ(words->text(2), "two words");
  EXPECT_EQ(file.array("types", "integers")->integer(1), -2);
  EXPECT_THROW(file.integer("huge"), Error);
  EXPECT_THROW(file.integer("words"), Error);
  try {
    file.number("general.architecture");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("key 'general.architecture': expected a number, found text"),
              std::string::npos)
        << error.what();
  }
  ASSERT_EQ(file.tensors().size(), 2U);
  const GgufTensor& b = *file.find("b");
  EXPECT_EQ(b.bytes, 68U);
  EXPECT_EQ(b.row_bytes(), 34U);
  std::byte second[2];
  file.read(b, 34, second);
  EXPECT_EQ(static_cast<int>(second[1]), 35);
}

TEST(GgufFile, TakesTheAlignmentThatItSays) {
  const test::TemporaryFolder folder;
  GgufBytes bytes;
  bytes.alignment = 256;
  bytes.number("general.alignment", 256).tensor("a", {4}, kF32, 16).tensor("b", {4}, kF32, 16);
  test::write_file(folder.path() / "m.gguf", bytes.bytes());
  const GgufFile file(folder.path() / "m.gguf");
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(file.find(name)->offset % 256, 0U) << name;
    std::byte last[1];
    file.read(*file.find(name), 15, last);
    EXPECT_EQ(static_cast<int>(last[0]), 15) << name;
  }
}

TEST(GgufFile, RefusesWhatIsNoGguf) {
  const std::string none = "M is not a GGUF file: expected it to begin with 'GGUF', found ";
  EXPECT_EQ(refusal_of_gguf("GGU"), none + "'GGU'");
  EXPECT_EQ(refusal_of_gguf("GGUX" + std::string(40, '\0')), none + "'GGUX'");
  EXPECT_EQ(refusal_of_gguf(""), none + "an empty file");
  EXPECT_EQ(refusal_of_gguf("version https://git-lfs.github.com/spec/v1\noid sha256:4d\n"),
            "M: expected the file itself, found the pointer that Git LFS leaves in its place: fetch it with "
            "'git lfs pull' in that repository");
  GgufBytes file = two_tensors();
  file.version = 1;
  EXPECT_EQ(refusal_of_gguf(file.bytes()), "M: GGUF version 1 is not supported: expected 2 or 3");
  file.version = 0x03000000;
  EXPECT_EQ(refusal_of_gguf(file.bytes()),
            "M: the file is big-endian (version 0x3000000): expected little-endian GGUF");
}

TEST(GgufFile, RefusesCountsBeyondTheFile) {
  GgufBytes keys = two_tensors();
  keys.more_keys = std::uint64_t{1} << 60;
  EXPECT_NE(refusal_of_gguf(keys.bytes()).find("1152921504606846977 keys: expected at most"),
            std::string::npos);
  GgufBytes tensors = two_tensors();
  tensors.more_tensors = std::uint64_t{1} << 60;
  EXPECT_NE(refusal_of_gguf(tensors.bytes()).find("1152921504606846978 tensors: expected at most"),
            std::string::npos);
  for (const std::uint64_t count : {std::uint64_t{1} << 60, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    GgufBytes array;
    array.value("a", test::kGgufArray, test::raw(test::kGgufF32) + test::raw(count));
    EXPECT_NE(refusal_of_gguf(array.bytes()).find("key 'a': an array of"), std::string::npos);
    GgufBytes texts;
    texts.value("a", test::kGgufArray,
                test::raw(test::kGgufText) + test::raw<std::uint64_t>(1) + test::raw(count) + "x");
    EXPECT_NE(refusal_of_gguf(texts.bytes()).find("key 'a': entry 0 has"), std::string::npos);
    GgufBytes text;
    text.value("a", test::kGgufText, test::raw(count));
    EXPECT_NE(refusal_of_gguf(text.bytes()).find("key 'a' has"), std::string::npos);
    GgufBytes size;
    size.tensor("t", {count, count}, kF32, 0);
    EXPECT_NE(refusal_of_gguf(size.bytes()).find("tensor 't': expected sizes from 1"), std::string::npos);
  }
}

TEST(GgufFile, RefusesTensorsThatCannotBe) {
  const auto refusal = [](const std::function<void(GgufBytes&)>& change) {
    GgufBytes file = two_tensors();
    change(file);
    return refusal_of_gguf(file.bytes());
  };
  EXPECT_EQ(refusal([](GgufBytes& f) {
              f.tensor("c", {1, 1, 1, 1, 1}, kF32, 4);
            }),
            "M: tensor 'c': expected 1 to 4 dimensions, found 5");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.tensor("c", {}, kF32, 4); }),
            "M: tensor 'c': expected 1 to 4 dimensions, found 0");
  EXPECT_EQ(refusal([](GgufBytes& f) {
              f.tensor("c", {0, 2}, kF32, 4);
            }),
            "M: tensor 'c': expected sizes from 1 whose product is at most 281474976710656, found 0 in "
            "dimension 0");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.tensor("c", {4}, 4, 4); }),
            "M: tensor 'c': expected a type of ggml, found 4, which is unknown or was removed");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.tensor("c", {33}, kQ8_0, 34); }),
            "M: tensor 'c': expected rows of a multiple of 32 elements, as Q8_0 has them, found 33");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.tensor("c", {4}, kF32, 16, 33); }),
            "M: tensor 'c': expected an offset that is a multiple of 32, found 33");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.tensor("c", {4}, kF32, 16, 64); }),
            "M: tensor 'c' overlaps tensor 'b'");
  EXPECT_NE(refusal([](GgufBytes& f) { f.tensor("c", {400}, kF32, 16); }).find("(truncated?)"),
            std::string::npos);
  EXPECT_NE(
      refusal([](GgufBytes& f) { f.tensor("c", {4}, kF32, 16, INT64_MAX / 32 * 32); }).find("(truncated?)"),
      std::string::npos);
  EXPECT_EQ(refusal([](GgufBytes& f) { f.tensor("a", {4}, kF32, 16); }), "M: tensor 'a' stands twice");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.tensor("a", {4}, kF32, 16, 0); }), "M: tensor 'a' stands twice");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.number("general.alignment", 3); }),
            "M: key 'general.alignment': expected a power of two up to 1048576, found 3");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.number("general.alignment", 0); }),
            "M: key 'general.alignment': expected a power of two up to 1048576, found 0");
  EXPECT_EQ(refusal([](GgufBytes& f) { f.text("general.alignment", "32"); }),
            "M: key 'general.alignment': expected a power of two up to 1048576, found text");
}

TEST(GgufFile, RefusesKeysThatCannotBe) {
  GgufBytes twice = two_tensors();
  twice.text("general.architecture", "gpt2");
  EXPECT_EQ(refusal_of_gguf(twice.bytes()), "M: key 'general.architecture' stands twice");
  GgufBytes nested;
  nested.value("a", test::kGgufArray, test::raw(test::kGgufArray) + test::raw<std::uint64_t>(1));
  EXPECT_EQ(refusal_of_gguf(nested.bytes()), "M: key 'a': expected no array of arrays, found one");
  GgufBytes unknown;
  unknown.value("a", 13, "");
  EXPECT_EQ(refusal_of_gguf(unknown.bytes()), "M: key 'a': expected a type of value from 0 to 12, found 13");
}

TEST(GgufFile, EveryTruncationIsAnError) {
  const std::string whole = two_tensors().bytes();
  ASSERT_EQ(refusal_of_gguf(whole), "no error");
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal_of_gguf(whole.substr(0, length)), "no error") << length;
}

TEST(GgufShards, AreFoundByAnyOfThem) {
  const test::TemporaryFolder folder;
  const auto shard = [&](int number, const char* tensor, int total, const char* name) {
    GgufBytes file;
    if (number == 0) file.text("general.architecture", "llama");
    file.value("split.no", test::kGgufU16, test::raw(static_cast<std::uint16_t>(number)))
        .value("split.count", test::kGgufU16, test::raw<std::uint16_t>(2))
        .value("split.tensors.count", test::kGgufI32, test::raw<std::int32_t>(total));
    if (tensor != nullptr) file.tensor(tensor, {4}, kF32, 16);
    test::write_file(folder.path() / name, file.bytes());
  };
  const auto refusal = [&](const char* name) -> std::string {
    try {
      const GgufShards shards(folder.path() / name);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const char *one = "m-00001-of-00002.gguf", *two = "m-00002-of-00002.gguf";
  shard(0, nullptr, 1, one);
  EXPECT_NE(refusal(one).find("the shard 'm-00002-of-00002.gguf' is missing"), std::string::npos);
  shard(1, "b", 1, two);
  for (const char* name : {one, two}) {
    const GgufShards shards(folder.path() / name);
    EXPECT_EQ(shards.files().size(), 2U);
    EXPECT_EQ(shards.first().text("general.architecture"), "llama");
    EXPECT_EQ(shards.find("b").file, 1U);
    EXPECT_FALSE(shards.has("c"));
  }
  shard(0, "b", 2, one);
  EXPECT_NE(refusal(one).find("tensor 'b' is in two shards"), std::string::npos);
  shard(0, "a", 3, one);
  EXPECT_NE(refusal(one).find("'split.tensors.count': expected 2, as all shards have, found 3"),
            std::string::npos);
  shard(0, "c", 2, two);
  shard(0, "a", 2, one);
  EXPECT_NE(refusal(one).find("'split.no': expected 1"), std::string::npos);
  shard(1, "b", 2, "lone.gguf");
  EXPECT_NE(refusal("lone.gguf").find("expected a file name that ends with -00002-of-00002.gguf"),
            std::string::npos);
}

}  // namespace
}  // namespace assay
