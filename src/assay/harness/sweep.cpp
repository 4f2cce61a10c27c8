#include "assay/harness/sweep.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/harness/case_json.h"
#include "assay/harness/session_json.h"

namespace assay {

namespace {

constexpr int kFewestRounds = static_cast<int>(statistics::kFewestForInterval);
constexpr int kMostRounds = 200;

class SweepRun {
 public:
  SweepRun(Sessions& sessions, std::string name, const std::vector<Case>& cases, const SweepOptions& options)
      : sessions_(sessions), name_(std::move(name)), options_(options), random_(options.seed) {
    if (options.repeats && *options.repeats < 1)
      throw FieldError("repeats", "expected a whole number from 1, found {}", *options.repeats);
    if (options.max_time_s && *options.max_time_s <= 0)
      throw FieldError("max_time_s", "expected a number above 0, found {}", *options.max_time_s);
    for (const Case& what : cases) add(what);
    fewest_ = fewest_rounds(result_.cases.size());
  }

  SweepResult run() {
    try {
      replay();
      int first_round = 0;
      const auto groups = sessions_.groups(configurations());
      groups_left_ = groups.size();
      for (const auto& group : groups) {
        --groups_left_;
        round_s_ = 0;
        run_group(group, first_round);
        first_round += kMostRounds;  // a case that is in several groups is measured with each
      }
      if (options_.journal != nullptr && !stopped()) options_.journal->append("done", name_, true);
    } catch (const WorkerLost&) {
      result_.is_interrupted = true;
    }
    result_.is_interrupted = result_.is_interrupted || stopped();
    finish();
    return std::move(result_);
  }

 private:
  bool stopped() const { return options_.should_stop && options_.should_stop(); }

  void add(const Case& what) {
    for (CaseResult& other : result_.cases)
      if (other.what.key() == what.key()) {
        other.warnings.push_back(
            {WarningKind::duplicate_case, "the case was asked for more than once and is measured once"});
        return;
      }
    CaseResult& added = result_.cases.emplace_back();
    added.what = what;
    added.warnings = what.warnings;
  }

  std::vector<RunConfig> configurations() const {
    std::vector<RunConfig> all;
    for (const CaseResult& c : result_.cases)
      if (std::find(all.begin(), all.end(), c.what.configuration) == all.end())
        all.push_back(c.what.configuration);
    return all;
  }

  std::string journal_key(const CaseResult& c) const { return name_ + " | " + c.what.key(); }

  void replay() {
    if (options_.journal == nullptr) return;
    is_done_ = options_.journal->has("done", name_);
    for (CaseResult& c : result_.cases) {
      options_.journal->read_each("first", journal_key(c), [&](const JsonReader& data) {
        c.first = first_run_from_json(data.at("first_run"));
        c.facts = session_facts_from_json(data.at("facts"));
        sessions_.remember(c.what.configuration, c.facts);
        was_begun_.insert(&c);
      });
      options_.journal->read_each("sample", journal_key(c), [&](const JsonReader& data) {
        c.samples[data.at("round").whole<int>()] = sample_from_json(data.at("sample"));
      });
    }
  }

  void run_group(const std::vector<RunConfig>& group, int first_round) {
    std::vector<CaseResult*> members;
    for (CaseResult& c : result_.cases)
      if (c.status == RowStatus::ok &&
          std::find(group.begin(), group.end(), c.what.configuration) != group.end())
        members.push_back(&c);
    if (is_done_ && std::all_of(members.begin(), members.end(),
                                [&](const CaseResult* c) { return was_begun_.count(c) > 0; }))
      return;
    sessions_.keep_only(group);
    const TimePoint begin = Clock::now();
    for (CaseResult* c : members) {
      if (stopped()) return;
      show(fmt::format("{}: warming up {}", name_, c->what.label), 0);
      attempt(*c, [&] { warm_up(*c); });
    }
    measure_begin_ = Clock::now();
    warm_up_s_ = elapsed(begin, measure_begin_).value;
    for (int round = 0; !stopped() && wants_round(members, round); ++round)
      run_round(members, first_round, round);
  }

  // An error is the failure of this case alone, unless the whole run is stopped.
  template <typename Action>
  void attempt(CaseResult& c, const Action& action) {
    try {
      action();
    } catch (const WorkerLost& lost) {
      sessions_.drop(c.what.configuration);
      if (lost.cause() == WorkerLost::Cause::stopped) throw;
      fail(c, lost.what());
    } catch (const JournalError&) {
      throw;
    } catch (const Error& error) {
      if (!stopped()) fail(c, error.what());
    } catch (const std::bad_alloc&) {
      fail(c, "not enough memory");
    }
  }

  void fail(CaseResult& c, const std::string& reason) {
    c.status = RowStatus::error;
    c.reason = reason;
    was_begun_.insert(&c);
  }

