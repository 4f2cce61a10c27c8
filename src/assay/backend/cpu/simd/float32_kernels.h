// The float32 kernels, written once over a vector type `Vec` that the including ISA file defines in its own
// anonymous namespace (as it does with everything here: two ISA files must never share a function). Not a
// header for others.
//
// `Vec` has kWidth floats, kRegisters registers, and: load, store, load_n, store_n (the first n floats, zero
// beyond), load_bf16, set, fma, add, sub, mul, div, max, round, scale_by_power (x * 2^n), select_less (a < b
// ? x : y).

constexpr int kParts = kPanel / Vec::kWidth;  // vectors per panel

// C[Rows, 16 * Panels] = A[Rows, k] * B, B given as panels of [k, 16] at the given distances. One chain of
// fused multiply-adds along k for each output.
template <int Rows, int Panels, typename Weight>
void multiply_block(const float* a, std::int64_t a_stride, const Weight* b, std::int64_t k_stride,
                    std::int64_t panel_stride, std::int64_t k_count, float* c, std::int64_t c_stride) {
  Vec sums[Rows][Panels * kParts];
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < Panels * kParts; ++j) sums[row][j] = Vec::set(0.0F);
  for (std::int64_t k = 0; k < k_count; ++k) {
    Vec weights[Panels * kParts];
    for (int panel = 0; panel < Panels; ++panel)
      for (int part = 0; part < kParts; ++part)
        weights[panel * kParts + part] =
            Vec::load(b + panel * panel_stride + k * k_stride + part * Vec::kWidth);
    for (int row = 0; row < Rows; ++row) {
      const Vec x = Vec::set(a[row * a_stride + k]);
      for (int j = 0; j < Panels * kParts; ++j) sums[row][j] = Vec::fma(x, weights[j], sums[row][j]);
    }
  }
  for (int row = 0; row < Rows; ++row)
    for (int j = 0; j < Panels * kParts; ++j) sums[row][j].store(c + row * c_stride + j * Vec::kWidth);
}

template <int Panels, typename Weight>
void multiply_rows(std::int64_t rows, const float* a, std::int64_t a_stride, const Weight* b,
                   std::int64_t k_stride, std::int64_t panel_stride, std::int64_t k, float* c,
                   std::int64_t c_stride) {
  switch (rows) {
    case 1:
      return multiply_block<1, Panels>(a, a_stride, b, k_stride, panel_stride, k, c, c_stride);
    case 2:
      return multiply_block<2, Panels>(a, a_stride, b, k_stride, panel_stride, k, c, c_stride);
    case 3:
      return multiply_block<3, Panels>(a, a_stride, b, k_stride, panel_stride, k, c, c_stride);
    case 4:
      return multiply_block<4, Panels>(a, a_stride, b, k_stride, panel_stride, k, c, c_stride);
    case 5:
      return multiply_block<5, Panels>(a, a_stride, b, k_stride, panel_stride, k, c, c_stride);
    default:
      return multiply_block<6, Panels>(a, a_stride, b, k_stride, panel_stride, k, c, c_stride);
  }
}

// Panels that fit the registers beside `rows` rows of sums.
constexpr int panels_at_once(std::int64_t rows) {
  if (Vec::kRegisters == 32) return kGroup;       // 6 rows x 4 panels = 24 sums + 4 weights + 1
  return rows == 1 ? kGroup : rows == 2 ? 2 : 1;  // 6 rows x 2 vectors = 12 sums + 2 weights + 1, of 16
}

