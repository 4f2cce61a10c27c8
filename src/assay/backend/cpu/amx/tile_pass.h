// Products on tiles of rows in whole blocks of 32: which rows, panels and inputs follow each other, and how
// sums become outputs meanwhile. Included by kernels.cpp, inside its anonymous namespace.

// Inputs go through in chunks: a pair of panels fills half of the nearest cache (48 KB) and stays there while
// all rows pass over it; sums are loaded and stored between them.
constexpr std::int64_t kChunkSteps = 12;
// Panels of a turn. Inputs that stay in the second-level cache as a whole are gone through with each pair of
// panels, of others a chunk serves many panels while it is near.
constexpr std::int64_t kNearBytes = std::int64_t{1} << 20, kNearTurnPanels = 2, kTurnPanels = 16;
constexpr std::int64_t kBlockRows = 2 * kTileRows, kSums = kTileRows * kPanel, kBlockSums = 4 * kSums;

// Some inputs of one product of planes.
struct Segment {
  int x_plane, w_plane;
  std::int64_t first_step, steps;
  bool is_first, is_last;
};

// Sums of 32 rows and two panels, [row / 16][panel][16][16], on their way to the outputs.
struct Finished {
  const float* sums;  // null for none
  std::int64_t row, panel;
};

void load_sums(const float* sums) {
  ASSAY_TILE_LOAD(0, sums, kTileBytes);
  ASSAY_TILE_LOAD(1, sums + kSums, kTileBytes);
  ASSAY_TILE_LOAD(2, sums + 2 * kSums, kTileBytes);
  ASSAY_TILE_LOAD(3, sums + 3 * kSums, kTileBytes);
}
void store_sums(float* sums) {
  ASSAY_TILE_STORE(0, sums, kTileBytes);
  ASSAY_TILE_STORE(1, sums + kSums, kTileBytes);
  ASSAY_TILE_STORE(2, sums + 2 * kSums, kTileBytes);
  ASSAY_TILE_STORE(3, sums + 3 * kSums, kTileBytes);
}

// Sums of a tile of int8 products, less what the row's zero point adds to them.
ASSAY_INLINE Vec exact_sums(const Int8Args& args, Vec sums, std::int64_t row, std::int64_t column) {
  Dot exact{_mm512_castps_si512(sums.v)};
  if (args.x_zero != nullptr) exact = exact.less(Dot::all(args.x_zero[row]), Dot::load(args.w_sums + column));
  return exact.floats();
}

// Outputs of `count` rows of a block from `first` on, of any kind.
void finish_any(const LinearArgs& args, const Int8Args* int8, const Finished& block, std::int64_t first,
                std::int64_t count) {
  const std::int64_t column = block.panel * kPanel, left = args.n - column;
  const __mmask16 low = left < kPanel ? Vec::mask(left) : __mmask16{0xffff};
  const __mmask16 high = left >= 2 * kPanel ? __mmask16{0xffff}
                         : left <= kPanel   ? __mmask16{0}
                                            : Vec::mask(left - kPanel);
  Vec bias[2] = {Vec::set(0.0F), Vec::set(0.0F)};
  if (args.bias != nullptr) {
    bias[0].v = _mm512_maskz_loadu_ps(low, args.bias + column);
    bias[1].v = _mm512_maskz_loadu_ps(high, args.bias + column + kPanel);
  }
  for (std::int64_t row = first; row < first + count; ++row) {
    const float* sums = block.sums + row / kTileRows * 2 * kSums + row % kTileRows * kPanel;
    Vec value[2] = {Vec::load(sums), Vec::load(sums + kSums)};
    if (int8 != nullptr)
      for (int i = 0; i < 2; ++i)
        if (i == 0 || left > kPanel)
          value[i] = int8_value(*int8, exact_sums(*int8, value[i], block.row + row, column + i * kPanel),
                                block.row + row, column + i * kPanel);
    if (args.bias != nullptr)
      for (int i = 0; i < 2; ++i) value[i] = Vec::add(value[i], bias[i]);
    for (Vec& v : value) v = activate(args.activation, v, args.is_rounded);
    if (args.y != nullptr) {
      float* y = args.y + (block.row + row) * args.y_stride + column;
      if (args.adds) {
        value[0] = Vec::add(Vec{_mm512_maskz_loadu_ps(low, y)}, value[0]);
        value[1] = Vec::add(Vec{_mm512_maskz_loadu_ps(high, y + kPanel)}, value[1]);
      }
      _mm512_mask_storeu_ps(y, low, value[0].v);
      _mm512_mask_storeu_ps(y + kPanel, high, value[1].v);
    }
    if (args.y_tiles.data == nullptr) continue;
    if (args.y_tiles.planes == 1 && left >= 2 * kPanel) {  // the pair is one row of a tile: panels are even
      _mm512_storeu_si512(args.y_tiles.data + args.y_tiles.offset(block.row + row, column),
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(value[1].v, value[0].v)));
      continue;
    }
    store_tiles(args.y_tiles, block.row + row, column, value[0], left < kPanel ? left : kPanel);
    if (left > kPanel)
      store_tiles(args.y_tiles, block.row + row, column + kPanel, value[1],
                  left < 2 * kPanel ? left - kPanel : kPanel);
  }
}

