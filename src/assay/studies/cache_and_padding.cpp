#include "assay/studies/cache_and_padding.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"

namespace assay {

namespace {

std::vector<Prompt> padded_prompts(const ExperimentContext& experiment, const AblationOptions& options) {
  if (!options.padded_prompts.empty()) return options.padded_prompts;
  std::vector<Prompt> prompts;
  const std::int64_t room = std::max<std::int64_t>(1, experiment.context - options.new_tokens);
  for (const std::int64_t length : {8, 24, 48, 96})
    prompts.emplace_back(ids_of_length(experiment, options.base, std::min(length, room)));
  return prompts;
}

// Median step times by the number of tokens that the sequence holds.
struct Positions {
  std::vector<double> at, milliseconds;
};
Positions positions_of(const CaseResult& c) {
  Positions positions;
  const Sample& any = c.samples.begin()->second;
  for (std::size_t i = 0; i < any.step_s.size(); ++i) {
    std::vector<double> times;
    for (const auto& [block, sample] : c.samples)
      if (i < sample.step_s.size()) times.push_back(1e3 * sample.step_s[i]);
    positions.at.push_back(static_cast<double>(any.prompt_tokens) + static_cast<double>(i) + 1);
    positions.milliseconds.push_back(median(times));
  }
  return positions;
}

void append(Positions& to, const Positions& from) {
  to.at.insert(to.at.end(), from.at.begin(), from.at.end());
  to.milliseconds.insert(to.milliseconds.end(), from.milliseconds.begin(), from.milliseconds.end());
}

std::string text_of(const Fit& fit) {
  std::string text = fmt::format("{:.3g} ms {} {:.3g} us per position", fit.coefficients[0],
                                 fit.coefficients[1] < 0 ? "-" : "+", 1e3 * std::abs(fit.coefficients[1]));
  if (fit.coefficients.size() > 2)
    text += fmt::format(" {} {:.3g} ns per position squared", fit.coefficients[2] < 0 ? "-" : "+",
                        1e6 * std::abs(fit.coefficients[2]));
  return text + fmt::format(" (R2 {:.2f})", fit.r2);
}

// Where the two lines meet; beyond it the cache pays in every step.
std::string crossover_of(const Fit& on, const Fit& off) {
  const double slope = off.coefficients[1] - on.coefficients[1];
  if (slope <= 0)
    return "Without the KV cache, the time of a step does not grow faster with the position than with it.";
  const double at = (on.coefficients[0] - off.coefficients[0]) / slope;
  return at <= 1
             ? "The fitted lines put every step with the KV cache below one without it."
             : fmt::format(
                   "The fitted lines cross at position {:.0f}; beyond it a step with the KV cache is faster.",
                   at);
}

class Ablation {
 public:
  Ablation(const ExperimentContext& experiment, const AblationOptions& options)
      : experiment_(experiment), options_(options) {}

  ExperimentResult run() {
    swept_ = run_sweep(*experiment_.sessions,
                       std::string(options_.has_cache ? "cache and padding" : name_of(Scenario::padding)),
                       ablation_cases(experiment_, options_), experiment_.sweep);
    result_.is_interrupted = swept_.is_interrupted;
    for (const CaseResult& c : swept_.cases) add_row(c);
    if (options_.has_cache) {
      compare_caches();
      fit_positions();
    }
    if (options_.has_padding) compare_paddings();
    if (!result_.is_interrupted)
      result_.audit = audit(experiment_, {experiment_.baseline}, padded_prompts(experiment_, options_),
                            std::min<std::int64_t>(16, options_.new_tokens));
    return std::move(result_);
  }

 private:
  void add_row(const CaseResult& c) {
    Row row = row_of(c, experiment_);
    if (c.status == RowStatus::ok && !c.samples.empty() && c.what.scenario == Scenario::padding) {
      const Sample& s = c.samples.begin()->second;
      const auto real = static_cast<double>(s.prompt_tokens + s.new_tokens),
                 padded = static_cast<double>(s.computed_prompt_tokens + s.new_tokens);
      const double seconds = row.find("total_latency_s")->value;
      row.set("computed_prompt_tokens", static_cast<double>(s.computed_prompt_tokens));
      row.set("padding_waste_percent", 100 * static_cast<double>(s.computed_prompt_tokens - s.prompt_tokens) /
                                           static_cast<double>(s.computed_prompt_tokens));
      row.set("real_tokens_per_sec", real / seconds);
      row.set("padded_tokens_per_sec", padded / seconds);
    }
    result_.rows.push_back(std::move(row));
  }

  const CaseResult* find(Scenario scenario, const std::string& label) const {
    for (const CaseResult& c : swept_.cases)
      if (c.what.scenario == scenario && c.what.label == label && c.status == RowStatus::ok &&
          !c.samples.empty())
        return &c;
    return nullptr;
  }

