// What the kernels of a GPU compute: an argument struct for each operation, and run(), which chooses the
// kernels and the shape of their launches.
//
// Activations are float32, [rows][columns], rows a stride apart (in elements). A row's result depends on
// that row alone, bit for bit, whatever else is in the batch, except where an operation says otherwise. NaN
// and infinity come through as backend/cpu/kernels/kernels.h has it. Pointers are device addresses; memory of
// activations may begin and step at any multiple of 4 bytes, weights begin at 256.
#pragma once

#include <cstdint>

#include "assay/backend/cuda/kernels/gemm_args.h"
#include "assay/backend/cuda/kernels/head_args.h"
#include "assay/backend/cuda/kernels/int8_args.h"
#include "assay/backend/cuda/kernels/launch_choice.h"
#include "assay/backend/cuda/kernels/linear_args.h"
#include "assay/backend/cuda/kernels/product_kernels.h"
#include "assay/plan/elementwise.h"

namespace assay::cuda {

// out[row] = scale * tokens[ids[row]] + places[positions[row] + position_offset], of the tables that have
// data. Both have `columns` inputs.
struct EmbedArgs {
  DevicePointer<const std::int32_t> ids = {}, positions = {};  // [rows]
  Matrix tokens = {}, places = {};
  std::int64_t position_offset = 0;
  float scale = 1;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0, rows = 0, columns = 0;
  MomentParts moments = {};  // written, of what is in out
};

// Layer norm, or rms norm where the mean stays: out = (x - mean) / sqrt(variance + epsilon) * gain + bias, of
// `groups` parts of n columns side by side, each by itself. out may be x.
struct NormArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0;
  DevicePointer<const std::int32_t> row_of = {};  // [rows]: the row of x that out's row i is made of; null: i
  DevicePointer<const float> gain = {}, bias = {};  // [n]; bias may be null
  float epsilon = 0;
  bool subtracts_mean = false;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0, rows = 0, groups = 1, n = 0;
};

// out[i] = x[row_of[i]], n columns. out is not x.
struct GatherArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0;
  DevicePointer<const std::int32_t> row_of = {};  // [rows]
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0, rows = 0, n = 0;
  DevicePointer<const float> other_x = {};  // or null: rows of the same shape, which other_out takes alike
  DevicePointer<float> other_out = {};
};

// out = activation(x[:, :n]) * x[:, n : 2 n].
struct GatedArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0;
  Activation activation = Activation::silu;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0, rows = 0, n = 0;
};

// out += scale * x.
struct AddArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0;
  float scale = 1;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0, rows = 0, n = 0;
};

// Rotary position embedding in place, of `heads` heads side by side from x on: of each pair (a, b) a * cosine
// - b * sine and b * cosine + a * sine. Elements from 2 * pairs on stay.
struct RotateArgs {
  DevicePointer<float> x = {};
  std::int64_t x_stride = 0, rows = 0, heads = 0, head_dim = 0, pairs = 0;
  RotaryPairing pairing = RotaryPairing::halves;
  DevicePointer<const float> cosines = {}, sines = {};  // [rows][pairs]
};

// Where the rows of a batch stand in the cache. Padding has no place there: a sequence's first token that is
// none has key 0.
struct KvSlots {
  DevicePointer<const std::int32_t> key = {};  // [rows]: the row's own key, -1 of padding
  DevicePointer<const std::int32_t> first_page =
      {};  // [rows]: where the pages of its sequence begin in `pages`
  DevicePointer<const DevicePointer<std::byte>> pages = {};  // key i is in page i / 64 of its sequence
};

// Puts each row's keys and values of one layer into the cache; rows of padding are left out. int8: scale =
// largest magnitude / 127, codes = rint(x * (127 / largest)), all 0 below 1e-35, scale NaN where one is not
// finite.
struct StoreArgs {
  DevicePointer<const float> keys = {}, values = {};  // [rows][kv_heads * head_dim], rows x_stride apart
  std::int64_t x_stride = 0, rows = 0;
  CacheLayout cache = {};
  std::int32_t layer = 0;
  KvSlots places = {};
};

// Both at once: `rotate` of the queries and behind them the keys that `store` stores.
struct RotateStoreArgs {
  RotateArgs rotate = {};
  StoreArgs store = {};
};

