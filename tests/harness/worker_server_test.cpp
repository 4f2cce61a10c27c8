// A worker that holds several models: each request is answered by the model that its key names.
#include <gtest/gtest.h>

#include <numeric>
#include <sstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/harness/worker_protocol.h"
#include "assay/model/model.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/timed_runtime.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

class ServedModels : public testing::Test {
 protected:
  OrderedJson ask(const OrderedJson& request) { return OrderedJson::parse(server_.answer(request.dump())); }
  OrderedJson load(const std::string& model, const OrderedJson& more = OrderedJson::object()) {
    OrderedJson request{{"op", "load"}, {"model", path_of(model)}, {"threads", 1}, {"tune", "off"}};
    request.update(more);
    return ask(request);
  }
  // What a worker answers that holds this model alone.
  static OrderedJson alone(const std::string& model, const OrderedJson& request) {
    WorkerServer server;
    const OrderedJson load{{"op", "load"}, {"model", path_of(model)}, {"threads", 1}, {"tune", "off"}};
    server.answer(load.dump());
    return OrderedJson::parse(server.answer(request.dump()));
  }
  static std::string path_of(const std::string& model) { return test::fixture_model(model).string(); }
  static void expect_refused(const OrderedJson& answer, const std::string& words) {
    EXPECT_EQ(answer["ok"], false);
    EXPECT_NE(answer.value("error", "").find(words), std::string::npos) << answer;
  }

  const OrderedJson logits_{{"op", "logits"}, {"ids", {1, 2, 3}}};
  WorkerServer server_;
};

OrderedJson with_key(OrderedJson request, const std::string& key) {
  request["key"] = key;
  return request;
}

TEST_F(ServedModels, AreAnsweredByTheirKeys) {
  EXPECT_EQ(load("minimal", {{"key", "large"}})["ok"], true);
  EXPECT_EQ(load("llama_minimal", {{"key", "small"}})["ok"], true);
  const OrderedJson large = alone("minimal", logits_), small = alone("llama_minimal", logits_);
  ASSERT_NE(large, small);
  // The same tokens, in turns.
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(ask(with_key(logits_, "large")), large);
    EXPECT_EQ(ask(with_key(logits_, "small")), small);
  }
  EXPECT_EQ(ask(logits_), large);  // the first
  for (const char* op : {"prefill", "decode", "profile", "roofline", "facts"}) {
    OrderedJson request{{"op", op}, {"key", "small"}};
    if (std::string(op) == "roofline")
      request["working_set_bytes"] = 1 << 20;
    else if (std::string(op) != "facts")
      request["ids"] = {{1, 2, 3}};
    if (std::string(op) == "decode" || std::string(op) == "profile") request["new_tokens"] = 2;
    EXPECT_EQ(ask(request)["ok"], true) << op;
  }
  EXPECT_EQ(ask({{"op", "facts"}, {"key", "small"}})["facts"]["model"]["family"], "llama");
  EXPECT_EQ(ask({{"op", "facts"}})["facts"]["model"]["family"], "gpt2");
}

TEST_F(ServedModels, AreReplacedOneByOne) {
  load("minimal");
  load("llama_minimal", {{"key", "b"}});
  load("llama_minimal");  // in place of the first
  EXPECT_EQ(ask(logits_), alone("llama_minimal", logits_));
  expect_refused(load("no_such_model", {{"key", "b"}}), "no_such_model");
  expect_refused(ask(with_key(logits_, "b")), "no model is loaded as 'b'");
  EXPECT_EQ(ask(logits_)["ok"], true);
  expect_refused(load("no_such_model"), "no_such_model");
  expect_refused(ask(logits_), "no model is loaded");  // never quietly another
  EXPECT_EQ(load("minimal", {{"key", "b"}})["ok"], true);
  expect_refused(ask(logits_), "no model is loaded");
  EXPECT_EQ(ask(with_key(logits_, "b")), alone("minimal", logits_));
}

