#include "assay/studies/tradeoff.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/case_json.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/session_result.h"

namespace assay {

namespace {

std::vector<Case> tradeoff_cases(const ExperimentContext& context, const TradeoffOptions& options) {
  if (options.prompts.empty()) throw FieldError("prompts", "expected one prompt at least, found none");
  return precision_cases(context, Scenario::tradeoff, options.precisions, options.prompts.front(),
                         options.new_tokens);
}

class Tradeoff {
 public:
  Tradeoff(const ExperimentContext& context, const TradeoffOptions& options, ExperimentResult& result)
      : context_(context), options_(options), result_(result) {}

  void finish(std::vector<CaseOutcome>& outcomes) {
    add_equal_names(context_, options_.precisions, outcomes);
    for (CaseOutcome& outcome : outcomes) {
      if (!outcome.result.is_measured()) continue;
      const CaseResult& baseline = outcomes.front().result;
      outcome.row.set("load_s", outcome.result.facts.model.load_s);
      if (&outcome != &outcomes.front() && baseline.is_measured() &&
          outcome.row.setting.model == outcomes.front().row.setting.model)
        add_quantize_time(outcome, baseline);
      add_texts(outcome.result, &outcome == &outcomes.front());
    }
  }

 private:
  // Both loads are timed once, and loads of one configuration differ by about as much on a shared machine.
  static void add_quantize_time(CaseOutcome& outcome, const CaseResult& baseline) {
    constexpr double kNoise = 0.1;  // a share of the baseline's load
    const double own_s = outcome.result.facts.model.load_s, base_s = baseline.facts.model.load_s,
                 more_s = own_s - base_s;
    if (more_s > kNoise * base_s)
      outcome.row.set("quantize_s", more_s);
    else
      outcome.row.absent.emplace_back(
          "quantize_s",
          fmt::format("below the noise of loading: {:.3g} s, and the baseline {:.3g} s", own_s, base_s));
  }

  // The texts of the other prompts are generated once. Nothing where one cannot be generated.
  std::optional<FirstRun> text_of(const CaseResult& c, std::size_t i) {
    if (i == 0) return c.first;
    const RunConfig& configuration = c.spec.configuration;
    const std::string key = fmt::format("{} | prompt {}", configuration.key(), i + 1);
    Case spec = baseline_case(context_, Scenario::tradeoff, key, {options_.prompts[i]}, c.spec.new_tokens);
    spec.configuration = configuration;
    std::optional<FirstRun> run;
    if (is_too_late(context_, "text", key)) {
      result_.left_out.push_back({.study = "trade-off",
                                  .what = fmt::format("prompt {} with {}", i + 1, configuration.label()),
                                  .reason = std::string(kSlower)});
      return run;
    }
    const Attempt attempt = context_.sessions->attempt(
        configuration,
        [&] {
          run = resumed(
              context_.sweep.journal, "text", key, first_run_from_json,
              [](const FirstRun& made) { return to_json(made); },
              [&] { return context_.sessions->of(configuration).first_run(spec); });
        },
        context_.sweep.should_stop);
    if (attempt.end == Attempt::End::stopped) result_.is_interrupted = true;
    return run;
  }

  void add_texts(const CaseResult& c, bool is_baseline) {
    const std::string label = c.spec.configuration.label();
    TextDivergence divergence{label};
    for (std::size_t i = 0; i < options_.prompts.size(); ++i) {
      const std::optional<FirstRun> run = text_of(c, i);
      if (!run) return;
      const std::vector<TokenId>& ids = run->ids.front();
      const std::vector<TokenId>& prompt_ids = run->prompt_ids.front();
      if (is_baseline) {
        baseline_ids_.push_back(ids);
        baseline_prompt_ids_.push_back(prompt_ids);
      } else if (i < baseline_ids_.size() && prompt_ids == baseline_prompt_ids_[i]) {
        divergence.prompts.push_back({static_cast<std::int64_t>(equal_tokens(i, ids)), std::ssize(ids),
                                      repetition_share(ids), repetition_share(baseline_ids_[i])});
      }
      result_.texts.push_back({fmt::format("{}, prompt {}", label, i + 1), shown(options_.prompts[i]),
                               run->texts.front(), prompt_ids, ids, Scenario::tradeoff, label});
    }
    if (!divergence.prompts.empty()) result_.findings.emplace_back(std::move(divergence));
  }

  // How many tokens stand before the first that differs from the baseline's.
  std::size_t equal_tokens(std::size_t prompt, const std::vector<TokenId>& ids) const {
    const std::vector<TokenId>& baseline = baseline_ids_[prompt];
    const auto at = std::mismatch(ids.begin(), ids.end(), baseline.begin(), baseline.end());
    return static_cast<std::size_t>(at.first - ids.begin());
  }

