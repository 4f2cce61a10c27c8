#include "assay/results/results.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "assay/results/judge.h"
#include "assay/results/metric.h"

namespace assay {

void Row::set(std::string_view tag, Value value) {
  metric(tag);  // refuses a tag that is not in the catalogue
  for (auto& [name, old] : values)
    if (name == tag) {
      old = std::move(value);
      return;
    }
  values.emplace_back(std::string(tag), std::move(value));
}

const Value* Row::find(std::string_view tag) const {
  for (const auto& [name, value] : values)
    if (name == tag) return &value;
  return nullptr;
}

const std::string& Row::parameter(std::string_view key) const {
  static const std::string none;
  for (const auto& [name, value] : parameters)
    if (name == key) return value;
  return none;
}

int Row::processes() const {
  std::set<int> all;
  for (const SampleId& place : places) all.insert(place.process);
  return std::max(1, static_cast<int>(all.size()));
}

LossBlocks loss_blocks(std::span<const double> losses) {
  LossBlocks blocks;
  blocks.tokens = static_cast<std::int64_t>(losses.size());
  constexpr auto kTokens = static_cast<std::size_t>(LossBlocks::kTokens);
  for (std::size_t i = 0; i < losses.size(); i += kTokens) {
    double sum = 0;
    for (const double loss : losses.subspan(i, std::min(kTokens, losses.size() - i))) sum += loss;
    blocks.sums.push_back(sum);
  }
  return blocks;
}

Value value_of_repeats(std::vector<double> in_time_order) {
  Value value;
  value.interval = statistics::repeated_median_interval(in_time_order);
  value.statistic = value.interval ? "median" : "mean";
  value.value = value.interval ? statistics::median(in_time_order) : statistics::mean(in_time_order);
  value.samples = std::move(in_time_order);
  return value;
}

Value value_of_processes(std::vector<double> samples, std::span<const SampleId> places) {
  std::map<int, std::vector<double>> by_process;
  for (std::size_t i = 0; i < samples.size(); ++i) by_process[places[i].process].push_back(samples[i]);
  const auto processes = static_cast<int>(by_process.size());
  if (processes < 2) {
    Value value = value_of_repeats(std::move(samples));
    value.processes = processes;
    return value;
  }
  std::vector<double> medians;
  for (const auto& [process, own] : by_process) medians.push_back(statistics::median(own));
  // A factor disturbs times, not a sum: their logarithms are what is about normal.
  const bool are_positive = std::all_of(medians.begin(), medians.end(), [](double x) { return x > 0; });
  if (are_positive)
    for (double& m : medians) m = std::log(m);
  const auto back = [&](double x) { return are_positive ? std::exp(x) : x; };
  const auto effect = statistics::effect_of(medians);
  Value value{.value = back(effect->estimate), .interval = {}, .samples = std::move(samples)};
  value.statistic = "mean of medians";
  value.processes = processes;
  if (processes >= kMinProcesses) {
    const statistics::Interval interval = effect->interval(0.95);
    value.interval = statistics::Interval{back(interval.low), back(interval.high), interval.level};
  }
  return value;
}

std::vector<std::vector<double>> paired_log_ratios(const Row& subject, const Row& baseline,
                                                   std::string_view metric) {
  const Value *own = subject.find(metric), *other = baseline.find(metric);
  if (own == nullptr || other == nullptr || own->samples.size() != subject.places.size() ||
      other->samples.size() != baseline.places.size())
    return {};
  std::map<SampleId, double> of_baseline;
  for (std::size_t i = 0; i < other->samples.size(); ++i) of_baseline[baseline.places[i]] = other->samples[i];
  std::map<int, std::vector<double>> by_process;
  for (std::size_t i = 0; i < own->samples.size(); ++i)
    if (const auto at = of_baseline.find(subject.places[i]); at != of_baseline.end())
      by_process[subject.places[i].process].push_back(
          std::log(std::max(1e-300, own->samples[i]) / std::max(1e-300, at->second)));
  std::vector<std::vector<double>> ratios;
  for (auto& [process, all] : by_process) ratios.push_back(std::move(all));
  return ratios;
}

std::optional<Comparison> compare_rows(const Row& subject, const Row& baseline, std::string_view metric,
                                       double margin) {
  const std::vector<std::vector<double>> ratios = paired_log_ratios(subject, baseline, metric);
  if (ratios.empty()) return std::nullopt;
  Comparison comparison = compare_processes(ratios, margin);
  comparison.scenario = subject.scenario;
  comparison.subject = subject.label;
  comparison.baseline = baseline.label;
  comparison.metric = metric;
  return comparison;
}

namespace {

constexpr std::string_view kRankedBy = "total_latency_s";
// Whose rows do the same work, so that one of them is the fastest.
constexpr Scenario kRanked[] = {Scenario::tradeoff,           Scenario::precisions, Scenario::batches,
                                Scenario::batched_precisions, Scenario::threads,    Scenario::kv_cache};

std::vector<const Row*> timed_rows(const std::vector<Row>& rows, Scenario scenario) {
  std::vector<const Row*> timed;
  for (const Row& row : rows)
    if (row.scenario == scenario && row.status == RowStatus::ok && row.find(kRankedBy) != nullptr)
      timed.push_back(&row);
  std::stable_sort(timed.begin(), timed.end(), [](const Row* a, const Row* b) {
    return a->find(kRankedBy)->value < b->find(kRankedBy)->value;
  });
  return timed;
}

// How far processes of one row differ beyond what all rows of their visit have in common: what other rows
// show of it counts as some processes of a row's own.
class Priors {
 public:
  explicit Priors(const std::vector<Row>& rows) {
    for (const ScenarioInfo& info : scenarios()) {
      const std::vector<statistics::EstimatedVariance> own = variances_of(rows, info.value);
      all_.insert(all_.end(), own.begin(), own.end());
      if (const auto prior = statistics::variance_prior(own); prior.degrees > 0)
        by_scenario_[info.value] = prior;
    }
  }