// Two of one key are never in memory, so the first has gone when the second turns out not to load.
TEST_F(ServedModels, AreGoneWhereTheNextDoesNotLoad) {
  const OrderedJson named{{"op", "load"}, {"key", "a"}, {"model", path_of("absent")}},
      configured{{"op", "load"},
                 {"key", "a"},
                 {"candidates", {path_of("absent")}},
                 {"configuration", OrderedJson::object()},
                 {"needs_tokenizer", false}};
  for (const OrderedJson& next : {named, configured}) {
    EXPECT_EQ(load("minimal", {{"key", "a"}})["ok"], true);
    EXPECT_EQ(ask(with_key(logits_, "a"))["ok"], true);
    EXPECT_EQ(ask(next)["ok"], false);
    expect_refused(ask(with_key(logits_, "a")), "no model is loaded as 'a'");
  }
}

TEST_F(ServedModels, KeysAreTextsThatWereLoaded) {
  load("minimal");
  expect_refused(ask(with_key(logits_, "b")), "no model is loaded as 'b'");
  OrderedJson request = logits_;
  request["key"] = 7;
  expect_refused(ask(request), "key");
  request["key"] = nullptr;
  EXPECT_EQ(ask(request)["ok"], true);
}

// Its name before it was called the roofline.
TEST_F(ServedModels, AnswerEarlierNames) {
  load("minimal");
  EXPECT_GT(ask({{"op", "roof"}, {"working_set_bytes", 1 << 20}})["read_bytes_per_s"], 0);
}

TEST_F(ServedModels, AreServedLineByLineUntilTheyAreToldToQuit) {
  std::istringstream requests("{\"op\":\"dance\"}\n{\"op\":\"quit\"}\n{\"op\":\"quit\"}\n");
  std::vector<std::string> answers;
  server_.serve(requests, [&](const std::string& answer) { answers.push_back(answer); });
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_NE(answers[0].find("unknown op 'dance'"), std::string::npos);
  EXPECT_EQ(answers[1], "{\"ok\":true}");
  EXPECT_FALSE(server_.is_open());
  EXPECT_FALSE(server_.has_failed());
}

TEST(WorkerServer, SaysThatItsDeviceHasFailedAndEnds) {
  WorkerServer server(
      {}, [](const auto&, const auto&, const auto&) -> LoadedModel { throw DeviceFault("the GPU failed"); });
  EXPECT_EQ(server.answer(R"({"op":"load","model":"m"})"),
            R"({"ok":false,"error":"the GPU failed","is_fatal":true})");
  EXPECT_FALSE(server.is_open());
  EXPECT_TRUE(server.has_failed());
}

TEST(WorkerServer, SurvivesWhatMemoryCannotHold) {
  WorkerServer server({},
                      [](const auto&, const auto&, const auto&) -> LoadedModel { throw std::bad_alloc(); });
  EXPECT_EQ(server.answer(R"({"op":"load","model":"m"})"), R"({"ok":false,"error":"not enough memory"})");
  EXPECT_TRUE(server.is_open());
}

// Ctrl-C ends a load, and what was tuned once is not tuned again.
TEST(WorkerServer, HandsWhatItIsToldToTheLoad) {
  LoadOptions told;
  WorkerServer server([] { return true; },
                      [&](const auto&, const auto&, const LoadOptions& options) -> LoadedModel {
                        told = options;
                        throw Error("it does not load");
                      });
  server.answer(R"({"op":"load","model":"m"})");
  ASSERT_TRUE(told.should_stop);
  EXPECT_TRUE(told.should_stop());
  const auto constants = to_json(*make_backend({}, {.threads = 3, .tune = Tune::once})->constants());
  const OrderedJson request{{"op", "load"},
                            {"candidates", {"m"}},
                            {"configuration", OrderedJson::object()},
                            {"needs_tokenizer", false},
                            {"constants", constants}};
  server.answer(request.dump());
  ASSERT_NE(told.constants, nullptr);
  EXPECT_EQ(to_json(*told.constants), constants);
  EXPECT_FALSE(told.needs_tokenizer);
}

