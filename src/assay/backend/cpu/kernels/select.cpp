#include "assay/backend/cpu/kernels/select.h"

#include "assay/backend/cpu/run/tuning.h"
#include "assay/base/error.h"

namespace assay::cpu {

WeightFetch weight_fetch = usual_constants().fetch;

KernelTable select_kernels(Isa isa, bool allows_vnni) {
  if (!is_usable(isa))
    throw FieldError("isa", "this machine cannot run {}: {}; the best it can is {}", name_of(isa),
                     why_not_usable(isa), name_of(best_usable_isa()));
  KernelTable table{};
  scalar::fill(table);
  const bool uses_avx2_vnni = allows_vnni && has_avx2_vnni(),
             uses_avx512_vnni = allows_vnni && has_avx512_vnni();
  if (isa >= Isa::avx2) avx2::fill(table);
  if (isa >= Isa::avx2 && uses_avx2_vnni) avx2_vnni::fill(table);
  if (isa >= Isa::avx512) avx512::fill(table);
  if (isa >= Isa::avx512 && uses_avx512_vnni) avx512_vnni::fill(table);
  if (isa >= Isa::avx512bf16 && has_avx512_bf16()) avx512bf16::fill(table);
  if (isa >= Isa::amx) amx::fill(table);
  return table;
}

}  // namespace assay::cpu
