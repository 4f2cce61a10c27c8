// The choices of an operation that kernels see too, without the operations.
#pragma once

#include <string_view>

namespace assay {

enum class Activation { none, relu, relu2, silu, tanh, gelu_tanh, gelu_erf, gelu_quick };
// As Transformers' ACT2FN has it.
std::string_view name_of(Activation activation);

// Which elements of a head are turned together: i and i + rotated / 2 (Transformers' rotate_half), or 2 i and
// 2 i + 1 (Su et al. 2021; GPT-J).
enum class RotaryPairing { halves, neighbours };

}  // namespace assay
