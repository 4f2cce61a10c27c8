// What a sweep writes into its journal, line by line, and what it does where a journal holds a part of it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "support/temporary_folder.h"
#include "support/timed_session.h"

namespace assay {
namespace {

using Lines = std::vector<std::string>;

class JournaledSweep : public testing::Test {
 protected:
  JournaledSweep() {
    what_.label = "a";
    what_.prompts = {"a"};
    options_.clock = script_.clock();
    options_.processes = 2;
    options_.repeats = 2;
    script_.first_s = 2;
    script_.run_s = [](const Case&, int made) { return 1.0 + made; };
  }
  SweepResult run(bool resumes, bool have_processes = true) {
    Journal journal(file_, "p", resumes);
    options_.journal = &journal;
    Sessions sessions = test::timed_sessions(script_, have_processes);
    script_.log.clear();
    script_.made = 0;
    return run_sweep(sessions, "s", {what_}, options_);
  }
  Lines lines() const {
    Lines all;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  // Kind, key and what is in the data, of each line but the first.
  Lines entries() const {
    Lines all;
    for (const std::string& line : lines()) {
      const auto json = nlohmann::ordered_json::parse(line);
      if (!json.contains("kind")) continue;
      const auto& data = json["data"];
      std::string text = data.dump();
      if (json["kind"] == "first")
        text = data["first_run"]["seconds"].dump() + " " + data["facts"]["kernels"].dump();
      if (json["kind"] == "sample")
        text = data["process"].dump() + "." + data["round"].dump() + " " +
               data["sample"]["total_latency_s"].dump();
      EXPECT_EQ(json["key"],
                json["kind"] == "first" || json["kind"] == "sample" ? "s | " + what_.key() : "s");
      all.push_back(json["kind"].get<std::string>() + " " + text);
    }
    return all;
  }
  // Keeps the first lines of the journal.
  void cut(std::size_t kept) const {
    const Lines all = lines();
    std::string text;
    for (std::size_t i = 0; i < kept; ++i) text += all[i] + "\n";
    test::write_file(file_, text);
  }
  const test::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "journal.jsonl";
  test::TimedScript script_;
  SweepOptions options_;
  Case what_;
};

TEST_F(JournaledSweep, WritesEachStepOnce) {
  run(false);
  EXPECT_EQ(entries(), (Lines{"first 2.0 \"timed\"", "sample 0.0 1.0", "sample 0.1 1.0",
                              "visits {\"processes\":2,\"rounds\":2}", "sample 1.0 2.0", "sample 1.1 2.0",
                              "done true"}));
  EXPECT_EQ(script_.log, (Lines{"start", "first a", "a", "a", "start", "a", "a", "a"}));
}

TEST_F(JournaledSweep, ThatIsDoneLoadsNothing) {
  run(false);
  const SweepResult result = run(true);
  EXPECT_TRUE(script_.log.empty());
  ASSERT_EQ(result.cases.size(), 1U);
  EXPECT_EQ(result.cases[0].samples.size(), 4U);
  EXPECT_EQ(result.cases[0].samples.at({1, 0}).total_latency_s, 2);
  EXPECT_EQ(result.cases[0].first.seconds, 2);
  EXPECT_EQ(result.cases[0].facts.kernels, "timed");
  EXPECT_EQ(result.cases[0].visit_s, 0) << "nothing ran";
  EXPECT_EQ(entries().back(), "done true");
}

TEST_F(JournaledSweep, RunsOnlyWhatIsMissing) {
  run(false);
  // Without the end: all samples are there.
  cut(7);
  EXPECT_EQ(run(true).cases[0].samples.size(), 4U);
  EXPECT_TRUE(script_.log.empty());
  EXPECT_EQ(entries().size(), 7U) << "the end is written again";
  // Without the last sample: the second process starts again, warms up and runs it.
  cut(6);
  SweepResult result = run(true);
  EXPECT_EQ(script_.log, (Lines{"start", "a", "a", "a"}));
  EXPECT_EQ(result.cases[0].samples.size(), 4U);
  EXPECT_EQ(result.cases[0].samples.at({1, 0}).total_latency_s, 2) << "of the journal";
  EXPECT_EQ(result.cases[0].samples.at({1, 1}).total_latency_s, 1) << "of now";
  // Without the plan: the first process starts again too, since its rounds may not be all.
  cut(4);
  result = run(true);
  EXPECT_EQ(result.cases[0].samples.size(), 4U);
  EXPECT_EQ(script_.made, 2);
  EXPECT_EQ(result.cases[0].samples.at({0, 1}).total_latency_s, 1);
  // Without the first run there is no case.
  cut(1);
  EXPECT_EQ(run(true).cases[0].samples.size(), 4U);
  EXPECT_EQ(script_.log[1], "first a");
}

TEST_F(JournaledSweep, KeepsThePlanOfTheJournal) {
  run(false);
  cut(5);  // with the plan: two processes of two rounds
  options_.processes.reset();
  options_.repeats.reset();
  EXPECT_EQ(run(true).cases[0].places(), (std::vector<SampleId>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(script_.made, 1);
}

TEST_F(JournaledSweep, OfOneProcessGoesOnWithItsRounds) {
  options_.processes.reset();
  options_.repeats = 3;
  run(false, false);
  EXPECT_EQ(entries(), (Lines{"first 2.0 \"timed\"", "sample 0.0 1.0", "sample 0.1 1.0", "sample 0.2 1.0",
                              "done true"}));
  cut(4);
  EXPECT_EQ(run(true, false).cases[0].samples.size(), 3U);
  EXPECT_EQ(script_.log, (Lines{"start", "a", "a"}));
}

TEST_F(JournaledSweep, ThatIsStoppedIsNotDone) {
  options_.should_stop = [this] { return script_.log.size() >= 3; };
  const SweepResult result = run(false);
  EXPECT_TRUE(result.is_interrupted);
  ASSERT_EQ(result.cases.size(), 1U);
  EXPECT_EQ(result.cases[0].samples.size(), 1U) << "what ran is kept";
  EXPECT_EQ(entries(), (Lines{"first 2.0 \"timed\"", "sample 0.0 1.0"}));
  options_.should_stop = [this] { return script_.log.size() >= 2; };
  EXPECT_TRUE(run(false).cases.empty()) << "a case without a run has not begun";
}

}  // namespace
}  // namespace assay
