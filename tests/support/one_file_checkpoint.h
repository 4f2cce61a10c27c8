// The tensors of a file of a format that only tests know: names of its own, float32 and two kinds of 4-bit
// codes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/base/file.h"
#include "assay/base/json.h"
#include "assay/checkpoint/checkpoint.h"

namespace assay::test {

using NameTable = std::pair<const char*, const char*>;  // its own, and Transformers'

// "#" stands for the number of a block.
inline constexpr NameTable kOwnNames[] = {{"token_embd", "model.embed_tokens"},
                                          {"output_norm", "model.norm"},
                                          {"output", "lm_head"},
                                          {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
                                          {"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
                                          {"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
                                          {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
                                          {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"},
                                          {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
                                          {"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
                                          {"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
                                          {"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};

// "model.layers.3.mlp.up_proj.weight" of "blk.3.ffn_up.weight"; a name that the table has not stays as it is.
inline std::string transformers_name(std::string name) {
  const std::string_view suffix = ".weight";
  if (!name.ends_with(suffix)) return name;
  name.resize(name.size() - suffix.size());
  std::string number;
  if (name.starts_with("blk.")) {
    number = name.substr(4, name.find('.', 4) - 4);
    name.replace(4, number.size(), "#");
  }
  for (const auto& [own, theirs] : kOwnNames)
    if (name == own) name = theirs;
  if (const auto at = name.find('#'); at != std::string::npos) name.replace(at, 1, number);
  return name + std::string(suffix);
}

// Kinds of tensors: "f32"; "k4" and "g4", of which the file holds one after another
//   k4  codes, two in a byte, the low half first; a byte for the scale and one for the minimum of each 32
//   inputs, 0 to
//       63; float16 factors of both for each 256 inputs
//   g4  codes in the same form; a float16 scale and a byte, the zero point, for each group; an int32 for each
//   input,
//       its group
inline std::uint64_t bytes_of_kind(const std::string& kind, std::uint64_t rows, std::uint64_t columns) {
  if (kind == "k4") return rows * (columns / 2 + columns / 32 * 2 + columns / 256 * 4);
  if (kind == "g4") return rows * (columns / 2 + columns / 32 * 3) + columns * 4;
  return rows * columns * 4;
}

// The file: the length of a header, 8 bytes; the header, JSON; the tensors.
class OneFileCheckpoint : public Checkpoint {
 public:
  explicit OneFileCheckpoint(const std::filesystem::path& path) : file_(path) {
    std::uint64_t length = 0;
    file_.read_exactly(0, std::as_writable_bytes(std::span(&length, 1)));
    std::string text(static_cast<std::size_t>(length), ' ');
    file_.read_exactly(8, std::as_writable_bytes(std::span(text)));
    header_ = parse_json_object(text, path.string());
    std::uint64_t offset = 8 + length;
    for (const Json& each : header_.at("tensors")) {
      const auto kind = each.at("kind").get<std::string>();
      const auto shape = each.at("shape").get<std::vector<std::int64_t>>();
      std::uint64_t elements = 1;
      for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
      const auto columns = static_cast<std::uint64_t>(shape.back());
      const std::uint64_t bytes = bytes_of_kind(kind, elements / columns, columns);
      tensors_.push_back({transformers_name(each.at("name").get<std::string>()),
                          kind == "f32" ? DType::f32 : DType::u8, shape, bytes});
      places_[tensors_.back().name] = {kind, offset};
      offset += bytes;
    }
  }
  const Json& header() const { return header_; }
  std::string kind_of(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? "" : found->second.first;
  }

  CheckpointTensor find(const std::string& name) const override {
    for (const StoredTensor& tensor : tensors_)
      if (tensor.name == name) return {*this, tensor, 0};
    return {};
  }
  std::vector<CheckpointTensor> tensors() const override {
    std::vector<CheckpointTensor> all;
    for (const StoredTensor& tensor : tensors_) all.emplace_back(*this, tensor, 0);
    return all;
  }
  std::vector<std::filesystem::path> files() const override { return {file_.path()}; }
  std::uint64_t file_bytes() const override { return file_.size(); }
  void read_floats(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count,
                   float* out) const override {
    read_bytes(tensor, static_cast<std::uint64_t>(4 * first),
               std::as_writable_bytes(std::span(out, static_cast<std::size_t>(count))));
  }
  void read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                  std::span<std::byte> out) const override {
    file_.read_exactly(places_.at(tensor->name).second + first, out);
  }

 private:
  ReadFile file_;
  Json header_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::pair<std::string, std::uint64_t>> places_;  // kind, and where it begins
};

}  // namespace assay::test
