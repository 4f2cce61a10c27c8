// An LM head of a size that no cache holds: kernels may read it otherwise, and give the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/model/model.h"
#include "support/fixtures.h"
#include "support/kernel_tiers.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

TEST(LargeHead, OneRowHasTheBitsOfSeveral) {
  constexpr std::int64_t kVocab = 540001;  // x 4 inputs x 4 bytes: more than 8 MB in every format
  test::TemporaryFolder folder;
  test::TinyModel tiny;
  tiny.config["vocab_size"] = kVocab;
  tiny.tensor("transformer.wte.weight") = test::float_tensor("transformer.wte.weight", {kVocab, 4});
  const auto checkpoint = std::make_shared<const ModelFolder>(tiny.write(folder.path() / "model"));
  for (const Isa isa : test::usable_isas())
    for (const char* name : {"float32", "bfloat16", "int8-dynamic"}) {
      Precision precision = precision_from_name(name);
      precision.lm_head = precision.weights;
      const Model model = Model::load(checkpoint, test::cpu_backend(isa), precision);
      Program& program = model.program();
      const auto cache = program.make_cache();
      Batch batch;
      batch.ids = {1, 2, 3};
      batch.positions = {0, 1, 2};
      batch.sequences.push_back({.sequence = cache->add_sequence(), .rows = 3});
      program.run(batch, *cache);
      std::vector<float> all(3 * kVocab), one(kVocab);
      const std::vector<std::int64_t> rows{0, 1, 2};
      program.head(rows, LogitsSink{all});
      for (const std::int64_t row : rows) {
        program.head(std::span(&row, 1), LogitsSink{one});
        const auto first = all.begin() + row * kVocab;
        EXPECT_TRUE(std::equal(one.begin(), one.end(), first)) << name_of(isa) << " " << name;
      }
    }
}

// Slices of the vocabulary of many rows: the bits that head() gives, whatever lies in memory before.
void expect_slices_equal(Program& program, const std::vector<TokenId>& ids) {
  const auto rows = static_cast<std::int64_t>(ids.size()), vocab = program.plan().vocab;
  const auto cache = program.make_cache();
  Batch batch;
  batch.ids = ids;
  for (std::int32_t i = 0; i < rows; ++i) batch.positions.push_back(i);
  batch.sequences.push_back({.sequence = cache->add_sequence(), .rows = rows});
  program.run(batch, *cache);
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < rows; ++i) all.push_back(i);
  std::vector<float> whole(static_cast<std::size_t>(rows * vocab));
  program.head(all, LogitsSink{whole});
  const std::int64_t stride = kHeadSlice + 16;
  std::vector<float> slice(static_cast<std::size_t>(rows * stride));
  ASSERT_TRUE(program.has_head_slices());
  for (std::int64_t first = 0; first < vocab; first += kHeadSlice) {
    const std::int64_t count = std::min(kHeadSlice, vocab - first);
    std::fill(slice.begin(), slice.end(), -7.0F);
    program.head_slice(all, {first, count, slice.data(), stride});
    for (std::int64_t row = 0; row < rows; ++row) {
      const float *got = slice.data() + row * stride, *want = whole.data() + row * vocab + first;
      ASSERT_TRUE(std::equal(got, got + count, want)) << "row " << row << " from " << first;
      ASSERT_EQ(got[count], -7) << "what lies behind is not written";
    }
  }
}

TEST(LargeHead, SlicesHaveTheBitsOfTheWhole) {
  constexpr std::int64_t kVocab = 5003;
  test::TemporaryFolder folder;
  test::TinyModel tiny(64);
  tiny.config["vocab_size"] = kVocab;
  tiny.tensor("transformer.wte.weight") = test::float_tensor("transformer.wte.weight", {kVocab, 4});
  const auto checkpoint = std::make_shared<const ModelFolder>(tiny.write(folder.path() / "model"));
  std::vector<TokenId> ids;
  for (int i = 0; i < 50; ++i) ids.push_back(i * 97 % static_cast<int>(kVocab));
  for (const Isa isa : test::usable_isas())
    for (const char* name : {"float32", "bfloat16", "int8-dynamic", "nf4", "int4-g128"}) {
      SCOPED_TRACE(std::string(name_of(isa)) + " " + name);
      Precision precision = precision_from_name(name);
      precision.lm_head = precision.weights;
      const Model model = Model::load(checkpoint, test::cpu_backend(isa), precision);
      expect_slices_equal(model.program(), ids);
      expect_slices_equal(model.program(), {3, 1, 4});
    }
}

TEST(LargeHead, SlicesAreBentAsTheWhole) {
  for (const char* name : {"gemma2_capped", "cohere_scaled", "granite_scaled"}) {
    const Model model = Model::load(std::make_shared<const ModelFolder>(test::fixture_model(name)),
                                    test::cpu_backend(best_usable_isa()), precision_from_name("float32"));
    SCOPED_TRACE(name);
    EXPECT_TRUE(model.program().plan().head.bends_logits());
    expect_slices_equal(model.program(), {3, 1, 4, 1, 5});
  }
}

}  // namespace
}  // namespace assay
