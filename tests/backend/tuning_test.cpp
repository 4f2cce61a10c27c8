// KernelConstants that depend on the processor: what is measured is chosen soundly and kept.
#include "assay/backend/cpu/run/tuning.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/kernels/select.h"
#include "assay/base/file.h"
#include "assay/base/process.h"
#include "support/temporary_folder.h"

namespace assay::cpu {
namespace {

namespace fs = std::filesystem;

KernelConstants fetching(const WeightFetch& fetch) {
  return {.fetch = fetch, .grouped_fetch = {512, 2048, false}, .share_rows = kUsualShareRows};
}

// A folder of its own, and the constants as they were.
class TuningFile : public testing::Test {
 protected:
  TuningFile() {
    if (const char* cache = std::getenv("XDG_CACHE_HOME")) cache_ = cache;
  }
  ~TuningFile() override {
    if (cache_) {
      setenv("XDG_CACHE_HOME", cache_->c_str(), 1);
    } else {
      unsetenv("XDG_CACHE_HOME");
    }
  }
  std::string file() const { return (folder_.path() / "assay" / "tuning.json").string(); }
  void write(const std::string& text) const {
    fs::create_directories(folder_.path() / "assay");
    std::ofstream(file()) << text;
  }
  // The text of a file with an entry for this machine, some of it replaced.
  std::string entry(const std::string& old = "", const std::string& now = "") const {
    keep_tuning(file(), Isa::avx2, 2, {.constants = fetching({768, 3072, true}), .gain = 1.25});
    std::string text = read_text_file(file());
    if (const std::size_t at = text.find(old); !old.empty() && at != std::string::npos)
      text.replace(at, old.size(), now);
    fs::remove(file());
    return text;
  }
  test::TemporaryFolder folder_;
  std::optional<std::string> cache_;
};

TEST(Tuning, GainIsTheMeanOverFormatsOfMedianRatios) {
  const CandidateTimes usual = {{4, 4, 100}, {9, 9, 1}}, other = {{1, 1, 1}, {4, 50, 4}};
  EXPECT_DOUBLE_EQ(gain_over(usual, other), 3);  // 4 and 9 / 4
  EXPECT_DOUBLE_EQ(gain_over(usual, usual), 1);
}

TEST(Tuning, LeastGainIsThatOfTheFormatThatLoses) {
  EXPECT_DOUBLE_EQ(least_gain_over({{4}, {1, 9, 1}}, {{1}, {2, 2, 1}}), 0.5);
}

TEST(Tuning, TheBestOfTheCandidatesMustGain) {
  const CandidateTimes usual = {{100}, {100}}, little = {{98}, {98}}, more = {{90}, {90}},
                       most = {{80}, {95}};
  EXPECT_EQ(best_of(std::vector<CandidateTimes>{usual, little}), 0U);
  EXPECT_EQ(best_of(std::vector<CandidateTimes>{usual, more, most, little}), 2U);
  EXPECT_EQ(best_of(std::vector<CandidateTimes>{usual}), 0U);
}

TEST(Tuning, TheBestMustWinAgainAndLoseNowhere) {
  EXPECT_TRUE(is_better({{100}, {100}}, {{90}, {100.5}}));
  EXPECT_FALSE(is_better({{100}, {100}}, {{80}, {102}})) << "a format loses 2 %";
  EXPECT_FALSE(is_better({{100}, {100}}, {{98}, {98}})) << "2 % are no gain";
}

TEST(Tuning, TheFirstOfSeveralCandidatesIsWhatIsThere) {
  const KernelConstants usual = usual_constants();
  for (const Choice choice : {Choice::fetch, Choice::grouped_fetch}) {
    const std::vector<KernelConstants> candidates = candidates_of(choice, usual, 2);
    EXPECT_EQ(candidates.front(), usual);
    std::set<std::string> texts;
    int to_second_level = 0;
    for (const KernelConstants& one : candidates) {
      const bool is_grouped = choice == Choice::grouped_fetch;
      texts.insert(text_of(one));
      to_second_level += (is_grouped ? one.grouped_fetch : one.fetch).is_to_second_level ? 1 : 0;
      EXPECT_EQ(is_grouped ? one.fetch : one.grouped_fetch, is_grouped ? usual.fetch : usual.grouped_fetch);
      EXPECT_EQ(one.share_rows, usual.share_rows);
    }
    EXPECT_EQ(texts.size(), candidates.size());
    EXPECT_GE(to_second_level, 3);
    EXPECT_GE(candidates.size() - static_cast<std::size_t>(to_second_level), 3U);
  }
}

// Shares are no more than threads, and one thread has one.
TEST(Tuning, CandidatesThatComeToTheSameAreLeftOut) {
  const auto rows = [](int threads) {
    std::vector<std::int64_t> all;
    for (const KernelConstants& one : candidates_of(Choice::share_rows, usual_constants(), threads))
      all.push_back(one.share_rows);
    return all;
  };
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(rows(1), (Rows{256}));
  EXPECT_EQ(rows(2), (Rows{256, 512}));
  EXPECT_EQ(rows(4), (Rows{256, 128, 512}));
}

TEST(Tuning, WhatTakesTooLongLeavesTheUsual) {
  ThreadPool pool(2);
  const Tuning tuning = measure_tuning(select_kernels(best_usable_isa()), pool, {0});
  EXPECT_EQ(tuning.constants, usual_constants());
  EXPECT_EQ(tuning.gain, 1);
  EXPECT_EQ(tuning.many_rows_gain, 1);
  EXPECT_FALSE(tuning.is_measured);
}

// Whatever is told to be the usual, only what gains is taken instead.
TEST(Tuning, OneOfTheCandidatesIsChosen) {
  ThreadPool pool(2);
  for (const KernelConstants& usual : {usual_constants(), KernelConstants{.fetch = {512, 2048, false},
                                                          .grouped_fetch = {512, 2048, false},
                                                          .share_rows = 512}}) {
    const Tuning tuning = measure_tuning(select_kernels(best_usable_isa()), pool, {0.3}, usual);
    const KernelConstants found = tuning.constants;
    const std::vector<KernelConstants> fetches = candidates_of(Choice::fetch, usual, 2);
    EXPECT_TRUE(std::any_of(fetches.begin(), fetches.end(),
                            [&](const KernelConstants& c) { return c.fetch == found.fetch; }));
    EXPECT_TRUE(found.share_rows == 256 || found.share_rows == 512) << found.share_rows;
    EXPECT_TRUE(found.fetch == usual.fetch ? tuning.gain == 1 : tuning.gain >= 1.03) << tuning.gain;
    EXPECT_TRUE(found.grouped_fetch == usual.grouped_fetch ? tuning.grouped_gain == 1
                                                           : tuning.grouped_gain >= 1.03)
        << tuning.grouped_gain;
    EXPECT_TRUE(found.share_rows == usual.share_rows ? tuning.many_rows_gain == 1
                                                     : tuning.many_rows_gain >= 1.03)
        << tuning.many_rows_gain;
  }
}

TEST_F(TuningFile, IsReadAsItWasWritten) {
  EXPECT_FALSE(kept_tuning(file(), Isa::avx2, 2));
  keep_tuning(file(), Isa::avx2, 2, {.constants = fetching({768, 3072, true}), .gain = 1.25});
  keep_tuning(file(), Isa::avx2, 1, {.constants = fetching({512, 2048, false}), .gain = 1.5});
  const std::optional<Tuning> two = kept_tuning(file(), Isa::avx2, 2),
                              one = kept_tuning(file(), Isa::avx2, 1);
  ASSERT_TRUE(two && one);
  EXPECT_EQ(two->constants, fetching({768, 3072, true}));
  EXPECT_EQ(two->gain, 1.25);
  EXPECT_TRUE(two->is_measured);
  EXPECT_EQ(one->constants.fetch, (WeightFetch{512, 2048, false}));
  EXPECT_FALSE(kept_tuning(file(), Isa::avx512, 2));
  EXPECT_FALSE(kept_tuning(file(), Isa::avx2, 3));
}

TEST_F(TuningFile, WhatCannotBeReadIsMeasuredAgain) {
  ASSERT_NO_FATAL_FAILURE(write(entry()));
  ASSERT_TRUE(kept_tuning(file(), Isa::avx2, 2));
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"), std::string(2 << 20, ' '), entry("768", "-1"),
        entry("768", "1e99"), entry("768", "1"), entry("1.25", "-5"), entry("1.25", "0.5"),
        entry("1.25", "1e308"), entry("768", "\"far\""), entry("3072", "99999999"), entry("768", "null"),
        entry("\"fetch_level\": 2", "\"fetch_level\": 3"),
        entry("\"grouped_fetch_level\": 1", "\"grouped_fetch_level\": 0"),
        entry("grouped_gain", "other_gain"), entry("microcode", "other")}) {
    write(text);
    EXPECT_FALSE(kept_tuning(file(), Isa::avx2, 2)) << text.substr(0, 300);
    keep_tuning(file(), Isa::avx2, 2, {.constants = fetching({768, 3072, true}), .gain = 1.25});
    EXPECT_TRUE(kept_tuning(file(), Isa::avx2, 2));
  }
}

