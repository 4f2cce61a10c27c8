#include "assay/generate/scorer.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/generate/steps.h"

namespace assay {

namespace {

struct Window {
  std::int64_t begin, end;
  std::int64_t first_target;  // the first token of the text that this window scores
};

std::vector<Window> windows_of(std::int64_t tokens, std::int64_t context, std::int64_t stride) {
  std::vector<Window> windows;
  std::int64_t scored_to = 0;
  for (std::int64_t begin = 0;; begin += stride) {
    const std::int64_t end = std::min(begin + context, tokens);
    windows.push_back({begin, end, std::max(scored_to, begin + 1)});
    scored_to = end;
    if (end == tokens) return windows;
  }
}

// Log-probabilities of one batch of windows, appended in text order.
void score_windows(Program& program, std::span<const TokenId> ids, std::span<const Window> windows,
                   std::vector<double>& out) {
  const auto cache = program.make_cache();
  std::vector<StepItem> items;
  for (const Window& w : windows)
    items.push_back({cache->add_sequence(), ids.subspan(static_cast<std::size_t>(w.begin),
                                                        static_cast<std::size_t>(w.end - w.begin))});
  std::vector<std::int64_t> rows;
  std::vector<TokenId> targets;
  run_in_steps(program, *cache, items, [&](std::span<const StepPart> parts) {
    rows.clear();
    targets.clear();
    for (const StepPart& part : parts) {
      const Window& w = windows[part.item];
      for (std::int64_t i = 0; i < part.rows; ++i) {
        const std::int64_t target = w.begin + part.first + i + 1;
        if (target < w.first_target || target >= w.end) continue;
        rows.push_back(part.first_row + i);
        targets.push_back(ids[static_cast<std::size_t>(target)]);
      }
    }
    const std::size_t held = out.size();
    out.resize(held + rows.size());
    program.head(rows, LogProbabilitySink{targets, std::span(out).subspan(held)});
  });
}

}  // namespace

Score score(Program& program, std::span<const TokenId> ids, const ScoreOptions& options) {
  const std::int64_t limit = program.plan().context, vocab = program.plan().vocab;
  Score result;
  result.context = options.context == 0 ? limit : options.context;
  if (result.context < 2 || result.context > limit)
    throw UsageError("--context: expected 2 to {} (the model's), found {}", limit, result.context);
  result.stride = options.stride == 0 ? std::max<std::int64_t>(1, result.context / 2) : options.stride;
  if (result.stride < 1 || result.stride > result.context)
    throw UsageError("--stride: expected 1 to {} (the context), found {}", result.context, result.stride);
  result.tokens = static_cast<std::int64_t>(ids.size());
  if (result.tokens < 2) throw Error("the text has {} tokens; a perplexity needs at least 2", result.tokens);
  for (const TokenId id : ids)
    if (id < 0 || id >= vocab) throw Error("token id {} is outside the model's vocabulary of {}", id, vocab);

  const std::vector<Window> windows = windows_of(result.tokens, result.context, result.stride);
  result.windows = static_cast<std::int64_t>(windows.size());
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(1, options.batch));
  for (std::size_t first = 0; first < windows.size(); first += batch) {
    if (options.should_stop && options.should_stop())
      throw Error("interrupted after {} of {} windows", first, windows.size());
    score_windows(program, ids, std::span(windows).subspan(first, std::min(batch, windows.size() - first)),
                  result.log_probabilities);
    if (options.on_progress)
      options.on_progress(static_cast<std::int64_t>(std::min(first + batch, windows.size())), result.windows);
  }
  double sum = 0;
  for (const double value : result.log_probabilities) sum -= value;
  result.tokens_scored = static_cast<std::int64_t>(result.log_probabilities.size());
  result.loss = sum / static_cast<double>(result.tokens_scored);
  result.perplexity = std::exp(result.loss);
  if (!std::isfinite(result.loss))
    throw Error("the loss is not finite ({}): the model's weights or arithmetic are broken", result.loss);
  result.protocol = fmt::format("hf context={} stride={}", result.context, result.stride);
  return result;
}

}  // namespace assay
