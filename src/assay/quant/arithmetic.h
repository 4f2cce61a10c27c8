// What a matrix multiplication computes in: a value beside the format in which its weights are stored.
#pragma once

#include <string_view>

namespace assay {

// What weights and activations become before they are multiplied; sums are float32 (of int8: int32).
//   tf32              float32 with 10 bits of the significand; GPUs alone
//   bfloat16_x2, _x3  float32 as a sum of two or three bfloat16 parts, on bfloat16 hardware (Henry, Tang and
//                     Heinecke 2019)
//   float16           GPUs alone: a CPU computes float16 as float32
enum class Multiply { float32, tf32, bfloat16_x2, bfloat16_x3, bfloat16, float16, int8 };
std::string_view name_of(Multiply multiply);  // "2 x bfloat16"

// Parts of an element: CPU backends pack float32 weights as so many planes of bfloat16.
constexpr int planes_of(Multiply multiply) {
  return multiply == Multiply::bfloat16_x3 ? 3 : multiply == Multiply::bfloat16_x2 ? 2 : 1;
}

// The type of the activations, and what shares a scale.
//   as_multiplied     what weights are multiplied in
//   int8_per_token    codes with a scale and a zero point per token
//   int8_symmetric    codes with a scale per token; outliers are decomposed (LLM.int8())
//   int8_per_tensor   a scale of all tokens that are computed together
//   int8_calibrated   a scale that a text fixed beforehand
//   int8_per_group    codes with a scale per token and group of inputs, beside 4-bit weights
enum class ActivationType {
  as_multiplied,
  int8_per_token,
  int8_symmetric,
  int8_per_tensor,
  int8_calibrated,
  int8_per_group
};

struct MatmulArithmetic {
  Multiply multiply = Multiply::float32;
  ActivationType activations = ActivationType::as_multiplied;

  constexpr bool operator==(const MatmulArithmetic&) const = default;
};

}  // namespace assay
