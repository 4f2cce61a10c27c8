// safetensors files, sound and broken.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace assay::test {

struct WrittenTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// The bytes of a file with any header, true or not. `claimed_length` is written where the header's length
// belongs.
inline std::string safetensors_with_header(std::string_view header, std::string_view data,
                                           std::optional<std::uint64_t> claimed_length = {}) {
  std::uint64_t length = claimed_length.value_or(header.size());
  std::string file(8, '\0');
  for (char& byte : file) {
    byte = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  return file.append(header).append(data);
}

// Name -> entry, with the offsets that the tensors have when they stand one after the other.
inline nlohmann::ordered_json safetensors_header(const std::vector<WrittenTensor>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::uint64_t offset = 0;
  for (const WrittenTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  return header;
}

inline std::string safetensors_data(const std::vector<WrittenTensor>& tensors) {
  std::string data;
  for (const WrittenTensor& tensor : tensors) data += tensor.bytes;
  return data;
}

inline std::string safetensors_file(const std::vector<WrittenTensor>& tensors) {
  return safetensors_with_header(safetensors_header(tensors).dump(), safetensors_data(tensors));
}

inline std::string float_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Small numbers that differ from one another.
inline WrittenTensor float_tensor(std::string name, std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = 0.01F * static_cast<float>((i * 37 + name.size()) % 41) - 0.2F;
  return {std::move(name), "F32", std::move(shape), float_bytes(values)};
}

}  // namespace assay::test
