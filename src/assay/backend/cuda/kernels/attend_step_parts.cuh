// The parts of attend_step.cuh: attention of one new row a sequence by tensor cores, over keys and values in
// float16 or bfloat16, heads of 64 to 128 elements.
//
// Few keys leave nothing to do but to wait, one dependent step after the other: a block takes a chunk of 256
// keys of a row and a kv head, whose query heads are the 16 rows of an mma. The keys that are there already
// are on their way before the kernel in front, which makes the new row, is waited for. Then
//   scores   a warp takes 16 keys of a page: of one page, where there are four groups of four warps
//   weights  the same keys; the largest score of each page and those before it comes through shared memory
//   values   a warp takes its share of the columns and goes through the pages in order
// which gives the bits of attend_tiles: a column's sums have the same order, and the sum of a page's weights
// is that of its four steps of 16 keys. A block runs through its code once, at the rate at which instructions
// come: sixteen warps share them, and their code for a page is there once.
#pragma once

#include "assay/backend/cuda/kernels/attend_step.h"
#include "assay/backend/cuda/kernels/attention_tiles.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kStepPages = static_cast<int>(kChunkKeys / kPagePositions),
                     kStepWarps = 4;  // that share a page
// Groups of warps, each of which takes every Groups-th page.
template <int Groups>
inline constexpr int kStepThreads = Groups* kStepWarps* kWarp;
inline constexpr int kMergedAtOnce = kWarp;  // chunks

// Where parts of shared memory begin, in words. Weights, their sums, what rescales them and the factors of
// chunks take the place of keys, which have been used by then.
template <int Dim>
struct StepMemory {
  static constexpr std::int32_t kPage = kPageKeys * Dim / 2, kKeys = 0, kValues = kStepPages * kPage,
                                kQueries = 2 * kValues, kMaxima = kQueries + kTileRows * Dim / 2,
                                kIsLast = kMaxima + kTileRows * kStepPages * kStepWarps;
  // [page][step][lane][4], [half][page][lane][warp], [page][tile row], [tile row], [tile row][chunk][4]
  static constexpr std::int32_t kWeights = 0, kSums = kStepPages * 4 * kWarp * 4,
                                kRescaled = kSums + 2 * kStepPages * kWarp * kStepWarps,
                                kLargest = kRescaled + kStepPages * kTileRows, kFactors = 0;
};

// What a block knows of its row, chunk and kv head. All of it was there before the kernel in front began.
struct StepPlace {
  std::int32_t warp, lane, g, t;
  std::int32_t group, of_page;  // the warp's, and which 16 keys of a page it takes
  std::int32_t row, chunk, dim, kv_head, heads, first_head;      // heads: of the tile
  std::int32_t first, last;                                      // keys that the row sees; last: its own
  std::int32_t first_chunk, last_chunk, first_page, begin, end;  // begin, end: the chunk's pages with keys
  bool is_first_tile;

  ASSAY_DEVICE explicit StepPlace(const AttendStepArgs& a)
      : warp(thread_index() / kWarp),
        lane(thread_index() % kWarp),
        g(lane / 4),
        t(lane % 4),
        group(warp / kStepWarps),
        of_page(warp % kStepWarps),
        row(block_y()),
        chunk(block_x()),
        dim(a.attend.cache.head_dim) {
    last = Global<const std::int32_t>(a.attend.places.key).load_written<std::int32_t>(row);
    first_page = Global<const std::int32_t>(a.attend.places.first_page).load_written<std::int32_t>(row);
    const std::int32_t of_kv_head = a.attend.heads / a.attend.cache.kv_heads,
                       tiles = (of_kv_head + kTileRows - 1) / kTileRows, tile = block_z() % tiles;
    kv_head = block_z() / tiles;
    is_first_tile = tile == 0;
    first_head = kv_head * of_kv_head + tile * kTileRows;
    heads = smaller(of_kv_head - tile * kTileRows, kTileRows);
    first = static_cast<std::int32_t>(first_key_of(a.attend, last));
    constexpr auto kKeys = static_cast<std::int32_t>(kChunkKeys);
    first_chunk = first / kKeys;
    last_chunk = last < 0 ? -1 : last / kKeys;
    begin = larger(first / kPageKeys - chunk * kStepPages, 0);
    end = smaller(last / kPageKeys + 1 - chunk * kStepPages, kStepPages);
  }
  // No first page is negative: asked for here, it is loaded beside the key, and not behind it.
  ASSAY_DEVICE bool has_keys() const {
    return ((chunk - first_chunk) | (last_chunk - chunk) | first_page) >= 0;
  }
  ASSAY_DEVICE bool is_newest() const { return chunk == last_chunk; }
  ASSAY_DEVICE bool has_page(std::int32_t page) const { return page >= begin && page < end; }
  ASSAY_DEVICE std::int32_t head(int half) const { return first_head + g + 8 * half; }
};