// Over a cache in float16, bfloat16 or int8 with heads of 64 to 256 elements, tensor cores take queries and
// weights rounded to the cache's format, of int8 to bfloat16; else all is float32. That depends on the cache
// alone.
//
// Causal attention over pages: row i sees keys max(0, key - window + 1) to `key`, its own. A score is
// cap(scale * q k) + slope * (distance, negative). Keys go in chunks of 256 at absolute indices, whose states
// (largest score, sum, weighted values) are merged in order: a row depends on its keys alone. A row of
// padding becomes 0.
struct AttendArgs {
  DevicePointer<const float> q = {};  // [rows][heads * head_dim], q_stride apart
  std::int64_t q_stride = 0, rows = 0;
  std::int32_t heads = 0, layer = 0;
  CacheLayout cache = {};
  float scale = 1;
  std::int64_t window = 0;                 // 0 = all
  float soft_cap = 0;                      // 0 = none
  DevicePointer<const float> slopes = {};  // [heads], or null
  KvSlots places = {};
  std::int64_t sequences = 1;     // that the rows are of: a hint, on which bits do not depend
  std::int64_t longest = 0;       // at least the highest key, plus one: launches depend on it, bits do not
  DevicePointer<float> out = {};  // [rows][heads * head_dim]
  std::int64_t out_stride = 0;
  OrderedRowsOut ordered = {};  // null where heads have more than kMaxOrderedHeadDim elements
  // For states of chunks, so that chunks of few rows run side by side; may be null. A run that needs more
  // than there is takes chunks one after another.
  DevicePointer<float> scratch = {};
  std::int64_t scratch_floats = 0;
};
// What run() gives the kernels of tensor cores: rows of a group of blocks, tiles of its rows times heads,
// pages in shared memory at a time, processors.
struct AttendTilesArgs {
  AttendArgs attend = {};
  std::int32_t rows_of_group = 1, tiles = 1, stages = 2, processors = 1;
};
inline constexpr std::int64_t kChunkKeys = 256;
inline constexpr std::int64_t kMaxHeadDim = 512, kMaxOrderedHeadDim = 128;
// What scratch memory rows with keys up to `longest` want.
constexpr std::int64_t attend_scratch_floats(std::int64_t rows, std::int64_t heads, std::int64_t head_dim,
                                             std::int64_t longest) {
  return rows * heads * ((longest + kChunkKeys - 1) / kChunkKeys) * (head_dim + 2);
}

// A matrix out of fragment order: out [outputs][out_stride], elements of 4 bytes (arithmetic float32 and
// tf32) or 2; what lies behind the inputs of a row is undefined. float32 matrices become float32, halves stay
// what they are, 4-bit codes become book[code] * scale, rounded to the type of the arithmetic.
struct ExpandArgs {
  Matrix matrix = {};
  Arithmetic arithmetic = Arithmetic::bfloat16;
  DevicePointer<std::byte> out = {};  // 8-byte aligned
  std::int64_t out_stride = 0;        // elements: inputs rounded up to 64 at least
};

// What is left of an Epilogue behind sums in memory: out = activation(out + bias).
struct FinishArgs {
  DevicePointer<const float> bias = {};  // [n], or null
  Activation activation = Activation::none;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0, rows = 0, n = 0;
};

// x = scale * x of n columns, then soft_cap * tanh(x / soft_cap) where there is a cap. In place.
struct BendArgs {
  DevicePointer<float> x = {};
  std::int64_t x_stride = 0, rows = 0, n = 0;
  float scale = 1, soft_cap = 0;
};

// From the highest logit to the next step without the host, a row a sequence: the token is appended to its
// list, its row's facts go on by one position, and its embedding becomes the input. What argmax has as -1 is
// listed as -1; the step then goes on with token 0. Beyond `last_position` the embedding is that of the last
// one: nobody takes that step.
inline constexpr std::int64_t kMaxEmbedThreads = 1024;
struct NextTokenArgs {
  DevicePointer<std::uint64_t> keys = {};  // [rows]
  DevicePointer<std::int32_t> ids = {}, positions = {}, angles = {},
                              key = {};  // [rows]: of the step that ran
  std::int32_t last_position = 0x7fffffff;
  DevicePointer<std::int32_t> tokens = {}, count = {};  // [rows][token_stride] and how many are there, [rows]
  std::int64_t token_stride = 0;                        // a list that is full stays
  EmbedArgs embed = {};                                 // it embeds `ids` at `positions`
};

