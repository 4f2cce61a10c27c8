// Writes safetensors files byte for byte as the reference library does: the header's keys, order and padding.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/base/file.h"
#include "assay/checkpoint/checkpoint.h"

namespace assay {

// First all tensors are named, then the file is made, then their bytes are written as they come: none of them
// waits in memory. A call that does not fit this order, or a tensor's shape, is a std::logic_error.
class SafetensorsWriter {
 public:
  // In any order: in the file, wide element types come first, and names ascend within a type.
  void add(std::string name, DType dtype, std::vector<std::int64_t> shape);
  // Bytes of all tensors.
  std::uint64_t data_bytes() const;
  // Makes the file at its full size, under a temporary name. Throws Error (disk full).
  void create(const std::filesystem::path& path);
  // A tensor's bytes from number `first` on: in any order, each once, by any thread. Throws Error.
  void write(const std::string& name, std::uint64_t first, std::span<const std::byte> data);
  // Renames the file into place; without it nothing is left. Throws Error.
  void finish();

 private:
  struct Entry {
    StoredTensor tensor;
    std::uint64_t offset = 0;  // in the file
    std::atomic<std::uint64_t> written{0};
  };
  std::map<std::string, Entry> entries_;
  std::unique_ptr<NewFile> file_;
};

}  // namespace assay
