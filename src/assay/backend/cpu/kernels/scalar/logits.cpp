#include "assay/backend/cpu/kernels/scalar/logits.h"

#include <algorithm>
#include <cmath>

namespace assay::cpu::scalar {

namespace {

SliceSums sum_logits(const float* x, std::int64_t n, float* powers) noexcept {
  SliceSums sums{.max = x[0], .is_finite = true};
  for (std::int64_t i = 0; i < n; ++i) {
    sums.max = std::max(sums.max, x[i]);
    sums.is_finite = sums.is_finite && std::isfinite(x[i]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double power = std::exp(static_cast<double>(x[i]) - static_cast<double>(sums.max));
    powers[i] = static_cast<float>(power);
    sums.sum += power;
  }
  return sums;
}

double weigh_logits(const float* powers, const float* x, const float* y, std::int64_t n) noexcept {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(powers[i]) * (static_cast<double>(x[i]) - static_cast<double>(y[i]));
  return sum;
}

constexpr LogitReducer kReducer{sum_logits, weigh_logits};

}  // namespace

const LogitReducer* logit_reducer() {
  return &kReducer;
}

}  // namespace assay::cpu::scalar