// The same of whole panels, which is nearly all: what does not change from row to row is in registers, and
// two rows go side by side.
template <bool kIsInt8, Activation kActivation, bool kIsRounded>
void finish_whole(const LinearArgs& args, const Int8Args* int8, const Finished& block, std::int64_t first,
                  std::int64_t count) {
  constexpr int kRows = 2;
  const std::int64_t column = block.panel * kPanel, row = block.row + first;
  const bool has_bias = args.bias != nullptr, has_floats = args.y != nullptr, adds = args.adds;
  const bool has_tiles = args.y_tiles.data != nullptr;
  Vec bias[2] = {Vec::set(0.0F), Vec::set(0.0F)}, unit[2] = {};
  Dot weight_sums[2] = {};
  const float* x_absmax = nullptr;
  const std::int32_t* x_zero = nullptr;
  for (int i = 0; i < 2; ++i) {
    if (has_bias) bias[i] = Vec::load(args.bias + column + i * kPanel);
    if (!kIsInt8) continue;
    unit[i] = Vec::load(int8->w_absmax + column + i * kPanel);
    weight_sums[i] = Dot::load(int8->w_sums + column + i * kPanel);
  }
  if (kIsInt8) {
    x_absmax = int8->x_absmax + row;
    x_zero = int8->x_zero == nullptr ? nullptr : int8->x_zero + row;
  }
  const float* sums = block.sums + first / kTileRows * 2 * kSums + first % kTileRows * kPanel;
  const std::int64_t y_stride = args.y_stride;
  float* y = has_floats ? args.y + row * y_stride + column : nullptr;
  std::uint16_t* tiles = has_tiles ? args.y_tiles.data + args.y_tiles.offset(row, column) : nullptr;
  for (std::int64_t at = 0; at < count; at += kRows) {
    Vec value[kRows][2];
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < 2; ++i) {
        Vec v = Vec::load(sums + i * kSums + (at + r) * kPanel);
        if (kIsInt8) {
          Dot exact{_mm512_castps_si512(v.v)};
          if (x_zero != nullptr) exact = exact.less(Dot::all(x_zero[at + r]), weight_sums[i]);
          v = Vec::mul(exact.floats(), Vec::mul(Vec::set(x_absmax[at + r] * kInt8Unit), unit[i]));
        }
        if (has_bias) v = Vec::add(v, bias[i]);
        value[r][i] = v;
      }
    for (auto& of_row : value)
      for (Vec& v : of_row) v = activate(kActivation, v, kIsRounded);
    for (int r = 0; r < kRows; ++r) {
      if (has_floats) {
        float* out = y + (at + r) * y_stride;
        for (int i = 0; i < 2; ++i) {
          if (adds) value[r][i] = Vec::add(Vec::load(out + i * kPanel), value[r][i]);
          value[r][i].store(out + i * kPanel);
        }
      }
      if (has_tiles)  // the pair is one row of a tile: panels are even
        _mm512_storeu_si512(tiles + (at + r) * kTileColumns,
                            reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(value[r][1].v, value[r][0].v)));
    }
  }
}

// Rows of a block from an even one on within 16.
template <bool kIsInt8, Activation kActivation, bool kIsRounded>
ASSAY_INLINE void finish_some(const LinearArgs& args, const Int8Args* int8, const Finished& block,
                              std::int64_t first, std::int64_t count) {
  const bool is_whole = args.n - block.panel * kPanel >= 2 * kPanel && args.y_tiles.planes <= 1 &&
                        (!kIsInt8 || int8->outlier_count == 0);
  if (is_whole)
    finish_whole<kIsInt8, kActivation, kIsRounded>(args, int8, block, first, count);
  else
    finish_any(args, int8, block, first, count);
}

