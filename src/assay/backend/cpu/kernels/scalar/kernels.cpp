// The complete scalar kernels: the reference that every faster one is tested against. Sums are in double,
// nothing is blocked beyond what the data layout asks for.
#include "assay/backend/cpu/kernels/grouped_codes.h"
#include "assay/backend/cpu/kernels/scalar/activate.h"
#include "assay/backend/cpu/kernels/scalar/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::cpu::scalar {

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The value that all planes of a packed bfloat16 weight, or of tiles, add up to.
double weight_at(const LinearArgs& args, std::int64_t output, std::int64_t k, int plane) {
  if (args.packing == Packing::float32)
    return static_cast<double>(
        static_cast<const float*>(args.w)[(output / kPanel * args.k + k) * kPanel + output % kPanel]);
  const std::int64_t padded = round_up(args.k, kTileColumns);
  const std::int64_t at =
      ((output / kPanel * args.planes + plane) * padded + k / 2 * 2) * kPanel + output % kPanel * 2 + k % 2;
  return static_cast<double>(bf16_to_float(static_cast<const std::uint16_t*>(args.w)[at]));
}

double tile_at(const Tiles& tiles, std::int64_t row, std::int64_t column, int plane) {
  return static_cast<double>(bf16_to_float(tiles.plane(plane)[tiles.offset(row, column)]));
}

double product(const LinearArgs& args, std::int64_t row, std::int64_t output) {
  double sum = 0;
  if (args.x_tiles.data == nullptr) {
    const float* x = args.x + row * args.x_stride;
    for (std::int64_t k = 0; k < args.k; ++k)
      sum += static_cast<double>(x[k]) * weight_at(args, output, k, 0);
    return sum;
  }
  for (int i = 0; i < args.planes; ++i)
    for (int j = 0; i + j < args.planes; ++j)
      for (std::int64_t k = 0; k < args.k; ++k)
        sum += tile_at(args.x_tiles, row, k, i) * weight_at(args, output, k, j);
  return sum;
}

void store_tiles(const Tiles& tiles, std::int64_t row, std::int64_t column, float value) {
  for (int plane = 0; plane < tiles.planes; ++plane) {
    const std::uint16_t bits = float_to_bf16(value);
    tiles.plane(plane)[tiles.offset(row, column)] = bits;
    value -= bf16_to_float(bits);
  }
}

// activation(sum + bias) to an output, or +=.
void finish(const LinearArgs& args, std::int64_t row, std::int64_t output, double sum) {
  if (args.bias != nullptr) sum += static_cast<double>(args.bias[output]);
  double value = activate(args.activation, sum);
  if (args.y != nullptr) {
    float& y = args.y[row * args.y_stride + output];
    if (args.adds) value += static_cast<double>(y);
    y = static_cast<float>(value);
  }
  if (args.y_tiles.data != nullptr) store_tiles(args.y_tiles, row, output, static_cast<float>(value));
}

void linear(const LinearArgs& args) noexcept {
  const std::int64_t end = std::min(args.n, (args.first_panel + args.panels) * kPanel);
  for (std::int64_t row = 0; row < args.rows; ++row)
    for (std::int64_t output = args.first_panel * kPanel; output < end; ++output)
      finish(args, row, output, product(args, row, output));
}

void rotate(const RotateArgs& args) noexcept {
  const bool are_halves = args.pairing == RotaryPairing::halves;
  for (std::int64_t row = 0; row < args.rows; ++row)
    for (std::int64_t head = 0; head < args.heads; ++head) {
      float* x = args.x + row * args.x_stride + head * args.head_dim;
      for (std::int64_t i = 0; i < args.pairs; ++i) {
        float &a = x[are_halves ? i : 2 * i], &b = x[are_halves ? i + args.pairs : 2 * i + 1];
        const auto cosine = static_cast<double>(args.cosines[row * args.pairs + i]),
                   sine = static_cast<double>(args.sines[row * args.pairs + i]),
                   first = static_cast<double>(a), second = static_cast<double>(b);
        a = static_cast<float>(first * cosine - second * sine);
        b = static_cast<float>(second * cosine + first * sine);
      }
    }
}

void gate(const GateArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row)
    for (std::int64_t i = 0; i < args.n; ++i) {
      const std::int64_t at = row * args.x_stride + i;
      const auto value = static_cast<float>(activate(args.activation, static_cast<double>(args.gate[at])) *
                                            static_cast<double>(args.up[at]));
      if (args.y != nullptr) args.y[row * args.y_stride + i] = value;
      if (args.y_tiles.data != nullptr)
        store_tiles(args.y_tiles, args.first_tile_row + row, args.first_tile_column + i, value);
    }
}