TEST_F(TuningFile, FoldersThatAreNotThereOrNotFoldersHarmNobody) {
  keep_tuning("", Isa::avx2, 2, {});
  std::ofstream(folder_.path() / "file") << "x";
  keep_tuning((folder_.path() / "file" / "assay" / "tuning.json").string(), Isa::avx2, 2, {});
  EXPECT_FALSE(kept_tuning("", Isa::avx2, 2));
  EXPECT_FALSE(kept_tuning(folder_.path().string(), Isa::avx2, 2));
}

TEST_F(TuningFile, IsFoundByXdgCacheHomeElseInHome) {
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(tuning_file(), "/cache/assay/tuning.json");
  setenv("XDG_CACHE_HOME", "relative", 1);  // to be ignored, says the XDG base directory specification
  const std::string home = std::getenv("HOME");
  EXPECT_EQ(tuning_file(), home + "/.cache/assay/tuning.json");
  setenv("HOME", "relative", 1);
  EXPECT_EQ(tuning_file(), "");
  // Nowhere to keep it: the usual one, without a measurement.
  ThreadPool pool(4);
  const Isa isa = best_usable_isa();
  EXPECT_FALSE(find_tuning(Tune::once, isa, select_kernels(isa), pool).is_measured);
  setenv("HOME", home.c_str(), 1);
}

