#include "assay/studies/suite.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/harness/time_left.h"
#include "assay/results/takeaways.h"
#include "assay/session/perplexity.h"

namespace assay {

namespace {

constexpr const char* kParts[] = {"noise",   "trade-off",  "lengths", "ablation",
                                  "batches", "perplexity", "edge"};

constexpr double kNoise_s = 5;  // of runs of equals

void check_skipped(const std::vector<std::string>& skipped) {
  for (const std::string& part : skipped)
    if (std::find(std::begin(kParts), std::end(kParts), part) == std::end(kParts))
      throw UsageError("--skip: expected some of {}, found '{}'", fmt::join(kParts, ", "), part);
}

std::vector<Case> baseline_cases(const ExperimentContext& experiment, const SuiteOptions& options) {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < options.prompts.size(); ++i) {
    Case what = baseline_case(experiment, Scenario::baseline, fmt::format("prompt {}", i + 1),
                              {options.prompts[i]}, options.new_tokens);
    what.uses_cache = options.uses_cache;
    what.truncation = options.truncation;
    what.parameters.emplace_back("prompt", shown(options.prompts[i]));
    cases.push_back(std::move(what));
  }
  return cases;
}

std::vector<Configuration> configurations_of(const ExperimentContext& experiment,
                                             const SuiteOptions& options) {
  return choose_configurations(experiment, precisions_or_default(experiment, options.precisions))
      .configurations;
}

std::string methods_of(const SweepOptions& sweep, const ResultSet& results) {
  std::string text = fmt::format(
      "{} ran on {}. Each case is warmed up until two runs agree. Timed runs then follow in rounds; a round "
      "runs every case once, in random order. ",
      results.model.id, results.machine.cpu);
  text += sweep.repeats > 0
              ? fmt::format("There are {} rounds. ", sweep.repeats)
              : fmt::format(
                    "There are 6 rounds or more, until every interval is within {:.0f} % of its "
                    "median or the time is over. ",
                    100 * sweep.narrow);
  text += sweep.repeats > 0 && sweep.repeats < static_cast<std::int64_t>(kFewestForInterval)
              ? "Figures are means; so few runs carry no interval and no verdict. "
              : "Figures are medians; 95 % CI is their confidence interval from order statistics. ";
  text += "Latency includes prefill and excludes tokenization. MB are 1024 x 1024 bytes.";
  return text;
}

class Exercise {
 public:
  Exercise(ExperimentContext experiment, const SuiteOptions& options)
      : experiment_(std::move(experiment)), options_(options) {
    check_skipped(options.skipped);
    // The perplexity's corpus is read before hours of work, not after.
    if (!is_skipped("perplexity")) read_corpus(options.corpus);
    configurations_ = configurations_of(experiment_, options);
    experiment_.baseline = configurations_.front();
    time_left_.emplace(parts(), options.predicted_seconds != nullptr, experiment_.sweep.on_progress);
    experiment_.sweep.on_progress = time_left_->teller();
  }

  ResultSet run() {
    results_ = new_results(experiment_.sessions->facts(experiment_.baseline));
    run_baseline();
    run_noise();
    part("trade-off", [&] {
      return run_quantization_tradeoff(experiment_,
                                       {options_.precisions, options_.prompts, options_.new_tokens});
    });
    part("lengths", [&] { return run_for_varied_lengths(experiment_, options_.lengths); });
    part("ablation", [&] { return ablate_cache_and_padding(experiment_, options_.ablation); });
    part("batches", [&] { return measure_batched(experiment_, options_.batches); });
    part("perplexity", [&] {
      return compare_perplexity(experiment_,
                                {configurations_, options_.corpus, options_.context, options_.stride});
    });
    part("edge", [&] {
      return probe_edge_prompts(experiment_, {.new_tokens = options_.edge_new_tokens, .more = {}});
    });
    merge_quality(results_.rows);
    results_.takeaways = takeaways_of(results_);
    results_.caption = methods_of(experiment_.sweep, results_);
    return std::move(results_);
  }

