// A GGUF file that is read to be changed in one place and written again.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/gguf_writer.h"
#include "support/temporary_folder.h"

namespace assay::test {

struct GgufCopy {
  struct Key {
    std::string name;
    std::uint32_t type = 0;
    std::string value = {};  // as the file has it, the type of an array's elements too
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> sizes = {};
    std::uint32_t type = 0;
    std::uint64_t offset = 0;
  };
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::string data;

  // A file with the usual alignment.
  explicit GgufCopy(const std::string& path) : all_(read_file(path)) {
    at_ = 8;
    const auto tensor_count = number<std::uint64_t>(), key_count = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < key_count; ++i) {
      Key key{text(), number<std::uint32_t>()};
      const std::size_t begin = at_;
      skip_value(key.type);
      key.value = all_.substr(begin, at_ - begin);
      keys.push_back(std::move(key));
    }
    for (std::uint64_t i = 0; i < tensor_count; ++i) {
      Tensor tensor{text()};
      for (auto left = number<std::uint32_t>(); left > 0; --left)
        tensor.sizes.push_back(number<std::uint64_t>());
      tensor.type = number<std::uint32_t>();
      tensor.offset = number<std::uint64_t>();
      tensors.push_back(std::move(tensor));
    }
    data = all_.substr((at_ + kAlignment - 1) / kAlignment * kAlignment);
  }

  Key& key(std::string_view name) { return named(keys, name); }
  Tensor& tensor(std::string_view name) { return named(tensors, name); }

  std::string bytes() const {
    std::string out =
        "GGUF" + raw<std::uint32_t>(3) + raw<std::uint64_t>(tensors.size()) + raw<std::uint64_t>(keys.size());
    for (const Key& key : keys) out += gguf_text(key.name) + raw(key.type) + key.value;
    for (const Tensor& tensor : tensors) {
      out += gguf_text(tensor.name) + raw(static_cast<std::uint32_t>(tensor.sizes.size()));
      for (const std::uint64_t size : tensor.sizes) out += raw(size);
      out += raw(tensor.type) + raw(tensor.offset);
    }
    out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment);
    return out + data;
  }

 private:
  static constexpr std::size_t kAlignment = 32;

  template <typename Entries>
  static typename Entries::value_type& named(Entries& entries, std::string_view name) {
    const auto at =
        std::find_if(entries.begin(), entries.end(), [&](const auto& each) { return each.name == name; });
    if (at == entries.end()) throw std::runtime_error(std::string(name) + " is not in the file");
    return *at;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, all_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  std::string text() {
    const auto length = static_cast<std::size_t>(number<std::uint64_t>());
    at_ += length;
    return all_.substr(at_ - length, length);
  }
  void skip_value(std::uint32_t type) {
    constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == kGgufText) {
      text();
    } else if (type == kGgufArray) {
      const auto element = number<std::uint32_t>();
      for (auto left = number<std::uint64_t>(); left > 0; --left) skip_value(element);
    } else {
      at_ += kBytes[type];
    }
  }

  std::string all_;
  std::size_t at_ = 0;
};

}  // namespace assay::test
