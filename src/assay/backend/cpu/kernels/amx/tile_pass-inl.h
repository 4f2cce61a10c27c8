// Products on tiles of rows in whole blocks of 32: which rows, panels and inputs follow each other, and how
// sums become outputs meanwhile. Included by kernels.cpp, inside its anonymous namespace.
#pragma once

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

// Two vectors of outputs, a row of a tile, as a sum of bfloat16 parts: the first into `tile`, each of the
// others `plane` elements further on.
ASSAY_INLINE void store_pair(std::uint16_t* tile, std::int64_t plane, int planes, Vec low, Vec high) {
  for (int i = 0;; tile += plane) {
    const __m512i bits = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v));
    _mm512_storeu_si512(tile, bits);
    if (++i >= planes) return;
    low = Vec::sub(low, Vec::widen(_mm512_castsi512_si256(bits)));
    high = Vec::sub(high, Vec::widen(_mm512_extracti64x4_epi64(bits, 1)));
  }
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
    if (left >= 2 * kPanel) {  // the pair is one row of a tile: panels are even
      store_pair(args.y_tiles.data + args.y_tiles.offset(block.row + row, column), args.y_tiles.plane_size(),
                 args.y_tiles.planes, value[0], value[1]);
      continue;
    }
    store_tiles(args.y_tiles, block.row + row, column, value[0], left < kPanel ? left : kPanel);
    if (left > kPanel)
      store_tiles(args.y_tiles, block.row + row, column + kPanel, value[1],
                  left < 2 * kPanel ? left - kPanel : kPanel);
  }
}

// The same of whole panels, which is nearly all, two rows at a time from the first on: what does not change
// from row to row stays in registers while tiles are summed between two calls. Everything else that a
// processor has to do there takes room that tile loads wait for.
template <bool kIsInt8, Activation kActivation, bool kIsRounded>
class WholeRows {
 public:
  static constexpr std::int64_t kRows = 2;

  ASSAY_INLINE WholeRows(const LinearArgs& args, const Int8Args* int8, const Finished& block)
      : sums_(block.sums),
        half_(block.sums + kTileRows * kPanel),
        y_stride_(args.y_stride),
        plane_(args.y_tiles.plane_size()),
        planes_(args.y_tiles.planes),
        adds_(args.adds) {
    const std::int64_t column = block.panel * kPanel;
    for (int i = 0; i < 2; ++i) {
      bias_[i] = args.bias != nullptr ? Vec::load(args.bias + column + i * kPanel) : Vec::set(-0.0F);
      if (!kIsInt8) continue;
      unit_[i] = Vec::load(int8->w_absmax + column + i * kPanel);
      weight_sums_[i] = Dot::load(int8->w_sums + column + i * kPanel);
    }
    if (kIsInt8) {
      x_absmax_ = int8->x_absmax + block.row;
      if (int8->x_zero != nullptr) x_zero_ = int8->x_zero + block.row;
    }
    if (args.y != nullptr) y_ = args.y + block.row * y_stride_ + column;
    if (args.y_tiles.data != nullptr) tiles_ = args.y_tiles.data + args.y_tiles.offset(block.row, column);
  }

  ASSAY_INLINE void finish() {
    Vec value[kRows][2];
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < 2; ++i) {
        Vec v = Vec::load(sums_ + i * kSums + r * kPanel);
        if (kIsInt8) {
          Dot exact{_mm512_castps_si512(v.v)};
          if (x_zero_ != nullptr) exact = exact.less(Dot::all(x_zero_[r]), weight_sums_[i]);
          v = Vec::mul(exact.floats(), Vec::mul(Vec::set(x_absmax_[r] * kInt8Unit), unit_[i]));
        }
        value[r][i] = Vec::add(v, bias_[i]);
      }
    for (auto& of_row : value)
      for (Vec& v : of_row) v = activate(kActivation, v, kIsRounded);
    if (y_ != nullptr)
      for (auto& of_row : value) {
        for (int i = 0; i < 2; ++i) {
          if (adds_) of_row[i] = Vec::add(Vec::load(y_ + i * kPanel), of_row[i]);
          of_row[i].store(y_ + i * kPanel);
        }
        y_ += y_stride_;
      }
    if (tiles_ != nullptr)
      for (auto& of_row : value) {  // the pair is one row of a tile: panels are even
        store_pair(tiles_, plane_, planes_, of_row[0], of_row[1]);
        tiles_ += kTileColumns;
      }
    sums_ += kRows * kPanel;
    if (sums_ == half_) sums_ += kSums;  // past the second panel's
    if (kIsInt8) {
      x_absmax_ += kRows;
      if (x_zero_ != nullptr) x_zero_ += kRows;
    }
  }

 private:
  const float *sums_, *half_;
  const std::int64_t y_stride_, plane_;
  const int planes_;
  const bool adds_;
  float* y_ = nullptr;
  std::uint16_t* tiles_ = nullptr;
  Vec bias_[2], unit_[2];
  Dot weight_sums_[2];
  const float* x_absmax_ = nullptr;
  const std::int32_t* x_zero_ = nullptr;
};

