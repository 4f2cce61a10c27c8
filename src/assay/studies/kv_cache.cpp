// What the format of keys and values saves in memory, and what it does to the speed of decoding.
#include "assay/config/fields.h"
#include "assay/studies/study.h"

namespace assay {

namespace {

struct KvCacheOptions {
  std::vector<std::string> formats{"float32", "bfloat16", "int8"};
  // The prompt's, in tokens; 0: the longest that fits; unset: that, or kLongPrompt where it is longer.
  std::optional<std::int64_t> length = {};
  std::int64_t new_tokens = 32;
};

constexpr const char* kBase =
    "In the beginning the road was wide and the evening light lay over the fields. ";

std::vector<Case> kv_cache_cases(const ExperimentContext& context, const KvCacheOptions& options) {
  const std::int64_t longest = context.context_length - options.new_tokens;
  const std::int64_t length = options.length.value_or(std::min(longest, kLongPrompt));
  if (longest < 1 || length > longest)
    throw Error("a prompt of {} tokens and {} new ones exceed the model's context of {}",
                std::max<std::int64_t>(1, length), options.new_tokens, context.context_length);
  const std::vector<TokenId> ids = ids_of_length(context, kBase, length == 0 ? longest : length);
  std::vector<Case> cases;
  for (const std::string& format : options.formats) {
    RunConfig parsed;
    field("kv_cache").parse(parsed, format);
    Case spec = baseline_case(context, Scenario::kv_cache, std::string(name_of(*parsed.kv_cache)), {ids},
                              options.new_tokens);
    spec.configuration.kv_cache = parsed.kv_cache;
    cases.push_back(std::move(spec));
  }
  return cases;
}

void compare_steps(const ExperimentContext& context, const KvCacheOptions&,
                   std::vector<CaseOutcome>& outcomes, ExperimentResult& result) {
  const CaseOutcome& first = outcomes.front();
  for (const CaseOutcome& outcome : outcomes) {
    if (&outcome == &first || !outcome.result.is_measured() || !first.result.is_measured()) continue;
    auto comparison = compare_rows(outcome.row, first.row, "step_latency_ms", context.margin);
    if (!comparison) continue;
    comparison->seconds_each = outcome.result.visit_s;
    result.other_comparisons.push_back(std::move(*comparison));
  }
}

std::vector<Finding> savings(const ExperimentResult& judged) {
  std::vector<Finding> found;
  const Row* first = nullptr;
  for (const Row& row : judged.rows) {
    if (row.scenario != Scenario::kv_cache) continue;
    if (first == nullptr) first = &row;
    const Value *own = row.find("kv_cache_bytes"), *other = first->find("kv_cache_bytes");
    if (&row == first || own == nullptr || other == nullptr) continue;
    KvCacheSaving saving{row.label, first->label, own->value / other->value};
    if (const Comparison* step =
            judged.comparison(Scenario::kv_cache, row.label, first->label, "step_latency_ms"))
      saving.decode_step = *step;
    found.emplace_back(std::move(saving));
  }
  return found;
}

}  // namespace

Study kv_cache_study() {
  using Options = KvCacheOptions;
  return to_study<Options>(
      {.name = "kv-cache",
       .title = "KV cache formats",
       .description = "Compare KV cache formats: memory and decode speed",
       .command = "sweep kv-cache",
       .example = "assay sweep kv-cache demo --kv-cache float32,int8",
       .options = {option("kv-cache", &Options::formats, "Formats of the KV cache"),
                   option("length", &Options::length, "Prompt length in tokens; 0 is the longest that fits",
                          {.shown_default = "the longest that fits, 2048 at most"}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .cases = kv_cache_cases,
       .compared_with = ComparedWith::first_case,
       .finish = compare_steps,
       .conclude = savings});
}

}  // namespace assay