// One pass: rows [first_row, first_row + rows), a multiple of 32, at most kPassRows, by the panels of a call,
// the first of an even number.
template <bool kIsInt8>
class TilePass {
 public:
  TilePass(const LinearArgs& args, const Int8Args* int8, std::int64_t first_row, std::int64_t rows)
      : args_(args), int8_(int8), first_row_(first_row), rows_(rows), steps_(steps_of(args)) {}

  // Takes panels in turns. The inputs of a turn go through in segments, between which its sums are held.
  template <Activation kActivation, bool kIsRounded>
  void run() {
    const bool is_whole = args_.planes == 1 && (steps_ <= kChunkSteps || rows_ == kBlockRows);
    const std::int64_t turn = is_whole                                                   ? args_.panels
                              : rows_ * steps_ * args_.planes * kTileBytes <= kNearBytes ? kNearTurnPanels
                                                                                         : kTurnPanels;
    alignas(64) float sums[kPassRows * kTurnPanels * kPanel];
    for (first_ = 0; first_ < args_.panels; first_ = end_) {
      end_ = args_.panels - first_ < turn ? args_.panels : first_ + turn;
      if (is_whole)
        run_segment<kActivation, kIsRounded>({0, 0, 0, steps_, true, true}, nullptr);
      else
        run_turn<kActivation, kIsRounded>(sums);
    }
    finish_last<kActivation, kIsRounded>();
  }

 private:
  template <Activation kActivation, bool kIsRounded>
  ASSAY_INLINE void run_turn(float* sums) {
    for (int order = args_.planes - 1; order >= 0; --order)
      for (int i = 0; i <= order; ++i)
        for (std::int64_t step = 0; step < steps_; step += kChunkSteps) {
          const bool is_end = step + kChunkSteps >= steps_;
          run_segment<kActivation, kIsRounded>(
              {i, order - i, step, is_end ? steps_ - step : kChunkSteps,
               order == args_.planes - 1 && i == 0 && step == 0, order == 0 && is_end},
              sums);
        }
  }
  template <Activation kActivation, bool kIsRounded>
  void run_segment(const Segment& segment, float* sums) {
    for (std::int64_t i = first_; i < end_; i += 2)
      for (std::int64_t row = 0; row < rows_; row += kBlockRows)
        add_block<kActivation, kIsRounded>(
            segment, i, row,
            sums + ((i - first_) / 2 * (kPassRows / kBlockRows) + row / kBlockRows) * kBlockSums);
  }

  // What comes next: of the panels a share with each block of rows, of the rows a share with each panel.
  Ahead ahead_of(const Segment& segment, const RowSteps& x, const WeightSteps& w, std::int64_t i,
                 std::int64_t row) const {
    const std::int64_t all = segment.steps * kTileElements;
    const std::uint16_t* panels = i + 2 < end_      ? w.data + 2 * w.next
                                  : segment.is_last ? w.from(-segment.first_step).data + 2 * w.next
                                                    : w.data - (i - first_) * w.next + all;
    const std::int64_t at = row / kBlockRows * segment.steps * kFetchedElements % (2 * all);
    return {panels + (at < all ? at : w.next + at - all),
            segment.is_last ? x.data : x.from(segment.steps).data + i / 2 * 128 % (2 * kTileElements)};
  }

  template <Activation kActivation, bool kIsRounded>
  ASSAY_INLINE void finish_last() const {
    for (std::int64_t row = 0; last_.sums != nullptr && row < kBlockRows; row += kTileRows)
      finish_some<kIsInt8, kActivation, kIsRounded>(args_, int8_, last_, row, kTileRows);
  }

