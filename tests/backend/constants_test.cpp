// Constants of the processor belong to a session: two in one process keep their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/model/model.h"
#include "assay/session/load.h"
#include "support/fixtures.h"

namespace assay {
namespace {

constexpr const char* kTunedModel = "llama_grouped";

LoadedModel tuned_model(Preset precision, const KernelConstants& constants) {
  RunConfig config;
  config.precision = precision;
  config.threads = 2;
  LoadOptions options;
  options.needs_tokenizer = false;
  options.constants = std::make_shared<const KernelConstants>(constants);
  return load_model_and_tokenizer({test::fixture_model(kTunedModel).string()}, config, options);
}

// Logits of all tokens, in steps of `at_once`.
std::vector<float> tuned_logits(const LoadedModel& loaded, const std::vector<TokenId>& ids,
                                std::size_t at_once) {
  Program& program = loaded.model->program();
  const auto cache = program.make_cache();
  const int sequence = cache->add_sequence();
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  std::vector<float> all;
  for (std::size_t first = 0; first < ids.size(); first += at_once) {
    Batch batch;
    std::vector<std::int64_t> rows;
    for (std::size_t i = first; i < std::min(first + at_once, ids.size()); ++i) {
      batch.ids.push_back(ids[i]);
      batch.positions.push_back(static_cast<std::int32_t>(i));
      rows.push_back(static_cast<std::int64_t>(i - first));
    }
    batch.sequences = {
        {.sequence = sequence, .first_row = 0, .rows = static_cast<std::int64_t>(rows.size())}};
    program.run(batch, *cache);
    std::vector<float> logits(rows.size() * vocab);
    program.head(rows, LogitsSink{logits});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST(KernelConstants, OfTwoSessionsAreTheirOwnAndChangeNoLogit) {
  if (best_usable_isa() == Isa::scalar) GTEST_SKIP() << "scalar kernels have none";
  const KernelConstants near{
      .fetch = {512, 2048, false}, .grouped_fetch = {512, 2048, false}, .share_rows = 128},
      far{.fetch = {3072, 12288, true}, .grouped_fetch = {3072, 12288, true}, .share_rows = 512};
  std::vector<TokenId> ids;
  for (int i = 0; i < 24; ++i) ids.push_back(i * 7 % 50);
  for (const Preset precision : {Preset::float32, Preset::bfloat16, Preset::int8_dynamic, Preset::nf4}) {
    SCOPED_TRACE(name_of(precision));
    const LoadedModel first = tuned_model(precision, near), second = tuned_model(precision, far);
    for (const std::size_t at_once : {std::size_t{1}, ids.size()}) {
      const std::vector<float> before = tuned_logits(first, ids, at_once),
                               other = tuned_logits(second, ids, at_once);
      EXPECT_EQ(other, before) << at_once;
      EXPECT_EQ(tuned_logits(first, ids, at_once), before) << at_once;
    }
    EXPECT_EQ(first.model->backend().constants(), near);
    EXPECT_EQ(second.model->backend().constants(), far);
  }
}

}  // namespace
}  // namespace assay
