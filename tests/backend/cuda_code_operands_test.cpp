// The ways from 4-bit codes to operands of tensor cores: every code pair, in every byte and lane, becomes the
// bits of the codebook's entries.
#include "assay/backend/cuda/kernels/code_operands.cuh"

#include <gtest/gtest.h>

#include "assay/quant/int4.h"
#include "support/cuda_kernels.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

struct Expanded {
  Matrix matrix = {};
  DevicePointer<std::uint32_t> out = {};
};
constexpr int kCodePairs = 256, kLanes = 32, kBytes = 4;

// A warp has 32 code pairs, each of which stands in all bytes of a word, one after another, beside others.
template <typename Type, CodesBy By>
void expand_all(Expanded a) {
  const std::int32_t lane = device::thread_index() % kLanes, warp = device::thread_index() / kLanes;
  const device::CodeOperands<Type, By> operands(a.matrix, lane);
  device::barrier();
  device::wait_for_previous();
  for (std::uint32_t pair = static_cast<std::uint32_t>(warp) * 32; pair < (warp + 1) * 32U; ++pair)
    for (std::uint32_t byte = 0; byte < kBytes; ++byte) {
      const std::uint32_t others = (pair * 7 + 3) % kCodePairs * 0x01010101U,
                          codes = (others & ~(0xffU << (8 * byte))) | pair << (8 * byte);
      std::uint32_t made[4];
      operands.expand(made, codes);
      for (std::uint32_t i = 0; i < 4; ++i)
        device::Global<std::uint32_t>(
            a.out)[((pair * kLanes + static_cast<std::uint32_t>(lane)) * kBytes + byte) * 4 + i] = made[i];
    }
}

// A kernel of the test's own, which is compiled for the emulation alone: a GPU's are tested by their
// products.
class CudaCodeOperands : public CudaKernels {
 protected:
  CudaCodeOperands() : CudaKernels(make_emulated_runtime()) {}
  template <typename Type, CodesBy By>
  void expect_book(const std::array<float, 16>& codebook, const char* name) {
    SCOPED_TRACE(name);
    Expanded args{.out = room<std::uint32_t>(kCodePairs * kLanes * kBytes * 4)};
    std::copy(codebook.begin(), codebook.end(), args.matrix.codebook);
    launch(*runtime_, Kernel<Expanded>{"expand_all", expand_all<Type, By>},
           {.block = 256, .shared_bytes = static_cast<std::uint32_t>(device::kCodeTableBytes<By>)}, args);
    const std::vector<std::uint32_t> got = memory_.get(args.out, at_of(kCodePairs * kLanes * kBytes * 4));
    const auto bits_of_pair = [&](std::uint32_t pair) {
      return Type::bits(codebook[pair & 15U]) | Type::bits(codebook[pair >> 4]) << 16;
    };
    for (std::uint32_t pair = 0; pair < kCodePairs; ++pair)
      for (std::uint32_t place = 0; place < kLanes * kBytes; ++place)
        for (std::uint32_t i = 0; i < 4; ++i)
          ASSERT_EQ(got[(pair * kLanes * kBytes + place) * 4 + i],
                    bits_of_pair(i == place % kBytes ? pair : (pair * 7 + 3) % kCodePairs))
              << pair << " in byte " << place % kBytes << " of lane " << place / kBytes << ", register " << i;
  }
  template <typename Type>
  void expect_books() {
    for (const auto& [book, name] : {std::pair{codebook_of(FourBit::nf4), "nf4"},
                                     {codebook_of(FourBit::fp4), "fp4"},
                                     {int4_codebook(), "int4"}}) {
      expect_book<Type, CodesBy::table>(book, name);
      expect_book<Type, CodesBy::spaced_table>(book, name);
    }
    expect_book<Type, CodesBy::integers>(int4_codebook(), "int4, as integers");
  }
};

TEST_F(CudaCodeOperands, AreTheBitsOfTheCodebook) {
  expect_books<device::Float16>();
  expect_books<device::Bfloat16>();
}

}  // namespace
}  // namespace assay::cuda
