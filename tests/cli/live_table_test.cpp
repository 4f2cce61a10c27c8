// What a run shows while it measures: in a terminal of its own, and in another that watches.
#include "assay/report/live_table.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

using report::LiveCase;
using report::LiveTable;

LiveTable two_cases(double factor, int processes) {
  LiveTable table;
  for (const double times : {1.0, factor}) {
    LiveCase& c = table.at("trade-off", times == 1 ? "a" : "b");
    c.label = times == 1 ? "float32" : "nf4";
    for (int process = 0; process < processes; ++process)
      for (int round = 0; round < 3; ++round)
        c.seconds[{process, round}] = 0.1 * times * (1 + 0.001 * ((process * 7 + round * 3) % 5));
  }
  return table;
}

std::string line_with(const std::vector<std::string>& lines, const std::string& word) {
  for (const std::string& line : lines)
    if (line.find(word) != std::string::npos) return line;
  return "";
}

TEST(LiveTable, ShowsWhatIsDecidedSoFar) {
  std::vector<std::string> lines = two_cases(0.5, 5).lines(100, 20);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_TRUE(lines[0].starts_with("Study      Case     Latency (ms)  95 % CI  Paired ratio")) << lines[0];
  EXPECT_TRUE(lines[4].starts_with("Paired ratio: to the first case of the study")) << lines[4];
  EXPECT_NE(line_with(lines, "nf4").find("faster 2x"), std::string::npos) << line_with(lines, "nf4");
  EXPECT_NE(line_with(lines, "float32").find("  -  "), std::string::npos);
  EXPECT_TRUE(line_with(lines, "nf4").ends_with("15"));
  EXPECT_NE(line_with(two_cases(1.0001, 5).lines(100, 20), "nf4").find("tied"), std::string::npos);
  // Two processes have no verdict.
  EXPECT_NE(line_with(two_cases(0.5, 2).lines(100, 20), "nf4").find("(faster 2x)"), std::string::npos);
}

TEST(LiveTable, FitsTheTerminal) {
  LiveTable table = two_cases(0.5, 3);
  for (int i = 0; i < 30; ++i) {
    LiveCase& c = table.at("lengths", std::to_string(i));
    c.label = "case " + std::to_string(i) + "\x1b[31m\n";
    c.first_s = 1;
  }
  table.at("lengths", "29").reason = "no memory";
  const std::vector<std::string> lines = table.lines(60, 10);
  ASSERT_EQ(lines.size(), 13U) << "no ratio is shown, and none explained";
  EXPECT_EQ(lines.back(), "22 cases above these.");
  EXPECT_NE(line_with(lines, "case 29").find("failed"), std::string::npos);
  EXPECT_EQ(line_with(lines, "\x1b"), "") << "labels are text";
  for (const std::string& line : lines) EXPECT_LE(line.size(), 60U) << line;
  EXPECT_TRUE(LiveTable().lines(80, 10).empty());
}

// `script` gives the run a terminal; its standard error is one.
TEST(CliLive, ATerminalShowsTheTableAndAPipeDoesNot) {
  if (std::system("command -v script > /dev/null 2>&1") != 0) GTEST_SKIP() << "needs `script` of util-linux";
  TemporaryFolder folder;
  const std::string command =
      fmt::format("'{}' sweep lengths '{}' --lengths 4,8 -n 40 --processes 2 -r 15", program_path(), kModel);
  ASSERT_EQ(
      std::system(fmt::format("script -qec \"{}\" '{}' > /dev/null 2>&1", command, folder / "seen").c_str()),
      0);
  const std::string seen = read_file(folder / "seen");
  EXPECT_NE(seen.find("Paired ratio"), std::string::npos);
  EXPECT_NE(seen.find("\x1b[J"), std::string::npos) << "it is drawn over";
  ASSERT_EQ(std::system((command + " > /dev/null 2> '" + folder / "said" + "'").c_str()), 0);
  EXPECT_EQ(read_file(folder / "said").find("\x1b"), std::string::npos);
}

