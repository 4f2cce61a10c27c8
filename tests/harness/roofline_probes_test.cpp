// Which product bounds which format, and what a model's roofline measures and holds.
#include <gtest/gtest.h>

#include "assay/assay.h"
#include "assay/base/thread_pool.h"
#include "assay/harness/roofline.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

using Bound = std::pair<int, int>;  // kind and multiplications of the probe; -1 where there is none

Bound bound(Precision precision, Isa isa) {
  const auto product = peak_instruction(precision, isa);
  return product ? Bound{static_cast<int>(product->kind), product->each} : Bound{-1, -1};
}

Bound bound(const WeightFormat& weights, Isa isa, bool has_int8_activations = false) {
  Precision precision = precision_from_name("float32");
  precision.weights = weights;
  precision.has_int8_activations = has_int8_activations;
  return bound(precision, isa);
}

Bound bound(Float32Matmul how, Isa isa) {
  Precision precision = precision_from_name("float32");
  set_float32_matmul(precision, how);
  return bound(precision, isa);
}

Bound usable(ProductKind kind) {
  return why_not_usable(kind) ? Bound{-1, -1} : Bound{static_cast<int>(kind), 1};
}

TEST(PeakInstruction, OfSplitFloatsCountsTheirParts) {
  const int avx512 = static_cast<int>(ProductKind::avx512_bfloat16),
            amx = static_cast<int>(ProductKind::amx_bfloat16);
  EXPECT_EQ(bound(formats::kBfloat16, Isa::avx512bf16), Bound(avx512, 1));
  EXPECT_EQ(bound(Float32Matmul::bf16x3, Isa::avx512bf16), Bound(avx512, 3));
  EXPECT_EQ(bound(Float32Matmul::bf16x6, Isa::avx512bf16), Bound(avx512, 6));
  EXPECT_EQ(bound(Float32Matmul::bf16x6, Isa::amx), Bound(amx, 6));
  EXPECT_EQ(bound(formats::kBfloat16, Isa::avx512), usable(ProductKind::avx512_float32));
  EXPECT_EQ(bound(formats::kBfloat16, Isa::avx2), usable(ProductKind::avx2_float32));
}

TEST(PeakInstruction, OfFloat32IsTheTiersOwn) {
  EXPECT_EQ(bound(formats::kFloat32, Isa::scalar), usable(ProductKind::avx2_float32));
  EXPECT_EQ(bound(formats::kFloat32, Isa::avx2), usable(ProductKind::avx2_float32));
  for (const Isa isa : {Isa::avx512, Isa::avx512bf16, Isa::amx})
    EXPECT_EQ(bound(formats::kFloat32, isa), usable(ProductKind::avx512_float32));
}

TEST(PeakInstruction, OfInt8IsThatOfBytes) {
  const ProductKind avx2 = has_avx2_vnni() ? ProductKind::avx2_vnni : ProductKind::avx2_int8;
  for (const WeightFormat format : {formats::kInt8, formats::kLlmInt8}) {
    EXPECT_EQ(bound(format, Isa::avx2), usable(avx2));
    EXPECT_EQ(bound(format, Isa::avx512), usable(ProductKind::avx512_vnni));
    EXPECT_EQ(bound(format, Isa::avx512bf16), usable(ProductKind::avx512_vnni));
    EXPECT_EQ(bound(format, Isa::amx), usable(ProductKind::amx_int8));
  }
  // For 4-bit weights with int8 activations too.
  EXPECT_EQ(bound(formats::kNf4, Isa::avx512, true), usable(ProductKind::avx512_vnni));
  EXPECT_EQ(bound(formats::kNf4, Isa::avx512), usable(ProductKind::avx512_float32));
}

LoadedModel with_threads(int threads) {
  RunConfig config;
  config.threads = threads;
  return load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, config);
}

TEST(ModelRoofline, HoldsABufferForEachSizeOfWorkingSet) {
  const LoadedModel loaded = with_threads(1);
  Roofline roofline(*loaded.model);
  EXPECT_EQ(roofline.held().value, 0);
  const MemoryRegions weights = loaded.model->program().step_weights();
  const auto held = [&](std::int64_t bytes) {
    const ProbePlan plan = plan_probe({bytes}, ReadProbe::read_of(weights, 1), {});
    ThreadPool& pool = *loaded.model->backend().pool();
    return ReadProbe(plan.buffer, pool, plan.reads_weights ? weights : MemoryRegions{}).held().value;
  };
  const std::int64_t one = 8 << 20, other = 16 << 20;
  Roofline::Peaks peaks = roofline.measure({one}, {0.001});
  EXPECT_EQ(roofline.held().value, held(one));
  EXPECT_GT(held(one), 0);
  roofline.measure({one}, {0.001});
  EXPECT_EQ(roofline.held().value, held(one)) << "the same buffer";
  roofline.measure({other}, {0.001});
  EXPECT_EQ(roofline.held().value, held(one) + held(other));
  EXPECT_EQ(peaks.round_trip.value, 0) << "one thread waits for nobody";
  EXPECT_GT(peaks.bytes_per_second, 1e8);
  EXPECT_LT(peaks.bytes_per_second, 1e13);
}

TEST(ModelRoofline, HasWindowsAsLongAsTheLastRun) {
  const LoadedModel loaded = with_threads(1);
  Roofline roofline(*loaded.model);
  constexpr Bytes kOwn{1 << 20}, kOther{1 << 21};
  EXPECT_EQ(roofline.window_beside_run(kOwn).value, 0.008) << "no run yet";
  for (const auto& [took, window] :
       {std::pair(0.0001, 0.002), {0.005, 0.005}, {3.0, 0.008}, {0.003, 0.003}}) {
    roofline.note_run(kOwn, {took});
    EXPECT_EQ(roofline.window_beside_run(kOwn).value, window) << took;
  }
  EXPECT_EQ(roofline.window_beside_run(kOther).value, 0.008) << "runs that read more say nothing of it";
}

TEST(ModelRoofline, OfSeveralThreadsMeasuresTheirRoundTrip) {
  const LoadedModel loaded = with_threads(2);
  Roofline roofline(*loaded.model);
  const Roofline::Peaks peaks = roofline.measure({1 << 20}, {0.001});
  EXPECT_GT(peaks.round_trip.value, 0);
  EXPECT_LT(peaks.round_trip.value, 1);
}

// A probe that counts as six multiplications of the model gives a sixth of its rate.
TEST(HostPeaks, DivideByTheMultiplicationsOfTheModel) {
  const LoadedModel loaded = with_threads(1);
  ThreadPool& pool = *loaded.model->backend().pool();
  ReadProbe probe({1 << 16}, pool);
  EXPECT_EQ(host_peaks(probe, pool, {}, {0.001}).operations_per_second, 0);
  const ProductKind kind = ProductKind::avx2_float32;
  if (const auto why = why_not_usable(kind)) GTEST_SKIP() << *why;
  const auto rate = [&](int each) {
    double most = 0;  // those of several, since others may disturb one
    for (int i = 0; i < 5; ++i)
      most =
          std::max(most, host_peaks(probe, pool, PeakInstruction{kind, each}, {0.01}).operations_per_second);
    return most;
  };
  const double ratio = rate(1) / rate(16);
  EXPECT_GT(ratio, 4);
  EXPECT_LT(ratio, 64);
}

}  // namespace
}  // namespace assay
