#include "assay/studies/cache_and_padding.h"

#include <algorithm>
#include <cmath>

#include "assay/studies/session_result.h"
#include "assay/studies/study.h"

namespace assay {

namespace {

std::vector<Prompt> padded_prompts(const ExperimentContext& context, const AblationOptions& options) {
  if (!options.padded_prompts.empty()) return options.padded_prompts;
  std::vector<Prompt> prompts;
  const std::int64_t room = std::max<std::int64_t>(1, context.context_length - options.new_tokens);
  for (const std::int64_t length : {8, 24, 48, 96})
    prompts.emplace_back(ids_of_length(context, options.base, std::min(length, room)));
  return prompts;
}

using Positions = StepTimes;
Positions positions_of(const CaseResult& c) {
  Positions positions;
  const Sample& any = c.samples.begin()->second;
  for (std::size_t i = 0; i < any.step_s.size(); ++i) {
    std::vector<double> times;
    for (const auto& [round, sample] : c.samples)
      if (i < sample.step_s.size()) times.push_back(1e3 * sample.step_s[i]);
    positions.position.push_back(static_cast<double>(any.prompt_tokens) + static_cast<double>(i) + 1);
    positions.milliseconds.push_back(statistics::median(times));
  }
  return positions;
}

void append(Positions& to, const Positions& from) {
  to.position.insert(to.position.end(), from.position.begin(), from.position.end());
  to.milliseconds.insert(to.milliseconds.end(), from.milliseconds.begin(), from.milliseconds.end());
}

// A fit that explains less of the variance is not reported.
constexpr double kMinR2 = 0.5;

}  // namespace

std::vector<Finding> step_findings(const StepTimes& on, const StepTimes& off) {
  std::vector<Finding> found;
  const auto fit = [&](const StepTimes& steps, bool has_cache, int degree) {
    auto fitted = statistics::fit_polynomial(steps.position, steps.milliseconds, degree);
    if (fitted && fitted->r2 < kMinR2) fitted.reset();
    if (fitted) found.emplace_back(StepFit{has_cache, fitted->coefficients, fitted->r2});
    return fitted;
  };
  const auto line_on = fit(on, true, 1), line_off = fit(off, false, 1);
  fit(on, true, 2);
  fit(off, false, 2);
  if (!line_on || !line_off) return found;
  const double slope = line_off->coefficients[1] - line_on->coefficients[1];
  if (slope <= 0) return found;
  const double at = (line_on->coefficients[0] - line_off->coefficients[0]) / slope;
  const auto [on_first, on_last] = std::minmax_element(on.position.begin(), on.position.end());
  const auto [off_first, off_last] = std::minmax_element(off.position.begin(), off.position.end());
  const double first = std::max(*on_first, *off_first), last = std::min(*on_last, *off_last);
  // Outside the positions that were measured the lines say nothing.
  if (at >= first && at <= last) found.emplace_back(StepCrossing{at, first, last});
  return found;
}

namespace {

std::vector<Case> ablation_cases(const ExperimentContext& context, const AblationOptions& options) {
  std::vector<Case> cases;
  const std::int64_t longest = context.context_length - options.new_tokens;
  if (longest < 1)
    throw Error("{} new tokens leave no room for a prompt in the model's context of {}", options.new_tokens,
                context.context_length);
  for (const std::int64_t wanted : options.has_cache ? options.lengths : std::vector<std::int64_t>()) {
    if (wanted < 1) throw FieldError("lengths", "expected whole numbers from 1, found {}", wanted);
    const std::int64_t length = std::min(wanted, longest);
    const std::vector<TokenId> ids = ids_of_length(context, options.base, length);
    for (const bool uses_cache : {true, false}) {
      Case spec = baseline_case(context, Scenario::cache,
                                fmt::format("cache {}, {} tokens", uses_cache ? "on" : "off", length), {ids},
                                options.new_tokens);
      spec.uses_cache = uses_cache;
      if (length < wanted)
        spec.warnings.push_back(
            {WarningKind::length_reduced,
             fmt::format("{} prompt tokens were asked for, but the context has room for {}", wanted, length),
             static_cast<double>(wanted), static_cast<double>(length)});
      cases.push_back(std::move(spec));
    }
  }
  const std::vector<Prompt> prompts = padded_prompts(context, options);
  for (const Padding padding : {Padding::none, Padding::left, Padding::right}) {
    if (!options.has_padding) break;
    Case spec =
        baseline_case(context, Scenario::padding,
                      padding == Padding::none ? "no padding" : fmt::format("padded {}", name_of(padding)),
                      prompts, options.new_tokens);
    spec.padding = padding;
    cases.push_back(std::move(spec));
  }
  return cases;
}

class Ablation {
 public:
  Ablation(const ExperimentContext& context, const AblationOptions& options,
           std::vector<CaseOutcome>& outcomes, ExperimentResult& result)
      : context_(context), options_(options), outcomes_(outcomes), result_(result) {}

