#include "assay/harness/sweep.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/harness/case_json.h"
#include "assay/harness/worker_protocol.h"

namespace assay {

namespace {

// In one process, where an interval is that of its rounds.
constexpr int kMinInOneProcess = static_cast<int>(statistics::kMinForInterval);
constexpr int kMaxInOneProcess = 200;
// Another warm-up of a run that is shorter costs little.
constexpr double kShort_s = 0.25;

class SweepRun {
 public:
  SweepRun(Sessions& sessions, std::string name, const std::vector<Case>& cases, const SweepOptions& options)
      : sessions_(sessions), name_(std::move(name)), options_(options), random_(options.seed) {
    if (options.repeats && *options.repeats < 1)
      throw FieldError("repeats", "expected a whole number from 1, found {}", *options.repeats);
    if (options.max_time_s && *options.max_time_s <= 0)
      throw FieldError("max_time_s", "expected a number above 0, found {}", *options.max_time_s);
    if (options.processes && *options.processes < 1)
      throw FieldError("processes", "expected a whole number from 1, found {}", *options.processes);
    if (options.processes.value_or(1) > 1 && !sessions.have_processes())
      throw FieldError("processes", "expected 1, because everything runs in this process, found {}",
                       *options.processes);
    for (const Case& spec : cases) add(spec);
  }

  SweepResult run() {
    replay();
    const auto groups = sessions_.groups(configurations());
    has_groups_ = groups.size() > 1;
    begin_ = options_.clock();
    for (int replicate = 0; wants_replicate(replicate); ++replicate) {
      visit_begin_ = options_.clock();
      has_run_ = false;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        groups_left_ = groups.size() - 1 - i;
        // The baseline is in each group, in a process of its own each time.
        run_group(groups[i], replicate, replicate * static_cast<int>(groups.size()) + static_cast<int>(i));
      }
      if (has_run_) visits_.push_back(elapsed(visit_begin_, options_.clock()).value);
    }
    sessions_.end_prepared();
    if (options_.journal != nullptr && !stopped()) options_.journal->append("done", name_, true);
    result_.is_interrupted = stopped();
    finish();
    return std::move(result_);
  }

 private:
  bool stopped() const { return is_stopped_ || (options_.should_stop && options_.should_stop()); }

  void add(const Case& spec) {
    for (CaseResult& other : result_.cases)
      if (other.spec.key() == spec.key()) {
        other.warnings.push_back(
            {WarningKind::duplicate_case, "the case was asked for more than once and is measured once"});
        return;
      }
    CaseResult& added = result_.cases.emplace_back();
    added.spec = spec;
    added.warnings = spec.warnings;
  }

  std::vector<RunConfig> configurations() const {
    std::vector<RunConfig> all;
    for (const CaseResult& c : result_.cases)
      if (std::find(all.begin(), all.end(), c.spec.configuration) == all.end())
        all.push_back(c.spec.configuration);
    return all;
  }

  std::string journal_key(const CaseResult& c) const { return name_ + " | " + c.spec.key(); }

  void replay() {
    if (options_.journal == nullptr) return;
    is_done_ = options_.journal->has("done", name_);
    for (CaseResult& c : result_.cases) {
      options_.journal->read_each("first", journal_key(c), [&](const JsonReader& data) {
        c.first = first_run_from_json(data.at("first_run"));
        c.facts = session_facts_from_json(data.at("facts"));
        sessions_.remember(c.spec.configuration, c.facts);
        was_begun_.insert(&c);
      });
      options_.journal->read_each("sample", journal_key(c), [&](const JsonReader& data) {
        c.samples[{data.at("process").whole<int>(), data.at("round").whole<int>()}] =
            sample_from_json(data.at("sample"));
      });
    }
    options_.journal->read_each("visits", name_, [&](const JsonReader& data) {
      plan_ = VisitPlan{data.at("processes").whole<int>(), data.at("rounds").whole<int>()};
    });
  }

