// Which tokens of a text are scored in which window: the protocols by which perplexities are published.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/token_id.h"

namespace assay {

// hf: the perplexity guide of Transformers. llama_cpp: llama.cpp's tools/perplexity. lm_eval: the rolling
// log-likelihood of lm-evaluation-harness. gptq: the evaluation of GPTQ's authors, which AWQ uses too.
enum class Protocol { hf, llama_cpp, lm_eval, gptq };
// Throws FieldError for a name that is none.
Protocol protocol_from_name(std::string_view name);
std::string_view name_of(Protocol protocol);

// Where the beginning-of-text token stands: nowhere; before the text; before each window, whose room for text
// is one token less; or in place of the first token of each window after the first, which has it already.
enum class BosRule { none, first, each, replace };
BosRule bos_rule_from_name(std::string_view name);
std::string_view name_of(BosRule rule);

// Tokens [begin, end) of a text. Those from first_target on are scored, each given what precedes it here.
struct Window {
  std::int64_t begin = 0, end = 0;
  std::int64_t first_target = 0;
  std::optional<TokenId> before = {};   // an input that precedes them
  std::optional<TokenId> instead = {};  // an input in place of the first of them
  // The last token is an input too, though it predicts nothing: so the guide has it. Otherwise it is scored
  // alone.
  bool has_last_input = true;

  bool operator==(const Window&) const = default;
  // The token that the first input predicts, by its place in the text.
  std::int64_t first_predicted() const { return begin + (before ? 0 : 1); }
  std::int64_t inputs() const { return end - begin + (before ? 1 : 0) - (has_last_input ? 0 : 1); }
  std::int64_t targets() const { return end - first_target; }
  std::vector<TokenId> input_ids(std::span<const TokenId> text) const;
};

// The guide's: windows of `context` tokens begin every `stride` tokens; a window scores what no earlier one
// has scored. The very first token of a window has nothing before it and is not scored.
std::vector<Window> windows_of(std::int64_t tokens, std::int64_t context, std::int64_t stride);
// llama.cpp's: windows side by side, of which the second half is scored, from the token after the middle on;
// what is left at the end of the text is dropped.
std::vector<Window> llama_cpp_windows(std::int64_t tokens, std::int64_t context);
// Its --ppl-stride: the last `stride` tokens of each window. `window` is what the tool calls the larger of
// its context and its batch plus half a stride. Head and tail of the text are not scored.
std::vector<Window> llama_cpp_strided_windows(std::int64_t tokens, std::int64_t window, std::int64_t stride);
// lm-eval's: every token is scored, the first given the prefix. Windows have one token of context, but the
// last, which reaches back for as many as fit `context` inputs.
std::vector<Window> lm_eval_windows(std::int64_t tokens, std::int64_t context, TokenId prefix);
// GPTQ's: windows side by side, of which all but the first token are scored; what is left is dropped.
std::vector<Window> gptq_windows(std::int64_t tokens, std::int64_t context);

// The windows of a text of `tokens` ids, which begins with `bos` where the rule is first or replace, and does
// not where it is each.
struct WindowRule {
  Protocol protocol = Protocol::hf;
  std::int64_t context = 0;
  std::optional<std::int64_t> stride = {};  // hf: half the context; llama.cpp: none
  BosRule bos = BosRule::none;
  std::optional<TokenId> bos_token = {};  // needed by each and replace, and as the prefix of lm-eval
};
std::vector<Window> windows_of(const WindowRule& rule, std::int64_t tokens);

// "hf context=1024 stride=512", "llama.cpp context=512 bos=replace:1", "lm-eval context=1024 prefix=0". For
// hf, no BOS goes without saying, and `bos=1` is one before the text.
std::string text_of(const WindowRule& rule);

}  // namespace assay
