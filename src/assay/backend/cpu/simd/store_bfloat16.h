// Keys and values into a bfloat16 cache with AVX-512, for the ISA files that include it inside their own
// anonymous namespace, after vec512.h. Not a header for others.

// A head's row of keys: 32-bit pairs of dimensions, 64 bytes from one pair to the next.
void store_keys(const float* k, const KvShape& shape, std::uint16_t* panel, std::int64_t column) {
  alignas(64) std::uint16_t row[kMaxHeadDim];
  for (std::int64_t i = 0; i < shape.dim_padded(); i += kPanel) {
    const std::int64_t left = shape.head_dim - i, n = left < 0 ? 0 : left < kPanel ? left : kPanel;
    _mm256_store_si256(reinterpret_cast<__m256i*>(row + i), Vec::load_n(k + i, n).narrow());
  }
  std::uint32_t pair = 0;
  for (std::int64_t i = 0; i < shape.dim_padded() / 2; ++i) {
    __builtin_memcpy(&pair, row + 2 * i, sizeof(pair));
    __builtin_memcpy(panel + i * 2 * kPanel + 2 * column, &pair, sizeof(pair));
  }
}

// Values of one position, or of an even position and the next (`next` not null).
void store_values(const float* v, const float* next, const KvShape& shape, std::uint16_t* values,
                  std::int64_t at) {
  for (std::int64_t i = 0; i < shape.padded(); i += kPanel) {
    const std::int64_t left = shape.head_dim - i, n = left < kPanel ? left : kPanel;
    std::uint16_t* pairs = values + i * kKvBlockPositions + at / 2 * 2 * kPanel;
    __m512i bits = _mm512_cvtepu16_epi32(Vec::load_n(v + i, n).narrow());
    if (at % 2 == 1)
      bits = _mm512_or_si512(_mm512_slli_epi32(bits, 16),
                             _mm512_and_si512(_mm512_loadu_si512(pairs), _mm512_set1_epi32(0xffff)));
    else if (next != nullptr)
      bits = _mm512_or_si512(bits,
                             _mm512_slli_epi32(_mm512_cvtepu16_epi32(Vec::load_n(next + i, n).narrow()), 16));
    _mm512_storeu_si512(pairs, bits);
  }
}

// The values of a block from a pair of positions on.
void clear_values(std::uint16_t* values, const KvShape& shape, std::int64_t first_pair) {
  for (std::int64_t i = 0; i < shape.padded(); i += kPanel)
    for (std::int64_t pair = first_pair; pair < kKvBlockPositions / 2; ++pair)
      _mm512_storeu_si512(values + i * kKvBlockPositions + pair * 2 * kPanel, _mm512_setzero_si512());
}

void store_bfloat16(const StoreArgs& args) noexcept {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    auto* block = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]);
    store_keys(args.k + row * args.stride, args.shape,
               block + args.k_offset + at / kPanel * args.shape.dim_padded() * kPanel, at % kPanel);
  }
  for (std::int64_t row = 0; row < args.rows;) {
    const std::int64_t position = args.first_position + row, at = position % kKvBlockPositions;
    const bool has_next = at % 2 == 0 && row + 1 < args.rows;
    const float* v = args.v + row * args.stride;
    auto* values = static_cast<std::uint16_t*>(args.blocks[position / kKvBlockPositions]) + args.v_offset;
    if (at == 0) clear_values(values, args.shape, (args.rows - row + 1) / 2);
    store_values(v, has_next ? v + args.stride : nullptr, args.shape, values, at);
    row += has_next ? 2 : 1;
  }
}
