// What attention_tiles.cuh attends: rows and heads of a block, its shared memory, and how queries, keys and
// values come there.
#pragma once

#include "assay/backend/cuda/kernels/attention.cuh"
#include "assay/backend/cuda/kernels/linear.cuh"

namespace assay::cuda::device {
inline namespace ASSAY_COMPILED_FOR {

inline constexpr int kPageKeys = static_cast<int>(kPagePositions), kTileRows = 16;

// Elements of an int8 cache.
struct Codes : Bfloat16 {};
template <typename Type>
inline constexpr bool kAreCodes = std::is_same_v<Type, Codes>;

// 16 bytes of a row of `Dim` elements: 8 rows, read together, meet no bank twice.
template <int Dim>
ASSAY_DEVICE std::int32_t tile_word(std::int32_t row, std::int32_t chunk) {
  return row * (Dim / 2) + ((chunk ^ (row & 7)) * 4);
}

// Where a block's parts of shared memory begin, in words: keys and values of each stage, queries, and values
// of the chunks before, of which each thread has its own. Of codes one place for keys and values that all
// stages share, and in each stage codes and scales of keys, then of values.
template <typename Type, int KeyDim, int Dim>
struct AttendMemory {
  static constexpr bool kExpands = kAreCodes<Type>;
  static constexpr std::int32_t kKeys = kPageKeys * KeyDim / 2, kPage = kKeys + kPageKeys * Dim / 2;
  static constexpr std::int32_t kCodes = kPage / 2, kStages = kExpands ? kPage : 0,
                                kStage = kExpands ? kCodes + 2 * kPageKeys : kPage;
  std::int32_t queries, totals;

  ASSAY_DEVICE explicit AttendMemory(std::int32_t stages)
      : queries(kStages + stages * kStage),
        totals(queries + block_threads() / kWarp * kTileRows * KeyDim / 2) {}
  ASSAY_DEVICE static std::int32_t stage_at(std::int32_t stage) { return kStages + stage * kStage; }
  ASSAY_DEVICE static std::int32_t keys(std::int32_t stage) { return kExpands ? 0 : stage_at(stage); }
  ASSAY_DEVICE static std::int32_t values(std::int32_t stage) { return keys(stage) + kKeys; }
  ASSAY_DEVICE static std::int32_t key_scales(std::int32_t stage) { return stage_at(stage) + kCodes; }
};

// The pairs of a block: rows [first_row, end_row) of the batch times the heads of a kv head, of which this
// block has kTileRows a warp from first_pair on; part: which of `parts` it takes of the values.
struct AttendPlace {
  std::int32_t warp, lane, g, t, heads, first_pair, pairs, part, first_row, end_row, kv_head;

  ASSAY_DEVICE AttendPlace(const AttendTilesArgs& a, std::int32_t parts)
      : warp(thread_index() / kWarp),
        lane(thread_index() % kWarp),
        g(lane / 4),
        t(lane % 4),
        heads(a.attend.heads / a.attend.cache.kv_heads) {
    const auto rows = static_cast<std::int32_t>(a.attend.rows);
    const std::int32_t of_tile = a.attend.cache.kv_heads * parts,
                       tiles = (rows + a.rows_of_group - 1) / a.rows_of_group * a.tiles,
                       rank = rank_of(block_z() * of_tile + block_y(), tiles * of_tile, a.processors),
                       tile = tiles - 1 - rank / of_tile;
    part = rank % of_tile % parts;
    kv_head = rank % of_tile / parts;
    first_pair = tile % a.tiles * (block_threads() / kWarp) * kTileRows;
    first_row = tile / a.tiles * a.rows_of_group;
    end_row = smaller(first_row + a.rows_of_group, rows);
    pairs = (end_row - first_row) * heads;
  }
  // Which piece of work a block takes, the longest first: late rows see most keys. As many blocks as there
  // are processors begin one on each, and as many others behind them on each a second: every other such group
  // takes its work from the end, so that a short piece comes beside a long one.
  ASSAY_DEVICE static std::int32_t rank_of(std::int32_t block, std::int32_t blocks, std::int32_t processors) {
    const std::int32_t group = block / processors, first = group * processors;
    return group % 2 == 0 ? block : first + smaller(processors, blocks - first) - 1 - (block - first);
  }
  ASSAY_DEVICE bool has(std::int32_t tile_row) const { return first_pair + tile_row < pairs; }
  ASSAY_DEVICE std::int32_t row(std::int32_t tile_row) const {
    return first_row + (first_pair + tile_row) / heads;
  }
  ASSAY_DEVICE std::int32_t head(std::int32_t tile_row) const {
    return kv_head * heads + (first_pair + tile_row) % heads;
  }
};

// The first of the block's values of a key. Known to the compiler where there is one part.
template <int KeyDim, int Dim>
ASSAY_DEVICE std::int32_t first_value(const AttendPlace& at) {
  return KeyDim == Dim ? 0 : at.part * Dim;
}

// What a lane knows of its two rows of the tile, g and g + 8: the keys they see, none of a row that is not
// there; their largest score and the lane's part of the sum of weights in this chunk, and in those before.
struct TileRows {
  std::int32_t first[2], last[2];
  float slope[2];
  float largest[2], sum[2], total_largest[2], total_sum[2];

  // Whether a row that is there does not see all keys of [begin, end].
  ASSAY_DEVICE bool are_cut(std::int32_t begin, std::int32_t end) const {
    bool is_cut = false;
    ASSAY_UNROLL
    for (int half = 0; half < 2; ++half)
      is_cut = is_cut || (first[half] <= last[half] && (first[half] > begin || last[half] < end));
    return is_cut;
  }
};

// A warp's queries, several of which are on their way at a time. Pairs that are not there become zero.
template <typename Type, int Dim>
ASSAY_DEVICE void load_queries(const AttendTilesArgs& a, const AttendPlace& at, std::int32_t to) {
  constexpr int kAhead = 8, kPieces = Dim / 64;  // 32 words of a row each
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  const Global<const float> q(a.attend.q);
  const auto dim = static_cast<std::int32_t>(a.attend.cache.head_dim);
  ASSAY_NO_UNROLL
  for (int first = 0; first < kTileRows * kPieces; first += kAhead) {
    Floats2 pairs[kAhead];
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      const std::int32_t row = at.warp * kTileRows + (first + i) / kPieces,
                         element = 2 * ((first + i) % kPieces * kWarp + at.lane),
                         there = at.has(row) ? row : 0;  // what has no use is loaded from where something is
      const std::int64_t from = std::int64_t{at.row(there)} * a.attend.q_stride + at.head(there) * dim;
      pairs[i].x = q.load_written<float>(from + (element < dim ? element : 0));
      pairs[i].y = q.load_written<float>(from + (element + 1 < dim ? element + 1 : 0));
      if (!at.has(row) || element >= dim) pairs[i].x = 0;
      if (!at.has(row) || element + 1 >= dim) pairs[i].y = 0;
    }
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      const std::int32_t row = at.warp * kTileRows + (first + i) / kPieces,
                         word = (first + i) % kPieces * kWarp + at.lane;
      words[to + tile_word<Dim>(row, word / 4) + word % 4] = Type::pair(pairs[i].x, pairs[i].y);
    }
  }
}