void norm(const NormArgs& args) noexcept {
  const auto count = static_cast<double>(args.n);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    double mean = 0, squares = 0;
    if (args.subtracts_mean) {
      for (std::int64_t i = 0; i < args.n; ++i) mean += static_cast<double>(x[i]);
      mean /= count;
    }
    for (std::int64_t i = 0; i < args.n; ++i)
      squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
    squares += squares - squares;  // in a row with infinity NaN, which would leave zeros beside it
    const double scale = 1 / std::sqrt(squares / count + static_cast<double>(args.epsilon));
    for (std::int64_t i = 0; i < args.n; ++i) {
      const double value = (static_cast<double>(x[i]) - mean) * scale * static_cast<double>(args.gain[i]);
      const auto y =
          static_cast<float>(args.bias != nullptr ? value + static_cast<double>(args.bias[i]) : value);
      if (args.y != nullptr) args.y[row * args.y_stride + i] = y;
      if (args.y_tiles.data != nullptr) store_tiles(args.y_tiles, args.first_tile_row + row, i, y);
    }
  }
}

struct FloatCache {
  static float key(const AttendArgs& args, std::int64_t position, std::int64_t i) {
    const auto* block = static_cast<const float*>(args.blocks[position / kKvBlockPositions]);
    return block[args.k_offset + i * kKvBlockPositions + position % kKvBlockPositions];
  }
  static float value(const AttendArgs& args, std::int64_t position, std::int64_t i) {
    const auto* block = static_cast<const float*>(args.blocks[position / kKvBlockPositions]);
    return block[args.v_offset + position % kKvBlockPositions * args.shape.padded() + i];
  }
};

std::int64_t bfloat16_key_at(const KvShape& shape, std::int64_t position, std::int64_t i) {
  const std::int64_t at = position % kKvBlockPositions;
  return (at / kPanel * shape.dim_padded() + i / 2 * 2) * kPanel + at % kPanel * 2 + i % 2;
}
std::int64_t bfloat16_value_at(std::int64_t position, std::int64_t i) {
  const std::int64_t at = position % kKvBlockPositions;
  return (i / kPanel * kKvBlockPositions + at / 2 * 2) * kPanel + i % kPanel * 2 + at % 2;
}

struct Bfloat16Cache {
  static float key(const AttendArgs& args, std::int64_t position, std::int64_t i) {
    const auto* block = static_cast<const std::uint16_t*>(args.blocks[position / kKvBlockPositions]);
    return bf16_to_float(block[args.k_offset + bfloat16_key_at(args.shape, position, i)]);
  }
  static float value(const AttendArgs& args, std::int64_t position, std::int64_t i) {
    const auto* block = static_cast<const std::uint16_t*>(args.blocks[position / kKvBlockPositions]);
    return bf16_to_float(block[args.v_offset + bfloat16_value_at(position, i)]);
  }
};

struct Int8Cache {
  static const std::int8_t* block(const AttendArgs& args, std::int64_t position, std::int64_t offset) {
    return static_cast<const std::int8_t*>(args.blocks[position / kKvBlockPositions]) + offset;
  }
  static float scale(const std::int8_t* codes, std::int64_t columns, std::int64_t position) {
    return reinterpret_cast<const float*>(codes + columns * kKvBlockPositions)[position % kKvBlockPositions];
  }
  static float key(const AttendArgs& args, std::int64_t position, std::int64_t i) {
    const std::int8_t* codes = block(args, position, args.k_offset);
    return static_cast<float>(codes[i * kKvBlockPositions + position % kKvBlockPositions]) *
           scale(codes, args.shape.head_dim, position);
  }
  static float value(const AttendArgs& args, std::int64_t position, std::int64_t i) {
    const std::int8_t* codes = block(args, position, args.v_offset);
    return static_cast<float>(codes[position % kKvBlockPositions * args.shape.padded() + i]) *
           scale(codes, args.shape.padded(), position);
  }
};

template <typename Cache>
double plain_score(const AttendArgs& args, const float* q, std::int64_t position) {
  double sum = 0;
  for (std::int64_t i = 0; i < args.shape.head_dim; ++i)
    sum += static_cast<double>(q[i]) * static_cast<double>(Cache::key(args, position, i));
  return sum * static_cast<double>(args.scale);
}

