// What a GPU's kernels compute: an argument struct for each operation; run() chooses kernels and launches.
//
// Activations are float32, [rows][columns], rows a stride apart (in elements). A row's result depends on
// that row alone, bit for bit, whatever else is in the batch, except where an operation says otherwise. NaN
// and infinity come through as backend/cpu/kernels/kernels.h has it. Pointers are device addresses; memory of
// activations may begin and step at any multiple of 4 bytes, weights begin at 256.
#pragma once

#include <cstdint>

#include "assay/backend/cuda/lower/layout.h"
#include "assay/backend/cuda/runtime.h"
#include "assay/plan/elementwise.h"

namespace assay::cuda {

// A matrix, or a table of embeddings, in fragment order (layout.h): matrix_bytes(format, outputs, inputs).
//   int8       scales[outputs]: the largest magnitude of each output; a code stands for scale / 127 * code
//   four_bit   scales of groups: scale_count(outputs, inputs, group) in the order of scale_of(), `group` a
//              power of two. A code stands for book[code] * scale, + offset where there are offsets (zero
//              points or minima, which lie as scales do). Input groups, [inputs padded to a tile], say which
//              group an input is in; without them its position does
//   grouped    runs of scales (common/grouped_layout.h); a code of over 4 bits stands for book[0] + code
struct Matrix {
  DevicePointer<const std::byte> data = {};
  DevicePointer<const float> scales = {}, offsets = {};
  DevicePointer<const std::int32_t> input_groups = {};
  std::int64_t outputs = 0, inputs = 0, group = 0;
  MatrixFormat format = MatrixFormat::float32;
  float codebook[16] = {};
  ScaleRun run = {};  // grouped
};

// out[row] = scale * tokens[ids[row]] + places[positions[row] + position_offset], of the tables that have
// data. Both have `columns` inputs.
struct EmbedArgs {
  DevicePointer<const std::int32_t> ids = {}, positions = {};  // [rows]
  Matrix tokens = {}, places = {};
  std::int64_t position_offset = 0;
  float scale = 1;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0, rows = 0, columns = 0;
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
  std::int64_t sequences = 1;  // that the rows are of: a hint, on which bits do not depend
  // At least the highest key of the rows, plus one: how many launches there are depends on it, bits do not.
  std::int64_t longest = 0;
  DevicePointer<float> out = {};  // [rows][heads * head_dim]
  std::int64_t out_stride = 0;
  // For states of chunks, so that chunks of few rows run side by side; may be null. A run that needs more
  // than there is takes chunks one after another.
  DevicePointer<float> scratch = {};
  std::int64_t scratch_floats = 0;
};
// What the kernels of tensor cores are given, which run() makes of it: how many rows of the batch a group of
// blocks takes, the tiles into which its rows times heads are cut, and pages in shared memory at a time.
struct AttendTilesArgs {
  AttendArgs attend = {};
  std::int32_t rows_of_group = 1, tiles = 1, stages = 2;
};
inline constexpr std::int64_t kChunkKeys = 256;
inline constexpr std::int64_t kMaxHeadDim = 512;
// What scratch memory rows with keys up to `longest` want.
constexpr std::int64_t attend_scratch_floats(std::int64_t rows, std::int64_t heads, std::int64_t head_dim,
                                             std::int64_t longest) {
  return rows * heads * ((longest + kChunkKeys - 1) / kChunkKeys) * (head_dim + 2);
}

// What a matrix multiplication does with its sums: out = activation(sum + bias), or +=.
struct Epilogue {
  DevicePointer<const float> bias = {};  // [outputs], or null
  Activation activation = Activation::none;
  bool adds = false;
  DevicePointer<float> out = {};
  std::int64_t out_stride = 0;
};

// How sums are formed where the weights leave a choice.
//   float32    fused multiply-adds in float32
//   tf32       tensor cores, weights and inputs rounded to TF32; of float32 matrices
//   float16, bfloat16   tensor cores, inputs rounded to it, sums in float32; 4-bit codes become book[code]
//              rounded to it, scales multiply sums in float32 (groups below 16 are computed in float32).
//              Of codes with offsets or input groups the weights are rounded to it, and multiplied in float32
enum class Arithmetic : std::int32_t { float32, tf32, float16, bfloat16 };

// Memory that a multiplication of many rows works in; without enough of it the way of few rows is taken,
// which gives the same bits.
struct Scratch {
  DevicePointer<std::byte> data = {};  // 256-byte aligned
  std::int64_t bytes = 0;
};
// What the rows take there as the tensor cores take them, and what sums of ranges take at most.
constexpr std::int64_t rounded_inputs_stride(std::int64_t inputs, Arithmetic arithmetic) {  // bytes
  return round_up(inputs, 64) * (arithmetic == Arithmetic::tf32 ? 4 : 2);
}
std::int64_t partial_sums_bytes(std::int64_t rows, std::int64_t outputs, int processors);

// What a multiplication makes of its inputs before it multiplies them, with the bits of NormArgs or
// GatedArgs; of few rows alone, since every block makes it for itself.
struct FusedPrologue {
  enum class Kind : std::int32_t { none, norm, gated };
  Kind kind = Kind::none;
  DevicePointer<const float> gain = {}, bias = {};  // for a norm of whole rows
  float epsilon = 0;
  bool subtracts_mean = false;
  Activation activation = Activation::silu;  // for a gate: x has 2 * inputs columns
};
inline constexpr std::int64_t kMaxPrologueRows = 4;
// Inputs of each row that a warp makes at a time; of fewer rows as many more as memory has room for. A row
// takes 8 floats more, so that lanes of four rows meet no bank twice.
inline constexpr std::int64_t kMadeAtOnce = 192, kMadePadding = 8;
// Bytes of shared memory: sums of warps, moments of rows, and what each of 8 warps has made.
inline constexpr std::int64_t kMomentBytes = (8 + 2 * kMaxPrologueRows) * 4,
                              kMadeBytesOfWarp = kMaxPrologueRows * (kMadeAtOnce + kMadePadding) * 4;
inline constexpr std::uint32_t kMadeBytes = kMomentBytes + 8 * kMadeBytesOfWarp;

// x [rows, inputs] times a matrix in any format but int8. Sums are made of 8 ranges of the inputs, added in
// order: bits depend on the matrix's shape, never on `rows`.
struct LinearArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0;
  Matrix weight = {};
  Arithmetic arithmetic = Arithmetic::float32;  // float16 and bfloat16 matrices: their own
  Epilogue to = {};
  Scratch scratch = {};
  FusedPrologue made = {};
};

