// The greedy step, which generation and profiles share: every sequence takes in its new tokens, and the most
// probable token after them is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "assay/generate/steps.h"

namespace assay {

// Rows of the hidden states from which next tokens are chosen, and the item of each: those of a step that
// hold an item's wanted token, its last where none is named.
struct NextTokenRows {
  std::vector<std::int64_t> rows;
  std::vector<std::size_t> items;
};
NextTokenRows next_token_rows(std::span<const StepItem> items, std::span<const StepPart> parts);

// Writes next[item] for each of the rows: the most probable token, the lowest id of equals; -1
// where logits are not finite, which the caller refuses.
void choose_greedily(Program& program, const NextTokenRows& from, std::span<TokenId> next);

// run_in_steps(), and choose_greedily() after each: next[i] is the token that follows item i. Throws Error
// where logits are not finite. `after_step`
// sees the parts of a step when its tokens are chosen.
void run_greedy_step(Program& program, KvCache& cache, std::span<const StepItem> items,
                     std::span<TokenId> next,
                     const std::function<void(std::span<const StepPart>)>& after_step = {});

}  // namespace assay
