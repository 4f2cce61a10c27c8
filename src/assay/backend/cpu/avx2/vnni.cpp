// The kernels of AVX2 for processors that also have its products of bytes (AVX-VNNI).
#define ASSAY_AVX2_TIER avx2_vnni
#include "assay/backend/cpu/avx2/kernels.cpp"  // NOLINT(bugprone-suspicious-include): with other flags