// The same for up to 6 rows and up to 4 panels.
template <typename Weight>
void multiply(std::int64_t rows, std::int64_t panels, const float* a, std::int64_t a_stride, const Weight* b,
              std::int64_t k_stride, std::int64_t panel_stride, std::int64_t k, float* c,
              std::int64_t c_stride) {
  const int step = panels_at_once(rows);
  std::int64_t panel = 0;
  for (; step == kGroup && panel + kGroup <= panels; panel += kGroup)
    multiply_rows<kGroup>(rows, a, a_stride, b + panel * panel_stride, k_stride, panel_stride, k,
                          c + panel * kPanel, c_stride);
  for (; step >= 2 && panel + 2 <= panels; panel += 2)
    multiply_rows<2>(rows, a, a_stride, b + panel * panel_stride, k_stride, panel_stride, k,
                     c + panel * kPanel, c_stride);
  for (; panel < panels; ++panel)
    multiply_rows<1>(rows, a, a_stride, b + panel * panel_stride, k_stride, panel_stride, k,
                     c + panel * kPanel, c_stride);
}

// exp(x) to about 1 unit in the last place: Cody and Waite's reduction and the polynomial of Cephes' expf
// (Moshier). Below -87.3 the result is exactly zero, which masked scores rely on.
Vec exponential(Vec x) {
  const Vec clamped = Vec::max(Vec::min(x, Vec::set(88.37F)), Vec::set(-87.3F));
  const Vec n = Vec::round(Vec::mul(clamped, Vec::set(1.44269504088896341F)));
  Vec r = Vec::fma(n, Vec::set(-0.693359375F), clamped);
  r = Vec::fma(n, Vec::set(2.12194440e-4F), r);
  Vec p = Vec::set(1.9875691500e-4F);
  p = Vec::fma(p, r, Vec::set(1.3981999507e-3F));
  p = Vec::fma(p, r, Vec::set(8.3334519073e-3F));
  p = Vec::fma(p, r, Vec::set(4.1665795894e-2F));
  p = Vec::fma(p, r, Vec::set(1.6666665459e-1F));
  p = Vec::fma(p, r, Vec::set(5.0000001201e-1F));
  p = Vec::add(Vec::fma(Vec::mul(r, r), p, r), Vec::set(1.0F));
  // select_less is false for NaN, so NaN goes in and NaN comes out.
  return Vec::select_less(x, Vec::set(-87.3F), Vec::set(0.0F), Vec::nan_from(x, Vec::scale_by_power(p, n)));
}

Vec sigmoid(Vec x) {
  const Vec one = Vec::set(1.0F);
  return Vec::div(one, Vec::add(one, exponential(Vec::sub(Vec::set(0.0F), x))));
}

// Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7.
Vec error_function(Vec x) {
  const Vec one = Vec::set(1.0F), magnitude = Vec::max(x, Vec::sub(Vec::set(0.0F), x));
  const Vec t = Vec::div(one, Vec::fma(magnitude, Vec::set(0.3275911F), one));
  Vec p = Vec::set(1.061405429F);
  p = Vec::fma(p, t, Vec::set(-1.453152027F));
  p = Vec::fma(p, t, Vec::set(1.421413741F));
  p = Vec::fma(p, t, Vec::set(-0.284496736F));
  p = Vec::fma(p, t, Vec::set(0.254829592F));
  const Vec tail = Vec::mul(Vec::mul(p, t), exponential(Vec::sub(Vec::set(0.0F), Vec::mul(x, x))));
  const Vec positive = Vec::sub(one, tail);
  return Vec::select_less(x, Vec::set(0.0F), Vec::sub(Vec::set(0.0F), positive), positive);
}

Vec activate(Activation activation, Vec x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return Vec::select_less(x, Vec::set(0.0F), Vec::set(0.0F), x);
    case Activation::silu:
      return Vec::mul(x, sigmoid(x));
    case Activation::tanh:
      return Vec::sub(Vec::mul(Vec::set(2.0F), sigmoid(Vec::mul(Vec::set(2.0F), x))), Vec::set(1.0F));
    // 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): one exponential, no
    // cancellation.
    case Activation::gelu_tanh: {
      const Vec inner = Vec::fma(Vec::mul(Vec::mul(x, x), x), Vec::set(0.044715F), x);
      return Vec::mul(x, sigmoid(Vec::mul(inner, Vec::set(1.5957691216057308F))));
    }
    case Activation::gelu_erf: {
      const Vec half = Vec::mul(Vec::set(0.5F), x);
      return Vec::fma(half, error_function(Vec::mul(x, Vec::set(0.70710678118654752F))), half);
    }
    case Activation::gelu_quick:
      return Vec::mul(x, sigmoid(Vec::mul(x, Vec::set(1.702F))));
  }
  return x;
}

