#include "assay/generate/scorer.h"

#include <algorithm>
#include <cmath>

#include "assay/backend/backend.h"
#include "assay/backend/common/batch.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/generate/steps.h"

namespace assay {

namespace {

constexpr std::int64_t kLlamaCppContext = 512, kGptqContext = 2048;

// Names the first scored token that the sum over all is broken by.
[[noreturn]] void refuse_loss(const Plan& plan, const Score& score) {
  const auto bad = std::find_if(score.log_probabilities.begin(), score.log_probabilities.end(),
                                [](double value) { return !std::isfinite(value); });
  if (bad == score.log_probabilities.end())
    refuse_not_finite(plan, fmt::format("the loss is not finite ({})", number_text(score.loss)));
  refuse_not_finite(
      plan, fmt::format("the log-probability of scored token {} of {} is not finite ({})",
                        bad - score.log_probabilities.begin() + 1, score.tokens_scored, number_text(*bad)));
}

// Throws FieldError for what does not go together.
WindowRule window_rule(const ScoreOptions& options, std::int64_t limit) {
  WindowRule rule{.protocol = options.protocol,
                  .context = options.context.value_or(usual_context(options.protocol, limit)),
                  .stride = options.stride,
                  .bos = options.bos.value_or(BosRule::none),
                  .bos_token = options.bos_token};
  // BOS and one token, of which none would be left to predict, are no window.
  const std::int64_t least = rule.bos == BosRule::each ? 3 : 2;
  if (rule.context < least || rule.context > limit)
    throw FieldError("context", "expected {} to {} (the model's), found {}", least, limit, rule.context);
  const bool has_stride = rule.protocol == Protocol::hf || rule.protocol == Protocol::llama_cpp;
  if (rule.stride && !has_stride)
    throw FieldError("stride", "expected none for {}, whose windows have no stride, found {}",
                     name_of(rule.protocol), *rule.stride);
  if (rule.protocol == Protocol::hf)
    rule.stride = rule.stride.value_or(std::max<std::int64_t>(1, rule.context / 2));
  if (rule.stride && (*rule.stride < 1 || *rule.stride > rule.context))
    throw FieldError("stride", "expected 1 to {} (the context), found {}", rule.context, *rule.stride);
  if (rule.protocol == Protocol::lm_eval && (rule.bos == BosRule::each || rule.bos == BosRule::replace))
    throw FieldError("bos",
                     "expected none or first for lm-eval, whose windows have a prefix of their own, "
                     "found {}",
                     name_of(rule.bos));
  const bool needs_token =
      rule.protocol == Protocol::lm_eval || rule.bos == BosRule::each || rule.bos == BosRule::replace;
  if (needs_token && !rule.bos_token)
    throw FieldError("bos_token", "expected the id of the beginning-of-text token for {}, found none",
                     text_of({.protocol = rule.protocol, .context = rule.context, .bos_token = 0}));
  return rule;
}

void require_tokens(const WindowRule& rule, std::int64_t tokens) {
  const bool has_before = rule.protocol == Protocol::lm_eval || rule.bos == BosRule::each;
  std::int64_t least = has_before ? 1 : 2;
  if (rule.protocol == Protocol::llama_cpp) least = rule.stride ? rule.context + 1 : 2 * rule.context;
  if (rule.protocol == Protocol::gptq) least = rule.context;
  if (tokens < least)
    throw Error("the text has {}; a perplexity by {} needs at least {}", counted(tokens, "token"),
                name_of(rule.protocol), least);
}

ScoredSequence sequence_of(const Window& window, std::span<const TokenId> ids) {
  const auto targets =
      ids.subspan(static_cast<std::size_t>(window.first_target), static_cast<std::size_t>(window.targets()));
  return {.inputs = window.input_ids(ids),
          .first_row = window.first_target - window.first_predicted(),
          .targets = {std::vector<TokenId>(targets.begin(), targets.end())}};
}

// The guide's loss is the mean of a window's scored tokens, which it counts as the window's new tokens less
// one; only of the first window are these as many.
double guide_loss(std::span<const Window> windows, std::span<const double> log_probabilities) {
  double sum = 0, count = 0;
  std::size_t at = 0;
  std::int64_t scored_to = 0;
  for (const Window& window : windows) {
    const auto n = static_cast<std::size_t>(window.targets());
    const auto weight = static_cast<double>(window.end - scored_to - (window.before ? 0 : 1));
    scored_to = window.end;
    if (n == 0 || weight <= 0) continue;
    double loss = 0;
    for (std::size_t i = 0; i < n; ++i) loss -= log_probabilities[at + i];
    at += n;
    sum += weight * loss / static_cast<double>(n);
    count += weight;
  }
  return sum / count;
}

}  // namespace

std::int64_t usual_context(Protocol protocol, std::int64_t limit) {
  if (protocol == Protocol::llama_cpp) return std::min(kLlamaCppContext, limit);
  if (protocol == Protocol::gptq) return std::min(kGptqContext, limit);
  return limit;
}

Score score(Program& program, std::span<const TokenId> ids, const ScoreOptions& options) {
  const WindowRule rule = window_rule(options, program.plan().context);
  if (options.batch && *options.batch < 1)
    throw FieldError("batch", "expected a whole number from 1, found {}", *options.batch);
  Score result;
  result.context = rule.context;
  result.stride = rule.stride.value_or(0);
  result.tokens = static_cast<std::int64_t>(ids.size());
  require_tokens(rule, result.tokens);
  check_token_ids(program.plan(), ids);

  const std::vector<Window> windows = windows_of(rule, result.tokens);
  result.windows = static_cast<std::int64_t>(windows.size());
  const bool is_decode = options.through == ScoreThrough::decode;
  const auto batch = static_cast<std::size_t>(options.batch.value_or(is_decode ? 1 : 4));
  for (std::size_t first = 0; first < windows.size(); first += batch) {
    const auto stop = [&] {
      if (options.should_stop && options.should_stop())
        throw Error("interrupted after {} of {} windows", first, windows.size());
    };
    stop();
    std::vector<ScoredSequence> sequences;
    for (std::size_t i = first; i < std::min(first + batch, windows.size()); ++i)
      sequences.push_back(sequence_of(windows[i], ids));
    for (const ScoredTargets& scored : score_sequences(program, sequences, options.through, false, stop))
      result.log_probabilities.insert(result.log_probabilities.end(), scored.log_probabilities[0].begin(),
                                      scored.log_probabilities[0].end());
    if (options.on_progress)
      options.on_progress(static_cast<std::int64_t>(std::min(first + batch, windows.size())), result.windows);
  }
  double sum = 0;
  for (const double value : result.log_probabilities) sum -= value;
  result.tokens_scored = static_cast<std::int64_t>(result.log_probabilities.size());
  result.loss = sum / static_cast<double>(result.tokens_scored);
  result.perplexity = std::exp(result.loss);
  if (!std::isfinite(result.loss)) refuse_loss(program.plan(), result);
  result.protocol_perplexity = rule.protocol == Protocol::hf
                                   ? std::exp(guide_loss(windows, result.log_probabilities))
                                   : result.perplexity;
  result.protocol = text_of(rule);
  if (is_decode) result.protocol += " through=decode";
  if (is_decode && batch > 1) result.protocol += fmt::format(" batch={}", batch);
  return result;
}

}  // namespace assay
