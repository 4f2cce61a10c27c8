// A model's weights by name, whatever file format holds them: nothing above this folder knows of files'
// offsets. A new format is one more Checkpoint; weights that are stored quantized are read
// through quantized_weights.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/tensor/dtype.h"

namespace assay {

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  // "Q4_K" where the file keeps blocks of codes and scales: `dtype` is what reading gives then.
  std::string_view block_type = {};

  std::int64_t elements() const;
  std::string shape_text() const;  // "[768, 2304]"
  std::string type_name() const;   // "BF16", "Q4_K"
};

class Checkpoint;

// A tensor of a checkpoint, which must outlive it; or none, where find() knows no such name.
class CheckpointTensor {
 public:
  CheckpointTensor() = default;
  // `file`: the number, within the checkpoint, of the file that holds it.
  CheckpointTensor(const Checkpoint& checkpoint, const StoredTensor& tensor, std::size_t file)
      : checkpoint_(&checkpoint), tensor_(&tensor), file_(file) {}

  explicit operator bool() const { return tensor_ != nullptr; }
  const StoredTensor& operator*() const { return *tensor_; }
  const StoredTensor* operator->() const { return tensor_; }
  std::size_t file_number() const { return file_; }
  std::filesystem::path file() const;
  // "DIR/model.safetensors: tensor 'h.0.ln_1.weight'", for messages: as the file calls it.
  std::string where() const;
  std::string name_in_file() const;

  // Elements [first, first + count), widened from F32, F16 or BF16; throws Error for another type.
  void read_floats(std::int64_t first, std::int64_t count, float* out) const;
  // Bytes [first, first + out.size()), whatever the type. Both throw Error where the file ends first.
  void read_bytes(std::uint64_t first, std::span<std::byte> out) const;

 private:
  const Checkpoint* checkpoint_ = nullptr;
  const StoredTensor* tensor_ = nullptr;
  std::size_t file_ = 0;
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  virtual CheckpointTensor find(const std::string& name) const = 0;
  // By file, within a file by name.
  virtual std::vector<CheckpointTensor> tensors() const = 0;
  // In the order of their names.
  virtual std::vector<std::filesystem::path> files() const = 0;
  virtual std::uint64_t file_bytes() const = 0;  // the sum over all files
  // What is in the files and is not read, as clauses.
  virtual std::vector<std::string> warnings() const { return {}; }
  // What the files call a tensor of this name, whether it is there or missing: for messages.
  virtual std::string name_in_file(const std::string& name) const { return name; }
  // A clause on those of the tensors whose types cannot be read, with what to do; empty where there are none.
  virtual std::string unreadable_among(const std::vector<std::string>&) const { return {}; }

  // For a tensor of this checkpoint: what CheckpointTensor's functions of the same names do.
  virtual void read_floats(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count,
                           float* out) const = 0;
  virtual void read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                          std::span<std::byte> out) const = 0;
};

}  // namespace assay
