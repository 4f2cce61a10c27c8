// Which folder a user's name for a model means: candidates in order, and the Hugging Face cache.
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Environment = std::vector<std::pair<std::string, std::string>>;

ProgramResult generate(const std::string& model, const Environment& environment = {}) {
  return run_program({"generate", model, "-p", "hi", "-n", "2", "--json"}, {.environment = environment});
}

TEST(CliCandidates, TheFirstThatLoadsIsUsed) {
  const ProgramResult result = generate("no-such-model," + kModel + ",another");
  expect_success(result);
  EXPECT_EQ(nlohmann::json::parse(result.out)["model"], kModel);
}

TEST(CliCandidates, EveryReasonIsGiven) {
  TemporaryFolder folder;
  fs::create_directory(folder / "empty");
  expect_failure(
      generate("no-such-model," + (folder / "empty") + "," + model_fixture("base")), 1,
      {"no-such-model: no such folder", "empty: config.json is missing", "base: expected tokenizer.json"});
}

TEST(CliCandidates, ABrokenOneIsPassedOver) {
  TemporaryFolder folder;
  copy_model_fixture("with_tokenizer", folder / "broken");
  fs::resize_file(folder / "broken/model.safetensors", 1000);
  expect_success(generate((folder / "broken") + "," + kModel));
}

TEST(CliCandidates, EveryCommandTakesThem) {
  TemporaryFolder folder;
  const std::string candidates = "no-such-model," + kModel;
  expect_success(run_program({"perplexity", candidates, kModel + "/prompt.txt"}));
  expect_success(run_program({"logits", candidates, "--ids", "1,2", "-o", folder / "x.npy"}));
  expect_success(run_program({"tokenize", candidates, "--text", "hi"}));
  expect_success(run_program({"inspect", candidates}));
}

TEST(CliCandidates, AFolderWhoseNameHasAComma) {
  TemporaryFolder folder;
  copy_model_fixture("with_tokenizer", folder / "one,two");
  expect_success(generate(folder / "one,two"));
}

TEST(CliDemo, Loads) {
  expect_success(run_program({"inspect", "demo"}));
  expect_success(run_program({"generate", "demo", "-p", "The", "-n", "2"}));
}

std::vector<std::string> short_run(const std::string& model, const std::string& out) {
  return {"run",         model,
          "-p",          "hi",
          "-n",          "2",
          "-r",          "1",
          "--processes", "1",
          "--precision", "float32",
          "--skip",      "noise,lengths,ablation,batches,batched-precisions,edge,divergence,task",
          "-o",          out};
}

// Results may have the name of the model that they are of, and the run may be repeated.
TEST(CliDemo, ResultsUnderItsNameDoNotHideIt) {
  TemporaryFolder folder;
  const ProgramOptions there{.folder = folder.path()};
  for (int i = 0; i < 2; ++i) {
    expect_success(run_program(short_run("demo", "demo"), there));
    EXPECT_TRUE(fs::exists(folder / "demo/results.json"));
  }
  fs::remove_all(folder / "demo");
  fs::create_directory(folder / "demo");
  expect_success(run_program({"inspect", "demo"}, there));
  // A broken model is the user's own, and the message says where it is.
  write_file(folder / "demo/config.json", "{}");
  expect_failure(run_program({"inspect", "demo"}, there), 1,
                 {"demo: neither model.safetensors", "in " + (folder / "demo")});
  expect_failure(run_program(short_run("demo", "out"), there), 1, {"in " + (folder / "demo")});
  EXPECT_FALSE(fs::exists(folder / "out"));
}

// A cache with two snapshots of `name`; refs/main names "aaa", the other is the newer.
void make_entry(const fs::path& cache, const std::string& name) {
  const fs::path entry = cache / ("models--" + name);
  fs::create_directories(entry / "snapshots");
  fs::create_directories(entry / "refs");
  fs::create_directory(entry / "blobs");
  copy_model_fixture("with_tokenizer", entry / "snapshots/aaa");
  fs::rename(entry / "snapshots/aaa/model.safetensors", entry / "blobs/weights");
  fs::create_symlink("../../blobs/weights", entry / "snapshots/aaa/model.safetensors");
  copy_model_fixture("with_tokenizer", entry / "snapshots/bbb");
  fs::last_write_time(entry / "snapshots/aaa",
                      fs::last_write_time(entry / "snapshots/bbb") - std::chrono::hours(1));
  write_file(entry / "refs/main", "aaa\n");
  write_file(entry / "refs/v2", "bbb");
}

