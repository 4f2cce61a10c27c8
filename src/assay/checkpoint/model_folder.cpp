#include "assay/checkpoint/model_folder.h"

#include <algorithm>
#include <map>
#include <set>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/base/sha256.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// Indexes of 10,000 tensors take 1 MB; a file may be padded with blanks to any size.
Json read_configuration(const fs::path& path) {
  constexpr std::uint64_t kLargest = std::uint64_t{16} << 20;
  constexpr std::size_t kMaxValues = 1'000'000;
  return read_json_object(path, kLargest, kMaxValues);
}

}  // namespace

ModelFolder::ModelFolder(const fs::path& folder) : path_(folder) {
  if (!fs::is_directory(folder)) throw Error("{}: no such model folder", folder.string());
  if (!fs::exists(folder / "config.json")) throw Error("{}: config.json is missing", folder.string());
  config_ = std::make_shared<const Json>(read_configuration(folder / "config.json"));
  const fs::path generation = folder / "generation_config.json";
  generation_config_ =
      std::make_shared<const Json>(fs::exists(generation) ? read_configuration(generation) : Json::object());
  const fs::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (fs::exists(single))
    files_.push_back(std::make_unique<SafetensorsFile>(single));
  else if (fs::exists(index))
    open_shards(index);
  else if (fs::exists(folder / "pytorch_model.bin"))
    throw Error(
        "{}: only pytorch_model.bin found; expected model.safetensors (save it again with "
        "safe_serialization=True)",
        folder.string());
  else
    throw Error("{}: neither model.safetensors nor model.safetensors.index.json found", folder.string());
}

void ModelFolder::open_shards(const fs::path& index_path) {
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
  for (const auto& [name, tensors] : tensors_of) {
    const fs::path path = path_ / name;
    if (!fs::exists(path))
      throw Error("{}: the shard '{}' does not exist", index_path.string(), printable(name));
    auto file = std::make_unique<SafetensorsFile>(path);
    for (const std::string& tensor : tensors)
      if (file->find(tensor) == nullptr)
        throw Error("{}: tensor '{}' is not in the shard '{}'", index_path.string(), printable(tensor),
                    printable(name));
    for (const StoredTensor& tensor : file->tensors())
      if (!seen.insert(tensor.name).second)
        throw Error("{}: tensor '{}' is in two shards", index_path.string(), printable(tensor.name));
    if (seen.size() > kMaxTensors)
      throw Error("{}: expected at most {} tensors in all shards, found more", index_path.string(),
                  kMaxTensors);
    files_.push_back(std::move(file));
  }
}

ModelFolder::Location ModelFolder::find(const std::string& name) const {
  for (const auto& file : files_)
    if (const StoredTensor* tensor = file->find(name)) return {file.get(), tensor};
  return {};
}

std::vector<ModelFolder::Location> ModelFolder::all() const {
  std::vector<Location> locations;
  for (const auto& file : files_)
    for (const StoredTensor& tensor : file->tensors()) locations.push_back({file.get(), &tensor});
  return locations;
}

std::uint64_t ModelFolder::weight_file_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& file : files_) bytes += file->size();
  return bytes;
}

std::string ModelFolder::content_hash() const {
  Sha256 hash;
  const auto add = [&](const fs::path& path) {
    const ReadFile file(path);
    std::vector<std::byte> slab(std::size_t{4} << 20);
    for (std::uint64_t offset = 0; offset < file.size();) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(slab.size(), file.size() - offset));
      file.read_exactly(offset, std::span(slab.data(), n));
      hash.update(std::span<const std::byte>(slab.data(), n));
      offset += n;
    }
  };
  add(path_ / "config.json");
  for (const auto& file : files_) add(file->path());  // a map ordered them by name
  return hash.hex();
}

}  // namespace assay
