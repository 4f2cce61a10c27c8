#include "assay/backend/common/batch.h"

#include <algorithm>
#include <cassert>

#include "assay/base/error.h"

namespace assay {

void check_token_ids(const Plan& plan, std::span<const TokenId> ids) {
  for (const TokenId id : ids)
    if (id < 0 || id >= plan.vocab)
      throw Error("{}token id {} is outside the model's vocabulary of {}",
                  plan.model.empty() ? "" : plan.model + ": ", id, plan.vocab);
}

void check_batch(const Batch& batch, const Plan& plan, const KvCache& cache, std::int64_t max_rows,
                 std::int64_t steps) {
  if (static_cast<std::int64_t>(batch.ids.size()) > max_rows)
    throw Error("a batch of {} tokens was given; at most {} fit one step", batch.ids.size(), max_rows);
  assert(batch.positions.size() == batch.ids.size());
  check_token_ids(plan, batch.ids);
  for (const std::int32_t position : batch.positions)
    if (position < 0 || position + steps > plan.context)
      throw Error("position {} is outside the model's context of {} tokens", position + steps - 1,
                  plan.context);
  for (const SequenceRows& rows : batch.sequences) {
    const std::int64_t length = cache.length(rows.sequence) + rows.rows + steps - 1;
    if (length > plan.context)
      throw Error("{} tokens exceed the model's context of {}", length, plan.context);
  }
}

std::int64_t HiddenRows::place_of(std::int64_t row) const {
  if (keeps_all_ && row >= 0 && row < rows_) return row;
  const auto at = std::lower_bound(kept_.begin(), kept_.end(), row);
  if (keeps_all_ || at == kept_.end() || *at != row)
    throw Error("row {} of the last batch has no hidden state: it was not wanted", row);
  return at - kept_.begin();
}

}  // namespace assay