// y[rows, columns] = activation(tile + bias), or +=; the last vector of a row may be partial.
void finish_tile(const LinearArgs& args, const float* tile, std::int64_t tile_stride, std::int64_t first_row,
                 std::int64_t rows, std::int64_t first_output, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* y = args.y + (first_row + row) * args.y_stride + first_output;
    const float* sums = tile + row * tile_stride;
    for (std::int64_t j = 0; j < columns; j += Vec::kWidth) {
      const std::int64_t count = columns - j < Vec::kWidth ? columns - j : Vec::kWidth;
      Vec value = Vec::load(sums + j);
      if (args.bias != nullptr) value = Vec::add(value, Vec::load_n(args.bias + first_output + j, count));
      value = activate(args.activation, value);
      if (args.adds) value = Vec::add(Vec::load_n(y + j, count), value);
      value.store_n(y + j, count);
    }
  }
}

template <typename Weight>
void linear_of(const LinearArgs& args) {
  constexpr std::int64_t kRows = 6;
  alignas(64) float tile[kRows * kGroup * kPanel];
  const std::int64_t panel_stride = args.k * kPanel, last = args.first_panel + args.panels;
  const Weight* w = static_cast<const Weight*>(args.w);
  // A group of panels stays in the second-level cache while all rows pass over it: weights are read once.
  for (std::int64_t panel = args.first_panel; panel < last; panel += kGroup) {
    const std::int64_t panels = last - panel < kGroup ? last - panel : kGroup, first_output = panel * kPanel;
    const std::int64_t columns =
        args.n - first_output < panels * kPanel ? args.n - first_output : panels * kPanel;
    for (std::int64_t row = 0; row < args.rows; row += kRows) {
      const std::int64_t rows = args.rows - row < kRows ? args.rows - row : kRows;
      multiply(rows, panels, args.x + row * args.x_stride, args.x_stride, w + panel * panel_stride, kPanel,
               panel_stride, args.k, tile, kGroup * kPanel);
      finish_tile(args, tile, kGroup * kPanel, row, rows, first_output, columns);
    }
  }
}

void linear(const LinearArgs& args) noexcept {
  if (args.is_bfloat16)
    linear_of<std::uint16_t>(args);
  else
    linear_of<float>(args);
}

// Sums in a fixed order: lanes along the row, then lane by lane.
float sum_lanes(Vec v) {
  alignas(64) float lanes[Vec::kWidth];
  v.store(lanes);
  for (int half = Vec::kWidth / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}
float max_lanes(Vec v) {
  alignas(64) float lanes[Vec::kWidth];
  v.store(lanes);
  float highest = lanes[0];
  for (int i = 1; i < Vec::kWidth; ++i) highest = lanes[i] > highest ? lanes[i] : highest;
  return highest;
}

void norm(const NormArgs& args) noexcept {
  const float count = static_cast<float>(args.n);
  const std::int64_t whole = args.n / Vec::kWidth * Vec::kWidth, rest = args.n - whole;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    float mean = 0;
    if (args.subtracts_mean) {
      Vec sum = Vec::set(0.0F);
      for (std::int64_t i = 0; i < whole; i += Vec::kWidth) sum = Vec::add(sum, Vec::load(x + i));
      if (rest > 0) sum = Vec::add(sum, Vec::load_n(x + whole, rest));
      mean = sum_lanes(sum) / count;
    }
    const Vec center = Vec::set(mean);
    Vec squares = Vec::set(0.0F);
    for (std::int64_t i = 0; i < whole; i += Vec::kWidth) {
      const Vec d = Vec::sub(Vec::load(x + i), center);
      squares = Vec::fma(d, d, squares);
    }
    float tail = 0;
    for (std::int64_t i = whole; i < args.n; ++i) tail += (x[i] - mean) * (x[i] - mean);
    const Vec scale =
        Vec::div(Vec::set(1.0F), Vec::sqrt(Vec::set((sum_lanes(squares) + tail) / count + args.epsilon)));
    for (std::int64_t i = 0; i < args.n; i += Vec::kWidth) {
      const std::int64_t n = args.n - i < Vec::kWidth ? args.n - i : Vec::kWidth;
      const Vec unit = Vec::mul(Vec::sub(Vec::load_n(x + i, n), center), scale);
      const Vec gain = Vec::load_n(args.gain + i, n);
      const Vec value =
          args.bias != nullptr ? Vec::fma(unit, gain, Vec::load_n(args.bias + i, n)) : Vec::mul(unit, gain);
      value.store_n(y + i, n);
    }
  }
}

