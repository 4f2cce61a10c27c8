#include "assay/checkpoint/gguf_reader.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "assay/base/error.h"
#include "assay/checkpoint/safetensors.h"

namespace assay {

namespace {

constexpr std::uint64_t kSlabBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kLongestKey = 65'535, kLongestName = 1024;  // the specification's, and ggml's is 64
constexpr std::uint64_t kLongestText = std::uint64_t{1} << 30;      // the texts of an array together
constexpr std::uint64_t kMaxValues = 65'536;
constexpr std::uint64_t kSmallestValue = 8 + 4 + 1, kSmallestTensor = 8 + 4 + 8 + 4 + 8;
constexpr std::uint32_t kMaxSizes = 4;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
constexpr std::int64_t kDefaultAlignment = 32, kMaxAlignment = std::int64_t{1} << 20;

struct GgufTypeInfo {
  std::string_view name;
  std::size_t bytes;
};
constexpr GgufTypeInfo kGgufTypes[] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},  {"u32", 4},
                                       {"i32", 4}, {"f32", 4}, {"bool", 1}, {"text", 0}, {"array", 0},
                                       {"u64", 8}, {"i64", 8}, {"f64", 8}};

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  return kGgufTypes[static_cast<std::size_t>(type)].name;
}
std::size_t gguf_type_bytes(GgufType type) {
  return kGgufTypes[static_cast<std::size_t>(type)].bytes;
}

GgufReader::GgufReader(const ReadFile& file) : file_(file), where_(file.path().string()) {}

void GgufReader::read(std::span<std::byte> out, std::string_view what) {
  if (out.size() > left())
    throw Error("{}: expected {} bytes of {} at byte {}, found {} (truncated?)", where_, out.size(), what,
                at_, left());
  if (out.size() >= kSlabBytes) {
    file_.read_exactly(at_, out);
    at_ += out.size();
    return;
  }
  if (at_ < slab_begin_ || at_ + out.size() > slab_begin_ + slab_.size()) {
    slab_.resize(static_cast<std::size_t>(std::min(kSlabBytes, left())));
    slab_begin_ = at_;
    file_.read_exactly(at_, slab_);
  }
  if (!out.empty()) std::memcpy(out.data(), slab_.data() + (at_ - slab_begin_), out.size());
  at_ += out.size();
}

template <typename T>
T GgufReader::number(std::string_view what) {
  T value = 0;
  read(std::as_writable_bytes(std::span(&value, 1)), what);
  return value;
}

std::string GgufReader::text(std::string_view what, std::uint64_t longest) {
  const auto length = number<std::uint64_t>(what);
  if (length > longest || length > left())
    throw Error("{}: {} has {} bytes: expected at most {}", where_, what, length, std::min(longest, left()));
  std::string text(static_cast<std::size_t>(length), '\0');
  read(std::as_writable_bytes(std::span(text)), what);
  return text;
}

GgufType GgufReader::type(std::string_view what) {
  const auto id = number<std::uint32_t>(what);
  if (id >= std::size(kGgufTypes))
    throw Error("{}: {}: expected a type of value from 0 to {}, found {}", where_, what,
                std::size(kGgufTypes) - 1, id);
  return static_cast<GgufType>(id);
}

std::string GgufReader::beginning() {
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(kGgufMagic.size(), file_.size())), '\0');
  file_.read_exactly(0, std::as_writable_bytes(std::span(text)));
  return text.empty() ? "an empty file" : fmt::format("'{}'", printable(text));
}

void GgufReader::read_header() {
  refuse_lfs_pointer(file_);
  char magic[4] = {};
  if (file_.size() >= sizeof(magic)) read(std::as_writable_bytes(std::span(magic)), "the magic");
  if (std::string_view(magic, sizeof(magic)) != kGgufMagic)
    throw Error("{} is not a GGUF file: expected it to begin with '{}', found {}", where_, kGgufMagic,
                beginning());
  const auto version = number<std::uint32_t>("the version");
  if (version != 0 && (version & 0xFFFFU) == 0)
    throw Error("{}: the file is big-endian (version {:#x}): expected little-endian GGUF", where_, version);
  if (version != 2 && version != 3)
    throw Error("{}: GGUF version {} is not supported: expected 2 or 3", where_, version);
  tensor_count_ = number<std::uint64_t>("the number of tensors");
  value_count_ = number<std::uint64_t>("the number of keys");
  if (tensor_count_ > std::min<std::uint64_t>(kMaxTensors, left() / kSmallestTensor))
    throw Error("{}: {} tensors: expected at most {} in a file of {} bytes (truncated?)", where_,
                tensor_count_, std::min<std::uint64_t>(kMaxTensors, left() / kSmallestTensor), file_.size());
  if (value_count_ > std::min(kMaxValues, left() / kSmallestValue))
    throw Error("{}: {} keys: expected at most {} in a file of {} bytes (truncated?)", where_, value_count_,
                std::min(kMaxValues, left() / kSmallestValue), file_.size());
}

std::map<std::string, GgufValue, std::less<>> GgufReader::read_values() {
  std::map<std::string, GgufValue, std::less<>> values;
  for (std::uint64_t i = 0; i < value_count_; ++i) {
    std::string key = text(fmt::format("the name of key {}", i), kLongestKey);
    if (values.contains(key)) throw Error("{}: key '{}' stands twice", where_, printable(key));
    GgufValue read = value(key);
    values.emplace(std::move(key), std::move(read));
  }
  return values;
}

