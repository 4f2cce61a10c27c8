// Attention on tiles: a part of kernels.cpp, included in its anonymous namespace after the tile loops. Not a
// header for others.
#pragma once

// Keys that a row's scores are held for at a time; between spans the sums are rescaled (the online softmax of
// Milakov and Gimelshein 2018).
constexpr std::int64_t kSpanBlocks = 8, kSpan = kSpanBlocks * kKvBlockPositions;
constexpr std::int64_t kBlockSteps = kKvBlockPositions / kTileColumns;

// So few rows take less time than their keys and values take from memory: nothing is done beside the tiles.
constexpr std::int64_t kFewRows = 4;

// What the rows of one call share while they go through the spans.
struct AttendState {
  alignas(64) float scores[kSpanBlocks][kTileRows][kKvBlockPositions];
  alignas(64) std::uint16_t weights[kSpanBlocks][kBlockSteps][kTileElements];
  alignas(64) std::uint16_t queries[kTileRows * kMaxHeadDim];  // where they do not come as tiles
  alignas(64) float out[kTileRows * kMaxHeadDim];
  alignas(64) float lanes[kTileRows][kLane];  // for each row 16 highest scores, then 16 sums of weights
  // Of each row.
  alignas(64) float highest[kTileRows];
  alignas(64) float total[kTileRows];
  alignas(64) float factors[kTileRows];
  alignas(64) float minus_top[kTileRows];
};

// Queries of up to 16 rows as tiles, [dim_padded / 32][16][32].
void stage_queries(const AttendArgs& args, std::int64_t first_row, std::int64_t rows,
                   std::uint16_t* queries) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < args.shape.dim_padded(); i += kPanel) {
      const std::int64_t left = args.shape.head_dim - i, n = left < 0 ? 0 : left < kPanel ? left : kPanel;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(queries + i / kTileColumns * kTileElements +
                                                     row * kTileColumns + i % kTileColumns),
                          Vec::load_n(args.q + (first_row + row) * args.q_stride + i, n).narrow());
    }
}

// As add_one_by_four, of a cache that is read in long streams: nothing is fetched beforehand.
void add_one_by_four_near(const RowSteps& x, const WeightSteps& w, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::uint16_t* b = w.data + step * kTileElements;
    ASSAY_TILE_LOAD(4, x.data + step * x.strip, kTileBytes);
    ASSAY_TILE_LOAD_ONCE(5, b, kTileBytes);
    ASSAY_TILE_LOAD_ONCE(6, b + w.next, kTileBytes);
    ASSAY_BFLOAT16_PRODUCT(0, 4, 5);
    ASSAY_TILE_LOAD_ONCE(7, b + 2 * w.next, kTileBytes);
    ASSAY_BFLOAT16_PRODUCT(1, 4, 6);
    ASSAY_TILE_LOAD_ONCE(5, b + 3 * w.next, kTileBytes);
    ASSAY_BFLOAT16_PRODUCT(2, 4, 7);
    ASSAY_BFLOAT16_PRODUCT(3, 4, 5);
  }
}

// For one row, whose products take no time beside memory: what comes next is fetched while a block is worked
// on.
ASSAY_INLINE void fetch(const std::uint16_t* from, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; i += kTileColumns) _mm_prefetch(from + i, _MM_HINT_T0);
}
void fetch_keys(const std::uint16_t* keys, std::int64_t count, const KvShape& shape) {
  fetch(keys, round_up(count, kPanel) * shape.dim_padded());
}
void fetch_values(const std::uint16_t* values, std::int64_t count, const KvShape& shape) {
  for (std::int64_t i = 0; i < shape.padded(); i += kPanel)
    fetch(values + i * kKvBlockPositions, round_up(count, kTileColumns) * kPanel);
}