// Rows of float32 to int8 codes, as the CPU has it (backend/cpu/kernels/kernels.h, QuantizeArgs):
// codes[row][k], rows codes_stride apart (a multiple of 32, at least inputs; 16-byte aligned memory), zero
// from `inputs` on.
//   symmetric     codes = rint(x * (127 / largest)), scale `absmax` of the row; of LLM.int8() where
//                 `threshold` is not 0: inputs are rounded to float16, those of magnitude `threshold` or more
//                 count for nothing, features where any row has one are outliers and become 0. An infinite
//                 threshold: no feature is one.
//   row_ranges    a scale and a zero point for each row, from its range with zero
//   tensor_range  a scale and a zero point of all rows together, whatever is not finite left out
//   fixed         known beforehand
struct QuantizeArgs {
  enum class Kind : std::int32_t { symmetric, row_ranges, tensor_range, fixed };
  Kind kind = Kind::symmetric;
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, inputs = 0;
  DevicePointer<const float> factors = {};  // [inputs]: what inputs are multiplied by first; null: 1
  float threshold = 0;
  float fixed_scale = 0;
  std::int32_t fixed_zero_point = 0;  // for codes from -128 on
  // Written.
  DevicePointer<std::int8_t> codes = {};
  std::int64_t codes_stride = 0;
  DevicePointer<float> absmax = {};  // [rows]; ranges: 127 * scale. NaN of a row that is not finite
  DevicePointer<std::int32_t> zero_points =
      {};  // [rows], of codes from -128 on; of symmetric codes not written
  // tensor_range alone: [2 * rows]
  DevicePointer<float> ranges = {};
  // A finite threshold alone. marks [inputs]: 1 where a feature is an outlier; outliers [inputs]: which they
  // are, ascending; outlier_count [1]; seen [2]: what every run adds to: outliers, features.
  DevicePointer<std::uint8_t> marks = {};
  DevicePointer<std::int32_t> outliers = {}, outlier_count = {};
  DevicePointer<std::int64_t> seen = {};
};

