// Ctrl-C: exit code 130, and what was measured so far is kept.
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

const ProgramOptions kInterrupted{.interrupts = true, .timeout = std::chrono::seconds(20)};

void expect_interrupted(const ProgramResult& result) {
  EXPECT_FALSE(result.is_timed_out) << "the program did not stop";
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, 130) << result.err;
}

TEST(CliInterrupt, Generate) {
  TemporaryFolder folder;
  const std::string model = TinyModel(1 << 18).write(folder.path());
  const std::vector<std::string> arguments{"generate", model, "--ids", "1", "-n", "200000", "--ignore-end"};
  expect_interrupted(run_program(arguments, kInterrupted));
  std::vector<std::string> as_json = arguments;
  as_json.emplace_back("--json");
  const ProgramResult result = run_program(as_json, kInterrupted);
  expect_interrupted(result);
  EXPECT_TRUE(result.out.empty() || nlohmann::json::accept(result.out)) << result.out.substr(0, 200);
}

TEST(CliInterrupt, Perplexity) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "one more line of text\n";
  write_file(folder / "corpus.txt", text);
  const ProgramResult result =
      run_program({"perplexity", kModel, folder / "corpus.txt", "--stride", "1"}, kInterrupted);
  expect_interrupted(result);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(lines_of(result.err).back().starts_with("error: ")) << result.err;
}

TEST(CliInterrupt, RunKeepsItsResults) {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  const std::vector<std::string> arguments{"run", kModel,     "-p",       "one",
                                           "-p",  "two",      "-n",       "50",
                                           "-r",  "10000000", "--corpus", kModel + "/prompt.txt",
                                           "-o",  out};
  const ProgramResult result = run_program(arguments, kInterrupted);
  expect_interrupted(result);
  EXPECT_NE(result.err.find("with --resume continues this run"), std::string::npos) << result.err;
  const auto json = nlohmann::json::parse(read_file(out + "/results.json"));
  EXPECT_EQ(json["status"], "interrupted");
  for (const char* name : {"/report.md", "/report.html", "/journal.jsonl"})
    EXPECT_TRUE(std::filesystem::exists(out + name)) << name;
  for (const auto& entry : std::filesystem::directory_iterator(out))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  expect_success(run_program({"report", out + "/results.json"}));
}

// For many pairs, a few are measured when the signal comes.
TEST(CliInterrupt, InterleaveKeepsItsResults) {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  const int code = std::system(
      fmt::format("timeout --preserve-status -s INT {} '{}' interleave '{}' '{}' '{}' -n 4 "
                  "-r 1 --processes 100000 --no-perplexity -o '{}' > '{}' 2>&1",
                  5 * kSlowdown, program_path(), program_path(), program_path(), kModel, out, folder / "said")
          .c_str());
  EXPECT_EQ(WEXITSTATUS(code), 130) << read_file(folder / "said");
  for (const char* name : {"/a", "/b"}) {
    const auto json = nlohmann::json::parse(read_file(out + name + "/results.json"));
    EXPECT_EQ(json["status"], "interrupted");
    EXPECT_EQ(json["rows"][0]["label"], "float32, prompt 1");
  }
}

// The one that tells its version slowly is a build for all we know.
TEST(CliInterrupt, InterleaveBlamesNoBuild) {
  TemporaryFolder folder;
  const std::string slow = folder / "slow";
  write_file(slow, "#!/bin/sh\necho starting >&2\nexec sleep 20\n");
  ASSERT_EQ(chmod(slow.c_str(), S_IRWXU), 0);
  const ProgramResult result = run_program({"interleave", slow, program_path(), kModel}, kInterrupted);
  expect_interrupted(result);
  EXPECT_NE(result.err.find("error: interrupted\n"), std::string::npos) << result.err;
}

// `timeout` and shells hand Ctrl-C on to a program that the terminal has told already.
TEST(CliInterrupt, TwiceAtOnceIsOnce) {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  ProgramOptions options = kInterrupted;
  options.interrupts_again_after = std::chrono::milliseconds(2);
  expect_interrupted(run_program({"run", kModel, "-p", "one", "-n", "50", "-r", "10000000", "--corpus",
                                  kModel + "/prompt.txt", "-o", out},
                                 options));
  EXPECT_EQ(nlohmann::json::parse(read_file(out + "/results.json"))["status"], "interrupted");
}

// It writes where nobody reads, so that it cannot end by itself.
TEST(CliInterrupt, ALaterSecondSignalEndsAtOnce) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "full").c_str(), 0644), 0);
  write_file(folder / "text", std::string(1 << 18, 'x'));
  const int code = std::system(
      fmt::format("exec 3<>'{0}/full'\n'{1}' tokenize '{2}' '{0}/text' --quiet >&3 2>'{0}/said' & P=$!\n"
                  "sleep {3}; kill -TERM $P; sleep 0.05; kill -TERM $P; sleep 1\n"
                  "kill -0 $P || exit 99\n"
                  "kill -TERM $P; wait $P",
                  folder.path().string(), program_path(), kModel, kSlowdown)
          .c_str());
  EXPECT_EQ(WEXITSTATUS(code), 128 + SIGTERM) << read_file(folder / "said");
}

TEST(CliInterrupt, AWaitForInputEnds) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "silent").c_str(), 0644), 0);
  const int code =
      std::system(fmt::format("exec 3<>'{0}/silent'\n'{1}' tokenize '{2}' <&3 2>'{0}/said' & P=$!\n"
                              "sleep {3}; kill -TERM $P; wait $P",
                              folder.path().string(), program_path(), kModel, kSlowdown)
                      .c_str());
  EXPECT_EQ(WEXITSTATUS(code), 130);
  EXPECT_EQ(read_file(folder / "said"), "error: interrupted\n");
}

// A closed terminal.
TEST(CliInterrupt, AHangUpKeepsItsResultsToo) {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  ProgramOptions options = kInterrupted;
  options.interrupt = SIGHUP;
  expect_interrupted(run_program({"run", kModel, "-p", "one", "-n", "50", "-r", "10000000", "--corpus",
                                  kModel + "/prompt.txt", "-o", out},
                                 options));
  EXPECT_EQ(nlohmann::json::parse(read_file(out + "/results.json"))["status"], "interrupted");
}

}  // namespace
}  // namespace assay::test