  void run_group(const std::vector<RunConfig>& group, int replicate, int process) {
    std::vector<CaseResult*> members;
    for (CaseResult& c : result_.cases)
      if (c.status == RowStatus::ok && !(c.spec.is_measured_once && replicate > 0) &&
          std::find(group.begin(), group.end(), c.spec.configuration) != group.end())
        members.push_back(&c);
    if (has_all(members, process)) return;
    if (!sessions_.have_processes())
      sessions_.keep_only(group);
    else if (!options_.is_in_series)
      sessions_.begin_end_live();
    warmed_up_.clear();
    const TimePoint begin = options_.clock();
    // What is loaded first may get better pages.
    std::vector<CaseResult*> order = members;
    if (replicate > 0) shuffle(order);
    start_side_by_side(order, replicate);
    sessions_.wait_ended();
    for (CaseResult* c : order) {
      if (stopped()) return;
      // The first case of all is what the others are compared with.
      if (options_.is_late() && c != &result_.cases.front() && was_begun_.count(c) == 0) continue;
      show(fmt::format("{}: warming up {}", name_, c->spec.label), replicate, 0);
      attempt(*c, [&] { warm_up(*c); });
      tell_cases();
    }
    std::erase_if(members, [&](const CaseResult* c) { return was_begun_.count(c) == 0; });
    measure_begin_ = options_.clock();
    start_s_ = elapsed(begin, measure_begin_).value;
    for (int round = 0; !stopped() && wants_round(members, replicate, round); ++round)
      run_round(members, replicate, {process, round});
  }

  // How long a configuration's first load takes is a figure of its rows: nothing is loaded beside it. What is
  // started here for later visits waits without doing anything.
  void start_side_by_side(const std::vector<CaseResult*>& order, int replicate) {
    if (!sessions_.can_start_side_by_side() || stopped() || options_.is_late()) return;
    std::vector<RunConfig> wanted;
    for (const CaseResult* c : order)
      if (std::find(wanted.begin(), wanted.end(), c->spec.configuration) == wanted.end())
        wanted.push_back(c->spec.configuration);
    show(fmt::format("{}: starting {} processes", name_, wanted.size()), replicate, 0);
    sessions_.begin_prepare(wanted, plan_ && !has_groups_ ? plan_->processes - replicate : 1);
    if (std::all_of(order.begin(), order.end(), [&](const CaseResult* c) { return was_begun_.count(c) > 0; }))
      load_and_warm_up(order, wanted);
    sessions_.wait_prepared();
  }

  // What warms a process up beside the others that start, where its runs are short.
  void load_and_warm_up(const std::vector<CaseResult*>& order, const std::vector<RunConfig>& wanted) {
    std::vector<const Case*> runs;
    for (const RunConfig& configuration : wanted) {
      const CaseResult& first = **std::find_if(order.begin(), order.end(), [&](const CaseResult* c) {
        return c->spec.configuration == configuration;
      });
      if (!first.spec.is_measured_once && !first.samples.empty() &&
          first.samples.rbegin()->second.total_latency_s < kShort_s)
        runs.push_back(&first.spec);
    }
    const std::vector<const Case*> ran = sessions_.load_and_run(wanted, runs, options_.should_stop);
    for (CaseResult* c : order) c->warm_ups += static_cast<int>(std::count(ran.begin(), ran.end(), &c->spec));
  }

  // Whether a journal holds all that would be measured.
  bool has_all(const std::vector<CaseResult*>& members, int process) const {
    return std::all_of(members.begin(), members.end(), [&](const CaseResult* c) {
      if (was_begun_.count(c) == 0) return false;
      if (is_done_) return true;
      if (!plan_ || !sessions_.have_processes()) return false;
      for (int round = 0; round < (c->spec.is_measured_once ? 1 : plan_->rounds); ++round)
        if (c->samples.count({process, round}) == 0) return false;
      return true;
    });
  }

