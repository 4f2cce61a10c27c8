#include "assay/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"

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

void SafetensorsWriter::add(std::string name, DType dtype, std::vector<std::int64_t> shape) {
  if (file_ != nullptr) throw std::logic_error("a tensor is added to a file that is being written: " + name);
  const auto [at, is_new] = entries_.try_emplace(name);
  if (!is_new) throw std::logic_error("a tensor is added twice: " + name);
  StoredTensor& tensor = at->second.tensor;
  tensor = {.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
  tensor.bytes =
      static_cast<std::uint64_t>(tensor.elements()) * static_cast<std::uint64_t>(info(dtype).bytes);
}

std::uint64_t SafetensorsWriter::data_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.tensor.bytes;
  return bytes;
}

void SafetensorsWriter::create(const std::filesystem::path& path) {
  std::vector<Entry*> order;
  for (auto& [name, entry] : entries_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return rank_of(a->tensor.dtype) < rank_of(b->tensor.dtype);
  });
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (Entry* entry : order) {
    const StoredTensor& tensor = entry->tensor;
    header[tensor.name] = {{"dtype", info(tensor.dtype).safetensors},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes}}};
    entry->offset = offset;
    offset += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(static_cast<unsigned char>(text.size() >> (8 * i)));
  text.insert(0, length);
  for (Entry* entry : order) entry->offset += text.size();
  file_ = std::make_unique<NewFile>(path, text.size() + offset);
  file_->write(0, bytes_of(text));
}

void SafetensorsWriter::write(const std::string& name, std::uint64_t first, std::span<const std::byte> data) {
  const auto at = entries_.find(name);
  if (file_ == nullptr || at == entries_.end()) throw std::logic_error("no tensor to be written: " + name);
  Entry& entry = at->second;
  if (first > entry.tensor.bytes || data.size() > entry.tensor.bytes - first)
    throw std::logic_error("bytes beyond the tensor: " + name);
  file_->write(entry.offset + first, data);
  entry.written += data.size();
}

void SafetensorsWriter::finish() {
  for (const auto& [name, entry] : entries_)
    if (entry.written != entry.tensor.bytes)
      throw std::logic_error(fmt::format("tensor {}: {} bytes were written where it has {}", name,
                                         entry.written.load(), entry.tensor.bytes));
  if (file_ == nullptr) throw std::logic_error("a file is finished before it is made");
  file_->keep();
}

}  // namespace assay