// Running softmax of one attend call (Milakov and Gimelshein 2018; Dao et al. 2022).
struct Softmax {
  float highest[kAttendRows];
  float total[kAttendRows];
};

// Masks a row of scores to the keys [first, last] of its block, scales it, and turns it into weights relative
// to the running maximum. Returns what earlier sums must be multiplied with.
float weigh_row(float* scores, std::int64_t first, std::int64_t last, float scale, int row, Softmax& state) {
  constexpr float kMasked = -__builtin_huge_valf();
  for (std::int64_t j = 0; j < kKvBlockPositions; ++j)
    if (j < first || j > last) scores[j] = kMasked;
  Vec best = Vec::set(kMasked);
  for (std::int64_t j = 0; j < kKvBlockPositions; j += Vec::kWidth) {
    const Vec scaled = Vec::mul(Vec::load(scores + j), Vec::set(scale));
    scaled.store(scores + j);
    best = Vec::max(best, scaled);
  }
  const float block_best = max_lanes(best),
              highest = block_best > state.highest[row] ? block_best : state.highest[row];
  if (highest == kMasked) {  // no key yet: a padding row
    for (std::int64_t j = 0; j < kKvBlockPositions; ++j) scores[j] = 0;
    return 1;
  }
  Vec sum = Vec::set(0.0F);
  for (std::int64_t j = 0; j < kKvBlockPositions; j += Vec::kWidth) {
    const Vec weight = exponential(Vec::sub(Vec::load(scores + j), Vec::set(highest)));
    weight.store(scores + j);
    sum = Vec::add(sum, weight);
  }
  alignas(64) float factor[Vec::kWidth];
  exponential(Vec::set(state.highest[row] - highest)).store(factor);
  state.total[row] = state.total[row] * factor[0] + sum_lanes(sum);
  state.highest[row] = highest;
  return factor[0];
}