// Each throws Error for what its kernels cannot do. No bit depends on a choice.
void run(Runtime& runtime, const EmbedArgs& args);
void run(Runtime& runtime, const NormArgs& args);
void run(Runtime& runtime, const GatherArgs& args);
void run(Runtime& runtime, const GatedArgs& args);
void run(Runtime& runtime, const AddArgs& args);
void run(Runtime& runtime, const RotateArgs& args);
void run(Runtime& runtime, const StoreArgs& args);
void run(Runtime& runtime, const RotateStoreArgs& args);
void run(Runtime& runtime, const AttendArgs& args);
void run(Runtime& runtime, const LinearArgs& args, const LaunchChoice& choice = {});
void run(Runtime& runtime, const QuantizeArgs& args);
void run(Runtime& runtime, const LinearInt8Args& args, const LaunchChoice& choice = {});
void run(Runtime& runtime, const QuantizedLinearArgs& args, const LaunchChoice& choice = {});
void run(Runtime& runtime, const QuantizeGroupsArgs& args);
void run(Runtime& runtime, const LinearInt8ActivationsArgs& args);
void run(Runtime& runtime, const BendArgs& args);
void run(Runtime& runtime, const NextTokenArgs& args);

// The entries, which the compiler of the kernels fills in (kernels/table.cuh).
struct Kernels {
  Kernel<EmbedArgs> embed;
  Kernel<NormArgs> norm;
  Kernel<GatherArgs> gather;
  Kernel<GatedArgs> gated, gated_many;
  Kernel<AddArgs> add;
  Kernel<RotateArgs> rotate;
  Kernel<StoreArgs> store;
  Kernel<RotateStoreArgs> rotate_and_store, rotate_and_store_many;
  Kernel<AttendArgs> attend, merge_chunks;
  // For heads of up to 64, 128 and 256 elements; those of a step without 256, by one group of warps or four.
  Kernel<AttendTilesArgs> attend_float16[3], attend_bfloat16[3], attend_int8[3];
  Kernel<struct AttendStepArgs> step_float16[2][2], step_bfloat16[2][2], merge_step_chunks;
  Kernel<LinearArgs> linear_float32[2];  // for 4 and for 16 rows
  Kernel<LinearArgs> linear_tf32[kRowBlocks];
  Kernel<OrderArgs> order_inputs;
  OrderedKernels ordered_float16, ordered_bfloat16;
  // In groups of 64 inputs and more, and in smaller ones.
  OrderedKernels wide_float16, wide_bfloat16, narrow_float16, narrow_bfloat16;
  OrderedKernels spaced_codes[2][2], integer_codes[2][2];  // 8 rows: [groups of 64 and more][float16]
  GroupedKernels grouped_float16[kGroupedKindCount], grouped_bfloat16[kGroupedKindCount];
  Kernel<LinearArgs> four_bit_float32, four_bit_offsets, linear_grouped;
  Kernel<QuantizeArgs> mark_outliers, list_outliers, ranges, quantize;
  // Without a gate and with one; of rows that the blocks quantize, or norm and quantize, and of codes.
  Kernel<QuantizedLinearArgs> coded_int8, coded_gated_int8, normed_int8, normed_gated_int8;
  Kernel<QuantizedLinearArgs> coded_row_int8[2][2][2][2];  // [gated][normed][strips of warps][wide]
  Kernel<LinearInt8Args> ordered_int8[kRowBlocks], gated_int8[kRowBlocks - 1];
  Kernel<QuantizeGroupsArgs> quantize_groups;
  Kernel<LinearInt8ActivationsArgs> linear_int8_activations[kRowBlocks];
  Kernel<RoundArgs> round_inputs;
  Kernel<GemmArgs> gemm_tf32[kGemmSizes], gemm_float16[kGemmSizes], gemm_bfloat16[kGemmSizes];
  Kernel<GemmArgs> gemm_four_float16[kGemmSizes], gemm_four_bfloat16[kGemmSizes], add_ranges;
  Kernel<GemmInt8Args> gemm_int8[kGemmSizes], add_int8_ranges;
  WarpgroupKernels warpgroups;
  Kernel<ExpandArgs> expand;
  Kernel<FinishArgs> finish;
  Kernel<BendArgs> bend;
  Kernel<ArgmaxArgs> argmax;
  Kernel<LogProbabilityArgs> log_probability;
  Kernel<BestKeyArgs> best_key;
  Kernel<ReduceSlicesArgs> reduce_slices;
  Kernel<NextTokenArgs> next_token;
};

}  // namespace assay::cuda
