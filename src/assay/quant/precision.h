// What a model's numbers are stored and computed in: one struct, of which the names users type are presets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/units.h"
#include "assay/quant/arithmetic.h"
#include "assay/quant/calibration.h"
#include "assay/quant/format.h"
#include "assay/quant/recipe.h"
#include "assay/quant/selection.h"
#include "assay/tensor/dtype.h"

namespace assay {

// How keys and values are kept. int8: codes of -127 to 127, with a scale for the key and one for the value of
// each head at each position, so that neither neighbours nor the length of the text change them.
enum class KvFormat { float32, bfloat16, int8, float16 };  // float16 on GPUs alone
std::string_view name_of(KvFormat format);
// A key, or a value, of one head at one position, with its scale.
constexpr std::int64_t kv_bytes(KvFormat format, std::int64_t head_dim) {
  return format == KvFormat::int8 ? head_dim + 4 : head_dim * (format == KvFormat::float32 ? 4 : 2);
}

// Where int8 activations get their scale and zero point from.
//   per_token   each token's own range
//   per_tensor  the range of all tokens of all sequences that are computed together: ONNX Runtime's dynamic
//               scheme (DynamicQuantizeLinear), whose results depend on what else is in the batch
//   calibrated  a text beforehand: ONNX Runtime's static scheme
// A quantized LM head has a scale per token in each.
enum class InputScale { per_token, per_tensor, calibrated };

// The precisions that users name.
enum class Preset {
  float32,
  float16,
  bfloat16,
  int8_dynamic,
  int8_static,
  llm_int8,
  nf4,
  fp4,
  nf4_dq,
  fp4_dq,
  int4_g128,
  // Block types of GGUF.
  q8_0,
  q6_k,
  q5_k,
  q5_0,
  q4_k,
  q4_0,
  iq4_nl,
  q3_k,
  q2_k
};
std::string_view name_of(Preset preset);  // "int8-dynamic"
// By its name or an alias, any case. Throws FieldError with the list and the nearest name.
Preset preset_from_name(std::string_view text);

// How float32 weights are multiplied: as they are, as sums of 3 or 6 products of bfloat16 parts (CPUs), or in
// TF32 (GPUs).
enum class Float32Matmul { float32, bf16x3, bf16x6, tf32 };

struct Precision {
  std::string name;  // a preset's: "nf4"; of a checkpoint "nf4 (as stored)"; of a recipe its label
  WeightFormat weights = formats::kFloat32;  // matrices of the blocks, but for what follows
  std::optional<Recipe> recipe = {};         // where its rules decide about the matrices of the blocks
  // Of a checkpoint that is quantized: modules that it holds in another format.
  std::map<std::string, WeightFormat, std::less<>> stored_formats = {};
  WeightFormat lm_head = formats::kFloat32;  // the embedding too where they are tied
  // Of everything else: embeddings, positions and modules that are not quantized, but `stored_tables`. Norms
  // and biases stay float32.
  WeightFormat dtype = formats::kFloat32;
  Float32Matmul float32_matmul = Float32Matmul::float32;  // for matrices in float32
  KvFormat kv_cache = KvFormat::float32;
  // As Transformers counts a footprint: of what is not quantized.
  std::int64_t bytes_per_parameter = 4;
  float outlier_threshold = 6;     // for llm_int8; 0 = no outlier columns
  ModuleSelection modules;         // those of the blocks that are quantized
  bool allows_non_finite = false;  // NaN and infinity are quantized as 0; else they are an error
  // Matrices whose inputs are no whole number of GGUF's blocks get the type that llama.cpp falls back to, or
  // dtype; else they are an error.
  bool has_fallbacks = false;

  InputScale input_scale = InputScale::per_token;  // that int8 activations have
  Calibrator calibrator = Calibrator::percentile;  // that calibrated ones are found by
  // Activations beside 4-bit weights and GGUF's block types are int8, with a scale per token and group of
  // inputs.
  bool has_int8_activations = false;
  double smooth_quant = -1;  // SmoothQuant's alpha, of int8 weights; negative: none
  bool needs_calibration() const { return input_scale == InputScale::calibrated || smooth_quant >= 0; }

