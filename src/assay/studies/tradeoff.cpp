#include "assay/studies/tradeoff.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/studies/precisions.h"

namespace assay {

namespace {

class Tradeoff {
 public:
  Tradeoff(const ExperimentContext& experiment, const TradeoffOptions& options)
      : experiment_(experiment), options_(options) {
    const std::vector<std::string> texts = precisions_or_default(experiment, options.precisions);
    chosen_ = choose_configurations(experiment, texts);
  }

  ExperimentResult run() {
    const SweepResult swept = run_sweep(*experiment_.sessions, std::string(name_of(Scenario::tradeoff)),
                                        tradeoff_cases(experiment_, options_), experiment_.sweep);
    result_.is_interrupted = swept.is_interrupted;
    if (swept.cases.empty()) return std::move(result_);
    const CaseResult& baseline = swept.cases.front();
    for (const CaseResult& c : swept.cases) add(c, baseline, static_cast<int>(swept.cases.size()) - 1);
    return std::move(result_);
  }

 private:
  void add(const CaseResult& c, const CaseResult& baseline, int comparisons) {
    Row row = row_of(c, experiment_);
    for (const auto& [asked, runs_as] : chosen_.shown_as)
      if (runs_as == c.what.configuration.label())
        row.warnings.push_back(
            {WarningKind::duplicate_case,
             fmt::format("{} resolves to the same configuration and is measured once", asked)});
    const bool is_measured = c.status == RowStatus::ok && !c.samples.empty();
    if (is_measured) {
      row.set("load_s", c.facts.model.load_s);
      if (&c != &baseline && baseline.status == RowStatus::ok && !baseline.samples.empty())
        compare(c, baseline, comparisons, row);
      add_texts(c, baseline);
    }
    result_.rows.push_back(std::move(row));
  }

  void compare(const CaseResult& c, const CaseResult& baseline, int comparisons, Row& row) {
    const double more = c.facts.model.load_s - baseline.facts.model.load_s;
    row.set("quantize_s", more);
    auto comparison = compare_cases(c, baseline, experiment_, comparisons);
    if (!comparison) return;
    if (comparison->verdict == Verdict::lower) {
      const auto per_token = [](const CaseResult& r) {
        return median(r.each(&Sample::total_latency_s)) / static_cast<double>(r.what.new_tokens);
      };
      const double saved = per_token(baseline) - per_token(c);
      if (saved > 0) row.set("break_even_tokens", std::max(0.0, more / saved));
    }
    result_.comparisons.push_back(std::move(*comparison));
  }

  // The texts of the other prompts are generated once.
  FirstRun text_of(const Configuration& configuration, std::size_t i) {
    Journal* journal = experiment_.sweep.journal;
    const std::string key = fmt::format("{} | prompt {}", configuration.label(), i + 1);
    std::optional<FirstRun> known;
    if (journal != nullptr)
      journal->read_each("text", key, [&](const auto& data) { known = first_run_from_json(data); });
    if (known) return std::move(*known);
    Case what =
        baseline_case(experiment_, Scenario::tradeoff, key, {options_.prompts[i]}, options_.new_tokens);
    what.configuration = configuration;
    FirstRun run = experiment_.sessions->of(configuration).first_run(what);
    if (journal != nullptr) journal->append("text", key, to_json(run));
    return run;
  }

  void add_texts(const CaseResult& c, const CaseResult& baseline) {
    const std::string label = c.what.configuration.label();
    std::string where;
    for (std::size_t i = 0; i < options_.prompts.size(); ++i) {
      FirstRun run;
      try {
        run = i == 0 ? c.first : text_of(c.what.configuration, i);
      } catch (const WorkerLost& lost) {
        experiment_.sessions->drop(c.what.configuration);
        if (lost.cause() == WorkerLost::Cause::stopped) result_.is_interrupted = true;
        return;
      } catch (const JournalError&) {
        throw;
      } catch (const Error&) {
        if (experiment_.sweep.should_stop && experiment_.sweep.should_stop()) result_.is_interrupted = true;
        return;
      }
      const std::vector<TokenId>& ids = run.ids.front();
      if (&c == &baseline) {
        baseline_ids_.push_back(ids);
      } else if (i < baseline_ids_.size()) {
        const auto [own, other] =
            std::mismatch(ids.begin(), ids.end(), baseline_ids_[i].begin(), baseline_ids_[i].end());
        where += fmt::format(
            "{}prompt {} {}", where.empty() ? "" : ", ", i + 1,
            own == ids.end() ? std::string("never") : fmt::format("after {} tokens", own - ids.begin()));
        constexpr double kRepetitive = 0.5;
        const double share = repetition_share(ids);
        if (share >= kRepetitive && share > repetition_share(baseline_ids_[i]) + 0.1)
          where += fmt::format(" (a repeated passage makes up {:.0f} % of it, more than in the baseline's)",
                               100 * share);
      }
      result_.texts.push_back({fmt::format("{}, prompt {}", label, i + 1), shown(options_.prompts[i]),
                               run.texts.front(), run.prompt_ids.front(), ids});
    }
    if (!where.empty())
      result_.remarks.push_back(fmt::format("{} diverges from the baseline's text: {}.", label, where));
  }

  const ExperimentContext& experiment_;
  const TradeoffOptions& options_;
  ChosenConfigurations chosen_;
  std::vector<std::vector<TokenId>> baseline_ids_;
  ExperimentResult result_;
};

}  // namespace

std::vector<Case> tradeoff_cases(const ExperimentContext& experiment, const TradeoffOptions& options) {
  if (options.prompts.empty()) throw UsageError("--prompt: expected at least one, found none");
  const std::vector<std::string> texts = precisions_or_default(experiment, options.precisions);
  std::vector<Case> cases;
  for (const Configuration& configuration : choose_configurations(experiment, texts).configurations) {
    Case what = baseline_case(experiment, Scenario::tradeoff, configuration.label(),
                              {options.prompts.front()}, options.new_tokens);
    what.configuration = configuration;
    cases.push_back(std::move(what));
  }
  return cases;
}

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

ExperimentResult run_quantization_tradeoff(const ExperimentContext& experiment,
                                           const TradeoffOptions& options) {
  return Tradeoff(experiment, options).run();
}

}  // namespace assay