// The folder that inspect found, from the cache's root on.
std::string found(const std::string& model, const Environment& environment) {
  const ProgramResult result = run_program({"inspect", model, "--json"}, {.environment = environment});
  expect_success(result);
  const std::string path = nlohmann::json::parse(result.out, nullptr, false).value("path", "");
  return path.substr(std::min(path.find("models--"), path.size()));
}

class CliHubCache : public testing::Test {
 protected:
  CliHubCache() {
    make_entry(cache_, "gpt2");
    make_entry(cache_, "some-org--some.model");
  }
  TemporaryFolder folder_;
  const std::string cache_ = folder_ / "home/hub";
  const Environment by_hub_{{"HF_HUB_CACHE", cache_}}, by_home_{{"HF_HOME", folder_ / "home"}};
};

TEST_F(CliHubCache, IsFoundByEachVariable) {
  EXPECT_EQ(found("gpt2", by_hub_), "models--gpt2/snapshots/aaa");
  EXPECT_EQ(found("gpt2", by_home_), "models--gpt2/snapshots/aaa");
  EXPECT_EQ(found("gpt2", {{"HF_HUB_CACHE", cache_}, {"HF_HOME", "/nonexistent"}}),
            "models--gpt2/snapshots/aaa");
  fs::create_directories(folder_ / "user/.cache/huggingface");
  fs::create_symlink(cache_, folder_ / "user/.cache/huggingface/hub");
  EXPECT_EQ(found("gpt2", {{"HOME", folder_ / "user"}}), "models--gpt2/snapshots/aaa");
  expect_success(generate("gpt2", by_hub_));
}

// As huggingface_hub finds it: the first variable that is set, and ~ and variables in it.
TEST_F(CliHubCache, VariablesInTheOrderOfPython) {
  const std::string wanted = "models--gpt2/snapshots/aaa", none = "/nonexistent";
  fs::create_directories(folder_ / "shared/huggingface");
  fs::create_symlink(cache_, folder_ / "shared/huggingface/hub");
  const std::string top = folder_.path().string();
  for (const Environment& environment : std::vector<Environment>{
           {{"HUGGINGFACE_HUB_CACHE", cache_}, {"HF_HOME", none}},
           {{"HF_HUB_CACHE", cache_}, {"HUGGINGFACE_HUB_CACHE", none}},
           {{"HF_HUB_CACHE", ""}, {"HUGGINGFACE_HUB_CACHE", ""}, {"HF_HOME", folder_ / "home"}},
           {{"XDG_CACHE_HOME", folder_ / "shared"}, {"HOME", none}},
           {{"HF_HOME", folder_ / "home"}, {"XDG_CACHE_HOME", none}},
           {{"HF_HOME", "~/home"}, {"HOME", top}},
           {{"HF_HUB_CACHE", "$HOME/home/hub"}, {"HOME", top}},
           {{"HF_HUB_CACHE", "${PLACE}/hub"}, {"PLACE", folder_ / "home"}},
           {{"XDG_CACHE_HOME", "~/shared"}, {"HOME", top}},
           {{"HF_HOME", none}, {"TRANSFORMERS_CACHE", cache_}},
           {{"HF_HOME", none}, {"PYTORCH_TRANSFORMERS_CACHE", "~/home/hub"}, {"HOME", top}}})
    EXPECT_EQ(found("gpt2", environment), wanted) << environment[0].first << "=" << environment[0].second;
  expect_failure(generate("gpt3", {{"HF_HUB_CACHE", "$NOTHING_OF_THIS_NAME/~"}}), 1,
                 {"$NOTHING_OF_THIS_NAME/~"});
}

