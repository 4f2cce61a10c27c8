// Writes safetensors files byte for byte as the reference library does: the header's keys, order and padding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "assay/base/file.h"
#include "assay/checkpoint/safetensors.h"

namespace assay {

class SafetensorsWriter {
 public:
  // Gives a tensor's bytes, in pieces, when the file is written.
  using Producer = std::function<void(const ByteSink&)>;

  // In any order: in the file, wide element types come first, and names ascend within a type.
  void add(std::string name, DType dtype, std::vector<std::int64_t> shape, Producer produce);
  // Bytes of all tensors.
  std::uint64_t data_bytes() const;
  // Writes the file whole or not at all. Throws Error, also where a producer gives another number of bytes
  // than its tensor has, and what producers throw.
  void write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    StoredTensor tensor;
    Producer produce;
  };
  std::vector<Entry> entries_;
};

}  // namespace assay
