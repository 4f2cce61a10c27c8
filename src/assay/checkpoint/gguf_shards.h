// A model in one GGUF file, or in several that belong together: NAME-00001-of-0000N.gguf.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/checkpoint/gguf_file.h"

namespace assay {

class GgufShards {
 public:
  // Any of the files names all of them. Throws Error naming the file, key or tensor where one is missing or
  // says that it belongs elsewhere, and where a tensor is in two of them.
  explicit GgufShards(const std::filesystem::path& any);
  // One file that is the whole model, whatever its name says.
  explicit GgufShards(std::unique_ptr<const GgufFile> whole);

  // The file whose metadata is the model's.
  const GgufFile& first() const { return *files_.front(); }
  const std::vector<std::unique_ptr<const GgufFile>>& files() const { return files_; }

  struct Place {
    std::size_t file = 0;
    const GgufTensor* tensor = nullptr;  // null: there is none
    explicit operator bool() const { return tensor != nullptr; }
  };
  Place find(std::string_view name) const;
  bool has(std::string_view name) const { return static_cast<bool>(find(name)); }
  // The elements of a small tensor of plain numbers, such as factors of rotary frequencies.
  std::vector<float> read_floats(const Place& place) const;

 private:
  void add(std::unique_ptr<const GgufFile> file, int number, int count);
  std::vector<std::unique_ptr<const GgufFile>> files_;
  std::set<std::string_view> names_;  // tensors' names in them
};

// "x-00002-of-00003.gguf" is the name before the numbers, the shard's number from 1, and how many there are;
// another name is all of it, 1 and 1.
struct GgufShardName {
  std::string_view stem;
  int number = 1, count = 1;
};
GgufShardName gguf_shard_name(std::string_view file_name);

}  // namespace assay