 private:
  bool is_skipped(std::string_view part) const {
    return std::find(options_.skipped.begin(), options_.skipped.end(), part) != options_.skipped.end();
  }
  bool is_over() const {
    return results_.status == RunStatus::interrupted ||
           (experiment_.sweep.should_stop && experiment_.sweep.should_stop());
  }

  template <typename Run>
  void part(std::string_view name, const Run& run) {
    if (is_skipped(name)) return;
    if (is_over()) {
      results_.status = RunStatus::interrupted;
      return;
    }
    time_left_->begin(name);
    add(results_, run());
  }

  // What will run, in its order, with the seconds that are predicted of it.
  std::vector<TimeLeft::Part> parts() const {
    std::vector<TimeLeft::Part> all;
    const auto add_part = [&](const char* name, const auto& seconds) {
      if (!is_skipped(name)) all.push_back({name, options_.predicted_seconds ? seconds() : 0});
    };
    const auto sweep_of = [&](const std::vector<Case>& cases) {
      return predicted_sweep_s(cases, experiment_.sweep, options_.predicted_seconds);
    };
    add_part("baseline", [&] { return sweep_of(baseline_cases(experiment_, options_)); });
    if (has_noise()) add_part("noise", [&] { return kNoise_s; });
    add_part("trade-off", [&] { return predicted_tradeoff_s(); });
    add_part("lengths", [&] { return sweep_of(lengths_cases(experiment_, options_.lengths)); });
    add_part("ablation", [&] { return sweep_of(ablation_cases(experiment_, options_.ablation)); });
    add_part("batches", [&] { return sweep_of(batched_cases(experiment_, options_.batches)); });
    add_part("perplexity", [&] { return predicted_perplexity_s(); });
    add_part("edge", [&] {
      return sweep_of(edge_cases(experiment_, {.new_tokens = options_.edge_new_tokens, .more = {}}));
    });
    return all;
  }

  // The texts of the other prompts are generated once by each.
  double predicted_tradeoff_s() const {
    const std::vector<Case> cases =
        tradeoff_cases(experiment_, {options_.precisions, options_.prompts, options_.new_tokens});
    double all = predicted_sweep_s(cases, experiment_.sweep, options_.predicted_seconds);
    for (const Case& what : cases)
      all += static_cast<double>(options_.prompts.size() - 1) * options_.predicted_seconds(what);
    return all;
  }

  double predicted_perplexity_s() const {
    const std::int64_t context = options_.context > 0 ? options_.context : experiment_.context,
                       stride =
                           options_.stride > 0 ? options_.stride : std::max<std::int64_t>(1, context / 2);
    const auto tokens = static_cast<std::int64_t>(encode(experiment_, read_corpus(options_.corpus)).size());
    // A window is a prefill.
    const std::int64_t length =
        std::max<std::int64_t>(1, std::min({context, tokens, experiment_.context - 1}));
    const std::vector<TokenId> ids(static_cast<std::size_t>(length));
    Case window = baseline_case(experiment_, Scenario::perplexity, "window", {ids}, 1);
    double all = 0;
    for (const Configuration& configuration : configurations_) {
      window.configuration = configuration;
      all += static_cast<double>(1 + tokens / stride) * options_.predicted_seconds(window);
    }
    return all;
  }

  // So few repeats claim no verdict, so what they could show is of no use.
  bool has_noise() const {
    const SweepOptions& sweep = experiment_.sweep;
    return options_.noise_pairs > 0 &&
           (sweep.repeats == 0 || sweep.repeats >= static_cast<std::int64_t>(kFewestForInterval));
  }

  void run_baseline() {
    const SweepResult swept = run_sweep(*experiment_.sessions, std::string(name_of(Scenario::baseline)),
                                        baseline_cases(experiment_, options_), experiment_.sweep);
    ExperimentResult result;
    result.is_interrupted = swept.is_interrupted;
    for (const CaseResult& c : swept.cases) {
      Row row = row_of(c, experiment_);
      if (c.status == RowStatus::ok && !c.samples.empty()) {
        row.set("load_s", c.facts.model.load_s);
        result.texts.push_back({row.label, shown(c.what.prompts.front()), c.first.texts.front(),
                                c.first.prompt_ids.front(), c.first.ids.front()});
      }
      result.rows.push_back(std::move(row));
    }
    add(results_, std::move(result));
  }

