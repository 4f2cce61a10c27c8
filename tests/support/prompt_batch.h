// Prompts of made-up ids, as one batch.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/backend/backend.h"

namespace assay::test {

struct PromptBatch {
  Batch batch;
  std::vector<std::int64_t> rows;  // all of them
};

// New sequences of the cache, each with a prompt of `length` ids below `vocab`.
inline PromptBatch prompt_batch(KvCache& cache, std::int64_t sequences, std::int64_t length,
                                std::int64_t vocab) {
  PromptBatch made;
  for (std::int64_t i = 0; i < sequences; ++i) {
    made.batch.sequences.push_back(
        {.sequence = cache.add_sequence(), .first_row = i * length, .rows = length});
    for (std::int64_t j = 0; j < length; ++j) {
      made.rows.push_back(static_cast<std::int64_t>(made.rows.size()));
      made.batch.ids.push_back(static_cast<TokenId>((5 * i + 3 * j + 1) % vocab));
      made.batch.positions.push_back(static_cast<std::int32_t>(j));
    }
  }
  return made;
}

}  // namespace assay::test
