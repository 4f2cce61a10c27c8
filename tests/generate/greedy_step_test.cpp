// The greedy step against logits that are looked at one by one.
#include "assay/generate/greedy_step.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

TokenId highest(const std::vector<float>& logits, std::int64_t row, std::size_t vocab) {
  const auto begin = logits.begin() + row * static_cast<std::int64_t>(vocab);
  return static_cast<TokenId>(std::max_element(begin, begin + static_cast<std::int64_t>(vocab)) - begin);
}

TEST(GreedyStep, EverySequenceGetsTheTokenAfterItsWantedOne) {
  const LoadedModel loaded = load_model_and_tokenizer({test::fixture_model("llama_grouped").string()},
                                                      "float32", Device{}, {.needs_tokenizer = false});
  Program& program = loaded.model->program();
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  const std::vector<TokenId> first = {3, 1, 4, 1, 5}, second = {9, 2}, third = {6, 5, 3};
  const auto cache = program.make_cache();
  const std::vector<StepItem> items = {{cache->add_sequence(), first},
                                       {cache->add_sequence(), second},
                                       {.sequence = cache->add_sequence(), .ids = third, .wanted = 1}};
  std::vector<TokenId> next(items.size(), -1);
  std::size_t parts_seen = 0;
  run_greedy_step(program, *cache, items, next, [&](std::span<const StepPart> parts) {
    parts_seen += parts.size();
    EXPECT_GE(next[parts.front().item], 0) << "the tokens are chosen by then";
  });
  EXPECT_GE(parts_seen, items.size());
  EXPECT_EQ(next[0], highest(test::all_logits(program, first), 4, vocab));
  EXPECT_EQ(next[1], highest(test::all_logits(program, second), 1, vocab));
  EXPECT_EQ(next[2], highest(test::all_logits(program, third), 1, vocab));
  EXPECT_EQ(cache->length(items[2].sequence), 3) << "what is not wanted is taken in all the same";
}

TEST(GreedyStep, RowsAreThoseOfAStepThatHoldAWantedToken) {
  const std::vector<TokenId> ids(10, 1);
  const std::vector<StepItem> items = {{0, ids}, {.sequence = 1, .ids = ids, .wanted = 2}};
  const std::vector<StepPart> parts = {{0, 0, 0, 9}, {1, 0, 9, 3}};
  NextTokenRows found = next_token_rows(items, parts);
  EXPECT_EQ(found.rows, (std::vector<std::int64_t>{11}));
  EXPECT_EQ(found.items, (std::vector<std::size_t>{1}));
  const std::vector<StepPart> rest = {{0, 9, 0, 1}, {1, 3, 1, 7}};
  found = next_token_rows(items, rest);
  EXPECT_EQ(found.rows, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(found.items, (std::vector<std::size_t>{0}));
}

}  // namespace
}  // namespace assay