// scores[16, 64] = queries * the first `count` keys of one block, in whole panels of 16.
void score_block(const RowSteps& queries, const std::uint16_t* keys, std::int64_t count, const KvShape& shape,
                 float* scores) {
  const std::int64_t panel = shape.dim_padded() * kPanel, steps = shape.dim_padded() / kTileColumns;
  constexpr std::int64_t kStrideBytes = kKvBlockPositions * sizeof(float);
  if (count > (kGroup - 1) * kPanel) {
    clear_sums();
    add_one_by_four_near(queries, {keys, panel}, steps);
    ASSAY_TILE_STORE(0, scores, kStrideBytes);
    ASSAY_TILE_STORE(1, scores + kLane, kStrideBytes);
    ASSAY_TILE_STORE(2, scores + 2 * kLane, kStrideBytes);
    ASSAY_TILE_STORE(3, scores + 3 * kLane, kStrideBytes);
    return;
  }
  for (std::int64_t i = 0; i * kPanel < count; ++i) {
    ASSAY_TILE_ZERO(0);
    add_one_by_one(queries, {keys + i * panel, 0}, steps);
    ASSAY_TILE_STORE(0, scores + i * kLane, kStrideBytes);
  }
}

// The lanes of 16 keys from `begin` on that lie in [first, last].
__mmask16 seen_of(std::int64_t begin, std::int64_t first, std::int64_t last) {
  const std::int64_t low = first - begin, high = last - begin;
  if (high < 0 || low > 15) return 0;
  const unsigned upto = high >= 15 ? 0xffffu : (2u << high) - 1u;
  return static_cast<__mmask16>(upto & (low <= 0 ? 0xffffu : 0xffffu << low));
}

// Keys of a span that its rows see: row 0 up to `last`, each row one more, from its window's first on.
struct SeenKeys {
  std::int64_t first_key, last, window;  // from the begin of the span; window 0: none
  std::int64_t next;                     // from a row's last to that of the next: 0 where rows are heads
  std::int64_t last_of(std::int64_t row) const { return last + row * next; }
  std::int64_t first_of(std::int64_t row) const {
    const std::int64_t in_window = window > 0 ? last_of(row) - window + 1 : first_key;
    return in_window > first_key ? in_window : first_key;
  }
  // Whether all rows see all of a block.
  bool hold(std::int64_t block, std::int64_t rows) const {
    return first_of(rows - 1) <= block * kKvBlockPositions && last >= (block + 1) * kKvBlockPositions - 1;
  }
  __mmask16 lanes(std::int64_t row, std::int64_t block, int i) const {
    return seen_of(block * kKvBlockPositions + i * kLane, first_of(row), last_of(row));
  }
};
constexpr int kBlockLanes = kKvBlockPositions / kLane;

// The lanes' highest scores of each row, with those of one more block.
template <bool kSeesAll>
ASSAY_INLINE void raise_highest(AttendState& state, const SeenKeys& seen, std::int64_t block,
                                std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    Vec s[kBlockLanes];
    for (int i = 0; i < kBlockLanes; ++i) {
      s[i] = Vec::load(state.scores[block][row] + i * kLane);
      if (!kSeesAll)
        s[i].v = _mm512_mask_blend_ps(seen.lanes(row, block, i), _mm512_set1_ps(kMasked), s[i].v);
    }
    const Vec here = Vec::max(Vec::max(s[0], s[1]), Vec::max(s[2], s[3]));
    Vec::max(Vec::load(state.lanes[row]), here).store(state.lanes[row]);
  }
}
void raise_highest(AttendState& state, const SeenKeys& seen, std::int64_t block, std::int64_t rows) {
  if (seen.hold(block, rows))
    raise_highest<true>(state, seen, block, rows);
  else
    raise_highest<false>(state, seen, block, rows);
}

// Scores of some rows and one block to weights in bfloat16, 2^(score * scale - top); their sums by lanes.
template <bool kSeesAll>
ASSAY_INLINE void weigh(AttendState& state, const SeenKeys& seen, std::int64_t block, float scale,
                        std::int64_t first_row, std::int64_t rows) {
  const Vec unit = Vec::set(scale);
  for (std::int64_t row = first_row; row < rows; ++row) {
    const Vec minus_top = Vec::set(state.minus_top[row]);
    Vec w[kBlockLanes];
    for (int i = 0; i < kBlockLanes; ++i) {
      w[i] = Vec::power_of_two(Vec::fma(Vec::load(state.scores[block][row] + i * kLane), unit, minus_top));
      if (!kSeesAll) w[i].v = _mm512_maskz_mov_ps(seen.lanes(row, block, i), w[i].v);
    }
    const Vec sum = Vec::add(Vec::add(w[0], w[1]), Vec::add(w[2], w[3]));
    Vec::add(Vec::load(state.lanes[row]), sum).store(state.lanes[row]);
    for (int step = 0; step < kBlockSteps; ++step)
      _mm512_storeu_si512(state.weights[block][step] + row * kTileColumns,
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(w[2 * step + 1].v, w[2 * step].v)));
  }
}
void weigh(AttendState& state, const SeenKeys& seen, std::int64_t block, float scale, std::int64_t first_row,
           std::int64_t rows) {
  if (seen.hold(block, rows))
    weigh<true>(state, seen, block, scale, first_row, rows);
  else
    weigh<false>(state, seen, block, scale, first_row, rows);
}

