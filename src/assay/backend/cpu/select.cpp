#include "assay/backend/cpu/select.h"

#include "assay/base/error.h"

namespace assay::cpu {

// AMD's processors fetch streams well by themselves and lose a fifth to requests far ahead (Zen 3, four
// streams of 128 MB: 25 GB/s without any and with 512, 20 with 2048); Intel's gain by them.
const std::int64_t fetch_distance = __builtin_cpu_is("amd") ? 512 : 2048;
const bool reads_one_stream = __builtin_cpu_is("amd");

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
