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
    for (std::int64_t j = 0; j < kPanel; ++j) {
      const auto put = [&](std::int64_t k, float value) {
        if (is_float32)
          static_cast<float*>(args.out)[(panel * weights.k + k) * kPanel + j] = value;
        else
          static_cast<std::uint16_t*>(
              args.out)[(panel * weights.k_padded + k / 2 * 2) * kPanel + j * 2 + k % 2] =
              float_to_bf16(value);
      };
      weights.for_row(panel, j, put);
      for (std::int64_t k = weights.k; !is_float32 && k < weights.k_padded; ++k) put(k, 0.0F);
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

namespace {

// 256 inputs of an output, read once for several rows.
struct BlockOfOutput {
  std::int16_t values[kInt8Block];
  float scales[kInt8Block / 16], offsets[kInt8Block / 16];  // by group

  BlockOfOutput(const GroupedInt8Args& args, std::int64_t output, std::int64_t first, std::int64_t last,
                std::int64_t group) {
    const GroupedCodes& w = args.weights;
    const ScaleRun& run = w.run;
    const std::int64_t panel = output / kPanel, j = output % kPanel;
    for (std::int64_t k = first; k < last; ++k) {
      const int code = code_at(w.codes + panel * w.code_bytes(), w.bits, k, j);
      const int byte = args.values.has_table ? args.values.table[code] : code;
      values[k - first] = static_cast<std::int16_t>(byte - args.values.zero);
    }
    for (std::int64_t k = first; k < last; k += group) {
      const std::byte* at = w.scales + panel * w.scale_bytes() + k / run.inputs * run.bytes();
      const auto in_run = static_cast<int>(k % run.inputs / run.group());
      scales[(k - first) / group] = scale_in_run(run, at, j, in_run);
      offsets[(k - first) / group] = offset_in_run(run, at, j, in_run);
    }
  }
};

}  // namespace

void linear_grouped_int8(const GroupedInt8Args& args) noexcept {
  constexpr std::int64_t kRows = 32;  // at once
  const LinearArgs& to = args.to;
  const GroupedCodes& w = args.weights;
  const std::int64_t end = std::min(to.n, (to.first_panel + to.panels) * kPanel),
                     group = int8_group_of(w.run);
  for (std::int64_t first_row = 0; first_row < to.rows; first_row += kRows) {
    const std::int64_t rows = std::min(kRows, to.rows - first_row);
    for (std::int64_t output = to.first_panel * kPanel; output < end; ++output) {
      float sums[kRows] = {};
      for (std::int64_t first = 0; first < w.k_padded; first += kInt8Block) {
        const std::int64_t last = std::min(first + kInt8Block, w.k_padded);
        const BlockOfOutput block(args, output, first, last, group);
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t of_inputs = first_row + row;
          float& sum = sums[row];
          for (std::int64_t k = first; k < last; k += group) {
            const std::int8_t* codes = args.x.codes + args.x.offset(of_inputs, k);
            const std::int16_t* values = block.values + (k - first);
            std::int32_t dot = 0;
            for (std::int64_t i = 0; i < group; ++i) dot += codes[i] * values[i];
            const float scale = args.x.scales[k / group * args.x.capacity + of_inputs];
            sum = std::fma(static_cast<float>(dot), scale * block.scales[(k - first) / group], sum);
          }
          for (std::int64_t k = first; w.run.has_minima && k < last; k += group)
            sum = std::fma(args.x.sums[k / group * args.x.capacity + of_inputs],
                           block.offsets[(k - first) / group], sum);
        }
      }
      for (std::int64_t row = 0; row < rows; ++row)
        finish_output(to, first_row + row, output, static_cast<double>(sums[row]));
    }
  }
}

}  // namespace scalar
}  // namespace assay::cpu
