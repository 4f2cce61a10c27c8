#include "assay/backend/cpu/kernels/select.h"

#include "assay/backend/devices.h"
#include "assay/base/error.h"

namespace assay::cpu {

namespace {

// Each improves on what those before it have filled.
struct KernelTier {
  Isa isa;
  bool (*is_there)();
  bool is_vnni;  // an extension of the tier that not every processor has
  void (*fill)(KernelTable& table);
};
constexpr auto kAlways = [] { return true; };
constexpr KernelTier kTiers[] = {{Isa::scalar, kAlways, false, scalar::fill},
                                 {Isa::avx2, kAlways, false, avx2::fill},
                                 {Isa::avx2, has_avx2_vnni, true, avx2_vnni::fill},
                                 {Isa::avx512, kAlways, false, avx512::fill},
                                 {Isa::avx512, has_avx512_vnni, true, avx512_vnni::fill},
                                 {Isa::avx512bf16, has_avx512_bf16, false, avx512bf16::fill},
                                 {Isa::amx, kAlways, false, amx::fill}};

}  // namespace

KernelTable select_kernels(Isa isa, bool allows_vnni) {
  if (const auto why = why_not_usable(isa))
    throw FieldError("isa", "this machine cannot run {}: {}; the best it can is {}", name_of(isa), *why,
                     name_of(best_usable_isa()));
  KernelTable table{};
  for (const KernelTier& tier : kTiers)
    if (isa >= tier.isa && tier.is_there() && (allows_vnni || !tier.is_vnni)) tier.fill(table);
  return table;
}

}  // namespace assay::cpu

namespace assay {

std::vector<KernelOrigin> kernels_of(Isa isa) {
  const cpu::KernelTable table = cpu::select_kernels(isa);
  const char* tiles = table.uses_tiles ? table.linear_tiles_origin : table.linear_origin;
  std::vector<KernelOrigin> rows = {{"linear", "float32", table.linear_origin},
                                    {"linear", "bfloat16", tiles},
                                    {"linear", "int8", table.int8_origin},
                                    {"expand", "nf4, fp4, int4", table.expand_origin},
                                    {"norm", "float32", table.norm_origin},
                                    {"rotary", "float32", table.rotate_origin},
                                    {"gated product", "float32", table.gate_origin},
                                    {"attend", "float32 cache", table.attend_origin},
                                    {"attend", "bfloat16 cache", table.attend_bfloat16_origin},
                                    {"attend", "int8 cache", table.attend_int8_origin},
                                    {"store", "bfloat16 cache", table.store_origin},
                                    {"store", "int8 cache", table.store_int8_origin},
                                    {"argmax", "float32", table.argmax_origin},
                                    {"log_sum_exp", "float32", table.log_sum_exp_origin}};
  if (table.uses_tiles) rows.insert(rows.begin() + 2, KernelOrigin{"linear", "bf16x3, bf16x6", tiles});
  return rows;
}

}  // namespace assay