  void finish() {
    for (CaseOutcome& outcome : outcomes_)
      if (outcome.result.spec.scenario == Scenario::padding && outcome.result.is_measured())
        add_overhead(outcome);
    if (options_.has_cache) {
      compare_caches();
      fit_positions();
    }
    if (options_.has_padding) compare_paddings();
    if (is_too_late(context_, "audit", context_.baseline.key()))
      result_.left_out.push_back({.study = "ablation", .what = "the audit", .reason = std::string(kSlower)});
    else if (!result_.is_interrupted)
      result_.audit = audit(context_, {context_.baseline}, padded_prompts(context_, options_),
                            std::min<std::int64_t>(16, options_.new_tokens));
  }

 private:
  static void add_overhead(CaseOutcome& outcome) {
    const Sample& s = outcome.result.samples.begin()->second;
    const auto real = static_cast<double>(s.prompt_tokens + s.new_tokens),
               padded = static_cast<double>(s.computed_prompt_tokens + s.new_tokens);
    const double seconds = outcome.row.find("total_latency_s")->value;
    outcome.row.set("computed_prompt_tokens", static_cast<double>(s.computed_prompt_tokens));
    outcome.row.set("padding_waste_percent", overhead_percent(s));
    outcome.row.set("real_tokens_per_sec", real / seconds);
    outcome.row.set("padded_tokens_per_sec", padded / seconds);
  }

  static double overhead_percent(const Sample& s) {
    return 100 * static_cast<double>(s.computed_prompt_tokens - s.prompt_tokens) /
           static_cast<double>(s.computed_prompt_tokens);
  }

  const CaseResult* without_padding() const {
    for (const CaseOutcome& outcome : outcomes_)
      if (const Case& spec = outcome.result.spec;
          spec.scenario == Scenario::padding && spec.padding == Padding::none && outcome.result.is_measured())
        return &outcome.result;
    return nullptr;
  }

  void compare_caches() {
    for (CaseOutcome& outcome : outcomes_) {
      const CaseResult& off = outcome.result;
      if (off.spec.scenario != Scenario::cache || off.spec.uses_cache) continue;
      const auto is_same_with_cache = [&](const CaseOutcome& other) {
        const Case& spec = other.result.spec;
        return spec.scenario == Scenario::cache && spec.uses_cache && spec.prompts == off.spec.prompts &&
               other.result.is_measured();
      };
      const auto on = std::find_if(outcomes_.begin(), outcomes_.end(), is_same_with_cache);
      if (on != outcomes_.end() && off.is_measured())
        outcome.comparison = compare_cases(off, on->result, context_);
    }
  }

  void fit_positions() {
    Positions on, off;
    for (const CaseOutcome& outcome : outcomes_)
      if (outcome.result.spec.scenario == Scenario::cache && outcome.result.is_measured())
        append(outcome.result.spec.uses_cache ? on : off, positions_of(outcome.result));
    if (on.position.empty() || off.position.empty()) return;
    add_series("cache on", true, on);
    add_series("cache off", false, off);
  }

  // A row for plots, whose samples are the steps.
  void add_series(const std::string& label, bool has_cache, const Positions& positions) {
    Row row;
    row.scenario = Scenario::step_times;
    row.label = label;
    row.parameters = {{"configuration", context_.baseline.label()}};
    row.setting = setting_of(context_.baseline, {});
    row.setting.cache = has_cache;
    Value at, time;
    at.samples = positions.position;
    at.statistic = time.statistic = "median";
    at.value = statistics::median(at.samples);
    time.samples = positions.milliseconds;
    time.value = statistics::median(time.samples);
    row.set("position", std::move(at));
    row.set("step_latency_ms", std::move(time));
    result_.rows.push_back(std::move(row));
  }

  void compare_paddings() {
    const CaseResult* none = without_padding();
    if (none == nullptr) return;
    for (CaseOutcome& outcome : outcomes_) {
      const CaseResult& padded = outcome.result;
      if (padded.spec.scenario != Scenario::padding || &padded == none || !padded.is_measured()) continue;
      outcome.comparison = compare_cases(padded, *none, context_);
    }
  }

