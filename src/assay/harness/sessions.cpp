#include "assay/harness/sessions.h"

#include <new>
#include <set>
#include <utility>

#include "assay/base/error.h"
#include "assay/harness/journal.h"
#include "assay/harness/worker_protocol.h"

namespace assay {

Sessions::Sessions(SessionMaker make, std::function<Bytes(const RunConfig&)> memory_of, Bytes budget,
                   bool have_processes, std::function<Bytes(const RunConfig&)> device_budget)
    : make_(std::move(make)),
      memory_of_(std::move(memory_of)),
      budget_(budget),
      have_processes_(have_processes),
      device_budget_(std::move(device_budget)) {}

Bytes Sessions::budget_for(const RunConfig& configuration) const {
  const Bytes own = device_budget_ ? device_budget_(configuration) : Bytes{};
  return own.value > 0 ? own : budget_;
}

double Sessions::memory_share(const RunConfig& configuration) const {
  if (budget_.value == 0 || !memory_of_) return 0;
  return static_cast<double>(memory_of_(configuration).value) /
         static_cast<double>(budget_for(configuration).value);
}

Session& Sessions::of(const RunConfig& configuration) {
  const std::string key = configuration.key();
  if (const auto at = live_.find(key); at != live_.end()) return *at->second;
  if (const auto at = failures_.find(key); at != failures_.end()) throw Error("{}", at->second);
  try {
    if (can_start_side_by_side() && shares_.count(key) == 0) shares_[key] = memory_share(configuration);
    std::unique_ptr<Session> made = this->made(configuration);
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

SessionGroup Sessions::together(const std::vector<RunConfig>& configurations) const {
  if (make_group_) return make_group_(configurations);
  SessionGroup group;
  for (const RunConfig& configuration : configurations) {
    group.sessions.emplace_back();
    group.failures.emplace_back();
    try {
      group.sessions.back() = make_(configuration);
    } catch (const WorkerLost&) {
      throw;
    } catch (const Stopped&) {
      throw;
    } catch (const Error& error) {
      group.failures.back() = error.what();
    }
  }
  return group;
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

Attempt Sessions::attempt(const RunConfig& configuration, const std::function<void()>& action,
                          const ShouldStop& should_stop) {
  try {
    action();
    return {};
  } catch (const WorkerLost& lost) {
    drop(configuration);
    if (lost.cause() == WorkerLost::Cause::stopped) return {Attempt::End::stopped};
    return {Attempt::End::failed, lost.what()};
  } catch (const JournalError&) {
    throw;
  } catch (const Stopped&) {
    return {Attempt::End::stopped};
  } catch (const Error& error) {
    if (should_stop && should_stop()) return {Attempt::End::stopped};
    return {Attempt::End::failed, error.what()};
  } catch (const std::bad_alloc&) {
    return {Attempt::End::failed, "not enough memory"};
  }
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

void Sessions::begin_end_live() {
  for (const auto& [key, session] : live_) session->begin_end();  // all, before the first is waited for
  wait_ended();
  ending_ = std::exchange(live_, {});
}

void Sessions::wait_ended() {
  ending_.clear();
}

void Sessions::end_all() {
  for (const auto& [key, session] : live_) session->begin_end();
  end_prepared();
  wait_ended();
  live_.clear();
}

Sessions::~Sessions() {
  end_all();
}

std::vector<std::vector<RunConfig>> Sessions::groups(const std::vector<RunConfig>& configurations) const {
  if (configurations.empty()) return {};
  if (budget_.value == 0 || !memory_of_) return {configurations};
  const RunConfig& first = configurations.front();
  std::vector<std::vector<RunConfig>> groups{{first}};
  double held = memory_share(first);
  for (std::size_t i = 1; i < configurations.size(); ++i) {
    const double own = memory_share(configurations[i]);
    if (held + own > 1 && groups.back().size() > 1) {
      groups.push_back({first});
      held = memory_share(first);
    }
    groups.back().push_back(configurations[i]);
    held += own;
  }
  return groups;
}

std::optional<std::string> Sessions::why_not(const RunConfig& configuration) const {
  if (budget_.value == 0 || !memory_of_) return std::nullopt;
  const Bytes needed = memory_of_(configuration), allowed = budget_for(configuration);
  if (needed <= allowed) return std::nullopt;
  return fmt::format("out of memory predicted: {:.0f} MiB needed, {:.0f} MiB allowed", needed.megabytes(),
                     allowed.megabytes());
}

}  // namespace assay
