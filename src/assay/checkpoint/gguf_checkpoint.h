// The tensors of a GGUF model under the names of Transformers, with rows in the order that Transformers has
// them. A tensor may be some rows of one in the file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/checkpoint/checkpoint.h"
#include "assay/checkpoint/gguf_keys.h"

namespace assay {

// Where the rows of a tensor are among those of the file's. Of a vector, rows are its elements.
struct GgufRows {
  enum class Order {
    as_stored,
    rotary_pairs,  // rows i and i + half of a head stand side by side
    by_key_head,   // the file has all queries, all keys, all values; the tensor has them by key head
  };
  Order order = Order::as_stored;
  std::int64_t first = 0;  // in the file's tensor
  GgufHeads heads;

  std::int64_t stored(std::int64_t row) const;
  // Rows [n * unit, (n + 1) * unit) are as many rows of the file that follow each other, in whatever order.
  std::int64_t unit() const { return order == Order::as_stored ? 0 : heads.head_dim; }
};

class GgufCheckpoint : public Checkpoint {
 public:
  // `shards` must outlive it. Throws Error naming file and tensor where its size does not go with the keys.
  GgufCheckpoint(const GgufShards& shards, const GgufArchitecture& architecture);

  CheckpointTensor find(const std::string& name) const override;
  std::vector<CheckpointTensor> tensors() const override;
  std::vector<std::filesystem::path> files() const override;
  std::uint64_t file_bytes() const override;
  std::string name_in_file(const std::string& name) const override;
  std::string unreadable_among(const std::vector<std::string>& names) const override;
  // Blocks become the values that they stand for. Throws Error for a type that is not supported.
  void read_floats(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count,
                   float* out) const override;
  // As the file has them, row by row.
  void read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                  std::span<std::byte> out) const override;

  // The type of its blocks; null for no such tensor.
  const ggml::BlockType* type_of(const std::string& name) const;
  // Rows [first, first + count), as the file has them. Of a tensor that is there.
  void read_rows(const std::string& name, std::int64_t first, std::int64_t count, std::byte* out) const;

 private:
  struct Entry {
    StoredTensor tensor;
    std::size_t file = 0;
    const GgufTensor* stored = nullptr;
    GgufRows rows;
    std::int64_t columns = 1;  // in a row
    float added = 0;           // what the converter added to each element
    std::uint64_t row_bytes = 0;
  };
  void add(std::size_t file, const GgufTensor& stored);
  void add_qkv_parts(std::size_t file, const GgufTensor& stored);
  void add_heads(const std::string& pattern, std::size_t file, const GgufTensor& stored);
  void keep(Entry entry);
  Entry entry_of(std::string name, std::size_t file, const GgufTensor& stored) const;
  void set_order(Entry& entry, GgufChange change) const;
  void read_rows(const Entry& entry, std::int64_t first, std::int64_t count, std::byte* out) const;
  std::string where(const Entry& entry) const;

  const GgufShards& shards_;
  const GgufArchitecture& architecture_;
  GgufHeads heads_;
  std::vector<std::unique_ptr<const Entry>> entries_;  // by file, within a file by name
  std::map<std::string_view, const Entry*> by_name_;
};

}  // namespace assay