  // The first run gives texts, profile and memory; more follow until two take about the same time.
  void warm_up(CaseResult& c) {
    if (const std::string why = sessions_.why_not(c.what.configuration); !why.empty()) throw Error("{}", why);
    Session& session = sessions_.of(c.what.configuration);
    if (was_begun_.count(&c) == 0) {
      c.first = session.first_run(c.what);
      c.facts = session.facts();  // what it counts while it runs included
      was_begun_.insert(&c);
      if (options_.journal != nullptr)
        options_.journal->append("first", journal_key(c),
                                 {{"facts", to_json(c.facts)}, {"first_run", to_json(c.first)}});
    }
    constexpr double kLong_s = 1.5, kSteady = 0.1;
    constexpr int kMost = 4;
    double last = c.first.seconds;
    for (c.warm_ups = 1; c.warm_ups < kMost && last < kLong_s && !stopped(); ++c.warm_ups) {
      const double now = session.run(c.what).total_latency_s;
      const bool is_steady = std::abs(now - last) < kSteady * last;
      last = now;
      if (is_steady) break;
    }
  }

  void run_round(const std::vector<CaseResult*>& members, int first_round, int round) {
    const int number = first_round + round;
    std::vector<CaseResult*> order;
    for (CaseResult* c : members)
      if (c->status == RowStatus::ok && c->samples.count(number) == 0) order.push_back(c);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.next() % i]);
    for (CaseResult* c : order) {
      if (stopped()) return;
      const std::string configuration = c->what.configuration.label();
      show(fmt::format("{}: {}{}, run {}", name_, c->what.label,
                       configuration == c->what.label ? "" : " (" + configuration + ")", round + 1),
           round);
      attempt(*c, [&] {
        const Sample sample = sessions_.of(c->what.configuration).run(c->what);
        c->samples[number] = sample;
        if (options_.journal != nullptr)
          options_.journal->append("sample", journal_key(*c),
                                   {{"round", number}, {"sample", to_json(sample)}});
      });
    }
    round_s_ = elapsed(measure_begin_, Clock::now()).value / (round + 1);
  }

  bool wants_round(const std::vector<CaseResult*>& members, int round) const {
    if (std::none_of(members.begin(), members.end(),
                     [](const CaseResult* c) { return c->status == RowStatus::ok; }))
      return false;
    const double spent = elapsed(measure_begin_, Clock::now()).value;
    if (options_.max_time_s && round >= options_.fewest && spent + warm_up_s_ >= *options_.max_time_s)
      return false;
    if (options_.repeats) return round < *options_.repeats;
    if (round < fewest_) return true;
    if (round >= kMostRounds || spent >= options_.time_s) return false;
    return !is_look(round) || !all_narrow(members);
  }

  // Looking after every round would sooner or later find narrow intervals by chance: looks are few, and ever
  // further apart.
  bool is_look(int round) const {
    for (int look = fewest_; look <= round; look += std::max(2, look * 2 / 5))
      if (look == round) return true;
    return false;
  }

  bool all_narrow(const std::vector<CaseResult*>& members) const {
    return std::all_of(members.begin(), members.end(), [&](const CaseResult* c) {
      if (c->status != RowStatus::ok) return true;
      const auto interval = statistics::repeated_median_interval(c->each(&Sample::total_latency_s));
      return interval && (interval->high - interval->low) / 2 <=
                             options_.narrow * statistics::median(c->each(&Sample::total_latency_s));
    });
  }

  void show(const std::string& now, std::int64_t round) const {
    if (!options_.on_progress) return;
    const std::int64_t all = options_.repeats.value_or(fewest_);
    options_.on_progress(now, round, all, seconds_left(all - round));
  }

  // Counts later groups as if each took as long as this one; not known before the first round is over.
  std::optional<double> seconds_left(std::int64_t rounds) const {
    if (round_s_ <= 0) return std::nullopt;
    const double spent = elapsed(measure_begin_, Clock::now()).value;
    double left = round_s_ * static_cast<double>(std::max<std::int64_t>(0, rounds)), all = spent + left;
    if (!options_.repeats) {
      left = std::max(left, options_.time_s - spent);
      all = std::max(all, options_.time_s);
    }
    if (options_.max_time_s) {
      const double at_most = std::max(0.0, *options_.max_time_s - warm_up_s_ - spent);
      left = std::min(left, at_most);
      all = std::min(all, spent + at_most);
    }
    return left + static_cast<double>(groups_left_) * (warm_up_s_ + all);
  }

  void finish() {
    auto& cases = result_.cases;
    for (CaseResult& c : cases) {
      if (c.status == RowStatus::ok && c.samples.empty() && result_.is_interrupted) was_begun_.erase(&c);
      if (c.facts.kernels.empty()) c.facts = facts_or_none(c.what.configuration);
    }
    std::vector<CaseResult> kept;
    for (CaseResult& c : cases)
      if (was_begun_.count(&c) > 0) kept.push_back(std::move(c));
    cases = std::move(kept);
  }

