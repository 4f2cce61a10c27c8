#include "assay/studies/compare_perplexity.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/worker_protocol.h"
#include "assay/model/model.h"
#include "assay/session/perplexity.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/session_result.h"
#include "assay/studies/text_windows.h"

namespace assay {

namespace {

constexpr double kSuddenRise = 1.5;

Warning rise_warning(double ratio, const std::string& baseline) {
  return {WarningKind::perplexity_rise,
          fmt::format("the perplexity is {:.2f} times that of {}", ratio, baseline), ratio, kSuddenRise};
}

struct Scored {
  RunConfig configuration;
  SessionFacts facts;
  std::optional<CorpusLosses> losses;
  std::string reason;
};

std::filesystem::path corpus_of(const PerplexityOptions& options) {
  return options.corpus ? *options.corpus : shipped_file("texts/evaluate.txt");
}

std::vector<RunConfig> configurations_of(const ExperimentContext& context, const PerplexityOptions& options) {
  if (!options.configurations.empty()) return options.configurations;
  return choose_configurations(context, precisions_or_default(context, options.precisions)).configurations;
}

std::string scored_key(const RunConfig& configuration) {
  Case spec;
  spec.scenario = Scenario::perplexity;
  spec.label = configuration.label();
  return choice_key(spec);
}

std::vector<RunConfig> chosen_configurations(const ExperimentContext& context,
                                             const PerplexityOptions& options) {
  std::vector<RunConfig> all = configurations_of(context, options);
  if (const ChosenStudy* chosen = context.choice ? context.choice->find("perplexity") : nullptr)
    std::erase_if(all, [&](const RunConfig& c) { return chosen->left_out.count(scored_key(c)) > 0; });
  return all;
}

// Models beside each other read windows of one length, that of the shortest context.
std::optional<std::int64_t> window_of(const ExperimentContext& context, const PerplexityOptions& options) {
  std::optional<std::int64_t> window = options.context;
  if (!window)
    for (const ContextModel& model : context.models)
      window = std::min(window.value_or(model.context_length), model.context_length);
  return window;
}

class PerplexityRun {
 public:
  PerplexityRun(const ExperimentContext& context, const PerplexityOptions& options)
      : context_(context),
        options_(options),
        corpus_(corpus_of(options)),
        configurations_(chosen_configurations(context, options)) {}

  ExperimentResult run() {
    text_ = read_corpus(corpus_, context_.baseline.newlines).text;
    std::vector<Scored> all;
    prepare_processes(context_, configurations_, "losses", [](const RunConfig& c) { return c.key(); });
    const TimePoint begin = context_.sweep.clock();
    for (std::size_t i = 0; i < configurations_.size(); ++i) {
      const SweepOptions& sweep = context_.sweep;
      if (sweep.should_stop && sweep.should_stop()) break;
      const RunConfig& configuration = configurations_[i];
      if (i > 0 && is_too_late(context_, "losses", configuration.key())) {
        late_.push_back(
            {.study = "perplexity", .what = configuration.label(), .reason = std::string(kSlower)});
        continue;
      }
      if (sweep.on_progress)
        sweep.on_progress("perplexity: " + configuration.label(), static_cast<std::int64_t>(i),
                          static_cast<std::int64_t>(configurations_.size()),
                          i == 0
                              ? std::nullopt
                              : std::optional(elapsed(begin, sweep.clock()).value / static_cast<double>(i) *
                                              static_cast<double>(configurations_.size() - i)));
      Scored scored{configuration, {}, {}, ""};
      if (!score(scored)) break;
      all.push_back(std::move(scored));
    }
    context_.sessions->end_prepared();
    ExperimentResult result;
    result.is_interrupted = all.size() + late_.size() < configurations_.size();
    result.left_out = late_;
    for (const Scored& scored : all) add_row(scored, all.front(), result);
    return result;
  }

 private:
  // False once the whole run is stopped.
  bool score(Scored& scored) {
    const RunConfig& configuration = scored.configuration;
    auto measured = measured_once(context_, configuration, "losses", configuration.key(), "losses",
                                  corpus_losses_from_json, [&](Session& session) {
                                    return session.score({corpus_.string(), window_of(context_, options_),
                                                          options_.stride, options_.through});
                                  });
    scored.losses = std::move(measured.value);
    scored.facts = std::move(measured.facts);
    scored.reason = std::move(measured.reason);
    return !measured.is_stopped;
  }

