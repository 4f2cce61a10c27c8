// The tensors of a sound file, for a test to spoil and write again.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "assay/checkpoint/safetensors.h"
#include "safetensors_writer.h"

namespace assay::test {

struct TensorList {
  std::vector<WrittenTensor> tensors;

  explicit TensorList(const std::filesystem::path& path) {
    const SafetensorsFile file(path);
    for (const StoredTensor& stored : file.tensors()) {
      std::string bytes(static_cast<std::size_t>(stored.bytes), '\0');
      file.read_bytes(stored, 0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
      tensors.push_back({stored.name, std::string(info(stored.dtype).safetensors), stored.shape, bytes});
    }
  }

  WrittenTensor& operator[](const std::string& name) {
    for (WrittenTensor& tensor : tensors)
      if (tensor.name == name) return tensor;
    throw std::logic_error("no tensor " + name);
  }
  void remove(const std::string& name) {
    (*this)[name];
    std::erase_if(tensors, [&](const WrittenTensor& tensor) { return tensor.name == name; });
  }
  std::string file() const { return safetensors_file(tensors); }
};

}  // namespace assay::test
