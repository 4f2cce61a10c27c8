#include "assay/harness/budget.h"

#include <algorithm>
#include <optional>
#include <set>

#include "assay/base/format.h"
#include "assay/harness/sweep.h"

namespace assay {

namespace {

// As warm_up() in sweep.cpp warms up.
int warm_ups(double run_s, bool is_first_of_session, bool is_first_process) {
  constexpr double kLong_s = 1.5, kShort_s = 0.25;
  if (!is_first_of_session && run_s >= kShort_s) return 0;
  if (run_s < kLong_s) return is_first_process || is_first_of_session ? 2 : 1;
  return is_first_of_session && !is_first_process ? 1 : 0;
}

struct Visit {
  double start_s = 0, round_s = 0;
};

// A process for each configuration, and a round of those cases that run in each process.
Visit visit_of(const std::vector<const CostedCase*>& cases, const ChosenStudy& chosen, bool is_first) {
  Visit visit;
  std::set<std::string> loaded;
  for (const CostedCase* c : cases) {
    const bool is_once = chosen.once.count(c->key) > 0;
    if (is_once && !is_first) continue;
    const double run = c->run_s(chosen.most_tokens.value_or(c->new_tokens)) + c->beside_run_s;
    const bool is_new = loaded.insert(c->configuration).second;
    if (is_new) visit.start_s += c->load_s;
    if (is_first) visit.start_s += run;  // the first run
    if (is_once)
      visit.start_s += run;
    else
      visit.round_s += run, visit.start_s += warm_ups(run, is_new, is_first) * run;
  }
  return visit;
}

// What is loaded together with the first configuration, which is in each group.
int groups_of(const std::vector<const CostedCase*>& cases) {
  int groups = 1;
  double used = 0, first = 0;
  std::set<std::string> known;
  for (const CostedCase* c : cases) {
    if (!known.insert(c->configuration).second) continue;
    if (known.size() == 1) {
      used = first = c->memory_share;
      continue;
    }
    if (used + c->memory_share > 1 && used > first) {
      ++groups;
      used = first;
    }
    used += c->memory_share;
  }
  return groups;
}

double sweep_s(const CostedStudy& study, const std::vector<const CostedCase*>& cases,
               const ChosenStudy& chosen) {
  SweepOptions options = study.sweep;
  if (chosen.processes) options.processes = chosen.processes;
  if (chosen.repeats) options.repeats = chosen.repeats;
  std::vector<const CostedCase*> of_baseline;  // which each further group runs again
  for (const CostedCase* c : cases)
    if (c->configuration == cases.front()->configuration && chosen.once.count(c->key) == 0)
      of_baseline.push_back(c);
  const double again = groups_of(cases) - 1;
  Visit first = visit_of(cases, chosen, true), later = visit_of(cases, chosen, false);
  const Visit more = visit_of(of_baseline, chosen, false);
  for (Visit* visit : {&first, &later}) {
    visit->start_s += again * more.start_s;
    visit->round_s += again * more.round_s;
  }
  const VisitPlan plan = plan_visits({first.start_s, first.round_s}, options);
  double all = first.start_s + (plan.processes - 1) * later.start_s +
               static_cast<double>(plan.processes) * plan.rounds * first.round_s;
  if (options.max_time_s)
    all = std::min(all, std::max(*options.max_time_s,
                                 first.start_s + static_cast<double>(options.fewest) * first.round_s));
  return all;
}

class Choosing {
 public:
  Choosing(const std::vector<CostedStudy>& studies, double budget_s, double before_s) : studies_(studies) {
    choice_.budget_s = budget_s;
    choice_.before_s = before_s;
    for (const CostedStudy& study : studies) {
      ChosenStudy whole{.name = study.name};
      whole.predicted_s = whole.whole_s = predicted_study_s(study, whole);
      wholes_.push_back(whole);
      ChosenStudy& least = choice_.studies.emplace_back(whole);
      for (const CostedCase& c : study.cases) {
        least.left_out.insert(c.key);
        if (c.is_long && !c.is_asked && study.is_sweep) least.once.insert(c.key);
      }
      if (study.is_sweep && !study.has_asked_tokens) least.most_tokens = kFewTokens;
      set_runs(study, least, study.needs_verdict ? Runs{kMinProcesses, kMinRounds} : Runs{1, 1});
      least.predicted_s = 0;
    }
  }

  Choice choose() {
    add_asked();
    for_each_need([](const CostedCase& c) { return c.is_essential && !c.is_long; });
    for (const std::size_t i : by_need())
      for (const Runs& runs : {Runs{kMinProcesses, kMinRounds}, {kMinProcesses, 1}, {1, kMinRounds}})
        if (change(i, [&](ChosenStudy& chosen) { set_runs(studies_[i], chosen, runs); })) break;
    for_each_need([](const CostedCase&) { return true; });
    for (const std::size_t i : by_need()) change(i, [](ChosenStudy& chosen) { chosen.most_tokens.reset(); });
    for (const std::size_t i : by_need()) {
      const SweepOptions& asked = studies_[i].sweep;
      if (*choice_.studies[i].processes < asked.processes.value_or(kMinProcesses)) continue;
      change(i, [&](ChosenStudy& chosen) {
        chosen.processes = asked.processes;
        chosen.repeats = asked.repeats;
      });
    }
    for (std::size_t i = 0; i < studies_.size(); ++i) simplify(studies_[i], wholes_[i], choice_.studies[i]);
    return std::move(choice_);
  }

