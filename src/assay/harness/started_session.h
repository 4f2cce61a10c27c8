// A session whose process has started, and which is loaded when it is its turn: several start side by side.
#pragma once

#include <functional>
#include <memory>

#include "assay/config/run_config.h"
#include "assay/harness/session.h"

namespace assay {

class StartedSession {
 public:
  virtual ~StartedSession() = default;  // ends the process, unless finish() gave it to a session
  // Asks the process to make what a load needs first: the context of its GPU. Returns at once.
  virtual void begin_prepare() = 0;
  // Waits until that is made. Where it could not be, the load will say why.
  virtual void wait_prepared() = 0;
  // Asks for the load, once, and returns. Throws as finish().
  virtual void begin_load() = 0;
  // Waits for the load; begins it where nobody has. Throws as a SessionMaker does. The last call but
  // begin_end().
  virtual std::unique_ptr<Session> finish() = 0;
  // As Session::begin_end().
  virtual void begin_end() {}
};

// How sessions are started side by side. All functions are of a configuration.
struct SideBySide {
  std::function<std::unique_ptr<StartedSession>(const RunConfig&)> start = {};  // empty: never
  // Whether a process mostly waits for a driver until it is warm, as on a GPU. It is prepared before its
  // turn, and warms up and ends while others start.
  std::function<bool(const RunConfig&)> is_worth_preparing = [](const RunConfig&) { return false; };
  // How many may start or load at the same time.
  std::function<int(const RunConfig&)> at_once = [](const RunConfig&) { return 1; };
};

}  // namespace assay
