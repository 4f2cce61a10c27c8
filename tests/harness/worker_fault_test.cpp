// A worker whose device has failed, and configurations whose devices have memory of their own.
#include <gtest/gtest.h>

#include "assay/harness/sweep.h"
#include "assay/harness/worker_protocol.h"

namespace assay {
namespace {

// The process has said why and ended: the session is lost, and the reason is the worker's.
TEST(WorkerFault, EndsTheSessionWithItsCause) {
  WorkerOptions options;
  options.candidates = {"m"};
  const auto worker_that_says = [&](const std::string& answer) {
    options.program = {"/bin/sh", "-c", "read line; echo '" + answer + "'; read line"};
  };
  worker_that_says(R"({"ok":false,"error":"the GPU failed: illegal address","is_fatal":true})");
  try {
    worker_session(options);
    FAIL();
  } catch (const WorkerLost& lost) {
    EXPECT_EQ(lost.cause(), WorkerLost::Cause::crashed);
    EXPECT_STREQ(lost.what(), "the GPU failed: illegal address");
  }
  worker_that_says(R"({"ok":false,"error":"no such file"})");
  try {
    worker_session(options);
    FAIL();
  } catch (const WorkerLost&) {
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no such file");
  }
}

RunConfig on(const Device& device, Preset precision) {
  RunConfig config;
  config.device = device;
  config.precision = precision;
  return config;
}

TEST(DeviceBudget, CountsTheMemoryOfEachDevice) {
  const Device gpu{Device::Kind::cuda, 0};
  const RunConfig a = on(gpu, Preset::float16), b = on(gpu, Preset::nf4), c = on(Device{}, Preset::float32);
  const Sessions sessions(
      [](const RunConfig&) -> std::unique_ptr<Session> { throw Error("none is made"); },
      [&](const RunConfig& config) { return Bytes{config.precision == Preset::float32 ? 90 : 600}; },
      Bytes{100}, true, [&](const RunConfig& config) { return Bytes{config.device == gpu ? 1000 : 0}; });
  EXPECT_FALSE(sessions.why_not(a));
  EXPECT_FALSE(sessions.why_not(c));
  EXPECT_EQ(sessions.groups({a, b}).size(), 1U);  // two at least
  EXPECT_EQ(sessions.groups({a, b, c}).size(), 2U);
  const Sessions small([](const RunConfig&) -> std::unique_ptr<Session> { throw Error("none is made"); },
                       [](const RunConfig&) { return Bytes{std::int64_t{3} << 20}; }, Bytes{100'000'000},
                       true, [](const RunConfig&) { return Bytes{std::int64_t{2} << 20}; });
  EXPECT_EQ(small.why_not(a), "out of memory predicted: 3 MiB needed, 2 MiB allowed");
}

}  // namespace
}  // namespace assay
