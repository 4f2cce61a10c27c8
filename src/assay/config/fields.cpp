#include "assay/config/fields.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/config/field_codecs.h"
#include "assay/config/recipe_file.h"

namespace assay {

namespace {

using namespace field_codecs;

Codec<std::string> any_text() {
  return {"a text that is not empty",
          [](std::string_view text) {
            return text.empty() ? std::nullopt : std::optional<std::string>(std::string(text));
          },
          [](const std::string& text) { return text; },
          [](const std::string& text) { return !text.empty(); }};
}

// A file, or the recipe itself in JSON.
Codec<Recipe> recipe_codec() {
  return delegated<Recipe>(
      [](std::string_view text) {
        return text.starts_with("{") ? recipe_from_json({parse_ordered_json(text, "recipe"), "recipe"}, "")
                                     : read_recipe(std::string(text));
      },
      [](const Recipe& recipe) { return to_json(recipe).dump(); });
}

// "0x3" of processors 0 and 1.
std::string mask_of(const std::vector<int>& processors) {
  std::string digits;  // the lowest first
  for (const int processor : processors) {
    const auto digit = static_cast<std::size_t>(processor) / 4;
    if (digits.size() <= digit) digits.resize(digit + 1, 0);
    digits[digit] = static_cast<char>(digits[digit] | 1 << processor % 4);
  }
  std::reverse(digits.begin(), digits.end());
  for (char& digit : digits) digit = "0123456789abcdef"[static_cast<unsigned char>(digit)];
  return "0x" + digits;
}

// What weights are stored in: a precision or a recipe.
void add_formats(std::vector<Field>& all) {
  all.push_back(made(
      {.key = "precision",
       .help =
           "Precision: float32, bfloat16, float16, int8-dynamic, int8-static, llm-int8, nf4, fp4, nf4-dq, "
           "fp4-dq, int4-g128, or as GGUF q8_0 to q2_k [float32, or as stored]",
       .unset = "auto",
       .is_about_numbers = true},
      at(&RunConfig::precision),
      delegated<Preset>(preset_from_name, [](const Preset& p) { return std::string(name_of(p)); })));
  all.push_back(made(
      {.key = "recipe",
       .help = "File with a format for each module, in TOML or JSON, in place of a precision [none]",
       .kind = FieldKind::object,
       .is_about_numbers = true,
       .identity = [](const RunConfig& c) { return c.recipe->label(); },
       .applies = takes_recipe,
       .apply =
           [](Precision& p, const RunConfig&) {
             if (!p.recipe)
               throw FieldError("recipe", "it takes the place of a precision: expected one of them, found {}",
                                p.name);
           }},
      at(&RunConfig::recipe), recipe_codec()));
}

// Behind a precision as it is typed there.
std::string label_of_head(const RunConfig& c) {
  return fmt::format("{}{}", c.precision ? "+head:" : "lm_head ", recipe_name_of(*c.quantize_head));
}

Names<WeightFormat> names_of_head_formats() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> all;
    for (const WeightFormat& format : lm_head_formats()) all.push_back(recipe_name_of(format));
    return all;
  }();
  Names<WeightFormat> names;
  for (const std::string& text : texts) names.emplace_back(text, *weight_format_from_name(text));
  return names;
}

