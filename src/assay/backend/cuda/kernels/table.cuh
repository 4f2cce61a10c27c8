// All kernels, for the table that the host launches them by: included once by nvcc (kernels.cu), and once by
// the host's compiler for the emulation.
#pragma once

#include "assay/backend/cuda/kernels/attend_step.cuh"
#include "assay/backend/cuda/kernels/attention.cuh"
#include "assay/backend/cuda/kernels/attention_tiles.cuh"
#include "assay/backend/cuda/kernels/coded_row.cuh"
#include "assay/backend/cuda/kernels/divergence.cuh"
#include "assay/backend/cuda/kernels/expand.cuh"
#include "assay/backend/cuda/kernels/gemm.cuh"
#include "assay/backend/cuda/kernels/grouped.cuh"
#include "assay/backend/cuda/kernels/head.cuh"
#include "assay/backend/cuda/kernels/linear.cuh"
#include "assay/backend/cuda/kernels/many_rows.cuh"
#include "assay/backend/cuda/kernels/offsets.cuh"
#include "assay/backend/cuda/kernels/ordered_codes.cuh"
#include "assay/backend/cuda/kernels/ordered_grouped.cuh"
#include "assay/backend/cuda/kernels/ordered_int8.cuh"
#include "assay/backend/cuda/kernels/own_codes.cuh"
#include "assay/backend/cuda/kernels/quantize.cuh"
#include "assay/backend/cuda/kernels/rows.cuh"
#include "assay/backend/cuda/kernels/staged_halves.cuh"
#include "assay/backend/cuda/kernels/warpgroups.cuh"

