// assay worker: a line for a line, the same ids and logits as the other commands, and no request that ends
// it.
#include <cstring>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "assay/backend/cpu/run/tuning.h"
#include "assay/base/cpu.h"
#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

const Json kLoadDemo{{"op", "load"}, {"model", "demo"}, {"threads", 1}};

ProgramResult run_worker(const std::vector<std::string>& lines, ProgramOptions options = {}) {
  for (const std::string& line : lines) options.input += line + "\n";
  return run_program({"worker"}, options);
}

// The answers to the lines, one each.
std::vector<Json> answers_to(const std::vector<std::string>& lines) {
  const ProgramResult result = run_worker(lines);
  expect_success(result);
  EXPECT_EQ(result.err, "");
  std::vector<Json> answers;
  for (const std::string& line : lines_of(result.out)) answers.push_back(Json::parse(line));
  EXPECT_EQ(answers.size(), lines.size());
  answers.resize(lines.size());
  return answers;
}

std::vector<Json> answers_to(const std::vector<Json>& requests) {
  std::vector<std::string> lines;
  for (const Json& request : requests) lines.push_back(request.dump());
  return answers_to(lines);
}

// Each is refused with all of its words, and the worker still works afterwards.
void expect_requests_refused(const std::vector<std::pair<std::string, std::vector<std::string>>>& cases,
                             const std::vector<Json>& before = {}) {
  std::vector<std::string> lines;
  for (const Json& request : before) lines.push_back(request.dump());
  for (const auto& [line, words] : cases) lines.push_back(line);
  lines.push_back(kLoadDemo.dump());
  const std::vector<Json> answers = answers_to(lines);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json& answer = answers[before.size() + i];
    SCOPED_TRACE(cases[i].first.substr(0, 200) + " -> " + answer.dump());
    EXPECT_EQ(answer.value("ok", Json()), Json(false));
    const std::string error = answer.value("error", "");
    EXPECT_FALSE(error.empty());
    EXPECT_LT(error.size(), 2000U);
    for (const std::string& word : cases[i].second) EXPECT_NE(error.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(answers.back()["ok"], true);
}

Json generated_ids(const std::string& ids, int new_tokens) {
  const ProgramResult result =
      run_program({"generate", "demo", "--ids", ids, "-n", std::to_string(new_tokens), "--ignore-end",
                   "--no-warm-up", "--json"});
  expect_success(result);
  return Json::parse(result.out)["ids"];
}

std::vector<int> some_ids(int count) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = (i * 37 + 11) % 4000;
  return ids;
}

TEST(CliWorker, LoadSaysWhatItHolds) {
  const Json answer =
      answers_to(std::vector<Json>{{{"op", "load"}, {"model", "demo"}, {"threads", 2}, {"isa", "scalar"}},
                                   {{"op", "quit"}}})
          .front();
  EXPECT_EQ(answer["ok"], true);
  EXPECT_EQ(answer["label"], "float32");
  EXPECT_EQ(answer["kernels"], "scalar");
  EXPECT_EQ(answer["threads"], 2);
  EXPECT_EQ(answer["context"], 1024);
  EXPECT_GT(answer["weight_bytes"], 1 << 20);
  EXPECT_GT(answer["load_s"], 0.0);
  const Json narrow =
      answers_to(std::vector<Json>{{{"op", "load"}, {"model", "demo"}, {"precision", "bf16"}}}).front();
  EXPECT_EQ(narrow["label"], "bfloat16");
  EXPECT_LT(narrow["weight_bytes"], answer["weight_bytes"]);
  const Json codes =
      answers_to(std::vector<Json>{{{"op", "load"}, {"model", "demo"}, {"kv_cache", "int8"}}}).front();
  EXPECT_EQ(codes["label"], "float32, KV cache int8");
}