// The watcher waits until the run ends, here by a signal, and finds the report of what there is.
TEST(CliLive, AnotherTerminalWatchesUntilTheRunEnds) {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  const int code = std::system(
      fmt::format(
          "'{0}' run '{1}' -p one -n 50 -r 10000000 --corpus '{1}/prompt.txt' -o '{2}' "
          "> '{3}' 2>&1 & P=$!\n"
          "until [ -s '{2}/journal.jsonl' ]; do sleep 0.1; done\n"
          "'{0}' run --watch '{2}' > '{4}' 2> '{5}' & W=$!\n"
          "until grep -q 'prompt 1' '{2}/journal.jsonl'; do kill -0 $W || exit 98; sleep 0.1; done; sleep 1\n"
          "kill -TERM $P; wait $P; [ $? = 130 ] || exit 99\n"
          "wait $W",
          program_path(), kModel, out, folder / "said", folder / "watched", folder / "noted")
          .c_str());
  EXPECT_EQ(WEXITSTATUS(code), 0) << read_file(folder / "said") << read_file(folder / "noted");
  const std::string watched = read_file(folder / "watched");
  EXPECT_NE(watched.find("Latency (ms)"), std::string::npos) << watched;
  EXPECT_NE(watched.find("prompt 1"), std::string::npos) << watched;
  EXPECT_NE(read_file(folder / "noted").find("The run has ended; open " + out + "/report.html."),
            std::string::npos);
  // SIGTERM and Ctrl-C (which a shell keeps from its background) leave the full report.
  EXPECT_EQ(nlohmann::json::parse(read_file(out + "/results.json"))["status"], "interrupted");
  EXPECT_NE(read_file(out + "/report.html").find("prompt 1"), std::string::npos);
  EXPECT_NE(read_file(out + "/report.md").find("| prompt 1 |"), std::string::npos);
}

// The verdicts of an ended run are the report's, of all its comparisons together.
TEST(CliLive, AnEndedRunShowsItsResults) {
  TemporaryFolder folder;
  const std::string out = folder / "out";
  expect_success(run_program({"tradeoff", kModel, "-p", "hi", "-n", "2", "-r", "1", "--processes", "3",
                              "--precision", "float32,nf4", "-o", out}));
  const ProgramResult text = run_program({"run", "--watch", out}), report = run_program({"report", out}),
                      json = run_program({"run", "--watch", out, "--json"});
  expect_success(text);
  EXPECT_TRUE(report.out.starts_with(text.out)) << text.out;
  EXPECT_NE(text.out.find("Findings"), std::string::npos) << text.out;
  expect_success(json);
  EXPECT_EQ(nlohmann::json::parse(json.out)["rows"].size(),
            nlohmann::json::parse(read_file(out + "/results.json"))["rows"].size());
  // Results from before the run that is watched are none of it.
  using namespace std::chrono_literals;
  std::filesystem::last_write_time(out + "/results.json",
                                   std::filesystem::last_write_time(out + "/results.json") - 1h);
  expect_failure(run_program({"run", "--watch", out, "--json"}), 1, {out, "without results"});
  EXPECT_NE(run_program({"run", "--watch", out}).out.find("Paired ratio"), std::string::npos);
}

TEST(CliLive, WatchingTakesNothingElse) {
  TemporaryFolder folder;
  expect_failure(run_program({"run", "demo", "--watch", folder.path().string()}), 2, {"--watch", "MODEL"});
  expect_failure(run_program({"run", "--watch", folder.path().string(), "-o", folder / "out"}), 2,
                 {"--watch", "--output"});
}

TEST(CliLive, ThereMustBeARunToWatch) {
  TemporaryFolder folder;
  expect_failure(run_program({"run", "--watch", folder.path().string()}), 1, {"journal.jsonl"});
  write_file(folder / "journal.jsonl", "nonsense\n");
  expect_failure(run_program({"run", "--watch", folder.path().string()}), 1, {"journal.jsonl"});
}

}  // namespace
}  // namespace assay::test