void attend(const AttendArgs& args) noexcept {
  constexpr std::int64_t kBlock = kKvBlockPositions;
  alignas(64) float scores[kAttendRows * kBlock];
  alignas(64) float block_out[kAttendRows * kMaxHeadDim];
  alignas(64) float out[kAttendRows * kMaxHeadDim];
  Softmax state;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    state.highest[row] = -__builtin_huge_valf();
    state.total[row] = 0;
    for (std::int64_t i = 0; i < args.padded; ++i) out[row * kMaxHeadDim + i] = 0;
  }
  const std::int64_t last_position = args.first_position + args.rows - 1;
  const std::int64_t oldest = args.window > 0 ? args.first_position - args.window + 1 : 0;
  const std::int64_t first_key = oldest > args.first_key ? oldest : args.first_key;
  for (std::int64_t block = first_key / kBlock; block <= last_position / kBlock; ++block) {
    const float* base = args.blocks[block];
    const std::int64_t begin = block * kBlock,
                       keys = last_position - begin + 1 < kBlock ? last_position - begin + 1 : kBlock;
    multiply(args.rows, kBlock / kPanel, args.q, args.q_stride, base + args.k_offset, kBlock, kPanel,
             args.head_dim, scores, kBlock);
    float factors[kAttendRows];
    for (std::int64_t row = 0; row < args.rows; ++row) {
      const std::int64_t last = args.first_position + row;
      const std::int64_t in_window = args.window > 0 ? last - args.window + 1 : 0;
      const std::int64_t first = in_window > args.first_key ? in_window : args.first_key;
      factors[row] = weigh_row(scores + row * kBlock, first - begin, last - begin, args.scale,
                               static_cast<int>(row), state);
    }
    // Keys beyond the last visible one have weight zero: leaving them out changes no bit.
    for (std::int64_t panel = 0; panel < args.padded / kPanel; panel += kGroup) {
      const std::int64_t panels =
          args.padded / kPanel - panel < kGroup ? args.padded / kPanel - panel : kGroup;
      multiply(args.rows, panels, scores, kBlock, base + args.v_offset + panel * kPanel, args.padded, kPanel,
               keys, block_out + panel * kPanel, kMaxHeadDim);
    }
    for (std::int64_t row = 0; row < args.rows; ++row)
      for (std::int64_t i = 0; i < args.padded; i += Vec::kWidth) {
        float* sum = out + row * kMaxHeadDim + i;
        Vec::fma(Vec::load(sum), Vec::set(factors[row]), Vec::load(block_out + row * kMaxHeadDim + i))
            .store(sum);
      }
  }
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const Vec total = Vec::set(state.total[row] > 0 ? state.total[row] : 1.0F);
    for (std::int64_t i = 0; i < args.head_dim; i += Vec::kWidth) {
      const std::int64_t n = args.head_dim - i < Vec::kWidth ? args.head_dim - i : Vec::kWidth;
      Vec::div(Vec::load(out + row * kMaxHeadDim + i), total)
          .store_n(args.out + row * args.out_stride + i, n);
    }
  }
}

std::int64_t argmax(const float* x, std::int64_t n) noexcept {
  const std::int64_t whole = n / Vec::kWidth * Vec::kWidth;
  Vec best = Vec::set(x[0]), sums = Vec::set(0.0F);
  for (std::int64_t i = 0; i < whole; i += Vec::kWidth) {
    const Vec v = Vec::load(x + i);
    best = Vec::max(best, v);
    sums = Vec::add(sums, Vec::sub(v, v));  // NaN or infinity leaves NaN behind
  }
  float highest = max_lanes(best), poison = sum_lanes(sums);
  for (std::int64_t i = whole; i < n; ++i) {
    highest = x[i] > highest ? x[i] : highest;
    poison += x[i] - x[i];
  }
  if (poison != poison) {  // the slow, exact way
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (x[i] != x[i]) return -1;
      if (x[i] > x[at]) at = i;
    }
    return at;
  }
  for (std::int64_t i = 0; i < n; ++i)
    if (x[i] == highest) return i;
  return -1;
}

double log_sum_exp(const float* x, std::int64_t n) noexcept {
  const std::int64_t whole = n / Vec::kWidth * Vec::kWidth;
  Vec best = Vec::set(x[0]);
  for (std::int64_t i = 0; i < whole; i += Vec::kWidth) best = Vec::max(best, Vec::load(x + i));
  float highest = max_lanes(best);
  for (std::int64_t i = whole; i < n; ++i) highest = x[i] > highest ? x[i] : highest;
  double sum = 0;
  const Vec top = Vec::set(highest);
  for (std::int64_t i = 0; i < n; i += Vec::kWidth) {
    const std::int64_t count = n - i < Vec::kWidth ? n - i : Vec::kWidth;
    alignas(64) float lanes[Vec::kWidth];
    exponential(Vec::sub(Vec::load_n(x + i, count), top)).store(lanes);
    for (std::int64_t j = 0; j < count; ++j) sum += static_cast<double>(lanes[j]);
  }
  return static_cast<double>(highest) + log_of(sum);
}
