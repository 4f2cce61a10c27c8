#include "assay/checkpoint/safetensors_checkpoint.h"

#include <map>
#include <set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/checkpoint/configuration_file.h"

namespace assay {

namespace fs = std::filesystem;

std::unique_ptr<const Checkpoint> SafetensorsCheckpoint::open_file(const fs::path& file) {
  return of_file(SafetensorsFile(file));
}

std::unique_ptr<const Checkpoint> SafetensorsCheckpoint::of_file(SafetensorsFile file) {
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>();
  checkpoint->files_.push_back(std::move(file));
  return checkpoint;
}

std::unique_ptr<const Checkpoint> SafetensorsCheckpoint::open_shards(const fs::path& index_path) {
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>();
  const Json index = read_configuration(index_path);
  const JsonView map = JsonView(index, index_path.string()).object("weight_map");
  std::map<std::string, std::set<std::string>> tensors_of;  // shard -> tensors it must hold
  for (const auto& [tensor, shard] : map.raw().items()) {
    if (!shard.is_string())
      throw Error("{}: '{}': expected the name of a shard", map.where(), printable(tensor));
    const auto name = shard.get<std::string>();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
      throw Error("{}: the shard '{}' of tensor '{}' is not a file name inside the folder", map.where(),
                  printable(name), printable(tensor));
    tensors_of[name].insert(tensor);
  }
  if (tensors_of.empty()) throw Error("{}: names no shard", map.where());
  std::set<std::string> seen;
  std::size_t overlaid = 0;
  std::string first_overlaid;
  for (const auto& [name, tensors] : tensors_of) {
    const fs::path path = index_path.parent_path() / name;
    if (!fs::exists(path))
      throw Error("{}: the shard '{}' does not exist", index_path.string(), printable(name));
    SafetensorsFile file(path);
    for (const std::string& tensor : tensors)
      if (file.find(tensor) == nullptr)
        throw Error("{}: tensor '{}' is not in the shard '{}'", index_path.string(), printable(tensor),
                    printable(name));
    std::set<std::string>& hidden = checkpoint->hidden_.emplace_back();
    for (const StoredTensor& tensor : file.tensors()) {
      // The index decides which file a tensor is read from, as in Transformers.
      const auto indexed = map.raw().find(tensor.name);
      if (indexed != map.raw().end() && *indexed != name) {
        hidden.insert(tensor.name);
        if (++overlaid == 1)
          first_overlaid = fmt::format("'{}' of '{}'", printable(tensor.name), printable(name));
      } else if (!seen.insert(tensor.name).second) {
        throw Error("{}: tensor '{}' is in two shards, and the index does not name it", index_path.string(),
                    printable(tensor.name));
      }
    }
    if (seen.size() > kMaxTensors)
      throw Error("{}: expected at most {} tensors in all shards, found more", index_path.string(),
                  kMaxTensors);
    checkpoint->files_.push_back(std::move(file));
  }
  if (overlaid > 0)
    checkpoint->warnings_.push_back(
        fmt::format("{}: {} of the shards {} not read, since the index gives the name to another shard: {}{}",
                    index_path.filename().string(), counted(static_cast<std::int64_t>(overlaid), "tensor"),
                    overlaid == 1 ? "is" : "are", first_overlaid, overlaid > 1 ? " and others" : ""));
  return checkpoint;
}

CheckpointTensor SafetensorsCheckpoint::find(const std::string& name) const {
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (const StoredTensor* tensor = files_[i].find(name); tensor != nullptr && !is_hidden(i, name))
      return {*this, *tensor, i};
  return {};
}

std::vector<CheckpointTensor> SafetensorsCheckpoint::tensors() const {
  std::vector<CheckpointTensor> all;
  for (std::size_t i = 0; i < files_.size(); ++i)
    for (const StoredTensor& tensor : files_[i].tensors())
      if (!is_hidden(i, tensor.name)) all.emplace_back(*this, tensor, i);
  return all;
}

std::vector<fs::path> SafetensorsCheckpoint::files() const {
  std::vector<fs::path> paths;
  for (const SafetensorsFile& file : files_) paths.push_back(file.path());
  return paths;
}

std::uint64_t SafetensorsCheckpoint::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const SafetensorsFile& file : files_) bytes += file.size();
  return bytes;
}

void SafetensorsCheckpoint::read_floats(const CheckpointTensor& tensor, std::int64_t first,
                                        std::int64_t count, float* out) const {
  files_[tensor.file_number()].read_floats(*tensor, first, count, out);
}

void SafetensorsCheckpoint::read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                                       std::span<std::byte> out) const {
  files_[tensor.file_number()].read_bytes(*tensor, first, out);
}

}  // namespace assay
