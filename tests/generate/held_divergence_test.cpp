// The divergence of programs on one GPU, which reduces their logits itself, over the emulated device.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/memory/workspace.h"
#include "assay/backend/held_logits.h"
#include "assay/base/error.h"
#include "assay/generate/divergence.h"
#include "assay/model/model.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/forwarded_program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

struct EmulatedDeviceOfTest {
  std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
  std::shared_ptr<Backend> backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime);
};

class HeldDivergence : public testing::Test {
 protected:
  Model fixture_on(const std::shared_ptr<Backend>& backend, const char* name, const char* precision) {
    return Model::load(std::make_shared<const ModelFolder>(test::fixture_model(name)), backend,
                       precision_from_name(precision));
  }
  // A model whose logits take several slices.
  Model tiny_on(const std::shared_ptr<Backend>& backend, std::int64_t vocab,
                const std::function<void(test::TinyModel&)>& change = {}) {
    test::TinyModel tiny;
    tiny.config["vocab_size"] = vocab;
    tiny.tensor("transformer.wte.weight") = test::float_tensor("transformer.wte.weight", {vocab, 4});
    if (change) change(tiny);
    const std::string folder = folder_.path() / std::to_string(++models_);
    return Model::load(std::make_shared<const ModelFolder>(tiny.write(folder)), backend,
                       precision_from_name("float32"));
  }
  // The logits of another model.
  static void change_norm(test::TinyModel& tiny) {
    tiny.tensor("transformer.ln_f.weight").bytes = test::float_bytes(std::vector<float>{0.5F, -1, 2, 0.25F});
  }
  static std::vector<TokenId> ids(int count, int vocab) {
    std::vector<TokenId> all;
    for (int i = 0; i < count; ++i) all.push_back(static_cast<TokenId>(i * 1237 % vocab));
    return all;
  }
  static Divergence measured(Program& base, std::vector<Program*> candidates, const std::vector<TokenId>& ids,
                             const DivergenceOptions& options = {.context = 8, .stride = 5}) {
    return measure_divergence(base, candidates, ids, options);
  }
  // A margin is a difference of two logits, whose bits only one device has.
  static void expect_near(const CandidateDivergence& got, const CandidateDivergence& want,
                          double of_margin = 0) {
    EXPECT_EQ(got.failure, "");
    ASSERT_EQ(got.tokens.size(), want.tokens.size());
    const auto near = [](double a, double b) { EXPECT_NEAR(a, b, 1e-5 * std::abs(b) + 2e-7); };
    for (std::size_t i = 0; i < got.tokens.size(); ++i) {
      SCOPED_TRACE(i);
      const TokenDivergence &a = got.tokens[i], &b = want.tokens[i];
      near(a.kl, b.kl);
      near(a.nll_base, b.nll_base);
      near(a.nll, b.nll);
      near(static_cast<double>(a.p), static_cast<double>(b.p));
      EXPECT_EQ(a.same_top1, b.same_top1);
      EXPECT_EQ(a.top5, b.top5);
      EXPECT_NEAR(static_cast<double>(a.base_margin), static_cast<double>(b.base_margin), of_margin);
    }
  }

  EmulatedDeviceOfTest gpu_;
  test::TemporaryFolder folder_;
  int models_ = 0;
};

TEST_F(HeldDivergence, IsThatOfTheCpuAndOfWholeRows) {
  const std::vector<TokenId> text = ids(60, 101);
  const DivergenceOptions options{.context = 40, .stride = 25};           // more rows than are held at once
  for (const char* name : {"base", "gemma2_capped", "granite_scaled"}) {  // the last two bend their logits
    SCOPED_TRACE(name);
    const Model base = fixture_on(gpu_.backend, name, "float32"), nf4 = fixture_on(gpu_.backend, name, "nf4"),
                int8 = fixture_on(gpu_.backend, name, "int8");
    const auto vocab = static_cast<TokenId>(base.program().plan().vocab);
    std::vector<TokenId> own = text;
    for (TokenId& id : own) id %= vocab;
    const Divergence held = measured(base.program(), {&nf4.program(), &int8.program()}, own, options);
    test::ForwardedProgram rows(base.program()), nf4_rows(nf4.program()), int8_rows(int8.program());
    const Divergence of_rows = measured(rows, {&nf4_rows, &int8_rows}, own, options);
    double kl = 0;
    for (const std::size_t c : {0U, 1U}) expect_near(held.candidates[c], of_rows.candidates[c]);
    for (const TokenDivergence& token : held.candidates[0].tokens) kl += token.kl;
    EXPECT_GT(kl, 1e-4);
    EXPECT_EQ(held.scored, of_rows.scored);
    const auto cpu_backend = test::cpu_backend(best_usable_isa());
    const Model cpu = fixture_on(cpu_backend, name, "float32"),
                cpu_nf4 = fixture_on(cpu_backend, name, "nf4");
    expect_near(held.candidates[0], measured(cpu.program(), {&cpu_nf4.program()}, own, options).candidates[0],
                1e-5);
  }
}