// The keys of a page [first, last] that are there, of keys or values; the others become zero. A thread has
// 16 bytes of every so manieth; small blocks do the work of kAttendThreads.
template <int Dim, bool AreCodes>
ASSAY_DEVICE void load_part(std::int32_t to, const Global<const std::byte>& part, std::int32_t row_bytes,
                            std::int32_t first_byte, std::int32_t first, std::int32_t last) {
  constexpr std::int32_t kChunks = Dim / (AreCodes ? 16 : 8), kRows = kAttendThreads / kChunks;
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  const bool are_all_there = first <= 0 && last >= kPageKeys - 1;
  ASSAY_NO_UNROLL
  for (std::int32_t i = thread_index(); i < kAttendThreads; i += block_threads()) {
    const std::int32_t its_row = i / kChunks, chunk = i % kChunks, byte = first_byte + chunk * 16;
    const Global<const std::byte> from = part + (its_row * row_bytes + byte);
    const auto word_of = [&](int pass) {
      const std::int32_t row = its_row + pass * kRows;
      return to + (AreCodes ? 4 * (i + pass * kAttendThreads) : tile_word<Dim>(row, chunk));
    };
    if (are_all_there && byte < row_bytes) {
      ASSAY_UNROLL
      for (int pass = 0; pass < kPageKeys / kRows; ++pass)
        cp_async_16(words, word_of(pass), from, pass * kRows * row_bytes);
      continue;
    }
    ASSAY_NO_UNROLL
    for (int pass = 0; pass < kPageKeys / kRows; ++pass) {
      const std::int32_t row = its_row + pass * kRows;
      if (byte < row_bytes && row >= first && row <= last)
        cp_async_16(words, word_of(pass), from, pass * kRows * row_bytes);
      else
        shared<Words4>(0)[word_of(pass) / 4] = Words4{};
    }
  }
}

