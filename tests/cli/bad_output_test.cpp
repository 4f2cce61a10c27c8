// Outputs that cannot be written: one sentence, and nothing half-written left behind.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> run_into(const std::string& folder) {
  return {"run",         kModel,
          "-p",          "hi",
          "-n",          "2",
          "-r",          "1",
          "--skip",      "noise,lengths,ablation,batches,batched-precisions,edge",
          "--processes", "1",
          "--corpus",    kModel + "/prompt.txt",
          "-o",          folder};
}
std::vector<std::string> logits_into(const std::string& file, const std::string& ids = "1,2") {
  return {"logits", kModel, "--ids", ids, "-o", file};
}

class CliBadOutput : public testing::Test {
 protected:
  CliBadOutput() { write_file(file_, "kept"); }
  // Nothing but the file of the test is there, as it was.
  void expect_untouched() {
    EXPECT_EQ(read_file(file_), "kept");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
  }
  TemporaryFolder folder_;
  const std::string file_ = folder_ / "file";
};

TEST_F(CliBadOutput, FoldersThatCannotBe) {
  for (const std::string& folder : {file_, file_ + "/below", file_ + "/below/deep"})
    expect_failure(run_program(run_into(folder)), 1, {folder});
  if (fs::exists("/proc/self"))
    expect_failure(run_program(run_into("/proc/none/out")), 1, {"/proc/none/out"});
  expect_failure(run_program(run_into(folder_ / std::string(300, 'a'))), 1, {"too long"});
  expect_untouched();
}

// A mistyped model does not leave an empty folder of results.
TEST_F(CliBadOutput, NoFolderWhenTheModelIsMissing) {
  expect_failure(run_program({"run", "no-such-model", "-o", folder_ / "out"}), 1, {"no-such-model"});
  expect_untouched();
}

// Nor one whose weights cannot be loaded.
TEST_F(CliBadOutput, NoFolderWhenTheModelCannotBeLoaded) {
  for (std::vector<std::string> command :
       {run_into(folder_ / "out"),
        {"sweep", "lengths", kModel, "--lengths", "4", "-o", folder_ / "out"},
        {"bench", kModel, "-p", "4", "-n", "0", "-o", folder_ / "out"}}) {
    command.insert(command.end(), {"--worker-memory", "1"});
    // AddressSanitizer ends a process that gets no memory, in words of its own.
    expect_failure(run_program(command), 1, {kIsSanitized ? "the worker exited" : "not enough memory"});
  }
  expect_untouched();
}

// What cannot be written is refused before anything is read or measured: the model is not there either.
TEST_F(CliBadOutput, OutputsAreCheckedFirst) {
  const std::string below = file_ + "/below";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"sensitivity", "no-model", "-o", file_},
           {"sensitivity", "no-model", "-o", below},
           {"mix", "no-model", "--limit", "memory=1MiB", "-o", below},
           {"mix", "no-model", "--limit", "memory=1MiB", "-o", folder_.path()},
           {"logits", "no-model", "--ids", "1", "-o", below},
           {"run", "no-model", "-o", below},
           {"tradeoff", "no-model", "-o", below},
           {"bench", "no-model", "-o", below},
           {"interleave", program_path(), program_path(), "no-model", "-o", below}}) {
    SCOPED_TRACE(command.front());
    expect_failure(run_program(command), 1, {command.back()});
  }
  expect_untouched();
}

TEST_F(CliBadOutput, FilesThatCannotBe) {
  fs::create_directory(folder_ / "there");
  for (const std::string& file : {file_ + "/x.npy", folder_ / "absent/x.npy", folder_ / "there"})
    expect_failure(run_program(logits_into(file)), 1, {file});
  expect_failure(run_program(logits_into("")), 2, {"--output"});
  EXPECT_TRUE(fs::is_empty(folder_ / "there"));
  fs::remove(folder_ / "there");
  expect_untouched();
}

TEST_F(CliBadOutput, ReportsThatCannotBe) {
  TemporaryFolder results;
  expect_success(run_program(run_into(results.path())));
  expect_failure(run_program({"report", results / "results.json", "-o", file_ + "/below"}), 1, {file_});
  expect_untouched();
}