  template <typename T>
  void shuffle(std::vector<T>& order) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.next() % i]);
  }

  // Whether a visit as long as the one before it would end too late.
  bool would_be_late() const {
    return options_.deadline && !visits_.empty() &&
           elapsed(options_.clock(), *options_.deadline).value < visits_.back();
  }

  void tell_cases() const {
    if (options_.on_cases) options_.on_cases(name_, result_.cases);
  }

  bool is_over() const {
    if (options_.is_late()) return true;
    const TimePoint begin = options_.is_in_series ? measure_begin_ : begin_;
    return options_.max_time_s && elapsed(begin, options_.clock()).value >= *options_.max_time_s;
  }

  bool wants_replicate(int replicate) const {
    if (stopped()) return false;
    if (replicate == 0) return true;
    if (is_over() || would_be_late() || !plan_ || replicate >= plan_->processes) return false;
    // Looks at how narrow the intervals are, few and ever further apart: looking more often would sooner or
    // later find them narrow by chance.
    const bool is_interim_look = replicate == kUsualProcesses || replicate == 7;
    return options_.processes || !is_interim_look || !all_narrow();
  }

  void attempt(CaseResult& c, const std::function<void()>& action) {
    const Attempt made = sessions_.attempt(c.spec.configuration, action, options_.should_stop);
    if (made.end == Attempt::End::stopped) is_stopped_ = true;
    if (made.end == Attempt::End::failed) fail(c, made.reason);
  }

  void fail(CaseResult& c, const std::string& reason) {
    c.status = RowStatus::error;
    c.reason = reason;
    was_begun_.insert(&c);
  }

  // The first run gives texts, profile and memory. A session is warmed up by the first of its cases until two
  // runs take about the same time; each further case runs once, where that is short.
  void warm_up(CaseResult& c) {
    if (!sessions_.is_live(c.spec.configuration))
      if (const auto why = sessions_.why_not(c.spec.configuration)) throw Error("{}", *why);
    Session& session = sessions_.of(c.spec.configuration);
    const bool is_session_warm = !warmed_up_.insert(c.spec.configuration.key()).second;
    const bool is_first = was_begun_.count(&c) == 0;
    if (is_first) {
      c.first = session.first_run(c.spec);
      c.facts = session.facts();  // what it counts while it runs included
      was_begun_.insert(&c);
      if (options_.journal != nullptr)
        options_.journal->append("first", journal_key(c),
                                 {{"facts", to_json(c.facts)},
                                  {"first_run", to_json(c.first)},
                                  {"label", c.spec.label}});  // for `assay run --watch`
    }
    if (c.spec.is_measured_once) return;
    constexpr double kLong_s = 1.5, kSteady = 0.1;
    double last = c.samples.empty() ? c.first.seconds : c.samples.rbegin()->second.total_latency_s;
    if (is_session_warm && last >= kShort_s) return;
    const int most = is_first || !is_session_warm ? 3 : 1;
    for (int run = 0; run < most && (last < kLong_s || (run == 0 && !is_first)) && !stopped(); ++run) {
      const double now = session.run(c.spec).total_latency_s;
      ++c.warm_ups;
      const bool is_steady = std::abs(now - last) < kSteady * last;
      last = now;
      if (is_steady) break;
    }
  }

  void run_round(const std::vector<CaseResult*>& members, int replicate, SampleId place) {
    std::vector<CaseResult*> order;
    for (CaseResult* c : members)
      if (c->status == RowStatus::ok && c->samples.count(place) == 0 &&
          !(c->spec.is_measured_once && place.round > 0))
        order.push_back(c);
    shuffle(order);
    for (CaseResult* c : order) {
      if (stopped()) return;
      const std::string &label = c->spec.label, own = c->spec.configuration.label();
      show(fmt::format("{}: {}{}, process {}, run {}", name_, label,
                       label.ends_with(own) ? "" : " (" + own + ")", replicate + 1, place.round + 1),
           replicate, place.round);
      attempt(*c, [&] {
        const Sample sample = sessions_.of(c->spec.configuration).run(c->spec);
        c->samples[place] = sample;
        has_run_ = true;
        if (options_.journal != nullptr)
          options_.journal->append(
              "sample", journal_key(*c),
              {{"process", place.process}, {"round", place.round}, {"sample", to_json(sample)}});
      });
      tell_cases();
    }
    round_s_ = elapsed(measure_begin_, options_.clock()).value / (place.round + 1);
  }

  bool wants_round(const std::vector<CaseResult*>& members, int replicate, int round) {
    if (std::none_of(members.begin(), members.end(),
                     [](const CaseResult* c) { return c->status == RowStatus::ok; }))
      return false;
    if ((replicate > 0 || round >= options_.fewest) && is_over()) return false;
    if (sessions_.have_processes()) {
      if (!plan_ && round >= options_.repeats.value_or(kMinRounds)) plan();
      return round < (plan_ ? plan_->rounds : options_.repeats.value_or(kMinRounds));
    }
    if (options_.repeats) return round < *options_.repeats;
    if (round < kMinInOneProcess) return true;
    if (round >= kMaxInOneProcess || elapsed(measure_begin_, options_.clock()).value >= options_.time_s)
      return false;
    return !is_interim_look(round) || !all_narrow();
  }

  // Once, from the first group's visit: the other groups are as large.
  void plan() {
    const auto groups = static_cast<double>(groups_left_ + 1);
    plan_ = plan_visits({groups * start_s_, groups * round_s_}, options_);
    if (groups > 1) plan_->rounds = static_cast<int>(options_.repeats.value_or(kMinRounds));
    if (options_.journal != nullptr)
      options_.journal->append("visits", name_, {{"processes", plan_->processes}, {"rounds", plan_->rounds}});
  }

  static bool is_interim_look(int round) {
    for (int look = kMinInOneProcess; look <= round; look += std::max(2, look * 2 / 5))
      if (look == round) return true;
    return false;
  }

  bool all_narrow() const {
    return std::all_of(result_.cases.begin(), result_.cases.end(), [&](const CaseResult& c) {
      if (c.status != RowStatus::ok || c.samples.empty() || c.spec.is_measured_once) return true;
      const Value value = value_of_processes(c.each(&Sample::total_latency_s), c.places());
      return value.interval &&
             (value.interval->high - value.interval->low) / 2 <= options_.narrow * value.value;
    });
  }

  void show(const std::string& now, int replicate, std::int64_t round) const {
    if (!options_.on_progress) return;
    const std::int64_t rounds = plan_ ? plan_->rounds : options_.repeats.value_or(kMinInOneProcess),
                       replicates = plan_ ? plan_->processes : 1;
    options_.on_progress(now, replicate * rounds + round, replicates * rounds,
                         seconds_left(replicate, round));
  }

  // Not known before the first round is over.
  std::optional<double> seconds_left(int replicate, std::int64_t round) const {
    if (round_s_ <= 0) return std::nullopt;
    const double spent = elapsed(begin_, options_.clock()).value;
    double left = 0;
    if (plan_) {
      const double rest = round_s_ * static_cast<double>(std::max<std::int64_t>(0, plan_->rounds - round)),
                   group = start_s_ + round_s_ * plan_->rounds,
                   replicates =
                       visits_.empty() ? group * static_cast<double>(groups_left_ + 1) : visits_.back();
      left =
          rest + static_cast<double>(groups_left_) * group + (plan_->processes - 1 - replicate) * replicates;
    } else if (sessions_.have_processes()) {
      return std::nullopt;
    } else {
      left = round_s_ * static_cast<double>(
                            std::max<std::int64_t>(0, options_.repeats.value_or(kMinInOneProcess) - round));
      if (!options_.repeats) left = std::max(left, options_.time_s - spent);
    }
    if (options_.max_time_s) left = std::min(left, std::max(0.0, *options_.max_time_s - spent));
    return left;
  }

  void finish() {
    auto& cases = result_.cases;
    for (CaseResult& c : cases) {
      if (c.status == RowStatus::ok && c.samples.empty() && result_.is_interrupted) was_begun_.erase(&c);
      if (c.facts.kernels.empty()) c.facts = facts_or_none(c.spec.configuration);
    }
    std::vector<CaseResult> kept;
    for (CaseResult& c : cases) {
      c.visit_s = statistics::mean(visits_);
      if (was_begun_.count(&c) > 0) kept.push_back(std::move(c));
    }
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
  bool is_done_ = false, is_stopped_ = false;
  std::optional<VisitPlan> plan_;    // for several processes, once the first has shown what they cost
  std::set<std::string> warmed_up_;  // configurations, of this visit
  std::vector<double> visits_;       // seconds of each that ran
  bool has_run_ = false;             // anything in this visit: a journal may hold all of it
  std::size_t groups_left_ = 0;
  bool has_groups_ = false;  // more than one: they do not fit together
  TimePoint begin_, visit_begin_, measure_begin_;
  double start_s_ = 0, round_s_ = 0;  // that a group takes
};

}  // namespace

SweepResult run_sweep(Sessions& sessions, const std::string& name, const std::vector<Case>& cases,
                      const SweepOptions& options) {
  return SweepRun(sessions, name, cases, options).run();
}

}  // namespace assay
