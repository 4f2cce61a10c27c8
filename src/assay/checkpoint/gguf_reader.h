// Reads the parts of a GGUF file one after another. For gguf_file.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/checkpoint/gguf_file.h"

namespace assay {

inline constexpr std::string_view kGgufMagic = "GGUF";

std::string_view gguf_type_name(GgufType type);
std::size_t gguf_type_bytes(GgufType type);  // 0 of texts and arrays

// Nothing is allocated before the bytes that it would be filled from are known to be in the file.
class GgufReader {
 public:
  explicit GgufReader(const ReadFile& file);

  // In this order. Each throws Error, see GgufFile.
  void read_header();
  std::map<std::string, GgufValue, std::less<>> read_values();
  std::vector<GgufTensor> read_tensors(const std::map<std::string, GgufValue, std::less<>>& values);

 private:
  std::uint64_t left() const { return file_.size() - at_; }
  void read(std::span<std::byte> out, std::string_view what);
  template <typename T>
  T number(std::string_view what);
  std::string text(std::string_view what, std::uint64_t longest);
  GgufType type(std::string_view what);
  GgufValue value(const std::string& key);
  void read_array(GgufValue& value, const std::string& what);
  std::string beginning();  // for messages
  GgufTensor tensor();
  void place(std::vector<GgufTensor>& tensors, std::uint64_t alignment) const;

  const ReadFile& file_;
  const std::string where_;
  std::uint64_t at_ = 0;  // the next byte of the file
  std::vector<std::byte> slab_;
  std::uint64_t slab_begin_ = 0;
  std::uint64_t tensor_count_ = 0, value_count_ = 0;
};

}  // namespace assay
