// A GGUF file (llama.cpp's format, versions 2 and 3): its metadata and where its tensors are. What keys and
// names mean is the matter of gguf_keys.h and gguf_names.h; how blocks hold numbers, of quant/ggml_blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/file.h"
#include "assay/quant/ggml_blocks.h"

namespace assay {

// As the file numbers them.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

// A value of the metadata: one element, or the elements of an array. Kept as the file has it, which for the
// texts of a vocabulary is a twentieth of what a vector of strings takes.
class GgufValue {
 public:
  GgufValue(GgufType type, bool is_array) : type_(type), is_array_(is_array) {}

  GgufType type() const { return type_; }  // that the elements have
  bool is_array() const { return is_array_; }
  std::size_t size() const { return size_; }
  // "an array of 3 u32", for messages.
  std::string kind() const;

  // Element `i`. Whatever integer type a file chose, it is one; integers are numbers too. Nothing where the
  // element is of another kind, or an integer that int64 cannot hold.
  std::optional<std::int64_t> integer(std::size_t i) const;
  std::optional<double> number(std::size_t i) const;
  std::optional<bool> boolean(std::size_t i) const;
  std::optional<std::string_view> text(std::size_t i) const;  // any bytes

 private:
  friend class GgufReader;
  std::uint64_t bits(std::size_t i) const;

  GgufType type_;
  bool is_array_;
  std::size_t size_ = 0;
  std::string bytes_;                // the numbers, or all texts
  std::vector<std::uint32_t> ends_;  // where each text ends
};

struct GgufTensor {
  std::string name;
  const ggml::BlockType* type = nullptr;
  std::vector<std::int64_t> sizes;  // the contiguous one first: reversed, it is the shape
  std::uint64_t offset = 0;         // in the file
  std::uint64_t bytes = 0;

  std::int64_t columns() const { return sizes.front(); }
  std::int64_t rows() const;  // the product of all other sizes
  std::uint64_t row_bytes() const;
};

class GgufFile {
 public:
  // Reads everything but the tensors. Throws Error naming the file, the key or tensor, what was expected and
  // what was found: for version 1 and byte-swapped files, for what reaches beyond the file, for keys and
  // tensors that stand twice, nested arrays, unknown types, and for tensors that are unaligned or overlap.
  explicit GgufFile(const std::filesystem::path& path);
  explicit GgufFile(ReadFile file);  // which may be bytes in memory
  // Whether the file begins as one.
  static bool is_one(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::string where() const { return file_.path().string(); }
  std::uint64_t size() const { return file_.size(); }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the file's order
  const GgufTensor* find(std::string_view name) const;
  // Bytes [first, first + out.size()) of the tensor.
  void read(const GgufTensor& tensor, std::uint64_t first, std::span<std::byte> out) const;

  const GgufValue* value(std::string_view key) const;  // null where there is none
  // Each throws Error where the key has a value of another kind or there is no fallback; arrays are of
  // another kind.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  // Throws Error where the value is no array of `what` ("texts", "integers", "numbers").
  const GgufValue* array(std::string_view key, std::string_view what) const;

 private:
  ReadFile file_;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, std::size_t> places_;  // in tensors_, by name
};

}  // namespace assay
