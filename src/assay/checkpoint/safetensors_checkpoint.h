// A checkpoint of one safetensors file, or of the shards that an index names.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "assay/checkpoint/checkpoint.h"
#include "assay/checkpoint/safetensors.h"

namespace assay {

class SafetensorsCheckpoint : public Checkpoint {
 public:
  // Each opens files and reads their headers; throws Error naming the file and what is wrong with it.
  static std::unique_ptr<const Checkpoint> open_file(const std::filesystem::path& file);
  static std::unique_ptr<const Checkpoint> of_file(SafetensorsFile file);  // one that is open already
  // `index`: model.safetensors.index.json, whose weight_map names shards beside it. Of a tensor that is in
  // several, the one that the map names is read, with a warning. A tensor that is not where the map says, or
  // that it does not name and two shards hold, is an Error.
  static std::unique_ptr<const Checkpoint> open_shards(const std::filesystem::path& index);

  CheckpointTensor find(const std::string& name) const override;
  std::vector<CheckpointTensor> tensors() const override;
  std::vector<std::filesystem::path> files() const override;
  std::uint64_t file_bytes() const override;
  void read_floats(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count,
                   float* out) const override;
  void read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                  std::span<std::byte> out) const override;

  std::vector<std::string> warnings() const override { return warnings_; }

 private:
  bool is_hidden(std::size_t file, const std::string& name) const {
    return file < hidden_.size() && hidden_[file].contains(name);
  }

  std::vector<SafetensorsFile> files_;
  std::vector<std::set<std::string>> hidden_;  // by file: what is read from another
  std::vector<std::string> warnings_;
};

}  // namespace assay
