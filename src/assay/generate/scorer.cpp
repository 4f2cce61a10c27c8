#include "assay/generate/scorer.h"

#include <algorithm>
#include <cmath>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/generate/steps.h"
#include "assay/generate/windows.h"

namespace assay {

namespace {

// Log-probabilities of one batch of windows, appended in text order. `stop` is called before each step of
// decoding.
void score_windows(Program& program, std::span<const TokenId> ids, std::span<const Window> windows,
                   ScoreThrough through, const std::function<void()>& stop, std::vector<double>& out) {
  const auto cache = program.make_cache();
  std::vector<int> sequences;
  for (std::size_t i = 0; i < windows.size(); ++i) sequences.push_back(cache->add_sequence());
  std::vector<std::vector<double>> scored(windows.size());
  std::vector<std::int64_t> rows;
  std::vector<TokenId> targets;
  std::vector<std::size_t> owners;  // the window of each row
  std::vector<double> now;
  // Tokens [first, first + count) of every window that has them.
  const auto run = [&](std::int64_t first, std::int64_t count) {
    std::vector<StepItem> items;
    std::vector<std::size_t> of_item;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const std::int64_t begin = windows[i].begin + first, end = std::min(begin + count, windows[i].end);
      if (begin >= end) continue;
      items.push_back(
          {.sequence = sequences[i],
           .ids = ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
           .extent = windows[i].end - windows[i].begin});  // through decode the same as through prefill
      of_item.push_back(i);
    }
    run_in_steps(program, *cache, items, [&](std::span<const StepPart> parts) {
      rows.clear();
      targets.clear();
      owners.clear();
      for (const StepPart& part : parts) {
        const Window& w = windows[of_item[part.item]];
        for (std::int64_t i = 0; i < part.rows; ++i) {
          const std::int64_t target = w.begin + first + part.first + i + 1;
          if (target < w.first_target || target >= w.end) continue;
          rows.push_back(part.first_row + i);
          targets.push_back(ids[static_cast<std::size_t>(target)]);
          owners.push_back(of_item[part.item]);
        }
      }
      now.resize(rows.size());
      program.head(rows, LogProbabilitySink{targets, now});
      for (std::size_t i = 0; i < now.size(); ++i) scored[owners[i]].push_back(now[i]);
    });
  };
  std::int64_t longest = 0;
  for (const Window& w : windows) longest = std::max(longest, w.end - w.begin);
  if (through == ScoreThrough::prefill) {
    run(0, longest);
  } else {
    for (std::int64_t first = 0; first + 1 < longest; ++first) {  // the last token scores nothing
      stop();
      run(first, 1);
    }
  }
  for (const std::vector<double>& window : scored) out.insert(out.end(), window.begin(), window.end());
}

}  // namespace

ScoreThrough score_through_from_name(std::string_view name) {
  if (name == "prefill") return ScoreThrough::prefill;
  if (name == "decode") return ScoreThrough::decode;
  throw FieldError("through", "expected prefill or decode, found '{}'", name.substr(0, 64));
}

std::string_view name_of(ScoreThrough through) {
  return through == ScoreThrough::decode ? "decode" : "prefill";
}

Score score(Program& program, std::span<const TokenId> ids, const ScoreOptions& options) {
  const std::int64_t limit = program.plan().context, vocab = program.plan().vocab;
  Score result;
  result.context = options.context.value_or(limit);
  if (result.context < 2 || result.context > limit)
    throw FieldError("context", "expected 2 to {} (the model's), found {}", limit, result.context);
  result.stride = options.stride.value_or(std::max<std::int64_t>(1, result.context / 2));
  if (result.stride < 1 || result.stride > result.context)
    throw FieldError("stride", "expected 1 to {} (the context), found {}", result.context, result.stride);
  if (options.batch && *options.batch < 1)
    throw FieldError("batch", "expected a whole number from 1, found {}", *options.batch);
  result.tokens = static_cast<std::int64_t>(ids.size());
  if (result.tokens < 2)
    throw Error("the text has {}; a perplexity needs at least 2", counted(result.tokens, "token"));
  for (const TokenId id : ids)
    if (id < 0 || id >= vocab) throw Error("token id {} is outside the model's vocabulary of {}", id, vocab);

  const std::vector<Window> windows = windows_of(result.tokens, result.context, result.stride);
  result.windows = static_cast<std::int64_t>(windows.size());
  const bool is_decode = options.through == ScoreThrough::decode;
  const auto batch = static_cast<std::size_t>(options.batch.value_or(is_decode ? 1 : 4));
  for (std::size_t first = 0; first < windows.size(); first += batch) {
    const auto stop = [&] {
      if (options.should_stop && options.should_stop())
        throw Error("interrupted after {} of {} windows", first, windows.size());
    };
    stop();
    score_windows(program, ids, std::span(windows).subspan(first, std::min(batch, windows.size() - first)),
                  options.through, stop, result.log_probabilities);
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
  if (is_decode) result.protocol += " through=decode";
  if (is_decode && batch > 1) result.protocol += fmt::format(" batch={}", batch);
  return result;
}

}  // namespace assay
