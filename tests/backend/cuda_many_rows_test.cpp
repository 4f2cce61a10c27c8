// Kernels of many rows that read 16 bytes at a time: the bits of those for few rows.
#include <gtest/gtest.h>

#include "assay/backend/cuda/kernels/launch_many_rows.h"
#include "support/cuda_kernels.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

using CudaManyRows = CudaKernels;

// Calls run(first, rows) for parts of few rows.
template <typename Run>
void in_parts(std::int64_t rows, const Run& run_part) {
  for (std::int64_t first = 0; first < rows; first += kMinorRows)
    run_part(first, std::min(kMinorRows, rows - first));
}

TEST_F(CudaManyRows, GateAsFewDo) {
  constexpr std::int64_t kRows = 37, kColumns = 1036, kStride = 2080, kOutStride = 1040;
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    Floats x = random_.floats(kRows * kStride, -9, 9);
    x[at_of(20 * kStride + 3)] = kNaN;
    x[at_of(21 * kStride + kColumns)] = kInfinity;
    const auto held = put(x);
    const Floats before = random_.floats(kRows * kOutStride);
    const auto many = put(before), few = put(before);
    GatedArgs args{.x = held,
                   .x_stride = kStride,
                   .activation = activation,
                   .out = many,
                   .out_stride = kOutStride,
                   .rows = kRows,
                   .n = kColumns};
    ASSERT_TRUE(gate_many(*runtime_, args));
    in_parts(kRows, [&](std::int64_t first, std::int64_t rows) {
      args.x = held + first * kStride;
      args.out = few + first * kOutStride;
      args.rows = rows;
      EXPECT_FALSE(gate_many(*runtime_, args));
      run(*runtime_, args);
    });
    const Floats got = get(many, kRows * kOutStride), want = get(few, kRows * kOutStride);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(is_same(got[i], want[i])) << "element " << i;
  }
}

TEST_F(CudaManyRows, GateWhatBeginsAnywhere) {
  const auto x = put(random_.floats(20 * 16 + 1)), out = room<float>(20 * 8);
  GatedArgs args{.x = x, .x_stride = 16, .out = out, .out_stride = 8, .rows = 20, .n = 8};
  EXPECT_TRUE(gate_many(*runtime_, args));
  args.x = x + 1;
  EXPECT_FALSE(gate_many(*runtime_, args));
  run(*runtime_, args);
  args.x = x;
  args.x_stride = 15;
  EXPECT_FALSE(gate_many(*runtime_, args));
  args.x_stride = 16;
  args.n = 6;
  EXPECT_FALSE(gate_many(*runtime_, args));
}

struct RotateCase {
  CacheFormat format;
  RotaryPairing pairing;
  int head_dim, heads, kv_heads;
};

struct RotatedRows {
  DevicePointer<float> x;
  std::int64_t stride, rows;
};
struct Angles {
  DevicePointer<const float> cosines, sines;
};
// Queries, keys and values side by side.
RotateStoreArgs rotation_of(const RotatedRows& in, const RotateCase& c, const CacheLayout& layout,
                            const Angles& angles, const KvSlots& places) {
  const std::int64_t keys_at = c.heads * c.head_dim, values_at = keys_at + c.kv_heads * c.head_dim;
  return {.rotate = {.x = in.x,
                     .x_stride = in.stride,
                     .rows = in.rows,
                     .heads = c.heads + c.kv_heads,
                     .head_dim = c.head_dim,
                     .pairs = c.head_dim / 2,
                     .pairing = c.pairing,
                     .cosines = angles.cosines,
                     .sines = angles.sines},
          .store = {.keys = in.x + keys_at,
                    .values = in.x + values_at,
                    .x_stride = in.stride,
                    .rows = in.rows,
                    .cache = layout,
                    .layer = 1,
                    .places = places}};
}

TEST_F(CudaManyRows, RotateAndStoreAsFewDo) {
  constexpr std::int64_t kRows = 70;
  for (const RotateCase& c : {RotateCase{CacheFormat::float16, RotaryPairing::halves, 64, 6, 2},
                              RotateCase{CacheFormat::bfloat16, RotaryPairing::neighbours, 80, 4, 4},
                              RotateCase{CacheFormat::float32, RotaryPairing::halves, 8, 3, 1},
                              RotateCase{CacheFormat::float32, RotaryPairing::neighbours, 128, 2, 1}}) {
    SCOPED_TRACE(c.head_dim);
    const CacheLayout layout{.format = c.format, .layers = 2, .kv_heads = c.kv_heads, .head_dim = c.head_dim};
    const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim, stride = width + 4,
                       pairs = c.head_dim / 2;
    const Floats x = random_.floats(kRows * stride);
    const auto cosines = put(random_.floats(kRows * pairs)), sines = put(random_.floats(kRows * pairs));
    // Rows of two sequences, the first of which has padding; pages that are used in part.
    std::vector<std::int32_t> key, first_page;
    for (std::int32_t i = 0; i < kRows; ++i) {
      key.push_back(i < 30 ? i - 2 < 0 ? -1 : i - 2 : i + 33);
      first_page.push_back(i < 30 ? 0 : 1);
    }
    const auto keys = put(key), first_pages = put(first_page);
    const std::vector<std::byte> fresh(at_of(layout.page_bytes()), std::byte{0x5a});
    struct Made {
      DevicePointer<float> x;
      std::vector<DevicePointer<std::byte>> pages;
    };
    const auto make = [&] { return Made{put(x), {put(fresh), put(fresh), put(fresh)}}; };
    const auto args_of = [&](const Made& made, DevicePointer<DevicePointer<std::byte>> pages,
                             std::int64_t first, std::int64_t rows) {
      return rotation_of({made.x + first * stride, stride, rows}, c, layout,
                         {cosines + first * pairs, sines + first * pairs},
                         {keys + first, first_pages + first, pages});
    };
    const Made many = make(), few = make();
    const auto pages_of_many = put(many.pages), pages_of_few = put(few.pages);
    ASSERT_TRUE(rotate_and_store_many(*runtime_, args_of(many, pages_of_many, 0, kRows)));
    in_parts(kRows, [&](std::int64_t first, std::int64_t rows) {
      EXPECT_FALSE(rotate_and_store_many(*runtime_, args_of(few, pages_of_few, first, rows)));
      run(*runtime_, args_of(few, pages_of_few, first, rows));
    });
    EXPECT_EQ(get(many.x, kRows * stride), get(few.x, kRows * stride));
    for (std::size_t page = 0; page < many.pages.size(); ++page)
      EXPECT_EQ(get(many.pages[page], layout.page_bytes()), get(few.pages[page], layout.page_bytes()))
          << "page " << page;
    // What it leaves to the kernel of few rows.
    RotateStoreArgs other = args_of(many, pages_of_many, 0, kRows);
    other.store.cache.format = CacheFormat::int8;
    EXPECT_FALSE(rotate_and_store_many(*runtime_, other));
    other = args_of(many, pages_of_many, 0, kRows);
    other.rotate.pairs -= 1;
    EXPECT_FALSE(rotate_and_store_many(*runtime_, other));
    other = args_of(many, pages_of_many, 0, kRows);
    other.store.keys = many.x;
    EXPECT_FALSE(rotate_and_store_many(*runtime_, other));
  }
}

}  // namespace
}  // namespace assay::cuda
