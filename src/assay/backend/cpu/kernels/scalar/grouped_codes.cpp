// The scalar kernels of grouped codes: the reference of the faster ones.
#include "assay/backend/cpu/kernels/grouped_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::cpu {

ByteValues byte_values_of(const GroupedCodes& codes) {
  const std::int32_t zero = -static_cast<std::int32_t>(codes.values[0]);
  ByteValues bytes{{}, false, codes.bits == 8, zero, codes.bits == 5 ? 16 : zero, 1.0F};
  if (codes.bits > 4) return bytes;
  const int count = 1 << codes.bits;
  float lowest = 0;
  for (int i = 0; i < count; ++i) {
    const float value = codes.values[i];
    lowest = std::min(lowest, value);
    bytes.has_table = bytes.has_table || value != codes.values[0] + static_cast<float>(i);
    if (value != std::nearbyint(value)) bytes.unit = 0.5F;
  }
  if (!bytes.has_table) return bytes;
  bytes.is_wide = lowest / bytes.unit < -63;
  bytes.zero = bytes.is_wide ? 128 : -static_cast<std::int32_t>(lowest / bytes.unit);
  bytes.center = bytes.zero;
  for (int i = 0; i < 16; ++i)
    bytes.table[i] =
        static_cast<std::uint8_t>(static_cast<int>(codes.values[i % count] / bytes.unit) + bytes.zero);
  return bytes;
}

namespace scalar {

void expand_grouped(const ExpandGroupedArgs& args) noexcept {
  const GroupedCodes& weights = args.weights;
  const bool is_float32 = args.packing == Packing::float32;
  for (std::int64_t panel = 0; panel < args.panels; ++panel)
    for (std::int64_t k = 0; k < (is_float32 ? weights.k : weights.k_padded); ++k)
      for (std::int64_t j = 0; j < kPanel; ++j) {
        const float value = k < weights.k ? weights.value(panel, j, k) : 0.0F;
        if (is_float32)
          static_cast<float*>(args.out)[(panel * weights.k + k) * kPanel + j] = value;
        else
          static_cast<std::uint16_t*>(
              args.out)[(panel * weights.k_padded + k / 2 * 2) * kPanel + j * 2 + k % 2] =
              float_to_bf16(value);
      }
}

namespace {

float input_at(const QuantizeGroupedArgs& args, std::int64_t row, std::int64_t i) {
  if (i >= args.k) return 0.0F;
  return args.x != nullptr ? args.x[row * args.x_stride + i]
                           : bf16_to_float(args.x_tiles.data[args.x_tiles.offset(row, i)]);
}

}  // namespace

void quantize_grouped(const QuantizeGroupedArgs& args) noexcept {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const GroupedRows& out = args.out;
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    bool is_finite = true;
    for (std::int64_t i = 0; i < args.k; ++i) is_finite = is_finite && std::isfinite(input_at(args, row, i));
    for (std::int64_t first = 0; first < args.k_padded; first += kInt8Group) {
      float largest = 0;
      for (std::int64_t i = first; i < first + kInt8Group; ++i)
        largest = std::max(largest, std::fabs(input_at(args, row, i)));
      const bool is_none = !(largest >= 1e-35F);
      const float inverse = is_none || !is_finite ? 0.0F : 127.0F / largest;
      const float scale = !is_finite ? kNone : is_none ? 0.0F : largest * (1.0F / 127.0F) * args.values.unit;
      for (std::int64_t from = first; from < first + kInt8Group; from += args.group) {
        std::int32_t sum = 0;
        for (std::int64_t i = from; i < from + args.group; ++i) {
          const float code = is_finite ? std::nearbyint(input_at(args, row, i) * inverse) : 0.0F;
          out.codes[out.offset(row, i)] = static_cast<std::int8_t>(code);
          sum += static_cast<std::int32_t>(code);
        }
        const std::int64_t at = from / args.group * out.capacity + row;
        out.scales[at] = scale;
        out.sums[at] = static_cast<float>(sum) * scale;
        out.starts[at] = out.own_starts[at] = -args.values.zero * sum;
      }
    }
  }
}

void linear_grouped_int8(const GroupedInt8Args& args) noexcept {
  const LinearArgs& to = args.to;
  const GroupedCodes& w = args.weights;
  const ScaleRun& run = w.run;
  const std::int64_t end = std::min(to.n, (to.first_panel + to.panels) * kPanel), group = int8_group_of(run);
  for (std::int64_t row = 0; row < to.rows; ++row)
    for (std::int64_t output = to.first_panel * kPanel; output < end; ++output) {
      const std::int64_t panel = output / kPanel, j = output % kPanel;
      const auto run_at = [&](std::int64_t k) {
        return w.scales + panel * w.scale_bytes() + k / run.inputs * run.bytes();
      };
      const auto group_at = [&](std::int64_t k) { return static_cast<int>(k % run.inputs / run.group()); };
      float sum = 0;
      for (std::int64_t block = 0; block < w.k_padded; block += kInt8Block) {
        const std::int64_t last = std::min(block + kInt8Block, w.k_padded);
        for (std::int64_t first = block; first < last; first += group) {
          std::int32_t dot = 0;
          for (std::int64_t k = first; k < first + group; ++k) {
            const int code = code_at(w.codes + panel * w.code_bytes(), w.bits, k, j),
                      byte = args.values.has_table ? args.values.table[code] : code;
            dot += args.x.codes[args.x.offset(row, k)] * (byte - args.values.zero);
          }
          const float scale = args.x.scales[first / group * args.x.capacity + row];
          sum = std::fma(static_cast<float>(dot),
                         scale * scale_in_run(run, run_at(first), j, group_at(first)), sum);
        }
        for (std::int64_t first = block; run.has_minima && first < last; first += group)
          sum = std::fma(args.x.sums[first / group * args.x.capacity + row],
                         offset_in_run(run, run_at(first), j, group_at(first)), sum);
      }
      finish_output(to, row, output, static_cast<double>(sum));
    }
}

}  // namespace scalar
}  // namespace assay::cpu