// Outputs of a block that are to be written soon, fetched: they lie too far apart to be foreseen by the
// processor, and a store that waits for its line holds up the loads of tiles.
class FetchedOutputs {
 public:
  ASSAY_INLINE FetchedOutputs(const LinearArgs& args, std::int64_t row, std::int64_t panel)
      : y_stride_(args.y_stride), plane_(args.y_tiles.plane_size()), planes_(args.y_tiles.planes) {
    const std::int64_t column = panel * kPanel;
    if (args.y != nullptr) y_ = args.y + row * y_stride_ + column;
    if (args.y_tiles.data != nullptr) tiles_ = args.y_tiles.data + args.y_tiles.offset(row, column);
  }
  ASSAY_INLINE void fetch(std::int64_t rows) {
    if (y_ != nullptr)
      for (std::int64_t r = 0; r < rows; ++r, y_ += y_stride_) {
        fetch_to_write(y_);
        fetch_to_write(y_ + kPanel);
      }
    if (tiles_ != nullptr)
      for (std::int64_t r = 0; r < rows; ++r, tiles_ += kTileColumns)
        for (int i = 0; i < planes_; ++i) fetch_to_write(tiles_ + i * plane_);
  }

 private:
  ASSAY_INLINE static void fetch_to_write(const void* line) {
    __asm__ volatile("prefetchw (%0)" ::"r"(line));
  }
  const std::int64_t y_stride_, plane_;
  const int planes_;
  const float* y_ = nullptr;
  const std::uint16_t* tiles_ = nullptr;
};