ASSAY_DEVICE Global<std::byte> step_page(const AttendStepArgs& a, const StepPlace& at, std::int32_t page) {
  return Global<std::byte>(
      Global<const DevicePointer<std::byte>>(a.attend.places.pages)
          .load_written<DevicePointer<std::byte>>(at.first_page + at.chunk * kStepPages + page));
}

// Keys or values, `part` bytes into a page, of all pages; the newest's place stays free, what no key is there
// for becomes zero. Commits.
template <int Dim, int Groups>
ASSAY_DEVICE void fetch_part(const AttendStepArgs& a, const StepPlace& at,
                             const Global<std::byte> (&pages)[kStepPages], std::int64_t part,
                             std::int32_t to) {
  constexpr std::int32_t kPieces = Dim / 8,
                         kRows = kStepThreads<Groups> / kPieces;  // 16 bytes; rows at a time
  const std::int32_t piece = thread_index() % kPieces, row = thread_index() / kPieces,
                     row_bytes = static_cast<std::int32_t>(a.attend.cache.row_bytes());
  const bool has_piece = piece * 16 < row_bytes;
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  ASSAY_UNROLL
  for (int page = 0; page < kStepPages; ++page) {
    if (!at.has_page(page)) continue;
    const Global<const std::byte> from = pages[page].as<const std::byte>();
    ASSAY_UNROLL
    for (int i = 0; i < kPageKeys / kRows; ++i) {
      const std::int32_t in_page = row + i * kRows,
                         key = (at.chunk * kStepPages + page) * kPageKeys + in_page,
                         word = to + page * StepMemory<Dim>::kPage + tile_word<Dim>(in_page, piece);
      if (has_piece && key >= at.first && key < at.last)
        cp_async_16(words, word, from, part + in_page * row_bytes + piece * 16);
      else if (key != at.last)
        shared<Words4>(0)[word / 4] = Words4{};
    }
  }
  cp_async_commit();
}
// Gives the last of the chunk's pages, where the newest key belongs.
template <int Dim, int Groups>
ASSAY_DEVICE Global<std::byte> fetch_chunk(const AttendStepArgs& a, const StepPlace& at) {
  const CacheLayout& cache = a.attend.cache;
  Global<std::byte> pages[kStepPages], last;
  ASSAY_UNROLL
  for (int page = 0; page < kStepPages; ++page)
    if (at.has_page(page)) pages[page] = last = step_page(a, at, page);
  fetch_part<Dim, Groups>(a, at, pages, cache.keys_at(a.attend.layer, at.kv_head), StepMemory<Dim>::kKeys);
  fetch_part<Dim, Groups>(a, at, pages, cache.values_at(a.attend.layer, at.kv_head),
                          StepMemory<Dim>::kValues);
  return last;
}

// How two elements of a head are turned: x * cosine + partner * sine, which is rotate_pair's. A thread of
// each leaves cosines and sines in shared memory, in the place of the largest scores.
struct StepRotation {
  std::int32_t partner[2];
  bool is_turned[2];

  // `words` threads, one behind the other, have a head's elements.
  ASSAY_DEVICE StepRotation(const RotateArgs& a, std::int32_t row, std::int32_t words,
                            std::int32_t factors_at) {
    const std::int32_t word = thread_index() % words, first = 2 * word;
    const bool leaves = thread_index() < words;
    Words4 factors{};
    const auto pairs = static_cast<std::int32_t>(a.pairs);
    const bool are_halves = a.pairing == RotaryPairing::halves;
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int32_t element = first + i;
      const bool is_second = are_halves ? element >= pairs : i == 1;
      const std::int32_t pair = are_halves ? element - (is_second ? pairs : 0) : element / 2;
      partner[i] = are_halves ? element + (is_second ? -pairs : pairs) : element ^ 1;
      is_turned[i] = element < 2 * pairs;
      if (!is_turned[i] || !leaves) continue;
      const float cosine = Global<const float>(a.cosines).load_written<float>(row * pairs + pair),
                  sine = Global<const float>(a.sines).load_written<float>(row * pairs + pair);
      factors.word[i] = bits_of(cosine);
      factors.word[2 + i] = bits_of(is_second ? sine : -sine);
    }
    if (leaves) shared<Words4>(0)[factors_at / 4 + word] = factors;
  }
};