namespace assay::cuda {
inline namespace ASSAY_COMPILED_FOR {

inline void add_ordered(Kernels& k) {
  using namespace device;
#define ASSAY_ORDERED(field, kernel)                                               \
  k.field.rows[0] = {#field "<8>", kernel(1, 1, false, false)};                    \
  k.field.rows[1] = {#field "<16>", kernel(2, 1, false, false)};                   \
  k.field.rows[2] = {#field "<32>", kernel(4, 1, false, false)};                   \
  k.field.rows[3] = {#field "<64>", kernel(8, 1, false, false)};                   \
  k.field.gated[0] = {#field "<8, gated>", kernel(1, 2, false, false)};            \
  k.field.gated[1] = {#field "<16, gated>", kernel(2, 2, false, false)};           \
  k.field.gated[2] = {#field "<32, gated>", kernel(4, 2, false, false)};           \
  k.field.normed = {#field "<8, normed>", kernel(1, 1, true, false)};              \
  k.field.normed_gated = {#field "<8, normed, gated>", kernel(1, 2, true, false)}; \
  k.field.wide = {#field "<8, wide>", kernel(1, 1, false, true)};                  \
  k.field.wide_gated = {#field "<8, gated, wide>", kernel(1, 2, false, true)};     \
  k.field.wide_normed = {#field "<8, normed, wide>", kernel(1, 1, true, true)};    \
  k.field.wide_normed_gated = {#field "<8, normed, gated, wide>", kernel(1, 2, true, true)}
#define ASSAY_F16(...) ordered_halves<Float16, MatrixFormat::float16, __VA_ARGS__>
#define ASSAY_BF16(...) ordered_halves<Bfloat16, MatrixFormat::bfloat16, __VA_ARGS__>
#define ASSAY_WIDE_F16(blocks, strips, is_normed, is_wide) \
  ordered_codes<Float16, CodesBy::table, true, blocks, strips, is_normed>
#define ASSAY_WIDE_BF16(blocks, strips, is_normed, is_wide) \
  ordered_codes<Bfloat16, CodesBy::table, true, blocks, strips, is_normed>
#define ASSAY_NARROW_F16(blocks, strips, is_normed, is_wide) \
  ordered_codes<Float16, CodesBy::table, false, blocks, strips, is_normed>
#define ASSAY_NARROW_BF16(blocks, strips, is_normed, is_wide) \
  ordered_codes<Bfloat16, CodesBy::table, false, blocks, strips, is_normed>
  ASSAY_ORDERED(ordered_float16, ASSAY_F16);
  ASSAY_ORDERED(ordered_bfloat16, ASSAY_BF16);
  ASSAY_ORDERED(wide_float16, ASSAY_WIDE_F16);
  ASSAY_ORDERED(wide_bfloat16, ASSAY_WIDE_BF16);
  ASSAY_ORDERED(narrow_float16, ASSAY_NARROW_F16);
  ASSAY_ORDERED(narrow_bfloat16, ASSAY_NARROW_BF16);
#undef ASSAY_F16
#undef ASSAY_BF16
#undef ASSAY_WIDE_F16
#undef ASSAY_WIDE_BF16
#undef ASSAY_NARROW_F16
#undef ASSAY_NARROW_BF16
#undef ASSAY_ORDERED
}

inline void add_staged(Kernels& k) {
  using namespace device;
#define ASSAY_STAGED(field, type, format)                                      \
  k.field.staged[0] = {#field "<32, staged>", staged_halves<type, format, 4>}; \
  k.field.staged[1] = {#field "<64, staged>", staged_halves<type, format, 8>}
  ASSAY_STAGED(ordered_float16, Float16, MatrixFormat::float16);
  ASSAY_STAGED(ordered_bfloat16, Bfloat16, MatrixFormat::bfloat16);
#undef ASSAY_STAGED
}

inline void add_codes(Kernels& k) {
  using namespace device;
  k.wide_float16.own_normed = {"wide_float16<8, normed, strips of warps>", own_codes<Float16, true>};
  k.wide_bfloat16.own_normed = {"wide_bfloat16<8, normed, strips of warps>", own_codes<Bfloat16, true>};
  k.narrow_float16.own_normed = {"narrow_float16<8, normed, strips of warps>", own_codes<Float16, false>};
  k.narrow_bfloat16.own_normed = {"narrow_bfloat16<8, normed, strips of warps>", own_codes<Bfloat16, false>};
#define ASSAY_CODES(field, Type, by, is_wide)                                                     \
  k.field.rows[0] = k.field.wide = {#field "<8>", ordered_codes<Type, by, is_wide, 1, 1, false>}; \
  k.field.gated[0] =                                                                              \
      k.field.wide_gated = {#field "<8, gated>", ordered_codes<Type, by, is_wide, 1, 2, false>};  \
  k.field.normed =                                                                                \
      k.field.wide_normed = {#field "<8, normed>", ordered_codes<Type, by, is_wide, 1, 1, true>}; \
  k.field.normed_gated = k.field.wide_normed_gated = {#field "<8, normed, gated>",                \
                                                      ordered_codes<Type, by, is_wide, 1, 2, true>}
  ASSAY_CODES(spaced_codes[0][0], Bfloat16, CodesBy::spaced_table, false);
  ASSAY_CODES(spaced_codes[0][1], Float16, CodesBy::spaced_table, false);
  ASSAY_CODES(spaced_codes[1][0], Bfloat16, CodesBy::spaced_table, true);
  ASSAY_CODES(spaced_codes[1][1], Float16, CodesBy::spaced_table, true);
  ASSAY_CODES(integer_codes[0][0], Bfloat16, CodesBy::integers, false);
  ASSAY_CODES(integer_codes[0][1], Float16, CodesBy::integers, false);
  ASSAY_CODES(integer_codes[1][0], Bfloat16, CodesBy::integers, true);
  ASSAY_CODES(integer_codes[1][1], Float16, CodesBy::integers, true);
#undef ASSAY_CODES
}

inline void add_grouped(Kernels& k) {
  using namespace device;
#define ASSAY_GROUPED(to, name, type, bits, has_book)                                              \
  to.rows[0] = {name ", " #bits " bits, 8>", ordered_grouped<type, bits, has_book, 1, 1>};         \
  to.rows[1] = {name ", " #bits " bits, 32>", ordered_grouped<type, bits, has_book, 4, 1>};        \
  to.rows[2] = {name ", " #bits " bits, 64>", ordered_grouped<type, bits, has_book, 8, 1>};        \
  to.gated[0] = {name ", " #bits " bits, 8, gated>", ordered_grouped<type, bits, has_book, 1, 2>}; \
  to.gated[1] = {name ", " #bits " bits, 32, gated>", ordered_grouped<type, bits, has_book, 4, 2>}
  // In the order of kGroupedKinds.
#define ASSAY_GROUPED_KINDS(to, type)                             \
  ASSAY_GROUPED(to[0], "grouped<" #type, type, 8, false);         \
  ASSAY_GROUPED(to[1], "grouped<" #type, type, 6, false);         \
  ASSAY_GROUPED(to[2], "grouped<" #type, type, 5, false);         \
  ASSAY_GROUPED(to[3], "grouped<" #type, type, 4, false);         \
  ASSAY_GROUPED(to[4], "grouped<" #type ", book", type, 4, true); \
  ASSAY_GROUPED(to[5], "grouped<" #type, type, 3, false);         \
  ASSAY_GROUPED(to[6], "grouped<" #type, type, 2, false)
  ASSAY_GROUPED_KINDS(k.grouped_float16, Float16);
  ASSAY_GROUPED_KINDS(k.grouped_bfloat16, Bfloat16);
#undef ASSAY_GROUPED_KINDS
#undef ASSAY_GROUPED
}

inline void add_multiplications(Kernels& k) {
  using namespace device;
  k.linear_float32[0] = {"linear_float32<4>", linear_float32<4>};
  k.linear_float32[1] = {"linear_float32<16>", linear_float32<16>};
#define ASSAY_FOR_BLOCKS(field, kernel)    \
  k.field[0] = {#field "<8>", kernel(1)};  \
  k.field[1] = {#field "<16>", kernel(2)}; \
  k.field[2] = {#field "<32>", kernel(4)}; \
  k.field[3] = {#field "<64>", kernel(8)}
#define ASSAY_TF32(blocks) linear_tf32<blocks>
#define ASSAY_CODED(blocks) device::linear_int8_activations<blocks>
#define ASSAY_INT8(blocks) device::ordered_int8<blocks, 1>
  ASSAY_FOR_BLOCKS(linear_tf32, ASSAY_TF32);
  ASSAY_FOR_BLOCKS(linear_int8_activations, ASSAY_CODED);
  ASSAY_FOR_BLOCKS(ordered_int8, ASSAY_INT8);
#undef ASSAY_TF32
#undef ASSAY_CODED
#undef ASSAY_INT8
#undef ASSAY_FOR_BLOCKS
  k.four_bit_float32 = {"four_bit_float32", device::four_bit_float32};
  k.four_bit_offsets = {"four_bit_offsets", device::four_bit_offsets};
  k.linear_grouped = {"linear_grouped", device::linear_grouped};
  k.order_inputs = {"order_inputs", device::order_inputs};
  k.round_inputs = {"round_inputs", device::round_inputs};
  k.gemm_tf32[0] = {"gemm_tf32<64x64>", gemm_tiles<Tf32Tiles, 1, 4>};
  k.gemm_tf32[1] = {"gemm_tf32<128x128>", gemm_tiles<Tf32Tiles, 2, 8>};
  k.gemm_float16[0] = {"gemm_float16<64x64>", gemm_tiles<HalfTiles<Float16>, 1, 4>};
  k.gemm_float16[1] = {"gemm_float16<128x128>", gemm_tiles<HalfTiles<Float16>, 2, 8>};
  k.gemm_bfloat16[0] = {"gemm_bfloat16<64x64>", gemm_tiles<HalfTiles<Bfloat16>, 1, 4>};
  k.gemm_bfloat16[1] = {"gemm_bfloat16<128x128>", gemm_tiles<HalfTiles<Bfloat16>, 2, 8>};
  k.gemm_four_float16[0] = {"gemm_four_float16<64x64>", gemm_codes<Float16, 1, 4>};
  k.gemm_four_float16[1] = {"gemm_four_float16<128x64>", gemm_codes<Float16, 2, 4>};
  k.gemm_four_bfloat16[0] = {"gemm_four_bfloat16<64x64>", gemm_codes<Bfloat16, 1, 4>};
  k.gemm_four_bfloat16[1] = {"gemm_four_bfloat16<128x64>", gemm_codes<Bfloat16, 2, 4>};
  k.gemm_int8[0] = {"gemm_int8<64x64>", device::gemm_int8<1, 4>};
  k.gemm_int8[1] = {"gemm_int8<128x128>", device::gemm_int8<2, 8>};
  k.add_ranges = {"add_ranges", add_ranges_of_gemm};
  k.add_int8_ranges = {"add_int8_ranges", add_ranges_of_int8};
}

// Their blocks are those of launch_warpgroups.h.
inline void add_warpgroups(WarpgroupKernels& k) {
  using namespace device;
#define ASSAY_FOR_SHAPES(field, kernel)                           \
  k.field[0] = {"warpgroup_" #field "<128x256>", kernel(2, 256)}; \
  k.field[1] = {"warpgroup_" #field "<128x128>", kernel(2, 128)}; \
  k.field[2] = {"warpgroup_" #field "<64x128>", kernel(1, 128)};  \
  k.field[3] = {"warpgroup_" #field "<64x64>", kernel(1, 64)}
#define ASSAY_F16(groups, rows) warpgroup_halves<Float16, groups, rows>
#define ASSAY_BF16(groups, rows) warpgroup_halves<Bfloat16, groups, rows>
#define ASSAY_WIDE_F16(groups, rows) warpgroup_codes<Float16, true, groups, rows>
#define ASSAY_WIDE_BF16(groups, rows) warpgroup_codes<Bfloat16, true, groups, rows>
#define ASSAY_NARROW_F16(groups, rows) warpgroup_codes<Float16, false, groups, rows>
#define ASSAY_NARROW_BF16(groups, rows) warpgroup_codes<Bfloat16, false, groups, rows>
#define ASSAY_INT8(groups, rows) warpgroup_int8<groups, rows>
  ASSAY_FOR_SHAPES(float16, ASSAY_F16);
  ASSAY_FOR_SHAPES(bfloat16, ASSAY_BF16);
  ASSAY_FOR_SHAPES(wide_float16, ASSAY_WIDE_F16);
  ASSAY_FOR_SHAPES(wide_bfloat16, ASSAY_WIDE_BF16);
  ASSAY_FOR_SHAPES(narrow_float16, ASSAY_NARROW_F16);
  ASSAY_FOR_SHAPES(narrow_bfloat16, ASSAY_NARROW_BF16);
  ASSAY_FOR_SHAPES(int8, ASSAY_INT8);
#undef ASSAY_F16
#undef ASSAY_BF16
#undef ASSAY_WIDE_F16
#undef ASSAY_WIDE_BF16
#undef ASSAY_NARROW_F16
#undef ASSAY_NARROW_BF16
#undef ASSAY_INT8
#undef ASSAY_FOR_SHAPES
}

template <bool IsGated, bool AreNormed>
void add_coded_row(Kernel<QuantizedLinearArgs> (&k)[2][2]) {
  constexpr int kStrips = IsGated ? 2 : 1;
  k[0][0] = {"coded_row_int8", device::coded_row_int8<kStrips, AreNormed, false, false>};
  k[0][1] = {"coded_row_int8<wide>", device::coded_row_int8<kStrips, AreNormed, false, true>};
  k[1][0] = {"coded_row_int8<strips of warps>", device::coded_row_int8<kStrips, AreNormed, true, false>};
  if constexpr (!IsGated)
    k[1][1] = {"coded_row_int8<strips of warps, wide>",
               device::coded_row_int8<kStrips, AreNormed, true, true>};
}

inline void add_int8_multiplications(Kernels& k) {
  add_coded_row<false, false>(k.coded_row_int8[0][0]);
  add_coded_row<false, true>(k.coded_row_int8[0][1]);
  add_coded_row<true, false>(k.coded_row_int8[1][0]);
  add_coded_row<true, true>(k.coded_row_int8[1][1]);
  k.gated_int8[0] = {"gated_int8<8>", device::ordered_int8<1, 2>};
  k.gated_int8[1] = {"gated_int8<16>", device::ordered_int8<2, 2>};
  k.gated_int8[2] = {"gated_int8<32>", device::ordered_int8<4, 2>};
  k.coded_int8 = {"coded_int8", device::coded_int8<1, false>};
  k.coded_gated_int8 = {"coded_int8<gated>", device::coded_int8<2, false>};
  k.normed_int8 = {"coded_int8<normed>", device::coded_int8<1, true>};
  k.normed_gated_int8 = {"coded_int8<normed, gated>", device::coded_int8<2, true>};
}

inline Kernels kernel_table() {
  using namespace device;
  Kernels k;
  k.embed = {"embed", embed_rows};
  k.norm = {"norm", norm_rows};
  k.gather = {"gather", gather_rows};
  k.gated = {"gated", gate_rows};
  k.gated_many = {"gated_many", gate_many_rows};
  k.add = {"add", add_rows};
  k.rotate = {"rotate", rotate_rows};
  k.store = {"store", store_rows};
  k.rotate_and_store = {"rotate_and_store", rotate_and_store};
  k.rotate_and_store_many = {"rotate_and_store_many", device::rotate_and_store_many};
  k.attend = {"attend", attend_rows};
  k.attend_float16[0] = {"attend_float16<64>", attend_tiles<Float16, 64, 64>};
  k.attend_float16[1] = {"attend_float16<128>", attend_tiles<Float16, 128, 128>};
  k.attend_float16[2] = {"attend_float16<256>", attend_tiles<Float16, 256, 128>};
  k.attend_bfloat16[0] = {"attend_bfloat16<64>", attend_tiles<Bfloat16, 64, 64>};
  k.attend_bfloat16[1] = {"attend_bfloat16<128>", attend_tiles<Bfloat16, 128, 128>};
  k.attend_bfloat16[2] = {"attend_bfloat16<256>", attend_tiles<Bfloat16, 256, 128>};
  k.attend_int8[0] = {"attend_int8<64>", attend_tiles<Codes, 64, 64>};
  k.attend_int8[1] = {"attend_int8<128>", attend_tiles<Codes, 128, 128>};
  k.attend_int8[2] = {"attend_int8<256>", attend_tiles<Codes, 256, 128>};
  k.step_float16[0][0] = {"attend_step_float16<64, 1>", attend_step<Float16, 64, 1>};
  k.step_float16[0][1] = {"attend_step_float16<64, 4>", attend_step<Float16, 64, 4>};
  k.step_float16[1][0] = {"attend_step_float16<128, 1>", attend_step<Float16, 128, 1>};
  k.step_float16[1][1] = {"attend_step_float16<128, 4>", attend_step<Float16, 128, 4>};
  k.merge_step_chunks = {"merge_step_chunks", merge_step_chunks};
  k.step_bfloat16[0][0] = {"attend_step_bfloat16<64, 1>", attend_step<Bfloat16, 64, 1>};
  k.step_bfloat16[0][1] = {"attend_step_bfloat16<64, 4>", attend_step<Bfloat16, 64, 4>};
  k.step_bfloat16[1][0] = {"attend_step_bfloat16<128, 1>", attend_step<Bfloat16, 128, 1>};
  k.step_bfloat16[1][1] = {"attend_step_bfloat16<128, 4>", attend_step<Bfloat16, 128, 4>};
  k.merge_chunks = {"merge_chunks", merge_chunks};
  add_ordered(k);
  add_staged(k);
  add_codes(k);
  add_grouped(k);
  add_multiplications(k);
#if !defined(__CUDACC__) || defined(ASSAY_CUDA_WARPGROUPS)
  add_warpgroups(k.warpgroups);
#endif
  add_int8_multiplications(k);
  k.mark_outliers = {"mark_outliers", device::mark_outliers};
  k.list_outliers = {"list_outliers", device::list_outliers};
  k.ranges = {"ranges", row_ranges};
  k.quantize = {"quantize", quantize_rows};
  k.quantize_groups = {"quantize_groups", device::quantize_groups};
  k.expand = {"expand", expand_matrix};
  k.finish = {"finish", finish_sums};
  k.bend = {"bend", bend_rows};
  k.argmax = {"argmax", argmax_rows};
  k.best_key = {"best_key", best_keys};
  k.reduce_slices = {"reduce_slices", device::reduce_slices};
  k.next_token = {"next_token", device::next_token};
  k.log_probability = {"log_probability", log_probability_rows};
  return k;
}

}  // namespace ASSAY_COMPILED_FOR
}  // namespace assay::cuda
