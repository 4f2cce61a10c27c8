// The op diverge of worker processes: its JSON, and models of one process compared through the program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/harness/divergence_json.h"
#include "assay/harness/worker_protocol.h"
#include "support/fixtures.h"

namespace assay {
namespace {

RunConfig one_thread(Preset preset) {
  RunConfig config;
  config.precision = preset;
  config.threads = 1;
  config.tune = Tune::off;
  return config;
}

WorkerOptions worker_of_program() {
  WorkerOptions options;
  options.program = {program_path(), "worker"};
  options.needs_tokenizer = false;
  return options;
}

DivergeRequest some_ids() {
  DivergeRequest request;
  for (int i = 0; i < 90; ++i) request.ids.push_back(i * 37 % 101);
  request.context = 40;
  request.max_tokens = 80;
  request.greedy_prompt = 8;
  request.greedy_tokens = 6;
  return request;
}

TEST(DivergeRequest, IsReadAsItIsWritten) {
  const DivergeRequest request = some_ids();
  const auto json = to_json(request);
  EXPECT_EQ(to_json(diverge_request_from_json(JsonReader(json, "r"))).dump(), json.dump());
  DivergeRequest of_sample;
  of_sample.sample_tokens = 2048;
  const auto sample_json = to_json(of_sample);
  EXPECT_FALSE(sample_json.contains("ids"));
  EXPECT_EQ(diverge_request_from_json(JsonReader(sample_json, "request")).sample_tokens, 2048);
  DivergeRequest of_file;
  of_file.file = "text.txt";
  of_file.stride = 3;
  EXPECT_EQ(diverge_request_from_json(JsonReader(to_json(of_file), "r")).stride, 3);
  for (const char* text : {R"({})", R"({"file": "a", "ids": [1]})"}) {
    const auto wrong = nlohmann::ordered_json::parse(text);
    EXPECT_THROW(diverge_request_from_json(JsonReader(wrong, "r")), Error) << text;
  }
}

TEST(DivergeRequest, IsAnsweredByTheModelsOfAWorker) {
  const std::string path = test::fixture_model("base").string();
  std::vector<std::string> failures;
  const auto sessions = worker_sessions(worker_of_program(),
                                        {{"base", {path}, one_thread(Preset::float32)},
                                         {"nf4", {path}, one_thread(Preset::nf4)},
                                         {"absent", {path + "-absent"}, one_thread(Preset::nf4)},
                                         {"copy", {path}, one_thread(Preset::float32)}},
                                        failures);
  ASSERT_EQ(sessions.size(), 4U);
  EXPECT_EQ(sessions[2], nullptr);
  EXPECT_NE(failures[2], "");
  EXPECT_EQ(failures[0] + failures[1] + failures[3], "");
  const CorpusDivergence found = sessions[0]->diverge({sessions[1].get(), sessions[3].get()}, some_ids());
  EXPECT_EQ(found.ids.size(), 80U);
  EXPECT_EQ(found.divergence.protocol, "hf context=40 stride=20");
  ASSERT_EQ(found.divergence.candidates.size(), 2U);
  ASSERT_EQ(found.greedy.size(), 2U);
  EXPECT_EQ(found.greedy[1].equal_tokens, 6);
  EXPECT_EQ(found.greedy[1].new_tokens, 6);
  for (const TokenDivergence& token : found.divergence.candidates[1].tokens) EXPECT_EQ(token.kl, 0);
  // The same in this process.
  const auto local = [&](Preset preset) {
    return local_session(load_model_and_tokenizer({path}, one_thread(preset), {.needs_tokenizer = false}));
  };
  const auto base = local(Preset::float32), nf4 = local(Preset::nf4);
  const CorpusDivergence here = base->diverge({nf4.get()}, some_ids());
  ASSERT_EQ(here.divergence.scored, found.divergence.scored);
  for (std::size_t i = 0; i < here.divergence.scored.size(); ++i)
    EXPECT_EQ(here.divergence.candidates[0].tokens[i].kl, found.divergence.candidates[0].tokens[i].kl);
  EXPECT_EQ(here.greedy[0].equal_tokens, found.greedy[0].equal_tokens);
  // Numbers survive their JSON.
  const auto json = to_json(found);
  EXPECT_EQ(to_json(corpus_divergence_from_json(JsonReader(json, "a"))).dump(), json.dump());
  auto broken = json;
  broken["candidates"][0]["kl"].erase(0);
  EXPECT_THROW(corpus_divergence_from_json(JsonReader(broken, "a")), Error);
  // A session of another process is none of this worker's.
  EXPECT_THROW(sessions[0]->diverge({nf4.get()}, some_ids()), Error);
  EXPECT_THROW(base->diverge({sessions[1].get()}, some_ids()), Error);
}

}  // namespace
}  // namespace assay
