#include "assay/studies/interleave.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/harness/make_case.h"
#include "assay/harness/rows.h"
#include "assay/harness/sweep.h"
#include "assay/machine/machine.h"
#include "assay/session/perplexity.h"
#include "assay/studies/compare_perplexity.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/suite.h"

namespace assay {

namespace {

// Before the spread of pairs is believed: that of five may be half of what it is.
constexpr int kFirstPairs = 10;
constexpr double kErrorLevel = 0.05;

RunConfig in_other_program(RunConfig configuration) {
  configuration.replica = kOtherProgram;
  return configuration;
}

class Interleaving {
 public:
  Interleaving(const ExperimentContext& context, const InterleaveOptions& options)
      : context_(context), options_(options), configurations_(configurations()) {
    if (options.prompts.empty()) throw FieldError("prompts", "expected one prompt at least, found none");
    if (options.scores_text && options.corpus) read_corpus(*options.corpus, context.baseline.newlines);
  }

  Interleaved run() {
    ExperimentResult a, b;
    for (const RunConfig& configuration : configurations_) {
      for (Pair& pair : measure(cases_of(configuration))) {
        add_row(pair.a, a);
        add_row(pair.b, b);
      }
      if (options_.scores_text && !is_interrupted_) {
        add_text(configuration, configuration, a);
        add_text(in_other_program(configuration), configuration, b);
      }
      if (is_interrupted_) break;
    }
    a.is_interrupted = b.is_interrupted = is_interrupted_;
    Interleaved both{results_of(std::move(a)), results_of(std::move(b))};
    both.b.model = context_.sessions->facts(in_other_program(configurations_.front())).model;
    both.a.interleave_id = both.b.interleave_id = new_run_id();
    return both;
  }

 private:
  struct Pair {
    CaseResult a, b;
  };

  std::vector<RunConfig> configurations() const {
    if (options_.precisions.empty()) return {context_.baseline};
    return choose_configurations(context_, options_.precisions).configurations;
  }

  std::vector<Case> cases_of(const RunConfig& configuration) const {
    std::vector<Case> cases;
    for (std::size_t i = 0; i < options_.prompts.size(); ++i) {
      Case spec = baseline_case(context_, Scenario::baseline,
                                fmt::format("{}, prompt {}", configuration.label(), i + 1),
                                {options_.prompts[i]}, options_.new_tokens);
      spec.configuration = configuration;
      cases.push_back(std::move(spec));
    }
    return cases;
  }

  // At which the last comparison of all will be tested, at the strictest.
  double level() const {
    const auto cases = static_cast<double>(configurations_.size() * options_.prompts.size());
    return 1 - kErrorLevel / (cases > 1 ? cases + 1 : 1);
  }

  std::vector<Pair> measure(const std::vector<Case>& cases) {
    const SweepOptions& asked = context_.sweep;
    const TimePoint begin = asked.clock();
    SweepOptions sweep = asked;
    sweep.processes = asked.processes.value_or(options_.detectable > 0 ? kFirstPairs : kUsualProcesses);
    sweep.journal = nullptr;  // processes are numbered anew in each sweep
    std::vector<Pair> pairs;
    for (int made = 0; *sweep.processes > 0;) {
      add(run_sweep(*context_.sessions, "in turns", both_of(cases), sweep), cases, made, pairs);
      made += static_cast<int>(*sweep.processes);
      if (!sweep.repeats) sweep.repeats = rounds_of(pairs);  // as many in all processes
      sweep.processes = is_interrupted_ || asked.processes || options_.detectable <= 0
                            ? 0
                            : pairs_to_add(log_ratios_of(pairs), options_.detectable, level());
      ++sweep.seed;
      if (!asked.max_time_s) continue;
      sweep.max_time_s = *asked.max_time_s - elapsed(begin, asked.clock()).value;
      if (*sweep.max_time_s <= 0) break;
    }
    return pairs;
  }

