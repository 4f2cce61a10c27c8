// Files as the safetensors library writes them.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/safetensors.h"
#include "assay/checkpoint/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(SafetensorsWriter, WideTypesComeFirstThenNames) {
  test::TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add("b", DType::u8, {3});
  writer.add("z", DType::f32, {1});
  writer.add("a", DType::u8, {});
  writer.add("y", DType::f16, {1, 1});
  EXPECT_EQ(writer.data_bytes(), 10U);
  writer.create(folder.path() / "x.safetensors");
  writer.write("y", 0, bytes("yy"));
  writer.write("b", 1, bytes("BB"));  // in pieces, the last one first
  writer.write("b", 0, bytes("b"));
  writer.write("a", 0, bytes("a"));
  writer.write("z", 0, bytes("zzzz"));
  writer.finish();
  const std::string file = test::read_file(folder.path() / "x.safetensors");
  const auto header = static_cast<std::size_t>(static_cast<unsigned char>(file[0]));
  EXPECT_EQ(header % 8, 0U);
  EXPECT_TRUE(
      file.substr(8).starts_with(R"({"__metadata__":{"format":"pt"},"z":{"dtype":"F32","shape":[1],)"));
  EXPECT_TRUE(file.ends_with("zzzzyyabBB"));
  const SafetensorsFile read(folder.path() / "x.safetensors");
  EXPECT_EQ(read.find("a")->shape.size(), 0U);
  std::string text(3, '\0');
  read.read_bytes(*read.find("b"), 0, std::as_writable_bytes(std::span(text.data(), text.size())));
  EXPECT_EQ(text, "bBB");
}

TEST(SafetensorsWriter, AFileThatIsNotWholeIsNotKept) {
  test::TemporaryFolder folder;
  {
    SafetensorsWriter writer;
    writer.add("a", DType::f32, {2});
    EXPECT_THROW(writer.add("a", DType::u8, {2}), std::logic_error);
    EXPECT_THROW(writer.write("a", 0, bytes("four")), std::logic_error);
    writer.create(folder.path() / "x.safetensors");
    writer.write("a", 0, bytes("four"));
    EXPECT_THROW(writer.write("a", 5, bytes("four")), std::logic_error);
    EXPECT_THROW(writer.finish(), std::logic_error);
  }
  EXPECT_TRUE(folder.is_empty());
}

TEST(Bitsandbytes, StateIsWrittenAsPythonWritesIt) {
  bitsandbytes::QuantState state;
  state.type = "nf4";
  state.shape = {2304, 768};
  EXPECT_EQ(state.text(),
            R"({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [2304, 768]})");
  state.nested = bitsandbytes::QuantState::Nested{.offset = 0.1F};
  EXPECT_TRUE(state.text().ends_with(
      R"("nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.10000000149011612})"));
  const auto back = bitsandbytes::quant_state_from_text(state.text(), "here");
  EXPECT_EQ(back.shape, state.shape);
  EXPECT_EQ(back.nested->offset, 0.1F);
  state.nested->offset = 1;
  EXPECT_TRUE(state.text().ends_with(R"("nested_offset": 1.0})"));
  state.nested->offset = 0x1p-20F;
  EXPECT_TRUE(state.text().ends_with(R"("nested_offset": 9.5367431640625e-07})"));
}

}  // namespace
}  // namespace assay
