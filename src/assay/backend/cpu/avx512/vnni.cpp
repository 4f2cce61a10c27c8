// The kernels of AVX-512 for processors that also have its products of bytes (VNNI).
#define ASSAY_AVX512_TIER avx512_vnni
#include "assay/backend/cpu/avx512/kernels.cpp"  // NOLINT(bugprone-suspicious-include): with other flags
