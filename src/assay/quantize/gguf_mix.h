// Which type each tensor of a GGUF file gets: the mixes of llama.cpp's llama-quantize, and recipes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/checkpoint/gguf_names.h"
#include "assay/model/spec.h"
#include "assay/quant/ggml_blocks.h"
#include "assay/quant/recipe.h"

namespace assay {

// The names of mixes: "Q4_K_M".
std::vector<std::string> gguf_mixes();

class GgufMix {
 public:
  // `name` of a mix, any case; nothing for another one.
  static std::optional<GgufMix> named(std::string_view name);
  // Rules of a recipe over the modules' names in Transformers; matrices outside the blocks are float16 or the
  // recipe's lm_head, and norms and biases float32. Throws FieldError for a format that no GGUF type has, or
  // that none is quantized to.
  static GgufMix of(const Recipe& recipe);

  const std::string& label() const { return label_; }
  std::uint32_t file_type() const { return file_type_; }  // general.file_type
  // For a file that is written with an importance matrix: llama.cpp then gives some matrices a minimum.
  void expect_importance() { has_importance_ = true; }
  // Throws FieldError for a rule of a recipe that matches none of the modules.
  void check(const std::vector<std::string>& modules) const;
  // The type of a tensor, `own` being its name in the file and `module` that of its module. Rows whose length
  // is no whole number of blocks get another type in a named mix, as llama.cpp falls back; a recipe's are an
  // Error.
  const ggml::BlockType& type_of(const GgufArchitecture& architecture, const ModelSpec& spec,
                                 std::string_view own, std::string_view module,
                                 const std::vector<std::int64_t>& shape) const;

 private:
  std::string label_;
  std::uint32_t file_type_ = 0;
  std::string_view base_;       // a block type's name
  bool has_more_bits_ = false;  // for some tensors: mixes called M
  bool has_importance_ = false;
  std::optional<Recipe> recipe_;
};

}  // namespace assay