  template <Activation kActivation, bool kIsRounded>
  ASSAY_INLINE void add_block(const Segment& segment, std::int64_t i, std::int64_t row, float* sums) {
    const WeightSteps w =
        weight_steps(args_, args_.first_panel + i, segment.w_plane).from(segment.first_step);
    const RowSteps x = row_steps(args_, first_row_ + row, segment.x_plane).from(segment.first_step);
    if (segment.is_first)
      clear_sums();
    else
      load_sums(sums);
    const bool has_two = i + 1 < args_.panels;
    if (!segment.is_last) {
      if (has_two)
        add_two_by_two<kIsInt8>(x, w, segment.steps, ahead_of(segment, x, w, i, row));
      else
        add_two_by_one<kIsInt8>(x, w, segment.steps);
      store_sums(sums);
      return;
    }
    const Finished next{scratch_[is_odd_ ? 1 : 0], first_row_ + row, args_.first_panel + i};
    if (!has_two) {
      add_two_by_one<kIsInt8>(x, w, segment.steps);
      finish_last<kActivation, kIsRounded>();
    } else {
      // The vector units finish the block before while the tiles of this one are summed.
      const Ahead ahead = ahead_of(segment, x, w, i, row);
      const bool streams = rows_ == kBlockRows;
      for (std::int64_t slice = 0; slice < kSlices; ++slice) {
        const std::int64_t begin = segment.steps * slice / kSlices,
                           end = segment.steps * (slice + 1) / kSlices;
        if (end > begin && streams)
          add_two_by_two_streaming<kIsInt8>(x.from(begin), w.from(begin), end - begin);
        else if (end > begin)
          add_two_by_two<kIsInt8>(x.from(begin), w.from(begin), end - begin, ahead.from(begin, x.strip));
        fetch_outputs(next, slice * (kBlockRows / kSlices), kBlockRows / kSlices);
        if (last_.sums != nullptr)
          finish_some<kIsInt8, kActivation, kIsRounded>(args_, int8_, last_, slice * (kBlockRows / kSlices),
                                                        kBlockRows / kSlices);
      }
    }
    store_sums(scratch_[is_odd_ ? 1 : 0]);
    last_ = next;
    is_odd_ = !is_odd_;
  }

  // Rows of outputs, to be written soon: they lie too far apart to be foreseen by the processor, and a store
  // that waits for its line holds up the loads of tiles.
  ASSAY_INLINE void fetch_outputs(const Finished& block, std::int64_t first, std::int64_t count) const {
    for (std::int64_t row = block.row + first; row < block.row + first + count; ++row) {
      if (args_.y != nullptr) {
        const float* y = args_.y + row * args_.y_stride + block.panel * kPanel;
        fetch_to_write(y);
        fetch_to_write(y + kPanel);
      }
      if (args_.y_tiles.data != nullptr)
        fetch_to_write(args_.y_tiles.data + args_.y_tiles.offset(row, block.panel * kPanel));
    }
  }
  static void fetch_to_write(const void* line) { __asm__ volatile("prefetchw (%0)" ::"r"(line)); }

  static constexpr std::int64_t kSlices = 16;
  LinearArgs args_;
  const Int8Args* int8_;
  std::int64_t first_row_, rows_, steps_;
  std::int64_t first_ = 0, end_ = 0;  // the panels of this turn, from the first of the call
  alignas(64) float scratch_[2][kBlockSums];
  Finished last_{nullptr, 0, 0};
  bool is_odd_ = false;
};

template <bool kIsInt8>
void run_pass(TilePass<kIsInt8> pass, Activation activation, bool is_rounded) {
  if (is_rounded && activation == Activation::gelu_tanh)
    return pass.template run<Activation::gelu_tanh, true>();
  switch (activation) {
    case Activation::none:
      return pass.template run<Activation::none, false>();
    case Activation::relu:
      return pass.template run<Activation::relu, false>();
    case Activation::silu:
      return pass.template run<Activation::silu, false>();
    case Activation::tanh:
      return pass.template run<Activation::tanh, false>();
    case Activation::gelu_tanh:
      return pass.template run<Activation::gelu_tanh, false>();
    case Activation::gelu_erf:
      return pass.template run<Activation::gelu_erf, false>();
    case Activation::gelu_quick:
      return pass.template run<Activation::gelu_quick, false>();
  }
}

// The rows that come in whole blocks; returns how many those are.
template <bool kIsInt8>
std::int64_t multiply_blocks(const LinearArgs& args, const Int8Args* int8) {
  const std::int64_t whole = args.rows / kBlockRows * kBlockRows;
  if (whole == 0) return 0;
  configure(kTileRows);
  for (std::int64_t row = 0; row < whole; row += kPassRows)
    run_pass(TilePass<kIsInt8>(args, int8, row, whole - row < kPassRows ? whole - row : kPassRows),
             args.activation, args.is_rounded);
  release();
  return whole;
}
