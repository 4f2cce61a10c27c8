// Sessions that start side by side without processes: a log tells what was asked of each, in order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/harness/sweep.h"
#include "assay/harness/worker_protocol.h"
#include "support/fake_session.h"

namespace assay::test {

struct Starts {
  std::vector<std::string> log;  // "start 1", "prepare 1", "wait 1", "load 1", "finish 1", "end 1", "make 1"
  std::function<void(int threads, int number)> on_finish = [](int, int) {};         // throws what fails
  std::function<void(const std::string& name)> on_run = [](const std::string&) {};  // the same
  double run_s = 1;
  std::map<int, int> numbers;  // how many were made, by configuration
  int at_once = 2;
  bool is_worth_preparing = true;
};

class LoggedSession : public FakeSession {
 public:
  LoggedSession(Starts& starts, const RunConfig& configuration, double load_s)
      : FakeSession(configuration, [&starts](const RunConfig&, const Case&) { return starts.run_s; }),
        starts_(starts),
        name_(std::to_string(*configuration.threads)),
        load_s_(load_s) {}
  ~LoggedSession() override { starts_.log.push_back("gone " + name_); }
  SessionFacts facts() override {
    SessionFacts facts = FakeSession::facts();
    facts.model.load_s = load_s_;
    return facts;
  }
  FirstRun first_run(const Case& spec) override {
    starts_.log.push_back("first run " + name_);
    return FakeSession::first_run(spec);
  }
  Sample run(const Case& spec) override {
    starts_.log.push_back((std::exchange(is_running_, false) ? "wait for run " : "run ") + name_);
    starts_.on_run(name_);
    return FakeSession::run(spec);
  }
  void begin_run(const Case&) override {
    starts_.log.push_back("begin run " + name_);
    is_running_ = true;
  }
  void begin_end() override { starts_.log.push_back("end " + name_); }

 private:
  Starts& starts_;
  const std::string name_;
  const double load_s_;
  bool is_running_ = false;
};

class LoggedStart : public StartedSession {
 public:
  LoggedStart(Starts& starts, RunConfig configuration)
      : starts_(starts),
        configuration_(std::move(configuration)),
        threads_(*configuration_.threads),
        number_(starts.numbers[threads_]++) {
    log("start");
  }
  void begin_prepare() override {
    log("prepare");
    is_preparing_ = true;
  }
  void wait_prepared() override {
    if (std::exchange(is_preparing_, false)) log("wait");
  }
  void begin_load() override {
    if (!std::exchange(is_loading_, true)) log("load");
  }
  std::unique_ptr<Session> finish() override {
    begin_load();
    is_preparing_ = false;
    log("finish");
    starts_.on_finish(threads_, number_);
    return std::make_unique<LoggedSession>(starts_, configuration_, 1 + number_);
  }
  void begin_end() override { log("end"); }

 private:
  void log(const std::string& what) { starts_.log.push_back(what + " " + std::to_string(threads_)); }

  Starts& starts_;
  const RunConfig configuration_;
  const int threads_, number_;
  bool is_preparing_ = false, is_loading_ = false;
};

inline RunConfig config_of_threads(int threads) {
  RunConfig config;
  config.threads = threads;
  return config;
}

// A configuration takes as many bytes as it has threads. `starts` must outlive the sessions.
inline std::unique_ptr<Sessions> logged_sessions(Starts& starts, std::int64_t budget = 0) {
  auto sessions = std::make_unique<Sessions>(
      [&starts](const RunConfig& configuration) -> std::unique_ptr<Session> {
        const int threads = *configuration.threads;
        starts.log.push_back("make " + std::to_string(threads));
        starts.on_finish(threads, starts.numbers[threads]++);
        return std::make_unique<LoggedSession>(starts, configuration, starts.numbers[threads]);
      },
      [](const RunConfig& c) { return Bytes{*c.threads}; }, Bytes{budget}, true);
  sessions->set_side_by_side(
      {.start = [&starts](const RunConfig& c) { return std::make_unique<LoggedStart>(starts, c); },
       .is_worth_preparing = [&starts](const RunConfig&) { return starts.is_worth_preparing; },
       .at_once = [&starts](const RunConfig&) { return starts.at_once; }});
  return sessions;
}

}  // namespace assay::test
