// Worker processes that start and load side by side: shells that wait for each other, die or say nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#include "assay/harness/case_json.h"
#include "assay/harness/prepared_device.h"
#include "assay/harness/sessions.h"
#include "assay/harness/worker_protocol.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/worker_loss.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

class StartedWorkers : public testing::Test {
 protected:
  StartedWorkers() {
    options_.configuration.tune = Tune::off;
    options_.time_limit = {60};
  }
  // A shell that is given the number of a worker as $1 and the folder as $2, and can say $facts.
  std::unique_ptr<StartedSession> start(const std::string& script, int number = 1) {
    WorkerOptions own = options_;
    SessionFacts facts;
    facts.kernels = "of worker " + std::to_string(number);
    const std::string answer = OrderedJson{{"ok", true}, {"facts", to_json(facts)}}.dump();
    own.program = {"/bin/sh",
                   "-c",
                   "facts='" + answer +
                       "'; say() { printf '%s\\n' \"$1\"; }; wait_for() { until [ -e \"$1\" ]; do sleep "
                       "0.01; done; }; " +
                       script,
                   "sh",
                   std::to_string(number),
                   folder_.path().string()};
    return start_worker(own);
  }
  void wait_for(const std::string& name) const {
    while (!std::filesystem::exists(folder_ / name))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const test::TemporaryFolder folder_;
  WorkerOptions options_;
};

// None answers before all three have been asked: one after the other would never end.
TEST_F(StartedWorkers, LoadAtTheSameTime) {
  const std::string script =
      "read line; : >$2/$1; for i in 1 2 3; do wait_for $2/$i; done; say \"$facts\"; "
      "while read line; do say \"$facts\"; done";
  Sessions sessions([&](const RunConfig& c) { return start(script, *c.threads)->finish(); }, {}, {}, true);
  sessions.set_side_by_side({.start = [&](const RunConfig& c) { return start(script, *c.threads); },
                             .at_once = [](const RunConfig&) { return 3; }});
  std::vector<RunConfig> configurations(3);
  for (int i = 0; i < 3; ++i) configurations[static_cast<std::size_t>(i)].threads = i + 1;
  sessions.load(configurations);
  for (const RunConfig& c : configurations) {
    EXPECT_TRUE(sessions.is_live(c));
    EXPECT_EQ(sessions.facts(c).kernels, "of worker " + std::to_string(*c.threads));
  }
}

// It dies beside others, and again by itself: its configuration fails with the cause, the others live.
TEST_F(StartedWorkers, ThatDieFailAlone) {
  const std::string script =
      "read line; [ $1 = 2 ] && exit 3; say \"$facts\"; while read line; do say \"$facts\"; done";
  Sessions sessions([&](const RunConfig& c) { return start(script, *c.threads)->finish(); }, {}, {}, true);
  sessions.set_side_by_side({.start = [&](const RunConfig& c) { return start(script, *c.threads); },
                             .at_once = [](const RunConfig&) { return 3; }});
  std::vector<RunConfig> configurations(3);
  for (int i = 0; i < 3; ++i) configurations[static_cast<std::size_t>(i)].threads = i + 1;
  sessions.load(configurations);
  EXPECT_TRUE(sessions.is_live(configurations[0]));
  EXPECT_EQ(test::loss_of([&] { sessions.of(configurations[1]); }),
            test::Loss(-1, "while loading, the worker exited with 3"));
  EXPECT_EQ(sessions.of(configurations[2]).facts().kernels, "of worker 3");
}

// Each answers its run once both have been asked, and run() takes that answer.
TEST_F(StartedWorkers, RunAtTheSameTime) {
  Sample seven;
  seven.sequences = 7;
  const std::string sample = OrderedJson{{"ok", true}, {"sample", to_json(seven)}}.dump();
  const std::string script =
      "read line; say \"$facts\"; while read line; do printf '%s\\n' \"$line\" >>$2/asked$1; "
      "case $line in *warm-up*) : >$2/$1; for i in 1 2; do wait_for $2/$i; done; say '" +
      sample + "';; *) say \"$facts\";; esac; done";
  const auto first = start(script, 1)->finish(), second = start(script, 2)->finish();
  Case spec;
  spec.label = "warm-up";
  spec.prompts = {"a"};
  first->begin_run(spec);
  EXPECT_THROW(first->facts(), std::logic_error) << "its answer would be taken for the run's";
  second->begin_run(spec);
  for (const auto& session : {first.get(), second.get()}) {
    EXPECT_EQ(session->run(spec).sequences, 7);
    EXPECT_EQ(session->facts().kernels.substr(0, 9), "of worker");
  }
  for (const char* file : {"asked1", "asked2"}) {
    std::istringstream lines(test::read_file(folder_ / file));
    std::vector<std::string> ops;
    for (std::string line; std::getline(lines, line);) ops.push_back(OrderedJson::parse(line)["op"]);
    EXPECT_EQ(ops, (std::vector<std::string>{"run", "facts"}));
  }
}

TEST_F(StartedWorkers, ArePreparedBeforeTheyLoad) {
  const std::string logged = "while read line; do printf '%s\\n' \"$line\" >>$2/asked; ";
  const auto asked = [&] {
    std::vector<std::string> ops;
    std::istringstream lines(test::read_file(folder_ / "asked"));
    for (std::string line; std::getline(lines, line);) ops.push_back(OrderedJson::parse(line)["op"]);
    std::filesystem::remove(folder_ / "asked");
    return ops;
  };
  using Ops = std::vector<std::string>;
  // The failure of a preparation is no failure of the load.
  for (const char* answer : {R"({"ok":true})", R"({"ok":false,"error":"no GPU"})"}) {
    const auto started =
        start(logged + "case $line in *prepare*) say '" + answer + "';; *) say \"$facts\";; esac; done");
    started->begin_prepare();
    started->wait_prepared();
    EXPECT_EQ(started->finish()->facts().kernels, "of worker 1");
    EXPECT_EQ(asked(), (Ops{"prepare", "load", "facts"}));
  }
  // Nobody waits in between.
  const auto hasty =
      start(logged + "case $line in *prepare*) say '{\"ok\":true}';; *) say \"$facts\";; esac; done");
  hasty->begin_prepare();
  hasty->begin_load();
  hasty->begin_load();
  EXPECT_EQ(hasty->finish()->facts().kernels, "of worker 1");
  EXPECT_EQ(asked(), (Ops{"prepare", "load", "facts"}));
  options_.is_this_build = false;  // which may not know the request
  const auto earlier = start(logged + "say \"$facts\"; done");
  earlier->begin_prepare();
  earlier->wait_prepared();
  earlier->finish();
  EXPECT_EQ(asked(), Ops{"load"});
}

TEST_F(StartedWorkers, ThatDieWhilePreparingSayHow) {
  const auto started = start("read line; exit 3");
  started->begin_prepare();
  started->wait_prepared();
  EXPECT_EQ(test::loss_of([&] { started->finish(); }),
            test::Loss(test::kCrashed, "the worker exited with 3"));
}

// The time limit is for the worker, not for whoever asks it late.
TEST_F(StartedWorkers, MayHaveAnsweredLongAgo) {
  options_.time_limit = {0.05};
  const auto started =
      start("read line; say \"$facts\"; : >$2/answered; while read line; do say \"$facts\"; done");
  started->begin_load();
  wait_for("answered");
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_NE(started->finish(), nullptr);
}

TEST_F(StartedWorkers, EndWhenTheyAreStoppedOrNotWanted) {
  const std::string script = "echo $$ >$2/pid$1; : >$2/ready$1; while read line; do :; done; exec sleep 100";
  bool is_stopped = false;
  options_.should_stop = [&] { return is_stopped; };
  const auto is_alive = [&](int number) {
    return kill(std::stoi(test::read_file(folder_ / ("pid" + std::to_string(number)))), 0) == 0;
  };
  auto first = start(script, 1), second = start(script, 2);
  wait_for("ready1");
  wait_for("ready2");
  EXPECT_TRUE(is_alive(1) && is_alive(2));
  is_stopped = true;
  EXPECT_EQ(test::loss_of([&] { first->finish(); }), test::Loss(test::kStopped, "interrupted"));
  EXPECT_FALSE(is_alive(1));
  second->begin_end();
  second.reset();
  EXPECT_FALSE(is_alive(2));
}

TEST(PreparedDevice, IsAskedForByARequestThatChangesNoAnswer) {
  const auto request = [](const char* op) {
    return OrderedJson{{"op", op}, {"configuration", {{"threads", 1}, {"tune", "off"}}}};
  };
  OrderedJson load = request("load");
  load["candidates"] = {test::fixture_model("minimal").string()};
  load["needs_tokenizer"] = false;
  load["memory_limit"] = nullptr;
  const auto facts_of = [&](WorkerServer& server) {
    OrderedJson answer = OrderedJson::parse(server.answer(load.dump()));
    EXPECT_EQ(answer["ok"], true) << answer;
    answer["facts"]["model"].erase("load_s");
    return answer;
  };
  WorkerServer plain, prepared;
  EXPECT_EQ(prepared.answer(request("prepare").dump()), R"({"ok":true})");
  EXPECT_EQ(facts_of(prepared), facts_of(plain));
  OrderedJson misspelt = request("prepare");
  misspelt["config"] = 1;
  EXPECT_EQ(OrderedJson::parse(prepared.answer(misspelt.dump()))["ok"], false);
}

TEST(ServedGpu, IsSharedByTheModelsOfOnePlace) {
  cuda::EmulatedDevice device;
  device.facts.processors = 1;
  std::vector<std::shared_ptr<Backend>> shared, used;
  WorkerServer server({}, [&](const auto&, const RunConfig& config, LoadOptions options) {
    shared.push_back(options.shared_backend);
    if (options.shared_backend == nullptr && config.device->kind == Device::Kind::cuda)
      options.shared_backend = make_cuda_backend(*config.device, cuda::make_emulated_runtime(device));
    LoadedModel loaded =
        load_model_and_tokenizer({test::fixture_model("llama_grouped").string()}, config, options);
    used.push_back(loaded.model->shared_backend());
    return loaded;
  });
  const auto load = [&](const std::string& key, const std::string& device_name, Preset precision) {
    RunConfig config;
    config.device = device_from_name(device_name);
    config.precision = precision;
    config.tune = Tune::off;
    const OrderedJson request{{"op", "load"},
                              {"key", key},
                              {"candidates", {"m"}},
                              {"configuration", to_json(config)},
                              {"needs_tokenizer", false}};
    const OrderedJson answer = OrderedJson::parse(server.answer(request.dump()));
    EXPECT_EQ(answer["ok"], true) << answer;
  };
  load("a", "cuda:0", Preset::float16);
  load("b", "cuda:0", Preset::int8_dynamic);
  load("c", "cuda:1", Preset::float16);
  load("d", "cpu", Preset::float32);
  load("e", "cpu", Preset::float32);
  ASSERT_EQ(shared.size(), 5U);
  EXPECT_EQ(shared[0], nullptr);
  EXPECT_EQ(shared[1], used[0]);
  for (const std::size_t other : {2, 3, 4}) EXPECT_EQ(shared[other], nullptr) << other;
}

TEST(PreparedDevice, IsTakenOnceByItsConfiguration) {
  cuda::EmulatedDevice device;
  device.facts.processors = 1;
  const std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime(device);
  PreparedDevice prepared;
  prepared.configuration.precision = Preset::float16;
  prepared.backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime);
  load_kernels(*prepared.backend);
  EXPECT_EQ(prepared.backend->memory()->allocated.value, 0);
  EXPECT_EQ(prepared.take_backend(RunConfig{}), nullptr);
  EXPECT_NE(prepared.take_backend(prepared.configuration), nullptr);
  EXPECT_EQ(prepared.take_backend(prepared.configuration), nullptr);
}

}  // namespace
}  // namespace assay