TEST(Tuning, KeysTellProcessorsVersionsAndKernelsApart) {
  CpuInfo cpu;
  cpu.model = "A";
  cpu.microcode = "0x1";
  CpuInfo other = cpu, newer = cpu;
  other.model = "B";
  newer.microcode = "0x2";
  std::set<std::string> keys;
  for (const std::string& key : {tuning_key(cpu, "1", Isa::avx2, 2), tuning_key(other, "1", Isa::avx2, 2),
                                 tuning_key(newer, "1", Isa::avx2, 2), tuning_key(cpu, "2", Isa::avx2, 2),
                                 tuning_key(cpu, "1", Isa::avx512, 2), tuning_key(cpu, "1", Isa::avx2, 1)})
    keys.insert(key);
  EXPECT_EQ(keys.size(), 6U);
  EXPECT_EQ(tuning_key(cpu, "1", Isa::avx2, 2), "A, microcode 0x1, avx2, 2 threads, assay 1");
}

TEST_F(TuningFile, HoldsNoMoreThanItsEntries) {
  std::string text = "{";
  for (int i = 0; i < 256; ++i) text += fmt::format(R"({}"{}": {{}})", i == 0 ? "" : ", ", i);
  write(text + "}");
  keep_tuning(file(), Isa::avx2, 2, {.constants = fetching({768, 3072, true}), .gain = 1.25});
  EXPECT_TRUE(kept_tuning(file(), Isa::avx2, 2));
  EXPECT_LT(fs::file_size(file()), 1000U);
}

// One thread has one share: only how weights are fetched is measured, which is enough.
TEST(Tuning, OneThreadIsMeasured) {
  ThreadPool pool(1);
  const Tuning tuning = measure_tuning(select_kernels(best_usable_isa()), pool, {20});
  EXPECT_TRUE(tuning.is_measured || tuning.is_disturbed);
}

// What is found beside another program holds for as long as that one runs, and would be kept for good.
TEST(Tuning, NothingIsLearnedBesideOthers) {
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<pid_t> others;
  for (int i = 0; i < processors; ++i) {
    const pid_t other = fork();
    ASSERT_GE(other, 0);
    if (other == 0)
      for (volatile int busy = 0;;) busy = busy + 1;
    others.push_back(other);
  }
  ThreadPool pool(processors);
  const KernelConstants usual{.fetch = {512, 2048, false}, .share_rows = 512};
  const Tuning tuning = measure_tuning(select_kernels(best_usable_isa()), pool, {3}, usual);
  for (const pid_t other : others) {
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
  }
  EXPECT_FALSE(tuning.is_measured);  // with sanitizers for want of time
  EXPECT_EQ(tuning.constants, usual);
}

TEST_F(TuningFile, WhatIsGivenIsNotMeasured) {
  const Isa isa = best_usable_isa();
  if (isa == Isa::scalar) GTEST_SKIP() << "scalar kernels are not tuned";
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  const KernelConstants other{.fetch = {768, 768, false}, .share_rows = 512};
  const auto backend = make_backend({}, {.threads = 6, .tune = Tune::force, .constants = other});
  EXPECT_EQ(backend->constants(), other);
  EXPECT_EQ(backend->tuning(), text_of(other));
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(make_backend({}, {.threads = 6, .tune = Tune::off})->constants(), usual_constants());
}

