// How the numbers of a weight matrix are stored: a value, from which its bytes, its scales and its name
// follow. What they are multiplied in is another value (quant/arithmetic.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/units.h"
#include "assay/quant/weight_format.h"

namespace assay {

namespace formats {

inline constexpr WeightFormat kFloat32 = {};
inline constexpr WeightFormat kBfloat16 = {.element = ElementType::bfloat16, .bits = 16};
inline constexpr WeightFormat kFloat16 = {.element = ElementType::float16, .bits = 16};
// A scale per output: the largest magnitude, which the code 127 stands for.
inline constexpr WeightFormat kInt8 = {
    .element = ElementType::integer, .bits = 8, .scale = ScaleType::float32, .has_absmax_scales = true};
// The same of weights in float16 (Dettmers et al. 2022).
inline constexpr WeightFormat kLlmInt8 = {.element = ElementType::integer,
                                          .bits = 8,
                                          .scale = ScaleType::float32,
                                          .has_absmax_scales = true,
                                          .rounds_to_float16 = true};
// A scale per block of 64 weights (Dettmers et al. 2023). Checkpoints also bring other blocks: with_block().
constexpr WeightFormat in_blocks_of_64(ElementType element, ScaleType scale) {
  return {
      .element = element, .bits = 4, .scale = scale, .inputs_per_scale = 64, .groups_cross_outputs = true};
}
inline constexpr WeightFormat kNf4 = in_blocks_of_64(ElementType::nf4, ScaleType::float32);
inline constexpr WeightFormat kFp4 = in_blocks_of_64(ElementType::fp4, ScaleType::float32);
inline constexpr WeightFormat kNf4Dq = in_blocks_of_64(ElementType::nf4, ScaleType::double_int8);
inline constexpr WeightFormat kFp4Dq = in_blocks_of_64(ElementType::fp4, ScaleType::double_int8);
// Sixteen even levels and a scale per 128 inputs of an output (quant/int4.h).
inline constexpr WeightFormat kInt4G128 = {
    .element = ElementType::integer, .bits = 4, .scale = ScaleType::float32, .inputs_per_scale = 128};

// Formats of checkpoints. First llama.cpp's, under its names (quant/ggml_blocks.h), to most of which weights
// are quantized here too: a float16 scale, and maybe a minimum, per 32 inputs.
constexpr WeightFormat of_32_inputs(ElementType element, int bits, Offset offset = Offset::none) {
  return {.element = element,
          .bits = bits,
          .scale = ScaleType::float16,
          .inputs_per_scale = 32,
          .offset = offset};
}
inline constexpr WeightFormat kQ8_0 = of_32_inputs(ElementType::integer, 8);
inline constexpr WeightFormat kQ4_0 = of_32_inputs(ElementType::integer, 4);
inline constexpr WeightFormat kQ4_1 = of_32_inputs(ElementType::integer, 4, Offset::minimum);
inline constexpr WeightFormat kQ5_0 = of_32_inputs(ElementType::integer, 5);
inline constexpr WeightFormat kQ5_1 = of_32_inputs(ElementType::integer, 5, Offset::minimum);
inline constexpr WeightFormat kIq4Nl = of_32_inputs(ElementType::iq4_nl, 4);
inline constexpr WeightFormat kMxfp4 = {
    .element = ElementType::e2m1, .bits = 4, .scale = ScaleType::e8m0, .inputs_per_scale = 32};
// Whole numbers as scales, and maybe as minima, which share float16 factors in super-blocks of 256.
constexpr WeightFormat of_super_blocks(ElementType element, int bits, ScaleType scale, std::int64_t inputs,
                                       Offset offset = Offset::none) {
  return {.element = element,
          .bits = bits,
          .scale = scale,
          .inputs_per_scale = inputs,
          .offset = offset,
          .inputs_per_super_block = 256,
          .super_scale = ScaleType::float16};
}
inline constexpr WeightFormat kQ2K =
    of_super_blocks(ElementType::integer, 2, ScaleType::bits4, 16, Offset::minimum);
inline constexpr WeightFormat kQ3K = of_super_blocks(ElementType::integer, 3, ScaleType::bits6, 16);
inline constexpr WeightFormat kQ4K =
    of_super_blocks(ElementType::integer, 4, ScaleType::bits6, 32, Offset::minimum);
inline constexpr WeightFormat kQ5K =
    of_super_blocks(ElementType::integer, 5, ScaleType::bits6, 32, Offset::minimum);
inline constexpr WeightFormat kQ6K = of_super_blocks(ElementType::integer, 6, ScaleType::int8, 16);
inline constexpr WeightFormat kIq4Xs = of_super_blocks(ElementType::iq4_nl, 4, ScaleType::bits6, 32);
// Three values in 2 bits. TQ1_0 holds the same codes five to a byte, and is unpacked to this.
inline constexpr WeightFormat kTq2_0 = {
    .element = ElementType::ternary, .bits = 2, .scale = ScaleType::float16, .inputs_per_scale = 256};
inline constexpr WeightFormat kTq1_0 = kTq2_0;
// Groups of 32 inputs with a zero point each, and a table of which group an input is in: GPTQ with desc_act.
inline constexpr WeightFormat kInt4G32 = {.element = ElementType::integer,
                                          .bits = 4,
                                          .scale = ScaleType::float16,
                                          .inputs_per_scale = 32,
                                          .offset = Offset::zero_point,
                                          .has_input_groups = true};

}  // namespace formats

constexpr bool is_quantized(const WeightFormat& f) {
  return f.scale != ScaleType::none;
}
constexpr bool is_int8(const WeightFormat& f) {
  return f.element == ElementType::integer && f.bits == 8 && f.has_absmax_scales;
}
// Codes of any number of bits whose scales belong to groups of inputs.
constexpr bool is_grouped(const WeightFormat& f) {
  return is_quantized(f) && !is_int8(f);
}
constexpr bool is_four_bit(const WeightFormat& f) {
  return f.bits == 4 && is_grouped(f);
}
// Whether a weight is more than a code's value times the scale of its place.
constexpr bool has_offsets(const WeightFormat& f) {
  return f.offset != Offset::none || f.has_input_groups;
}
// Those of bitsandbytes and our own: no offsets, and scales as wide as numbers that are computed with.
constexpr bool has_wide_scales(const WeightFormat& f) {
  return is_quantized(f) && !has_offsets(f) &&
         (f.scale == ScaleType::float32 || f.scale == ScaleType::bfloat16 ||
          f.scale == ScaleType::double_int8);
}
// Whether weights become this format here, beside those that checkpoints hold in it: those with wide scales,
// and the block types of GGUF that are written (quant/ggml_quantize.h).
bool is_quantized_to(const WeightFormat& f);
// Those of them whose codes and scales are searched for, which takes a hundred times as long.
constexpr bool is_searched_for(const WeightFormat& f) {
  return f.inputs_per_super_block > 0 || f.element == ElementType::iq4_nl;
}
// With int8 activations, where those are asked for.
constexpr bool is_multiplied_as_bytes(const WeightFormat& f) {
  return is_four_bit(f) && has_wide_scales(f);
}
// Formats of checkpoints whose scales and minima are held in the types that the checkpoint has them in.
constexpr bool holds_stored_scales(const WeightFormat& f) {
  return is_grouped(f) && !has_wide_scales(f) && f.offset != Offset::zero_point && !f.has_input_groups;
}
// The inputs of a matrix are a multiple of this: whole blocks of GGUF. 1: any number.
constexpr std::int64_t block_inputs(const WeightFormat& f) {
  if (f.inputs_per_super_block > 0) return f.inputs_per_super_block;
  return holds_stored_scales(f) ? f.inputs_per_scale : 1;
}
// Activations beside them may be int8, with a scale per token and group of inputs: the weights' own, or so
// many beside scales as stored.
inline constexpr std::int64_t kInt8GroupOfStoredScales = 32;
constexpr bool takes_int8_activations(const WeightFormat& f) {
  return is_multiplied_as_bytes(f) || holds_stored_scales(f);
}
// Scales that are 8-bit codes in a file.
constexpr bool has_nested_scales(const WeightFormat& f) {
  return f.scale == ScaleType::double_int8;
}
// The same format with scales held in another type.
constexpr WeightFormat with_scale(WeightFormat format, ScaleType scale) {
  format.scale = scale;
  return format;
}

// The same 4-bit format of bitsandbytes with blocks of so many weights.
constexpr WeightFormat with_block(WeightFormat format, std::int64_t weights) {
  format.inputs_per_scale = weights;
  return format;
}
// Blocks that bitsandbytes knows: powers of two from 32 to 4,096.
constexpr bool is_block_size(std::int64_t weights) {
  return weights >= 32 && weights <= 4096 && (weights & (weights - 1)) == 0;
}

// "nf4-dq", "float32", "nf4 with blocks of 128"; of a format without a name what it is made of: "4-bit
// integer, float16 scale per 32 inputs, zero point". int8 and LLM.int8() are both called "int8": they are
// stored alike.
std::string name_of(const WeightFormat& format);
// By the name that recipes use, any case: one of weight_format_names().
std::optional<WeightFormat> weight_format_from_name(std::string_view text);
// As weight_format_from_name() reads it: "llm-int8" of LLM.int8().
std::string recipe_name_of(const WeightFormat& format);
// In the order of the constants.
std::vector<std::string> weight_format_names();
// "int8, nf4": the names of a list of formats, as a message shows them.
std::string names_of(std::span<const WeightFormat> formats);

// Bits of an element, with its part of the scales and offsets that groups of a fixed size share (not of
// scales per output or per matrix); scales of double quantization count as float32, which they are held in.
double bits_per_weight(const WeightFormat& format);
// Bytes of a matrix, with all scales and offsets.
Bytes stored_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t columns);

}  // namespace assay
