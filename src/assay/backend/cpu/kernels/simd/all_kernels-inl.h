// Every kernel over a `Vec` and a `Dot`, for the ISA files that define these in their own anonymous namespace
// and include it there.
#pragma once

double log_of(double x) {
  return ::log(x);
}

#include "assay/backend/cpu/kernels/simd/float32_kernels-inl.h"
// These need it.
#if !defined(ASSAY_VNNI_512)
#include "assay/backend/cpu/kernels/simd/signed_blocks-inl.h"
#endif
#include "assay/backend/cpu/kernels/simd/attention_kernels-inl.h"
#include "assay/backend/cpu/kernels/simd/elementwise_kernels-inl.h"
#include "assay/backend/cpu/kernels/simd/four_bit_kernels-inl.h"
#include "assay/backend/cpu/kernels/simd/grouped_kernels-inl.h"
// It needs that.
#include "assay/backend/cpu/kernels/simd/grouped_int8-inl.h"
#include "assay/backend/cpu/kernels/simd/int8_kernels-inl.h"
#include "assay/backend/cpu/kernels/simd/logit_kernels-inl.h"
#include "assay/backend/cpu/kernels/simd/store_bfloat16-inl.h"

// Those whose inner loop is `Dot`'s, which a tier with VNNI compiles alone.
[[maybe_unused]] void fill_byte_products(KernelTable& table, const char* origin) {
  table.linear_int8 = linear_int8;
  table.linear_coded_inputs = linear_coded_inputs;
  table.quantize_groups = quantize_groups;
  table.quantize_grouped = quantize_grouped;
  table.linear_grouped_int8 = linear_grouped_int8;
  table.int8_origin = origin;
}

[[maybe_unused]] void fill_all(KernelTable& table, const char* origin) {
  fill_byte_products(table, origin);
  table.linear = linear;
  table.norm = norm;
  table.rotate = rotate;
  table.gate = gate;
  table.attend = attend;
  table.attend_bfloat16 = attend_bfloat16;
  table.attend_int8 = attend_int8;
  table.store_bfloat16 = store_bfloat16;
  table.store_int8 = store_int8;
  table.quantize = quantize;
  table.expand = expand;
  table.linear_four_bit = linear_four_bit;
  table.expand_grouped = expand_grouped;
  table.linear_grouped = linear_grouped;
  table.four_bit_rows = kFewFourBitRows;
  table.mark_candidates = mark_candidates;
  table.bend_logits = bend_logits;
  table.argmax = argmax;
  table.log_sum_exp = log_sum_exp;
  table.logits = &kLogitReducer;
  table.linear_origin = table.norm_origin = table.rotate_origin = table.gate_origin = table.attend_origin =
      table.attend_bfloat16_origin = table.attend_int8_origin = table.store_origin = table.store_int8_origin =
          table.argmax_origin = table.log_sum_exp_origin = table.expand_origin = origin;
}