void set_lanes(AttendState& state, float value, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) Vec::set(value).store(state.lanes[row]);
}

// One number of each row from its 16 lanes: lanes 8 apart first, then 4, 2 and 1, for few rows and for many.
template <typename Combine, typename Reduce>
ASSAY_INLINE Vec reduce_lanes(const AttendState& state, std::int64_t rows, const Combine& combine,
                              const Reduce& reduce) {
  if (rows <= kFewRows) {
    Vec of_row = Vec::set(reduce(Vec::load(state.lanes[0]).v));
    for (std::int64_t row = 1; row < rows; ++row)
      of_row.v = _mm512_mask_mov_ps(of_row.v, static_cast<__mmask16>(1u << row),
                                    _mm512_set1_ps(reduce(Vec::load(state.lanes[row]).v)));
    return of_row;
  }
  __m512i lanes[kTileRows];
  for (std::int64_t row = 0; row < kTileRows; ++row) lanes[row] = _mm512_loadu_si512(state.lanes[row]);
  transpose(lanes);
  Vec of_lane[kTileRows];
  for (int i = 0; i < kTileRows; ++i) of_lane[i].v = _mm512_castsi512_ps(lanes[i]);
  for (int apart = kTileRows / 2; apart > 0; apart /= 2)
    for (int i = 0; i < apart; ++i) of_lane[i] = combine(of_lane[i], of_lane[i + apart]);
  return of_lane[0];
}

// From the highest scores by lanes: the value that each row's scores are taken relative to from here on, and
// the factor that rescales its sums so far. Rows that see no key yet stay as they are.
void take_highest(AttendState& state, std::int64_t rows, float scale) {
  const Vec here = Vec::mul(reduce_lanes(
                                state, rows, [](Vec a, Vec b) { return Vec::max(a, b); },
                                [](__m512 v) { return _mm512_reduce_max_ps(v); }),
                            Vec::set(scale));
  const Vec before = Vec::load(state.highest), top = Vec::max(here, before);
  const __mmask16 sees = _mm512_cmp_ps_mask(top.v, _mm512_set1_ps(kMasked), _CMP_NEQ_UQ);
  const Vec change{_mm512_maskz_sub_ps(sees, before.v, top.v)};
  Vec::power_of_two(change).store(state.factors);
  Vec{_mm512_maskz_sub_ps(sees, _mm512_setzero_ps(), top.v)}.store(state.minus_top);
  top.store(state.highest);
}
void add_to_total(AttendState& state, std::int64_t rows) {
  const Vec sum = reduce_lanes(
      state, rows, [](Vec a, Vec b) { return Vec::add(a, b); },
      [](__m512 v) { return _mm512_reduce_add_ps(v); });
  Vec::fma(Vec::load(state.total), Vec::load(state.factors), sum).store(state.total);
}

// Sums [rows][64] of weights times values of a group of panels to out: added to out * factor unless the span
// is the first.
void add_to_out(AttendState& state, const float* sums, std::int64_t padded, std::int64_t panel,
                std::int64_t panels, std::int64_t rows, bool is_first) {
  constexpr std::int64_t kStride = kGroup * kPanel;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < panels * kPanel; i += kLane) {
      float* out = state.out + row * padded + panel * kPanel + i;
      const Vec sum = Vec::load(sums + row * kStride + i);
      (is_first ? sum : Vec::fma(Vec::load(out), Vec::set(state.factors[row]), sum)).store(out);
    }
}

// The values that a row sees, with zeros for others, in copies of its first and its last block.
struct SeenValues {
  std::int64_t first_block, last_block;
  const std::uint16_t *first, *last;
};