  const ExperimentContext& context_;
  const AblationOptions& options_;
  std::vector<CaseOutcome>& outcomes_;
  ExperimentResult& result_;
};

void finish_ablation(const ExperimentContext& context, const AblationOptions& options,
                     std::vector<CaseOutcome>& outcomes, ExperimentResult& result) {
  Ablation(context, options, outcomes, result).finish();
}

StepTimes steps_in(const ExperimentResult& judged, bool has_cache) {
  for (const Row& row : judged.rows)
    if (row.scenario == Scenario::step_times && row.setting.cache == has_cache)
      return {row.find("position")->samples, row.find("step_latency_ms")->samples};
  return {};
}

// What the rows of an ablation say together.
std::vector<Finding> conclude_ablation(const ExperimentResult& judged) {
  std::vector<Finding> found;
  const StepTimes on = steps_in(judged, true), off = steps_in(judged, false);
  if (!on.position.empty() && !off.position.empty()) found = step_findings(on, off);
  for (const Comparison& c : judged.comparisons) {
    if (c.scenario == Scenario::cache && c.verdict == Verdict::lower) found.emplace_back(CacheWithoutGain{c});
    if (c.scenario != Scenario::padding) continue;
    for (const Row& row : judged.rows)
      if (row.scenario == Scenario::padding && row.label == c.subject) {
        const double computed = row.find("computed_prompt_tokens")->value,
                     real = row.find("prompt_tokens")->value;
        found.emplace_back(PaddingOverhead{static_cast<std::int64_t>(computed - real),
                                           static_cast<std::int64_t>(computed), c});
      }
  }
  return found;
}

AblationOptions half_of(AblationOptions options, bool is_cache) {
  options.has_cache = is_cache;
  options.has_padding = !is_cache;
  return options;
}

// The audit: each prompt alone with the cache and without it, all together, and padded on either side.
void add_audit_cost(const ExperimentContext& context, const AblationOptions& options, const CostOf& cost_of,
                    CostedStudy& costed) {
  const std::vector<Prompt> prompts = padded_prompts(context, options);
  const std::int64_t new_tokens = std::min<std::int64_t>(16, options.new_tokens);
  const auto add = [&](const std::vector<Prompt>& batch, bool uses_cache, double times) {
    Case spec = baseline_case(context, Scenario::padding, "audit", batch, new_tokens);
    spec.uses_cache = uses_cache;
    const CaseCost cost = cost_of(spec);
    costed.once_s += times * (cost.prefill_s + cost.decode_s);
  };
  for (const Prompt& prompt : prompts)
    for (const bool uses_cache : {true, false}) add({prompt}, uses_cache, 1);
  add(prompts, true, 3);
}

StudyOf<AblationOptions> half_study(bool is_cache) {
  return {.name = is_cache ? "cache" : "padding",
          .title = is_cache ? "KV cache" : "Padding",
          .description = is_cache ? "Compare generation with and without the KV cache"
                                  : "Compare a batch padded left, padded right and not padded",
          .command = is_cache ? "ablate cache" : "ablate padding",
          .example = is_cache ? "assay ablate cache demo --lengths 32,128,256" : "assay ablate padding demo",
          .cases =
              [is_cache](const ExperimentContext& context, const AblationOptions& options) {
                return ablation_cases(context, half_of(options, is_cache));
              },
          .finish =
              [is_cache](const ExperimentContext& context, const AblationOptions& options,
                         std::vector<CaseOutcome>& outcomes, ExperimentResult& result) {
                finish_ablation(context, half_of(options, is_cache), outcomes, result);
              },
          .conclude = conclude_ablation,
          .add_costs = add_audit_cost};
}

StudyOption new_tokens_option() {
  return option("max-new-tokens", &AblationOptions::new_tokens, "New tokens", {.letter = 'n', .min = 1});
}

}  // namespace

Study cache_study() {
  StudyOf<AblationOptions> study = half_study(true);
  study.options = {option("lengths", &AblationOptions::lengths, "Prompt lengths in tokens", {.min = 1}),
                   new_tokens_option()};
  return to_study(std::move(study));
}

Study padding_study() {
  StudyOf<AblationOptions> study = half_study(false);
  study.options = {option("prompt", &AblationOptions::padded_prompts, "Prompts of different lengths",
                          {.letter = 'p', .shown_default = "four that ship"}),
                   new_tokens_option()};
  return to_study(std::move(study));
}

Study ablation_study() {
  using Options = AblationOptions;
  return to_study<Options>(
      {.name = "ablation",
       .title = "KV cache and padding",
       .description =
           "Compare generation with and without the KV cache, and a batch with and without padding",
       .options = {option("lengths", &Options::lengths, "Prompt lengths of the cache ablation",
                          {.min = 1, .name_in_run = "ablation-lengths"})},
       .is_in_suite = true,
       .cases = ablation_cases,
       .finish = finish_ablation,
       .conclude = conclude_ablation,
       .add_costs = add_audit_cost,
       .share = [](const SharedOptions& shared, Options& options) {
         options.new_tokens = shared.axis_new_tokens();
       }});
}

ExperimentResult ablate_cache_and_padding(const ExperimentContext& context, const AblationOptions& options) {
  return ablation_study().run(context, options);
}

}  // namespace assay
