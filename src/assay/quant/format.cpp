#include "assay/quant/format.h"

#include "assay/base/format.h"
#include "assay/quant/ggml_quantize.h"

namespace assay {

namespace {

struct NamedFormat {
  std::string_view name, recipe_name;
  WeightFormat format;
};

constexpr NamedFormat kNamedFormats[] = {
    {"float32", "float32", formats::kFloat32},
    {"bfloat16", "bfloat16", formats::kBfloat16},
    {"float16", "float16", formats::kFloat16},
    {"int8", "int8", formats::kInt8},
    {"int8", "llm-int8", formats::kLlmInt8},
    {"nf4", "nf4", formats::kNf4},
    {"fp4", "fp4", formats::kFp4},
    {"nf4-dq", "nf4-dq", formats::kNf4Dq},
    {"fp4-dq", "fp4-dq", formats::kFp4Dq},
    {"int4-g128", "int4-g128", formats::kInt4G128},
    {"q8_0", "q8_0", formats::kQ8_0},
    {"q4_0", "q4_0", formats::kQ4_0},
    {"q4_1", "q4_1", formats::kQ4_1},
    {"q5_0", "q5_0", formats::kQ5_0},
    {"q5_1", "q5_1", formats::kQ5_1},
    {"iq4_nl", "iq4_nl", formats::kIq4Nl},
    {"mxfp4", "mxfp4", formats::kMxfp4},
    {"q2_k", "q2_k", formats::kQ2K},
    {"q3_k", "q3_k", formats::kQ3K},
    {"q4_k", "q4_k", formats::kQ4K},
    {"q5_k", "q5_k", formats::kQ5K},
    {"q6_k", "q6_k", formats::kQ6K},
    {"iq4_xs", "iq4_xs", formats::kIq4Xs},
    {"tq2_0", "tq2_0", formats::kTq2_0},
};

// The entry of the format, or of the one that differs in the type in which scales are held.
const NamedFormat* named(const WeightFormat& format) {
  for (const NamedFormat& each : kNamedFormats)
    if (each.format == format) return &each;
  for (const NamedFormat& each : kNamedFormats)
    if (is_quantized(format) && each.format == with_scale(format, ScaleType::float32)) return &each;
  return nullptr;
}

constexpr std::string_view kElementNames[] = {"float32", "bfloat16", "float16", "e4m3",   "integer",
                                              "nf4",     "fp4",      "e2m1",    "iq4-nl", "ternary"};
constexpr std::string_view kScaleNames[] = {"no",   "float32", "float16", "bfloat16", "e4m3",
                                            "e8m0", "4-bit",   "6-bit",   "int8",     "double-quantized"};
constexpr int kScaleBits[] = {0, 32, 16, 16, 8, 8, 4, 6, 8, 32};

constexpr int bits_of(ScaleType type) {
  return kScaleBits[static_cast<std::size_t>(type)];
}

std::string_view name_of(ScaleType type) {
  return kScaleNames[static_cast<std::size_t>(type)];
}

// A scale and its offset.
int group_bits(const WeightFormat& f) {
  const int offset = f.offset == Offset::zero_point ? f.bits
                     : f.offset == Offset::minimum  ? bits_of(f.scale)
                                                    : 0;
  return bits_of(f.scale) + offset;
}

int super_block_bits(const WeightFormat& f) {
  return bits_of(f.super_scale) * (f.offset == Offset::minimum ? 2 : 1);
}

std::string description(const WeightFormat& f) {
  std::string text = f.element == ElementType::integer
                         ? fmt::format("{}-bit integer", f.bits)
                         : std::string(kElementNames[static_cast<std::size_t>(f.element)]);
  if (!is_quantized(f)) return text;
  text += fmt::format(", {} scale per ", name_of(f.scale));
  if (f.outputs_per_scale == 1)
    text += f.inputs_per_scale == 0 ? "output" : fmt::format("{} inputs", f.inputs_per_scale);
  else if (f.outputs_per_scale == 0)
    text += "matrix";
  else
    text += fmt::format("{} x {} block", f.outputs_per_scale, f.inputs_per_scale);
  if (f.inputs_per_super_block > 0) text += fmt::format(" in super-blocks of {}", f.inputs_per_super_block);
  if (f.offset == Offset::zero_point) text += ", zero point";
  if (f.offset == Offset::minimum) text += ", minimum";
  if (f.has_input_groups) text += ", permuted inputs";
  return text;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::string name_of(const WeightFormat& format, std::string_view NamedFormat::*name) {
  if (const NamedFormat* found = named(format)) return std::string(found->*name);
  if (format.groups_cross_outputs)
    if (const NamedFormat* usual = named(with_block(format, formats::kNf4.inputs_per_scale)))
      return fmt::format("{} with blocks of {}", usual->*name, format.inputs_per_scale);
  return description(format);
}

}  // namespace

bool is_quantized_to(const WeightFormat& f) {
  return has_wide_scales(f) || ggml::written_type(f) != nullptr;
}

std::string name_of(const WeightFormat& format) {
  return name_of(format, &NamedFormat::name);
}

std::string recipe_name_of(const WeightFormat& format) {
  return name_of(format, &NamedFormat::recipe_name);
}

std::vector<std::string> weight_format_names() {
  std::vector<std::string> names;
  for (const NamedFormat& each : kNamedFormats) names.emplace_back(each.recipe_name);
  return names;
}

std::optional<WeightFormat> weight_format_from_name(std::string_view text) {
  std::string wanted(text.substr(0, 64));
  for (char& c : wanted) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const NamedFormat& each : kNamedFormats)
    if (wanted == each.recipe_name) return each.format;
  return std::nullopt;
}

std::string names_of(std::span<const WeightFormat> formats) {
  std::vector<std::string> names;
  for (const WeightFormat& each : formats) names.push_back(recipe_name_of(each));
  return fmt::format("{}", fmt::join(names, ", "));
}

double bits_per_weight(const WeightFormat& f) {
  double bits = f.bits;
  if (f.inputs_per_scale > 0 && f.outputs_per_scale > 0)
    bits +=
        static_cast<double>(group_bits(f)) / static_cast<double>(f.inputs_per_scale * f.outputs_per_scale);
  if (f.inputs_per_super_block > 0)
    bits += static_cast<double>(super_block_bits(f)) / static_cast<double>(f.inputs_per_super_block);
  return bits;
}

Bytes stored_bytes(const WeightFormat& f, std::int64_t rows, std::int64_t columns) {
  const double elements = static_cast<double>(rows * columns) * bits_per_weight(f) / 8;
  const bool is_shared_by_group = f.inputs_per_scale > 0 && f.outputs_per_scale > 0;
  const std::int64_t scales = !is_quantized(f) || is_shared_by_group ? 0
                              : f.outputs_per_scale == 0             ? 1
                                                                     : ceil_div(rows, f.outputs_per_scale);
  return {static_cast<std::int64_t>(elements) + ceil_div(scales * group_bits(f), 8)};
}

}  // namespace assay
