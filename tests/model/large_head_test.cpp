// An LM head of a size that no cache holds: kernels may read it otherwise, and give the same bits.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace assay
