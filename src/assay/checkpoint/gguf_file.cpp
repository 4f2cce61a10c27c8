#include "assay/checkpoint/gguf_file.h"

#include <algorithm>
#include <cstring>

#include "assay/base/error.h"
#include "assay/checkpoint/gguf_reader.h"

namespace assay {

namespace {

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::u16:
    case GgufType::i16:
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::u64:
    case GgufType::i64:
      return true;
    default:
      return false;
  }
}

template <typename T>
T as(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace

std::string GgufValue::kind() const {
  const std::string_view name = gguf_type_name(type_);
  return is_array_ ? fmt::format("an array of {} {}", size_, name) : fmt::format("{}", name);
}

std::uint64_t GgufValue::bits(std::size_t i) const {
  const std::size_t width = gguf_type_bytes(type_);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes_.data() + i * width, width);
  return bits;
}

std::optional<std::int64_t> GgufValue::integer(std::size_t i) const {
  if (!is_integer(type_) || i >= size_) return std::nullopt;
  const std::uint64_t raw = bits(i);
  switch (type_) {
    case GgufType::i8:
      return as<std::int8_t>(raw);
    case GgufType::i16:
      return as<std::int16_t>(raw);
    case GgufType::i32:
      return as<std::int32_t>(raw);
    case GgufType::i64:
      return as<std::int64_t>(raw);
    default:
      break;
  }
  if (raw > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(raw);
}

std::optional<double> GgufValue::number(std::size_t i) const {
  if (i >= size_) return std::nullopt;
  if (type_ == GgufType::f32) return static_cast<double>(as<float>(bits(i)));
  if (type_ == GgufType::f64) return as<double>(bits(i));
  const auto whole = integer(i);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean(std::size_t i) const {
  if (type_ != GgufType::boolean || i >= size_) return std::nullopt;
  return bits(i) != 0;
}

std::optional<std::string_view> GgufValue::text(std::size_t i) const {
  if (type_ != GgufType::text || i >= size_) return std::nullopt;
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(bytes_).substr(begin, ends_[i] - begin);
}

std::int64_t GgufTensor::rows() const {
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < sizes.size(); ++i) rows *= sizes[i];
  return rows;
}

std::uint64_t GgufTensor::row_bytes() const {
  return static_cast<std::uint64_t>(columns() / type->elements * type->bytes);
}

GgufFile::GgufFile(const std::filesystem::path& path) : GgufFile(ReadFile(path)) {}

GgufFile::GgufFile(ReadFile file) : file_(std::move(file)) {
  GgufReader reader(file_);
  reader.read_header();
  values_ = reader.read_values();
  tensors_ = reader.read_tensors(values_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_.emplace(tensors_[i].name, i);
}

bool GgufFile::is_one(const std::filesystem::path& path) {
  const ReadFile file(path);
  char magic[4];
  if (file.size() < sizeof(magic)) return false;
  file.read_exactly(0, std::as_writable_bytes(std::span(magic)));
  return std::string_view(magic, sizeof(magic)) == kGgufMagic;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? nullptr : &tensors_[at->second];
}

void GgufFile::read(const GgufTensor& tensor, std::uint64_t first, std::span<std::byte> out) const {
  file_.read_exactly(tensor.offset + first, out);
}

const GgufValue* GgufFile::value(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

namespace {

[[noreturn]] void refuse_kind(const GgufFile& file, std::string_view key, std::string_view expected,
                              const GgufValue& found) {
  throw Error("{}: key '{}': expected {}, found {}", file.where(), printable(key), expected, found.kind());
}

// The one element of a key's value, where the key is there.
template <typename Get>
auto single(const GgufFile& file, std::string_view key, std::string_view expected, const Get& get)
    -> decltype(get(*file.value(key))) {
  const GgufValue* value = file.value(key);
  if (value == nullptr) return std::nullopt;
  auto element = get(*value);
  if (value->is_array() || !element) refuse_kind(file, key, expected, *value);
  return element;
}

}  // namespace

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  return single(*this, key, "an integer up to 2^63", [](const GgufValue& v) { return v.integer(0); });
}

std::optional<double> GgufFile::number(std::string_view key) const {
  return single(*this, key, "a number", [](const GgufValue& v) { return v.number(0); });
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  return single(*this, key, "a boolean", [](const GgufValue& v) { return v.boolean(0); });
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const auto text = single(*this, key, "a text", [](const GgufValue& v) { return v.text(0); });
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

const GgufValue* GgufFile::array(std::string_view key, std::string_view what) const {
  const GgufValue* value = this->value(key);
  if (value == nullptr) return nullptr;
  const GgufType type = value->type();
  const bool fits = what == "texts"      ? type == GgufType::text
                    : what == "integers" ? is_integer(type)
                    : what == "booleans" ? type == GgufType::boolean
                                         : is_integer(type) || type == GgufType::f32 || type == GgufType::f64;
  if (!value->is_array() || !fits) refuse_kind(*this, key, fmt::format("an array of {}", what), *value);
  return value;
}

}  // namespace assay
