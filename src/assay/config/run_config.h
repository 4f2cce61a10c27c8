// How a model is loaded and run: the one configuration that experiments, worker processes, files and the
// command line share. The field table (config/fields.h) knows what each field is called, allows and applies
// to.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/cpu.h"
#include "assay/base/device.h"
#include "assay/base/text_file.h"
#include "assay/quant/precision.h"
#include "assay/tensor/dtype.h"

namespace assay {

// How greedy decoding finds the highest logit: `full` computes all of them; `int8` searches an int8 copy of
// the LM head and scores exactly only the candidates that a bound cannot exclude. Both give the same token.
enum class LmHeadSearch { full, int8 };

// The format in which 4-bit weights, and GGUF's block types, multiply their activations. `as_dtype`: the
// dtype, but with bfloat16 one or two tokens are multiplied as int8 by 4-bit weights. `int8`: always, with a
// scale per token and group of activations.
enum class Activations { as_dtype, int8 };

struct RunConfig {
  // Which of several models of a run, by the name that labels give it; unset: the only one.
  std::optional<std::string> model = {};

  // Numbers. Unset: float32, or what a checkpoint that is quantized already holds.
  std::optional<Preset> precision = {};
  std::optional<Recipe> recipe = {};  // in place of a precision: a format for each module
  // Of everything that is not quantized; unset: float32, on a GPU float16.
  std::optional<DType> dtype = {};
  std::optional<WeightFormat> quantize_head = {};    // one of lm_head_formats(); unset: `dtype`
  std::optional<double> llm_int8_threshold = {};     // 0 (no outliers) to 1e6; unset: 6
  std::optional<InputScale> input_scale = {};        // per_token or per_tensor; unset: per_token
  std::optional<Activations> activations = {};       // for 4-bit weights; unset: as `dtype`
  std::optional<Calibrator> calibrator = {};         // unset: percentile
  std::optional<double> smooth_quant = {};           // SmoothQuant's alpha, 0 to 1; unset: none
  std::optional<std::string> calibration = {};       // a text file; unset: the one that ships
  std::vector<std::string> include = {};             // modules to quantize (quant/selection.h); empty: all
  std::vector<std::string> exclude = {};             // and to leave as they are
  std::optional<KvFormat> kv_cache = {};             // unset: the type that the precision computes in
  bool allow_non_finite = false;                     // quantize NaN and infinity as 0; else they are an error
  std::optional<Float32Matmul> float32_matmul = {};  // unset: float32
  LmHeadSearch lm_head_search = LmHeadSearch::full;
  Newlines newlines = Newlines::universal;  // in texts to score or calibrate on, and in prompts
  bool is_dequantized = false;              // labels say so: weights are made of a quantized checkpoint's

  // The machine.
  std::optional<Isa> isa = {};         // kernels of this tier; unset: the best that runs here
  std::optional<Device> device = {};   // unset: the processor
  CudaGemm cuda_gemm = CudaGemm::own;  // for products of many rows on a GPU
  Tune tune = Tune::once;              // for constants that change speed alone
  std::optional<int> threads = {};     // 1 to 1024; unset: default_thread_count()
  std::vector<int> cpu_mask = {};      // processors to run on, ascending; empty: all this process may use
  int replica = 0;                     // tells sessions of an A/A run apart, which are equal in all else

  bool operator==(const RunConfig&) const = default;
  // "nf4+head:int8, dtype bfloat16, 1 thread": what rows call it; of several models "gpt2: nf4". What is not
  // set is not named.
  std::string label() const;
  // The part of the label behind the precision that says how results are computed: "+head:int8, dtype
  // bfloat16".
  std::string label_of_numbers() const;
  // Equal for equal configurations and for no others: every field that is set, with its value.
  std::string key() const;
  ModuleSelection modules() const { return {include, exclude}; }
};

// `text` is a precision; with the LM head quantized too "nf4+head" (in the same format where LM heads have
// it, else int8) or "nf4+head:int8", with int8 activations "nf4+activations:int8" or
// "nf4+head+activations:int8"; or "auto" or "stored", which leave it unset, or "stored+activations:int8"; or
// "recipe:FILE"; then "@" and a device: "nf4@cuda:0". "float32+replica:1" is equal to float32 in all but
// name, for A/A runs. Everything else is as in `common`, less what does not apply to the precision. Throws
// FieldError.
RunConfig run_config_from_text(std::string_view text, const RunConfig& common = {});

// The same for a model that is loaded at once: a plain precision keeps every field of `common`, and loading
// says which of them does not go with it.
RunConfig run_config_to_load(std::string_view text, const RunConfig& common);

// Throws FieldError for a field that `common` sets and none of the configurations made of it has.
void require_used(const RunConfig& common, std::span<const RunConfig> made);

// Throws FieldError for a value that is out of its range.
void check_values(const RunConfig& config);

// Changes the precision as the fields say that are about numbers. Throws FieldError for one that does not
// apply to it.
void apply_to(Precision& precision, const RunConfig& config);

}  // namespace assay
