#include "assay/generate/processors.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "assay/base/error.h"

namespace assay {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void suppress(std::span<const TokenId> ids, std::span<float> logits) {
  for (const TokenId id : ids)
    if (id >= 0 && static_cast<std::size_t>(id) < logits.size())
      logits[static_cast<std::size_t>(id)] = kNever;
}

// One of these follows, and of several the first.
void force(std::span<const TokenId> ids, std::span<float> logits) {
  std::fill(logits.begin(), logits.end(), kNever);
  for (const TokenId id : ids) logits[static_cast<std::size_t>(id)] = 0;
}

void forbid_repeated(std::int64_t size, std::span<const TokenId> text, std::span<float> logits) {
  const auto n = static_cast<std::size_t>(size);
  if (text.size() < n) return;
  const std::span<const TokenId> last = text.last(n - 1);
  for (std::size_t i = 0; i + n <= text.size(); ++i)
    if (std::ranges::equal(text.subspan(i, n - 1), last)) suppress(text.subspan(i + n - 1, 1), logits);
}

void forbid_words(const std::vector<std::vector<TokenId>>& words, std::span<const TokenId> text,
                  std::span<float> logits) {
  for (const std::vector<TokenId>& word : words) {
    const std::span<const TokenId> begin = std::span(word).first(word.size() - 1);
    if (begin.size() <= text.size() && std::ranges::equal(text.last(begin.size()), begin))
      suppress(std::span(word).last(1), logits);
  }
}

void check_ids(std::string_view key, std::span<const TokenId> ids, std::int64_t vocab) {
  for (const TokenId id : ids)
    if (id < 0 || id >= vocab)
      throw FieldError(std::string(key), "expected ids of the vocabulary of {}, found {}", vocab, id);
}

}  // namespace

bool LogitsProcessors::is_empty() const {
  return no_repeat_ngram_size == 0 && bad_words.empty() && min_length == 0 &&
         min_new_tokens.value_or(0) == 0 && !forced_bos && forced_eos.empty() && suppress.empty() &&
         begin_suppress.empty();
}

void check_processors(const LogitsProcessors& processors, std::int64_t vocab) {
  if (processors.no_repeat_ngram_size < 0 || processors.min_length < 0 ||
      processors.min_new_tokens.value_or(0) < 0)
    throw FieldError("no_repeat_ngram_size",
                     "expected lengths of 0 or more, here and of min_length and "
                     "min_new_tokens, found less");
  for (const std::vector<TokenId>& word : processors.bad_words) {
    if (word.empty()) throw FieldError("bad_words_ids", "expected lists of ids, found an empty one");
    check_ids("bad_words_ids", word, vocab);
  }
  if (processors.forced_bos) check_ids("forced_bos_token_id", std::span(&*processors.forced_bos, 1), vocab);
  check_ids("forced_eos_token_id", processors.forced_eos, vocab);
}

void apply_processors(const LogitsProcessors& p, const ProcessedText& text, std::span<float> logits) {
  const auto length = static_cast<std::int64_t>(text.ids.size());
  if (p.no_repeat_ngram_size > 0) forbid_repeated(p.no_repeat_ngram_size, text.ids, logits);
  forbid_words(p.bad_words, text.ids, logits);
  if (p.min_new_tokens ? length - text.prompt_tokens < *p.min_new_tokens : length < p.min_length)
    suppress(p.end_tokens, logits);
  if (p.forced_bos && length == 1) force(std::span(&*p.forced_bos, 1), logits);
  if (!p.forced_eos.empty() && length - text.prompt_tokens + 1 == text.max_new_tokens)
    force(p.forced_eos, logits);
  suppress(p.suppress, logits);
  // Where the first new token is the forced one, the next is the first that is chosen.
  const bool is_first_forced = text.prompt_tokens <= 1 && p.forced_bos.has_value();
  if (length == text.prompt_tokens + (is_first_forced ? 1 : 0)) suppress(p.begin_suppress, logits);
  if (std::ranges::all_of(logits, [](float logit) { return logit == kNever; }))
    throw Error("what generation_config.json suppresses and forces leaves no token to choose");
}

}  // namespace assay
