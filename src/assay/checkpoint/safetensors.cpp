#include "assay/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/tensor/half.h"

namespace assay {

namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kMaxName = 16'384;           // bytes of a tensor's
constexpr std::size_t kMaxEntryValues = 10'000;    // in a tensor's entry, or in __metadata__

std::uint64_t read_header_length(const ReadFile& file) {
  refuse_lfs_pointer(file);
  const std::string where = file.path().string();
  if (file.size() < kLengthBytes)
    throw Error("{} is not a safetensors file: {} bytes, at least {} expected", where, file.size(),
                kLengthBytes);
  std::uint64_t length = 0;
  file.read_exactly(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeader)
    throw Error("{} is not a safetensors file: its header would have {} bytes, at most {} are allowed", where,
                length, kMaxHeader);
  if (length > file.size() - kLengthBytes)
    throw Error(
        "{}: the header of {} bytes reaches beyond the file of {} bytes (truncated, or not safetensors)",
        where, length, file.size());
  return length;
}

std::vector<std::int64_t> read_shape(const Json& entry, const std::string& where) {
  const auto it = entry.find("shape");
  if (it == entry.end() || !it->is_array() || it->size() > 8)
    throw Error("{}: expected a 'shape' of at most 8 sizes", where);
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (const Json& size : *it) {
    if (!size.is_number_unsigned())
      throw Error("{}: a size in 'shape' is not a whole number: {}", where, printable(size.dump()));
    const auto value = size.get<std::uint64_t>();
    if (value > (std::uint64_t{1} << 48) ||
        __builtin_mul_overflow(elements, static_cast<std::int64_t>(value), &elements) ||
        elements > (std::int64_t{1} << 48))
      throw Error("{}: the shape {} is absurdly large", where, it->dump());
    shape.push_back(static_cast<std::int64_t>(value));
  }
  return shape;
}

struct Entry {
  StoredTensor tensor;
  std::uint64_t offset = 0;  // where its first byte is in the file
};

Entry read_entry(const std::string& name, const Json& entry, std::uint64_t data_begin,
                 std::uint64_t data_size, const std::string& file) {
  const std::string where = fmt::format("{}: tensor '{}'", file, printable(name));
  if (!entry.is_object()) throw Error("{}: expected an object, found {}", where, entry.type_name());
  Entry read;
  StoredTensor& tensor = read.tensor;
  tensor.name = name;
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string())
    throw Error("{}: expected 'dtype' with the name of a type", where);
  if (!dtype_from_safetensors(dtype->get<std::string>(), tensor.dtype))
    throw Error("{}: unsupported dtype {}; expected F32, F16 or BF16", where,
                printable(dtype->get<std::string>()));
  tensor.shape = read_shape(entry, where);
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned())
    throw Error("{}: expected 'data_offsets' of two whole numbers", where);
  const auto begin = (*offsets)[0].get<std::uint64_t>(), end = (*offsets)[1].get<std::uint64_t>();
  if (begin > end) throw Error("{}: data_offsets [{}, {}] run backwards", where, begin, end);
  if (end > data_size)
    throw Error("{}: data_offsets [{}, {}] reach beyond the {} bytes of data in the file (truncated?)", where,
                begin, end, data_size);
  read.offset = data_begin + begin;
  tensor.bytes = end - begin;
  const auto needed =
      static_cast<std::uint64_t>(tensor.elements()) * static_cast<std::uint64_t>(info(tensor.dtype).bytes);
  if (needed != tensor.bytes)
    throw Error("{}: shape {} of {} needs {} bytes, data_offsets give {}", where, tensor.shape_text(),
                name_of(tensor.dtype), needed, tensor.bytes);
  return read;
}

void check_layout(const std::vector<Entry>& entries, std::uint64_t data_begin, std::uint64_t file_size,
                  const std::string& file) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->tensor.bytes < b->tensor.bytes;
  });
  std::uint64_t expected = data_begin;
  for (const Entry* entry : order) {
    const std::string name = printable(entry->tensor.name);
    if (entry->offset < expected) throw Error("{}: tensor '{}' overlaps the one before it", file, name);
    if (entry->offset > expected)
      throw Error("{}: {} unused bytes before tensor '{}'", file, entry->offset - expected, name);
    expected = entry->offset + entry->tensor.bytes;
  }
  if (expected != file_size)
    throw Error("{}: the tensors end at byte {}, the file at byte {}", file, expected, file_size);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : SafetensorsFile(ReadFile(path)) {}

SafetensorsFile::SafetensorsFile(ReadFile file) : file_(std::move(file)) {
  const std::string where = file_.path().string();
  const std::uint64_t length = read_header_length(file_);
  std::string header(static_cast<std::size_t>(length), '\0');
  file_.read_exactly(kLengthBytes, std::as_writable_bytes(std::span(header.data(), header.size())));
  const std::uint64_t data_begin = kLengthBytes + length;
  std::vector<Entry> entries;
  parse_json_entries(
      header, where + ": header", kMaxEntryValues, [&](const std::string& name, const Json& entry) {
        if (name == "__metadata__") return;
        if (name.size() > kMaxName)
          throw Error("{}: the name of a tensor has {} bytes, at most {} expected: '{}'", where, name.size(),
                      kMaxName, printable(name));
        if (entries.size() == kMaxTensors)
          throw Error("{}: expected at most {} tensors in a file, found more", where, kMaxTensors);
        entries.push_back(read_entry(name, entry, data_begin, file_.size() - data_begin, where));
      });
  check_layout(entries, data_begin, file_.size(), where);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.tensor.name < b.tensor.name; });
  for (Entry& entry : entries) {
    offsets_.push_back(entry.offset);
    tensors_.push_back(std::move(entry.tensor));
  }
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto it = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const StoredTensor& t, const std::string& n) { return t.name < n; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

std::uint64_t SafetensorsFile::offset_of(const StoredTensor& tensor) const {
  return offsets_[static_cast<std::size_t>(find(tensor.name) - tensors_.data())];
}

void SafetensorsFile::read(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
                           std::span<std::byte> out) const {
  const auto size = static_cast<std::uint64_t>(info(tensor.dtype).bytes);
  file_.read_exactly(offset_of(tensor) + static_cast<std::uint64_t>(first) * size,
                     out.first(static_cast<std::size_t>(static_cast<std::uint64_t>(count) * size)));
}

void SafetensorsFile::read_bytes(const StoredTensor& tensor, std::uint64_t first,
                                 std::span<std::byte> out) const {
  file_.read_exactly(offset_of(tensor) + first, out);
}

void SafetensorsFile::read_floats(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
                                  float* out) const {
  if (!info(tensor.dtype).is_weight)
    throw Error("{}: tensor '{}' is {}; expected F32, F16 or BF16", path().string(), printable(tensor.name),
                name_of(tensor.dtype));
  if (tensor.dtype == DType::f32) {
    read(tensor, first, count, std::as_writable_bytes(std::span(out, static_cast<std::size_t>(count))));
    return;
  }
  // Not a vector: zeroing a slab that is about to be overwritten costs a tenth of loading.
  const auto bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(info(tensor.dtype).bytes);
  const auto stored = std::make_unique_for_overwrite<std::byte[]>(bytes);
  read(tensor, first, count, std::span(stored.get(), bytes));
  widen(tensor.dtype, stored.get(), static_cast<std::size_t>(count), out);
}

}  // namespace assay