// What is no regular file is written to or refused, never replaced: /dev/null must stay what it is.
TEST_F(CliBadOutput, SpecialFilesAreNotReplaced) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0644), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const ProgramResult result = run_program(logits_into(pipe), {.timeout = std::chrono::seconds(10)});
  close(reader);
  EXPECT_FALSE(result.is_timed_out);
  EXPECT_TRUE(fs::is_fifo(pipe)) << "a pipe was replaced by a file";
}

TEST_F(CliBadOutput, LinksAreFollowed) {
  fs::create_symlink("file", folder_.path() / "link");
  expect_success(run_program(logits_into(folder_ / "link")));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link")) << "a link was replaced by a file";
  EXPECT_NE(read_file(file_), "kept");
}

TEST_F(CliBadOutput, FullStandardOutput) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const std::vector<std::vector<std::string>> commands = {
      {"generate", kModel, "-p", "hi", "-n", "3"},
      {"generate", kModel, "-p", "hi", "-n", "3", "--json"},
      {"tokenize", kModel, "--text", "hi"},
      {"tokenize", kModel, "--ids", "1,2"},
      {"inspect", kModel},
      {"kernels", "--json"},
      {"perplexity", kModel, kModel + "/prompt.txt"},
      {"help", "metrics"},
      run_into(folder_ / "out")};
  for (const auto& command : commands) {
    SCOPED_TRACE(command.front());
    expect_failure(run_program(command, {.stdout_path = "/dev/full"}), 1, {"standard output"});
  }
}

TEST_F(CliBadOutput, HelpOnFullStandardOutput) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  expect_failure(run_program({"--help"}, {.stdout_path = "/dev/full"}), 1, {"standard output"});
  expect_failure(run_program({"--version"}, {.stdout_path = "/dev/full"}), 1, {"standard output"});
}

TEST_F(CliBadOutput, WithoutPlotsEverythingElseIsWritten) {
  fs::create_directories(folder_ / "out");
  write_file(folder_ / "out/plots", "no folder");
  const ProgramResult result = run_program(
      {"sweep", "lengths", kModel, "--lengths", "4,8", "-n", "2", "-r", "1", "-o", folder_ / "out"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "out/results.json"));
  EXPECT_NE(result.out.find("8 tokens"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("out/plots"), std::string::npos) << result.err;
}

// A file system of a few pages.
class CliFullDisk : public testing::Test {
 protected:
  void SetUp() override {
    disk_ = folder_ / "disk";
    fs::create_directory(disk_);
    is_mounted_ = mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=16k") == 0;
    if (!is_mounted_) GTEST_SKIP() << "this test may not mount a small file system";
  }
  void TearDown() override {
    if (is_mounted_) umount2(disk_.c_str(), MNT_DETACH);
  }
  TemporaryFolder folder_;
  std::string disk_;
  bool is_mounted_ = false;
};

TEST_F(CliFullDisk, NothingHalfWrittenStays) {
  std::string ids = "1";
  for (int i = 0; i < 30; ++i) ids += ",1";  // 31 x 300 float32: more than the disk holds
  expect_failure(run_program(logits_into(disk_ + "/x.npy", ids)), 1, {disk_ + "/x.npy", "No space left"});
  EXPECT_TRUE(fs::is_empty(disk_));
  write_file(disk_ + "/x.npy", "kept");
  expect_failure(run_program(logits_into(disk_ + "/x.npy", ids)), 1, {"x.npy", "No space left"});
  EXPECT_EQ(read_file(disk_ + "/x.npy"), "kept");
}

TEST_F(CliFullDisk, ARunSaysSo) {
  write_file(disk_ + "/ballast", std::string(8192, 'x'));
  const ProgramResult result = run_program({"run", kModel, "-p", "hi", "-n", "2", "-r", "1", "--corpus",
                                            kModel + "/prompt.txt", "-o", disk_, "--json"});
  expect_failure(result, 1, {disk_, "No space left"});
  for (const auto& entry : fs::directory_iterator(disk_))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  EXPECT_FALSE(fs::exists(disk_ + "/results.json"));
}

}  // namespace
}  // namespace assay::test
