// Attention of decode steps by one kernel: the bits, and the cache, of the kernels of many rows.
#include <gtest/gtest.h>

#include "assay/backend/cuda/kernels/attend_step.h"
#include "support/cuda_attention.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

struct StepCase {
  AttendCase attend;
  int pairs = 0;
  RotaryPairing pairing = RotaryPairing::halves;
};

// One row a sequence, whose key is the last, and a row of padding.
class CudaAttendStep : public CudaAttention {
 protected:
  struct Result {
    Floats out;  // [rows][heads * head_dim + 1]
    std::vector<std::byte> pages;
  };

  void prepare(const StepCase& c, std::vector<std::int64_t> lengths) {
    step_case_ = c;
    lengths.push_back(1);  // padding
    fill(c.attend, lengths);
    rows_ = static_cast<std::int64_t>(lengths.size());
    width_ = std::int64_t{c.attend.heads} * c.attend.head_dim;
    kv_width_ = std::int64_t{c.attend.kv_heads} * c.attend.head_dim;
    longest_ = *std::max_element(lengths.begin(), lengths.end());
    q_ = random_.floats(rows_ * width_, -2, 2);
    cosines_ = random_.floats(rows_ * c.pairs + 1);
    sines_ = random_.floats(rows_ * c.pairs + 1);
  }
  void store_all_but_newest() {
    std::vector<Sequence> all = sequences_;
    for (Sequence& s : sequences_) {
      s.length -= 1;
      s.keys.resize(at_of(s.length * kv_width_));
      s.values.resize(at_of(s.length * kv_width_));
    }
    store();
    sequences_ = std::move(all);
    pages_before_ = held_pages();
  }
  std::vector<std::byte> held_pages() {
    std::vector<std::byte> all;
    const std::int64_t count = page_count();
    for (const auto page : get(pages_, count)) {
      const std::vector<std::byte> one = get(page, layout_.page_bytes());
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  std::int64_t page_count() const {
    std::int64_t count = 0;
    for (const Sequence& s : sequences_) count += (s.length + kPagePositions - 1) / kPagePositions;
    return count;
  }
  void restore_pages() {
    const auto bytes = at_of(layout_.page_bytes());
    std::size_t i = 0;
    for (const auto page : get(pages_, page_count()))
      runtime_->upload(page, std::span(pages_before_).subspan(bytes * i++, bytes));
  }
  // Queries, keys and values side by side, of which the kernel in front writes the last.
  DevicePointer<float> qkv() {
    const std::int64_t stride = width_ + 2 * kv_width_ + 1;
    Floats x(at_of(rows_ * stride), kNaN);
    for (std::int64_t row = 0; row < rows_; ++row) {
      float* to = x.data() + row * stride;
      const Sequence& s = sequences_[at_of(row)];
      std::copy_n(q_.begin() + row * width_, width_, to);
      std::copy_n(s.keys.end() - kv_width_, kv_width_, to + width_);
      std::copy_n(s.values.end() - kv_width_, kv_width_, to + width_ + kv_width_);
    }
    std::vector<std::int32_t> row_of(at_of(rows_));
    for (std::int32_t i = 0; i < rows_; ++i) row_of[at_of(i)] = i;
    const auto out = room<float>(rows_ * stride);
    run(*runtime_, GatherArgs{.x = put(x),
                              .x_stride = stride,
                              .row_of = put(row_of),
                              .out = out,
                              .out_stride = stride,
                              .rows = rows_,
                              .n = stride});
    return out;
  }

  struct Places {
    DevicePointer<float> out;
    DevicePointer<std::uint32_t> counters;
    OrderedRowsOut ordered;
  };
  // longest: that of a recorded step.
  AttendStepArgs args_of(const Places& to, std::int64_t longest, bool has_scratch) {
    const AttendCase& c = step_case_.attend;
    std::vector<std::int32_t> key, first_page;
    for (const Sequence& s : sequences_) {
      key.push_back(static_cast<std::int32_t>(s.length) - 1);
      first_page.push_back(s.first_page);
    }
    key.back() = -1;
    slopes_.clear();
    for (int i = 0; i < c.heads; ++i) slopes_.push_back(0.01F * static_cast<float>(i + 1));
    const std::int64_t stride = width_ + 2 * kv_width_ + 1,
                       scratch = attend_scratch_floats(rows_, c.heads, c.head_dim, longest);
    AttendStepArgs args;
    args.store.places = {.key = put(key), .first_page = put(first_page), .pages = pages_};
    args.rotate = {.heads = c.heads + c.kv_heads,
                   .head_dim = c.head_dim,
                   .pairs = step_case_.pairs,
                   .pairing = step_case_.pairing,
                   .cosines = put(cosines_),
                   .sines = put(sines_)};
    args.attend = {.heads = c.heads,
                   .scale = 0.3F,
                   .window = c.window,
                   .soft_cap = c.soft_cap,
                   .slopes = c.has_slopes ? put(slopes_) : DevicePointer<float>(),
                   .places = args.store.places,
                   .sequences = rows_,
                   .longest = longest,
                   .out = to.out,
                   .out_stride = width_ + 1,
                   .ordered = to.ordered,
                   .scratch = has_scratch ? room<float>(scratch) : DevicePointer<float>(),
                   .scratch_floats = has_scratch ? scratch : 0};
    args.counters = to.counters;
    args.store.cache = args.attend.cache = layout_;
    args.store.layer = args.attend.layer = kLayer;
    args.rotate.rows = args.store.rows = args.attend.rows = rows_;
    args.rotate.x_stride = args.store.x_stride = args.attend.q_stride = stride;
    const DevicePointer<float> x = qkv();  // last: its kernel is the one in front
    args.rotate.x = x;
    args.attend.q = x;
    args.store.keys = x + width_;
    args.store.values = x + width_ + kv_width_;
    return args;
  }
  // By one kernel, or by those of many rows. longest: 0 for that of the rows.
  Result result(bool by_one, std::int64_t longest = 0, bool has_scratch = true) {
    restore_pages();
    const AttendCase& c = step_case_.attend;
    const bool is_ordered = c.head_dim <= kMaxOrderedHeadDim;
    const OrderedRows ordered(memory_, rows_, width_, layout_.format == CacheFormat::float16);
    const Places to{.out = room<float>(rows_ * (width_ + 1)),
                    .counters = put(std::vector<std::uint32_t>(at_of(rows_ * c.heads))),
                    .ordered = is_ordered ? ordered.out() : OrderedRowsOut()};
    const AttendStepArgs args = args_of(to, std::max(longest, longest_), has_scratch);
    if (by_one) {
      run(*runtime_, args);
    } else {
      run(*runtime_, RotateStoreArgs{args.rotate, args.store});
      run(*runtime_, args.attend);
    }
    for (const std::uint32_t left : get(to.counters, rows_ * c.heads)) EXPECT_EQ(left, 0U);
    Result all{.out = get(to.out, rows_ * (width_ + 1)), .pages = held_pages()};
    if (is_ordered) ordered.expect(all.out, width_ + 1);
    for (std::int64_t row = 0; row < rows_; ++row)
      all.out[at_of(row * (width_ + 1) + width_)] = 0;  // no one's
    return all;
  }
  void expect_equal(const Result& got, const Result& wanted) {
    ASSERT_EQ(got.out.size(), wanted.out.size());
    for (std::size_t i = 0; i < got.out.size(); ++i)
      ASSERT_TRUE(is_same(got.out[i], wanted.out[i]))
          << "row " << i / at_of(width_ + 1) << ", column " << i % at_of(width_ + 1) << ": " << got.out[i]
          << " for " << wanted.out[i];
    EXPECT_TRUE(got.pages == wanted.pages) << "the cache holds something else";
  }

  StepCase step_case_;
  std::int64_t rows_ = 0, width_ = 0, kv_width_ = 0, longest_ = 0;
  Floats q_, cosines_, sines_;
  std::vector<std::byte> pages_before_;
};

constexpr CacheFormat kHalf = CacheFormat::float16, kBrain = CacheFormat::bfloat16;

const std::vector<StepCase>& step_cases() {
  static const std::vector<StepCase> cases{
      {{.format = kBrain, .head_dim = 64, .heads = 4, .kv_heads = 4}, 32},
      {{.format = kHalf, .head_dim = 80, .heads = 8, .kv_heads = 2, .window = 300}, 16},
      {{.format = kBrain, .head_dim = 96, .heads = 8, .kv_heads = 1, .soft_cap = 3},
       48,
       RotaryPairing::neighbours},
      {{.format = kHalf, .head_dim = 128, .heads = 12, .kv_heads = 1, .has_slopes = true}, 64},
      {{.format = kBrain, .head_dim = 64, .heads = 32, .kv_heads = 1, .window = 70},
       20,
       RotaryPairing::neighbours},
      {{.format = kHalf, .head_dim = 100, .heads = 2, .kv_heads = 1}, 25}};
  return cases;
}

TEST_F(CudaAttendStep, GivesTheBitsOfTheKernelsOfManyRows) {
  for (const StepCase& c : step_cases()) {
    SCOPED_TRACE("dim " + std::to_string(c.attend.head_dim) + ", heads " + std::to_string(c.attend.heads));
    prepare(c, {1, 2, 17, 63, 64, 65, 200, 256, 257, 700, 1025});
    ASSERT_TRUE(has_step_kernel(layout_, runtime_->facts().shared_bytes_per_block));
    store_all_but_newest();
    const Result wanted = result(false, 0, false);
    expect_equal(result(true), wanted);
    expect_equal(result(true, 2000), wanted);  // blocks whose chunk does not exist
  }
}

// A row has no other bits alone; and it is one launch.
TEST_F(CudaAttendStep, TakesARowAloneInOneLaunch) {
  auto* emulated = dynamic_cast<EmulatedRuntime*>(runtime_.get());
  for (const std::int64_t length : {1, 17, 64, 300}) {
    prepare({{.format = kBrain, .head_dim = 64, .heads = 8, .kv_heads = 1}, 32}, {length});
    store_all_but_newest();
    const Result wanted = result(false);
    const std::int64_t before = emulated != nullptr ? emulated->launches() : 0;
    expect_equal(result(true), wanted);
    if (emulated == nullptr) continue;
    EXPECT_EQ(emulated->launches() - before, 2);  // and the kernel in front
  }
}

// Chunks of many keys are merged by a kernel of their own; a sequence of few beside them is written before
// it.
TEST_F(CudaAttendStep, MergesManyChunksInAnother) {
  auto* emulated = dynamic_cast<EmulatedRuntime*>(runtime_.get());
  for (const StepCase& c :
       {StepCase{{.format = kBrain, .head_dim = 64, .heads = 4, .kv_heads = 2}, 32},
        StepCase{{.format = kHalf, .head_dim = 96, .heads = 2, .kv_heads = 1, .window = 2100}, 48}}) {
    prepare(c, {kMergedByStep * kChunkKeys + 1, 40, 64 * kChunkKeys + 300, 3000});
    store_all_but_newest();
    const Result wanted = result(false, 0, false);
    const std::int64_t before = emulated != nullptr ? emulated->launches() : 0;
    expect_equal(result(true), wanted);
    if (emulated == nullptr) continue;
    EXPECT_EQ(emulated->launches() - before, 3);
  }
}

// By one group of warps where many rows of few keys share a processor, else by four.
TEST_F(CudaAttendStep, TakesManyRowsOfFewKeysInSmallBlocks) {
  prepare({{.format = kBrain, .head_dim = 64, .heads = 2, .kv_heads = 2}, 32},
          std::vector<std::int64_t>(static_cast<std::size_t>(runtime_->facts().processors) + 1, 100));
  store_all_but_newest();
  expect_equal(result(true), result(false, 0, false));
}

TEST_F(CudaAttendStep, AttendsInDouble) {
  prepare({{.format = kHalf, .head_dim = 64, .heads = 6, .kv_heads = 2, .window = 290}}, {5, 130, 600});
  store_all_but_newest();
  const Result got = result(true);
  std::vector<Row> rows;
  Floats packed;
  for (std::size_t row = 0; row < 3; ++row) {
    rows.push_back({row, static_cast<std::int32_t>(sequences_[row].length) - 1});
    const auto from = got.out.begin() + static_cast<std::int64_t>(row) * (width_ + 1);
    packed.insert(packed.end(), from, from + width_);
  }
  expect_attended(rows, q_, packed);
  for (std::int64_t i = 0; i < width_; ++i)
    EXPECT_EQ(got.out[at_of(3 * (width_ + 1) + i)], 0.0F) << "padding";
}

TEST_F(CudaAttendStep, PassesOnWhatIsNotFinite) {
  for (const CacheFormat format : {kHalf, kBrain}) {
    for (const bool is_newest : {false, true}) {
      prepare({{.format = format, .head_dim = 64, .heads = 4, .kv_heads = 2, .window = 100}, 32},
              {90, 170, 400});
      for (Sequence& s : sequences_) {
        const std::int64_t at = is_newest ? s.length - 1 : std::max<std::int64_t>(0, s.length - 40);
        s.values[at_of(at * kv_width_ + 3)] = kInfinity;
        s.keys[at_of(at * kv_width_ + 70)] = kNaN;
        if (s.length > 110) s.values[at_of(5 * kv_width_ + 9)] = -kInfinity;  // beyond the window
      }
      q_[at_of(width_ + 130)] = kInfinity;
      store_all_but_newest();
      const Result wanted = result(false, 0, false);
      expect_equal(result(true), wanted);
      EXPECT_FALSE(std::isfinite(wanted.out[3]));
      EXPECT_TRUE(std::isfinite(wanted.out[9]));
    }
  }
}

// What has no kernel for it: other caches, heads that are longer or odd, no room for chunks or shared memory.
TEST_F(CudaAttendStep, LeavesTheOthersToTheKernelsOfManyRows) {
  const StepCase fits{{.format = kBrain, .head_dim = 128, .heads = 2, .kv_heads = 1}, 64};
  for (StepCase c :
       {fits, StepCase{{.format = CacheFormat::int8, .head_dim = 64, .heads = 2, .kv_heads = 1}, 32},
        StepCase{{.format = CacheFormat::float32, .head_dim = 64, .heads = 2, .kv_heads = 1}, 32},
        StepCase{{.format = kHalf, .head_dim = 66, .heads = 2, .kv_heads = 1}, 33},
        StepCase{{.format = kHalf, .head_dim = 160, .heads = 2, .kv_heads = 1}, 80}}) {
    const bool is_fit = c.attend.format == kBrain;
    prepare(c, {17, 300});
    EXPECT_EQ(has_step_kernel(layout_, 227 << 10), is_fit);
    EXPECT_FALSE(has_step_kernel(layout_, 99 << 10));
    store_all_but_newest();
    const Result wanted = result(false);
    expect_equal(result(true, 0, !is_fit), wanted);
  }
}

}  // namespace
}  // namespace assay::cuda
