// Launches that are chosen by measuring them: by times that the test makes up, and the file that keeps them.
#include "assay/backend/cuda/run/launch_tuning.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/base/json.h"
#include "support/temporary_folder.h"

namespace assay::cuda {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::write_file;

constexpr LaunchChoice kNear{.loads = 1}, kInFront{.inputs = 0}, kLarge{.blocks = 1};

// Each time takes a tenth of a second of the clock.
class FakeTimer : public LaunchTimer {
 public:
  std::function<double(const ProductKey&, const LaunchChoice&, int nth)> time;
  double clock_s = 100, each_s = 0.1;
  int asked = 0;

  Seconds now() override { return {clock_s}; }
  Seconds time_of(const TunedProduct& product, const LaunchChoice& choice) override {
    clock_s += each_s;
    ++asked;
    return {time(product.key, choice, asked)};
  }
};

TunedProduct product_of_rows(std::int64_t rows,
                             std::vector<LaunchChoice> candidates = {{}, kNear, kInFront}) {
  return {.key = {.outputs = 4, .inputs = 8, .rows = rows}, .candidates = std::move(candidates)};
}
MeasuredChoice measured(FakeTimer& timer, Seconds at_most = {1000}) {
  const std::vector<TunedProduct> products = {product_of_rows(1)};
  return measure_launches(products, timer, at_most).all().at(products.front().key);
}

TEST(CudaLaunchTuning, TakesTheFastest) {
  FakeTimer timer;
  timer.time = [](const ProductKey&, const LaunchChoice& choice, int) {
    return choice == kInFront ? 2.0 : choice == kNear ? 3.0 : 4.0;
  };
  EXPECT_EQ(measured(timer), (MeasuredChoice{.choice = kInFront, .gain = 2}));
}

TEST(CudaLaunchTuning, StaysWithTheRuleForLessThanThreePercent) {
  FakeTimer timer;
  timer.time = [](const ProductKey&, const LaunchChoice& choice, int) {
    return choice == kNear ? 1.0 : 1.02;
  };
  EXPECT_EQ(measured(timer), MeasuredChoice());
  timer.time = [](const ProductKey&, const LaunchChoice& choice, int) {
    return choice == kNear ? 1.0 : 1.04;
  };
  EXPECT_EQ(measured(timer).choice, kNear);
}

TEST(CudaLaunchTuning, WhatWonByChanceMustWinAgain) {
  FakeTimer timer;
  timer.time = [](const ProductKey&, const LaunchChoice& choice, int nth) {
    return choice == kNear && nth <= 3 * 7 ? 0.5 : 1.0;
  };
  EXPECT_EQ(measured(timer), MeasuredChoice());
}

TEST(CudaLaunchTuning, GoesByMedians) {
  FakeTimer timer;  // every fifth time is disturbed
  timer.time = [](const ProductKey&, const LaunchChoice& choice, int nth) {
    return (choice == kNear ? 0.5 : 1.0) + (nth % 5 == 0 ? 50 : 0);
  };
  EXPECT_EQ(measured(timer), (MeasuredChoice{.choice = kNear, .gain = 2}));
}

TEST(CudaLaunchTuning, GivesUpWhatIsHopelessOrFails) {
  FakeTimer timer;
  std::map<std::int8_t, int> tried;
  timer.time = [&](const ProductKey&, const LaunchChoice& choice, int) {
    ++tried[choice.loads];
    if (choice == kInFront) throw Error("no such launch");
    return choice == kNear ? 10.0 : 1.0;
  };
  EXPECT_EQ(measured(timer), MeasuredChoice());
  EXPECT_EQ(tried[1], 1) << "ten times as slow";
  EXPECT_EQ(tried[kByRule], 8) << "the rule seven times, the one that failed once";
  timer.time = [](const ProductKey&, const LaunchChoice&, int) -> double { throw DeviceFault("gone"); };
  EXPECT_THROW(measured(timer), DeviceFault);
}

TEST(CudaLaunchTuning, HoldsItsBudget) {
  FakeTimer timer;
  timer.time = [](const ProductKey&, const LaunchChoice& choice, int) { return choice == kNear ? 0.5 : 1.0; };
  std::vector<TunedProduct> products;
  for (std::int64_t rows = 1; rows <= 32; rows *= 2) products.push_back(product_of_rows(rows));
  const double begin = timer.clock_s;
  const LaunchChoices found = measure_launches(products, timer, {8});
  EXPECT_LE(timer.clock_s - begin, 8 + timer.each_s) << "one time more at most";
  ASSERT_EQ(found.all().size(), products.size()) << "all are decided";
  int count = 0;
  for (const TunedProduct& product : products) {
    const MeasuredChoice& one = found.all().at(product.key);
    EXPECT_EQ(one.choice, one.is_measured ? kNear : LaunchChoice());
    count += one.is_measured ? 1 : 0;
  }
  EXPECT_EQ(count, 2) << "three candidates 7 times and two of them again, a tenth each";
  EXPECT_TRUE(found.all().at(products.front().key).is_measured) << "the first ones first";
}

DeviceFacts gpu_facts(const std::string& driver = "580.65.06, CUDA 13.0") {
  return {.name = "NVIDIA H200", .major = 9, .minor = 0, .processors = 132, .driver = driver};
}

class LaunchFile : public testing::Test {
 protected:
  LaunchFile() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~LaunchFile() override { unsetenv("XDG_CACHE_HOME"); }

