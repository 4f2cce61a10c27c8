#include "assay/results/judge.h"

#include <algorithm>
#include <cmath>

namespace assay {

namespace {

constexpr double kFamilyLevel = 0.95;
constexpr int kMaxTimes = 100;  // as many replicates: beyond it a number says nothing

// The best of n stands for the best of n (n - 1) / 2 pairs, of which n - 1 are tested.
double selection_of(const Comparison& c) {
  return std::max(1.0, c.chosen_among / 2.0);
}

// Effects that contradict each other show nothing.
double p_value_of(std::span<const statistics::Effect> effects) {
  double p = 0;
  bool is_higher = false, is_lower = false;
  for (const statistics::Effect& effect : effects) {
    p = std::max(p, effect.p_value());
    (effect.estimate > 0 ? is_higher : is_lower) = true;
  }
  return is_higher && is_lower ? 1 : p;
}

// What all of them leave possible.
statistics::Interval interval_of(std::span<const statistics::Effect> effects, double level) {
  statistics::Interval all = effects.front().interval(level);
  for (const statistics::Effect& effect : effects) {
    const statistics::Interval own = effect.interval(level);
    all.low = std::min(all.low, own.low);
    all.high = std::max(all.high, own.high);
  }
  return all;
}

// The one that says least.
const statistics::Effect& least_of(std::span<const statistics::Effect> effects) {
  const auto is_nearer = [](const statistics::Effect& a, const statistics::Effect& b) {
    return std::abs(a.estimate) < std::abs(b.estimate);
  };
  return *std::min_element(effects.begin(), effects.end(), is_nearer);
}

int more_needed(std::span<const statistics::Effect> effects, double margin, double level) {
  int most = 1;
  for (const statistics::Effect& effect : effects) {
    const auto now = static_cast<int>(effect.replicates);
    const auto needed = statistics::replicates_needed(effect, margin, level, kMaxTimes * now);
    if (!needed) return kNotInReach;
    most = std::max(most, *needed - now);
  }
  return most;
}

void judge_at(const Judged& judged, int divisor, Planning planning) {
  Comparison& c = *judged.comparison;
  const double level = 1 - (1 - kFamilyLevel) / divisor / selection_of(c);
  const statistics::Interval logs = interval_of(judged.effects, level);
  c.interval = statistics::Interval{std::exp(logs.low), std::exp(logs.high), logs.level};
  const double margin = std::log1p(c.margin);
  c.more_needed = 0;
  if (logs.low > -margin && logs.high < margin) {
    c.verdict = Verdict::no_difference;
  } else if (*c.p_value <= 1 - level) {
    c.verdict = judged.effects.front().estimate > 0 ? Verdict::higher : Verdict::lower;
  } else {
    c.verdict = Verdict::cannot_tell;
    if (planning == Planning::estimated) c.more_needed = more_needed(judged.effects, margin, level);
  }
  if (planning == Planning::left_out) return;
  double shown = 0;  // in every unit
  for (const statistics::Effect& effect : judged.effects)
    shown = std::max(shown, statistics::detectable_difference(effect, level));
  c.detectable_difference = std::expm1(shown);
}

}  // namespace

void judge_family(std::span<const Judged> family, Planning planning) {
  std::vector<const Judged*> tested;
  std::vector<double> p_values;
  for (const Judged& judged : family) {
    Comparison& c = *judged.comparison;
    if (judged.effects.empty()) {
      c.verdict = Verdict::too_few;
      continue;
    }
    c.p_value = p_value_of(judged.effects);
    if (judged.effects.size() > 1) c.ratio = std::exp(least_of(judged.effects).estimate);
    tested.push_back(&judged);
    p_values.push_back(std::min(1.0, *c.p_value * selection_of(c)));
  }
  const std::vector<int> divisors = statistics::holm_divisors(p_values, 1 - kFamilyLevel);
  for (std::size_t i = 0; i < tested.size(); ++i) judge_at(*tested[i], divisors[i], planning);
}

void judge(std::span<Comparison* const> all, Planning planning) {
  std::vector<Judged> families[kFamilies];
  for (Comparison* c : all) {
    Judged judged{c, {}};
    if (c->effect) judged.effects.push_back(*c->effect);
    families[static_cast<std::size_t>(family_of(c->metric))].push_back(std::move(judged));
  }
  for (const std::vector<Judged>& family : families) judge_family(family, planning);
}

void judge(Comparison& alone) {
  Comparison* const all[] = {&alone};
  judge(all);
}

void judge_exactly(Comparison& c, double subject, double baseline) {
  c.ratio = baseline > 0 ? subject / baseline : 1;
  c.verdict = subject == baseline  ? Verdict::no_difference
              : subject > baseline ? Verdict::higher
                                   : Verdict::lower;
}

}  // namespace assay
