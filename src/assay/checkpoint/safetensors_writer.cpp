#include "assay/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"

namespace assay {

namespace {

// The place of an element type in the order of the reference library (its enum, descending).
int rank_of(DType dtype) {
  static constexpr DType kOrder[] = {DType::f64, DType::i64, DType::f32, DType::i32, DType::bf16,
                                     DType::f16, DType::i16, DType::i8,  DType::u8,  DType::boolean};
  return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), dtype) - std::begin(kOrder));
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void SafetensorsWriter::add(std::string name, DType dtype, std::vector<std::int64_t> shape,
                            Producer produce) {
  StoredTensor tensor{.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
  tensor.bytes =
      static_cast<std::uint64_t>(tensor.elements()) * static_cast<std::uint64_t>(info(dtype).bytes);
  entries_.push_back({std::move(tensor), std::move(produce)});
}

std::uint64_t SafetensorsWriter::data_bytes() const {
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.tensor.bytes;
  return bytes;
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    const int left = rank_of(a->tensor.dtype), right = rank_of(b->tensor.dtype);
    return left != right ? left < right : a->tensor.name < b->tensor.name;
  });
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const Entry* entry : order) {
    const StoredTensor& tensor = entry->tensor;
    header[tensor.name] = {{"dtype", info(tensor.dtype).safetensors},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(static_cast<unsigned char>(text.size() >> (8 * i)));
  write_file_atomically(path, [&](const ByteSink& sink) {
    sink(bytes_of(length));
    sink(bytes_of(text));
    for (const Entry* entry : order) {
      std::uint64_t written = 0;
      entry->produce([&](std::span<const std::byte> data) {
        written += data.size();
        sink(data);
      });
      if (written != entry->tensor.bytes)
        throw Error("{}: tensor '{}': {} bytes were produced where it has {}", path.string(),
                    entry->tensor.name, written, entry->tensor.bytes);
    }
  });
}

}  // namespace assay
