// Searches the codes and scales of one super-block of 256 numbers: for ggml_quantize.cpp.
#pragma once

#include <cstddef>

namespace assay::ggml {

// Writes a block of Q4_K (`bits` 4: 144 bytes), Q5_K (5: 176) or Q6_K (6: 210). The error that is made small
// is the sum of w (x - restored)^2; `weights` null: all 1. First each group by itself gets the scale (and
// minimum) that a scan of rounding steps finds best, each with the values that least squares give for its
// codes; then whole scales around those are tried with the exact error, in turns with the factors of the
// super-block, again by least squares.
void search_super_block(int bits, const float* x, const float* weights, std::byte* block);

}  // namespace assay::ggml
