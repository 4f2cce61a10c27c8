#include "assay/checkpoint/gguf_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "assay/base/error.h"
#include "assay/checkpoint/gguf_rotary.h"

namespace assay {

namespace {

constexpr std::int64_t kSlab = std::int64_t{1} << 20;  // bytes that are turned into floats at once

// Plain numbers have their own type; of blocks, what they are read as.
DType dtype_of_blocks(const ggml::BlockType& type) {
  if (type.name == "F16") return DType::f16;
  if (type.name == "BF16") return DType::bf16;
  return DType::f32;
}

// Tensors for images that some programs keep in the same file.
bool is_of_images(std::string_view name) {
  return name.starts_with("v.") || name.starts_with("mm.");
}

}  // namespace

std::int64_t GgufRows::stored(std::int64_t row) const {
  const std::int64_t size = heads.head_dim, head = size > 0 ? row / size : 0, i = size > 0 ? row % size : 0;
  switch (order) {
    case Order::as_stored:
      break;
    case Order::rotary_pairs:
      return first + head * size + 2 * (i % (size / 2)) + i / (size / 2);
    case Order::by_key_head: {
      const std::int64_t queries = heads.heads / heads.kv_heads;  // that share a key head
      const std::int64_t group = head / (queries + 2), place = head % (queries + 2);
      const std::int64_t stored_head = place < queries    ? group * queries + place
                                       : place == queries ? heads.heads + group
                                                          : heads.heads + heads.kv_heads + group;
      return first + stored_head * size + i;
    }
  }
  return first + row;
}

GgufCheckpoint::GgufCheckpoint(const GgufShards& shards, const GgufArchitecture& architecture)
    : shards_(shards), architecture_(architecture), heads_(heads_of(shards.first())) {
  for (std::size_t file = 0; file < shards.files().size(); ++file)
    for (const GgufTensor& tensor : shards.files()[file]->tensors())
      if (!is_rotary_tensor(tensor.name) && !is_of_images(tensor.name)) add(file, tensor);
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return a->file != b->file ? a->file < b->file : a->tensor.name < b->tensor.name;
  });
}

std::string GgufCheckpoint::where(const Entry& entry) const {
  return fmt::format("{}: tensor '{}'", shards_.files()[entry.file]->where(), printable(entry.stored->name));
}

GgufCheckpoint::Entry GgufCheckpoint::entry_of(std::string name, std::size_t file,
                                               const GgufTensor& stored) const {
  Entry entry;
  entry.file = file;
  entry.stored = &stored;
  entry.tensor.name = std::move(name);
  entry.tensor.dtype = dtype_of_blocks(*stored.type);
  if (stored.type->format || stored.type->elements > 1) entry.tensor.block_type = stored.type->name;
  entry.tensor.shape.assign(stored.sizes.rbegin(), stored.sizes.rend());
  entry.tensor.bytes = stored.bytes;
  // A vector of plain numbers has an element in each row, so that vectors are cut and moved like matrices.
  const bool is_vector = stored.sizes.size() == 1 && stored.type->elements == 1;
  entry.columns = is_vector ? 1 : stored.columns();
  entry.row_bytes = is_vector ? static_cast<std::uint64_t>(stored.type->bytes) : stored.row_bytes();
  return entry;
}

void GgufCheckpoint::set_order(Entry& entry, GgufChange change) const {
  if (change == GgufChange::one_was_added) entry.added = 1;
  const bool is_query = change == GgufChange::rotated_queries, is_key = change == GgufChange::rotated_keys;
  if (!is_query && !is_key && change != GgufChange::heads_apart) return;
  const std::int64_t heads = is_query ? heads_.heads
                             : is_key ? heads_.kv_heads
                                      : heads_.heads + 2 * heads_.kv_heads;
  if (entry.tensor.shape.front() != heads * heads_.head_dim || heads_.head_dim % 2 != 0 ||
      heads_.heads % heads_.kv_heads != 0)
    throw Error("{}: expected {} rows, for {} heads of {} elements (an even number), found {}", where(entry),
                heads * heads_.head_dim, heads, heads_.head_dim, entry.tensor.shape.front());
  entry.rows.heads = heads_;
  entry.rows.order =
      change == GgufChange::heads_apart ? GgufRows::Order::by_key_head : GgufRows::Order::rotary_pairs;
}