// The pages of a sequence, one behind the other. The address of the next is on its way while its turn has not
// come.
template <typename Type, int KeyDim, int Dim>
class PageStream {
 public:
  ASSAY_DEVICE PageStream(const AttendTilesArgs& a, const AttendPlace& at, std::int32_t first_page,
                          std::int32_t page, std::int32_t end)
      : pages_(Global<const DevicePointer<std::byte>>(a.attend.places.pages) + first_page),
        keys_at_(a.attend.cache.keys_at(a.attend.layer, at.kv_head)),
        values_at_(a.attend.cache.values_at(a.attend.layer, at.kv_head)),
        row_bytes_(static_cast<std::int32_t>(a.attend.cache.row_bytes())),
        page_(page),
        end_(end) {
    ask();
  }
  // Keys [first, last] of the next page, if there is one, and their values, the others zero; commits.
  ASSAY_DEVICE void load(const AttendTilesArgs& a, const AttendPlace& at, std::int32_t first,
                         std::int32_t last, std::int32_t stage) {
    using Memory = AttendMemory<Type, KeyDim, Dim>;
    constexpr bool kExpands = Memory::kExpands;
    if (page_ < end_) {
      const Global<const std::byte> from = Global<std::byte>(next_).template as<const std::byte>();
      const std::int32_t first_row = first - page_ * kPageKeys, last_row = last - page_ * kPageKeys;
      ++page_;
      load_part<KeyDim, kExpands>(kExpands ? Memory::stage_at(stage) : Memory::keys(stage), from + keys_at_,
                                  row_bytes_, 0, first_row, last_row);
      load_part<Dim, kExpands>(
          kExpands ? Memory::stage_at(stage) + kPageKeys * KeyDim / 4 : Memory::values(stage),
          from + values_at_, row_bytes_, (kExpands ? 1 : 2) * first_value<KeyDim, Dim>(at), first_row,
          last_row);
      if constexpr (kExpands) {
        // All of them: nobody takes those of other keys.
        constexpr std::int32_t kOfScales = kPageKeys / 4;
        if (const std::int32_t i = thread_index(); i < 2 * kOfScales)
          cp_async_16(
              shared<std::uint32_t>(0), Memory::key_scales(stage) + 4 * i, from,
              (i < kOfScales ? keys_at_ : values_at_) + a.attend.cache.scales_at() + i % kOfScales * 16);
      }
      cp_async_commit();
      ask();
    }
  }

 private:
  ASSAY_DEVICE void ask() {
    if (page_ < end_) next_ = pages_.template load_written<DevicePointer<std::byte>>(page_);
  }
  Global<const DevicePointer<std::byte>> pages_;
  DevicePointer<std::byte> next_;
  std::int64_t keys_at_, values_at_;
  std::int32_t row_bytes_, page_, end_;
};

// Two codes, the low bytes of `codes` with their sign bits flipped, as bfloat16: 2^23 + 128 + code is exact
// in float32, and so is what is left of it.
ASSAY_DEVICE std::uint32_t expanded_pair(std::uint32_t codes) {
  constexpr std::uint32_t kShift = 0x4b000000U;  // 2^23
  const float low = float_of(kShift | (codes & 0xffU)) - 8388736.0F,
              high = float_of(kShift | (codes >> 8 & 0xffU)) - 8388736.0F;
  return bits_of(low) >> 16 | (bits_of(high) & 0xffff0000U);
}
// Codes of a stage into the place of keys and values, 8 at a time.
template <int KeyDim, int Dim>
ASSAY_DEVICE void expand_page(std::int32_t stage) {
  using Memory = AttendMemory<Codes, KeyDim, Dim>;
  constexpr std::int32_t kOfKeys = kPageKeys * KeyDim / 8, kOfValues = kPageKeys * Dim / 8;
  const Shared<std::uint32_t> words = shared<std::uint32_t>(0);
  const Shared<Words4> expanded = shared<Words4>(0);
  for (std::int32_t i = thread_index(); i < kOfKeys + kOfValues; i += block_threads()) {
    const bool is_key = i < kOfKeys;
    const std::int32_t of_part = is_key ? i : i - kOfKeys, chunks = is_key ? KeyDim / 8 : Dim / 8,
                       row = of_part / chunks, chunk = of_part % chunks;
    const std::int32_t to = is_key ? Memory::keys(stage) + tile_word<KeyDim>(row, chunk)
                                   : Memory::values(stage) + tile_word<Dim>(row, chunk);
    const std::uint32_t low = words[Memory::stage_at(stage) + 2 * i] ^ 0x80808080U,
                        high = words[Memory::stage_at(stage) + 2 * i + 1] ^ 0x80808080U;
    expanded[to / 4] = Words4{
        {expanded_pair(low), expanded_pair(low >> 16), expanded_pair(high), expanded_pair(high >> 16)}};
  }
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda::device
