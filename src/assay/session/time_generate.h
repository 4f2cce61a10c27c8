// Timed generation: latency, time to first token, and rates of one prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "assay/generate/generator.h"
#include "assay/session/load.h"

namespace assay {

// A prompt is text, or token ids.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

// What happens to a prompt that does not fit the context together with its new tokens.
enum class Truncation {
  none,
  left,
  right
};  // none: an Error; left: the first tokens go; right: the last ones. Special tokens around it stay.

struct TimeOptions {
  std::int64_t max_new_tokens = 50;
  bool uses_cache = true;
  bool stops_at_end = false;  // timing wants exactly max_new_tokens, so that variants do equal work
  Truncation truncation = Truncation::none;
  bool has_warm_up = true;  // a short generation before the clock starts
  SamplingOptions sampling = {};
  // As Transformers' generate() does: end tokens, suppressed and forced tokens and lengths are those of
  // generation_config.json, and so is the repetition penalty where `sampling` has none.
  bool follows_generation_config = false;
  OnToken on_token = {};  // for streaming; its time is inside the latency
  // Sees the text as it grows, special tokens left out; all calls together give decode_after(). Not called
  // where there is no tokenizer; its time is inside the latency, but for the last call.
  std::function<void(std::string_view)> on_text = {};
  ShouldStop should_stop = {};
};

struct TimedGeneration {
  double total_latency_s = 0;
  std::int64_t tokens_generated = 0;
  double tokens_per_sec = 0;
  double avg_latency_per_token_ms = 0;

  double time_to_first_token_s = 0;
  double prefill_tokens_per_sec = 0;
  double decode_tokens_per_sec = 0;   // 0 when a single token was generated
  std::vector<double> token_times_s;  // when each new token was chosen, from the start
  double tokenize_s = 0;              // outside total_latency_s
  double sampling_s = 0;
  double detokenize_s = 0;  // outside total_latency_s
  double warm_up_s = 0;     // before the clock

  std::vector<TokenId> prompt_ids, ids;
  std::string text;  // what the new tokens add to the prompt's, special tokens written out
  StopReason stop = StopReason::length;
};

std::string_view name_of(Truncation truncation);
// Throws FieldError for a name other than "none", "left" and "right".
Truncation truncation_from_name(std::string_view text);

// Cuts what exceeds `room` tokens; nothing where truncation is none, or there is no room for a single one.
// The special tokens that the tokenizer puts around a text (BOS, EOS) stay where `ids` begin or end with
// them, and are cut like any other where they leave no room for the text. `tokenizer` may be null.
void truncate(std::vector<TokenId>& ids, std::int64_t room, Truncation truncation,
              const Tokenizer* tokenizer);

// Ids of a prompt. Throws Error for malformed UTF-8, for text when there is no tokenizer, and for ids outside
// the vocabulary.
std::vector<TokenId> prompt_ids(const LoadedModel& loaded, const Prompt& prompt);

TimedGeneration time_generate(const LoadedModel& loaded, const Prompt& prompt,
                              const TimeOptions& options = {});

struct TextAndTime {
  std::string text;  // without the prompt
  double latency_s = 0;
};
TextAndTime generate_text_and_time(const LoadedModel& loaded, const Prompt& prompt,
                                   const TimeOptions& options = {});

}  // namespace assay
