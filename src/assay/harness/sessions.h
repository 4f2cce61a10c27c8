// The sessions that an experiment holds, one per configuration, and what it means when one fails.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/harness/session.h"
#include "assay/harness/started_session.h"

namespace assay {

using SessionMaker = std::function<std::unique_ptr<Session>(const RunConfig&)>;

// Sessions that can be compared token by token (Session::diverge), one for each configuration; null, with the
// reason, where one cannot be loaded.
struct SessionGroup {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::string> failures;
};
using GroupMaker = std::function<SessionGroup(const std::vector<RunConfig>&)>;

// How it ended that something was tried with a session.
struct Attempt {
  enum class End { done, failed, stopped };
  End end = End::done;
  std::string reason = {};  // where it failed
};

// The live sessions, one per configuration: made when first needed, kept while there is memory for it.
class Sessions {
 public:
  // `memory_of`: what a configuration with its largest case will take; without it, or where it says 0,
  // nothing is predicted. `budget` 0 = no limit.
  // `have_processes`: whether each session is a process of its own, so that making it again gives another
  // sample of what differs from process to process.
  // `device_budget`: of a configuration whose device has memory of its own; 0 where it has none.
  explicit Sessions(SessionMaker make, std::function<Bytes(const RunConfig&)> memory_of = {},
                    Bytes budget = {}, bool have_processes = false,
                    std::function<Bytes(const RunConfig&)> device_budget = {});
  Sessions(Sessions&&) = default;
  Sessions& operator=(Sessions&&) = default;
  ~Sessions();  // all end side by side
  bool have_processes() const { return have_processes_; }

  // Makes the session where there is none. Throws Error; a configuration that failed once is not tried again.
  Session& of(const RunConfig& configuration);
  bool is_live(const RunConfig& configuration) const { return live_.count(configuration.key()) > 0; }
  void set_side_by_side(SideBySide side_by_side) { side_by_side_ = std::move(side_by_side); }
  bool can_start_side_by_side() const { return side_by_side_.start != nullptr; }
  // Starts a process of every configuration, where that saves time, without loading it, and waits until all
  // are prepared: of() takes them later. Up to `each` of them, but no more than may start at the same time.
  // Starts only what is predicted to fit together. Call it while nothing is measured.
  void prepare(const std::vector<RunConfig>& configurations, int each = 1);
  // The same in two parts: what is loaded in between need not wait for the others.
  void begin_prepare(const std::vector<RunConfig>& configurations, int each);
  void wait_prepared();
  // Makes their sessions side by side, as many as fit together. What fails, or does not fit, and everything
  // behind it in the list is left to of(), which makes it with no other beside it. `on_loaded` is called as
  // soon as a session is there, while others may load.
  void load(const std::vector<RunConfig>& configurations,
            const std::function<void(const RunConfig&)>& on_loaded = {});
  // The same. Of those that start by waiting each then runs its case, while others start: the first run of a
  // process loads kernels and records graphs. At most one case for each configuration; returns those that
  // ran. One that fails loses its session.
  std::vector<const Case*> load_and_run(const std::vector<RunConfig>& configurations,
                                        const std::vector<const Case*>& cases, const ShouldStop& should_stop);
  bool is_known(const RunConfig& configuration) const { return facts_.count(configuration.key()) > 0; }
  // Whether they warm up and end while others start (SideBySide::is_worth_preparing).
  bool starts_by_waiting(const RunConfig& configuration) const;
  // Ends the processes of prepare() that were not needed.
  void end_prepared();
  // Makes sessions that live together in one process, beside those of of(). Throws WorkerLost where that
  // process is lost.
  SessionGroup together(const std::vector<RunConfig>& configurations) const;
  // In place of making each by itself, which is right where sessions are of this process.
  void set_group_maker(GroupMaker make_group) { make_group_ = std::move(make_group); }
  // Facts of a session that is, or was, live; makes it where there was none.
  const SessionFacts& facts(const RunConfig& configuration);
  // Facts that a journal holds, so that nothing needs to be loaded for them.
  void remember(const RunConfig& configuration, SessionFacts facts);
  // Runs `action`, which uses the session of a configuration. The policy for failures of every study: an
  // Error, and a worker that is lost, fail this action alone; a lost worker's session is dropped, so that the
  // next use starts another process. Whatever fails once should_stop says so is no failure, but stops the
  // run, as a worker does that was stopped. A JournalError, and a mistake in the program, are thrown on.
  Attempt attempt(const RunConfig& configuration, const std::function<void()>& action,
                  const ShouldStop& should_stop = {});
  // Ends a session; the next use makes it again.
  void drop(const RunConfig& configuration);
  // Ends all other sessions, for their memory.
  void keep_only(const std::vector<RunConfig>& configurations);
  // The next use of each makes it again. Keeps what prepare() started.
  // Those that start by waiting end while such others start, until somebody waits for it.
  void begin_end_live();
  void wait_ended();
  void end_all();  // that too
  // Cuts cases into groups whose configurations fit the budget together, the first configuration in each.
  std::vector<std::vector<RunConfig>> groups(const std::vector<RunConfig>& configurations) const;
  // Why it cannot fit, or none: "out of memory predicted: 5000 MiB needed, 4000 MiB allowed".
  std::optional<std::string> why_not(const RunConfig& configuration) const;
  // The share that it takes of the memory that it is allowed; 0: not known, or no limit.
  double memory_share(const RunConfig& configuration) const;

 private:
  Bytes budget_for(const RunConfig& configuration) const;
  std::unique_ptr<Session> made(const RunConfig& configuration);
  void find_shares(const std::vector<RunConfig>& configurations);
  // Null where it does not fit beside what is held; else `held` grows by its share.
  std::unique_ptr<StartedSession> started(const RunConfig& configuration, double& held);
  std::unique_ptr<StartedSession> take_prepared(const std::string& key);  // null where there is none
  std::ptrdiff_t prepared() const;
  double held_share() const;
  double share_of(const std::string& key) const;
  // Waits for those that end where their memory or processor may be needed.
  void make_room(const std::vector<RunConfig>& configurations);
  bool has_failed(const std::string& key) const { return failures_.count(key) > 0; }

  SessionMaker make_;
  GroupMaker make_group_;
  std::function<Bytes(const RunConfig&)> memory_of_;
  Bytes budget_;
  bool have_processes_;
  std::function<Bytes(const RunConfig&)> device_budget_;
  SideBySide side_by_side_;
  // By the configuration's key.
  std::map<std::string, std::unique_ptr<Session>> live_;
  std::map<std::string, std::unique_ptr<Session>> ending_;
  std::map<std::string, std::vector<std::unique_ptr<StartedSession>>> prepared_;
  std::map<std::string, double> shares_;  // the memory that each live or prepared one was predicted to take
  std::map<std::string, SessionFacts> facts_;
  std::map<std::string, std::string> failures_;
};

}  // namespace assay