// Codes of rows times an int8 matrix: (sum of (code - zero point) * weight) * (absmax * scale / 127^2), plus
// x * (code * (scale / 127)) for each outlier. Sums of codes are exact.
struct LinearInt8Args {
  DevicePointer<const std::int8_t> codes = {};
  std::int64_t codes_stride = 0, rows = 0;
  DevicePointer<const float> absmax = {};              // [rows]
  DevicePointer<const std::int32_t> zero_points = {};  // [rows], or null: 0
  DevicePointer<const std::int32_t> sums = {};         // [outputs], of the weights' codes; with zero_points
  Matrix weight = {};
  // For LLM.int8(), as QuantizeArgs writes them; null: none.
  DevicePointer<const std::int32_t> outliers = {}, outlier_count = {};
  DevicePointer<const float> x = {};  // [rows, inputs], of outliers
  std::int64_t x_stride = 0;
  Epilogue to = {};
  Scratch scratch = {};
};

// Rows to int8 with a scale for each group of inputs, for 4-bit weights: codes = rint(x * (127 / largest of
// the group)), scales[row][group of the row] = largest / 127 * unit, all NaN of a row that is not finite.
struct QuantizeGroupsArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, inputs = 0, group = 0;  // group: a power of two from 16 on
  float unit = 1;
  DevicePointer<std::int8_t> codes = {};  // [rows][codes_stride], a multiple of 64; zero from `inputs` on
  std::int64_t codes_stride = 0;
  DevicePointer<float> scales = {};  // [rows][groups_of_strip(inputs, group)]
};

// Those codes times a 4-bit matrix whose book holds integers, -127 to 127: for each group an exact sum of
// products, times scale of the inputs * scale of the weights.
struct LinearInt8ActivationsArgs {
  DevicePointer<const std::int8_t> codes = {};
  std::int64_t codes_stride = 0, rows = 0;
  DevicePointer<const float> x_scales = {};
  Matrix weight = {};  // group at least 16
  Epilogue to = {};
};

// What the kernels of many rows are given, which run() makes of the above. x: rows of codes, or of inputs
// that round_inputs made, x_stride bytes apart. ranges: of the 8 ranges of the inputs, those that a block
// takes: all, or one whose sums go to partial [8][rows][outputs].
struct RoundArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, inputs = 0;
  Arithmetic arithmetic = Arithmetic::bfloat16;
  DevicePointer<std::byte> out = {};
  std::int64_t out_stride = 0;  // bytes
};
struct GemmInputs {
  DevicePointer<const std::byte> x = {};
  std::int64_t x_stride = 0, rows = 0;
  Matrix weight = {};
  std::int32_t ranges = 8;
  DevicePointer<std::byte> partial = {};
};
struct GemmArgs {
  GemmInputs in = {};
  Epilogue to = {};
};
struct GemmInt8Args {
  GemmInputs in = {};
  LinearInt8Args linear = {};
};

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

// out[row] = which of n is highest, the lowest of equals; -1 where one is NaN or the highest infinite.
struct ArgmaxArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, n = 0;
  DevicePointer<std::int32_t> out = {};
};

// out[row] = x[row][targets[row]] - log(sum(exp(x[row]))), in double; NaN where argmax gives -1.
struct LogProbabilityArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, n = 0;
  DevicePointer<const std::int32_t> targets = {};
  DevicePointer<double> out = {};
};

// The highest of n logits of each row by many blocks: keys[row] = the largest of ordered bits << 32 | ~index,
// and all ones where one is NaN. keys are 0 before it; NextTokenArgs sets them to 0 again.
struct BestKeyArgs {
  DevicePointer<const float> x = {};
  std::int64_t x_stride = 0, rows = 0, n = 0;
  DevicePointer<std::uint64_t> keys = {};  // [rows]
};