// The row's queries, and in its newest chunk its key and value: turned, rounded, into their places. A thread
// has two elements of several heads, and of the key or the value, all of which it loads before it waits for
// one. What can be known before the kernel in front has ended is worked out before.
template <typename Type, int Dim, int Groups>
struct StepRow {
  static constexpr std::int32_t kWords = Dim / 2, kRows = kStepThreads<Groups> / kWords,
                                kPasses = kTileRows / kRows;
  std::int32_t word, first_row;
  StepRotation rotation;
  // The two elements of the tile's first head, those they are turned with, and as much of the key or value.
  Global<const float> queries, partners[2], own, own_partners[2];
  Global<std::uint32_t> place;  // in the cache
  std::int32_t word_of_own;     // in shared memory
  bool is_there, is_key, has_own, stores_own;

  ASSAY_DEVICE StepRow(const AttendStepArgs& a, const StepPlace& at, const StepRotation& its_rotation,
                       const Global<std::byte>& newest_page)
      : word(thread_index() % kWords),
        first_row(thread_index() / kWords),
        rotation(its_rotation),
        is_there(2 * word < at.dim),
        is_key(first_row == 0),
        has_own(at.is_newest() && first_row < 2) {
    using Memory = StepMemory<Dim>;
    const CacheLayout& cache = a.attend.cache;
    const std::int32_t newest = at.last % static_cast<std::int32_t>(kChunkKeys),
                       row_bytes = static_cast<std::int32_t>(cache.row_bytes());
    stores_own = has_own && at.is_first_tile && 4 * word < row_bytes;
    // Whatever a thread has no use for it loads from where there is something.
    const std::int32_t x_at = is_there ? 2 * word : 0,
                       heads_at =
                           at.row * static_cast<std::int32_t>(a.attend.q_stride) + at.first_head * at.dim,
                       own_at = at.row * static_cast<std::int32_t>(a.store.x_stride) + at.kv_head * at.dim;
    const Global<const float> q(a.attend.q), k_or_v(is_key ? a.store.keys : a.store.values);
    queries = (q + (heads_at + x_at)).pinned();
    own = (k_or_v + (own_at + x_at)).pinned();
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int32_t partner = rotation.is_turned[i] ? rotation.partner[i] : x_at;
      partners[i] = (q + (heads_at + partner)).pinned();
      own_partners[i] = (k_or_v + (own_at + partner)).pinned();
    }
    // Pages lie one behind the other, and the order of a row's words depends on its number within 8 alone.
    word_of_own = (is_key ? Memory::kKeys : Memory::kValues) + tile_word<Dim>(newest, word / 4) + word % 4;
    if (!stores_own) return;
    const auto part = static_cast<std::int32_t>(is_key ? cache.keys_at(a.attend.layer, at.kv_head)
                                                       : cache.values_at(a.attend.layer, at.kv_head));
    place = (newest_page.template as<std::uint32_t>() + ((part + newest % kPageKeys * row_bytes) / 4 + word))
                .pinned();
  }

  // Two elements of a head and those they are turned with.
  struct Elements {
    float x[2], partner[2];
  };
  ASSAY_DEVICE std::uint32_t turned(const Elements& e, const Words4& factors, bool is_of_use,
                                    bool is_turned) const {
    float x[2];
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const float y = e.x[i] * float_of(factors.word[i]) + e.partner[i] * float_of(factors.word[2 + i]);
      x[i] = is_turned && rotation.is_turned[i] ? y : e.x[i];
    }
    return is_of_use && is_there ? packed<Type>({x[0], x[1]}) : 0U;
  }
  ASSAY_DEVICE static Elements load(const Global<const float>& x, const Global<const float> (&partners)[2],
                                    std::int32_t from) {
    return {{x.load_written<float>(from), x.load_written<float>(from + 1)},
            {partners[0].load_written<float>(from), partners[1].load_written<float>(from)}};
  }
  ASSAY_DEVICE void take(const StepPlace& at) const {
    Elements of_heads[kPasses];
    const Elements of_own = load(own, own_partners, 0);
    ASSAY_UNROLL
    for (int pass = 0; pass < kPasses; ++pass)
      of_heads[pass] = load(queries, partners, smaller(first_row + pass * kRows, at.heads - 1) * at.dim);
    // What is needed for it lies behind a barrier: ptxas would turn each head before it loads the next.
    warp_barrier();
    const Words4 factors = shared<Words4>(0)[StepMemory<Dim>::kMaxima / 4 + word];
    const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
    const std::uint32_t pair = turned(of_own, factors, true, is_key);
    if (has_own) words[word_of_own] = pair;
    if (stores_own) place[0] = pair;
    ASSAY_UNROLL
    for (int pass = 0; pass < kPasses; ++pass) {  // rows that are no head's become zero
      const std::int32_t row = first_row + pass * kRows;
      words[StepMemory<Dim>::kQueries + tile_word<Dim>(row, word / 4) + word % 4] =
          turned(of_heads[pass], factors, row < at.heads, true);
    }
  }
};

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