  // The interval of the difference of two rows.
  statistics::VariancePrior of_difference(Scenario scenario) const {
    const auto at = by_scenario_.find(scenario);
    statistics::VariancePrior prior =
        at != by_scenario_.end() ? at->second : statistics::variance_prior(all_);
    prior.variance *= 2;
    return prior;
  }

 private:
  static std::vector<statistics::EstimatedVariance> variances_of(const std::vector<Row>& rows,
                                                                 Scenario scenario) {
    // Rows that ran in the same processes are one table.
    std::map<std::vector<int>, std::vector<std::vector<double>>> tables;
    for (const Row& row : rows) {
      const Value* value = row.find(kRankedBy);
      if (row.scenario != scenario || value == nullptr || value->samples.size() != row.places.size())
        continue;
      std::map<int, std::vector<double>> by_process;
      for (std::size_t i = 0; i < row.places.size(); ++i)
        by_process[row.places[i].process].push_back(std::log(std::max(1e-300, value->samples[i])));
      std::vector<int> processes;
      std::vector<double> medians;
      for (const auto& [process, own] : by_process) {
        processes.push_back(process);
        medians.push_back(statistics::median(own));
      }
      tables[processes].push_back(std::move(medians));
    }
    std::vector<statistics::EstimatedVariance> all;
    for (const auto& [processes, table] : tables)
      if (static_cast<int>(processes.size()) >= kMinProcesses)
        for (const double variance : statistics::row_variances(table))
          all.push_back({variance, static_cast<double>(processes.size() - 1)});
    return all;
  }

