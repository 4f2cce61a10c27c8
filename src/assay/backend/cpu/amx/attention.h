// Attention and the bfloat16 cache on tiles: a part of kernels.cpp, included in its anonymous namespace after
// the tile loops. Not a header for others.

constexpr float kMasked = -__builtin_huge_valf();

// Keys that a row's scores are held for at a time; between spans the sums are rescaled (the online softmax of
// Milakov and Gimelshein 2018).
constexpr std::int64_t kSpanBlocks = 8, kSpan = kSpanBlocks * kKvBlockPositions;
constexpr std::int64_t kBlockSteps = kKvBlockPositions / kTileColumns;

// What the rows of one call share while they go through the spans.
struct AttendState {
  alignas(64) float scores[kSpanBlocks][kTileRows][kKvBlockPositions];
  alignas(64) std::uint16_t weights[kSpanBlocks][kBlockSteps][kTileElements];
  alignas(64) std::uint16_t queries[kTileRows * kMaxHeadDim];  // where they do not come as tiles
  alignas(64) float out[kTileRows * kMaxHeadDim];
  float highest[kTileRows], total[kTileRows], factors[kTileRows];
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

// Of one row, whose products take no time beside memory: what comes next is fetched while a block is worked
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

// Keys [first, last] that a row sees, of which some lie in a block: all masks full within it.
struct SeenKeys {
  std::int64_t first, last;
  bool holds_block(std::int64_t block) const {
    return first <= block * kKvBlockPositions && last >= (block + 1) * kKvBlockPositions - 1;
  }
  __mmask16 lanes(std::int64_t block, int i) const {
    return seen_of(block * kKvBlockPositions + i * kLane, first, last);
  }
};
constexpr int kBlockLanes = kKvBlockPositions / kLane;

// Scores of one row, for the keys [first, last] of blocks [0, blocks) of the span, to weights in bfloat16.
void weigh_row(AttendState& state, std::int64_t row, std::int64_t first, std::int64_t last,
               std::int64_t blocks, float scale) {
  const SeenKeys seen{first < 0 ? 0 : first, last < kSpan ? last : kSpan - 1};
  const std::int64_t begin = seen.first / kKvBlockPositions, end = seen.last / kKvBlockPositions + 1;
  const Vec masked = Vec::set(kMasked);
  Vec best[kBlockLanes] = {masked, masked, masked, masked};
  for (std::int64_t block = begin; block < end; ++block) {
    const float* scores = state.scores[block][row];
    const bool is_whole = seen.holds_block(block);
    for (int i = 0; i < kBlockLanes; ++i) {
      Vec s = Vec::load(scores + i * kLane);
      if (!is_whole) s.v = _mm512_mask_blend_ps(seen.lanes(block, i), masked.v, s.v);
      best[i] = Vec::max(best[i], s);
    }
  }
  const float here =
      _mm512_reduce_max_ps(Vec::max(Vec::max(best[0], best[1]), Vec::max(best[2], best[3])).v) * scale;
  const float top = here > state.highest[row] ? here : state.highest[row];
  const auto weights_at = [&](std::int64_t block, int step) {
    return state.weights[block][step] + row * kTileColumns;
  };
  const auto clear = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t block = from; block < to; ++block)
      for (int step = 0; step < kBlockSteps; ++step)
        _mm512_storeu_si512(weights_at(block, step), _mm512_setzero_si512());
  };
  if (seen.first > seen.last || top == kMasked) {  // no key yet
    clear(0, blocks);
    state.factors[row] = 1;
    return;
  }
  const Vec unit = Vec::set(scale), minus_top = Vec::set(-top);
  Vec sum[kBlockLanes] = {Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F), Vec::set(0.0F)};
  for (std::int64_t block = begin; block < end; ++block) {
    const float* scores = state.scores[block][row];
    const bool is_whole = seen.holds_block(block);
    Vec w[kBlockLanes];
    for (int i = 0; i < kBlockLanes; ++i) {
      w[i] = power_of_two(Vec::fma(Vec::load(scores + i * kLane), unit, minus_top));
      if (!is_whole) w[i].v = _mm512_maskz_mov_ps(seen.lanes(block, i), w[i].v);
      sum[i] = Vec::add(sum[i], w[i]);
    }
    for (int step = 0; step < kBlockSteps; ++step)
      _mm512_storeu_si512(weights_at(block, step),
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(w[2 * step + 1].v, w[2 * step].v)));
  }
  clear(0, begin);
  clear(end, blocks);
  const float factor = _mm512_cvtss_f32(power_of_two(Vec::set(state.highest[row] - top)).v);
  state.factors[row] = factor;
  state.total[row] = state.total[row] * factor +
                     _mm512_reduce_add_ps(Vec::add(Vec::add(sum[0], sum[1]), Vec::add(sum[2], sum[3])).v);
  state.highest[row] = top;
}

