// --budget: what fits is chosen, what does not is named, and a choice is kept.
#include <nlohmann/json.hpp>
#include <set>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> lengths(const std::vector<std::string>& more) {
  std::vector<std::string> words{"sweep", "lengths", kModel, "-n", "2", "-r", "2", "--processes", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(CliBudget, IsATimeWithItsUnitOrNone) {
  for (const char* bad : {"10", "min", "-1s", "0s", "10 min", "1d", "nan s", "1e99h", "10minutes"})
    expect_failure(run_program(lengths({"--budget", bad, "--dry-run"})), 2, {"--budget", bad, "10min"});
  for (const char* good : {"90s", "10min", "1.5h"}) {
    const ProgramResult result = run_program(lengths({"--budget", good, "--dry-run", "--json"}));
    expect_success(result);
    EXPECT_TRUE(Json::parse(result.out).contains("budget")) << good;
  }
  const ProgramResult none = run_program(lengths({"--budget", "none", "--dry-run", "--json"}));
  expect_success(none);
  EXPECT_FALSE(Json::parse(none.out).contains("budget"));
}

TEST(CliBudget, ATooShortOneNamesWhatIsLeftOutAndHowToMeasureIt) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const ProgramResult result = run_program(
      {"sweep", "lengths", kModel, "-r", "2", "--processes", "1", "--budget", "0.001s", "-o", out});
  expect_success(result);
  const Json json = Json::parse(read_file(out + "/results.json"));
  EXPECT_EQ(json["budget"]["budget_s"], 0.001);
  ASSERT_EQ(json["rows"].size(), 1U);
  ASSERT_FALSE(json["left_out"].empty());
  const std::string command = json["left_out"][0]["command"];
  EXPECT_EQ(command.rfind("assay sweep lengths ", 0), 0U) << command;
  EXPECT_NE(command.find("--budget none"), std::string::npos) << command;
  EXPECT_NE(result.err.find("From the study lengths, the budget left out "), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("From the study lengths, the budget left out "), std::string::npos) << result.out;
}

TEST(CliBudget, WhatAFlagAsksForIsMeasured) {
  const ProgramResult result = run_program(lengths({"--lengths", "4,8", "--budget", "0.001s", "--json"}));
  expect_success(result);
  EXPECT_EQ(Json::parse(result.out)["rows"].size(), 2U);
  EXPECT_NE(result.err.find("more than the budget"), std::string::npos) << result.err;
}

// The machine is measured before the choice, and what measures it must not leave one core to the processes.
TEST(CliBudget, RowsRunOnAsManyThreadsAsWithoutOne) {
  std::vector<std::string> threads;
  for (const char* budget : {"none", "1min"}) {
    const ProgramResult result = run_program(lengths({"--lengths", "4", "--budget", budget, "--json"}));
    expect_success(result);
    threads.push_back(Json::parse(result.out)["rows"][0]["parameters"]["threads"]);
  }
  EXPECT_EQ(threads[1], threads[0]);
}

// Each model has a row however short the budget is, and what it leaves out has a command that a shell can
// run.
TEST(CliBudget, NoModelIsLeftOut) {
  const ProgramResult result = run_program(
      {"tradeoff", kModel, "--with", "demo", "-p", "a", "-n", "4", "--budget", "0.001s", "--json"});
  expect_success(result);
  const Json json = Json::parse(result.out);
  std::set<std::string> models;
  for (const Json& row : json["rows"]) models.insert(row["setting"]["model"].get<std::string>());
  EXPECT_EQ(models, (std::set<std::string>{"with_tokenizer", "demo"}));
  std::set<std::string> studies;
  for (const Json& one : json["left_out"]) {
    studies.insert(one["study"].get<std::string>());
    const std::string command = one["command"];
    if (!one.contains("reason")) {  // else the whole run is repeated
      EXPECT_EQ(command.rfind("assay tradeoff ", 0), 0U) << command;
    }
  }
  EXPECT_EQ(studies.count("perplexity"), 1U);
}

TEST(CliBudget, ItsChoiceIsGivenAgainWithTheConfiguration) {
  const TemporaryFolder folder;
  const std::string first = folder / "first", second = folder / "second";
  expect_success(run_program(lengths({"--budget", "0.001s", "-o", first})));
  expect_success(run_program({"sweep", "lengths", "--config", first + "/config.json", "-o", second}));
  const Json a = Json::parse(read_file(first + "/results.json")),
             b = Json::parse(read_file(second + "/results.json"));
  EXPECT_EQ(a["budget"], b["budget"]);
  EXPECT_EQ(a["rows"].size(), b["rows"].size());
  const ProgramResult resumed = run_program(lengths({"--budget", "0.001s", "-o", first, "--resume"}));
  expect_success(resumed);
  EXPECT_EQ(Json::parse(read_file(first + "/results.json"))["budget"], a["budget"]);
}

// The journal of a run as if it had been killed after its first case, when it had taken so many seconds.
void cut_journal(const std::string& folder, double at_s) {
  std::string kept;
  for (const std::string& line : lines_of(read_file(folder + "/journal.jsonl"))) {
    nlohmann::ordered_json entry = nlohmann::ordered_json::parse(line);
    if (entry.contains("at_s")) entry["at_s"] = at_s;
    const std::string kind = entry.value("kind", "head"), key = entry.value("key", "");
    const bool is_of_case = kind == "first" || kind == "sample";
    if (kind != "visits" && kind != "done" && (!is_of_case || key.find("| 4 tokens") != std::string::npos))
      kept += entry.dump() + "\n";
  }
  write_file(folder + "/journal.jsonl", kept);
}

TEST(CliBudget, AResumedRunHasWhatIsLeftOfItsTime) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const std::vector<std::string> words = lengths({"--lengths", "4,8,12", "--budget", "100s", "-o", out});
  std::vector<std::string> again = words;
  again.emplace_back("--resume");
  const auto results = [&] { return Json::parse(read_file(out + "/results.json")); };
  expect_success(run_program(words));
  ASSERT_EQ(results()["rows"].size(), 3U);
  cut_journal(out, 116);
  const ProgramResult late = run_program(again);
  expect_success(late);
  EXPECT_NE(late.err.find("Before it was resumed, the run took 2 min of its budget of 100 s."),
            std::string::npos)
      << late.err;
  const Json of_late = results();
  EXPECT_EQ(of_late["rows"].size(), 1U) << "what the journal has";
  ASSERT_EQ(of_late["left_out"].size(), 2U);
  for (const Json& one : of_late["left_out"]) EXPECT_EQ(one["reason"], "the run was slower than predicted");
  cut_journal(out, 30);
  expect_success(run_program(again));
  EXPECT_EQ(results()["rows"].size(), 3U) << "85 seconds were left";
}

TEST(CliBudget, ADryRunOfEveryStudyTellsItsChoice) {
  const ProgramResult result = run_program({"run", "demo", "--dry-run", "--json", "--budget", "20s"});
  expect_success(result);
  const Json budget = Json::parse(result.out)["budget"];
  EXPECT_LE(budget["choice"]["predicted_s"].get<double>(), 20);
  EXPECT_EQ(budget["choice"]["studies"].size(), 11U);
}

}  // namespace
}  // namespace assay::test