  static std::vector<double> negated(const std::vector<double>& values) {
    std::vector<double> all;
    for (const double v : values) all.push_back(-v);
    return all;
  }

  Row new_row(const Scored& scored) const {
    Row row;
    row.scenario = Scenario::perplexity;
    row.label = scored.configuration.label();
    row.parameters = parameters_of(scored.configuration, scored.facts);
    row.parameters.emplace_back("corpus", corpus_.filename().string());
    row.setting = setting_of(scored.configuration, scored.facts);
    row.warnings = scored.facts.warnings;
    if (scored.configuration.model) row.parameters.emplace_back("model", *scored.configuration.model);
    return row;
  }

  void add_row(const Scored& scored, const Scored& baseline, ExperimentResult& result) const {
    Row row = new_row(scored);
    if (!scored.losses) {
      row.status = RowStatus::error;
      row.reason = scored.reason;
      result.rows.push_back(std::move(row));
      return;
    }
    row.parameters.emplace_back("corpus_sha256", scored.losses->corpus_sha256);
    row.parameters.emplace_back("protocol", scored.losses->protocol);
    row.warnings.insert(row.warnings.end(), scored.losses->warnings.begin(), scored.losses->warnings.end());
    const std::vector<double> losses = negated(scored.losses->log_probabilities);
    Value loss{statistics::mean(losses), {}, {}};
    Value perplexity{std::exp(loss.value), {}, {}};
    // Losses of neighbouring passages depend on each other: blocks have to be longer than for differences.
    const std::vector<double> blocks = statistics::block_means(losses, statistics::kTextBlock);
    if (auto effect = statistics::effect_of(blocks); effect && blocks.size() >= statistics::kMinForInterval) {
      effect->estimate = loss.value;
      loss.interval = effect->interval(0.95);
      perplexity.interval = statistics::Interval{std::exp(loss.interval->low), std::exp(loss.interval->high),
                                                 loss.interval->level};
    }
    row.set("loss", std::move(loss));
    row.set("perplexity", std::move(perplexity));
    row.losses = loss_blocks(losses);
    row.set("tokens_scored", static_cast<double>(losses.size()));
    row.set("memory_bytes", static_cast<double>(scored.facts.model.memory_bytes));
    if (&scored != &baseline && baseline.losses) compare(scored, baseline, losses, row, result);
    result.rows.push_back(std::move(row));
  }

  // A perplexity is of tokens: those of another segmentation are no measure of it.
  bool have_equal_ids(const RunConfig& a, const RunConfig& b) const {
    if (a.model == b.model) return true;
    return encode(context_.model_of(a).tokenizer.get(), text_) ==
           encode(context_.model_of(b).tokenizer.get(), text_);
  }

  void compare(const Scored& scored, const Scored& baseline, const std::vector<double>& losses, Row& row,
               ExperimentResult& result) const {
    if (!have_equal_ids(scored.configuration, baseline.configuration)) {
      row.warnings.push_back(
          {WarningKind::other_tokens,
           fmt::format(
               "its tokenizer gives the text other tokens than that of {}: their perplexities are not "
               "compared",
               *baseline.configuration.model)});
      return;
    }
    if (scored.losses->protocol != baseline.losses->protocol) {
      row.warnings.push_back(
          {WarningKind::other_protocol,
           fmt::format("it was scored by '{}' and {} by '{}': their perplexities are not compared",
                       scored.losses->protocol, baseline.configuration.label(), baseline.losses->protocol)});
      return;
    }
    std::vector<double> more = losses;
    if (more.size() != baseline.losses->log_probabilities.size()) return;
    for (std::size_t i = 0; i < more.size(); ++i) more[i] += baseline.losses->log_probabilities[i];
    Comparison comparison = compare_losses(more, kQualityMargin);
    comparison.scenario = Scenario::perplexity;
    comparison.subject = row.label;
    comparison.baseline = baseline.configuration.label();
    row.set("perplexity_ratio", comparison.ratio);
    if (comparison.ratio > kSuddenRise)
      row.warnings.push_back(rise_warning(comparison.ratio, comparison.baseline));
    result.comparisons.push_back(std::move(comparison));
  }

