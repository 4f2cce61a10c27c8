// How the numbers of a weight matrix are stored, as a value: its parts. quant/format.h has those that exist.
#pragma once

#include <cstdint>

namespace assay {

// What a stored element stands for, before scaling.
//   float32, bfloat16, float16, e4m3   the number itself; e4m3 is OCP's FP8, without infinities
//   integer    one of 2^bits even levels; 2^(bits - 1) is 0 where there is no offset, else 0 is
//   nf4, fp4   an entry of bitsandbytes' tables (quant/four_bit.h)
//   e2m1       OCP's FP4, of MXFP4 and NVFP4
//   iq4_nl     an entry of llama.cpp's table of that name (quant/code_values.h)
//   ternary    -1, 0 or 1: the code less 1
enum class ElementType { float32, bfloat16, float16, e4m3, integer, nf4, fp4, e2m1, iq4_nl, ternary };

// bits4, bits6 and int8 are whole numbers, multiplied by the scale of their super-block: from 0 where there
// is a minimum, else with a sign (the code of bits6 less 32, int8 as two's complement). e8m0 is a power of
// two. double_int8 is bitsandbytes' double quantization, which is undone when scales are read: in memory they
// are float32.
enum class ScaleType { none, float32, float16, bfloat16, e4m3, e8m0, bits4, bits6, int8, double_int8 };

// Beside the scale of a group.
//   zero_point   the code that stands for 0, of as many bits as codes have: (code - zero_point) * scale
//   minimum      a number of the scale's type: code * scale + minimum
enum class Offset { none, zero_point, minimum };

// The matrix is [outputs][inputs]. How a file orders the bits of codes is known to its reader alone, which
// gives one code per byte; how a backend packs them is the backend's matter.
struct WeightFormat {
  ElementType element = ElementType::float32;
  int bits = 32;  // per element

  // Elements that share a scale: so many inputs (0: all) of so many outputs (0: all).
  ScaleType scale = ScaleType::none;
  std::int64_t inputs_per_scale = 0, outputs_per_scale = 1;
  // Groups run on from the last input of an output to the first of the next.
  bool groups_cross_outputs = false;
  // The scale is the largest magnitude, which the highest code stands for; else it is the step between codes.
  bool has_absmax_scales = false;
  Offset offset = Offset::none;

  // Scales (and minima) of a super-block of inputs share a scale (and a minimum) of this type; 0: none do.
  std::int64_t inputs_per_super_block = 0;
  ScaleType super_scale = ScaleType::none;

  // Which group an input belongs to is a table, not its position (GPTQ's g_idx).
  bool has_input_groups = false;
  // Weights are rounded to float16 before their codes are found (LLM.int8()).
  bool rounds_to_float16 = false;

  constexpr bool operator==(const WeightFormat&) const = default;
};

}  // namespace assay
