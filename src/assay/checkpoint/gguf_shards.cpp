#include "assay/checkpoint/gguf_shards.h"

#include <charconv>

#include "assay/base/error.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::size_t kDigits = 5;

bool read_shard_number(std::string_view digits, int& out) {
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return code == std::errc() && end == digits.data() + digits.size();
}

void check_split(const GgufFile& file, int number, int count) {
  const auto expect = [&](std::string_view key, std::int64_t expected) {
    const auto found = file.integer(key);
    if (found.value_or(expected) != expected)
      throw Error("{}: key '{}': expected {}, as the file's name says, found {}", file.where(), key, expected,
                  *found);
  };
  const std::int64_t shards = file.integer("split.count").value_or(count);
  // A file that was joined of several may still count them as none or one.
  if (shards != count && !(count == 1 && shards <= 1))
    throw Error("{}: key 'split.count': expected a file name that ends with -{:05}-of-{:05}{}, found '{}'",
                file.where(), file.integer("split.no").value_or(0) + 1, shards, kEnding,
                printable(file.path().filename().string()));
  expect("split.no", number - 1);
}

}  // namespace

GgufShardName gguf_shard_name(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits;  // "-00001-of-00003"
  GgufShardName whole{name};
  if (!name.ends_with(kEnding)) return whole;
  const std::string_view stem = name.substr(0, name.size() - kEnding.size());
  whole.stem = stem;
  if (stem.size() <= kTail) return whole;
  const std::string_view tail = stem.substr(stem.size() - kTail);
  GgufShardName shard{stem.substr(0, stem.size() - kTail)};
  const bool is_one = tail[0] == '-' && tail.substr(1 + kDigits, kOf.size()) == kOf &&
                      read_shard_number(tail.substr(1, kDigits), shard.number) &&
                      read_shard_number(tail.substr(kTail - kDigits), shard.count) && shard.number >= 1 &&
                      shard.number <= shard.count;
  return is_one ? shard : whole;
}

GgufShards::GgufShards(const fs::path& any) {
  const std::string name = any.filename().string();
  const GgufShardName shard = gguf_shard_name(name);
  for (int number = 1; number <= shard.count; ++number) {
    const fs::path path = shard.count == 1
                              ? any
                              : any.parent_path() / fmt::format("{}-{:05}-of-{:05}{}", shard.stem, number,
                                                                shard.count, kEnding);
    if (!fs::exists(path))
      throw Error("{}: the shard '{}' is missing beside it", any.string(),
                  printable(path.filename().string()));
    add(std::make_unique<const GgufFile>(path), number, shard.count);
  }
  const auto total = first().integer("split.tensors.count");
  if (shard.count > 1 && total && *total != static_cast<std::int64_t>(names_.size()))
    throw Error("{}: key 'split.tensors.count': expected {}, as all shards have, found {}", first().where(),
                names_.size(), *total);
}

GgufShards::GgufShards(std::unique_ptr<const GgufFile> whole) {
  add(std::move(whole), 1, 1);
}

void GgufShards::add(std::unique_ptr<const GgufFile> file, int number, int count) {
  check_split(*file, number, count);
  for (const GgufTensor& tensor : file->tensors())
    if (!names_.insert(tensor.name).second)
      throw Error("{}: tensor '{}' is in two shards", file->where(), printable(tensor.name));
  files_.push_back(std::move(file));
}

GgufShards::Place GgufShards::find(std::string_view name) const {
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (const GgufTensor* tensor = files_[i]->find(name)) return {i, tensor};
  return {};
}

std::vector<float> GgufShards::read_floats(const Place& place) const {
  constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;
  const GgufTensor& tensor = *place.tensor;
  const GgufFile& file = *files_[place.file];
  if (tensor.bytes > kSmall || tensor.type->elements != 1 || !tensor.type->refused_because.empty())
    throw Error("{}: tensor '{}': expected at most {} bytes of plain numbers, found {} of {}", file.where(),
                printable(tensor.name), kSmall, tensor.bytes, tensor.type->name);
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes));
  file.read(tensor, 0, bytes);
  std::vector<float> values(static_cast<std::size_t>(tensor.columns() * tensor.rows()));
  ggml::dequantize(*tensor.type, bytes, values.data());
  return values;
}

}  // namespace assay
