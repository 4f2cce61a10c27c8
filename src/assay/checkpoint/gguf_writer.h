// Writes a GGUF file of version 3, such that llama.cpp loads it: tensors follow each other without gaps but
// for the alignment of 32 bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/file.h"
#include "assay/quant/ggml_blocks.h"

namespace assay {

// First keys and tensors are named, then the file is made, then the tensors' bytes are written as they come.
// A call that does not fit this order, or a tensor's size, is a std::logic_error.
class GgufWriter {
 public:
  // In the order of the file, each once. llama.cpp wants exactly these types.
  void add_text(std::string_view key, std::string_view value);
  void add_u32(std::string_view key, std::uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_i32s(std::string_view key, std::span<const std::int32_t> values);
  void add_bools(std::string_view key, const std::vector<bool>& values);
  // `shape` as safetensors has it, rows first; a row is a whole number of the type's blocks.
  void add_tensor(std::string name, std::vector<std::int64_t> shape, const ggml::BlockType& type);
  bool has_tensor(const std::string& name) const { return entries_.contains(name); }
  std::uint64_t tensor_bytes() const { return data_bytes_; }  // their sum

  // Makes the file at its full size, under a temporary name. Throws Error (disk full).
  void create(const std::filesystem::path& path);
  // Where GgufFile can read it before its tensors are written.
  const std::filesystem::path& temporary_path() const { return file_->temporary_path(); }
  // A tensor's bytes from number `first` on: in any order, each once, by any thread. Throws Error.
  void write(const std::string& name, std::uint64_t first, std::span<const std::byte> data);
  // Renames the file into place; without it nothing is left. Throws Error.
  void finish();

 private:
  struct Entry {
    std::uint64_t offset = 0, bytes = 0;  // in the file's data
    std::atomic<std::uint64_t> written{0};
  };
  void begin_value(std::string_view key, std::uint32_t type);
  void begin_array(std::string_view key, std::uint32_t type, std::size_t count);

  std::string values_, infos_;
  std::uint64_t value_count_ = 0, data_begin_ = 0, data_bytes_ = 0;
  std::map<std::string, Entry> entries_;
  std::unique_ptr<NewFile> file_;
};

}  // namespace assay