bool is_whole(const LinearArgs& args, const Int8Args* int8, std::int64_t panel) {
  return args.n - panel * kPanel >= 2 * kPanel && (int8 == nullptr || int8->outlier_count == 0);
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
    const bool goes_at_once = args_.planes == 1 && (steps_ <= kChunkSteps || rows_ == kBlockRows);
    is_near_ = rows_ * steps_ * args_.planes * kTileBytes <= kNearBytes;
    const std::int64_t turn = goes_at_once ? args_.panels : is_near_ ? kNearTurnPanels : kTurnPanels;
    alignas(64) float sums[kPassRows * kTurnPanels * kPanel];
    for (first_ = 0; first_ < args_.panels; first_ = end_) {
      end_ = args_.panels - first_ < turn ? args_.panels : first_ + turn;
      if (goes_at_once)
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
  template <int kPanelLines>
  ASSAY_INLINE Ahead ahead_of(const Segment& segment, const RowSteps& x, const WeightSteps& w, std::int64_t i,
                              std::int64_t row) const {
    const std::int64_t all = segment.steps * kTileElements;
    const std::uint16_t* panels = i + 2 < end_      ? w.data + 2 * w.next
                                  : segment.is_last ? w.from(-segment.first_step).data + 2 * w.next
                                                    : w.data - (i - first_) * w.next + all;
    const std::int64_t at = row / kBlockRows * segment.steps * kPanelLines * kTileColumns % (2 * all);
    return {panels + (at < all ? at : w.next + at - all),
            segment.is_last ? x.data : x.from(segment.steps).data + i / 2 * 128 % (2 * kTileElements)};
  }

  // The last block's outputs, where no tiles are summed meanwhile.
  template <Activation kActivation, bool kIsRounded>
  void finish_last() const {
    if (last_.sums == nullptr) return;
    if (!is_whole(args_, int8_, last_.panel)) return finish_any(args_, int8_, last_, 0, kBlockRows);
    WholeRows<kIsInt8, kActivation, kIsRounded> rows(args_, int8_, last_);
    for (std::int64_t row = 0; row < kBlockRows; row += rows.kRows) rows.finish();
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
      if (!has_two)
        add_two_by_one<kIsInt8>(x, w, segment.steps);
      else if (rows_ <= kFewPassRows)
        add_ahead<4>(segment, x, w, i, row);
      else
        add_ahead<2>(segment, x, w, i, row);
      store_sums(sums);
      return;
    }
    const Finished next{scratch_[is_odd_ ? 1 : 0], first_row_ + row, args_.first_panel + i};
    if (!has_two) {
      add_two_by_one<kIsInt8>(x, w, segment.steps);
      finish_last<kActivation, kIsRounded>();
    } else if (rows_ == kBlockRows) {
      finish_meanwhile<kActivation, kIsRounded>(
          next, segment.steps, [&](std::int64_t begin, std::int64_t count) {
            add_two_by_two_streaming<kIsInt8>(x.from(begin), w.from(begin), count);
          });
    } else if (rows_ <= kFewPassRows) {
      add_and_finish<4, kActivation, kIsRounded>(segment, x, w, i, row, next);
    } else {
      add_and_finish<2, kActivation, kIsRounded>(segment, x, w, i, row, next);
    }
    store_sums(scratch_[is_odd_ ? 1 : 0]);
    last_ = next;
    is_odd_ = !is_odd_;
  }

  template <int kPanelLines>
  ASSAY_INLINE void add_ahead(const Segment& segment, const RowSteps& x, const WeightSteps& w, std::int64_t i,
                              std::int64_t row) const {
    const Ahead ahead = ahead_of<kPanelLines>(segment, x, w, i, row);
    if (is_near_)
      add_two_by_two<kIsInt8, kPanelLines, false>(x, w, segment.steps, ahead);
    else
      add_two_by_two<kIsInt8, kPanelLines, true>(x, w, segment.steps, ahead);
  }
  template <int kPanelLines, Activation kActivation, bool kIsRounded>
  void add_and_finish(const Segment& segment, const RowSteps& x, const WeightSteps& w, std::int64_t i,
                      std::int64_t row, const Finished& next) const {
    // In the last segment no rows are fetched: those that follow were read already.
    const Ahead ahead = ahead_of<kPanelLines>(segment, x, w, i, row);
    RowSteps rows = x;
    WeightSteps panels = w;
    const std::uint16_t* fetched = ahead.panels;
    finish_meanwhile<kActivation, kIsRounded>(next, segment.steps, [&](std::int64_t, std::int64_t count) {
      add_two_by_two<kIsInt8, kPanelLines, false>(rows, panels, count, {fetched, nullptr});
      rows = rows.from(count);
      panels = panels.from(count);
      fetched += count * kPanelLines * kTileColumns;
    });
  }

  // The vector units finish the block before while the tiles of this one are summed, by add(first step,
  // count).
  template <Activation kActivation, bool kIsRounded, typename Add>
  ASSAY_INLINE void finish_meanwhile(const Finished& next, std::int64_t steps, const Add& add) const {
    constexpr std::int64_t kRows = 2, kSlices = kBlockRows / kRows;
    FetchedOutputs outputs(args_, next.row, next.panel);
    if (last_.sums == nullptr || !is_whole(args_, int8_, last_.panel)) {
      add(0, steps);
      outputs.fetch(kBlockRows);
      if (last_.sums != nullptr) finish_any(args_, int8_, last_, 0, kBlockRows);
      return;
    }
    WholeRows<kIsInt8, kActivation, kIsRounded> rows(args_, int8_, last_);
    std::int64_t begin = 0;
    for (std::int64_t slice = 1; slice <= kSlices; ++slice) {
      const std::int64_t end = steps * slice / kSlices;
      if (end > begin) add(begin, end - begin);
      begin = end;
      outputs.fetch(kRows);
      rows.finish();
    }
  }

  static constexpr std::int64_t kFewPassRows = 256;
  LinearArgs args_;
  const Int8Args* int8_;
  std::int64_t first_row_, rows_, steps_;
  std::int64_t first_ = 0, end_ = 0;  // the panels of this turn, from the first of the call
  bool is_near_ = false;              // all inputs stay in the second-level cache
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
    case Activation::relu2:
      return pass.template run<Activation::relu2, false>();
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