TEST(CliWorker, PrefillAndDecodeGiveTheIdsOfGenerate) {
  const Json prompts = Json::parse("[[40,494,79],[199,40,494,79,351,12,7]]");
  const std::vector<Json> answers = answers_to(std::vector<Json>{
      kLoadDemo,
      {{"op", "prefill"}, {"ids", prompts}},
      {{"op", "decode"}, {"ids", prompts}, {"new_tokens", 5}},
      {{"op", "decode"}, {"ids", {prompts[1]}}, {"new_tokens", 5}},
  });
  const Json first = generated_ids("40,494,79", 6), second = generated_ids("199,40,494,79,351,12,7", 6);
  EXPECT_EQ(answers[1]["next"], Json({first[0], second[0]}));
  EXPECT_GT(answers[1]["seconds"], 0.0);
  EXPECT_EQ(answers[2]["ids"], Json({first, second}));
  EXPECT_EQ(answers[3]["ids"], Json::array({second}));
  const auto step_s = answers[2]["step_s"].get<std::vector<double>>();
  ASSERT_EQ(step_s.size(), 5U);
  const double seconds = answers[2]["seconds"];
  EXPECT_NEAR(std::accumulate(step_s.begin(), step_s.end(), 0.0), seconds, 1e-9);
  for (const double step : step_s) EXPECT_GT(step, 0);
}

// Longer than one step of the program: the last row is in the last part.
TEST(CliWorker, LongPrompts) {
  const std::vector<int> ids = some_ids(1000);
  const std::vector<Json> answers = answers_to(std::vector<Json>{
      kLoadDemo,
      {{"op", "logits"}, {"ids", ids}},
      {{"op", "prefill"}, {"ids", {ids, {40, 494, 79}, ids}}},
  });
  const auto logits = answers[1]["logits"].get<std::vector<float>>();
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  EXPECT_EQ(answers[2]["next"], Json({best, generated_ids("40,494,79", 1)[0], best}));
}

TEST(CliWorker, LogitsAreThoseOfTheLastPosition) {
  TemporaryFolder folder;
  const std::string path = folder / "x.npy";
  expect_success(run_program({"logits", "demo", "--ids", "40,494,79", "-o", path}));
  const std::string file = read_file(path);
  const auto logits = answers_to(std::vector<Json>{kLoadDemo, {{"op", "logits"}, {"ids", {40, 494, 79}}}})
                          .back()["logits"]
                          .get<std::vector<float>>();
  const std::size_t bytes = logits.size() * sizeof(float);
  ASSERT_GT(file.size(), 3 * bytes);
  EXPECT_EQ(std::memcmp(file.data() + file.size() - bytes, logits.data(), bytes), 0);
}

TEST(CliWorker, RooflinesAreOfTheWorkingSetAskedFor) {
  const std::vector<Json> answers = answers_to(std::vector<Json>{
      kLoadDemo,
      {{"op", "roofline"}, {"working_set_bytes", 1 << 20}},
      kLoadDemo,
      {{"op", "roofline"}, {"working_set_bytes", std::int64_t{1} << 40}},
  });
  for (const std::size_t i : {1U, 3U}) {
    EXPECT_GT(answers[i]["read_bytes_per_s"], 1e7);
    EXPECT_GE(answers[i]["operations_per_s"], 0.0);
  }
  expect_requests_refused({{R"({"op":"roofline","working_set_bytes":1})", {"no model is loaded"}}});
  expect_requests_refused({{R"({"op":"roofline","working_set_bytes":0})", {"working_set_bytes", "0"}},
                           {R"({"op":"roofline"})", {"working_set_bytes"}}},
                          {kLoadDemo});
}

