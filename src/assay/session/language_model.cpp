#include "assay/session/language_model.h"

#include <utility>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/bos.h"
#include "assay/text/tokenizer.h"

namespace assay {

LanguageModel::LanguageModel(LoadedModel loaded) : loaded_(std::move(loaded)) {}

const Tokenizer& LanguageModel::tokenizer(std::string_view purpose) const {
  if (!loaded_.no_tokenizer.empty())
    throw Error("{}, which {} needs: expected token ids", loaded_.no_tokenizer, purpose);
  if (loaded_.tokenizer == nullptr)
    throw Error("{}: the model has no tokenizer, which {} needs: expected token ids",
                loaded_.model->source().path().string(), purpose);
  return *loaded_.tokenizer;
}

TimedGeneration LanguageModel::generate(const Prompt& prompt, const GenerateOptions& options) const {
  return time_generate(loaded_, prompt,
                       {.max_new_tokens = options.max_new_tokens,
                        .stops_at_end = options.stops_at_end,
                        .truncation = options.truncation,
                        .has_warm_up = false,
                        .sampling = options.sampling,
                        .on_text = options.on_text,
                        .should_stop = options.should_stop});
}

Score LanguageModel::score(std::string_view text, const ScoreOptions& options) const {
  check_utf8(text, "the text to score");
  tokenizer("scoring a text");
  const TextToScore ready = text_to_score(loaded_, text, options);
  ScoreOptions own = options;
  own.bos = ready.rule;
  own.bos_token = ready.bos_token;
  Score result = score(ready.ids, own);
  result.protocol += ready.around;
  return result;
}

Score LanguageModel::score(std::span<const TokenId> ids, const ScoreOptions& options) const {
  return assay::score(loaded_.model->program(), ids, options);
}

Logits LanguageModel::logits(std::span<const TokenId> ids, const std::function<bool()>& should_stop) const {
  return compute_logits(loaded_, ids, should_stop);
}

std::vector<TokenId> LanguageModel::ids_of(std::string_view text) const {
  check_utf8(text, "the text to tokenize");
  return tokenizer("tokenizing a text").encode(text);
}

std::string LanguageModel::text_of(std::span<const TokenId> ids) const {
  return tokenizer("decoding").decode(ids);
}

std::int64_t LanguageModel::context() const {
  return loaded_.model->spec().context;
}

std::int64_t LanguageModel::vocabulary() const {
  return loaded_.model->spec().vocab;
}

Bytes LanguageModel::memory() const {
  const MemoryReport memory = loaded_.model->program().memory();
  return memory.weights + memory.packing;
}

LanguageModel load(std::string_view model, const ModelOptions& options) {
  RunConfig config = options.config;
  if (options.device != "auto") config.device = device_from_name(options.device);
  if (options.threads) config.threads = options.threads;
  if (options.precision != kAutoPrecision) config = run_config_from_text(options.precision, config);
  return LanguageModel(load_model_and_tokenizer(
      candidates_from_text(model), config,
      {.needs_tokenizer = false, .data_folder = options.data_folder, .should_stop = options.should_stop}));
}

}  // namespace assay