TEST(WorkerServer, SaysThatAThreadCannotStart) {
  WorkerServer server({}, [](const auto&, const auto&, const auto&) -> LoadedModel {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  const OrderedJson reply = OrderedJson::parse(server.answer(R"({"op": "load", "model": "m"})"));
  EXPECT_EQ(reply["ok"], false);
  EXPECT_EQ(reply["error"], "not enough memory to start a thread, or too many threads");
  EXPECT_FALSE(server.has_failed());
}

// Two sessions of one process, through the program itself.
TEST(WorkerSessions, ShareAProcess) {
  WorkerOptions options;
  options.program = {program_path(), "worker"};
  RunConfig config;
  config.threads = 1;
  config.tune = Tune::off;
  const auto model = [&](const std::string& key, const std::string& name) {
    return WorkerModel{key, {test::fixture_model(name).string()}, config};
  };
  options.needs_tokenizer = false;
  const auto sessions = worker_sessions(options, {model("a", "minimal"), model("b", "llama_minimal")});
  ASSERT_EQ(sessions.size(), 2U);
  Case spec;
  spec.prompts = {std::vector<TokenId>{1, 2, 3}};
  spec.new_tokens = 4;
  std::vector<std::vector<TokenId>> ids;
  for (std::size_t i = 0; i < 2; ++i) {
    WorkerOptions own = options;
    own.candidates = model("", i == 0 ? "minimal" : "llama_minimal").candidates;
    own.configuration = config;
    ids.push_back(sessions[i]->first_run(spec).ids.front());
    EXPECT_EQ(worker_session(own)->first_run(spec).ids.front(), ids.back());
    EXPECT_EQ(sessions[i]->run(spec).new_tokens, 4);
  }
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(sessions[0]->facts().model.family, "gpt2");
  EXPECT_EQ(sessions[1]->facts().model.family, "llama");
  EXPECT_THROW(worker_sessions(options, {model("a", "minimal"), model("a", "minimal")}), UsageError);
  EXPECT_THROW(worker_sessions(options, {model("", "minimal")}), UsageError);
}

// On a GPU, whose launches each take 2 us here.
TEST(ServedGpu, TimesADecodeStepByTheNodesOfItsGraph) {
  const auto runtime =
      std::make_shared<cuda::testing_support::TimedRuntime>([](const auto&) { return 2e-6; });
  runtime->graph_seconds = 5e-6;
  std::shared_ptr<Model> model;
  WorkerServer server({}, [&](const auto&, const RunConfig& config, const auto&) {
    model = std::make_shared<Model>(
        Model::load(std::make_shared<const ModelFolder>(test::fixture_model("llama_grouped")),
                    make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime), precision_from_name("nf4")));
    LoadedModel loaded;
    loaded.model = model;
    loaded.config = config;
    return loaded;
  });
  const auto ask = [&](const OrderedJson& request) {
    return OrderedJson::parse(server.answer(request.dump()));
  };
  ASSERT_EQ(ask({{"op", "load"}, {"model", "any"}})["ok"], true);
  const OrderedJson profile = ask({{"op", "profile"}, {"ids", {{1, 2, 3}}}, {"new_tokens", 4}});
  ASSERT_EQ(profile["ok"], true) << profile;
  const GpuNodes nodes = nodes_on_gpu(model->program().plan(), 1, 256);
  const int all =
      std::accumulate(nodes.of_operations.begin(), nodes.of_operations.end(), 2 + nodes.of_tables);
  EXPECT_NEAR(profile["step_s"].get<double>(), all * 2e-6 + 5e-6, 1e-12);
  int seen = 0;
  double seconds = 0, by_phase = 0;
  for (const OrderedJson& one : profile["operations"]) {
    EXPECT_NEAR(one["seconds"].get<double>(), one["nodes"].get<int>() * 2e-6, 1e-12) << one;
    seen += one["nodes"].get<int>();
    seconds += one["seconds"].get<double>();
  }
  for (const OrderedJson& phase : profile["phases"]) by_phase += phase["seconds"].get<double>();
  EXPECT_EQ(seen, all);
  EXPECT_NEAR(seconds, all * 2e-6, 1e-12);
  EXPECT_NEAR(by_phase, seconds, 1e-12);
  EXPECT_EQ(profile["operations"].back()["name"], "next_token");
  // Several sequences have phases alone, a prefill is timed between its operations.
  const OrderedJson two = ask({{"op", "profile"}, {"ids", {{1, 2, 3}, {4}}}, {"new_tokens", 1}}),
                    prefill = ask({{"op", "profile"}, {"ids", {{1, 2, 3}}}, {"new_tokens", 0}});
  EXPECT_GT(two["step_s"], 0);
  EXPECT_TRUE(two["operations"].empty());
  EXPECT_EQ(prefill.count("step_s"), 0U);
  EXPECT_EQ(prefill["operations"][0].count("nodes"), 0U);
}

}  // namespace
}  // namespace assay