TEST(CliWorker, PhasesAreOfWhatWasAskedFor) {
  const Json one = {1, 2, 3}, other = {4, 5, 6, 7, 8}, many = std::vector<int>(200, 9);
  const std::vector<Json> answers = answers_to(std::vector<Json>{
      kLoadDemo,
      {{"op", "profile"}, {"ids", {one}}, {"new_tokens", 4}},
      {{"op", "profile"}, {"ids", {one, other}}, {"new_tokens", 4}},
      {{"op", "profile"}, {"ids", {many}}, {"new_tokens", 0}},
      {{"op", "profile"}, {"ids", {std::vector<int>(1000, 9)}}, {"new_tokens", 24}},
  });
  const auto seconds_of = [](const Json& answer, const std::string& name) {
    for (const Json& phase : answer["phases"])
      if (phase["name"] == name) return phase["seconds"].get<double>();
    return -1.0;
  };
  for (std::size_t i = 1; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i]["ok"], true) << answers[i];
    for (const char* name : {"embed", "norm", "attention", "linear", "head"})
      EXPECT_GT(seconds_of(answers[i], name), 0) << name;
    for (const Json& phase : answers[i]["phases"]) {
      EXPECT_GE(phase["waiting_s"], 0) << phase;
      EXPECT_LE(phase["waiting_s"], phase["seconds"]) << phase;
    }
  }
  // 200 tokens at once are a hundred times the work of a step, though not the time.
  EXPECT_GT(seconds_of(answers[3], "linear"), seconds_of(answers[1], "linear"));
  expect_requests_refused({{R"({"op":"profile","ids":[[1]],"new_tokens":1})", {"no model is loaded"}}});
  expect_requests_refused({{R"({"op":"profile","ids":[[1],[]],"new_tokens":1})", {"ids[1]", "found none"}},
                           {R"({"op":"profile","ids":[],"new_tokens":1})", {"ids", "found none"}},
                           {R"({"op":"profile","ids":[[1,2]],"new_tokens":1023})",
                            {"2 tokens and 1023 new ones", "at most 1024"}},
                           {R"({"op":"profile","ids":[[1]],"new_tokens":-1})", {"new_tokens", "-1"}},
                           {R"({"op":"profile","ids":[1],"new_tokens":1})", {"ids"}},
                           {R"({"op":"profile","ids":[[99999]],"new_tokens":1})", {"99999"}}},
                          {kLoadDemo});
}

// As a file that is there already tells, or as is usual.
TEST(CliWorker, FetchesWeightsAsItWasTuned) {
  const Isa isa = best_usable_isa();
  if (isa == Isa::scalar) GTEST_SKIP() << "scalar kernels fetch nothing";
  const TemporaryFolder cache;
  const KernelConstants other{.fetch = {3072, 12288, !usual_constants().fetch.is_to_second_level},
                              .share_rows = 512};
  cpu::keep_tuning(cache / "assay/tuning.json", isa, 1,
                   {.constants = other, .gain = 1.5, .many_rows_gain = 1.25});
  const auto load = [](const char* tune) {
    return Json{{"op", "load"},
                {"candidates", {"demo"}},
                {"configuration", {{"threads", 1}, {"tune", tune}}},
                {"needs_tokenizer", false}}
        .dump();
  };
  ProgramOptions options;
  options.environment = {{"XDG_CACHE_HOME", cache.path().string()}};
  const ProgramResult result = run_worker({load("once"), load("off")}, options);
  expect_success(result);
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(Json::parse(lines[0])["facts"]["tuning"], text_of(other));
  EXPECT_EQ(Json::parse(lines[1])["facts"]["tuning"], text_of(usual_constants()));
  const ProgramResult generated = run_program(
      {"generate", "demo", "--ids", "1", "-n", "1", "--threads", "1", "--json", "--quiet"}, options);
  expect_success(generated);
  EXPECT_EQ(Json::parse(generated.out)["tuning"], text_of(other));
  const ProgramResult bench =
      run_program({"bench", "demo", "-p", "0", "-n", "1", "-r", "1", "-t", "1", "--json"}, options);
  expect_success(bench);
  EXPECT_EQ(Json::parse(bench.out)["rows"][0]["tuning"], text_of(other));
  const ProgramResult machine =
      run_program({"machine", "--json", "--threads", "1", "--largest", "1"}, options);
  expect_success(machine);
  const Json tuning = Json::parse(machine.out)["tuning"];
  const Json expected = {{"distance_bytes", other.fetch.distance},
                         {"grouped_distance_bytes", other.grouped_fetch.distance},
                         {"rows_per_share", 512},
                         {"gain", 1.5}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(tuning[key], value) << key;
  EXPECT_TRUE(!tuning["is_usual"] && (tuning["cache_level"] == 2) == other.fetch.is_to_second_level);
}

// An experiment that tunes again does so itself, once: all its workers have what it found.
TEST(CliWorker, WorkersHaveTheTuningOfTheirExperiment) {
  const Isa isa = best_usable_isa();
  if (isa == Isa::scalar) GTEST_SKIP() << "scalar kernels are not tuned";
  const TemporaryFolder cache, out;
  const KernelConstants odd{.fetch = {64, 64, false}, .share_rows = 512};
  cpu::keep_tuning(cache / "assay/tuning.json", isa, 1,
                   {.constants = odd, .gain = 1.5, .many_rows_gain = 1.25});
  ProgramOptions options;
  options.environment = {{"XDG_CACHE_HOME", cache.path().string()}};
  expect_success(run_program({"sweep", "kv-cache", kModel, "-n", "2", "-r", "1", "-t", "1", "--tune", "force",
                              "-o", out.path().string()},
                             options));
  const Json json = Json::parse(read_file(out / "results.json"));
  std::set<std::string> tunings;
  for (const Json& row : json["rows"]) tunings.insert(row["parameters"]["tuning"]);
  EXPECT_EQ(tunings.size(), 1U);
  EXPECT_EQ(tunings.count(text_of(odd)), 0U);
}

// Beside a mask its processors count, and not those of the machine.
TEST(CliWorker, WarnsOfMoreThreadsThanProcessors) {
  const auto load = [](int threads) {
    const std::string mask = fmt::format("0x{:x}", 1ULL << allowed_processors().front());
    return Json{{"op", "load"},
                {"candidates", {kModel}},
                {"configuration", {{"threads", threads}, {"cpu_mask", mask}, {"tune", "off"}}},
                {"needs_tokenizer", false}}
        .dump();
  };
  if (allowed_processors().front() > 63) GTEST_SKIP() << "a mask of more than 64 processors";
  const ProgramResult result = run_worker({load(2), load(1)});
  expect_success(result);
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("2 threads on 1 processor wait for each other"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1].find("wait for each other"), std::string::npos) << lines[1];
}