  SessionFacts facts_or_none(const RunConfig& configuration) {
    try {
      return sessions_.facts(configuration);
    } catch (const Error&) {
      return {};
    }
  }

  Sessions& sessions_;
  const std::string name_;
  const SweepOptions& options_;
  Random random_;
  SweepResult result_;
  std::set<const CaseResult*> was_begun_;
  bool is_done_ = false;
  int fewest_ = kFewestRounds;
  std::size_t groups_left_ = 0;
  TimePoint measure_begin_;
  double warm_up_s_ = 0, round_s_ = 0;
};

}  // namespace

Sessions::Sessions(SessionMaker make, std::function<Bytes(const RunConfig&)> memory_of, Bytes budget)
    : make_(std::move(make)), memory_of_(std::move(memory_of)), budget_(budget) {}

Session& Sessions::of(const RunConfig& configuration) {
  const std::string key = configuration.key();
  if (const auto at = live_.find(key); at != live_.end()) return *at->second;
  if (const auto at = failures_.find(key); at != failures_.end()) throw Error("{}", at->second);
  try {
    std::unique_ptr<Session> made = make_(configuration);
    facts_[key] = made->facts();
    return *(live_[key] = std::move(made));
  } catch (const WorkerLost& lost) {
    if (lost.cause() == WorkerLost::Cause::stopped) throw;
    failures_[key] = fmt::format("while loading, {}", lost.what());
    throw Error("{}", failures_[key]);
  } catch (const Error& error) {
    failures_[key] = error.what();
    throw;
  }
}

const SessionFacts& Sessions::facts(const RunConfig& configuration) {
  const auto at = facts_.find(configuration.key());
  if (at != facts_.end()) return at->second;
  of(configuration);
  return facts_.at(configuration.key());
}

void Sessions::remember(const RunConfig& configuration, SessionFacts facts) {
  facts_.emplace(configuration.key(), std::move(facts));
}

void Sessions::drop(const RunConfig& configuration) {
  live_.erase(configuration.key());
}

void Sessions::keep_only(const std::vector<RunConfig>& configurations) {
  if (budget_.value == 0 || !memory_of_) return;
  std::set<std::string> kept;
  for (const RunConfig& c : configurations) kept.insert(c.key());
  std::erase_if(live_, [&](const auto& entry) { return kept.count(entry.first) == 0; });
}

std::vector<std::vector<RunConfig>> Sessions::groups(const std::vector<RunConfig>& configurations) const {
  if (configurations.empty()) return {};
  if (budget_.value == 0 || !memory_of_) return {configurations};
  const RunConfig& first = configurations.front();
  std::vector<std::vector<RunConfig>> groups{{first}};
  std::int64_t held = memory_of_(first).value;
  for (std::size_t i = 1; i < configurations.size(); ++i) {
    const std::int64_t own = memory_of_(configurations[i]).value;
    if (held + own > budget_.value && groups.back().size() > 1) {
      groups.push_back({first});
      held = memory_of_(first).value;
    }
    groups.back().push_back(configurations[i]);
    held += own;
  }
  return groups;
}

std::string Sessions::why_not(const RunConfig& configuration) const {
  if (budget_.value == 0 || !memory_of_) return "";
  const Bytes needed = memory_of_(configuration);
  if (needed.value <= budget_.value) return "";
  return fmt::format("out of memory predicted: {:.0f} MB needed, {:.0f} MB allowed", needed.megabytes(),
                     budget_.megabytes());
}

std::vector<double> CaseResult::each(double Sample::*member) const {
  std::vector<double> all;
  for (const auto& [round, sample] : samples) all.push_back(sample.*member);
  return all;
}

const CaseResult* SweepResult::find(const std::string& key) const {
  for (const CaseResult& c : cases)
    if (c.what.key() == key) return &c;
  return nullptr;
}

SweepResult run_sweep(Sessions& sessions, const std::string& name, const std::vector<Case>& cases,
                      const SweepOptions& options) {
  return SweepRun(sessions, name, cases, options).run();
}

int fewest_rounds(std::size_t cases) {
  const auto comparisons = static_cast<double>(std::max<std::size_t>(2, cases) - 1);
  return std::max(kFewestRounds, static_cast<int>(std::ceil(std::log2(2 * comparisons / 0.05))));
}

std::pair<std::vector<double>, std::vector<double>> paired(const CaseResult& a, const CaseResult& b,
                                                           double Sample::*member) {
  std::pair<std::vector<double>, std::vector<double>> pairs;
  for (const auto& [round, sample] : a.samples) {
    const auto other = b.samples.find(round);
    if (other == b.samples.end()) continue;
    pairs.first.push_back(sample.*member);
    pairs.second.push_back(other->second.*member);
  }
  return pairs;
}

}  // namespace assay