double capped(double x, float soft_cap) {
  return soft_cap == 0 ? x : static_cast<double>(soft_cap) * std::tanh(x / static_cast<double>(soft_cap));
}

template <typename Cache>
double score(const AttendArgs& args, const float* q, std::int64_t row, std::int64_t position) {
  return capped(plain_score<Cache>(args, q, position), args.soft_cap) +
         static_cast<double>(args.slope_of(row)) * static_cast<double>(position - args.position_of(row));
}

template <typename Cache>
void attend_of(const AttendArgs& args) {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    float q[kMaxHeadDim];
    for (std::int64_t i = 0; i < args.shape.head_dim; ++i)
      q[i] = args.q != nullptr ? args.q[row * args.q_stride + i]
                               : static_cast<float>(tile_at(args.q_tiles, args.first_tile_row + row,
                                                            args.q_first_column + i, 0));
    const std::int64_t last = args.position_of(row);
    const std::int64_t first = std::max(args.first_key, args.window > 0 ? last - args.window + 1 : 0);
    double highest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t key = first; key <= last; ++key)
      highest = std::max(highest, score<Cache>(args, q, row, key));
    double sums[kMaxHeadDim] = {};
    for (std::int64_t key = first; key <= last; ++key) {
      const double weight = std::exp(score<Cache>(args, q, row, key) - highest);
      total += weight;
      for (std::int64_t i = 0; i < args.shape.head_dim; ++i)
        sums[i] += weight * static_cast<double>(Cache::value(args, key, i));
    }
    // A padding row sees no key; its output is zero and nobody reads it.
    for (std::int64_t i = 0; i < args.shape.head_dim; ++i) {
      const float value = total == 0 ? 0.0F : static_cast<float>(sums[i] / total);
      if (args.out != nullptr) args.out[row * args.out_stride + i] = value;
      if (args.out_tiles.data != nullptr)
        store_tiles(args.out_tiles, args.tile_row_of(row), args.tile_column_of(row) + i, value);
    }
  }
}

void attend(const AttendArgs& args) noexcept {
  attend_of<FloatCache>(args);
}
void attend_bfloat16(const AttendArgs& args) noexcept {
  attend_of<Bfloat16Cache>(args);
}

void attend_int8(const AttendArgs& args) noexcept {
  attend_of<Int8Cache>(args);
}

// One key or value to codes, `step` apart; returns their scale.
float store_codes(const float* x, std::int64_t n, std::int8_t* codes, std::int64_t step) {
  float largest = 0;
  bool is_finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::fabs(x[i]));
    is_finite = is_finite && std::isfinite(x[i]);
  }
  const float inverse = is_finite && largest >= 1e-35F ? 127.0F / largest : 0.0F;
  for (std::int64_t i = 0; i < n; ++i)
    codes[i * step] = is_finite ? static_cast<std::int8_t>(std::nearbyint(x[i] * inverse)) : std::int8_t{0};
  if (!is_finite) return kNaN;
  return inverse > 0 ? largest / 127.0F : 0.0F;
}

void store_int8(const StoreArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    auto* block = static_cast<std::int8_t*>(args.blocks[position / kKvBlockPositions]);
    const auto scales = [&](std::int64_t offset, std::int64_t columns) {
      return reinterpret_cast<float*>(block + offset + columns * kKvBlockPositions);
    };
    scales(args.k_offset, args.shape.head_dim)[at] = store_codes(
        args.k + row * args.stride, args.shape.head_dim, block + args.k_offset + at, kKvBlockPositions);
    std::int8_t* values = block + args.v_offset + at * args.shape.padded();
    std::fill_n(values, args.shape.padded(), std::int8_t{0});
    scales(args.v_offset, args.shape.padded())[at] =
        store_codes(args.v + row * args.stride, args.shape.head_dim, values, 1);
  }
}

void store_bfloat16(const StoreArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const std::int64_t position = args.first_position + row;
    auto* block = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]);
    if (position % kKvBlockPositions == 0)
      std::fill_n(block + args.v_offset, args.shape.padded() * kKvBlockPositions, std::uint16_t{0});
    const auto element = [&](const float* from, std::int64_t column, std::int64_t i) {
      return from != nullptr ? float_to_bf16(from[row * args.stride + i])
                             : args.tiles.data[args.tiles.offset(args.first_tile_row + row, column + i)];
    };
    for (std::int64_t i = 0; i < args.shape.head_dim; ++i) {
      block[args.k_offset + bfloat16_key_at(args.shape, position, i)] = element(args.k, args.k_column, i);
      block[args.v_offset + bfloat16_value_at(position, i)] = element(args.v, args.v_column, i);
    }
    for (std::int64_t i = args.shape.head_dim; i < args.shape.dim_padded(); ++i)
      block[args.k_offset + bfloat16_key_at(args.shape, position, i)] = 0;
  }
}

