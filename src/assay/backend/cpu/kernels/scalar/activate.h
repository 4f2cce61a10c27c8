// Activation functions in double precision: what faster ones are tested against.
#pragma once

#include <cmath>

#include "assay/plan/elementwise.h"

namespace assay::cpu::scalar {

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 || std::isnan(x) ? x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    // Hendrycks and Gimpel 2016; "gelu_new" of GPT-2 is the tanh form.
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
    // The square of relu: So et al. 2021, "Primer".
    case Activation::relu2:
      return x > 0 || std::isnan(x) ? x * x : 0;
  }
  return x;
}

}  // namespace assay::cpu::scalar
