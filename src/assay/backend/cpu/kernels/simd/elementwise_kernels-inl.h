// Rotary position embedding and gated products over a `Vec`, for the ISA files that include it inside their
// own anonymous namespace, after float32_kernels-inl.h. Not a header for others.
#pragma once

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"

ASSAY_INLINE void rotate_halves(float* x, const float* cosines, const float* sines, std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; i += Vec::kWidth) {
    const std::int64_t n = pairs - i < Vec::kWidth ? pairs - i : Vec::kWidth;
    const Vec a = Vec::load_n(x + i, n), b = Vec::load_n(x + pairs + i, n),
              cosine = Vec::load_n(cosines + i, n), sine = Vec::load_n(sines + i, n),
              minus_sine = Vec::sub(Vec::set(0.0F), sine);
    Vec::fma(a, cosine, Vec::mul(b, minus_sine)).store_n(x + i, n);
    Vec::fma(b, cosine, Vec::mul(a, sine)).store_n(x + pairs + i, n);
  }
}

void rotate_neighbours(float* x, const float* cosines, const float* sines, std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * cosines[i] - b * sines[i];
    x[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

void rotate(const RotateArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float *cosines = args.cosines + row * args.pairs, *sines = args.sines + row * args.pairs;
    for (std::int64_t head = 0; head < args.heads; ++head) {
      float* x = args.x + row * args.x_stride + head * args.head_dim;
      if (args.pairing == RotaryPairing::halves)
        rotate_halves(x, cosines, sines, args.pairs);
      else
        rotate_neighbours(x, cosines, sines, args.pairs);
    }
  }
}

void gate(const GateArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row)
    for (std::int64_t i = 0; i < args.n; i += Vec::kWidth) {
      const std::int64_t n = args.n - i < Vec::kWidth ? args.n - i : Vec::kWidth,
                         at = row * args.x_stride + i;
      const Vec value = Vec::mul(activate(args.activation, Vec::load_n(args.gate + at, n), args.is_rounded),
                                 Vec::load_n(args.up + at, n));
      if (args.y != nullptr) value.store_n(args.y + row * args.y_stride + i, n);
      if (args.y_tiles.data != nullptr)
        store_tiles(args.y_tiles, args.first_tile_row + row, args.first_tile_column + i, value, n);
    }
}
