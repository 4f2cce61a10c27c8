// safetensors: 8 bytes of header length, a JSON header, then the tensors' bytes
// (https://github.com/huggingface/safetensors, section "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/file.h"
#include "assay/checkpoint/checkpoint.h"

namespace assay {

// In one model: those of a trillion weights have some 10,000; a header may name millions of empty ones.
inline constexpr std::size_t kMaxTensors = 100'000;

class SafetensorsFile {
 public:
  // Reads and checks the header: every offset lies in the file, tensors neither overlap nor leave holes, and
  // each has the bytes its shape and type need. Throws Error naming the file and the tensor.
  explicit SafetensorsFile(const std::filesystem::path& path);
  explicit SafetensorsFile(ReadFile file);  // which may be bytes in memory

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(const std::string& name) const;
  std::uint64_t size() const { return file_.size(); }

  // The bytes of elements [first, first + count) of a tensor of this file.
  void read(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
            std::span<std::byte> out) const;
  // Bytes [first, first + out.size()) of a tensor, whatever its type.
  void read_bytes(const StoredTensor& tensor, std::uint64_t first, std::span<std::byte> out) const;
  // The elements, widened from F32, F16 or BF16 to float32.
  void read_floats(const StoredTensor& tensor, std::int64_t first, std::int64_t count, float* out) const;

 private:
  std::uint64_t offset_of(const StoredTensor& tensor) const;

  ReadFile file_;
  std::vector<StoredTensor> tensors_;   // by name
  std::vector<std::uint64_t> offsets_;  // where their first bytes are in the file
};

}  // namespace assay