  const ExperimentContext& context_;
  const TradeoffOptions& options_;
  // By prompt. Texts of another model are compared where its tokenizer gives the prompt the same ids.
  std::vector<std::vector<TokenId>> baseline_ids_, baseline_prompt_ids_;
  ExperimentResult& result_;
};

}  // namespace

namespace {

// Where a precision is shown to be faster, the tokens after which its longer loading has paid off.
std::vector<Finding> add_break_even(ExperimentResult& judged) {
  const Row* base = nullptr;
  const auto per_token = [](const Row& row) {
    return statistics::median(row.find("total_latency_s")->samples) / row.find("tokens_generated")->value;
  };
  for (Row& row : judged.rows) {
    if (row.scenario != Scenario::tradeoff) continue;
    if (base == nullptr) base = &row;
    const Comparison* c = judged.comparison(Scenario::tradeoff, row.label, base->label);
    const Value *own = row.find("load_s"), *first = base->find("load_s");
    const bool is_other_model = row.setting.model != base->setting.model;
    if (own == nullptr || first == nullptr || is_other_model || c == nullptr || c->verdict != Verdict::lower)
      continue;
    const double saved = per_token(*base) - per_token(row);
    if (saved > 0) row.set("break_even_tokens", std::max(0.0, (own->value - first->value) / saved));
  }
  return {};
}

}  // namespace

void merge_quality(std::vector<Row>& rows) {
  for (Row& row : rows) {
    if (row.scenario != Scenario::tradeoff || row.status != RowStatus::ok) continue;
    for (const Row& quality : rows) {
      const bool is_quality = quality.scenario == Scenario::perplexity ||
                              quality.scenario == Scenario::divergence || quality.scenario == Scenario::task;
      if (!is_quality || quality.label != row.label) continue;
      for (const char* tag : {"perplexity", "perplexity_ratio", "kl_mean", "top1_agreement", "accuracy",
                              "accuracy_norm", "flips"})
        if (const Value* value = quality.find(tag)) row.set(tag, *value);
    }
  }
}

double repetition_share(const std::vector<TokenId>& ids) {
  const std::size_t n = ids.size();
  std::size_t longest = 0;
  for (std::size_t period = 1; period * 2 <= n; ++period) {
    std::size_t same = 0;
    while (same + period < n && ids[n - 1 - same] == ids[n - 1 - same - period]) ++same;
    if (same >= period) longest = std::max(longest, same + period);
  }
  return n == 0 ? 0 : static_cast<double>(longest) / static_cast<double>(n);
}

Study tradeoff_study() {
  using Options = TradeoffOptions;
  return to_study<Options>(
      {.name = "trade-off",
       .title = "Quantization trade-off",
       .description = "Compare precisions: memory, speed, quality and texts",
       .command = "tradeoff",
       .example = "assay tradeoff demo --precision float32,int8,nf4,fp4",
       .options = {option("precision", &Options::precisions, "Precisions to compare"),
                   option("prompt", &Options::prompts, "Prompts",
                          {.letter = 'p', .shown_default = "three that ship", .field = "prompts"}),
                   option("max-new-tokens", &Options::new_tokens, "New tokens", {.letter = 'n', .min = 1})},
       .followers = {"perplexity", "divergence", "task"},
       .is_in_suite = true,
       .takes_models = true,
       .cases = tradeoff_cases,
       .compared_with = ComparedWith::first_case,
       .finish = [](const ExperimentContext& context, const Options& options,
                    std::vector<CaseOutcome>& outcomes,
                    ExperimentResult& result) { Tradeoff(context, options, result).finish(outcomes); },
       .conclude = add_break_even,
       .predict_s =
           [](const ExperimentContext& context, const Options& options, const PredictedSeconds& seconds_of) {
             const std::vector<Case> cases = tradeoff_cases(context, options);
             double all = predicted_sweep_s(cases, context.sweep, seconds_of);
             for (const Case& spec : cases)
               all += static_cast<double>(options.prompts.size() - 1) * seconds_of(spec);
             return all;
           },
       .add_costs =
           [](const ExperimentContext& context, const Options& options, const CostOf&, CostedStudy& costed) {
             add_precisions(context, options.precisions,
                            choose_configurations(context, precisions_or_default(context, options.precisions))
                                .configurations,
                            costed);
             for (CostedCase& c : costed.cases)
               c.once_s = static_cast<double>(options.prompts.size() - 1) * (c.prefill_s + c.decode_s);
           },
       .share =
           [](const SharedOptions& shared, Options& options) {
             options.precisions = shared.precisions;
             options.prompts = shared.prompts;
             options.new_tokens = shared.new_tokens;
           }});
}

ExperimentResult run_quantization_tradeoff(const ExperimentContext& context, const TradeoffOptions& options) {
  return tradeoff_study().run(context, options);
}

}  // namespace assay
