#include "assay/results/limited_choice.h"

#include <algorithm>
#include <cmath>

#include "assay/results/judge.h"
#include "assay/results/metric.h"

namespace assay {

namespace {

// How far a figure is known.
struct Figure {
  double low = 0, value = 0, high = 0;
};

enum class Keeps { yes, perhaps, no, unmeasured };

struct Candidate {
  const Row* row = nullptr;
  std::string label;
  double goal = 0;
};

std::string_view goal_tag(Goal goal) {
  switch (goal) {
    case Goal::fastest:
      return "total_latency_s";
    case Goal::smallest:
      return "resident_weights_bytes";
    case Goal::throughput:
      return "tokens_per_sec";
  }
  return "";
}

std::string label_of(const Row& row) {
  if (row.scenario == Scenario::batched_precisions) return label_in_batches(row);
  if (row.scenario != Scenario::batches || row.parameter("configuration").empty()) return row.label;
  return row.label + " of " + row.parameter("configuration");
}

class Chooser {
 public:
  Chooser(const ResultSet& results, const Limits& limits, double margin, Scenario scenario)
      : results_(results), limits_(limits), margin_(margin), scenario_(scenario) {
    if (scenario_ == Scenario::tradeoff && !has_rows(scenario_)) scenario_ = Scenario::precisions;
    for (const Row& row : results.rows) {
      const Value* value = row.find(goal_tag(limits.goal));
      if (row.scenario == scenario_ && row.status == RowStatus::ok && value != nullptr)
        candidates_.push_back({&row, label_of(row), value->value});
    }
    const bool is_more_better = limits.goal == Goal::throughput;
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
      return is_more_better ? a.goal > b.goal : a.goal < b.goal;
    });
  }

  std::optional<LimitedChoice> run() {
    if (candidates_.empty()) return std::nullopt;
    LimitedChoice choice;
    choice.limits = limits_;
    choice.scenario = scenario_;
    choice.candidates = static_cast<int>(candidates_.size());
    for (const Limit& limit : limits_.limits)
      if (std::none_of(candidates_.begin(), candidates_.end(),
                       [&](const Candidate& c) { return figure(c, limit).has_value(); }))
        choice.unmeasured.push_back(limit.name);
    std::vector<const Candidate*> keeping;
    for (const Candidate& c : candidates_) {
      const Keeps all = keeps(c, limits_.limits);
      if (all == Keeps::yes) keeping.push_back(&c);
      if (all == Keeps::perhaps) choice.uncertain.push_back(c.label);
    }
    if (keeping.empty()) {
      add_nearest(choice);
      return choice;
    }
    add_best(keeping, choice);
    for (const Limit& limit : limits_.limits) add_binding(limit, *keeping.front(), choice);
    return choice;
  }

 private:
  bool has_rows(Scenario scenario) const {
    return std::any_of(results_.rows.begin(), results_.rows.end(),
                       [&](const Row& row) { return row.scenario == scenario; });
  }
  const std::string& configuration_of(const Row& row) const {
    const std::string& own = row.parameter("configuration");
    return row.scenario == Scenario::batches && !own.empty() ? own : row.label;
  }

  // A loss is known as far as its comparison with the baseline is.
  std::optional<Figure> perplexity_ratio(const Candidate& c) const {
    for (const Comparison& own : results_.comparisons) {
      if (own.metric != "perplexity") continue;
      if (own.baseline == configuration_of(*c.row)) return Figure{1, 1, 1};
      if (own.subject == configuration_of(*c.row))
        return own.interval ? Figure{own.interval->low, own.ratio, own.interval->high}
                            : Figure{own.ratio, own.ratio, own.ratio};
    }
    return std::nullopt;
  }

  std::optional<Figure> figure(const Candidate& c, const Limit& limit) const {
    const LimitKind& kind = kind_of(limit);
    if (kind.tag == "perplexity_ratio")
      if (auto found = perplexity_ratio(c)) return found;
    const Value* value = c.row->find(kind.tag);
    // What a batch was not measured for, its configuration alone was.
    for (const Row& row : results_.rows)
      if (value == nullptr && row.scenario == Scenario::tradeoff && row.status == RowStatus::ok &&
          row.label == configuration_of(*c.row))
        value = row.find(kind.tag);
    if (value == nullptr || !std::isfinite(value->value)) return std::nullopt;
    return Figure{value->low().value_or(value->value), value->value, value->high().value_or(value->value)};
  }

  Keeps keeps(const Candidate& c, const Limit& limit) const {
    const auto found = figure(c, limit);
    if (!found) return Keeps::unmeasured;
    const bool is_minimum = kind_of(limit).is_minimum;
    const double worst = is_minimum ? found->low : found->high, best = is_minimum ? found->high : found->low;
    const auto is_within = [&](double value) {
      return is_minimum ? value >= limit.bound : value <= limit.bound;
    };
    return is_within(worst) ? Keeps::yes : is_within(best) ? Keeps::perhaps : Keeps::no;
  }
  Keeps keeps(const Candidate& c, const std::vector<Limit>& limits) const {
    Keeps all = Keeps::yes;
    for (const Limit& limit : limits) all = std::max(all, keeps(c, limit));
    return all;
  }