// out[rows, padded] = weights * values over the blocks [unseen, blocks) of a span, `last_steps` of the last
// one, added to out * factor unless it is the first.
void add_values(AttendState& state, const AttendArgs& args, std::int64_t first_block, std::int64_t unseen,
                std::int64_t blocks, std::int64_t last_steps, std::int64_t rows, bool is_first) {
  const std::int64_t padded = args.shape.padded();
  constexpr std::int64_t kPanelElements = kKvBlockPositions * kPanel, kStride = kGroup * kPanel;
  alignas(64) float sums[kTileRows * kStride];
  for (std::int64_t panel = 0; panel < padded / kPanel;) {
    const std::int64_t panels = padded / kPanel - panel >= kGroup ? kGroup : 1;
    clear_sums();
    for (std::int64_t block = unseen; block < blocks; ++block) {
      const auto base_of = [&](std::int64_t i) {
        return static_cast<const std::uint16_t*>(args.blocks[first_block + i]);
      };
      const auto steps_of_block = [&](std::int64_t i) { return i == blocks - 1 ? last_steps : kBlockSteps; };
      if (args.rows == 1 && panel == 0 && block + 1 < blocks)
        fetch_values(base_of(block + 1) + args.v_offset, steps_of_block(block + 1) * kTileColumns,
                     args.shape);
      else if (args.rows == 1 && panel == 0 && args.next_k_offset != 0)
        fetch_keys(base_of(unseen) + args.next_k_offset, steps_of_block(unseen) * kTileColumns, args.shape);
      const std::uint16_t* values = base_of(block) + args.v_offset + panel * kPanelElements;
      const RowSteps weights{state.weights[block][0], kTileElements};
      const std::int64_t steps = steps_of_block(block);
      if (panels == kGroup)
        add_one_by_four_near(weights, {values, kPanelElements}, steps);
      else
        add_one_by_one(weights, {values, 0}, steps);
    }
    ASSAY_TILE_STORE(0, sums, 256);
    if (panels == kGroup) {
      ASSAY_TILE_STORE(1, sums + kLane, 256);
      ASSAY_TILE_STORE(2, sums + 2 * kLane, 256);
      ASSAY_TILE_STORE(3, sums + 3 * kLane, 256);
    }
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < panels * kPanel; i += kLane) {
        float* out = state.out + row * padded + panel * kPanel + i;
        const Vec sum = Vec::load(sums + row * kStride + i);
        (is_first ? sum : Vec::fma(Vec::load(out), Vec::set(state.factors[row]), sum)).store(out);
      }
    panel += panels;
  }
}

// Up to 16 rows: all scores of a span by tile products, softmax, weights times values by tile products.
void attend_tiles(const AttendArgs& args, std::int64_t first_row, std::int64_t rows, AttendState& state) {
  const std::int64_t first_position = args.first_position + first_row;
  for (std::int64_t row = 0; row < rows; ++row) {
    state.highest[row] = kMasked;
    state.total[row] = 0;
  }
  RowSteps queries{state.queries, kTileElements};
  if (args.q == nullptr)
    queries = {args.q_tiles.data + args.q_tiles.offset(args.first_tile_row + first_row, args.q_first_column),
               args.q_tiles.strip()};
  else
    stage_queries(args, first_row, rows, state.queries);
  const float scale = args.scale * 1.44269504088896341F;  // weights are then powers of two
  const std::int64_t last_position = first_position + rows - 1;
  const std::int64_t oldest = args.window > 0 ? first_position - args.window + 1 : 0;
  const std::int64_t first_key = oldest > args.first_key ? oldest : args.first_key;
  const std::int64_t last_block = last_position / kKvBlockPositions;
  bool is_first = true;
  // Spans begin at multiples of 512 keys: which keys share one does not depend on the rows of this call.
  for (std::int64_t span = first_key / kSpan; span * kSpanBlocks <= last_block; ++span) {
    const std::int64_t begin = span * kSpan, first_block = span * kSpanBlocks;
    const std::int64_t blocks =
        last_block - first_block + 1 < kSpanBlocks ? last_block - first_block + 1 : kSpanBlocks;
    const std::int64_t unseen = first_key > begin ? (first_key - begin) / kKvBlockPositions : 0;
    // Keys of the last block that any row sees: what lies beyond has weight zero.
    const std::int64_t left = last_position - (first_block + blocks - 1) * kKvBlockPositions + 1;
    const std::int64_t last_keys = left < kKvBlockPositions ? left : kKvBlockPositions;
    configure(rows);
    const auto base_of = [&](std::int64_t block) {
      return static_cast<const std::uint16_t*>(args.blocks[first_block + block]);
    };
    const auto keys_of_block = [&](std::int64_t block) {
      return block == blocks - 1 ? last_keys : kKvBlockPositions;
    };
    for (std::int64_t block = unseen; block < blocks; ++block) {
      if (args.rows == 1 && block + 1 < blocks)
        fetch_keys(base_of(block + 1) + args.k_offset, keys_of_block(block + 1), args.shape);
      else if (args.rows == 1)
        fetch_values(base_of(unseen) + args.v_offset, keys_of_block(unseen), args.shape);
      score_block(queries, base_of(block) + args.k_offset, keys_of_block(block), args.shape,
                  state.scores[block][0]);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t last = first_position + row;
      const std::int64_t in_window = args.window > 0 ? last - args.window + 1 : 0;
      const std::int64_t first = in_window > args.first_key ? in_window : args.first_key;
      weigh_row(state, row, first - begin, last - begin, blocks, scale);
    }
    add_values(state, args, first_block, unseen, blocks, (last_keys + kTileColumns - 1) / kTileColumns, rows,
               is_first);
    is_first = false;
  }
  if (is_first)  // rows that see no key
    for (std::int64_t i = 0; i < rows * args.shape.padded(); i += kLane) Vec::set(0.0F).store(state.out + i);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < args.shape.head_dim; i += kSumColumns)
      store_attended(args, first_row + row, i, state.out + row * args.shape.padded() + i, state.total[row]);
}