RowCode code_of_row(const QuantizeArgs& args, const float* x) {
  if (args.fixed_scale > 0) return {args.fixed_scale, 1.0F / args.fixed_scale, args.fixed_zero_point};
  float low = 0, high = 0;
  for (std::int64_t i = 0; i < args.k; ++i) {
    const float value = args.factors == nullptr ? x[i] : x[i] * args.factors[i];
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return row_code(low, high);
}

void quantize_ranges(const QuantizeArgs& args) {
  const std::int64_t padded = round_up(args.k, kInt8Columns);
  auto* codes = reinterpret_cast<std::int8_t*>(args.codes.data);
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    const RowCode row_code = code_of_row(args, x);
    args.absmax[row] = 127.0F * row_code.scale;
    if (args.zero_points != nullptr) args.zero_points[row] = row_code.zero_point;
    for (std::int64_t i = 0; i < padded; ++i) {
      float code = 0;
      if (i < args.k) {
        const float value = args.factors == nullptr ? x[i] : x[i] * args.factors[i];
        if (!std::isfinite(value)) args.absmax[row] = kNaN;
        code = std::nearbyint(value * row_code.inverse) + static_cast<float>(row_code.zero_point);
        code = std::min(code > -128.0F ? code : -128.0F, 127.0F);
      }
      codes[i / kInt8Columns * args.codes.strip() * 2 + row * kInt8Columns + i % kInt8Columns] =
          static_cast<std::int8_t>(code);
    }
  }
}

void quantize(const QuantizeArgs& args) noexcept {
  if (args.fixed_scale > 0 || args.zero_points != nullptr) return quantize_ranges(args);
  const std::int64_t padded = round_up(args.k, kInt8Columns);
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    const auto input = [&](std::int64_t i) {
      return args.factors == nullptr ? x[i] : x[i] * args.factors[i];
    };
    const auto value = [&](std::int64_t i) {
      return args.threshold > 0 ? f16_to_float(float_to_f16(input(i))) : input(i);
    };
    const auto counts = [&](std::int64_t i) {
      return args.threshold == 0 || std::fabs(value(i)) < args.threshold;
    };
    float largest = 0;
    bool is_finite = true;
    for (std::int64_t i = 0; i < args.k; ++i) {
      if (counts(i)) largest = std::max(largest, std::fabs(value(i)));
      is_finite = is_finite && std::isfinite(std::isinf(args.threshold) ? value(i) : input(i));
    }
    args.absmax[row] = is_finite ? largest : kNaN;
    const float scale = largest > 0 ? 127.0F / largest : 0.0F;
    auto* codes = reinterpret_cast<std::int8_t*>(args.codes.data);
    for (std::int64_t i = 0; i < padded; ++i) {
      const bool is_zero =
          i >= args.k || !is_finite || !counts(i) || (args.is_outlier != nullptr && args.is_outlier[i] != 0);
      codes[i / kInt8Columns * args.codes.strip() * 2 + row * kInt8Columns + i % kInt8Columns] =
          is_zero ? std::int8_t{0} : static_cast<std::int8_t>(std::nearbyint(value(i) * scale));
    }
  }
}

void linear_int8(const Int8Args& args) noexcept {
  const LinearArgs& to = args.to;
  const std::int64_t padded = round_up(to.k, kInt8Columns);
  const auto* w = static_cast<const std::int8_t*>(to.w);
  const auto* codes = reinterpret_cast<const std::int8_t*>(to.x_tiles.data);
  const std::int64_t end = std::min(to.n, (to.first_panel + to.panels) * kPanel);
  for (std::int64_t row = 0; row < to.rows; ++row)
    for (std::int64_t output = to.first_panel * kPanel; output < end; ++output) {
      const auto weight = [&](std::int64_t k) {
        return std::int32_t{w[output / kPanel * padded * kPanel + int8_offset(k, output % kPanel)]};
      };
      std::int32_t sum = args.x_zero == nullptr ? 0 : -args.x_zero[row] * args.w_sums[output];
      for (std::int64_t k = 0; k < to.k; ++k)
        sum += codes[k / kInt8Columns * to.x_tiles.strip() * 2 + row * kInt8Columns + k % kInt8Columns] *
               weight(k);
      float value = static_cast<float>(sum) * (args.x_absmax[row] * kInt8Unit * args.w_absmax[output]);
      const float unit = args.w_absmax[output] * (1.0F / 127.0F);
      for (std::int64_t i = 0; i < args.outlier_count; ++i) {
        const std::int64_t k = args.outliers[i];
        value += to.x[row * to.x_stride + k] * (static_cast<float>(weight(k)) * unit);
      }
      finish(to, row, output, static_cast<double>(value));
    }
}

