#include "assay/session/generation_rules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/checkpoint/source.h"
#include "assay/generate/sampler.h"

namespace assay {

namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

TokenId id_in(const Json& value, const JsonView& config, std::string_view key) {
  constexpr std::int64_t kMin = std::numeric_limits<TokenId>::min(),
                         kMax = std::numeric_limits<TokenId>::max();
  const bool fits = value.is_number_integer() && value >= kMin && value <= kMax;
  if (!fits) throw Error("{}: expected token ids, found {}", config.where(key), shown_value(value));
  return value.get<TokenId>();
}

// One id or a list of them; none where the key is missing.
std::vector<TokenId> ids_at(const JsonView& config, std::string_view key) {
  std::vector<TokenId> ids;
  if (!config.has(key)) return ids;
  const Json& value = *config.raw().find(key);
  if (!value.is_array()) return {id_in(value, config, key)};
  for (const Json& id : value) ids.push_back(id_in(id, config, key));
  return ids;
}

std::vector<std::vector<TokenId>> words_at(const JsonView& config, std::string_view key) {
  std::vector<std::vector<TokenId>> words;
  if (!config.has(key)) return words;
  const Json& value = *config.raw().find(key);
  const auto refuse = [&](const Json& found) {
    throw Error("{}: expected lists of token ids, found {}", config.where(key), shown_value(found));
  };
  if (!value.is_array()) refuse(value);
  for (const Json& word : value) {
    if (!word.is_array()) refuse(word);
    std::vector<TokenId>& ids = words.emplace_back();
    for (const Json& id : word) ids.push_back(id_in(id, config, key));
  }
  return words;
}

// Keys that change which token follows, with the value of each that changes nothing.
struct Inert {
  std::string_view key;
  Json value;
};
std::vector<std::string> unsupported_in(const JsonView& config) {
  static const Inert kInert[] = {{"guidance_scale", 1},
                                 {"sequence_bias", Json::object()},
                                 {"encoder_repetition_penalty", 1},
                                 {"encoder_no_repeat_ngram_size", 0},
                                 {"exponential_decay_length_penalty", nullptr},
                                 {"watermarking_config", nullptr},
                                 {"stop_strings", Json::array()},
                                 {"num_beams", 1},
                                 {"penalty_alpha", nullptr},
                                 {"dola_layers", nullptr}};
  std::vector<std::string> keys;
  for (const auto& [key, value] : kInert)
    if (config.has(key) && *config.raw().find(key) != value) keys.emplace_back(key);
  return keys;
}

std::vector<std::string> keys_of(const GenerationRules& rules) {
  const LogitsProcessors& p = rules.processors;
  std::vector<std::string> keys;
  const auto add = [&](bool is_asked, const char* key) {
    if (is_asked) keys.emplace_back(key);
  };
  add(rules.repetition_penalty != 1, "repetition_penalty");
  add(p.no_repeat_ngram_size > 0, "no_repeat_ngram_size");
  add(!p.bad_words.empty(), "bad_words_ids");
  add(p.min_length > 0, "min_length");
  add(p.min_new_tokens.value_or(0) > 0, "min_new_tokens");
  add(p.forced_bos.has_value(), "forced_bos_token_id");
  add(!p.forced_eos.empty(), "forced_eos_token_id");
  add(!p.suppress.empty(), "suppress_tokens");
  add(!p.begin_suppress.empty(), "begin_suppress_tokens");
  return keys;
}

LogitsProcessors processors_in(const JsonView& config, const std::vector<TokenId>& end_tokens) {
  LogitsProcessors p;
  p.no_repeat_ngram_size = config.integer_or("no_repeat_ngram_size", 0, 0, kLongest);
  for (std::vector<TokenId>& word : words_at(config, "bad_words_ids")) {
    const bool is_end =
        word.size() == 1 && std::find(end_tokens.begin(), end_tokens.end(), word[0]) != end_tokens.end();
    if (!is_end) p.bad_words.push_back(std::move(word));
  }
  p.min_length = config.integer_or("min_length", 0, 0, kLongest);
  if (config.has("min_new_tokens")) p.min_new_tokens = config.integer("min_new_tokens", 0, kLongest);
  p.end_tokens = end_tokens;
  if (const auto bos = ids_at(config, "forced_bos_token_id"); !bos.empty()) p.forced_bos = bos.front();
  p.forced_eos = ids_at(config, "forced_eos_token_id");
  p.suppress = ids_at(config, "suppress_tokens");
  p.begin_suppress = ids_at(config, "begin_suppress_tokens");
  return p;
}

}  // namespace

GenerationRules generation_rules(const ModelSource& source, const std::vector<TokenId>& model_end_tokens,
                                 std::int64_t vocab) {
  const JsonView config = source.generation_config();
  GenerationRules rules;
  // The model's ends are of this file where it names any, and else of config.json.
  rules.has_no_end = !config.raw().empty() && !config.has("eos_token_id") && !model_end_tokens.empty();
  if (!rules.has_no_end) rules.end_tokens = model_end_tokens;
  rules.repetition_penalty = config.number_or("repetition_penalty", 1);
  rules.processors = processors_in(config, rules.end_tokens);
  try {
    check_sampling({.repetition_penalty = rules.repetition_penalty});
    check_processors(rules.processors, vocab);
  } catch (const FieldError& error) {
    throw Error("{}: {}: {}", config.where(), error.field(), error.problem());
  }
  rules.keys = keys_of(rules);
  rules.unsupported = unsupported_in(config);
  return rules;
}

std::string left_out_of(const GenerationRules& rules, bool is_followed) {
  std::string text;
  const auto say = [&](const std::vector<std::string>& keys, std::string_view what) {
    if (!keys.empty())
      text += fmt::format("{} {}, {}", text.empty() ? "generation_config.json asks for" : "; and for",
                          fmt::join(keys, ", "), what);
  };
  if (!is_followed) say(rules.keys, "left out here: assay generate --generation-config model follows it");
  say(rules.unsupported, "which is not supported");
  if (rules.has_no_end && !is_followed)
    text += fmt::format(
        "{}generation_config.json names no end token: generation stops at that of config.json here, and not "
        "with assay generate --generation-config model",
        text.empty() ? "" : "; ");
  return text;
}

std::string left_out_of_measurements(const ModelSource& source, const std::vector<TokenId>& model_end_tokens,
                                     std::int64_t vocab) {
  try {
    return left_out_of(generation_rules(source, model_end_tokens, vocab), false);
  } catch (const Error& error) {
    return fmt::format(
        "{}; what the file asks for is left out here, and assay generate --generation-config model "
        "refuses it",
        error.what());
  }
}

}  // namespace assay