GgufValue GgufReader::value(const std::string& key) {
  const std::string what = fmt::format("key '{}'", printable(key));
  GgufType kind = type(what);
  const bool is_array = kind == GgufType::array;
  if (is_array) kind = type(what);
  if (kind == GgufType::array) throw Error("{}: {}: expected no array of arrays, found one", where_, what);
  GgufValue value(kind, is_array);
  if (is_array) {
    read_array(value, what);
  } else if (kind == GgufType::text) {
    value.bytes_ = text(what, kLongestText);
    value.ends_ = {static_cast<std::uint32_t>(value.bytes_.size())};
    value.size_ = 1;
  } else {
    value.bytes_.resize(gguf_type_bytes(kind));
    read(std::as_writable_bytes(std::span(value.bytes_)), what);
    value.size_ = 1;
  }
  return value;
}

void GgufReader::read_array(GgufValue& value, const std::string& what) {
  const auto count = number<std::uint64_t>(what);
  const bool is_text = value.type_ == GgufType::text;
  const std::uint64_t smallest = is_text ? 8 : gguf_type_bytes(value.type_);
  if (count > left() / smallest)
    throw Error("{}: {}: an array of {} {}: expected at most {} in what is left of the file", where_, what,
                count, gguf_type_name(value.type_), left() / smallest);
  value.size_ = static_cast<std::size_t>(count);
  if (!is_text) {
    value.bytes_.resize(value.size_ * static_cast<std::size_t>(smallest));
    read(std::as_writable_bytes(std::span(value.bytes_)), what);
    return;
  }
  value.ends_.reserve(value.size_);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto length = number<std::uint64_t>(what);
    if (length > left() || value.bytes_.size() + length > kLongestText)
      throw Error("{}: {}: entry {} has {} bytes: expected at most {}", where_, what, i, length,
                  std::min(left(), kLongestText - value.bytes_.size()));
    const std::size_t begin = value.bytes_.size();
    value.bytes_.resize(begin + static_cast<std::size_t>(length));
    read(std::as_writable_bytes(std::span(value.bytes_).subspan(begin)), what);
    value.ends_.push_back(static_cast<std::uint32_t>(value.bytes_.size()));
  }
  value.bytes_.shrink_to_fit();
}

GgufTensor GgufReader::tensor() {
  GgufTensor tensor;
  tensor.name = text("the name of a tensor", kLongestName);
  const std::string what = fmt::format("tensor '{}'", printable(tensor.name));
  const auto dims = number<std::uint32_t>(what);
  if (dims < 1 || dims > kMaxSizes)
    throw Error("{}: {}: expected 1 to {} dimensions, found {}", where_, what, kMaxSizes, dims);
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < dims; ++i) {
    const auto size = number<std::uint64_t>(what);
    if (size < 1 || size > std::uint64_t{kMaxElements} ||
        __builtin_mul_overflow(elements, static_cast<std::int64_t>(size), &elements) ||
        elements > kMaxElements)
      throw Error("{}: {}: expected sizes from 1 whose product is at most {}, found {} in dimension {}",
                  where_, what, kMaxElements, size, i);
    tensor.sizes.push_back(static_cast<std::int64_t>(size));
  }
  const auto id = number<std::uint32_t>(what);
  tensor.type = ggml::block_type(id);
  if (tensor.type == nullptr)
    throw Error("{}: {}: expected a type of ggml, found {}, which is unknown or was removed", where_, what,
                id);
  if (tensor.columns() % tensor.type->elements != 0)
    throw Error("{}: {}: expected rows of a multiple of {} elements, as {} has them, found {}", where_, what,
                tensor.type->elements, tensor.type->name, tensor.columns());
  tensor.offset = number<std::uint64_t>(what);
  // At most 2^48 elements of 8 bytes: no overflow.
  tensor.bytes = tensor.row_bytes() * static_cast<std::uint64_t>(tensor.rows());
  return tensor;
}

std::vector<GgufTensor> GgufReader::read_tensors(
    const std::map<std::string, GgufValue, std::less<>>& values) {
  std::int64_t alignment = kDefaultAlignment;
  if (const auto at = values.find("general.alignment"); at != values.end()) {
    const bool is_number = !at->second.is_array() && at->second.integer(0).has_value();
    alignment = is_number ? *at->second.integer(0) : 0;
    if (alignment < 1 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0)
      throw Error("{}: key 'general.alignment': expected a power of two up to {}, found {}", where_,
                  kMaxAlignment, is_number ? fmt::to_string(alignment) : at->second.kind());
  }
  std::vector<GgufTensor> tensors;
  tensors.reserve(static_cast<std::size_t>(tensor_count_));
  std::set<std::string, std::less<>> names;
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    tensors.push_back(tensor());
    if (!names.insert(tensors.back().name).second)
      throw Error("{}: tensor '{}' stands twice", where_, printable(tensors.back().name));
  }
  place(tensors, static_cast<std::uint64_t>(alignment));
  return tensors;
}

// From offsets in the data to offsets in the file.
void GgufReader::place(std::vector<GgufTensor>& tensors, std::uint64_t alignment) const {
  const std::uint64_t data = (at_ + alignment - 1) / alignment * alignment;
  std::vector<const GgufTensor*> order;
  for (GgufTensor& tensor : tensors) {
    const std::string what = fmt::format("tensor '{}'", printable(tensor.name));
    if (tensor.offset % alignment != 0)
      throw Error("{}: {}: expected an offset that is a multiple of {}, found {}", where_, what, alignment,
                  tensor.offset);
    if (data > file_.size() || tensor.offset > file_.size() - data ||
        tensor.bytes > file_.size() - data - tensor.offset)
      throw Error(
          "{}: {}: its {} bytes at byte {} of the data reach beyond the file of {} bytes (truncated?)",
          where_, what, tensor.bytes, tensor.offset, file_.size());
    tensor.offset += data;
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
      throw Error("{}: tensor '{}' overlaps tensor '{}'", where_, printable(order[i]->name),
                  printable(order[i - 1]->name));
}

}  // namespace assay