float scale_at(const BlockScales& scales, std::int64_t i) {
  return scales.are_bfloat16 ? bf16_to_float(static_cast<const std::uint16_t*>(scales.data)[i])
                             : static_cast<const float*>(scales.data)[i];
}

void expand(const ExpandArgs& args) noexcept {
  const std::int64_t groups = (args.k_padded + args.group - 1) / args.group;
  for (std::int64_t panel = 0; panel < args.panels; ++panel) {
    const std::uint8_t* codes = args.codes + panel * args.k_padded / 2 * kPanel;
    const BlockScales scales = args.scales.from(panel * groups * kPanel);
    const bool is_float32 = args.packing == Packing::float32;
    for (std::int64_t k = 0; k < (is_float32 ? args.k : args.k_padded); ++k)
      for (std::int64_t j = 0; j < kPanel; ++j) {
        const int code = codes[code_offset(k, j)] >> code_shift(k) & 15;
        const float value = args.codebook[code] * scale_at(scales, k / args.group * kPanel + j);
        if (is_float32)
          static_cast<float*>(args.out)[(panel * args.k + k) * kPanel + j] = value;
        else
          static_cast<std::uint16_t*>(
              args.out)[(panel * args.k_padded + k / 2 * 2) * kPanel + j * 2 + k % 2] = float_to_bf16(value);
      }
  }
}

void linear_four_bit(const FourBitArgs& args) noexcept {
  const LinearArgs& to = args.to;
  const ExpandArgs& weights = args.weights;
  const std::int64_t groups = (weights.k_padded + weights.group - 1) / weights.group;
  const std::int64_t end = std::min(to.n, (to.first_panel + to.panels) * kPanel);
  for (std::int64_t row = 0; row < to.rows; ++row)
    for (std::int64_t output = to.first_panel * kPanel; output < end; ++output) {
      const std::int64_t panel = output / kPanel, j = output % kPanel;
      const std::uint8_t* codes = weights.codes + panel * weights.k_padded / 2 * kPanel;
      const BlockScales scales = weights.scales.from(panel * groups * kPanel);
      double sum = 0;
      for (std::int64_t k = 0; k < weights.k; ++k) {
        const int code = codes[code_offset(k, j)] >> code_shift(k) & 15;
        const float weight = weights.codebook[code] * scale_at(scales, k / weights.group * kPanel + j);
        sum += static_cast<double>(to.x[row * to.x_stride + k]) * static_cast<double>(weight);
      }
      finish(to, row, output, sum);
    }
}

void quantize_groups(const QuantizeGroupsArgs& args) noexcept {
  const std::int64_t groups = (args.k_padded + args.group - 1) / args.group;
  const CodedRows& out = args.out;
  for (std::int64_t row = args.first_row; row < args.first_row + args.rows; ++row) {
    const auto value = [&](std::int64_t i) {
      if (i >= args.k) return 0.0F;
      return args.x != nullptr ? args.x[row * args.x_stride + i]
                               : bf16_to_float(args.x_tiles.data[args.x_tiles.offset(row, i)]);
    };
    bool is_finite = true;
    for (std::int64_t i = 0; i < args.k; ++i) is_finite = is_finite && std::isfinite(value(i));
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t first = group * args.group, end = std::min(first + args.group, args.k_padded);
      float largest = 0;
      for (std::int64_t i = first; i < end; ++i) largest = std::max(largest, std::fabs(value(i)));
      const float scale = largest > 0 ? 127.0F / largest : 0.0F;
      std::int32_t sum = 0;
      for (std::int64_t i = first; i < end; ++i) {
        const auto code = static_cast<std::int8_t>(std::max(-127.0F, std::nearbyint(value(i) * scale)));
        out.codes[out.offset(row, i)] = code;
        sum += code;
      }
      out.scales[group * out.capacity + row] = is_finite ? largest * (1.0F / 127.0F) * args.unit : kNaN;
      out.starts[group * out.capacity + row] = -128 * sum;
    }
    for (std::int64_t i = args.k_padded; i % kInt8Columns != 0; ++i) out.codes[out.offset(row, i)] = 0;
  }
}

