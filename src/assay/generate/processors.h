// What Transformers' generate() does to logits before a token is chosen, where generation_config.json asks
// for it: tokens that may not follow, and those that must (transformers 5.23, generation/logits_process.py).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "assay/base/token_id.h"

namespace assay {

// Ids outside the vocabulary are left out of suppressed tokens and are an error elsewhere.
struct LogitsProcessors {
  std::int64_t no_repeat_ngram_size = 0;  // no n-gram of the text, the prompt included, comes twice; 0: off
  std::vector<std::vector<TokenId>> bad_words;    // sequences that are not completed
  std::int64_t min_length = 0;                    // no end token before so many, the prompt included
  std::optional<std::int64_t> min_new_tokens;     // the same without the prompt, in place of min_length
  std::vector<TokenId> end_tokens;                // that the two above hold back
  std::optional<TokenId> forced_bos;              // the second token of a text
  std::vector<TokenId> forced_eos;                // the last token of the length that was asked for
  std::vector<TokenId> suppress, begin_suppress;  // tokens that never follow, or not as the first new one

  bool is_empty() const;
};

// How far a text is: its ids, the prompt included, how many of them are the prompt's, and the new tokens that
// were asked for.
struct ProcessedText {
  std::span<const TokenId> ids;
  std::int64_t prompt_tokens = 0, max_new_tokens = 0;
};

// Throws FieldError for ids outside the vocabulary and for negative lengths.
void check_processors(const LogitsProcessors& processors, std::int64_t vocab);
// Changes the logits [vocab] of the next token. Throws Error where no token is left.
void apply_processors(const LogitsProcessors& processors, const ProcessedText& text, std::span<float> logits);

}  // namespace assay