// Blocks [unseen, end) of a span that begins at block `first`, `last_keys` keys of the last one.
struct SpanBlocks {
  std::int64_t first, unseen, end, last_keys;
  const SeenValues* seen_values;  // for a row alone; or null
  std::int64_t keys_of(std::int64_t block) const {
    return block == end - 1 ? last_keys : std::int64_t{kKvBlockPositions};
  }
  std::int64_t steps_of(std::int64_t block) const {
    return (keys_of(block) + kTileColumns - 1) / kTileColumns;
  }
  const std::uint16_t* of(const AttendArgs& args, std::int64_t block) const {
    return static_cast<const std::uint16_t*>(args.blocks[first + block]);
  }
  const std::uint16_t* values_of(const AttendArgs& args, std::int64_t block) const {
    if (seen_values != nullptr && first + block == seen_values->last_block) return seen_values->last;
    if (seen_values != nullptr && first + block == seen_values->first_block) return seen_values->first;
    return of(args, block) + args.v_offset;
  }
};

// The sums that lie in the tiles.
void add_tiles_to_out(AttendState& state, std::int64_t padded, std::int64_t panel, std::int64_t panels,
                      std::int64_t rows, bool is_first) {
  constexpr std::int64_t kStride = kGroup * kPanel, kStrideBytes = kStride * sizeof(float);
  alignas(64) float sums[kTileRows * kStride];
  ASSAY_TILE_STORE(0, sums, kStrideBytes);
  if (panels == kGroup) {
    ASSAY_TILE_STORE(1, sums + kLane, kStrideBytes);
    ASSAY_TILE_STORE(2, sums + 2 * kLane, kStrideBytes);
    ASSAY_TILE_STORE(3, sums + 3 * kLane, kStrideBytes);
  }
  add_to_out(state, sums, padded, panel, panels, rows, is_first);
}

// Panels of 16 from `first` on of which four are left, or one alone.
constexpr std::int64_t panels_from(std::int64_t first, std::int64_t all) {
  return all - first >= kGroup ? kGroup : 1;
}

// Scores and sums of one row on the vector units, to the bits of the tiles: where nothing else uses tiles,
// their use slows a processor down (bfloat16 decode by 1 to 3 %). What comes next is fetched while a block is
// worked on.
void score_row(AttendState& state, const AttendArgs& args, const SpanBlocks& blocks, const SeenKeys& seen,
               const RowSteps& query) {
  const std::int64_t panel = args.shape.dim_padded() * kPanel, steps = args.shape.dim_padded() / kTileColumns;
  {
    const FlushesDenormals flushes;
    for (std::int64_t block = blocks.unseen; block < blocks.end; ++block) {
      if (block + 1 < blocks.end)
        fetch_keys(blocks.of(args, block + 1) + args.k_offset, blocks.keys_of(block + 1), args.shape);
      else
        fetch_values(blocks.of(args, blocks.unseen) + args.v_offset, blocks.keys_of(blocks.unseen),
                     args.shape);
      const std::uint16_t* keys = blocks.of(args, block) + args.k_offset;
      float* scores = state.scores[block][0];
      for (int i = 0; i < kBlockLanes; ++i) Vec::set(0.0F).store(scores + i * kLane);
      if (blocks.keys_of(block) > (kGroup - 1) * kPanel)
        multiply_row<kGroup, false>(query, {keys, panel}, steps, scores, args.fetch);
      else
        for (std::int64_t i = 0; i * kPanel < blocks.keys_of(block); ++i)
          multiply_row<1, false>(query, {keys + i * panel, 0}, steps, scores + i * kLane, args.fetch);
    }
  }
  set_lanes(state, kMasked, 1);
  for (std::int64_t block = blocks.unseen; block < blocks.end; ++block) raise_highest(state, seen, block, 1);
}
void weigh_row_of_span(AttendState& state, const AttendArgs& args, const SpanBlocks& blocks,
                       const SeenKeys& seen, float scale, bool is_first) {
  constexpr std::int64_t kPanelElements = kKvBlockPositions * kPanel;
  const std::int64_t all = args.shape.padded() / kPanel;
  set_lanes(state, 0, 1);
  for (std::int64_t block = blocks.unseen; block < blocks.end; ++block)
    weigh(state, seen, block, scale, 0, 1);
  for (std::int64_t panel = 0; panel < all; panel += panels_from(panel, all)) {
    const std::int64_t panels = panels_from(panel, all);
    const auto multiply = panels == kGroup ? multiply_row<kGroup, false> : multiply_row<1, false>;
    alignas(64) float sums[kGroup * kPanel] = {};
    {
      const FlushesDenormals flushes;
      for (std::int64_t block = blocks.unseen; block < blocks.end; ++block) {
        if (panel == 0 && block + 1 < blocks.end)
          fetch_values(blocks.of(args, block + 1) + args.v_offset, blocks.steps_of(block + 1) * kTileColumns,
                       args.shape);
        else if (panel == 0 && args.next_k_offset != 0)
          fetch_keys(blocks.of(args, blocks.unseen) + args.next_k_offset,
                     blocks.steps_of(blocks.unseen) * kTileColumns, args.shape);
        multiply({state.weights[block][0], kTileElements},
                 {blocks.values_of(args, block) + panel * kPanelElements, kPanelElements},
                 blocks.steps_of(block), sums, args.fetch);
      }
    }
    add_to_out(state, sums, args.shape.padded(), panel, panels, 1, is_first);
  }
}

