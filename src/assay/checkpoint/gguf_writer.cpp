#include "assay/checkpoint/gguf_writer.h"

#include <bit>
#include <stdexcept>
#include <utility>

#include "assay/base/format.h"
#include "assay/checkpoint/gguf_file.h"
#include "assay/checkpoint/gguf_reader.h"

namespace assay {

namespace {

constexpr std::uint32_t kWrittenVersion = 3;
constexpr std::uint64_t kWrittenAlignment = 32;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kWrittenAlignment - 1) / kWrittenAlignment * kWrittenAlignment;
}

// The bytes of a number, as this (little-endian) machine has them.
template <typename T>
void append_number(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append_number<std::uint64_t>(out, text.size());
  out += text;
}

std::uint32_t number_of(GgufType type) {
  return static_cast<std::uint32_t>(type);
}

}  // namespace

void GgufWriter::begin_value(std::string_view key, std::uint32_t type) {
  if (file_ != nullptr) throw std::logic_error("a key is added to a file that is being written");
  ++value_count_;
  append_text(values_, key);
  append_number(values_, type);
}

void GgufWriter::begin_array(std::string_view key, std::uint32_t type, std::size_t count) {
  begin_value(key, number_of(GgufType::array));
  append_number(values_, type);
  append_number<std::uint64_t>(values_, count);
}

void GgufWriter::add_text(std::string_view key, std::string_view value) {
  begin_value(key, number_of(GgufType::text));
  append_text(values_, value);
}

void GgufWriter::add_u32(std::string_view key, std::uint32_t value) {
  begin_value(key, number_of(GgufType::u32));
  append_number(values_, value);
}

void GgufWriter::add_f32(std::string_view key, float value) {
  begin_value(key, number_of(GgufType::f32));
  append_number(values_, value);
}

void GgufWriter::add_bool(std::string_view key, bool value) {
  begin_value(key, number_of(GgufType::boolean));
  append_number<std::uint8_t>(values_, value ? 1 : 0);
}

void GgufWriter::add_texts(std::string_view key, std::span<const std::string> values) {
  begin_array(key, number_of(GgufType::text), values.size());
  for (const std::string& each : values) append_text(values_, each);
}

void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
  begin_array(key, number_of(GgufType::f32), values.size());
  for (const float each : values) append_number(values_, each);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const std::int32_t> values) {
  begin_array(key, number_of(GgufType::i32), values.size());
  for (const std::int32_t each : values) append_number(values_, each);
}

void GgufWriter::add_bools(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, number_of(GgufType::boolean), values.size());
  for (const bool each : values) append_number<std::uint8_t>(values_, each ? 1 : 0);
}

void GgufWriter::add_tensor(std::string name, std::vector<std::int64_t> shape, const ggml::BlockType& type) {
  if (file_ != nullptr) throw std::logic_error("a tensor is added to a file that is being written: " + name);
  if (shape.empty() || shape.back() % type.elements != 0)
    throw std::logic_error("rows of a tensor are no whole blocks: " + name);
  append_text(infos_, name);
  append_number(infos_, static_cast<std::uint32_t>(shape.size()));
  std::uint64_t elements = 1;
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    append_number(infos_, static_cast<std::uint64_t>(*size));
    elements *= static_cast<std::uint64_t>(*size);
  }
  const auto [at, is_new] = entries_.try_emplace(std::move(name));
  if (!is_new) throw std::logic_error("a tensor is added twice: " + at->first);
  Entry& entry = at->second;
  entry.offset = data_bytes_;
  entry.bytes = elements / static_cast<std::uint64_t>(type.elements) * static_cast<std::uint64_t>(type.bytes);
  append_number(infos_, type.id);
  append_number(infos_, entry.offset);
  data_bytes_ = aligned(data_bytes_ + entry.bytes);
}

void GgufWriter::create(const std::filesystem::path& path) {
  std::string header(kGgufMagic);
  append_number(header, kWrittenVersion);
  append_number<std::uint64_t>(header, entries_.size());
  append_number(header, value_count_);
  header += values_ + infos_;
  header.resize(aligned(header.size()), '\0');
  data_begin_ = header.size();
  file_ = std::make_unique<NewFile>(path, data_begin_ + data_bytes_);
  file_->write(0, std::as_bytes(std::span(header.data(), header.size())));
}

void GgufWriter::write(const std::string& name, std::uint64_t first, std::span<const std::byte> data) {
  const auto at = entries_.find(name);
  if (file_ == nullptr || at == entries_.end()) throw std::logic_error("no tensor to be written: " + name);
  Entry& entry = at->second;
  if (first > entry.bytes || data.size() > entry.bytes - first)
    throw std::logic_error("bytes beyond the tensor: " + name);
  file_->write(data_begin_ + entry.offset + first, data);
  entry.written += data.size();
}

void GgufWriter::finish() {
  for (const auto& [name, entry] : entries_)
    if (entry.written != entry.bytes)
      throw std::logic_error(fmt::format("tensor {}: {} bytes were written where it has {}", name,
                                         entry.written.load(), entry.bytes));
  if (file_ == nullptr) throw std::logic_error("a file is finished before it is made");
  file_->keep();
}

}  // namespace assay