  void compare_caches() {
    for (const CaseResult& off : swept_.cases) {
      if (off.what.scenario != Scenario::cache || off.what.uses_cache) continue;
      const std::string on_label = "cache on" + off.what.label.substr(std::string("cache off").size());
      const CaseResult* on = find(Scenario::cache, on_label);
      if (on == nullptr || off.status != RowStatus::ok || off.samples.empty()) continue;
      auto comparison = compare_cases(off, *on, experiment_, static_cast<int>(options_.lengths.size()));
      if (!comparison) continue;
      if (comparison->verdict == Verdict::lower)
        result_.remarks.push_back(fmt::format(
            "Against expectation, the KV cache does not help: {}. Computing so few tokens again costs "
            "less than reading their keys and values back.",
            comparison->sentence));
      result_.comparisons.push_back(std::move(*comparison));
    }
  }

  void fit_positions() {
    Positions on, off;
    for (const CaseResult& c : swept_.cases) {
      if (c.what.scenario != Scenario::cache || c.status != RowStatus::ok || c.samples.empty()) continue;
      append(c.what.uses_cache ? on : off, positions_of(c));
    }
    const auto line_on = fit_polynomial(on.at, on.milliseconds, 1),
               line_off = fit_polynomial(off.at, off.milliseconds, 1);
    const auto curve_on = fit_polynomial(on.at, on.milliseconds, 2),
               curve_off = fit_polynomial(off.at, off.milliseconds, 2);
    if (!line_on || !line_off || !curve_on || !curve_off) return;
    result_.remarks.push_back("With the KV cache, a decode step takes " + text_of(*line_on) +
                              "; as a parabola " + text_of(*curve_on) + ".");
    result_.remarks.push_back("Without the KV cache, a decode step takes " + text_of(*line_off) +
                              "; as a parabola " + text_of(*curve_off) + ".");
    result_.remarks.push_back(crossover_of(*line_on, *line_off));
    add_series("cache on", on);
    add_series("cache off", off);
  }

  // For plots: a row whose samples are the steps.
  void add_series(const std::string& label, const Positions& positions) {
    Row row;
    row.scenario = Scenario::step_times;
    row.label = label;
    row.parameters = {{"configuration", experiment_.baseline.label()}};
    Value at, time;
    at.samples = positions.at;
    at.statistic = time.statistic = "median";
    at.value = median(at.samples);
    time.samples = positions.milliseconds;
    time.value = median(time.samples);
    row.set("position", std::move(at));
    row.set("step_latency_ms", std::move(time));
    result_.rows.push_back(std::move(row));
  }

  void compare_paddings() {
    const CaseResult* none = find(Scenario::padding, "no padding");
    for (const char* label : {"padded left", "padded right"}) {
      const CaseResult* padded = find(Scenario::padding, label);
      if (none == nullptr || padded == nullptr) continue;
      auto comparison = compare_cases(*padded, *none, experiment_, 2);
      if (!comparison) continue;
      const Sample& s = padded->samples.begin()->second;
      result_.remarks.push_back(
          fmt::format("{}: {} of {} computed prompt tokens are padding ({:.0f} %). {}", label,
                      s.computed_prompt_tokens - s.prompt_tokens, s.computed_prompt_tokens,
                      100 * static_cast<double>(s.computed_prompt_tokens - s.prompt_tokens) /
                          static_cast<double>(s.computed_prompt_tokens),
                      comparison->sentence));
      result_.comparisons.push_back(std::move(*comparison));
    }
  }

  const ExperimentContext& experiment_;
  const AblationOptions& options_;
  SweepResult swept_;
  ExperimentResult result_;
};

}  // namespace

std::vector<Case> ablation_cases(const ExperimentContext& experiment, const AblationOptions& options) {
  std::vector<Case> cases;
  const std::int64_t longest = experiment.context - options.new_tokens;
  if (longest < 1)
    throw Error("{} new tokens leave no room for a prompt in the model's context of {}", options.new_tokens,
                experiment.context);
  for (const std::int64_t wanted : options.has_cache ? options.lengths : std::vector<std::int64_t>()) {
    if (wanted < 1) throw UsageError("--lengths: expected whole numbers from 1, found {}", wanted);
    const std::int64_t length = std::min(wanted, longest);
    const std::vector<TokenId> ids = ids_of_length(experiment, options.base, length);
    for (const bool uses_cache : {true, false}) {
      Case what = baseline_case(experiment, Scenario::cache,
                                fmt::format("cache {}, {} tokens", uses_cache ? "on" : "off", length), {ids},
                                options.new_tokens);
      what.uses_cache = uses_cache;
      if (length < wanted)
        what.warnings.push_back(
            {WarningKind::length_reduced,
             fmt::format("{} prompt tokens were asked for, but the context has room for {}", wanted,
                         length)});
      cases.push_back(std::move(what));
    }
  }
  const std::vector<Prompt> prompts = padded_prompts(experiment, options);
  for (const Padding padding : {Padding::none, Padding::left, Padding::right}) {
    if (!options.has_padding) break;
    Case what =
        baseline_case(experiment, Scenario::padding,
                      padding == Padding::none ? "no padding" : fmt::format("padded {}", name_of(padding)),
                      prompts, options.new_tokens);
    what.padding = padding;
    cases.push_back(std::move(what));
  }
  return cases;
}

ExperimentResult ablate_cache_and_padding(const ExperimentContext& experiment,
                                          const AblationOptions& options) {
  return Ablation(experiment, options).run();
}

}  // namespace assay