// All scores of a span by tile products; of more than a few rows the vector units look for the highest of one
// block while the tiles of the next are summed.
void score_span(AttendState& state, const AttendArgs& args, const SpanBlocks& blocks, const SeenKeys& seen,
                const RowSteps& queries, std::int64_t rows) {
  set_lanes(state, kMasked, rows);
  for (std::int64_t block = blocks.unseen; block < blocks.end; ++block) {
    score_block(queries, blocks.of(args, block) + args.k_offset, blocks.keys_of(block), args.shape,
                state.scores[block][0]);
    if (rows > kFewRows && block > blocks.unseen) raise_highest(state, seen, block - 1, rows);
  }
  const std::int64_t left = rows > kFewRows ? blocks.end - 1 : blocks.unseen;
  for (std::int64_t block = left; block < blocks.end; ++block) raise_highest(state, seen, block, rows);
}

// Weights of a span, and weights times values: of more than a few rows the vector units weigh one block while
// the tiles of the one before are summed.
void weigh_span(AttendState& state, const AttendArgs& args, const SpanBlocks& blocks, const SeenKeys& seen,
                std::int64_t rows, float scale, bool is_first) {
  constexpr std::int64_t kPanelElements = kKvBlockPositions * kPanel;
  const std::int64_t padded = args.shape.padded(), half = (rows + 1) / 2;
  const auto add_values = [&](std::int64_t block, std::int64_t panel, std::int64_t panels,
                              std::int64_t first_step, std::int64_t steps) {
    const std::uint16_t* values = blocks.values_of(args, block) + panel * kPanelElements;
    const RowSteps weights = RowSteps{state.weights[block][0], kTileElements}.from(first_step);
    const WeightSteps steps_of_values = WeightSteps{values, kPanelElements}.from(first_step);
    if (steps <= 0) return;
    if (panels == kGroup)
      add_one_by_four_near(weights, steps_of_values, steps);
    else
      add_one_by_one(weights, steps_of_values, steps);
  };
  const std::int64_t panels = panels_from(0, padded / kPanel);
  set_lanes(state, 0, rows);
  if (rows <= kFewRows)
    for (std::int64_t block = blocks.unseen; block < blocks.end; ++block)
      weigh(state, seen, block, scale, 0, rows);
  clear_sums();
  for (std::int64_t block = blocks.unseen; block < blocks.end; ++block) {
    if (rows <= kFewRows) {
      add_values(block, 0, panels, 0, blocks.steps_of(block));
      continue;
    }
    const bool has_one_before = block > blocks.unseen;
    weigh(state, seen, block, scale, 0, half);
    if (has_one_before) add_values(block - 1, 0, panels, 0, 1);
    weigh(state, seen, block, scale, half, rows);
    if (has_one_before) add_values(block - 1, 0, panels, 1, kBlockSteps - 1);
  }
  if (rows > kFewRows) add_values(blocks.end - 1, 0, panels, 0, blocks.steps_of(blocks.end - 1));
  add_tiles_to_out(state, padded, 0, panels, rows, is_first);
  for (std::int64_t panel = panels; panel < padded / kPanel;) {
    const std::int64_t more = panels_from(panel, padded / kPanel);
    clear_sums();
    for (std::int64_t block = blocks.unseen; block < blocks.end; ++block)
      add_values(block, panel, more, 0, blocks.steps_of(block));
    add_tiles_to_out(state, padded, panel, more, rows, is_first);
    panel += more;
  }
}