  static std::int64_t rounds_of(const std::vector<Pair>& pairs) {
    int most = 0;
    for (const Pair& pair : pairs)
      for (const auto& [place, sample] : pair.a.samples) most = std::max(most, place.round);
    return most + 1;
  }

  static std::vector<Case> both_of(const std::vector<Case>& cases) {
    std::vector<Case> both;
    for (const Case& spec : cases) {
      both.push_back(spec);
      both.push_back(spec);
      both.back().configuration = in_other_program(spec.configuration);
    }
    return both;
  }

  void add(SweepResult swept, const std::vector<Case>& cases, int made, std::vector<Pair>& pairs) {
    is_interrupted_ = is_interrupted_ || swept.is_interrupted;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Case other = cases[i];
      other.configuration = in_other_program(other.configuration);
      const CaseResult *a = swept.find(cases[i].key()), *b = swept.find(other.key());
      if (a == nullptr || b == nullptr) continue;
      if (made == 0) {
        pairs.push_back({*a, *b});
        pairs.back().b.spec = cases[i];
      } else if (i < pairs.size()) {
        join(*a, made, pairs[i].a);
        join(*b, made, pairs[i].b);
      }
    }
  }

  static void join(const CaseResult& more, int made, CaseResult& all) {
    for (const auto& [place, sample] : more.samples)
      all.samples[{made + place.process, place.round}] = sample;
    all.warm_ups += more.warm_ups;
    if (more.status == RowStatus::ok) return;
    all.status = more.status;
    all.reason = more.reason;
  }

  static std::vector<std::vector<std::vector<double>>> log_ratios_of(const std::vector<Pair>& pairs) {
    std::vector<std::vector<std::vector<double>>> all;
    for (const Pair& pair : pairs)
      if (pair.a.is_measured() && pair.b.is_measured())
        all.push_back(log_ratios(pair.b, pair.a, &Sample::total_latency_s));
    return all;
  }

  void add_row(const CaseResult& c, ExperimentResult& found) const {
    found.rows.push_back(row_of(c, context_));
  }

  void add_text(const RunConfig& configuration, const RunConfig& shown, ExperimentResult& found) {
    PerplexityOptions perplexity;
    perplexity.configurations = {configuration};
    perplexity.corpus = options_.corpus;
    ExperimentResult scored = compare_perplexity(context_, perplexity);
    is_interrupted_ = is_interrupted_ || scored.is_interrupted;
    for (Row& row : scored.rows) {
      row.label = shown.label();
      for (auto& [key, value] : row.parameters)
        if (key == "configuration") value = row.label;
    }
    found.add(std::move(scored));
    context_.sessions->end_all();
  }

  ResultSet results_of(ExperimentResult found) const {
    ExperimentContext context = context_;
    context.baseline = configurations_.front();
    return assay::results_of(context, std::move(found));
  }

  const ExperimentContext& context_;
  const InterleaveOptions& options_;
  const std::vector<RunConfig> configurations_;
  bool is_interrupted_ = false;
};

}  // namespace

int pairs_to_add(const std::vector<std::vector<std::vector<double>>>& log_ratios, double detectable,
                 double level) {
  int most = 0;
  for (const std::vector<std::vector<double>>& by_process : log_ratios) {
    std::vector<double> medians;
    for (const std::vector<double>& own : by_process) medians.push_back(statistics::median(own));
    const auto effect = statistics::effect_of(medians);
    if (!effect) continue;
    const double shown = std::expm1(statistics::detectable_difference(*effect, level));
    if (shown <= detectable) continue;
    const auto made = static_cast<double>(medians.size());
    // A little more than the spread so far asks for, which may be too small.
    const double needed = std::min<double>(kMaxPairs, 1.1 * made * std::pow(shown / detectable, 2));
    most = std::max(most, static_cast<int>(std::ceil(needed - made)));
  }
  return most;
}

Interleaved run_interleaved(const ExperimentContext& context, const InterleaveOptions& options) {
  return Interleaving(context, options).run();
}

}  // namespace assay