// The host is given one small struct of each row and slice, and the shorter vocabulary is compared.
TEST_F(HeldDivergence, OfSeveralSlicesCopiesAFewNumbersEach) {
  constexpr std::int64_t kVocab = 4500, kPadded = 6200;
  const std::vector<TokenId> text = ids(11, kVocab);
  const Model base = tiny_on(gpu_.backend, kVocab), other = tiny_on(gpu_.backend, kVocab, change_norm),
              padded = tiny_on(gpu_.backend, kPadded, change_norm);
  const auto copied_by = [&](const std::function<void()>& action) {
    const std::int64_t before = gpu_.runtime->downloaded();
    action();
    return gpu_.runtime->downloaded() - before;
  };
  Divergence held, of_rows;
  const std::int64_t few = copied_by([&] {
    held = measured(base.program(), {&other.program(), &padded.program()}, text);
  });
  test::ForwardedProgram rows(base.program()), other_rows(other.program()), padded_rows(padded.program());
  const std::int64_t many = copied_by([&] { of_rows = measured(rows, {&other_rows, &padded_rows}, text); });
  const std::int64_t scored = std::ssize(held.scored);
  EXPECT_EQ(scored, 10);
  EXPECT_EQ(few, scored * 3 * slices_of(kVocab) * static_cast<std::int64_t>(sizeof(RowSlice)));
  EXPECT_EQ(many, scored * (2 * kVocab + kPadded) * 4);
  EXPECT_LE(few * 40, many);
  for (const std::size_t c : {0U, 1U}) {
    EXPECT_EQ(held.candidates[c].vocab, kVocab);
    expect_near(held.candidates[c], of_rows.candidates[c]);
    EXPECT_GT(held.candidates[c].tokens[3].kl, 1e-6);
  }
  // The other way round the baseline is cut, once for each vocabulary.
  const Divergence cut = measured(padded.program(), {&base.program(), &padded.program()}, text);
  expect_near(cut.candidates[0], measured(padded_rows, {&rows}, text).candidates[0]);
  EXPECT_EQ(cut.candidates[1].vocab, kPadded);
  for (const TokenDivergence& token : cut.candidates[1].tokens) EXPECT_EQ(token.kl, 0);
}

TEST_F(HeldDivergence, OfASecondCopyIsExactlyZero) {
  const std::vector<TokenId> text = ids(16, 4500);
  const Model a = tiny_on(gpu_.backend, 4500), b = tiny_on(gpu_.backend, 4500);
  const Divergence d = measured(a.program(), {&b.program(), &a.program()}, text);
  for (const CandidateDivergence& candidate : d.candidates) {
    ASSERT_EQ(candidate.tokens.size(), 15U);
    for (const TokenDivergence& token : candidate.tokens) {
      EXPECT_EQ(token.kl, 0);
      EXPECT_EQ(token.nll, token.nll_base);
      EXPECT_TRUE(token.same_top1);
      EXPECT_EQ(token.top5, 1);
    }
  }
}

TEST_F(HeldDivergence, ANonFiniteCandidateFailsAlone) {
  const std::vector<TokenId> text = ids(16, 4000);
  const Model base = tiny_on(gpu_.backend, 4500), other = tiny_on(gpu_.backend, 4500, change_norm),
              broken = tiny_on(gpu_.backend, 4500, [](test::TinyModel&tiny) {
                // The embedding of an id that the text has not, which is its row of the LM head too.
                std::vector<float> embeddings(4500 * 4, 0.25F);
                embeddings[4400 * 4 + 1] = std::nanf("");
                tiny.tensor("transformer.wte.weight").bytes = test::float_bytes(embeddings);
              });
  const Divergence d = measured(base.program(), {&broken.program(), &other.program()}, text);
  EXPECT_EQ(
      d.candidates[0].failure,
      "the logits for token 1 of the text are not finite: the model's weights or arithmetic are broken");
  EXPECT_TRUE(d.candidates[0].tokens.empty());
  expect_near(d.candidates[1], measured(base.program(), {&other.program()}, text).candidates[0]);
  EXPECT_EQ(d.candidates[1].tokens.size(), 15U);
  EXPECT_THROW(measured(broken.program(), {&other.program()}, text), Error);
}