  // Where a checkpoint is quantized: its codes are taken as they are.
  bool is_stored = false, is_lm_head_stored = false;
  std::vector<std::string> skipped_modules;  // that it keeps unquantized
  // Its tables (embeddings of tokens and of positions) that it holds in codes, but a tied embedding, by
  // tensor.
  std::map<std::string, WeightFormat, std::less<>> stored_tables = {};
  // Greedy decoding looks for the highest logit in an int8 copy of the LM head first, and scores exactly only
  // the candidates that a bound leaves.
  bool has_candidate_search = false;

  // The formats that matrices of the blocks may have, each once; that of most first.
  std::vector<WeightFormat> formats() const;
  // Whether one of them is such.
  bool has_any(const std::function<bool(const WeightFormat&)>& is_such) const;
  bool has_any(const WeightFormat& format) const;
  bool is_quantized() const;
  // Why a module of the blocks is not quantized by a quantized precision; none where it is.
  std::optional<std::string_view> why_not_quantized(std::string_view module) const;
  // The format of a module's matrix; with so many inputs, what it falls back to.
  WeightFormat format_of(std::string_view module) const;
  WeightFormat format_of(std::string_view module, std::int64_t inputs) const;
  // What a matrix of the blocks in this format is multiplied in.
  MatmulArithmetic arithmetic_of(const WeightFormat& format) const;
  // The same of the LM head, whose int8 activations have a scale per token.
  MatmulArithmetic lm_head_arithmetic() const;
};

// Stands for float32, or for what a checkpoint that is quantized already holds.
inline constexpr std::string_view kAutoPrecision = "auto";
// In a list: what a model that is quantized already holds. Other models have no such precision.
inline constexpr std::string_view kStoredPrecision = "stored";

// Presets are recipes without rules, which settings of theirs may go with (int8-static: calibrated).
Recipe recipe_of(Preset preset);
Precision precision_of(const Recipe& recipe);
Precision precision_of(Preset preset);
// The preset of a name, as preset_from_name() reads it.
Precision precision_from_name(std::string_view text);
std::vector<std::string> precision_names();
// That of a quantized format: "nf4-dq"; of one without a preset, what it is made of. Throws Error for others.
Precision precision_of(const WeightFormat& quantized);

// What of a precision can be changed, and the change. Each set_ function throws FieldError where the
// precision does not take it or the value is out of range.
bool takes_recipe(const Precision& precision);  // one that a recipe made
bool takes_dtype(const Precision& precision);   // a quantized one: so do quantize_head and the modules
bool takes_outlier_threshold(const Precision& precision);  // llm-int8
bool takes_input_scale(const Precision& precision);        // int8-dynamic
bool takes_activations(const Precision& precision);        // 4-bit weights, GGUF's block types
bool takes_calibrator(const Precision& precision);         // int8-static
bool takes_smoothing(const Precision& precision);          // int8-dynamic, int8-static
bool takes_float32_matmul(const Precision& precision);     // float32 weights
bool takes_lm_head_search(const Precision& precision);     // an LM head in float32 or bfloat16
bool takes_cuda_gemm(const Precision& precision);          // weights that are not int8
// What everything that is not quantized is kept in, and computed with: float32, bfloat16, or float16, which
// is computed as float32.
void set_dtype(Precision& precision, DType dtype);
void set_quantized_lm_head(Precision& precision, WeightFormat format);  // one of lm_head_formats()
// int8, nf4, fp4, and the block types of GGUF that weights are quantized to.
std::vector<WeightFormat> lm_head_formats();
void set_outlier_threshold(Precision& precision, double threshold);  // from 0 (no outliers) to 1e6
void set_modules(Precision& precision, ModuleSelection modules);
void set_allows_non_finite(Precision& precision);
void set_input_scale(Precision& precision, InputScale scale);  // per_token or per_tensor
void set_int8_activations(Precision& precision);
void set_calibrator(Precision& precision, Calibrator calibrator);
void set_smoothing(Precision& precision, double alpha);  // from 0 to 1
void set_float32_matmul(Precision& precision, Float32Matmul how);
void set_lm_head_search(Precision& precision);  // after what else changes the LM head
// Throws FieldError where no product of the blocks could be the library's.
void require_cuda_gemm(const Precision& precision);
// For devices that multiply float16, which others compute as float32: everything that is not quantized
// becomes float16, and so do keys and values in float32. After what else changes the precision.
void use_float16(Precision& precision);

}  // namespace assay