void GgufCheckpoint::keep(Entry entry) {
  auto kept = std::make_unique<const Entry>(std::move(entry));
  if (!by_name_.emplace(kept->tensor.name, kept.get()).second)
    throw Error("{}: '{}' is made of another tensor too", where(*kept), printable(kept->tensor.name));
  entries_.push_back(std::move(kept));
}

void GgufCheckpoint::add(std::size_t file, const GgufTensor& stored) {
  GgufTranslation translation = translated(architecture_, stored.name);
  if (!translation.is_known && stored.name.find(".attn_qkv.") != std::string::npos)
    return add_qkv_parts(file, stored);
  if (translation.change == GgufChange::split_by_head && stored.sizes.size() == 2)
    return add_heads(translation.name, file, stored);
  Entry entry = entry_of(std::move(translation.name), file, stored);
  set_order(entry, translation.change);
  keep(std::move(entry));
}

// Queries, keys and values as tensors of their own, where a converter has joined them.
void GgufCheckpoint::add_qkv_parts(std::size_t file, const GgufTensor& stored) {
  const std::int64_t queries = heads_.heads * heads_.head_dim, keys = heads_.kv_heads * heads_.head_dim;
  std::int64_t first = 0;
  for (const auto& [module, rows] : {std::pair{"attn_q", queries}, {"attn_k", keys}, {"attn_v", keys}}) {
    GgufTranslation translation = translated(architecture_, gguf_sibling(stored.name, module));
    Entry entry = entry_of(std::move(translation.name), file, stored);
    if (entry.tensor.shape.front() != queries + 2 * keys)
      throw Error("{}: expected {} rows, of queries, keys and values, found {}", where(entry),
                  queries + 2 * keys, entry.tensor.shape.front());
    entry.tensor.shape.front() = rows;
    entry.tensor.bytes = static_cast<std::uint64_t>(rows) * entry.row_bytes;
    set_order(entry, translation.change);
    entry.rows.first = first;
    first += rows;
    keep(std::move(entry));
  }
}

void GgufCheckpoint::add_heads(const std::string& pattern, std::size_t file, const GgufTensor& stored) {
  constexpr std::int64_t kMostHeads = 1 << 16;
  Entry whole = entry_of(pattern, file, stored);
  if (stored.rows() > kMostHeads)
    throw Error("{}: expected a row for each of at most {} heads, found {}", where(whole), kMostHeads,
                stored.rows());
  for (std::int64_t head = 0; head < stored.rows(); ++head) {
    Entry entry = whole;
    entry.tensor.name.replace(entry.tensor.name.find('#'), 1, fmt::to_string(head));
    entry.tensor.shape = {stored.columns()};
    entry.tensor.bytes = entry.row_bytes;
    entry.rows.first = head;
    keep(std::move(entry));
  }
}

CheckpointTensor GgufCheckpoint::find(const std::string& name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? CheckpointTensor()
                              : CheckpointTensor(*this, at->second->tensor, at->second->file);
}

std::vector<CheckpointTensor> GgufCheckpoint::tensors() const {
  std::vector<CheckpointTensor> all;
  for (const auto& entry : entries_) all.emplace_back(*this, entry->tensor, entry->file);
  return all;
}

std::vector<std::filesystem::path> GgufCheckpoint::files() const {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : shards_.files()) paths.push_back(file->path());
  return paths;
}

std::uint64_t GgufCheckpoint::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& file : shards_.files()) bytes += file->size();
  return bytes;
}

std::string GgufCheckpoint::name_in_file(const std::string& name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? gguf_name_of(architecture_, name).name : at->second->stored->name;
}

std::string GgufCheckpoint::unreadable_among(const std::vector<std::string>& names) const {
  const Entry* first = nullptr;
  std::map<std::string_view, std::int64_t> counts;  // by type
  std::int64_t count = 0;
  for (const std::string& name : names) {
    const auto at = by_name_.find(name);
    if (at == by_name_.end() || at->second->stored->type->refused_because.empty()) continue;
    if (first == nullptr) first = at->second;
    ++counts[at->second->stored->type->name];
    ++count;
  }
  if (first == nullptr) return "";
  std::vector<std::string> types;
  for (const auto& [type, tensors] : counts) types.push_back(fmt::format("{} {}", tensors, type));
  const ggml::BlockType& type = *first->stored->type;
  return fmt::format(
      "{} of {} weights cannot be run ({}; the first is '{}'): the type {} is not supported, {}; take a file "
      "of another type, such as Q2_K, Q3_K_M or IQ4_XS, or rewrite this one with llama.cpp's llama-quantize "
      "--allow-requantize FILE OUT.gguf Q8_0",
      count, names.size(), fmt::join(types, ", "), printable(first->stored->name), type.name,
      type.refused_because);
}