  const ExperimentContext& context_;
  const PerplexityOptions& options_;
  const std::filesystem::path corpus_;
  const std::vector<RunConfig> configurations_;
  std::vector<LeftOut> late_;
  std::string text_;
};

// It is no sweep: there is nothing to list, only to check.
std::vector<Case> perplexity_cases(const ExperimentContext& context, const PerplexityOptions& options) {
  read_corpus(corpus_of(options), context.baseline.newlines);
  configurations_of(context, options);
  return {};
}

TextWindows perplexity_windows(const ExperimentContext& context, const PerplexityOptions& options) {
  const std::string text = read_corpus(corpus_of(options), context.baseline.newlines).text;
  return text_windows(context, Scenario::perplexity, std::ssize(encode(context, text)),
                      window_of(context, options), options.stride);
}

double predicted_perplexity_s(const ExperimentContext& context, const PerplexityOptions& options,
                              const PredictedSeconds& run_s_of) {
  TextWindows windows = perplexity_windows(context, options);
  double all = 0;
  for (const RunConfig& configuration : configurations_of(context, options)) {
    windows.one.configuration = configuration;
    all += windows.count * run_s_of(windows.one);
  }
  return all;
}

// A case for each configuration, which is loaded and scored once.
void add_perplexity_costs(const ExperimentContext& context, const PerplexityOptions& options,
                          const CostOf& cost_of, CostedStudy& costed) {
  const TextWindows windows = perplexity_windows(context, options);
  const std::vector<RunConfig> configurations = configurations_of(context, options);
  add_measured_once(configurations,
                    {Need::perplexity, scored_key,
                     [&](const CaseCost& cost) { return seconds_of(windows, cost); }, windows.one},
                    cost_of, costed);
  add_precisions(context, options.precisions, configurations, costed);
}

}  // namespace

std::vector<std::pair<std::string, LossAndPerplexity>> compare_ppplx(
    const std::vector<std::pair<std::string, const LoadedModel*>>& models,
    const std::vector<std::string>& sentences) {
  std::vector<std::pair<std::string, LossAndPerplexity>> all;
  for (const auto& [label, loaded] : models) {
    LossAndPerplexity& own = all.emplace_back(label, LossAndPerplexity{}).second;
    double sum = 0;
    for (const std::string& sentence : sentences) {
      const std::vector<TokenId> ids = prompt_ids(*loaded, sentence);
      if (ids.size() < 2) continue;  // nothing to predict
      const Score scored = score(loaded->model->program(), ids, {});
      sum += scored.loss * static_cast<double>(scored.tokens_scored);
      own.tokens += scored.tokens_scored;
    }
    if (own.tokens == 0) throw Error("{}: expected a sentence of two tokens or more, found none", label);
    own.loss = sum / static_cast<double>(own.tokens);
    own.ppx = std::exp(own.loss);
    if (std::string warning = uniform_warning(own.ppx, loaded->model->spec().vocab); !warning.empty())
      own.warnings.push_back({WarningKind::worse_than_uniform, std::move(warning), own.ppx,
                              static_cast<double>(loaded->model->spec().vocab)});
    if (const auto& [first, of_first] = all.front(); own.ppx > kSuddenRise * of_first.ppx)
      own.warnings.push_back(rise_warning(own.ppx / of_first.ppx, first));
  }
  return all;
}

Study perplexity_study() {
  using Options = PerplexityOptions;
  return to_study<Options>(
      {.name = "perplexity",
       .title = "Perplexity",
       .description = "Compare the perplexity of precisions on one text",
       .options = with_more(text_options<Options>(),
                            choice("through", &Options::through, score_through_from_name, name_of,
                                   "Phase that scores the text: prefill, or decode, token by token",
                                   {.name_in_run = "through"})),
       .is_in_suite = true,
       .cases = perplexity_cases,
       .run = [](const ExperimentContext& context,
                 const Options& options) { return PerplexityRun(context, options).run(); },
       .predict_s = predicted_perplexity_s,
       .add_costs = add_perplexity_costs,
       .share = [](const SharedOptions& shared,
                   Options& options) { options.precisions = shared.precisions; }});
}

ExperimentResult compare_perplexity(const ExperimentContext& context, const PerplexityOptions& options) {
  return perplexity_study().run(context, options);
}

}  // namespace assay
