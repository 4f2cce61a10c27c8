// What becomes of a run that the output folder holds already: it is kept, or resumed whatever its names.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class CliOutputFolder : public testing::Test {
 protected:
  ProgramResult run(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"tradeoff", kModel, "--precision", "float32,nf4+head:int8",
                                   "-p",       "a",    "-n",          "4",
                                   "-r",       "2",    "--processes", "2",
                                   "--time",   "0",    "--corpus",    kText,
                                   "-o",       out_};
    words.insert(words.end(), more.begin(), more.end());
    ProgramResult result = run_program(words);
    expect_success(result);
    return result;
  }
  std::vector<std::string> journal_lines(const std::string& part) const {
    std::vector<std::string> found;
    for (const std::string& line : lines_of(read_file(out_ + "/journal.jsonl")))
      if (line.find(part) != std::string::npos) found.push_back(line);
    return found;
  }
  const TemporaryFolder folder_;
  const std::string out_ = folder_ / "out";
};

TEST_F(CliOutputFolder, KeepsAnEarlierRun) {
  run();
  write_file(out_ + "/notes.txt", "mine");
  const std::string first = read_file(out_ + "/results.json"), journal = read_file(out_ + "/journal.jsonl");
  const ProgramResult second = run();
  EXPECT_NE(second.err.find("holds an earlier run, which is kept in " + out_ + "/earlier/1"),
            std::string::npos)
      << second.err;
  EXPECT_EQ(read_file(out_ + "/earlier/1/results.json"), first);
  EXPECT_EQ(read_file(out_ + "/earlier/1/journal.jsonl"), journal);
  EXPECT_TRUE(fs::exists(out_ + "/earlier/1/report.html"));
  EXPECT_TRUE(fs::exists(out_ + "/earlier/1/plots/table.svg"));
  EXPECT_FALSE(fs::exists(out_ + "/earlier/1/notes.txt"));
  EXPECT_EQ(read_file(out_ + "/notes.txt"), "mine");
  EXPECT_NE(read_file(out_ + "/results.json"), first);
  const std::string of_second = read_file(out_ + "/results.json");
  EXPECT_EQ(run({"--quiet"}).err.find("earlier"), std::string::npos);
  EXPECT_EQ(read_file(out_ + "/earlier/1/results.json"), first);
  EXPECT_EQ(read_file(out_ + "/earlier/2/results.json"), of_second);
  // What is kept is a run like any other.
  const ProgramResult history = run_program({"history", out_, "--json"});
  expect_success(history);
  EXPECT_EQ(Json::parse(history.out)["rows"].size(), 3U) << history.out.substr(0, 400);
  // A run that is resumed goes on where it stands, and one that only shows its plan moves nothing.
  run({"--resume"});
  run({"--dry-run"});
  EXPECT_FALSE(fs::exists(out_ + "/earlier/3"));
}

// A report is written over that of its own run, and over no other.
TEST_F(CliOutputFolder, KeepsAnotherRunThanTheReported) {
  run();
  const std::string other = folder_ / "other";
  fs::create_directory(other);
  Json later = Json::parse(read_file(out_ + "/results.json"));
  later["created"] = "2020-01-01T00:00:00Z";
  write_file(other + "/results.json", later.dump());
  expect_success(run_program({"report", out_, "-o", out_}));
  EXPECT_FALSE(fs::exists(out_ + "/earlier"));
  for (int times = 0; times < 2; ++times) expect_success(run_program({"report", out_, "-o", other}));
  EXPECT_EQ(read_file(other + "/earlier/1/results.json"), later.dump());
  EXPECT_FALSE(fs::exists(other + "/earlier/2"));
  EXPECT_EQ(Json::parse(read_file(other + "/results.json"))["created"],
            Json::parse(read_file(out_ + "/results.json"))["created"]);
}

// Labels stood otherwise in journals of earlier versions: what was measured then is not measured again.
TEST_F(CliOutputFolder, ResumesAJournalOfEarlierNames) {
  run({"--json"});
  const Json sound = Json::parse(read_file(out_ + "/results.json"));
  const std::string file = out_ + "/journal.jsonl", now = "nf4+head:int8", old = "nf4, lm_head int8";
  std::string text = read_file(file);
  int renamed = 0;
  for (std::size_t at = text.find(now); at != std::string::npos; at = text.find(now, at + old.size())) {
    text.replace(at, now.size(), old);
    ++renamed;
  }
  ASSERT_GE(renamed, 5) << text.substr(0, 2000);
  write_file(file, text);
  const std::size_t samples = journal_lines("\"kind\":\"sample\"").size(), all = lines_of(text).size();
  run({"--resume", "--json"});
  EXPECT_EQ(journal_lines("\"kind\":\"sample\"").size(), samples) << "nothing is measured again";
  EXPECT_EQ(lines_of(read_file(file)).size(), all + 2) << "that it was begun again, and that it is done";
  const Json resumed = Json::parse(read_file(out_ + "/results.json"));
  EXPECT_EQ(resumed["rows"], sound["rows"]);
  EXPECT_EQ(resumed.dump().find(old), std::string::npos);
}

}  // namespace
}  // namespace assay::test