void attend_bfloat16_tiles(const AttendArgs& args) noexcept {
  AttendState state;
  for (std::int64_t row = 0; row < args.rows; row += kTileRows)
    attend_tiles(args, row, args.rows - row < kTileRows ? args.rows - row : kTileRows, state);
}

// 16 rows of 16 elements of 32 bits each, transposed.
void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// Keys of up to 16 positions of one panel: pairs of dimensions change places with positions.
void store_key_tiles(const Tiles& tiles, std::int64_t row, std::int64_t rows, std::int64_t k_column,
                     const KvShape& shape, std::uint16_t* panel, std::int64_t column) {
  const auto lanes = static_cast<__mmask16>(Vec::mask(rows) << column);
  for (std::int64_t i = 0; i < shape.dim_padded(); i += kTileColumns) {
    const std::uint16_t* strip = tiles.data + tiles.offset(row, k_column + i);
    __m512i r[16];
    for (int j = 0; j < 16; ++j)
      r[j] = j < column || j >= column + rows ? _mm512_setzero_si512()
                                              : _mm512_loadu_si512(strip + (j - column) * kTileColumns);
    transpose(r);
    for (int pair = 0; pair < 16; ++pair)
      _mm512_mask_storeu_epi32(panel + (i / 2 + pair) * 2 * kPanel, lanes, r[pair]);
  }
}

// Values of one position, or of an even position and the next: pairs of positions side by side.
void store_value_tiles(const Tiles& tiles, std::int64_t row, bool has_next, std::int64_t v_column,
                       const KvShape& shape, std::uint16_t* values, std::int64_t at) {
  for (std::int64_t i = 0; i < shape.padded(); i += kPanel) {
    const std::uint16_t* v = tiles.data + tiles.offset(row, v_column + i);
    std::uint16_t* pairs = values + i * kKvBlockPositions + at / 2 * 2 * kPanel;
    const auto load = [](const std::uint16_t* from) {
      return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    };
    __m512i bits = load(v);
    if (at % 2 == 1)
      bits = _mm512_or_si512(_mm512_slli_epi32(bits, 16),
                             _mm512_and_si512(_mm512_loadu_si512(pairs), _mm512_set1_epi32(0xffff)));
    else if (has_next)
      bits = _mm512_or_si512(bits, _mm512_slli_epi32(load(v + kTileColumns), 16));
    _mm512_storeu_si512(pairs, bits);
  }
}

void store_bfloat16_tiles(const StoreArgs& args) noexcept {
  if (args.k != nullptr) return store_bfloat16(args);
  for (std::int64_t row = 0; row < args.rows;) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    const std::int64_t in_panel = kPanel - at % kPanel, left = args.rows - row;
    const std::int64_t rows = left < in_panel ? left : in_panel;
    auto* block = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]);
    store_key_tiles(args.tiles, args.first_tile_row + row, rows, args.k_column, args.shape,
                    block + args.k_offset + at / kPanel * args.shape.dim_padded() * kPanel, at % kPanel);
    row += rows;
  }
  for (std::int64_t row = 0; row < args.rows;) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    const bool has_next = at % 2 == 0 && row + 1 < args.rows;
    auto* values = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]) + args.v_offset;
    if (at == 0) clear_values(values, args.shape, (args.rows - row + 1) / 2);
    store_value_tiles(args.tiles, args.first_tile_row + row, has_next, args.v_column, args.shape, values, at);
    row += has_next ? 2 : 1;
  }
}
