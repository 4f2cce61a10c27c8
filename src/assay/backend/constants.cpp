#include "assay/backend/constants.h"

#include "assay/base/format.h"

namespace assay {

// Zen 4, four streams, one row: 0.83 to 0.93 of the time of 2 KB ahead into the nearest cache. Intel's
// (Sapphire Rapids) were measured with the nearest cache alone. One share for all rows loses 9 %
// of prefill in int8, on a Zen 4.
KernelConstants usual_constants() {
  __builtin_cpu_init();
  return {.fetch = __builtin_cpu_is("amd") ? WeightFetch{1536, 6144, true} : WeightFetch{2048, 2048, false}};
}

std::string text_of(const WeightFetch& fetch) {
  return fmt::format("{} bytes ahead into the {} cache", fetch.distance,
                     fetch.is_to_second_level ? "second-level" : "nearest");
}

std::string text_of(const KernelConstants& constants) {
  return fmt::format("weights {}; {} rows a share", text_of(constants.fetch), constants.share_rows);
}

}  // namespace assay