TEST(CliWorker, HoldsAModelForEachKey) {
  Json named = kLoadDemo, logits{{"op", "logits"}, {"ids", {40, 494, 79}}};
  named["key"] = "narrow";
  named["precision"] = "bf16";
  Json of_named = logits;
  of_named["key"] = "narrow";
  const auto answers = answers_to(std::vector<Json>{kLoadDemo, logits, named, of_named, logits, of_named});
  EXPECT_NE(answers[1], answers[3]);
  EXPECT_EQ(answers[4], answers[1]);
  EXPECT_EQ(answers[5], answers[3]);
  of_named["key"] = "wide";
  expect_requests_refused({{of_named.dump(), {"'wide'", "load"}}}, {kLoadDemo});
}

TEST(CliWorker, EndsAtQuitAndAtTheEndOfItsInput) {
  const ProgramResult quit = run_worker({R"({"op":"quit"})", R"({"op":"quit"})"});
  expect_success(quit);
  EXPECT_EQ(quit.out, "{\"ok\":true}\n");
  const ProgramResult silence = run_worker({});
  expect_success(silence);
  EXPECT_EQ(silence.out + silence.err, "");
}

TEST(CliWorker, MalformedLines) {
  expect_requests_refused({{"", {"JSON"}},
                           {"hello", {"JSON"}},
                           {"{", {"JSON"}},
                           {R"({"op":"quit"} {"op":"quit"})", {"JSON"}},
                           {R"({"op":"quit","op":"quit"})", {"'op'", "duplicate"}},
                           {"[1]", {"object", "array"}},
                           {"null", {"object"}},
                           {"{}", {"'op'"}},
                           {R"({"op":7})", {"op", "7"}},
                           {R"({"op":null})", {"op", "null"}},
                           {R"({"op":"lod","model":"demo"})", {"'lod'", "load", "quit"}},
                           {R"({"op":"quit","now":true})", {"'now'"}},
                           {"{\"op\":\"\xff\xfe\"}", {"JSON"}},
                           {"{\"op\":\"lo\\u0000\\u001b\"}", {"unknown op"}},
                           {std::string(100'000, '['), {"deep"}},
                           {std::string(100'000, 'x'), {"JSON"}}});
}

TEST(CliWorker, NothingIsLoadedYet) {
  expect_requests_refused({{R"({"op":"decode","ids":[[1]],"new_tokens":1})", {"load"}},
                           {R"({"op":"prefill","ids":[[1]]})", {"load"}},
                           {R"({"op":"logits","ids":[1]})", {"load"}}});
}

TEST(CliWorker, BadLoads) {
  expect_requests_refused({{R"({"op":"load"})", {"'model'"}},
                           {R"({"op":"load","model":"no-such-model"})", {"no-such-model"}},
                           {R"({"op":"load","model":""})", {}},
                           {R"({"op":"load","model":["demo"]})", {"model"}},
                           {R"({"op":"load","model":"demo","precision":"fp8"})", {"fp8", "bfloat16"}},
                           {R"({"op":"load","model":"demo","isa":"avx3"})", {"avx3", "avx512"}},
                           {R"({"op":"load","model":"demo","threads":0})", {"threads", "0"}},
                           {R"({"op":"load","model":"demo","threads":1.5})", {"threads"}},
                           {R"({"op":"load","model":"demo","threads":1e99})", {"threads"}},
                           {R"({"op":"load","model":"demo","treads":2})", {"'treads'", "threads"}}});
}

// What was held before is gone, not quietly used.
TEST(CliWorker, AFailedLoadLeavesNoModel) {
  expect_requests_refused({{R"({"op":"load","model":"no-such-model"})", {"no-such-model"}},
                           {R"({"op":"logits","ids":[1]})", {"load"}}},
                          {kLoadDemo});
}

TEST(CliWorker, BadIds) {
  const std::string too_many = Json(some_ids(1025)).dump();
  expect_requests_refused(
      {{R"({"op":"prefill"})", {"'ids'"}},
       {R"({"op":"prefill","ids":[]})", {"prompt"}},
       {R"({"op":"prefill","ids":[[]]})", {"empty"}},
       {R"({"op":"prefill","ids":[1,2]})", {"ids"}},
       {R"({"op":"prefill","ids":{"a":1}})", {"ids"}},
       {R"({"op":"prefill","ids":[["1"]]})", {"ids[0][0]", "'1'"}},
       {R"({"op":"prefill","ids":[[1.5]]})", {"1.5"}},
       {R"({"op":"prefill","ids":[[true]]})", {"true"}},
       {R"({"op":"prefill","ids":[[-1]]})", {"-1"}},
       {R"({"op":"prefill","ids":[[99999999999]]})", {"99999999999"}},
       {R"({"op":"prefill","ids":[[1],[1000000]]})", {"1000000", "vocabulary"}},
       {R"({"op":"prefill","ids":[)" + too_many + "]}", {"1025", "1024"}},
       {R"({"op":"logits","ids":[]})", {"empty"}},
       {R"({"op":"logits","ids":[[1]]})", {"ids"}},
       {R"({"op":"logits","ids":[4096000]})", {"4096000"}},
       {R"({"op":"logits","ids":)" + too_many + "}", {"1025", "1024"}},
       {R"({"op":"decode","ids":[[1]]})", {"new_tokens"}},
       {R"({"op":"decode","ids":[[1]],"new_tokens":0})", {"new_tokens", "0"}},
       {R"({"op":"decode","ids":[[1]],"new_tokens":"3"})", {"new_tokens"}},
       {R"({"op":"decode","ids":[[1]],"new_tokens":1024})", {"1024"}},
       {R"({"op":"decode","ids":[[1]],"new_tokens":99999999999999999999})", {"new_tokens"}}},
      {kLoadDemo});
}

TEST(CliWorker, CannotWrite) {
  const ProgramResult result = run_worker({R"({"op":"quit"})"}, {.stdout_path = "/dev/full"});
  expect_failure(result, 1, {"standard output"});
}

TEST(CliWorker, Interrupted) {
  TemporaryFolder folder;
  const std::string model = TinyModel(1 << 18).write(folder.path());
  const ProgramResult result =
      run_worker({Json{{"op", "load"}, {"model", model}}.dump(),
                  R"({"op":"decode","ids":[[1]],"new_tokens":200000})", R"({"op":"quit"})"},
                 {.interrupts = true, .timeout = std::chrono::seconds(20)});
  EXPECT_FALSE(result.is_timed_out);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_FALSE(lines.empty());  // the signal came in the decoding, or just before it
  if (lines.size() > 1) {
    EXPECT_EQ(Json::parse(lines[1])["error"], "interrupted");
  }
}

}  // namespace
}  // namespace assay::test
