#include "assay/generate/greedy_step.h"

namespace assay {

NextTokenRows next_token_rows(std::span<const StepItem> items, std::span<const StepPart> parts) {
  NextTokenRows found;
  for (const StepPart& part : parts) {
    const StepItem& item = items[part.item];
    const std::int64_t last = item.wanted.value_or(static_cast<std::int64_t>(item.ids.size()) - 1);
    if (last < part.first || last >= part.first + part.rows) continue;
    found.rows.push_back(part.first_row + last - part.first);
    found.items.push_back(part.item);
  }
  return found;
}

void choose_greedily(Program& program, const NextTokenRows& from, std::span<TokenId> next) {
  if (from.rows.empty()) return;
  std::vector<TokenId> chosen(from.rows.size());
  program.head(from.rows, ArgmaxSink{chosen});
  for (std::size_t i = 0; i < chosen.size(); ++i) next[from.items[i]] = chosen[i];
}

void run_greedy_step(Program& program, KvCache& cache, std::span<const StepItem> items,
                     std::span<TokenId> next,
                     const std::function<void(std::span<const StepPart>)>& after_step) {
  run_in_steps(program, cache, items, [&](std::span<const StepPart> parts) {
    const NextTokenRows from = next_token_rows(items, parts);
    choose_greedily(program, from, next);
    for (const std::size_t item : from.items) require_finite(program.plan(), next[item]);
    if (after_step) after_step(parts);
  });
}

}  // namespace assay
