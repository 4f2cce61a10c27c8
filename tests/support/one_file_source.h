// A model in one file of a format that only tests know: the form that a reader of another format takes. Its
// keys are its own, its weights are mixed (one_file_checkpoint.h), and its tokenizer is a list of tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/source.h"
#include "assay/tensor/half.h"
#include "support/one_file_checkpoint.h"

namespace assay::test {

inline constexpr NameTable kOwnKeys[] = {{"architecture", "model_type"},
                                         {"token_count", "vocab_size"},
                                         {"context_length", "max_position_embeddings"},
                                         {"embedding_length", "hidden_size"},
                                         {"feed_forward_length", "intermediate_size"},
                                         {"block_count", "num_hidden_layers"},
                                         {"head_count", "num_attention_heads"},
                                         {"head_count_kv", "num_key_value_heads"},
                                         {"norm_epsilon", "rms_norm_eps"},
                                         {"rope_base", "rope_theta"},
                                         {"padding_token", "pad_token_id"}};

class OneFileWeights : public QuantizedWeights {
 public:
  explicit OneFileWeights(const OneFileCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  std::optional<WeightFormat> format_of(const std::string& weight) const override {
    const std::string kind = checkpoint_.kind_of(weight);
    if (kind == "k4") return formats::kQ4K;
    return kind == "g4" ? std::optional(formats::kInt4G32) : std::nullopt;
  }
  std::vector<std::string> names_beside(const StoredCodes&) const override { return {}; }
  void check(const StoredCodes& tensor) const override {
    const CheckpointTensor at = checkpoint_.find(tensor.name);
    if (at->shape != std::vector<std::int64_t>{tensor.rows, tensor.columns})
      throw Error("{}: expected shape [{}, {}], found {}", at.where(), tensor.rows, tensor.columns,
                  at->shape_text());
  }
  void read_codes(const StoredCodes& tensor, std::int64_t first_row, std::int64_t row_count,
                  std::uint8_t* out) const override {
    const auto packed =
        numbers<std::uint8_t>(tensor, first_row * tensor.columns / 2, row_count * tensor.columns / 2);
    for (std::size_t i = 0; i < packed.size(); ++i) {
      out[2 * i] = packed[i] & 15;
      out[2 * i + 1] = packed[i] >> 4;
    }
  }
  std::vector<float> read_scales(const StoredCodes& tensor) const override {
    return scales_of_groups(tensor);
  }
  // Scales and minima of 6 bits, then the factors of each 256 inputs; a minimum is subtracted.
  SuperBlocks read_super_blocks(const StoredCodes& tensor) const override {
    const std::int64_t n = groups(tensor), first = codes(tensor);
    return {numbers<std::uint8_t>(tensor, first, n), numbers<std::uint8_t>(tensor, first + n, n),
            numbers<std::uint16_t>(tensor, first + 2 * n, n / 8),
            numbers<std::uint16_t>(tensor, first + 2 * n + n / 4, n / 8)};
  }
  std::vector<float> read_offsets(const StoredCodes& tensor) const override {
    std::vector<float> offsets = scales_of_groups(tensor);
    const auto zeros = numbers<std::uint8_t>(tensor, codes(tensor) + groups(tensor) * 2, groups(tensor));
    for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] *= -static_cast<float>(zeros[i]);
    return offsets;
  }
  std::vector<std::int32_t> read_input_groups(const StoredCodes& tensor) const override {
    return numbers<std::int32_t>(tensor, codes(tensor) + groups(tensor) * 3, tensor.columns);
  }

 private:
  static std::int64_t codes(const StoredCodes& tensor) { return tensor.elements() / 2; }  // bytes
  static std::int64_t groups(const StoredCodes& tensor) { return tensor.elements() / 32; }
  template <typename T>
  std::vector<T> numbers(const StoredCodes& tensor, std::int64_t first_byte, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    checkpoint_.find(tensor.name)
        .read_bytes(static_cast<std::uint64_t>(first_byte), std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<float> scales_of_groups(const StoredCodes& tensor) const {
    std::vector<float> scales;
    for (const std::uint16_t half : numbers<std::uint16_t>(tensor, codes(tensor), groups(tensor)))
      scales.push_back(f16_to_float(half));
    return scales;
  }
  const OneFileCheckpoint& checkpoint_;
};

class OneFileSource : public ModelSource {
 public:
  explicit OneFileSource(const std::filesystem::path& path) : path_(path), checkpoint_(path) {
    const Json& model = checkpoint_.header().at("model");
    for (const auto& [own, theirs] : kOwnKeys)
      if (model.contains(own)) config_[theirs] = model.at(own);
    config_["tie_word_embeddings"] = !checkpoint_.find("lm_head.weight");
    if (model.contains("end_token")) generation_config_["eos_token_id"] = model.at("end_token");
  }
  const std::filesystem::path& path() const override { return path_; }
  JsonView config() const override { return {config_, path_.string()}; }
  JsonView generation_config() const override { return {generation_config_, path_.string()}; }
  const Checkpoint& checkpoint() const override { return checkpoint_; }
  std::unique_ptr<const QuantizedWeights> quantized_weights() const override {
    return std::make_unique<OneFileWeights>(checkpoint_);
  }
  bool has_tokenizer() const override { return checkpoint_.header().contains("tokens"); }
  TokenizerFiles tokenizer_files() const override {
    const std::string where = path_.string();
    if (!has_tokenizer()) throw Error("{}: expected tokens, found none", where);
    const Json& tokens = checkpoint_.header().at("tokens");
    Json vocabulary = Json::object();
    for (std::size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i].get<std::string>()] = i;
    const Json bytes = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    const Json model = {
        {"type", "BPE"}, {"vocab", vocabulary}, {"merges", checkpoint_.header().at("merges")}};
    TokenizerFiles files{.where = where, .source = "tokens of " + path_.filename().string()};
    files.tokenizer = {
        {{"added_tokens", Json::array()}, {"pre_tokenizer", bytes}, {"decoder", bytes}, {"model", model}},
        where};
    files.config = {{{"eos_token", tokens.back()}}, where};
    return files;
  }

 private:
  std::filesystem::path path_;
  OneFileCheckpoint checkpoint_;
  Json config_ = Json::object(), generation_config_ = Json::object();
};

}  // namespace assay::test