// The rows whose weights are numbers and whose outputs are not, perhaps by values that they do not see.
__mmask16 poisoned_rows(const AttendState& state, const KvShape& shape, std::int64_t rows) {
  if (!is_any_poisoned(state.out, rows * shape.padded())) return 0;
  __mmask16 poisoned = 0;
  for (std::int64_t row = 0; row < rows; ++row)
    if (state.total[row] == state.total[row] &&
        is_any_poisoned(state.out + row * shape.padded(), shape.head_dim))
      poisoned = static_cast<__mmask16>(poisoned | 1u << row);
  return poisoned;
}

// out / total of each row to where it is wanted. A row that sees no key is zero; one whose keys have no
// weight, since all scores are -infinity, is NaN.
void store_tiles_attended(AttendState& state, const AttendArgs& args, std::int64_t first_row,
                          std::int64_t rows) {
  const std::int64_t padded = args.shape.padded(), head_dim = args.shape.head_dim;
  const Vec total = Vec::load(state.total), one = Vec::set(1.0F);
  const __mmask16 sees = _mm512_cmp_ps_mask(total.v, _mm512_setzero_ps(), _CMP_NLE_UQ);
  __mmask16 has_keys = 0;
  for (std::int64_t row = 0; row < rows; ++row)
    if (sees_keys(args, first_row + row)) has_keys = static_cast<__mmask16>(has_keys | 1u << row);
  const __mmask16 has_no_weight =
      _mm512_mask_cmp_ps_mask(has_keys, Vec::load(state.highest).v, _mm512_set1_ps(kMasked), _CMP_EQ_OQ);
  Vec factors{_mm512_mask_div_ps(one.v, sees, one.v, total.v)};
  factors.v = _mm512_mask_mov_ps(factors.v, has_no_weight, _mm512_set1_ps(__builtin_nanf("")));
  factors.store(state.factors);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Vec factor = Vec::set(state.factors[row]);
    const float* from = state.out + row * padded;
    if (args.out != nullptr)
      for (std::int64_t i = 0; i < head_dim; i += kLane)
        Vec::mul(Vec::load(from + i), factor)
            .store_n(args.out + (first_row + row) * args.out_stride + i,
                     head_dim - i < kLane ? head_dim - i : kLane);
    if (args.out_tiles.data == nullptr) continue;
    const std::int64_t to_row = args.tile_row_of(first_row + row),
                       column = args.tile_column_of(first_row + row);
    if (head_dim % kTileColumns == 0)
      for (std::int64_t i = 0; i < head_dim; i += kTileColumns)
        store_pair(args.out_tiles.data + args.out_tiles.offset(to_row, column + i),
                   args.out_tiles.plane_size(), args.out_tiles.planes, Vec::mul(Vec::load(from + i), factor),
                   Vec::mul(Vec::load(from + i + kLane), factor));
    else
      for (std::int64_t i = 0; i < head_dim; i += kLane)
        store_tiles(args.out_tiles, to_row, column + i, Vec::mul(Vec::load(from + i), factor),
                    head_dim - i < kLane ? head_dim - i : kLane);
  }
}

void attend_row_of_tiles_alone(const AttendArgs& args, std::int64_t row, AttendState& state);