// What changes a precision.
void add_numbers(std::vector<Field>& all) {
  all.push_back(made<DType>(
      {.key = "dtype",
       .help = "Type of what a quantized precision does not quantize: float32, bfloat16 or (GPU) float16 "
               "[float32, on a GPU float16]",
       .is_about_numbers = true,
       .label = [](const RunConfig& c) { return fmt::format("dtype {}", name_of(*c.dtype)); },
       .applies = takes_dtype,
       .apply = [](Precision& p, const RunConfig& c) { set_dtype(p, *c.dtype); }},
      at(&RunConfig::dtype),
      choice<DType>({{"float32", DType::f32}, {"bfloat16", DType::bf16}, {"float16", DType::f16}})));
  all.push_back(made<WeightFormat>(
      {.key = "quantize_head",
       .help = "Format of the LM head in a quantized model: int8, nf4, fp4, or a block type of GGUF such as "
               "q6_k [not quantized, as in Transformers]",
       .is_about_numbers = true,
       .label = label_of_head,
       .applies = [](const Precision& p) { return p.is_quantized(); },
       .apply = [](Precision& p, const RunConfig& c) { set_quantized_lm_head(p, *c.quantize_head); }},
      at(&RunConfig::quantize_head), choice<WeightFormat>(names_of_head_formats())));
  all.push_back(made<double>(
      {.key = "llm_int8_threshold",
       .help = "Magnitude from which an activation of llm-int8 is an outlier; 0: no outliers [6]",
       .kind = FieldKind::real,
       .is_about_numbers = true,
       .label = [](const RunConfig& c) { return fmt::format("outlier threshold {}", *c.llm_int8_threshold); },
       .applies = takes_outlier_threshold,
       .apply = [](Precision& p, const RunConfig& c) { set_outlier_threshold(p, *c.llm_int8_threshold); }},
      at(&RunConfig::llm_int8_threshold), number<double>(0, 1e6, "0 (none) or more")));
  all.push_back(made<InputScale>(
      {.key = "input_scale",
       .help = "Scale of the activations of int8-dynamic: per-token, or per-tensor as in ONNX Runtime "
               "[per-token]",
       .is_about_numbers = true,
       .label =
           [](const RunConfig& c) {
             return std::string(*c.input_scale == InputScale::per_token ? "input scale per token"
                                                                        : "input scale per tensor");
           },
       .applies = takes_input_scale,
       .apply = [](Precision& p, const RunConfig& c) { set_input_scale(p, *c.input_scale); }},
      at(&RunConfig::input_scale),
      choice<InputScale>({{"per-token", InputScale::per_token}, {"per-tensor", InputScale::per_tensor}})));
  all.push_back(made<Activations>(
      {.key = "activations",
       .help = "Activations beside 4-bit weights and GGUF's block types: in the dtype (see --dtype), or int8 "
               "with a scale per token and group of 64 (GGUF: 32) [dtype]",
       .is_about_numbers = true,
       .label =
           [](const RunConfig& c) {
             return std::string(*c.activations == Activations::int8 ? "activations int8"
                                                                    : "activations as dtype");
           },
       .applies = takes_activations,
       .apply =
           [](Precision& p, const RunConfig& c) {
             if (*c.activations == Activations::int8) set_int8_activations(p);
           }},
      at(&RunConfig::activations),
      choice<Activations>({{"dtype", Activations::as_dtype}, {"int8", Activations::int8}})));
  all.push_back(made<Calibrator>(
      {.key = "calibrator",
       .help = "Method that calibrates the activation ranges of int8-static: percentile, minmax or entropy "
               "[percentile]",
       .is_about_numbers = true,
       .label = [](const RunConfig& c) { return fmt::format("{} calibration", name_of(*c.calibrator)); },
       .applies = takes_calibrator,
       .apply = [](Precision& p, const RunConfig& c) { set_calibrator(p, *c.calibrator); }},
      at(&RunConfig::calibrator),
      choice<Calibrator>({{"minmax", Calibrator::minmax},
                          {"percentile", Calibrator::percentile},
                          {"entropy", Calibrator::entropy}})));
  all.push_back(made<double>(
      {.key = "smooth_quant",
       .help = "SmoothQuant for int8-dynamic or int8-static, with alpha from 0 to 1 [off; 0.5 if alpha is "
               "not given]",
       .kind = FieldKind::real,
       .implied = "0.5",
       .is_about_numbers = true,
       .label = [](const RunConfig& c) { return fmt::format("SmoothQuant {}", *c.smooth_quant); },
       .applies = takes_smoothing,
       .apply = [](Precision& p, const RunConfig& c) { set_smoothing(p, *c.smooth_quant); }},
      at(&RunConfig::smooth_quant), number<double>(0, 1, "a number from 0 to 1")));
  all.push_back(made<std::string>(
      {.key = "calibration",
       .help =
           "Text file to calibrate int8-static or SmoothQuant on, not the scored text [the one that ships]",
       .label = [](const RunConfig& c) { return fmt::format("calibrated on {}", *c.calibration); },
       .applies = [](const Precision& p) { return p.needs_calibration(); },
       .apply =
           [](Precision& p, const RunConfig&) {
             if (!p.needs_calibration())
               throw FieldError("calibration",
                                "it applies to int8-static and SmoothQuant, and {} reads no text", p.name);
           }},
      at(&RunConfig::calibration), any_text()));
}

