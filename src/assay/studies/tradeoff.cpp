#include "assay/studies/tradeoff.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/case_json.h"
#include "assay/studies/precision_cases.h"

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
      if (&outcome != &outcomes.front() && baseline.is_measured()) add_break_even(outcome, baseline);
      add_texts(outcome.result, &outcome == &outcomes.front());
    }
  }

 private:
  void add_break_even(CaseOutcome& outcome, const CaseResult& baseline) {
    const CaseResult& c = outcome.result;
    const double more = c.facts.model.load_s - baseline.facts.model.load_s;
    outcome.row.set("quantize_s", more);
    const auto per_token = [](const CaseResult& r) {
      return statistics::median(r.each(&Sample::total_latency_s)) / static_cast<double>(r.spec.new_tokens);
    };
    const double saved = per_token(baseline) - per_token(c);
    if (saved <= 0) return;
    result_.conclusions.emplace_back([label = outcome.row.label, baseline_label = baseline.spec.label,
                                      tokens = std::max(0.0, more / saved)](ExperimentResult& all) {
      const Comparison* c = all.comparison(Scenario::tradeoff, label, baseline_label);
      if (c == nullptr || c->verdict != Verdict::lower) return;
      for (Row& row : all.rows)
        if (row.scenario == Scenario::tradeoff && row.label == label) row.set("break_even_tokens", tokens);
    });
  }

  // The texts of the other prompts are generated once.
  FirstRun generate(const RunConfig& configuration, std::size_t i) {
    Journal* journal = context_.sweep.journal;
    const std::string key = fmt::format("{} | prompt {}", configuration.key(), i + 1);
    std::optional<FirstRun> known;
    if (journal != nullptr)
      journal->read_each("text", key, [&](const JsonReader& data) { known = first_run_from_json(data); });
    if (known) return std::move(*known);
    Case spec = baseline_case(context_, Scenario::tradeoff, key, {options_.prompts[i]}, options_.new_tokens);
    spec.configuration = configuration;
    FirstRun run = context_.sessions->of(configuration).first_run(spec);
    if (journal != nullptr) journal->append("text", key, to_json(run));
    return run;
  }

  // Nothing where it cannot be generated.
  std::optional<FirstRun> text_of(const CaseResult& c, std::size_t i) {
    if (i == 0) return c.first;
    try {
      return generate(c.spec.configuration, i);
    } catch (const WorkerLost& lost) {
      context_.sessions->drop(c.spec.configuration);
      if (lost.cause() == WorkerLost::Cause::stopped) result_.is_interrupted = true;
    } catch (const JournalError&) {
      throw;
    } catch (const Error&) {
      if (context_.sweep.should_stop && context_.sweep.should_stop()) result_.is_interrupted = true;
    }
    return std::nullopt;
  }

  void add_texts(const CaseResult& c, bool is_baseline) {
    const std::string label = c.spec.configuration.label();
    std::string divergences;
    bool has_diverged = false;
    for (std::size_t i = 0; i < options_.prompts.size(); ++i) {
      const std::optional<FirstRun> run = text_of(c, i);
      if (!run) return;
      const std::vector<TokenId>& ids = run->ids.front();
      if (is_baseline) {
        baseline_ids_.push_back(ids);
      } else if (i < baseline_ids_.size()) {
        divergences += (divergences.empty() ? "" : ", ") + divergence(i, ids);
        has_diverged = has_diverged || equal_tokens(i, ids) < ids.size();
      }
      result_.texts.push_back({fmt::format("{}, prompt {}", label, i + 1), shown(options_.prompts[i]),
                               run->texts.front(), run->prompt_ids.front(), ids});
    }
    if (!divergences.empty())
      result_.remarks.push_back(
          has_diverged ? fmt::format("{} diverges from the baseline's text: {}.", label, divergences)
                       : fmt::format("{} does not diverge from the baseline's text.", label));
  }

  // How many tokens stand before the first that differs from the baseline's.
  std::size_t equal_tokens(std::size_t prompt, const std::vector<TokenId>& ids) const {
    const std::vector<TokenId>& baseline = baseline_ids_[prompt];
    const auto at = std::mismatch(ids.begin(), ids.end(), baseline.begin(), baseline.end());
    return static_cast<std::size_t>(at.first - ids.begin());
  }

  std::string divergence(std::size_t prompt, const std::vector<TokenId>& ids) const {
    const std::vector<TokenId>& baseline = baseline_ids_[prompt];
    const std::size_t equal = equal_tokens(prompt, ids);
    std::string text = equal == ids.size() ? fmt::format("prompt {} not at all", prompt + 1)
                                           : fmt::format("prompt {} after {} token{}", prompt + 1, equal,
                                                         equal == 1 ? "" : "s");
    constexpr double kRepetitive = 0.5;
    const double share = repetition_share(ids);
    if (share >= kRepetitive && share > repetition_share(baseline) + 0.1)
      text += fmt::format(" (a repeated passage makes up {:.0f} % of it, more than in the baseline's)",
                          100 * share);
    return text;
  }

  const ExperimentContext& context_;
  const TradeoffOptions& options_;
  std::vector<std::vector<TokenId>> baseline_ids_;  // by prompt
  ExperimentResult& result_;
};

}  // namespace

void merge_quality(std::vector<Row>& rows) {
  for (Row& row : rows) {
    if (row.scenario != Scenario::tradeoff || row.status != RowStatus::ok) continue;
    for (const Row& quality : rows) {
      if (quality.scenario != Scenario::perplexity || quality.label != row.label) continue;
      for (const char* tag : {"perplexity", "perplexity_ratio"})
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
       .followers = {"perplexity"},
       .is_in_suite = true,
       .cases = tradeoff_cases,
       .compared_with = ComparedWith::first_case,
       .finish = [](const ExperimentContext& context, const Options& options,
                    std::vector<CaseOutcome>& outcomes,
                    ExperimentResult& result) { Tradeoff(context, options, result).finish(outcomes); },
       .predict_s =
           [](const ExperimentContext& context, const Options& options, const PredictedSeconds& seconds_of) {
             const std::vector<Case> cases = tradeoff_cases(context, options);
             double all = predicted_sweep_s(cases, context.sweep, seconds_of);
             for (const Case& spec : cases)
               all += static_cast<double>(options.prompts.size() - 1) * seconds_of(spec);
             return all;
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
