// GGUF files of a test's own, right or wrong in any place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay::test {

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
inline std::string gguf_text(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

// Types of values, as the file numbers them.
inline constexpr std::uint32_t kGgufU8 = 0, kGgufU16 = 2, kGgufU32 = 4, kGgufI32 = 5, kGgufF32 = 6,
                               kGgufBool = 7, kGgufText = 8, kGgufArray = 9, kGgufU64 = 10, kGgufI64 = 11;

// Everything is put together when bytes() is called.
struct GgufBytes {
  std::uint32_t version = 3;
  std::vector<std::string> keys;     // name, type and value
  std::vector<std::string> tensors;  // their entries
  std::string data;
  std::uint64_t alignment = 32;
  std::uint64_t more_keys = 0, more_tensors = 0;  // that the header counts and nobody wrote

  GgufBytes& value(std::string_view name, std::uint32_t type, const std::string& value) {
    keys.push_back(gguf_text(name) + raw(type) + value);
    return *this;
  }
  GgufBytes& text(std::string_view name, std::string_view value) {
    return this->value(name, kGgufText, gguf_text(value));
  }
  GgufBytes& number(std::string_view name, std::uint32_t value) {
    return this->value(name, kGgufU32, raw(value));
  }
  GgufBytes& texts(std::string_view name, const std::vector<std::string>& all) {
    std::string value = raw(kGgufText) + raw<std::uint64_t>(all.size());
    for (const std::string& each : all) value += gguf_text(each);
    return this->value(name, kGgufArray, value);
  }
  template <typename T>
  GgufBytes& numbers(std::string_view name, std::uint32_t type, const std::vector<T>& all) {
    std::string value = raw(type) + raw<std::uint64_t>(all.size());
    for (const T each : all) value += raw(each);
    return this->value(name, kGgufArray, value);
  }
  // At the offset that is asked for, else behind the one before.
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                    std::uint64_t bytes, std::int64_t offset = -1) {
    while (data.size() % alignment != 0) data += '\0';
    std::string entry = gguf_text(name) + raw(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) entry += raw(size);
    entry += raw(type) +
             raw(offset < 0 ? static_cast<std::uint64_t>(data.size()) : static_cast<std::uint64_t>(offset));
    tensors.push_back(std::move(entry));
    for (std::uint64_t i = 0; i < bytes; ++i) data += static_cast<char>(i % 100);
    return *this;
  }

  std::string bytes() const {
    std::string all = "GGUF" + raw(version) + raw<std::uint64_t>(tensors.size() + more_tensors) +
                      raw<std::uint64_t>(keys.size() + more_keys);
    for (const std::string& key : keys) all += key;
    for (const std::string& tensor : tensors) all += tensor;
    while (all.size() % alignment != 0) all += '\0';
    return all + data;
  }
};

}  // namespace assay::test
