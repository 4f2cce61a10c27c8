#include "assay/studies/divergence.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/harness/journal.h"
#include "assay/session/perplexity.h"
#include "assay/session/sampled_text.h"
#include "assay/studies/measured_divergence.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/session_result.h"
#include "assay/studies/text_windows.h"

namespace assay {

namespace {

using Options = DivergenceStudyOptions;

std::filesystem::path divergence_text(const Options& options) {
  return options.corpus ? *options.corpus : shipped_file("texts/evaluate.txt");
}

void check_sample(const Options& options) {
  if (options.sample_tokens == 1)
    throw FieldError("sample_tokens", "expected 0, or 2 tokens or more, found 1");
}

std::vector<TokenId> divergence_ids(const ExperimentContext& context, const RunConfig& configuration,
                                    const std::string& text) {
  return encode(context.model_of(configuration).tokenizer.get(), text);
}

std::string divergence_key(const RunConfig& configuration) {
  Case spec;
  spec.scenario = Scenario::divergence;
  spec.label = configuration.label();
  return choice_key(spec);
}

// The baseline and what can be compared with it.
std::vector<RunConfig> diverging_configurations(const ExperimentContext& context, const Options& options) {
  std::vector<RunConfig> all =
      choose_configurations(context, precisions_or_default(context, options.precisions)).configurations;
  if (context.models.empty() || all.empty()) return all;
  const std::string text = read_corpus(divergence_text(options), context.baseline.newlines).text;
  const RunConfig first = all.front();
  const std::vector<TokenId> ids = divergence_ids(context, first, text);
  std::erase_if(all, [&](const RunConfig& configuration) {
    return configuration.model != first.model && divergence_ids(context, configuration, text) != ids;
  });
  return all;
}

std::vector<RunConfig> chosen_to_diverge(const ExperimentContext& context, const Options& options) {
  std::vector<RunConfig> all = diverging_configurations(context, options);
  const ChosenStudy* chosen = context.choice ? context.choice->find("divergence") : nullptr;
  if (chosen != nullptr && !all.empty())
    all.erase(
        std::remove_if(all.begin() + 1, all.end(),
                       [&](const RunConfig& c) { return chosen->left_out.count(divergence_key(c)) > 0; }),
        all.end());
  return all;
}

Value value_of_estimate(const statistics::Estimate& estimate) {
  return {estimate.value, estimate.interval, {}};
}

Row divergence_row(const MeasuredCandidate& candidate, const MeasuredDivergences& found,
                   const std::string& text) {
  Row row;
  row.scenario = Scenario::divergence;
  row.label = candidate.configuration.label();
  row.parameters = parameters_of(candidate.configuration, candidate.facts);
  row.parameters.emplace_back("corpus", text);
  row.setting = setting_of(candidate.configuration, candidate.facts);
  if (candidate.configuration.model) row.parameters.emplace_back("model", *candidate.configuration.model);
  if (!candidate.figures) {
    row.status = RowStatus::error;
    row.reason = candidate.failure;
    return row;
  }
  row.parameters.emplace_back("corpus_sha256", found.corpus_sha256);
  row.parameters.emplace_back("protocol", found.protocol);
  row.parameters.emplace_back("divergence_from", found.baseline.label());
  row.warnings = found.warnings;
  const statistics::DivergenceFigures& f = *candidate.figures;
  row.set("tokens_scored", static_cast<double>(f.tokens));
  row.set("kl_mean", value_of_estimate(f.kl_mean));
  row.set("kl_median", value_of_estimate(f.kl_median));
  row.set("kl_p99", value_of_estimate(f.kl_p99));
  row.set("kl_max", f.kl_max);
  row.set("top1_agreement", value_of_estimate(f.top1_agreement));
  row.set("delta_p_rms", value_of_estimate(f.p_change_rms));
  row.set("log_perplexity_ratio", value_of_estimate(f.log_perplexity_ratio));
  if (found.floor) {
    row.set("noise_floor", value_of_estimate(*found.floor));
    row.parameters.emplace_back("noise_floor_of", found.floor_of);
  }
  return row;
}

// The two with the smallest weights, the lower KL first: of equal size, which is better?
std::optional<KlComparison> compare_smallest(const MeasuredDivergences& found) {
  std::vector<const MeasuredCandidate*> measured;
  for (const MeasuredCandidate& candidate : found.candidates)
    if (candidate.figures) measured.push_back(&candidate);
  if (measured.size() < 2) return std::nullopt;
  std::stable_sort(measured.begin(), measured.end(),
                   [](const MeasuredCandidate* a, const MeasuredCandidate* b) {
                     return a->facts.model.resident_weights_bytes < b->facts.model.resident_weights_bytes;
                   });
  std::vector<MeasuredCandidate> two{*measured[0], *measured[1]};
  if (two[1].figures->kl_mean.value < two[0].figures->kl_mean.value) std::swap(two[0], two[1]);
  const std::vector<DivergencePair> pairs = compare_pairs(two);
  if (pairs.empty()) return std::nullopt;
  const statistics::PairedDivergence& paired = pairs.front().paired;
  KlComparison c{.subject = two[0].configuration.label(),
                 .other = two[1].configuration.label(),
                 .baseline = found.baseline.label()};
  c.subject_kl = two[0].figures->kl_mean.value;
  c.other_kl = two[1].figures->kl_mean.value;
  if (paired.difference.interval) {
    c.difference_low = -paired.difference.interval->high;
    c.difference_high = -paired.difference.interval->low;
  }
  c.is_decided = pairs.front().verdict != 0;
  c.is_within_floor = is_within_floor(two[1], found);
  c.tokens_needed = paired.tokens_needed ? paired.tokens_needed->about : 0;
  return c;
}

ExperimentResult measure_divergence_study(const ExperimentContext& context, const Options& options) {
  check_sample(options);
  const std::vector<RunConfig> configurations = chosen_to_diverge(context, options);
  ExperimentResult result;
  if (configurations.size() < 2) return result;
  const std::filesystem::path corpus = divergence_text(options);
  DivergeRequest request;
  request.context = options.context;
  if (options.sample_tokens > 0) {
    request.sample_tokens = options.sample_tokens;
  } else {
    request.file = corpus.string();
    request.stride = options.stride;
    request.max_tokens = options.max_tokens;
  }
  const std::string text = options.sample_tokens > 0
                               ? fmt::format("sample of {}", configurations.front().label())
                               : corpus.filename().string();
  MeasuredDivergences found;
  try {
    // Workers of earlier studies would hold the same models a second time.
    context.sessions->end_all();
    found = measure_divergences(context, {configurations, request, true});
  } catch (const JournalError&) {
    throw;
  } catch (const Error& error) {  // what is at fault with the baseline fails every row
    found.baseline = configurations.front();
    for (std::size_t i = 1; i < configurations.size(); ++i)
      found.candidates.push_back({.configuration = configurations[i], .failure = error.what()});
  }
  result.is_interrupted = found.is_interrupted;
  for (const MeasuredCandidate& candidate : found.candidates)
    if (candidate.figures || !candidate.failure.empty())
      result.rows.push_back(divergence_row(candidate, found, text));
    else if (found.was_late)
      result.left_out.push_back(
          {.study = "divergence", .what = candidate.configuration.label(), .reason = std::string(kSlower)});
  if (const auto comparison = compare_smallest(found)) result.findings.emplace_back(*comparison);
  return result;
}

// It is no sweep: there is nothing to list, only to check.
std::vector<Case> divergence_cases(const ExperimentContext& context, const Options& options) {
  check_sample(options);
  read_corpus(divergence_text(options), context.baseline.newlines);
  diverging_configurations(context, options);
  return {};
}

TextWindows divergence_windows(const ExperimentContext& context, const Options& options) {
  std::int64_t window = options.context.value_or(context.context_length);
  for (const ContextModel& model : context.models) window = std::min(window, model.context_length);
  if (options.sample_tokens > 0) {
    window = std::min(window, kLongestSample);
    return text_windows(context, Scenario::divergence, options.sample_tokens, window, window);
  }
  const std::string text = read_corpus(divergence_text(options), context.baseline.newlines).text;
  return text_windows(context, Scenario::divergence,
                      std::min<std::int64_t>(std::ssize(encode(context, text)), options.max_tokens), window,
                      options.stride);
}

// What two cores take to compare a logit of a candidate with the baseline's.
constexpr double kComparison_s = 6e-10;

double predicted_divergence_s(const ExperimentContext& context, const Options& options,
                              const PredictedSeconds& run_s_of) {
  // The LM head of all scored tokens, and the comparison of their logits.
  constexpr double kBesidePrefill = 1.5;
  TextWindows windows = divergence_windows(context, options);
  double all = 0;
  for (const RunConfig& configuration : diverging_configurations(context, options)) {
    windows.one.configuration = configuration;
    all += kBesidePrefill * windows.count * run_s_of(windows.one);
  }
  return all;
}

// What the baseline takes to write a sample, eight sequences at a time.
double sample_s(const ExperimentContext& context, const Options& options, const TextWindows& windows,
                const CostOf& cost_of) {
  if (options.sample_tokens == 0) return 0;
  constexpr std::int64_t kTogether = 8;
  const std::int64_t length = std::max<std::int64_t>(
                         2, std::ssize(std::get<std::vector<TokenId>>(windows.one.prompts.front()))),
                     sequences = (options.sample_tokens + length - 1) / length,
                     together = std::min(kTogether, sequences);
  const std::vector<Prompt> prompts(static_cast<std::size_t>(together), Prompt{std::vector<TokenId>{0}});
  const CaseCost cost = cost_of(baseline_case(context, Scenario::divergence, "sample", prompts, length - 1));
  return static_cast<double>((sequences + together - 1) / together) * (cost.prefill_s + cost.decode_s);
}

// A case for each configuration, which is loaded once. The baseline goes with all, and so does what the noise
// floor is measured with, where that is none of them.
void add_divergence_costs(const ExperimentContext& context, const Options& options, const CostOf& cost_of,
                          CostedStudy& costed) {
  TextWindows windows = divergence_windows(context, options);
  const std::vector<RunConfig> configurations = diverging_configurations(context, options);
  const auto pass_s = [&](const CaseCost& cost) {
    return seconds_of(windows, cost) + kComparison_s * windows.scored * static_cast<double>(cost.vocab);
  };
  add_measured_once(configurations, {Need::divergence, divergence_key, pass_s, windows.one}, cost_of, costed);
  if (configurations.empty()) return;
  CostedCase& baseline = costed.cases.front();
  baseline.once_s += sample_s(context, options, windows, cost_of);
  windows.one.configuration = floor_configuration(configurations.front());
  if (std::find(configurations.begin(), configurations.end(), windows.one.configuration) ==
      configurations.end()) {
    const CaseCost floor = cost_of(windows.one);
    baseline.once_s += floor.load_s + pass_s(floor);
  }
  add_precisions(context, options.precisions, configurations, costed);
}

}  // namespace

Study divergence_study() {
  return to_study<Options>(
      {.name = "divergence",
       .title = "Divergence",
       .description = "Measure the KL divergence of precisions from the baseline on one text",
       .options = with_more(
           with_more(text_options<Options>(),
                     option("divergence-tokens", &Options::max_tokens,
                            "First tokens of the text on which divergence is measured",
                            {.min = 2, .name_in_run = "divergence-tokens", .field = "max_tokens"})),
           option("sample", &Options::sample_tokens,
                  "Measure divergence on so many tokens that the baseline writes, instead of a text",
                  {.max = std::int64_t{1} << 20,
                   .name_in_run = "sample",
                   .shown_default = "0: the text",
                   .field = "sample_tokens"})),
       .is_in_suite = true,
       .cases = divergence_cases,
       .run = measure_divergence_study,
       .predict_s = predicted_divergence_s,
       .add_costs = add_divergence_costs,
       .applies =
           [](const ExperimentContext& context, const Options& options) {
             return diverging_configurations(context, options).size() > 1;
           },
       .share = [](const SharedOptions& shared,
                   Options& options) { options.precisions = shared.precisions; }});
}

ExperimentResult run_divergence(const ExperimentContext& context, const DivergenceStudyOptions& options) {
  return divergence_study().run(context, options);
}

}  // namespace assay
