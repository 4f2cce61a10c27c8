// Files that are whole or absent, seeded numbers that stay, threads that lose no chunk.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/memory.h"
#include "assay/base/process.h"
#include "assay/base/random.h"
#include "assay/base/sha256.h"
#include "assay/base/thread_pool.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

TEST(Format, PrintableNamesSteerNoTerminal) {
  EXPECT_EQ(printable("transformer.h.0.attn.c_attn.weight"), "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(printable("caf\u00e9 \u65e5\u672c \U0001f600"), "caf\u00e9 \u65e5\u672c \U0001f600");
  EXPECT_EQ(printable("a\nb\r\t\x1b[31m\x7f"), R"(a\nb\r\t\x1b[31m\x7f)");
  EXPECT_EQ(printable(std::string_view("\0", 1)), R"(\x00)");
  EXPECT_EQ(printable("\xc2\x9b!"), R"(\xc2\x9b!)");  // U+009B: CSI
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
  for (const char* malformed :
       {"\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    for (const char c : printable(malformed)) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << malformed;
}

TEST(Format, PrintableNamesAreBounded) {
  EXPECT_EQ(printable(std::string(200, 'x')), std::string(200, 'x'));
  for (const char* unit : {"x", "\u65e5", "\n", "\xff"}) {
    std::string name;
    for (int i = 0; i < 5000; ++i) name += unit;
    const std::string shown = printable("begin " + name + " end");
    EXPECT_LE(shown.size(), 200U);
    EXPECT_GE(shown.size(), 190U);
    EXPECT_TRUE(shown.starts_with("begin ")) << shown;
    EXPECT_TRUE(shown.ends_with(" end")) << shown;
    EXPECT_NE(shown.find("..."), std::string::npos);
    EXPECT_EQ(shown, escape_controls(shown)) << "a character cut apart";
  }
}

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("assay-base-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(FileTest, WritesWholeFiles) {
  write_file_atomically(folder_ / "a", "first");
  write_file_atomically(folder_ / "a", "second");
  EXPECT_EQ(read_text_file(folder_ / "a"), "second");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  write_file_atomically(folder_ / "a", "old");
  const auto fail = [](const ByteSink& sink) {
    sink(std::as_bytes(std::span("half")));
    throw Error("stopped");
  };
  EXPECT_THROW(write_file_atomically(folder_ / "a", fail), Error);
  EXPECT_EQ(read_text_file(folder_ / "a"), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, NamesWhatCannotBeWritten) {
  try {
    write_file_atomically(folder_ / "none/a", "x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()),
              fmt::format("cannot write {}: No such file or directory", (folder_ / "none/a").string()));
  }
  write_file_atomically(folder_ / "plain", "x");
  EXPECT_THROW(ensure_writable_folder(folder_ / "plain"), Error);
  EXPECT_THROW(ensure_writable_folder(folder_ / "plain/below"), Error);
  ensure_writable_folder(folder_ / "new/deep");
  EXPECT_TRUE(fs::is_empty(folder_ / "new/deep"));
}

TEST_F(FileTest, ReadingBeyondTheEndIsAnError) {
  write_file_atomically(folder_ / "a", "12345678");
  const ReadFile file(folder_ / "a");
  std::byte out[4];
  file.read_exactly(4, out);
  EXPECT_EQ(static_cast<char>(out[0]), '5');
  EXPECT_THROW(file.read_exactly(5, out), Error);
  EXPECT_THROW(read_text_file(folder_ / "a", 7), Error);
  EXPECT_THROW(read_text_file(folder_), Error);
}

TEST(Random, StaysTheSame) {
  // Fixed by the definition of the generator: a change would change every sampled text.
  Random random(42);
  const std::uint64_t first = random.next();
  Random again(42), stream(42, 1), other(43);
  EXPECT_EQ(again.next(), first);
  EXPECT_NE(stream.next(), first);
  EXPECT_NE(other.next(), first);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(Sha256, KnownAnswers) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// A child that has ended makes a write fail; the signal of a closed pipe would end this process.
TEST(ChildProcess, WritingToOneThatHasEndedFails) {
  ChildProcess child({"/bin/true"});
  EXPECT_EQ(child.read_line({10}, {}).end, ChildProcess::End::closed);
  // The system closes its ends of the pipes one after the other.
  bool is_written = true;
  for (int i = 0; i < 5000 && is_written; ++i) {
    is_written = child.write_line("hello");
    usleep(1000);
  }
  EXPECT_FALSE(is_written);
}

TEST(ThreadPool, RunsEveryChunkOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(chunks));
      pool.run(chunks, [&](std::int64_t i) { seen[static_cast<std::size_t>(i)].fetch_add(1); });
      for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, KeepsManyShortPhasesApart) {
  ThreadPool pool(4);
  std::vector<std::int64_t> values(64);
  for (int phase = 0; phase < 20000; ++phase)  // each phase reads what the one before it wrote
    pool.run(64, [&](std::int64_t i) {
      values[static_cast<std::size_t>(i)] +=
          1 + (phase > 0 ? values[static_cast<std::size_t>(i)] - phase : 0);
    });
  for (const std::int64_t v : values) EXPECT_EQ(v, 20000);
}

// What workers fetch is only looked at: neither its end nor memory that is gone stops anything, and the spans
// themselves may go when another phase has begun.
TEST(ThreadPool, FetchesWhileItWaitsWithoutAChange) {
  ThreadPool pool(3);
  std::vector<std::byte> data(10'000, std::byte{7});
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::span<const std::byte>> spans = {
        {}, data, std::span(data).first(round < 150 ? 65 : 0)};
    pool.fetch_while_waiting(round % 4 == 0 ? nullptr : spans.data());
    std::atomic<int> done = 0;
    pool.run(5, [&](std::int64_t) { done.fetch_add(1); });
    ASSERT_EQ(done, 5);
    pool.fetch_while_waiting(nullptr);
    if (round == 150) std::vector<std::byte>().swap(data);
  }
  for (const std::byte b : data) ASSERT_EQ(b, std::byte{7});
}

TEST(ThreadPool, SplitsVeryManyChunks) {
  ThreadPool pool(2);
  std::atomic<std::int64_t> sum{0};
  const std::int64_t chunks = ThreadPool::kMaxChunks + 10;
  pool.run(chunks, [&](std::int64_t i) { sum.fetch_add(i, std::memory_order_relaxed); });
  EXPECT_EQ(sum.load(), chunks * (chunks - 1) / 2);
}

// A neighbour that never sleeps takes turns on every processor: a phase waits for it, and ends.
TEST(ThreadPool, OutlivesABusyNeighbour) {
  std::vector<pid_t> neighbours;
  for (const int cpu : allowed_processors()) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<std::size_t>(cpu), &one);
      sched_setaffinity(0, sizeof(one), &one);
      for (volatile std::uint64_t spins = 0;;) spins = spins + 1;
    }
    neighbours.push_back(child);
  }
  ThreadPool pool(static_cast<int>(neighbours.size()));
  std::atomic<std::int64_t> done{0};
  for (int phase = 0; phase < 300; ++phase)
    pool.run(8, [&](std::int64_t) { done.fetch_add(1, std::memory_order_relaxed); });
  for (const pid_t child : neighbours) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(done.load(), 300 * 8);
}

TEST(Memory, WhatCannotBeHadIsRefused) {
  require_memory({1}, "a byte");
  if (available_memory().value == 0) GTEST_SKIP() << "nobody says how much memory there is";
  try {
    require_memory({std::int64_t{1} << 60}, "a wish");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not enough memory for a wish: "), std::string::npos);
  }
}

TEST(CpuMask, IsReadFromTheLowestBit) {
  const int first = allowed_processors().front();
  const std::string digits(static_cast<std::size_t>(first / 4), '0');
  EXPECT_EQ(processors_of_mask("0x" + std::string(1, "1248"[first % 4]) + digits), std::vector<int>{first});
  EXPECT_EQ(processors_of_mask(std::string(256, 'F')), allowed_processors());
  EXPECT_THROW(processors_of_mask("0"), UsageError);
  EXPECT_THROW(processors_of_mask(""), UsageError);
  EXPECT_THROW(processors_of_mask("0x"), UsageError);
  EXPECT_THROW(processors_of_mask("3-4"), UsageError);
  EXPECT_THROW(processors_of_mask(std::string(257, 'f')), UsageError);
}

TEST(ThreadPool, RefusesAbsurdSizes) {
  EXPECT_THROW(ThreadPool(0), UsageError);
  EXPECT_THROW(ThreadPool(100000), UsageError);
}

}  // namespace
}  // namespace assay