const ggml::BlockType* GgufCheckpoint::type_of(const std::string& name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second->stored->type;
}

void GgufCheckpoint::read_rows(const std::string& name, std::int64_t first, std::int64_t count,
                               std::byte* out) const {
  read_rows(*by_name_.at(name), first, count, out);
}

void GgufCheckpoint::read_rows(const Entry& entry, std::int64_t first, std::int64_t count,
                               std::byte* out) const {
  const GgufFile& file = *shards_.files()[entry.file];
  const auto width = static_cast<std::size_t>(entry.row_bytes);
  const std::int64_t unit = entry.rows.unit();
  if (unit == 0) {
    file.read(*entry.stored, static_cast<std::uint64_t>(entry.rows.first + first) * width,
              std::span(out, static_cast<std::size_t>(count) * width));
    return;
  }
  std::vector<std::byte> block;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = first + done, n = std::min(count - done, unit - row % unit);
    std::int64_t begin = entry.rows.stored(row), last = begin;
    for (std::int64_t i = 1; i < n; ++i) {
      begin = std::min(begin, entry.rows.stored(row + i));
      last = std::max(last, entry.rows.stored(row + i));
    }
    block.resize(static_cast<std::size_t>(last - begin + 1) * width);
    file.read(*entry.stored, static_cast<std::uint64_t>(begin) * width, block);
    for (std::int64_t i = 0; i < n; ++i)
      std::memcpy(out + static_cast<std::size_t>(done + i) * width,
                  block.data() + static_cast<std::size_t>(entry.rows.stored(row + i) - begin) * width, width);
    done += n;
  }
}

void GgufCheckpoint::read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                                std::span<std::byte> out) const {
  const Entry& entry = *by_name_.at(tensor->name);
  if (first > entry.tensor.bytes || out.size() > entry.tensor.bytes - first)
    throw Error("{}: expected to read at most its {} bytes, found byte {} asked for", where(entry),
                entry.tensor.bytes, first + out.size());
  std::vector<std::byte> row(static_cast<std::size_t>(entry.row_bytes));
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t at = first + done, inside = at % entry.row_bytes;
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(entry.row_bytes - inside, out.size() - done));
    read_rows(entry, static_cast<std::int64_t>(at / entry.row_bytes), 1, row.data());
    std::memcpy(out.data() + done, row.data() + inside, n);
    done += n;
  }
}

void GgufCheckpoint::read_floats(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count,
                                 float* out) const {
  const Entry& entry = *by_name_.at(tensor->name);
  const ggml::BlockType& type = *entry.stored->type;
  if (!type.refused_because.empty())
    throw Error("{}: the type {} is not supported: {}", where(entry), type.name, type.refused_because);
  const std::int64_t most = std::max<std::int64_t>(1, kSlab / static_cast<std::int64_t>(entry.row_bytes));
  std::vector<std::byte> bytes;
  std::vector<float> values;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = first + done, row = at / entry.columns, inside = at % entry.columns;
    const std::int64_t rows = std::min(most, (inside + count - done + entry.columns - 1) / entry.columns);
    const std::int64_t n = std::min(rows * entry.columns - inside, count - done);
    bytes.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(entry.row_bytes));
    read_rows(entry, row, rows, bytes.data());
    if (inside == 0 && n == rows * entry.columns) {
      ggml::dequantize(type, bytes, out + done);
    } else {
      values.resize(static_cast<std::size_t>(rows * entry.columns));
      ggml::dequantize(type, bytes, values.data());
      std::copy_n(values.data() + inside, n, out + done);
    }
    if (entry.added != 0)
      for (std::int64_t i = 0; i < n; ++i) out[done + i] -= entry.added;
    done += n;
  }
}

}  // namespace assay
