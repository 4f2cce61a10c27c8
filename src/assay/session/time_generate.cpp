#include "assay/session/time_generate.h"

#include <algorithm>
#include <optional>
#include <span>

#include "assay/backend/common/batch.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/generation_rules.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

constexpr std::int64_t kWarmUpTokens = 4;  // touches every weight and page; long enough to wake the threads

GenerationOptions generation_options(const LoadedModel& loaded, const TimeOptions& options) {
  GenerationOptions generation;
  generation.max_new_tokens = options.max_new_tokens;
  generation.uses_cache = options.uses_cache;
  generation.sampling = options.sampling;
  if (options.stops_at_end) {
    generation.end_tokens = loaded.model->spec().end_tokens;
    if (!options.follows_generation_config && generation.end_tokens.empty() && loaded.tokenizer != nullptr &&
        loaded.tokenizer->end_of_text())
      generation.end_tokens = {*loaded.tokenizer->end_of_text()};
  }
  if (!options.follows_generation_config) return generation;
  const ModelSpec& spec = loaded.model->spec();
  GenerationRules rules = generation_rules(loaded.model->source(), spec.end_tokens, spec.vocab);
  generation.processors = std::move(rules.processors);
  if (generation.sampling.repetition_penalty == 1)
    generation.sampling.repetition_penalty = rules.repetition_penalty;
  if (options.stops_at_end) generation.end_tokens = std::move(rules.end_tokens);
  return generation;
}

double sum(const std::vector<Seconds>& times) {
  double total = 0;
  for (const Seconds t : times) total += t.value;
  return total;
}

TimedGeneration figures(const LoadedModel& loaded, std::vector<TokenId> prompt,
                        const GenerationTrace& trace) {
  const SequenceTrace& sequence = trace.sequences.front();
  TimedGeneration timed;
  timed.total_latency_s = trace.total.value;
  timed.tokens_generated = trace.tokens_generated();
  timed.tokens_per_sec = static_cast<double>(timed.tokens_generated) / timed.total_latency_s;
  timed.avg_latency_per_token_ms = 1e3 * timed.total_latency_s / static_cast<double>(timed.tokens_generated);
  timed.time_to_first_token_s = trace.step_end.front().value;
  timed.prefill_tokens_per_sec = static_cast<double>(prompt.size()) / trace.prefill.value;
  if (!trace.decode.empty())
    timed.decode_tokens_per_sec = static_cast<double>(trace.decode.size()) / sum(trace.decode);
  for (const Seconds t : trace.step_end) timed.token_times_s.push_back(t.value);
  timed.sampling_s = trace.sampling.value;
  timed.prompt_ids = std::move(prompt);
  timed.ids = sequence.ids;
  timed.stop = sequence.stop;
  const TimePoint begin = Clock::now();
  if (loaded.tokenizer != nullptr) timed.text = loaded.tokenizer->decode_after(timed.prompt_ids, timed.ids);
  timed.detokenize_s = elapsed(begin, Clock::now()).value;
  return timed;
}

}  // namespace

void truncate(std::vector<TokenId>& ids, std::int64_t room, Truncation truncation,
              const Tokenizer* tokenizer) {
  const auto surplus = static_cast<std::int64_t>(ids.size()) - room;
  if (truncation == Truncation::none || surplus <= 0 || room < 1) return;
  auto text_begin = ids.begin(), text_end = ids.end();
  if (tokenizer != nullptr) {
    const auto bos = tokenizer->bos_tokens(), eos = tokenizer->eos_tokens();
    const std::span<const TokenId> all(ids);
    const bool has_bos = all.size() >= bos.size() && std::ranges::equal(all.first(bos.size()), bos);
    const std::span<const TokenId> rest = all.subspan(has_bos ? bos.size() : 0);
    const bool has_eos = rest.size() >= eos.size() && std::ranges::equal(rest.last(eos.size()), eos);
    const std::size_t around = (has_bos ? bos.size() : 0) + (has_eos ? eos.size() : 0);
    if (static_cast<std::int64_t>(around) < room) {
      if (has_bos) text_begin += static_cast<std::ptrdiff_t>(bos.size());
      if (has_eos) text_end -= static_cast<std::ptrdiff_t>(eos.size());
    }
  }
  if (truncation == Truncation::left)
    ids.erase(text_begin, text_begin + surplus);
  else
    ids.erase(text_end - surplus, text_end);
}

std::string_view name_of(Truncation truncation) {
  return truncation == Truncation::none ? "none" : truncation == Truncation::left ? "left" : "right";
}

Truncation truncation_from_name(std::string_view text) {
  for (const Truncation truncation : {Truncation::none, Truncation::left, Truncation::right})
    if (text == name_of(truncation)) return truncation;
  throw FieldError("truncate", "expected left, right or none, found '{}'", text.substr(0, 64));
}

std::vector<TokenId> prompt_ids(const LoadedModel& loaded, const Prompt& prompt) {
  std::vector<TokenId> ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    if (loaded.tokenizer == nullptr)
      throw Error("{}: the model has no tokenizer; give the prompt as token ids",
                  loaded.model->source().path().string());
    check_utf8(*text, "prompt");
    ids = loaded.tokenizer->encode(*text);
  } else {
    ids = std::get<std::vector<TokenId>>(prompt);
  }
  check_token_ids(loaded.model->program().plan(), ids);
  return ids;
}

TimedGeneration time_generate(const LoadedModel& loaded, const Prompt& prompt, const TimeOptions& options) {
  const TimePoint tokenize_begin = Clock::now();
  std::vector<TokenId> ids = prompt_ids(loaded, prompt);
  const Seconds tokenizing = elapsed(tokenize_begin, Clock::now());
  truncate(ids, loaded.model->spec().context - options.max_new_tokens, options.truncation,
           loaded.tokenizer.get());
  Backend& backend = loaded.model->backend();
  Program& program = loaded.model->program();
  const GenerationOptions generation = generation_options(loaded, options);
  const TimePoint warm_up_begin = Clock::now();
  if (options.has_warm_up) {
    check_request(program, {ids}, generation);  // the warm-up would name its own number of tokens
    GenerationOptions warm_up = generation;
    warm_up.max_new_tokens = std::min(kWarmUpTokens, generation.max_new_tokens);
    generate(backend, program, {ids}, warm_up);
  }
  const Seconds warming_up = elapsed(warm_up_begin, Clock::now());
  std::optional<StreamDecoder> decoder;
  if (options.on_text && loaded.tokenizer != nullptr) decoder.emplace(*loaded.tokenizer, true, ids);
  const OnToken on_token = [&](std::size_t sequence, TokenId id) {
    if (options.on_token) options.on_token(sequence, id);
    if (decoder) options.on_text(decoder->push(id));
  };
  const GenerationTrace trace = generate(backend, program, {ids}, generation, on_token, options.should_stop);
  if (decoder) options.on_text(decoder->finish());
  TimedGeneration timed = figures(loaded, std::move(ids), trace);
  timed.tokenize_s = tokenizing.value;
  timed.warm_up_s = warming_up.value;
  return timed;
}

TextAndTime generate_text_and_time(const LoadedModel& loaded, const Prompt& prompt,
                                   const TimeOptions& options) {
  TimedGeneration timed = time_generate(loaded, prompt, options);
  return {std::move(timed.text), timed.total_latency_s};
}

}  // namespace assay
