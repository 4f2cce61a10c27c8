#include "assay/checkpoint/bitsandbytes.h"

#include <cmath>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay::bitsandbytes {

namespace {

// As Python writes a float: the shortest digits that give it back, and always a point or an exponent.
std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::vector<std::int64_t> shape_from(const JsonView& state) {
  const Json& raw = state.raw();
  const auto it = raw.find("shape");
  if (it == raw.end() || !it->is_array() || it->size() != 2)
    throw Error("{}: shape: expected two sizes", state.where());
  std::vector<std::int64_t> shape;
  for (const Json& size : *it) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > (std::uint64_t{1} << 40))
      throw Error("{}: shape: expected two sizes, found {}", state.where(), it->dump().substr(0, 80));
    shape.push_back(size.get<std::int64_t>());
  }
  return shape;
}

}  // namespace

std::string QuantState::text() const {
  std::string text = fmt::format(R"({{"quant_type": {}, "blocksize": {}, "dtype": {}, "shape": [{}])",
                                 Json(type).dump(), block, Json(dtype).dump(), fmt::join(shape, ", "));
  if (nested)
    text += fmt::format(R"(, "nested_blocksize": {}, "nested_dtype": "float32", "nested_offset": {})",
                        nested->block, python_float(static_cast<double>(nested->offset)));
  return text + "}";
}

QuantState quant_state_from_text(std::string_view text, const std::string& where) {
  const Json json = parse_python_json(text, where);
  const JsonView view(json, where);
  constexpr std::int64_t kMax = std::int64_t{1} << 40;
  QuantState state;
  state.type = view.text("quant_type");
  state.block = view.integer("blocksize", 1, kMax);
  state.dtype = view.text("dtype");
  state.shape = shape_from(view);
  if (view.has("nested_blocksize") || view.has("nested_offset")) {
    state.nested = QuantState::Nested{.block = view.integer("nested_blocksize", 1, kMax),
                                      .offset = static_cast<float>(view.number("nested_offset"))};
    if (!std::isfinite(state.nested->offset))
      throw Error("{}: nested_offset: expected a finite number", where);
    if (const std::string dtype = view.text_or("nested_dtype", "float32"); dtype != "float32")
      throw Error("{}: nested_dtype: expected float32, found {}", where, dtype);
  }
  return state;
}

std::optional<Config> config_from(const JsonView& config) {
  if (!config.has("quantization_config")) return std::nullopt;
  const JsonView view = config.object("quantization_config");
  Config found{.is_eight_bit = view.boolean_or("load_in_8bit", false),
               .is_four_bit = view.boolean_or("load_in_4bit", false),
               .threshold = view.number_or("llm_int8_threshold", 6)};
  // Configurations of before quant_method existed say only which of the two.
  const bool is_old = !view.has("quant_method") && (found.is_eight_bit || found.is_four_bit);
  const std::string method = is_old ? "bitsandbytes" : view.text("quant_method");
  if (method != "bitsandbytes")
    throw Error(
        "{}: quant_method '{}' is not supported; expected bitsandbytes or assay: if the weights are plain "
        "numbers, as of a merged model, delete quantization_config from this file",
        view.where(), method);
  if (found.is_four_bit && found.is_eight_bit)
    throw Error("{}: expected one of load_in_4bit and load_in_8bit, found both", view.where());
  if (!(found.threshold >= 0 && found.threshold <= 1e6))
    throw Error("{}: llm_int8_threshold: expected 0 or more, found {}", view.where(), found.threshold);
  return found;
}

Json to_json(const ConfigToWrite& config) {
  return {{"_load_in_4bit", !config.is_eight_bit},
          {"_load_in_8bit", config.is_eight_bit},
          {"bnb_4bit_compute_dtype", config.compute_dtype},
          {"bnb_4bit_quant_storage", "uint8"},
          {"bnb_4bit_quant_type", config.quant_type},
          {"bnb_4bit_use_double_quant", config.is_double},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_skip_modules", config.skip_modules.empty() ? Json() : Json(config.skip_modules)},
          {"llm_int8_threshold", config.threshold},
          {"load_in_4bit", !config.is_eight_bit},
          {"load_in_8bit", config.is_eight_bit},
          {"quant_method", "bitsandbytes"}};
}

}  // namespace assay::bitsandbytes
