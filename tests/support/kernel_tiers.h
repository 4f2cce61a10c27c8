// The tables of kernels that tests hold to the scalar one, and the activations that each has to compute.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/base/cpu.h"

namespace assay::cpu::avx2_vnni_of_avx512 {
void fill(KernelTable& table);
}

namespace assay::test {

// What processors of the tier run: as this one has it, without products of bytes, or AVX-VNNI by AVX-512.
enum class Vnni { as_is, none, of_avx512 };
struct KernelTier {
  Isa isa;
  Vnni vnni;
  std::string name() const {
    constexpr const char* kSuffixes[] = {"", "_without_vnni", "_vnni_of_avx512"};
    return std::string(name_of(isa)) + kSuffixes[static_cast<int>(vnni)];
  }
};
inline void PrintTo(const KernelTier& tier, std::ostream* out) {
  *out << tier.name();
}

inline const auto kKernelTiers =
    testing::Values(KernelTier{Isa::avx2, Vnni::none}, KernelTier{Isa::avx2, Vnni::as_is},
                    KernelTier{Isa::avx2, Vnni::of_avx512}, KernelTier{Isa::avx512, Vnni::none},
                    KernelTier{Isa::avx512, Vnni::as_is}, KernelTier{Isa::avx512bf16, Vnni::as_is},
                    KernelTier{Isa::amx, Vnni::as_is});

inline constexpr Activation kActivations[] = {
    Activation::none, Activation::relu,      Activation::relu2,    Activation::silu,
    Activation::tanh, Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick};

class TestOfKernelTiers : public testing::TestWithParam<KernelTier> {
 protected:
  void SetUp() override {
    if (!is_usable(GetParam().isa)) GTEST_SKIP() << "this machine has no " << name_of(GetParam().isa);
    const bool is_of_avx512 = GetParam().vnni == Vnni::of_avx512;
    if (is_of_avx512 && !has_avx512_vnni()) GTEST_SKIP() << "this machine has no AVX-512 VNNI";
    table_ = cpu::select_kernels(GetParam().isa, GetParam().vnni == Vnni::as_is);
    if (is_of_avx512) cpu::avx2_vnni_of_avx512::fill(table_);
  }
  const cpu::KernelTable reference_ = cpu::select_kernels(Isa::scalar);
  cpu::KernelTable table_{};
};

}  // namespace assay::test