// From the highest logit to the next step without the host, a row a sequence: the token is appended to its
// list, its row's facts go on by one position, and its embedding becomes the input. What argmax has as -1 is
// listed as -1; the step then goes on with token 0. Beyond `last_position` the embedding is that of the last
// one: nobody takes that step.
struct NextTokenArgs {
  DevicePointer<std::uint64_t> keys = {};  // [rows]
  DevicePointer<std::int32_t> ids = {}, positions = {}, angles = {},
                              key = {};  // [rows]: of the step that ran
  std::int32_t last_position = 0x7fffffff;
  DevicePointer<std::int32_t> tokens = {}, count = {};  // [rows][token_stride] and how many are there, [rows]
  std::int64_t token_stride = 0;                        // a list that is full stays
  EmbedArgs embed = {};                                 // it embeds `ids` at `positions`
};

// Each throws Error for what its kernels cannot do.
void run(Runtime& runtime, const EmbedArgs& args);
void run(Runtime& runtime, const NormArgs& args);
void run(Runtime& runtime, const GatherArgs& args);
void run(Runtime& runtime, const GatedArgs& args);
void run(Runtime& runtime, const AddArgs& args);
void run(Runtime& runtime, const RotateArgs& args);
void run(Runtime& runtime, const StoreArgs& args);
void run(Runtime& runtime, const RotateStoreArgs& args);
void run(Runtime& runtime, const AttendArgs& args);
void run(Runtime& runtime, const LinearArgs& args);
void run(Runtime& runtime, const QuantizeArgs& args);
void run(Runtime& runtime, const LinearInt8Args& args);
void run(Runtime& runtime, const QuantizeGroupsArgs& args);
void run(Runtime& runtime, const LinearInt8ActivationsArgs& args);
void run(Runtime& runtime, const BendArgs& args);
void run(Runtime& runtime, const ArgmaxArgs& args);
void run(Runtime& runtime, const LogProbabilityArgs& args);
void run(Runtime& runtime, const BestKeyArgs& args);
void run(Runtime& runtime, const NextTokenArgs& args);

// The entries, which the compiler of the kernels fills in (kernels/table.cuh). Of matrix multiplications one
// for each number of columns of 8 rows that a block takes: 1, 2, 4, 8.
inline constexpr int kRowBlocks = 4;
// For many rows one for blocks of 64 outputs x 64 rows and one for 128 x 128, of 4-bit codes 128 x 64.
inline constexpr int kGemmSizes = 2;
struct Kernels {
  Kernel<EmbedArgs> embed;
  Kernel<NormArgs> norm;
  Kernel<GatherArgs> gather;
  Kernel<GatedArgs> gated;
  Kernel<AddArgs> add;
  Kernel<RotateArgs> rotate;
  Kernel<StoreArgs> store;
  Kernel<RotateStoreArgs> rotate_and_store;
  Kernel<AttendArgs> attend, merge_chunks;
  // For heads of up to 64, 128 and 256 elements.
  Kernel<AttendTilesArgs> attend_float16[3], attend_bfloat16[3], attend_int8[3];
  Kernel<LinearArgs> linear_float32[2];  // for 4 and for 16 rows
  Kernel<LinearArgs> linear_tf32[kRowBlocks], linear_float16[kRowBlocks], linear_bfloat16[kRowBlocks];
  Kernel<LinearArgs> four_bit_float32, four_bit_float16[kRowBlocks], four_bit_bfloat16[kRowBlocks];
  Kernel<LinearArgs> four_bit_offsets, linear_grouped;
  Kernel<QuantizeArgs> mark_outliers, list_outliers, ranges, quantize;
  Kernel<LinearInt8Args> linear_int8[kRowBlocks];
  Kernel<QuantizeGroupsArgs> quantize_groups;
  Kernel<LinearInt8ActivationsArgs> linear_int8_activations[kRowBlocks];
  Kernel<RoundArgs> round_inputs;
  Kernel<GemmArgs> gemm_tf32[kGemmSizes], gemm_float16[kGemmSizes], gemm_bfloat16[kGemmSizes];
  Kernel<GemmArgs> gemm_four_float16[kGemmSizes], gemm_four_bfloat16[kGemmSizes], add_ranges;
  Kernel<GemmInt8Args> gemm_int8[kGemmSizes], add_int8_ranges;
  Kernel<ExpandArgs> expand;
  Kernel<FinishArgs> finish;
  Kernel<BendArgs> bend;
  Kernel<ArgmaxArgs> argmax;
  Kernel<LogProbabilityArgs> log_probability;
  Kernel<BestKeyArgs> best_key;
  Kernel<NextTokenArgs> next_token;
};

}  // namespace assay::cuda
