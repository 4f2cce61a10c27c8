// The beginning-of-text token of a text that is scored: where it stands, and what is wrong about that.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/generate/scorer.h"
#include "assay/session/load.h"

namespace assay {

// Ids as score() takes them, with the rule and the token it needs.
struct TextToScore {
  std::vector<TokenId> ids;
  BosRule rule = BosRule::none;
  std::optional<TokenId> bos_token = {};
  std::string around;  // the tokens around the text, as a protocol names them: " bos=1 eos=2"
};

// The rule that a protocol has by default, which follows what the tokenizer puts before each text: nothing,
// or BOS before the text, by which llama.cpp also replaces each later window's first token.
BosRule usual_bos_rule(const Tokenizer& tokenizer, Protocol protocol);

// The ids of a text alone, as a protocol tokenizes it: llama.cpp's tool takes special tokens that are spelled
// in the text for text, the others for tokens.
std::vector<TokenId> protocol_ids(const Tokenizer& tokenizer, Protocol protocol, std::string_view text);

// Tokenizes a text by the rule of the options. The special tokens that the tokenizer puts after a text stand
// there once. A text of lm-eval that begins with the BOS token gets no other, as there; of other protocols it
// is an Error, and so is a rule that needs a token where the tokenizer names none.
TextToScore text_to_score(const LoadedModel& loaded, std::string_view text, const ScoreOptions& options);
// The same for ids, which no BOS precedes unless the options say so.
TextToScore ids_to_score(const LoadedModel& loaded, std::vector<TokenId> ids, const ScoreOptions& options);

// Whether the model's tokenizer wants another rule than was used over so many windows.
std::vector<Warning> bos_warnings(const LoadedModel& loaded, Protocol protocol, BosRule rule,
                                  std::int64_t windows);

// What lm-eval puts before a text without context: the BOS token, else the end-of-text token. Throws Error
// where the tokenizer names neither.
TokenId prefix_token(const LoadedModel& loaded);

// The ids of a text by lm-eval: with the tokenizer's special tokens, unless it begins with the prefix.
std::vector<TokenId> lm_eval_ids(const Tokenizer& tokenizer, TokenId prefix, std::string_view text);

}  // namespace assay
