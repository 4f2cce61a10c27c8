#include "assay/session/bos.h"

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/model/model.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

std::optional<TokenId> named_bos(const LoadedModel& loaded) {
  if (loaded.tokenizer == nullptr) return std::nullopt;
  const auto before = loaded.tokenizer->bos_tokens();
  return before.empty() ? loaded.tokenizer->beginning_of_text() : std::optional(before.front());
}

TokenId required_bos(const LoadedModel& loaded, const ScoreOptions& options, BosRule rule) {
  if (options.bos_token) return *options.bos_token;
  if (const std::optional<TokenId> bos = named_bos(loaded)) return *bos;
  throw Error("{}: the tokenizer names no beginning-of-text token (bos_token), which '{}' needs",
              loaded.model->source().path().string(), name_of(rule));
}

// Puts `before` in front where the rule says so.
void add_bos(TextToScore& text, std::vector<TokenId> before) {
  if (text.rule != BosRule::first && text.rule != BosRule::replace) return;
  text.ids.insert(text.ids.begin(), before.begin(), before.end());
}

void refuse_second(const TextToScore& text, TokenId bos) {
  if (!text.ids.empty() && text.ids.front() == bos)
    throw Error(
        "the text begins with its own beginning-of-text token (id {}), and the rule '{}' puts it there once "
        "more: remove it from the text, or use the rule none",
        bos, name_of(text.rule));
}

}  // namespace

BosRule usual_bos_rule(const Tokenizer& tokenizer, Protocol protocol) {
  if (tokenizer.bos_tokens().empty()) return BosRule::none;
  return protocol == Protocol::llama_cpp ? BosRule::replace : BosRule::first;
}

TokenId prefix_token(const LoadedModel& loaded) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  if (const auto bos = tokenizer.beginning_of_text()) return *bos;
  if (const auto bos = named_bos(loaded)) return *bos;
  if (const auto end = tokenizer.end_of_text()) return *end;
  throw Error("{}: the tokenizer names neither bos_token nor eos_token, of which lm-eval needs one as prefix",
              loaded.model->source().path().string());
}

std::vector<TokenId> lm_eval_ids(const Tokenizer& tokenizer, TokenId prefix, std::string_view text) {
  const std::string special = tokenizer.decode(std::vector<TokenId>{prefix});
  return tokenizer.encode(text, special.empty() || !text.starts_with(special));
}

std::vector<TokenId> protocol_ids(const Tokenizer& tokenizer, Protocol protocol, std::string_view text) {
  return protocol == Protocol::llama_cpp ? tokenizer.encode_as_text(text) : tokenizer.encode(text, false);
}

TextToScore text_to_score(const LoadedModel& loaded, std::string_view text, const ScoreOptions& options) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const bool is_lm_eval = options.protocol == Protocol::lm_eval;
  TextToScore result{protocol_ids(tokenizer, options.protocol, text), {}, {}, ""};
  result.rule = options.bos.value_or(usual_bos_rule(tokenizer, options.protocol));
  const bool is_cut = options.max_tokens && *options.max_tokens < std::ssize(result.ids);
  if (is_cut) result.ids.resize(static_cast<std::size_t>(*options.max_tokens));
  if (is_lm_eval) result.bos_token = options.bos_token ? *options.bos_token : prefix_token(loaded);
  const auto before = tokenizer.bos_tokens();
  const auto after = tokenizer.eos_tokens();
  if (result.rule != BosRule::none) {
    const TokenId bos = required_bos(loaded, options, result.rule);
    const bool is_own = !before.empty() && before.front() == bos;
    const bool is_there = !result.ids.empty() && result.ids.front() == bos;
    if (!is_lm_eval) refuse_second(result, bos);
    if (!is_lm_eval || !is_there)
      add_bos(result, is_own ? std::vector<TokenId>(before.begin(), before.end()) : std::vector{bos});
    if (result.rule != BosRule::first) result.bos_token = bos;
    if (result.rule == BosRule::first && !is_lm_eval)
      result.around = is_own ? fmt::format(" bos={}", fmt::join(before, ",")) : fmt::format(" bos={}", bos);
  }
  if (is_cut) {
    result.around += fmt::format(" first={}", *options.max_tokens);
    return result;
  }
  result.ids.insert(result.ids.end(), after.begin(), after.end());
  if (!after.empty()) result.around += fmt::format(" eos={}", fmt::join(after, ","));
  return result;
}

TextToScore ids_to_score(const LoadedModel& loaded, std::vector<TokenId> ids, const ScoreOptions& options) {
  TextToScore result{std::move(ids), options.bos.value_or(BosRule::none), options.bos_token, ""};
  if (options.protocol == Protocol::lm_eval && !result.bos_token && loaded.tokenizer != nullptr)
    result.bos_token = prefix_token(loaded);
  if (result.rule == BosRule::none) return result;
  const TokenId bos = required_bos(loaded, options, result.rule);
  if (options.protocol != Protocol::lm_eval) refuse_second(result, bos);
  add_bos(result, {bos});
  if (result.rule != BosRule::first)
    result.bos_token = bos;
  else if (options.protocol != Protocol::lm_eval)
    result.around = fmt::format(" bos={}", bos);
  return result;
}

std::vector<Warning> bos_warnings(const LoadedModel& loaded, Protocol protocol, BosRule rule,
                                  std::int64_t windows) {
  std::vector<Warning> warnings;
  if (loaded.tokenizer == nullptr) return warnings;
  const bool adds = !loaded.tokenizer->bos_tokens().empty();
  if (adds && rule == BosRule::none)
    warnings.push_back({WarningKind::bos_rule,
                        "no beginning-of-text token was scored with the text, but the model's tokenizer puts "
                        "one before every text: the perplexity may be far too high"});
  if (!adds && rule != BosRule::none)
    warnings.push_back({WarningKind::bos_rule,
                        "a beginning-of-text token stands before the text, but the model's tokenizer puts "
                        "none there: the model may not know it"});
  if (rule == BosRule::first && windows > 1 && protocol != Protocol::lm_eval &&
      loaded.model->spec().family.starts_with("gemma"))
    warnings.push_back({WarningKind::bos_rule,
                        "only the first window begins with the beginning-of-text token, without which Gemma "
                        "models predict far worse"});
  return warnings;
}

}  // namespace assay