// Each process would find another answer, and wait.
TEST_F(TuningFile, WhatCannotBeKeptIsNotMeasured) {
  const Isa isa = best_usable_isa();
  if (isa == Isa::scalar) GTEST_SKIP() << "scalar kernels are not tuned";
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  const KernelTable table = select_kernels(isa);
  fs::create_directories(folder_.path() / "assay");
  const auto is_measured = [&](int threads) {
    ThreadPool pool(threads);
    const TimePoint begin = Clock::now();
    const Tuning tuning = find_tuning(Tune::once, isa, table, pool);
    EXPECT_EQ(tuning.constants, usual_constants());
    EXPECT_LT(elapsed(begin, Clock::now()).value, 1) << threads << " threads";
    EXPECT_EQ(tuning.took.value, 0) << threads << " threads";
    return tuning.is_measured;
  };
  {
    const FolderLock held(file().substr(0, file().rfind('/')));
    EXPECT_FALSE(is_measured(7));
  }
  fs::create_directories(file());
  EXPECT_FALSE(is_measured(8));
}

TEST_F(TuningFile, KeepsWhatSeveralMeasureAtOnce) {
  constexpr int kWriters = 4;
  std::vector<std::thread> writers;
  for (int i = 1; i <= kWriters; ++i)
    writers.emplace_back([&, i] {
      keep_tuning(file(), Isa::avx2, i, {.constants = fetching({768, 3072, true}), .gain = 1.25});
    });
  for (std::thread& writer : writers) writer.join();
  for (int i = 1; i <= kWriters; ++i) EXPECT_TRUE(kept_tuning(file(), Isa::avx2, i)) << i;
}

TEST_F(TuningFile, ForceMeasuresAgainOnceInAProcess) {
  const Isa isa = best_usable_isa();
  if (isa == Isa::scalar) GTEST_SKIP() << "scalar kernels fetch nothing";
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  ThreadPool pool(5);
  const KernelTable table = select_kernels(isa);
  keep_tuning(file(), isa, 5, {.constants = fetching({64, 64, true}), .gain = 99});
  EXPECT_EQ(find_tuning(Tune::once, isa, table, pool).gain, 99);
  EXPECT_LT(find_tuning(Tune::force, isa, table, pool).gain, 99);
  EXPECT_NE(find_tuning(Tune::force, isa, table, pool).constants.fetch, (WeightFetch{64, 64, true}));
}

TEST_F(TuningFile, KernelsFetchAsItSays) {
  const Isa isa = best_usable_isa();
  if (isa == Isa::scalar) GTEST_SKIP() << "scalar kernels fetch nothing";
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  ThreadPool pool(3);
  const KernelTable table = select_kernels(isa);
  const KernelConstants other{.fetch = {3072, 12288, !usual_constants().fetch.is_to_second_level},
                              .share_rows = 512};
  keep_tuning(tuning_file(), isa, 3, {.constants = other, .gain = 1.5, .many_rows_gain = 1.25});
  EXPECT_EQ(find_tuning(Tune::once, isa, table, pool).gain, 1.5);
  EXPECT_EQ(make_backend({}, {.threads = 3, .tune = Tune::once})->constants(), other);
  EXPECT_EQ(find_tuning(Tune::off, isa, table, pool).constants, usual_constants());
  fs::remove_all(folder_.path() / "assay");  // this process knows
  EXPECT_EQ(find_tuning(Tune::once, isa, table, pool).constants, other);
  EXPECT_EQ(find_tuning(Tune::once, Isa::scalar, select_kernels(Isa::scalar), pool).constants,
            usual_constants());
}

TEST_F(TuningFile, HoldsWhatWasMeasuredFirst) {
  const Isa isa = best_usable_isa();
  if (isa == Isa::scalar) GTEST_SKIP() << "scalar kernels fetch nothing";
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  ThreadPool pool(1);
  const Tuning tuning = find_tuning(Tune::once, isa, select_kernels(isa), pool);
  EXPECT_GT(tuning.took.value, 0) << "nothing was tried";
  const std::optional<Tuning> kept = kept_tuning(file(), isa, 1);
  ASSERT_EQ(kept.has_value(), tuning.is_measured);
  if (!kept) return;  // a machine too slow, or too busy
  EXPECT_EQ(kept->constants, tuning.constants);
  EXPECT_EQ(make_backend({}, {.threads = 1, .tune = Tune::once})->constants(), tuning.constants);
}

}  // namespace
}  // namespace assay::cpu