// What one device cannot reduce goes through the host, with the same figures.
TEST_F(HeldDivergence, TwoDevicesGiveWholeRows) {
  const std::vector<TokenId> text = ids(16, 101);
  EmulatedDeviceOfTest second;
  const Model base = fixture_on(gpu_.backend, "base", "float32"),
              nf4 = fixture_on(gpu_.backend, "base", "nf4"),
              elsewhere = fixture_on(second.backend, "base", "nf4");
  HeldLogits& held = *base.program().held_logits();
  EXPECT_TRUE(nf4.program().held_logits()->is_beside(held));
  EXPECT_FALSE(elsewhere.program().held_logits()->is_beside(held));
  const std::int64_t before = second.runtime->downloaded();
  const Divergence d = measured(base.program(), {&elsewhere.program()}, text);
  EXPECT_EQ(second.runtime->downloaded() - before, 15 * 101 * 4);
  expect_near(d.candidates[0], measured(base.program(), {&nf4.program()}, text).candidates[0]);
}

// A baseline that is kept has its logits in the host's memory, and nothing stays of the device's.
TEST_F(HeldDivergence, AKeptBaselineGivesTheSameFigures) {
  const std::vector<TokenId> text = ids(16, 101);
  const Model base = fixture_on(gpu_.backend, "base", "float32"),
              nf4 = fixture_on(gpu_.backend, "base", "nf4");
  KeptBaseline kept{.most = {1 << 20}}, small{.most = {100}};
  const auto plain = measured(base.program(), {&nf4.program()}, text).candidates[0];
  for (KeptBaseline* one : {&kept, &kept, &small})
    expect_near(measured(base.program(), {&nf4.program()}, text, {.context = 8, .stride = 5, .kept = one})
                    .candidates[0],
                plain);
  EXPECT_EQ(kept.logits.size(), 15U * 101);
  EXPECT_TRUE(small.logits.empty());
}

TEST_F(HeldDivergence, WhatIsNotHeldIsNotReduced) {
  const Model base = fixture_on(gpu_.backend, "base", "float32"),
              other = fixture_on(gpu_.backend, "base", "nf4");
  HeldLogits& held = *base.program().held_logits();
  const auto cache = base.program().make_cache();
  const std::vector<TokenId> text{1, 2, 3};
  std::vector<RowSlice> out(3);
  const StepItem item{cache->add_sequence(), text};
  const auto reduce = [&](const HeldLogits* beside) { held.reduce(beside, 101, text, out); };
  run_in_steps(base.program(), *cache, std::span(&item, 1), [&](std::span<const StepPart>) {
    const std::vector<std::int64_t> rows{0, 1, 2};
    EXPECT_THROW(reduce(nullptr), std::logic_error);
    held.hold(rows);
    reduce(nullptr);
    EXPECT_TRUE(out[2].sums.is_finite);
    EXPECT_TRUE(out[2].has_target);
    EXPECT_THROW(reduce(other.program().held_logits()), std::logic_error);
    EXPECT_THROW(held.reduce(nullptr, 102, text, out), std::logic_error);
    std::vector<TokenId> chosen(3);
    base.program().head(rows, ArgmaxSink{chosen});
    EXPECT_THROW(reduce(nullptr), std::logic_error);
    const std::vector<std::int64_t> many(33, 0);
    EXPECT_THROW(held.hold(many), std::logic_error);
    held.hold(rows);
    const std::vector<std::int64_t> beyond{7};
    EXPECT_THROW(held.hold(beyond), Error);
    EXPECT_THROW(reduce(nullptr), std::logic_error);
  });
}

TEST(HeldLogitsTest, OfTwoModelsStayWithinTheLimit) {
  for (const std::int64_t vocab : {11, 50257, 128256, 151936, 256000, 262144, 1'000'000}) {
    const std::int64_t rows = cuda::held_rows_of(vocab),
                       each = vocab * 4 + slices_of(vocab) * static_cast<std::int64_t>(sizeof(RowSlice));
    EXPECT_LE(2 * rows * each, 64'000'000) << vocab;
    EXPECT_TRUE(rows == cuda::kHeadRows || 2 * (rows + 1) * each > 64'000'000) << vocab;
  }
  EXPECT_EQ(cuda::held_rows_of(262144), 30);
  EXPECT_EQ(cuda::held_rows_of(100'000'000), 1);
}

}  // namespace
}  // namespace assay