 private:
  struct Runs {
    std::int64_t processes = 1, repeats = 1;
  };
  static void set_runs(const CostedStudy& study, ChosenStudy& chosen, const Runs& runs) {
    chosen.processes = study.sweep.processes.value_or(runs.processes);
    chosen.repeats = study.sweep.repeats.value_or(runs.repeats);
  }

  // What equals the whole study says so.
  static void simplify(const CostedStudy& study, const ChosenStudy& whole, ChosenStudy& chosen) {
    const auto equals = [](const auto& own, const auto& asked) { return asked && own == asked; };
    if (!study.is_sweep || equals(chosen.processes, study.sweep.processes)) chosen.processes.reset();
    if (!study.is_sweep || equals(chosen.repeats, study.sweep.repeats)) chosen.repeats.reset();
    if (std::all_of(study.cases.begin(), study.cases.end(),
                    [](const CostedCase& c) { return c.new_tokens <= kFewTokens; }))
      chosen.most_tokens.reset();
    for (const std::string& key : chosen.left_out) chosen.once.erase(key);
    chosen.is_measured = study.cases.empty() || chosen.left_out.size() < study.cases.size();
    if (!chosen.is_measured)
      chosen.processes = chosen.repeats = chosen.most_tokens = std::nullopt;
    else if (chosen.is_whole())
      chosen.predicted_s = whole.predicted_s;
  }

  // Changes a study where the run still fits.
  template <typename Change>
  bool change(std::size_t i, const Change& change, bool is_forced = false) {
    ChosenStudy changed = choice_.studies[i];
    change(changed);
    changed.predicted_s = predicted_study_s(studies_[i], changed);
    const double all = choice_.predicted_s() - choice_.studies[i].predicted_s + changed.predicted_s;
    if (!is_forced && all > choice_.budget_s) return false;
    choice_.studies[i] = std::move(changed);
    return true;
  }

  void add_asked() {
    for (std::size_t i = 0; i < studies_.size(); ++i)
      for (const CostedCase& c : studies_[i].cases)
        if (c.is_asked || (i == 0 && &c == &studies_[i].cases.front()))
          change(
              i, [&](ChosenStudy& chosen) { chosen.left_out.erase(c.key); }, true);
  }

  // Whether what a case is compared with is measured.
  bool has_first(std::size_t i, const CostedCase& c) const {
    for (const CostedCase& first : studies_[i].cases)
      if (first.need == c.need) return &first == &c || choice_.studies[i].left_out.count(first.key) == 0;
    return true;
  }

  template <typename Predicate>
  void for_each_need(const Predicate& wants) {
    for (int need = 0; need <= static_cast<int>(Need::long_prompts); ++need)
      for (std::size_t i = 0; i < studies_.size(); ++i)
        for (const CostedCase& c : studies_[i].cases)
          if (static_cast<int>(c.need) == need && wants(c) && has_first(i, c) &&
              choice_.studies[i].left_out.count(c.key) > 0)
            change(i, [&](ChosenStudy& chosen) { chosen.left_out.erase(c.key); });
  }

  // The sweeps that have cases.
  std::vector<std::size_t> by_need() const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < studies_.size(); ++i)
      if (studies_[i].is_sweep && choice_.studies[i].left_out.size() < studies_[i].cases.size())
        order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return studies_[a].cases.front().need < studies_[b].cases.front().need;
    });
    return order;
  }

  const std::vector<CostedStudy>& studies_;
  std::vector<ChosenStudy> wholes_;
  Choice choice_;
};

}  // namespace

double CostedCase::run_s(std::int64_t most_tokens) const {
  return prefill_s + decode_s * static_cast<double>(std::min(most_tokens, new_tokens)) /
                         static_cast<double>(std::max<std::int64_t>(1, new_tokens));
}

std::string choice_key(const Case& spec) {
  return fmt::format("{}, {}", name_of(spec.scenario), spec.label);
}

double predicted_study_s(const CostedStudy& study, const ChosenStudy& chosen) {
  std::vector<const CostedCase*> cases;
  double all = 0;
  for (const CostedCase& c : study.cases) {
    if (chosen.left_out.count(c.key) > 0) continue;
    cases.push_back(&c);
    const double share =
        c.run_s(chosen.most_tokens.value_or(c.new_tokens)) / std::max(1e-12, c.run_s(c.new_tokens));
    all += study.is_sweep ? c.once_s * share : c.load_s + c.once_s;
  }
  if (cases.empty()) return 0;
  return all + study.once_s + (study.is_sweep ? sweep_s(study, cases, chosen) : 0);
}

TimePoint deadline_of(const Choice& choice, TimePoint begin, double earlier_s) {
  constexpr double kGrace = 1.15;
  const double may_take_s = kGrace * std::max(choice.budget_s, choice.predicted_s());
  return begin + std::chrono::duration_cast<TimePoint::duration>(
                     std::chrono::duration<double>(std::max(0.0, may_take_s - earlier_s)));
}

Choice choose(const std::vector<CostedStudy>& studies, double budget_s, double before_s) {
  return Choosing(studies, budget_s, before_s).choose();
}

}  // namespace assay