  std::map<Scenario, statistics::VariancePrior> by_scenario_;
  std::vector<statistics::EstimatedVariance> all_;
};

const Comparison* find_comparison(const std::vector<Comparison>& all, Scenario scenario,
                                  std::string_view subject, std::string_view baseline,
                                  std::string_view metric) {
  for (const Comparison& c : all)
    if (c.scenario == scenario && c.subject == subject && c.baseline == baseline && c.metric == metric)
      return &c;
  return nullptr;
}

template <typename T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// For a result set or an experiment's result, which hold the same lists.
template <typename Results>
void append_lists(Results& to, ExperimentResult& from) {
  append(to.rows, from.rows);
  append(to.comparisons, from.comparisons);
  append(to.other_comparisons, from.other_comparisons);
  append(to.audit, from.audit);
  append(to.texts, from.texts);
  append(to.findings, from.findings);
  append(to.left_out, from.left_out);
  if (from.noise) to.noise = from.noise;
}

// What a row's figure is to the baseline's, with the interval that the test gives it.
void set_ratio(std::vector<Row>& rows, const Comparison& c) {
  const char* tag = c.metric == kRankedBy      ? "time_ratio"
                    : c.metric == "perplexity" ? "perplexity_ratio"
                                               : nullptr;
  if (tag == nullptr) return;
  for (Row& row : rows)
    if (row.scenario == c.scenario && row.label == c.subject && row.status == RowStatus::ok)
      row.set(tag, Value{c.ratio, c.interval, {}});
}

}  // namespace

void ExperimentResult::add(ExperimentResult other) {
  append_lists(*this, other);
  is_interrupted = is_interrupted || other.is_interrupted;
}

void ExperimentResult::judge_all(double margin, bool has_planning) {
  for (const Scenario scenario : kRanked) {
    const std::vector<const Row*> timed = timed_rows(rows, scenario);
    for (std::size_t i = 1; i < timed.size(); ++i) {
      auto against_best = compare_rows(*timed[i], *timed.front(), kRankedBy, margin);
      if (!against_best) continue;
      against_best->chosen_among = static_cast<int>(timed.size());
      for (const Comparison& c : comparisons)
        if (c.scenario == scenario && c.seconds_each > 0) against_best->seconds_each = c.seconds_each;
      other_comparisons.push_back(std::move(*against_best));
    }
  }
  std::vector<Comparison*> family;
  for (Comparison& c : comparisons) family.push_back(&c);
  for (Comparison& c : other_comparisons) family.push_back(&c);
  const Priors priors(rows);
  for (Comparison* c : family)
    if (c->metric == kRankedBy && c->effect)
      c->effect = statistics::with_prior(*c->effect, priors.of_difference(c->scenario));
  judge(family, has_planning ? Planning::estimated : Planning::left_out);
  for (const Comparison& c : comparisons) set_ratio(rows, c);
}

const Comparison* ExperimentResult::comparison(Scenario scenario, std::string_view subject,
                                               std::string_view baseline, std::string_view metric) const {
  const Comparison* found = find_comparison(comparisons, scenario, subject, baseline, metric);
  return found != nullptr ? found : find_comparison(other_comparisons, scenario, subject, baseline, metric);
}

std::vector<const Row*> best_rows(const std::vector<Row>& rows, const std::vector<Comparison>& comparisons,
                                  Scenario scenario) {
  const std::vector<const Row*> timed = timed_rows(rows, scenario);
  if (timed.size() < 2) return {};
  std::vector<const Row*> best = {timed.front()};
  bool is_tested = false;
  for (std::size_t i = 1; i < timed.size(); ++i) {
    const Comparison* c =
        find_comparison(comparisons, scenario, timed[i]->label, timed.front()->label, kRankedBy);
    is_tested = is_tested || (c != nullptr && c->verdict != Verdict::too_few);
    if (c == nullptr || c->verdict != Verdict::higher) best.push_back(timed[i]);
  }
  if (!is_tested) best.clear();
  return best;
}

const Row* ExperimentResult::find(const std::string& label) const {
  for (const Row& row : rows)
    if (row.label == label && row.status == RowStatus::ok) return &row;
  return nullptr;
}

void ResultSet::add(ExperimentResult found) {
  append_lists(*this, found);
  if (found.is_interrupted) status = RunStatus::interrupted;
}

}  // namespace assay
