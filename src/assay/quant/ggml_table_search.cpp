// The search for blocks whose codes are entries of a table: IQ4_NL.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "assay/quant/code_values.h"
#include "assay/quant/ggml_search.h"
#include "assay/tensor/half.h"

namespace assay::ggml {

namespace {

constexpr int kTableRounds = 4;

// The entries of the table that are nearest to the scaled numbers. Loops over elements become vector
// instructions.
void nearest_entries(const float* x, float inverse, float* entries) {
  const auto& table = iq4_nl_codebook();
  std::fill_n(entries, kSmallBlock, table.front());
  for (std::size_t i = 1; i < table.size(); ++i) {
    const float middle = (table[i - 1] + table[i]) / 2, step = table[i] - table[i - 1];
    for (int e = 0; e < kSmallBlock; ++e) entries[e] += x[e] * inverse > middle ? step : 0.0F;
  }
}

// The scale that least squares give for entries, and how much of the squared sum it explains.
struct TableFit {
  float scale = 0, explained = 0;
};
TableFit fitted_to(const float* entries, const float* x, const float* w) {
  float products = 0, squares = 0;
  for (int e = 0; e < kSmallBlock; ++e) {
    products += w[e] * x[e] * entries[e];
    squares += w[e] * entries[e] * entries[e];
  }
  if (!(squares > 0)) return {};
  return {products / squares, products * (products / squares)};
}

float squared_error(float scale, const float* entries, const float* x, const float* w) {
  float error = 0;
  for (int e = 0; e < kSmallBlock; ++e) {
    const float off = x[e] - scale * entries[e];
    error += w[e] * off * off;
  }
  return error;
}

// The best of scales that take the largest number to either end of the table, and around.
float best_table_scale(const float* x, const float* w) {
  constexpr int kSteps = 12;
  constexpr float kStep = 2;  // in units of the table
  const auto& table = iq4_nl_codebook();
  float largest = 0, entries[kSmallBlock];
  for (int e = 0; e < kSmallBlock; ++e)
    if (std::abs(x[e]) > std::abs(largest)) largest = x[e];
  TableFit best;
  for (const float end : {table.front(), table.back()})
    for (int k = -kSteps; k <= kSteps; ++k) {
      const float inverse = (end + kStep * static_cast<float>(k)) / largest;
      if (!std::isfinite(inverse)) continue;
      nearest_entries(x, inverse, entries);
      if (const TableFit found = fitted_to(entries, x, w); found.explained > best.explained) best = found;
    }
  return best.scale;
}

}  // namespace

SmallBlock search_iq4_nl(const float* x, const float* weights) {
  float ones[kSmallBlock];
  std::fill_n(ones, kSmallBlock, 1.0F);
  const float* w = weights == nullptr ? ones : weights;
  const auto& table = iq4_nl_codebook();
  SmallBlock best{};
  float least = -1, scale = best_table_scale(x, w);
  // Entries for the scale that float16 holds, and a scale for those entries, in turns.
  for (int round = 0; round < kTableRounds; ++round) {
    float entries[kSmallBlock];
    const float held = f16_to_float(float_to_f16(scale));
    nearest_entries(x, held != 0 ? 1.0F / held : 0.0F, entries);
    if (const float error = squared_error(held, entries, x, w); least < 0 || error < least) {
      least = error;
      best.scale = held;
      for (int e = 0; e < kSmallBlock; ++e)
        best.codes[e] = static_cast<std::uint8_t>(std::lower_bound(table.begin(), table.end(), entries[e]) -
                                                  table.begin());
    }
    scale = fitted_to(entries, x, w).scale;
  }
  return best;
}

}  // namespace assay::ggml
