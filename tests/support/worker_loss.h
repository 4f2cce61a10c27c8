// How a worker was lost, for tests that lose one.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/harness/worker_protocol.h"

namespace assay::test {

using Loss = std::pair<int, std::string>;
inline constexpr int kCrashed = static_cast<int>(WorkerLost::Cause::crashed),
                     kTimedOut = static_cast<int>(WorkerLost::Cause::timed_out),
                     kStopped = static_cast<int>(WorkerLost::Cause::stopped);

// Cause and text of the loss that an action ends in; -1 and the text of another Error, -2 of none.
inline Loss loss_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const WorkerLost& lost) {
    return {static_cast<int>(lost.cause()), lost.what()};
  } catch (const Error& error) {
    return {-1, error.what()};
  }
  return {-2, ""};
}

}  // namespace assay::test