  // Tests the others against the first, which was chosen as the best of all candidates.
  std::vector<Comparison> against_first(const std::vector<const Candidate*>& keeping) const {
    std::vector<Comparison> all;
    for (std::size_t i = 1; i < keeping.size(); ++i)
      if (auto c = compare_rows(*keeping[i]->row, *keeping.front()->row, "total_latency_s", margin_)) {
        c->chosen_among = static_cast<int>(keeping.size());
        c->subject = keeping[i]->label;
        c->baseline = keeping.front()->label;
        all.push_back(std::move(*c));
      }
    std::vector<Comparison*> family;
    for (Comparison& c : all) family.push_back(&c);
    judge(family);
    return all;
  }

  void add_best(const std::vector<const Candidate*>& keeping, LimitedChoice& choice) const {
    const Candidate& first = *keeping.front();
    choice.best = {first.label};
    choice.goal_value = first.goal;
    choice.is_tested = true;
    const std::vector<Comparison> tests =
        limits_.goal == Goal::smallest ? std::vector<Comparison>() : against_first(keeping);
    for (std::size_t i = 1; i < keeping.size(); ++i) {
      const Candidate& other = *keeping[i];
      bool is_worse = limits_.goal == Goal::smallest && other.goal > first.goal, is_tied = !is_worse;
      const Comparison* test = nullptr;
      for (const Comparison& c : tests)
        if (c.subject == other.label) test = &c;
      if (limits_.goal != Goal::smallest) {
        is_worse = test != nullptr && test->verdict == Verdict::higher;
        is_tied = test != nullptr && test->verdict == Verdict::no_difference;
        choice.is_tested = choice.is_tested && test != nullptr && test->verdict != Verdict::too_few;
      }
      if (!is_worse) {
        choice.best.push_back(other.label);
        if (is_tied) choice.tied.push_back(other.label);
      } else if (choice.runner_up.empty()) {
        choice.runner_up = other.label;
        choice.runner_up_value = other.goal;
        if (test != nullptr) choice.runner_up_against_best = *test;
      }
    }
  }

  void add_binding(const Limit& limit, const Candidate& chosen, LimitedChoice& choice) const {
    std::vector<Limit> others;
    for (const Limit& one : limits_.limits)
      if (one != limit) others.push_back(one);
    const auto better = std::find_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) {
      return c.goal != chosen.goal && keeps(c, others) == Keeps::yes && figure(c, limit).has_value();
    });
    // Candidates are in the order of the goal: whatever stands behind the chosen one is no better.
    if (better == candidates_.end() || &*better > &chosen) return;
    const Figure own = *figure(*better, limit);
    const bool is_minimum = kind_of(limit).is_minimum;
    Limit looser = limit;
    looser.bound = is_minimum ? limit.bound / 1.1 : limit.bound * 1.1;
    choice.binding.push_back({limit, better->label, is_minimum ? own.low : own.high,
                              better->goal / chosen.goal, keeps(*better, looser) == Keeps::yes});
  }

  // By how much a figure misses a bound: 0.2 is a fifth.
  double excess(const Candidate& c, const Limit& limit) const {
    const auto found = figure(c, limit);
    if (!found) return INFINITY;
    const double worst =
        kind_of(limit).is_minimum ? limit.bound / std::max(found->low, 1e-300) : found->high / limit.bound;
    return std::max(0.0, worst - 1);
  }

  void add_nearest(LimitedChoice& choice) const {
    double least = INFINITY;
    const Candidate* nearest = nullptr;
    for (const Candidate& c : candidates_) {
      double most = 0;
      for (const Limit& limit : limits_.limits) most = std::max(most, excess(c, limit));
      if (most < least) {
        least = most;
        nearest = &c;
      }
    }
    if (nearest == nullptr) return;
    choice.nearest = nearest->label;
    for (const Limit& limit : limits_.limits)
      if (excess(*nearest, limit) > 0) {
        const Figure own = *figure(*nearest, limit);
        choice.nearest_excess.push_back({limit, kind_of(limit).is_minimum ? own.low : own.high});
      }
  }

  const ResultSet& results_;
  const Limits& limits_;
  double margin_;
  Scenario scenario_;
  std::vector<Candidate> candidates_;  // the best by the goal first
};

}  // namespace

std::optional<LimitedChoice> choose_within(const ResultSet& results, const Limits& limits, double margin) {
  if (limits.goal != Goal::throughput) return Chooser(results, limits, margin, Scenario::tradeoff).run();
  // Rows of two sweeps are not tested against each other: precisions come first, then sizes of batches.
  std::optional<LimitedChoice> precisions = best_precision_in_batches(results, limits, margin);
  if (precisions && !precisions->best.empty()) return precisions;
  std::optional<LimitedChoice> sizes = Chooser(results, limits, margin, Scenario::batches).run();
  return sizes && (!precisions || !sizes->best.empty()) ? sizes : precisions;
}

std::string label_in_batches(const Row& row) {
  return fmt::format("batch {} of {}", row.setting.batch_size, row.label);
}

std::optional<LimitedChoice> best_precision_in_batches(const ResultSet& results, const Limits& limits,
                                                       double margin) {
  return Chooser(results, limits, margin, Scenario::batched_precisions).run();
}

}  // namespace assay
