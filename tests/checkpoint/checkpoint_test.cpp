// The interface of checkpoints: one file, shards, and a kind that is no file at all.
#include "assay/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "assay/base/error.h"
#include "assay/checkpoint/bitsandbytes_weights.h"
#include "assay/checkpoint/model_folder.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

TEST(Checkpoint, OfOneFile) {
  const ModelFolder folder(test::fixture_model("base"));
  const auto all = folder.checkpoint().tensors();
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(),
                     [](const CheckpointTensor& a, const CheckpointTensor& b) { return a->name < b->name; }));
  EXPECT_FALSE(folder.find("no.such.tensor"));
  const std::string name = "transformer.h.0.ln_1.weight",
                    file = (folder.path() / "model.safetensors").string();
  const CheckpointTensor at = folder.find(name);
  ASSERT_TRUE(at);
  EXPECT_EQ(at.file().string(), file);
  EXPECT_EQ(at.where(), file + ": tensor '" + name + "'");
  std::vector<float> whole(static_cast<std::size_t>(at->elements())), part(2);
  at.read_floats(0, at->elements(), whole.data());
  at.read_floats(3, 2, part.data());
  EXPECT_EQ(part, (std::vector<float>{whole[3], whole[4]}));
  float second = 0;
  at.read_bytes(4, std::as_writable_bytes(std::span(&second, 1)));
  EXPECT_EQ(second, whole[1]);
  EXPECT_EQ(whole, test::read_floats(SafetensorsFile(file), name));
}

TEST(Checkpoint, OfShards) {
  const ModelFolder folder(test::fixture_model("sharded"));
  EXPECT_EQ(folder.checkpoint().files().size(), 3u);
  std::uint64_t bytes = 0;
  for (const auto& file : folder.checkpoint().files()) bytes += std::filesystem::file_size(file);
  EXPECT_EQ(folder.weight_file_bytes(), bytes);
  std::map<std::string, std::size_t> tensors_of_file;
  for (const CheckpointTensor& at : folder.all()) {
    ++tensors_of_file[at.file().string()];
    if (!info(at->dtype).is_weight) continue;
    std::vector<float> values(static_cast<std::size_t>(at->elements()));
    at.read_floats(0, at->elements(), values.data());
    EXPECT_EQ(values, test::read_floats(SafetensorsFile(at.file()), at->name)) << at.where();
    EXPECT_EQ(folder.find(at->name).file(), at.file());
  }
  EXPECT_EQ(tensors_of_file.size(), 3u);
}

// A tensor without elements lies where the next one begins, whichever the header names first.
TEST(Checkpoint, TensorsWithoutElementsOverlapNothing) {
  test::TemporaryFolder folder;
  const std::string empty = R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]})",
                    full = R"("some":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  for (const std::string& header : {"{" + empty + "," + full + "}", "{" + full + "," + empty + "}"}) {
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    file += header + std::string(4, '\0');
    test::write_file(folder.path() / "x.safetensors", file);
    EXPECT_EQ(SafetensorsFile(folder.path() / "x.safetensors").tensors().size(), 2U) << header;
  }
}

// What a reader of another format has to provide.
class MemoryCheckpoint : public Checkpoint {
 public:
  explicit MemoryCheckpoint(const Checkpoint& from) {
    for (const CheckpointTensor& at : from.tensors()) {
      tensors_.push_back(*at);
      data_.emplace_back(static_cast<std::size_t>(at->bytes));
      at.read_bytes(0, data_.back());
    }
  }
  CheckpointTensor find(const std::string& name) const override {
    for (const StoredTensor& tensor : tensors_)
      if (tensor.name == name) return {*this, tensor, 0};
    return {};
  }
  std::vector<CheckpointTensor> tensors() const override {
    std::vector<CheckpointTensor> all;
    for (const StoredTensor& tensor : tensors_) all.emplace_back(*this, tensor, 0);
    return all;
  }
  std::vector<std::filesystem::path> files() const override { return {"memory"}; }
  std::uint64_t file_bytes() const override { return 0; }
  void read_floats(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count,
                   float* out) const override {
    if (tensor->dtype != DType::f32) throw Error("{}: expected float32", tensor.where());
    read_bytes(tensor, static_cast<std::uint64_t>(4 * first),
               std::as_writable_bytes(std::span(out, static_cast<std::size_t>(count))));
  }
  void read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                  std::span<std::byte> out) const override {
    const auto& data = data_[static_cast<std::size_t>(&*tensor - tensors_.data())];
    std::memcpy(out.data(), data.data() + first, out.size());
  }

 private:
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<std::byte>> data_;
};

// Methods of quantization read any checkpoint.
TEST(Checkpoint, OfAnotherKindServesQuantizedWeights) {
  for (const auto& [precision, format] :
       {std::pair{"nf4-dq", formats::kNf4Dq}, {"fp4", formats::kFp4}, {"llm-int8", formats::kLlmInt8}}) {
    const ModelFolder folder(test::fixture("quantized") / precision);
    const auto of_folder = folder.quantized_weights();
    ASSERT_NE(of_folder, nullptr);
    const MemoryCheckpoint memory(folder.checkpoint());
    const BitsandbytesWeights weights(memory);
    std::size_t seen = 0;
    for (const CheckpointTensor& at : folder.all()) {
      if (!at->name.ends_with("c_proj.weight")) continue;
      EXPECT_EQ(of_folder->format_of(at->name), format) << at.where();
      EXPECT_EQ(weights.format_of(at->name), format);
      StoredCodes tensor{at->name, 0, 0, format};
      if (format == formats::kLlmInt8) {
        tensor.rows = at->shape[0];
        tensor.columns = at->shape[1];
      } else {
        tensor.rows = 28;
        tensor.columns = static_cast<std::int64_t>(at->bytes) * 2 / tensor.rows;
      }
      of_folder->check(tensor);
      weights.check(tensor);
      const std::vector<std::string> beside = weights.names_beside(tensor);
      EXPECT_TRUE(std::all_of(beside.begin(), beside.end(), [&](const std::string& name) {
        return static_cast<bool>(memory.find(name));
      })) << precision;
      std::vector<std::uint8_t> want(static_cast<std::size_t>(tensor.elements())), got(want.size());
      of_folder->read_codes(tensor, 0, tensor.rows, want.data());
      weights.read_codes(tensor, 0, tensor.rows, got.data());
      EXPECT_EQ(got, want);
      EXPECT_EQ(weights.read_scales(tensor), of_folder->read_scales(tensor));
      StoredCodes other = tensor;
      ++other.rows;
      EXPECT_THROW(weights.check(other), Error);
      ++seen;
    }
    EXPECT_GT(seen, 0u) << precision;
  }
}

TEST(QuantizedWeights, OfAPlainFolderThereAreNone) {
  EXPECT_EQ(ModelFolder(test::fixture_model("base")).quantized_weights(), nullptr);
}

}  // namespace
}  // namespace assay