  void run_noise() {
    if (is_skipped("noise") || is_over() || !has_noise()) return;
    time_left_->begin("noise");
    results_.noise = measure_noise(experiment_, options_.noise_pairs);
    if (!results_.noise) return;
    experiment_.noise = results_.noise;
    results_.remarks.push_back(fmt::format(
        "An A/A run measured how small a difference this machine can detect today: in {0} pairs of runs, two "
        "equal worker sessions differed by {1:+.1f} %. With {0} pairs this machine resolves differences of "
        "{2:.1f} % or more; with 10 pairs, {3:.1f} %. Verdicts treat smaller differences as none.",
        results_.noise->pairs, 100 * results_.noise->bias, 100 * results_.noise->smallest_difference,
        100 * smallest_difference(*results_.noise, 10)));
  }

  ExperimentContext experiment_;
  const SuiteOptions& options_;
  std::vector<Configuration> configurations_;
  std::optional<TimeLeft> time_left_;  // its address is in the sweep's options
  ResultSet results_;
};

std::vector<Case> noise_cases(const ExperimentContext& experiment) {
  Case what = baseline_case(experiment, Scenario::noise, "baseline",
                            {"Once upon a time, in a land far, far away,"}, 32);
  std::vector<Case> cases{what, what};
  cases[1].label = "baseline again";
  cases[1].configuration.replica = 1;
  return cases;
}

}  // namespace

std::optional<NoiseBudget> measure_noise(const ExperimentContext& experiment, int pairs) {
  constexpr int kMost = 60;
  const std::vector<Case> cases = noise_cases(experiment);
  SweepOptions sweep = experiment.sweep;
  sweep.repeats = std::max(pairs, kMost);
  sweep.fewest = pairs;
  sweep.max_time_s = kNoise_s;
  const SweepResult swept =
      run_sweep(*experiment.sessions, std::string(name_of(Scenario::noise)), cases, sweep);
  experiment.sessions->drop(cases[1].configuration);
  if (swept.cases.size() != 2) return std::nullopt;
  const auto [a, b] = paired(swept.cases[0], swept.cases[1], &Sample::total_latency_s);
  if (a.size() < kFewestForInterval) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(std::log(b[i] / a[i]));
  return noise_budget(ratios, static_cast<int>(ratios.size()));
}

ResultSet new_results(const SessionFacts& facts) {
  ResultSet results;
  results.created = utc_now();
  results.build = build_facts();
  results.machine = read_machine();
  results.model = facts.model;
  return results;
}

void add(ResultSet& results, ExperimentResult part) {
  const auto move = [](auto& from, auto& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move(part.rows, results.rows);
  move(part.comparisons, results.comparisons);
  move(part.audit, results.audit);
  move(part.texts, results.texts);
  move(part.remarks, results.remarks);
  if (part.is_interrupted) results.status = RunStatus::interrupted;
}

ResultSet run_quantization_exercise(ExperimentContext experiment, const SuiteOptions& options) {
  return Exercise(std::move(experiment), options).run();
}

std::vector<Case> suite_cases(const ExperimentContext& original, const SuiteOptions& options) {
  check_skipped(options.skipped);
  ExperimentContext experiment = original;
  experiment.baseline = configurations_of(experiment, options).front();
  std::vector<Case> all = baseline_cases(experiment, options);
  const auto append = [&](std::string_view part, const std::vector<Case>& cases) {
    if (std::find(options.skipped.begin(), options.skipped.end(), part) == options.skipped.end())
      all.insert(all.end(), cases.begin(), cases.end());
  };
  append("noise", noise_cases(experiment));
  append("trade-off", tradeoff_cases(experiment, {options.precisions, options.prompts, options.new_tokens}));
  append("lengths", lengths_cases(experiment, options.lengths));
  append("ablation", ablation_cases(experiment, options.ablation));
  append("batches", batched_cases(experiment, options.batches));
  append("edge", edge_cases(experiment, {.new_tokens = options.edge_new_tokens, .more = {}}));
  return all;
}

}  // namespace assay