// Which weights are quantized, and how some products are computed.
void add_choices(std::vector<Field>& all) {
  const auto is_quantized = [](const Precision& p) { return p.is_quantized(); };
  const auto set_both = [](Precision& p, const RunConfig& c) { set_modules(p, c.modules()); };
  all.push_back(made_list(
      {.key = "include",
       .help = "Quantize only modules that match: a pattern of the whole name (\"*.mlp.*\") or a part of it "
               "(h.0.); repeat for more [all]",
       .is_about_numbers = true,
       .label = [](const RunConfig& c) { return fmt::format("only {}", fmt::join(c.include, " ")); },
       .applies = is_quantized,
       .apply = set_both},
      &RunConfig::include));
  all.push_back(made_list(
      {.key = "exclude",
       .help = "Leave modules that match unquantized; repeat for more [none]",
       .is_about_numbers = true,
       .label = [](const RunConfig& c) { return fmt::format("without {}", fmt::join(c.exclude, " ")); },
       .applies = is_quantized,
       .apply = set_both},
      &RunConfig::exclude));
  all.push_back(made<KvFormat>(
      {.key = "kv_cache",
       .help = "Format of the KV cache: float32, bfloat16 or int8 [the type that the precision computes in]",
       .is_about_numbers = true,
       .label = [](const RunConfig& c) { return fmt::format("KV cache {}", name_of(*c.kv_cache)); },
       .apply = [](Precision& p, const RunConfig& c) { p.kv_cache = *c.kv_cache; }},
      at(&RunConfig::kv_cache),
      choice<KvFormat>(
          {{"float32", KvFormat::float32}, {"bfloat16", KvFormat::bfloat16}, {"int8", KvFormat::int8}})));
  all.push_back(made<bool>({.key = "allow_non_finite",
                            .help = "Quantize NaN and infinity in the weights as 0 [report an error]",
                            .kind = FieldKind::on,
                            .label = [](const RunConfig&) { return std::string("NaN as 0"); },
                            .applies = is_quantized,
                            .apply = [](Precision& p, const RunConfig&) { set_allows_non_finite(p); }},
                           at(&RunConfig::allow_non_finite),
                           choice<bool>({{"true", true}, {"false", false}})));
  all.push_back(made<Float32Matmul>(
      {.key = "float32_matmul",
       .help = "Arithmetic of float32 weights: float32; bf16x3 or bf16x6, sums of 3 or 6 bfloat16 products "
               "(AMX, AVX-512 BF16); tf32 (GPU) [float32]",
       .is_about_numbers = true,
       .label =
           [](const RunConfig& c) {
             return *c.float32_matmul == Float32Matmul::float32  ? std::string("float32 matmul")
                    : *c.float32_matmul == Float32Matmul::bf16x3 ? std::string("bf16x3 matmul")
                    : *c.float32_matmul == Float32Matmul::bf16x6 ? std::string("bf16x6 matmul")
                                                                 : std::string("TF32 matmul");
           },
       .applies = takes_float32_matmul,
       .apply = [](Precision& p, const RunConfig& c) { set_float32_matmul(p, *c.float32_matmul); }},
      at(&RunConfig::float32_matmul),
      choice<Float32Matmul>({{"float32", Float32Matmul::float32},
                             {"bf16x3", Float32Matmul::bf16x3},
                             {"bf16x6", Float32Matmul::bf16x6},
                             {"tf32", Float32Matmul::tf32}})));
  all.push_back(
      made<LmHeadSearch>({.key = "lm_head_search",
                          .help = "Search of the LM head in greedy decoding: full, or int8, where an int8 "
                                  "copy finds candidates that are re-scored exactly [full]",
                          .is_about_numbers = true,
                          .label = [](const RunConfig&) { return std::string("lm_head search int8"); },
                          .applies = takes_lm_head_search,
                          .apply = [](Precision& p, const RunConfig&) { set_lm_head_search(p); }},
                         at(&RunConfig::lm_head_search),
                         choice<LmHeadSearch>({{"full", LmHeadSearch::full}, {"int8", LmHeadSearch::int8}})));
}

void add_text(std::vector<Field>& all) {
  all.push_back(made<Newlines>(
      {.key = "newlines",
       .help =
           "Line ends of text files: universal reads CR LF and CR as LF and leaves out a byte order mark, "
           "as Python does; keep changes nothing [universal]",
       .group = "Model and text",
       .label = [](const RunConfig&) { return std::string("line ends kept"); }},
      at(&RunConfig::newlines),
      choice<Newlines>({{"universal", Newlines::universal}, {"keep", Newlines::keep}})));
}

void add_origin(std::vector<Field>& all) {
  all.push_back(
      made<bool>({.key = "dequantized",
                  .help = "Whether weights are made of the dequantized numbers of a quantized checkpoint",
                  .kind = FieldKind::on,
                  .has_flag = false,
                  .label = [](const RunConfig&) { return std::string(" of dequantized weights"); }},
                 at(&RunConfig::is_dequantized), choice<bool>({{"true", true}, {"false", false}})));
}

