// Searches the codes and scales of one block: for ggml_quantize.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::ggml {

// Writes a block of Q2_K (`bits` 2: 84 bytes), Q3_K (3: 110), Q4_K (4: 144), Q5_K (5: 176) or Q6_K (6: 210).
// The error that is made small is the sum of w (x - restored)^2; `weights` null: all 1. First each group by
// itself gets the scale (and minimum) that a scan of rounding steps finds best, each with the values that
// least squares give for its codes; then whole scales around those are tried with the exact error, in turns
// with the factors of the super-block, again by least squares.
void search_super_block(int bits, const float* x, const float* weights, std::byte* block);

// A block of Q4_0, Q5_0 (restored = scale * (code - 2^(bits - 1))), Q4_1 or Q5_1 (scale * code + minimum).
inline constexpr int kSmallBlock = 32;
struct SmallBlock {
  float scale, minimum;  // as float16 holds them
  std::uint8_t codes[kSmallBlock];
};
// The same scan for such a block, by itself; `weights` is not null.
SmallBlock search_small_block(int bits, bool has_minimum, const float* x, const float* weights);
// The same for a block of IQ4_NL, whose codes are entries of a table; `weights` null: all 1.
SmallBlock search_iq4_nl(const float* x, const float* weights);

}  // namespace assay::ggml
