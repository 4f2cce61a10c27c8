// The tables of kernels that tests hold to the scalar one, and the activations that each has to compute.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "assay/backend/cpu/select.h"

namespace assay::test {

struct KernelTier {
  Isa isa;
  bool allows_vnni;  // false: what processors of the tier run that have no products of bytes
  std::string name() const { return std::string(name_of(isa)) + (allows_vnni ? "" : "_without_vnni"); }
};
inline void PrintTo(const KernelTier& tier, std::ostream* out) {
  *out << tier.name();
}

inline const auto kKernelTiers = testing::Values(
    KernelTier{Isa::avx2, false}, KernelTier{Isa::avx2, true}, KernelTier{Isa::avx512, false},
    KernelTier{Isa::avx512, true}, KernelTier{Isa::avx512bf16, true}, KernelTier{Isa::amx, true});

inline constexpr Activation kActivations[] = {
    Activation::none, Activation::relu,      Activation::relu2,    Activation::silu,
    Activation::tanh, Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick};

class TestOfKernelTiers : public testing::TestWithParam<KernelTier> {
 protected:
  void SetUp() override {
    if (!is_usable(GetParam().isa)) GTEST_SKIP() << "this machine has no " << name_of(GetParam().isa);
    table_ = cpu::select_kernels(GetParam().isa, GetParam().allows_vnni);
  }
  const cpu::KernelTable reference_ = cpu::select_kernels(Isa::scalar);
  cpu::KernelTable table_{};
};

}  // namespace assay::test