void add_machine(std::vector<Field>& all) {
  all.push_back(made<Isa>({.key = "isa",
                           .help = "Instruction set of the kernels: scalar, avx2, avx512, avx512bf16 or amx "
                                   "[the best that runs here]",
                           .label = [](const RunConfig& c) { return std::string(name_of(*c.isa)); }},
                          at(&RunConfig::isa), delegated<Isa>(isa_from_name, [](const Isa& isa) {
                            return std::string(name_of(isa));
                          })));
  all.push_back(made<Device>(
      {.key = "device",
       .help = "Device: cpu, cuda, cuda:N or auto (a GPU where one can be used, else the CPU) [auto]",
       .unset = "auto",
       .label =
           [](const RunConfig& c) { return c.device->kind == Device::Kind::cuda ? c.device->text() : ""; }},
      at(&RunConfig::device), delegated<Device>(device_from_name, [](const Device& d) { return d.text(); })));
  all.push_back(made<CudaGemm>(
      {.key = "cuda_gemm",
       .help = "Matrix multiplications of many tokens on a GPU: own, or cublaslt or auto (the fastest of "
               "all), where a token's bits depend on its batch [own]",
       .is_about_numbers = true,
       .label =
           [](const RunConfig& c) {
             return std::string(c.cuda_gemm == CudaGemm::cublaslt ? "cuBLASLt" : "cuda_gemm auto");
           },
       .applies = takes_cuda_gemm,
       .apply = [](Precision& p, const RunConfig&) { require_cuda_gemm(p); }},
      at(&RunConfig::cuda_gemm),
      choice<CudaGemm>(
          {{"own", CudaGemm::own}, {"cublaslt", CudaGemm::cublaslt}, {"auto", CudaGemm::automatic}})));
  all.push_back(made<Tune>(
      {.key = "tune",
       .help = "Measure here what makes kernels fastest, which changes speed alone: once (about 0.3 s, "
               "on a GPU 2 s, kept in your cache folder), off or force (again) [once]",
       .label = [](const RunConfig& c) { return std::string(c.tune == Tune::off ? "not tuned" : ""); }},
      at(&RunConfig::tune),
      choice<Tune>({{"once", Tune::once}, {"off", Tune::off}, {"force", Tune::force}})));
  all.push_back(made<int>({.key = "threads",
                           .short_flag = "-t",
                           .help = "Number of threads [one for each core this process may use]",
                           .kind = FieldKind::whole,
                           .label =
                               [](const RunConfig& c) {
                                 return fmt::format("{} thread{}", *c.threads, *c.threads == 1 ? "" : "s");
                               }},
                          at(&RunConfig::threads), number<int>(1, 1024, "a whole number from 1 to 1024")));
  all.push_back(made<std::vector<int>>(
      {.key = "cpu_mask",
       .help = "CPU affinity mask in hexadecimal: 0x3 is the first two processors [all]",
       .label = [](const RunConfig& c) { return "CPU mask " + mask_of(c.cpu_mask); }},
      at(&RunConfig::cpu_mask), delegated<std::vector<int>>(processors_of_mask, mask_of)));
  all.push_back(made<int>({.key = "replica",
                           .help = "Number of a session among equal ones",
                           .kind = FieldKind::whole,
                           .has_flag = false,
                           .label = [](const RunConfig& c) { return fmt::format("replica {}", c.replica); }},
                          at(&RunConfig::replica), number<int>(0, 1 << 20, "a whole number from 0")));
  all.push_back(
      made<std::string>({.key = "model", .help = "Name of one of several models", .has_flag = false},
                        at(&RunConfig::model), any_text()));
}

std::vector<Field> made_table() {
  std::vector<Field> all;
  add_origin(all);
  add_formats(all);
  add_numbers(all);
  add_choices(all);
  add_text(all);
  const std::size_t machine = all.size();
  add_machine(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].group.empty()) all[i].group = i < machine ? "Precision" : "Device";
  // A member that this does not name does not compile: it belongs into the table.
  const RunConfig config;
  const auto& [model, precision, recipe, dtype, quantize_head, llm_int8_threshold, input_scale, activations,
               calibrator, smooth_quant, calibration, include, exclude, kv_cache, allow_non_finite,
               float32_matmul, lm_head_search, newlines, is_dequantized, isa, device, cuda_gemm, tune,
               threads, cpu_mask, replica] = config;
  (void)std::tie(model, precision, recipe, dtype, quantize_head, llm_int8_threshold, input_scale, activations,
                 calibrator, smooth_quant, calibration, include, exclude, kv_cache, allow_non_finite,
                 float32_matmul, lm_head_search, newlines, is_dequantized, isa, device, cuda_gemm, tune,
                 threads, cpu_mask, replica);
  return all;
}

}  // namespace

std::span<const Field> fields() {
  static const std::vector<Field> table = made_table();
  return table;
}

const Field& field(std::string_view key) {
  for (const Field& each : fields())
    if (each.key == key) return each;
  throw std::out_of_range("no field of the configuration: " + std::string(key));
}

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

}  // namespace assay
