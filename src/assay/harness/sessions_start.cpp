// Sessions that are started and loaded side by side.
#include <algorithm>
#include <deque>

#include "assay/base/error.h"
#include "assay/harness/sessions.h"
#include "assay/harness/worker_protocol.h"

namespace assay {

namespace {

// All begin to end before the first is waited for.
template <typename Started>
void end_together(Started& all) {
  for (const auto& each : all) each->begin_end();
  all.clear();
}

}  // namespace

double Sessions::share_of(const std::string& key) const {
  const auto at = shares_.find(key);
  return at == shares_.end() ? 0 : at->second;
}

double Sessions::held_share() const {
  double held = 0;
  for (const auto& [key, session] : live_) held += share_of(key);
  for (const auto& [key, all] : prepared_) held += static_cast<double>(all.size()) * share_of(key);
  return held;
}

void Sessions::make_room(const std::vector<RunConfig>& configurations) {
  double all = held_share();
  for (const auto& [key, session] : ending_) all += share_of(key);
  bool all_wait = true;
  for (const RunConfig& configuration : configurations) {
    all += share_of(configuration.key());
    all_wait = all_wait && starts_by_waiting(configuration);
  }
  if (all > 1 || !all_wait) wait_ended();
}

bool Sessions::starts_by_waiting(const RunConfig& configuration) const {
  return can_start_side_by_side() && side_by_side_.is_worth_preparing(configuration);
}

std::ptrdiff_t Sessions::prepared() const {
  std::ptrdiff_t all = 0;
  for (const auto& [key, own] : prepared_) all += std::ssize(own);
  return all;
}

std::unique_ptr<StartedSession> Sessions::take_prepared(const std::string& key) {
  const auto at = prepared_.find(key);
  if (at == prepared_.end() || at->second.empty()) return nullptr;
  std::unique_ptr<StartedSession> first = std::move(at->second.front());
  at->second.erase(at->second.begin());
  return first;
}

void Sessions::end_prepared() {
  for (const auto& [key, all] : prepared_)
    for (const auto& each : all) each->begin_end();
  prepared_.clear();
}

// Before anything is started: what is left of a device's memory changes then.
void Sessions::find_shares(const std::vector<RunConfig>& configurations) {
  for (const RunConfig& configuration : configurations)
    shares_[configuration.key()] = memory_share(configuration);
}

std::unique_ptr<StartedSession> Sessions::started(const RunConfig& configuration, double& held) {
  const double share = shares_.at(configuration.key());
  if (held + share > 1) return nullptr;
  held += share;
  return side_by_side_.start(configuration);
}

void Sessions::prepare(const std::vector<RunConfig>& configurations, int each) {
  begin_prepare(configurations, each);
  wait_prepared();
}

void Sessions::wait_prepared() {
  for (const auto& [key, all] : prepared_)
    for (const auto& each : all) each->wait_prepared();
}

void Sessions::begin_prepare(const std::vector<RunConfig>& configurations, int each) {
  if (!side_by_side_.start) return;
  find_shares(configurations);
  make_room(configurations);
  double held = held_share();
  std::deque<StartedSession*> preparing;
  const auto wait_for_first = [&] {
    preparing.front()->wait_prepared();
    preparing.pop_front();
  };
  // False where it does not fit: those behind it must not take what it needs in its turn.
  const auto prepare_one = [&](const RunConfig& configuration, int number) {
    const std::string key = configuration.key();
    if (has_failed(key) || !side_by_side_.is_worth_preparing(configuration)) return true;
    const auto there = std::ssize(prepared_[key]) + (is_live(configuration) ? 1 : 0);
    const int at_once = side_by_side_.at_once(configuration);
    if (there >= number || (number > 1 && prepared() >= at_once)) return true;
    if (std::ssize(preparing) >= at_once) wait_for_first();
    std::unique_ptr<StartedSession> started = this->started(configuration, held);
    if (started == nullptr) return false;
    started->begin_prepare();
    preparing.push_back(prepared_[key].emplace_back(std::move(started)).get());
    return true;
  };
  try {
    bool has_room = true;
    for (int number = 1; number <= each && has_room; ++number)
      for (std::size_t i = 0; i < configurations.size() && has_room; ++i)
        has_room = prepare_one(configurations[i], number);
  } catch (const Error&) {  // what is wrong shows in of()
  }
}

void Sessions::load(const std::vector<RunConfig>& configurations,
                    const std::function<void(const RunConfig&)>& on_loaded) {
  if (!side_by_side_.start) return;
  std::vector<RunConfig> wanted;
  for (const RunConfig& configuration : configurations)
    if (!is_live(configuration) && !has_failed(configuration.key())) wanted.push_back(configuration);
  if (wanted.size() < 2) return;  // which of() makes as fast
  find_shares(wanted);
  make_room(wanted);
  double held = held_share();
  std::deque<std::unique_ptr<StartedSession>> loading;
  bool is_full = false;
  try {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      while (!is_full && i + loading.size() < wanted.size()) {
        const RunConfig& next = wanted[i + loading.size()];
        if (std::ssize(loading) >= side_by_side_.at_once(next)) break;
        auto session = take_prepared(next.key());
        if (session == nullptr) session = started(next, held);
        is_full = session == nullptr;
        if (is_full) break;
        loading.push_back(std::move(session));
        loading.back()->begin_load();
      }
      if (loading.empty()) return;
      const std::unique_ptr<StartedSession> first = std::move(loading.front());
      loading.pop_front();
      std::unique_ptr<Session> session = first->finish();
      SessionFacts facts = session->facts();
      const std::string key = wanted[i].key();
      // A load that had the machine to itself tells how long it takes.
      if (const auto at = facts_.find(key); at != facts_.end()) facts.model.load_s = at->second.model.load_s;
      facts_[key] = std::move(facts);
      live_[key] = std::move(session);
      if (on_loaded) on_loaded(wanted[i]);
    }
  } catch (const Error&) {  // made again by of(), which says what is wrong
    end_together(loading);
  }
}

std::vector<const Case*> Sessions::load_and_run(const std::vector<RunConfig>& configurations,
                                                const std::vector<const Case*>& cases,
                                                const ShouldStop& should_stop) {
  const auto succeeds = [&](const RunConfig& configuration, const std::function<void()>& action) {
    const Attempt::End end = attempt(configuration, action, should_stop).end;
    if (end == Attempt::End::failed) drop(configuration);
    return end == Attempt::End::done;
  };
  std::vector<const Case*> running, ran;
  load(configurations, [&](const RunConfig& loaded) {
    const auto own = std::find_if(cases.begin(), cases.end(),
                                  [&](const Case* each) { return each->configuration == loaded; });
    if (own == cases.end() || !starts_by_waiting(loaded)) return;
    if (succeeds(loaded, [&] { of(loaded).begin_run(**own); })) running.push_back(*own);
  });
  for (const Case* each : running)
    if (succeeds(each->configuration, [&] { of(each->configuration).run(*each); })) ran.push_back(each);
  return ran;
}

std::unique_ptr<Session> Sessions::made(const RunConfig& configuration) {
  std::unique_ptr<StartedSession> started = take_prepared(configuration.key());
  if (started == nullptr) return make_(configuration);
  try {
    return started->finish();
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    const auto* lost = dynamic_cast<const WorkerLost*>(&error);
    if (prepared() == 0 || (lost != nullptr && lost->cause() != WorkerLost::Cause::crashed)) throw;
  }
  // The processes beside it may have held what it needs.
  started->begin_end();
  end_prepared();
  started.reset();
  return make_(configuration);
}

}  // namespace assay
