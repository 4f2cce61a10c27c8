#include "assay/checkpoint/checkpoint.h"

#include "assay/base/format.h"

namespace assay {

std::int64_t StoredTensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

std::string StoredTensor::shape_text() const {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string StoredTensor::type_name() const {
  return std::string(block_type.empty() ? info(dtype).safetensors : block_type);
}

std::filesystem::path CheckpointTensor::file() const {
  return checkpoint_->files()[file_];
}

std::string CheckpointTensor::where() const {
  return fmt::format("{}: tensor '{}'", file().string(), printable(name_in_file()));
}

std::string CheckpointTensor::name_in_file() const {
  return checkpoint_->name_in_file(tensor_->name);
}

void CheckpointTensor::read_floats(std::int64_t first, std::int64_t count, float* out) const {
  checkpoint_->read_floats(*this, first, count, out);
}

void CheckpointTensor::read_bytes(std::uint64_t first, std::span<std::byte> out) const {
  checkpoint_->read_bytes(*this, first, out);
}

}  // namespace assay