TEST_F(CliHubCache, RevisionsWithSlashes) {
  const fs::path refs = fs::path(cache_) / "models--gpt2/refs";
  fs::create_directories(refs / "refs/pr");
  fs::create_directories(refs / "fix");
  write_file(refs / "refs/pr/1", "bbb");
  write_file(refs / "fix/one", "bbb\n");
  EXPECT_EQ(found("gpt2@refs/pr/1", by_hub_), "models--gpt2/snapshots/bbb");
  EXPECT_EQ(found("gpt2@fix/one", by_hub_), "models--gpt2/snapshots/bbb");
  for (const char* revision : {"gpt2@refs/pr/2", "gpt2@fix", "gpt2@fix/", "gpt2@refs/../refs/fix/one",
                               "gpt2@refs//pr/1", "gpt2@./fix/one"})
    expect_failure(generate(revision, by_hub_), 1, {"no revision", revision + 5});
}

// The folder that a cache holds for a model, as a user finds it there.
TEST_F(CliHubCache, AnEntryAsAFolder) {
  const std::string entry = cache_ + "/models--gpt2";
  EXPECT_EQ(found(entry, {}), "models--gpt2/snapshots/aaa");
  EXPECT_EQ(found(entry + "/", {}), "models--gpt2/snapshots/aaa");
  EXPECT_EQ(found(entry + "@v2", {}), "models--gpt2/snapshots/bbb");
  expect_failure(generate(entry + "@none"), 1, {"no revision 'none'"});
}

TEST_F(CliHubCache, Names) {
  EXPECT_EQ(found("some-org/some.model", by_hub_), "models--some-org--some.model/snapshots/aaa");
  fs::rename(cache_ + "/models--gpt2", cache_ + "/models--openai-community--gpt2");
  EXPECT_EQ(found("gpt2", by_hub_), "models--openai-community--gpt2/snapshots/aaa");
}

TEST_F(CliHubCache, AFolderWithoutAModelDoesNotHideAnEntry) {
  const fs::path here = folder_ / "here";
  fs::create_directories(here / "gpt2/src");
  write_file(here / "gpt2/README.md", "code");
  const auto inspect = [&] {
    return run_program({"inspect", "gpt2", "--json"}, {.environment = by_hub_, .folder = here});
  };
  const ProgramResult result = inspect();
  expect_success(result);
  EXPECT_NE(result.out.find("models--gpt2/snapshots/aaa"), std::string::npos) << result.out;
  write_file(here / "gpt2/tokenizer.json", "{}");
  expect_failure(inspect(), 1, {"gpt2: config.json is missing in " + (here / "gpt2").string()});
}

TEST_F(CliHubCache, Revisions) {
  EXPECT_EQ(found("gpt2@v2", by_hub_), "models--gpt2/snapshots/bbb");
  EXPECT_EQ(found("gpt2@bbb", by_hub_), "models--gpt2/snapshots/bbb");
  fs::remove(cache_ + "/models--gpt2/refs/main");
  EXPECT_EQ(found("gpt2", by_hub_), "models--gpt2/snapshots/bbb");  // the newest
  for (const char* revision : {"gpt2@none", "gpt2@../../..", "gpt2@/etc"})
    expect_failure(generate(revision, by_hub_), 1, {revision + 5});
}

TEST_F(CliHubCache, EntriesWithoutASnapshot) {
  fs::remove_all(cache_ + "/models--gpt2/snapshots");
  expect_failure(generate("gpt2", by_hub_), 1, {"gpt2", "snapshot"});
  expect_failure(generate("gpt3", by_hub_), 1, {"gpt3", cache_});
  fs::remove(cache_ + "/models--some-org--some.model/blobs/weights");
  expect_failure(generate("some-org/some.model", by_hub_), 1, {"model.safetensors"});
}

// A name or a reference stays inside the cache.
TEST_F(CliHubCache, NothingOutsideTheCache) {
  copy_model_fixture("with_tokenizer", folder_ / "outside");
  for (const char* name : {"../outside", "a/../../outside", "a/b/c", "gpt2/", "/gpt2"})
    expect_failure(generate(name, by_hub_), 1, {name});
  fs::remove_all(cache_ + "/models--gpt2/snapshots");
  fs::create_directory(cache_ + "/models--gpt2/snapshots");
  for (const std::string& reference : {std::string("../../../../outside"), folder_ / "outside"}) {
    write_file(cache_ + "/models--gpt2/refs/main", reference);
    expect_failure(generate("gpt2", by_hub_), 1, {"gpt2"});
  }
}

}  // namespace
}  // namespace assay::test