  std::string file() const { return folder_ / "assay/launches.json"; }
  void write(std::string_view text) const {
    fs::create_directories(folder_ / "assay");
    write_file(file(), text);
  }
  // What is known, and how many were measured for it.
  std::pair<LaunchChoices, std::size_t> find(const DeviceFacts& facts, Tune tune = Tune::once,
                                             const LaunchChoice& fastest = kNear) const {
    std::pair<LaunchChoices, std::size_t> found;
    find_launches(
        tune, facts, kWanted,
        [&](std::span<const ProductKey> missing) {
          LaunchChoices measured;
          for (const ProductKey& key : missing) measured.put(key, {.choice = fastest, .gain = 1.5});
          found.second += missing.size();
          return measured;
        },
        found.first);
    return found;
  }

  const std::vector<ProductKey> kWanted = {{.outputs = 4, .inputs = 8, .rows = 1},
                                           {.outputs = 4, .inputs = 8, .rows = 8}};
  test::TemporaryFolder folder_;
};

TEST_F(LaunchFile, IsReadByLaterProcesses) {
  const auto [first, measured] = find(gpu_facts());
  EXPECT_EQ(measured, 2U);
  EXPECT_EQ(first.of(kWanted[0]), kNear);
  const auto [later, again] = find(gpu_facts(), Tune::once, kLarge);
  EXPECT_EQ(again, 0U);
  EXPECT_EQ(later.all(), first.all());
  EXPECT_EQ(kept_launches_of(gpu_facts()).size(), 2U);
  EXPECT_EQ(kept_launches_of(gpu_facts())[0].chosen, (MeasuredChoice{.choice = kNear, .gain = 1.5}));
}

TEST_F(LaunchFile, OfAnotherDriverOrDeviceIsIgnoredAndKept) {
  find(gpu_facts());
  DeviceFacts other = gpu_facts();
  other.name = "NVIDIA A100";
  for (const DeviceFacts& facts : {gpu_facts("590.1, CUDA 13.0"), other}) {
    const auto [found, measured] = find(facts, Tune::once, kLarge);
    EXPECT_EQ(measured, 2U);
    EXPECT_EQ(found.of(kWanted[1]), kLarge);
  }
  const auto [first, measured] = find(gpu_facts());
  EXPECT_EQ(measured, 0U);
  EXPECT_EQ(first.of(kWanted[0]), kNear) << "each has an entry of its own";
}

TEST_F(LaunchFile, ThatIsTornIsMeasuredAgain) {
  find(gpu_facts());
  const std::string whole = read_file(file());
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 3}) {
    SCOPED_TRACE(length);
    write(whole.substr(0, length));
    EXPECT_EQ(find(gpu_facts()).second, 2U);
    EXPECT_EQ(find(gpu_facts()).second, 0U) << "it is whole again";
  }
}

TEST_F(LaunchFile, WithOneBadEntryHasTheOthers) {
  const std::string device = launch_tuning_key(gpu_facts(), "1"), one = text_of(kWanted[0]);
  LaunchChoices choices;
  for (const ProductKey& key : kWanted) choices.put(key, {.choice = kNear, .gain = 1.5});
  const std::string good = with_launches("", device, choices);
  ASSERT_EQ(launches_in(good, device, kWanted).all(), choices.all());
  for (const char* bad : {R"({"gain": 0.5})", R"({"gain": "2"})", R"({})", R"([])", R"({"gain": 1e999})",
                          R"({"gain": 2, "loads": "further"})", R"({"gain": 2, "loads": 1})",
                          R"({"gain": 2, "other": "near ahead"})", R"({"gain": 2, "is_measured": 1})"}) {
    SCOPED_TRACE(bad);
    Json entries = Json::parse(good);
    const std::string text = entries.dump();
    const std::string other = entries[device][one].dump();
    const std::size_t at = text.find(other, text.find(one));
    const std::string spoilt = text.substr(0, at) + bad + text.substr(at + other.size());
    const LaunchChoices found = launches_in(spoilt, device, kWanted);
    EXPECT_FALSE(found.knows(kWanted[0]));
    const bool is_whole_file_bad = std::string(bad).find("e999") != std::string::npos;
    EXPECT_EQ(found.knows(kWanted[1]), !is_whole_file_bad);
  }
}

TEST_F(LaunchFile, KeepsWhatThereWasNoTimeFor) {
  LaunchChoices choices;
  choices.put(kWanted[0], {.is_measured = false});
  const std::string text = with_launches("no JSON", "d", choices);
  EXPECT_EQ(launches_in(text, "d", kWanted).all(), choices.all()) << "processes would differ";
  EXPECT_TRUE(kept_launches(text, "d").empty());
}

TEST_F(LaunchFile, NothingIsMeasuredThatCannotBeKept) {
  fs::create_directories(file());
  EXPECT_EQ(find(gpu_facts()).second, 0U);
  fs::remove_all(file());
  unsetenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string kept_home = home == nullptr ? "" : home;
  unsetenv("HOME");
  const auto [found, measured] = find(gpu_facts());
  if (!kept_home.empty()) setenv("HOME", kept_home.c_str(), 1);
  EXPECT_EQ(measured, 0U);
  EXPECT_EQ(found.of(kWanted[0]), LaunchChoice());
}

TEST_F(LaunchFile, IsLeftAloneOrMadeAnewAsItIsToldTo) {
  EXPECT_EQ(find(gpu_facts(), Tune::off).second, 0U);
  EXPECT_FALSE(fs::exists(file()));
  find(gpu_facts());
  const auto [found, measured] = find(gpu_facts(), Tune::force, kLarge);
  EXPECT_EQ(measured, 2U);
  EXPECT_EQ(found.of(kWanted[0]), kLarge);
  EXPECT_EQ(find(gpu_facts()).first.of(kWanted[0]), kLarge);
  forget_launch_tuning();
  EXPECT_EQ(find(gpu_facts()).second, 2U);
}

}  // namespace
}  // namespace assay::cuda