void linear_coded_inputs(const Int8ActivationsArgs& args) noexcept {
  const LinearArgs& to = args.to;
  const ExpandArgs& weights = args.weights;
  const std::int64_t groups = (weights.k_padded + weights.group - 1) / weights.group;
  const std::int64_t end = std::min(to.n, (to.first_panel + to.panels) * kPanel);
  for (std::int64_t row = 0; row < to.rows; ++row)
    for (std::int64_t output = to.first_panel * kPanel; output < end; ++output) {
      const std::int64_t panel = output / kPanel, j = output % kPanel;
      const std::uint8_t* codes = weights.codes + panel * weights.k_padded / 2 * kPanel;
      float sum = 0;
      for (std::int64_t group = 0; group < groups; ++group) {
        std::int32_t dot = 0;
        for (std::int64_t k = group * weights.group;
             k < std::min((group + 1) * weights.group, weights.k_padded); ++k)
          dot += args.x.codes[args.x.offset(row, k)] *
                 args.codebook[codes[code_offset(k, j)] >> code_shift(k) & 15];
        const float scale = args.x.scales[group * args.x.capacity + row];
        sum = std::fma(static_cast<float>(dot),
                       scale * scale_at(weights.scales, (panel * groups + group) * kPanel + j), sum);
      }
      finish(to, row, output, static_cast<double>(sum));
    }
}

void mark_candidates(const CandidateArgs& args) noexcept {
  const auto bound = [&](std::int64_t i) {
    return args.x_norm * args.error_norms[i] + args.x_error * args.code_norms[i];
  };
  float best = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < args.n; ++i) best = std::max(best, args.outputs[i] - bound(i));
  std::fill_n(args.marks, (args.n + kPanel - 1) / kPanel, std::uint8_t{0});
  for (std::int64_t i = 0; i < args.n; ++i)
    if (args.outputs[i] + bound(i) >= best) args.marks[i / kPanel] = 1;
}

void bend_logits(float* x, std::int64_t n, float scale, float soft_cap) noexcept {
  for (std::int64_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(capped(static_cast<double>(scale) * static_cast<double>(x[i]), soft_cap));
}

std::int64_t argmax(const float* x, std::int64_t n) noexcept {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return -1;
    if (x[i] > x[best]) best = i;
  }
  return std::isfinite(x[best]) ? best : -1;
}

double log_sum_exp(const float* x, std::int64_t n) noexcept {
  const auto highest = static_cast<double>(*std::max_element(x, x + n));
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - highest);
  return highest + std::log(sum);
}

}  // namespace

void finish_output(const LinearArgs& args, std::int64_t row, std::int64_t output, double sum) {
  finish(args, row, output, sum);
}

void fill(KernelTable& table) {
  table.linear = table.linear_tiles = linear;
  table.norm = norm;
  table.rotate = rotate;
  table.gate = gate;
  table.attend = attend;
  table.attend_bfloat16 = attend_bfloat16;
  table.attend_int8 = attend_int8;
  table.store_bfloat16 = store_bfloat16;
  table.store_int8 = store_int8;
  table.quantize = quantize;
  table.linear_int8 = linear_int8;
  table.expand = expand;
  table.linear_four_bit = linear_four_bit;
  table.expand_grouped = expand_grouped;
  table.linear_grouped = nullptr;
  table.quantize_grouped = quantize_grouped;
  table.linear_grouped_int8 = linear_grouped_int8;
  table.four_bit_rows = kFourBitRows;
  table.quantize_groups = quantize_groups;
  table.linear_coded_inputs = linear_coded_inputs;
  table.bend_logits = bend_logits;
  table.argmax = argmax;
  table.log_sum_exp = log_sum_exp;
  table.logits = logit_reducer();
  table.mark_candidates = mark_candidates;
  table.end_attending = []() noexcept {};
  for (const char** origin :
       {&table.linear_origin, &table.linear_tiles_origin, &table.norm_origin, &table.attend_origin,
        &table.attend_bfloat16_origin, &table.attend_int8_origin, &table.store_origin,
        &table.store_int8_origin, &table.argmax_origin, &table.log_sum_exp_origin, &table.int8_origin,
        &table.expand_origin, &table.rotate_origin, &table.gate_origin})
    *origin = "scalar";
  table.uses_tiles = false;
}

}  // namespace assay::cpu::scalar