// Up to 16 rows: all scores of a span by tile products, softmax, weights times values by tile products.
void attend_tiles(const AttendArgs& args, std::int64_t first_row, std::int64_t rows, AttendState& state,
                  const SeenValues* seen_values = nullptr) {
  const std::int64_t first_position = args.position_of(first_row), next = args.rows_are_heads ? 0 : 1;
  Vec::set(kMasked).store(state.highest);
  Vec::set(0.0F).store(state.total);
  RowSteps queries{state.queries, kTileElements};
  if (args.q == nullptr)
    queries = {args.q_tiles.data + args.q_tiles.offset(args.first_tile_row + first_row, args.q_first_column),
               args.q_tiles.strip()};
  else
    stage_queries(args, first_row, rows, state.queries);
  const float scale = args.scale * 1.44269504088896341F;  // weights are then powers of two
  const std::int64_t last_position = first_position + (rows - 1) * next;
  const std::int64_t oldest = args.window > 0 ? first_position - args.window + 1 : 0;
  const std::int64_t first_key = oldest > args.first_key ? oldest : args.first_key;
  const std::int64_t last_block = last_position / kKvBlockPositions;
  bool is_first = true;
  // Spans begin at multiples of 512 keys: which keys share one does not depend on the rows of this call.
  for (std::int64_t span = first_key / kSpan; span * kSpanBlocks <= last_block; ++span) {
    const std::int64_t begin = span * kSpan, first_block = span * kSpanBlocks;
    const std::int64_t end =
        last_block - first_block + 1 < kSpanBlocks ? last_block - first_block + 1 : kSpanBlocks;
    const std::int64_t unseen = first_key > begin ? (first_key - begin) / kKvBlockPositions : 0;
    // Keys of the last block that any row sees: what lies beyond has weight zero.
    const std::int64_t left = last_position - (first_block + end - 1) * kKvBlockPositions + 1;
    const SpanBlocks blocks{first_block, unseen, end, left < kKvBlockPositions ? left : kKvBlockPositions,
                            seen_values};
    const SeenKeys seen{args.first_key - begin, first_position - begin, args.window, next};
    if (rows == 1) {
      score_row(state, args, blocks, seen, queries);
    } else {
      configure(rows);
      score_span(state, args, blocks, seen, queries, rows);
    }
    take_highest(state, rows, scale);
    if (rows == 1)
      weigh_row_of_span(state, args, blocks, seen, scale, is_first);
    else
      weigh_span(state, args, blocks, seen, rows, scale, is_first);
    add_to_total(state, rows);
    is_first = false;
  }
  if (is_first)  // rows that see no key
    for (std::int64_t i = 0; i < rows * args.shape.padded(); i += kLane) Vec::set(0.0F).store(state.out + i);
  const __mmask16 poisoned = seen_values == nullptr ? poisoned_rows(state, args.shape, rows) : __mmask16{0};
  store_tiles_attended(state, args, first_row, rows);
  for (std::int64_t row = 0; row < rows; ++row)
    if ((poisoned >> row & 1) != 0) attend_row_of_tiles_alone(args, first_row + row, state);
}

// Again, by nothing but values that the row sees: a weight of zero does not take NaN away.
[[gnu::noinline]] void attend_row_of_tiles_alone(const AttendArgs& args, std::int64_t row,
                                                 AttendState& state) {
  alignas(64) std::uint16_t first[kKvBlockPositions * kMaxHeadDim];
  alignas(64) std::uint16_t last[kKvBlockPositions * kMaxHeadDim];
  const std::int64_t last_key = args.position_of(row),
                     in_window = args.window > 0 ? last_key - args.window + 1 : 0,
                     first_key = in_window > args.first_key ? in_window : args.first_key;
  const auto copy = [&](std::int64_t block, std::uint16_t* to) {
    const std::int64_t begin = block * kKvBlockPositions;
    copy_seen_values(args.shape, static_cast<const std::uint16_t*>(args.blocks[block]) + args.v_offset,
                     first_key - begin, last_key - begin, to);
    return block;
  };
  const SeenValues seen{copy(first_key / kKvBlockPositions, first), copy(last_key / kKvBlockPositions, last),
                        first, last};
  attend_tiles(args, row, 1, state, &seen);
}

void attend_bfloat16_tiles(const AttendArgs& args) noexcept {
  if (args.has_score_modifiers()) return attend_bfloat16(args);
  AttendState state;
  // Heads of a short past go one by one, as a single row does: their keys are still near for the next.
  const std::int64_t at_once = args.rows_are_heads && args.first_position < kSpan ? 1 : kTileRows;
  for (std::int64_t row = 0; row < args.rows; row += at_once)
    attend_tiles(args, row, args.rows - row < at_once ? args.rows - row : at_once, state);
}
