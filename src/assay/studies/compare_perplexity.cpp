#include "assay/studies/compare_perplexity.h"

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/generate/scorer.h"
#include "assay/session/perplexity.h"

namespace assay {

namespace {

constexpr double kSuddenRise = 1.5;

Warning rise_warning(double ratio, const std::string& baseline) {
  return {WarningKind::perplexity_rise,
          fmt::format("the perplexity is {:.2f} times that of {}", ratio, baseline)};
}

struct Scored {
  Configuration configuration;
  SessionFacts facts;
  std::optional<CorpusLosses> losses;
  std::string reason;
};

class PerplexityRun {
 public:
  PerplexityRun(const ExperimentContext& experiment, const PerplexityOptions& options)
      : experiment_(experiment), options_(options) {}

  ExperimentResult run() {
    read_corpus(options_.corpus);
    std::vector<Scored> all;
    const TimePoint begin = Clock::now();
    for (std::size_t i = 0; i < options_.configurations.size(); ++i) {
      const SweepOptions& sweep = experiment_.sweep;
      if (sweep.should_stop && sweep.should_stop()) break;
      const Configuration& configuration = options_.configurations[i];
      if (sweep.on_progress)
        sweep.on_progress("perplexity: " + configuration.label(), static_cast<std::int64_t>(i),
                          static_cast<std::int64_t>(options_.configurations.size()),
                          i == 0 ? -1
                                 : elapsed(begin, Clock::now()).value / static_cast<double>(i) *
                                       static_cast<double>(options_.configurations.size() - i));
      Scored scored{configuration, {}, {}, ""};
      if (!score(scored)) break;
      all.push_back(std::move(scored));
    }
    ExperimentResult result;
    result.is_interrupted = all.size() < options_.configurations.size();
    for (const Scored& scored : all) add_row(scored, all.front(), result);
    return result;
  }

 private:
  // False where everything is to end.
  bool score(Scored& scored) {
    Journal* journal = experiment_.sweep.journal;
    const std::string key = scored.configuration.label();
    try {
      if (journal != nullptr) {
        journal->read_each("losses", key, [&](const auto& data) {
          scored.losses = corpus_losses_from_json(data.at("losses"));
          scored.facts = session_facts_from_json(data.at("facts"));
          experiment_.sessions->remember(scored.configuration, scored.facts);
        });
        if (scored.losses) return true;
      }
      if (const std::string why = experiment_.sessions->why_not(scored.configuration); !why.empty())
        throw Error("{}", why);
      Session& subject = experiment_.sessions->of(scored.configuration);
      scored.facts = subject.facts();
      scored.losses =
          subject.score({options_.corpus.string(), options_.context, options_.stride, options_.through});
      if (journal != nullptr)
        journal->append("losses", key,
                        {{"losses", to_json(*scored.losses)}, {"facts", to_json(scored.facts)}});
    } catch (const WorkerLost& lost) {
      experiment_.sessions->drop(scored.configuration);
      if (lost.cause() == WorkerLost::Cause::stopped) return false;
      scored.reason = lost.what();
    } catch (const JournalError&) {
      throw;
    } catch (const Error& error) {
      if (experiment_.sweep.should_stop && experiment_.sweep.should_stop()) return false;
      scored.reason = error.what();
    }
    return true;
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
    row.parameters = {{"configuration", row.label},
                      {"precision", scored.facts.model.dtype.empty() ? row.label : scored.facts.model.dtype},
                      {"device", scored.facts.device},
                      {"kernels", scored.facts.kernels},
                      {"threads", std::to_string(scored.facts.threads)},
                      {"corpus", options_.corpus.filename().string()}};
    row.warnings = scored.facts.warnings;
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
    const std::vector<double> losses = negated(scored.losses->log_probabilities);
    Value loss{mean(losses), block_bootstrap_mean(losses, kLossBlock), {}};
    Value perplexity{std::exp(loss.value), {}, {}};
    if (loss.interval)
      perplexity.interval =
          Interval{std::exp(loss.interval->low), std::exp(loss.interval->high), loss.interval->level};
    row.set("loss", std::move(loss));
    row.set("perplexity", std::move(perplexity));
    row.set("tokens_scored", static_cast<double>(losses.size()));
    row.set("memory_bytes", static_cast<double>(scored.facts.model.memory_bytes));
    if (&scored != &baseline && baseline.losses) compare(baseline, losses, row, result);
    result.rows.push_back(std::move(row));
  }

  void compare(const Scored& baseline, const std::vector<double>& losses, Row& row,
               ExperimentResult& result) const {
    std::vector<double> more = losses;
    if (more.size() != baseline.losses->log_probabilities.size()) return;
    for (std::size_t i = 0; i < more.size(); ++i) more[i] += baseline.losses->log_probabilities[i];
    const int comparisons = static_cast<int>(options_.configurations.size()) - 1;
    const double level = 1 - 0.05 / comparisons;
    const auto interval = block_bootstrap_mean(more, kLossBlock, 1, 4000, level);
    std::optional<Shift> shift;
    if (interval) shift = Shift{mean(more), *interval};
    constexpr double kQualityMargin = 0.005;
    Comparison comparison = compare_shift(shift, static_cast<int>(more.size() / kLossBlock),
                                          {.margin = kQualityMargin, .comparisons = comparisons});
    comparison.ratio = std::exp(mean(more));
    comparison.subject = row.label;
    comparison.baseline = baseline.configuration.label();
    comparison.metric = "perplexity";
    set_sentence(comparison);
    row.set("perplexity_ratio", Value{comparison.ratio, comparison.interval, {}});
    if (comparison.ratio > kSuddenRise)
      row.warnings.push_back(rise_warning(comparison.ratio, comparison.baseline));
    result.comparisons.push_back(std::move(comparison));
  }

  const ExperimentContext& experiment_;
  const PerplexityOptions& options_;
};

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
    if (const auto& [first, of_first] = all.front(); own.ppx > kSuddenRise * of_first.ppx)
      own.warnings.push_back(rise_warning(own.ppx / of_first.ppx, first));
  }
  return all;
}

ExperimentResult compare_perplexity(const ExperimentContext& experiment, const PerplexityOptions& options) {
  return PerplexityRun(experiment, options).run();
}

}  // namespace assay
