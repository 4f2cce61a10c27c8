// A journal to the byte: what it writes, what it reads again, and what it refuses.
#include "assay/harness/journal.h"

#include <gtest/gtest.h>

#include <functional>

#include <nlohmann/json.hpp>

#include "support/temporary_folder.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kHead = "{\"journal\":4,\"plan\":\"p\"}\n";

class JournalFile : public testing::Test {
 protected:
  // What reading it again says, or "" where it is read.
  std::string refusal(const std::string& bytes) const {
    test::write_file(file_, bytes);
    try {
      Journal(file_, "p", true);
    } catch (const JournalError& error) {
      return error.what();
    }
    return "";
  }
  static std::vector<std::string> entries(const Journal& journal, const char* kind, const char* key) {
    std::vector<std::string> all;
    journal.read_each(kind, key, [&](const JsonReader& data) { all.push_back(data.text()); });
    return all;
  }
  std::function<TimePoint()> clock() {
    return [this] { return now_; };
  }
  TimePoint now_;
  const test::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "journal.jsonl";
};

// Configurations stand in keys by the names of the version that wrote them.
TEST_F(JournalFile, IsReadByTheNamesOfNow) {
  const std::string of_old = "s | tradeoff | nf4, dtype bfloat16, lm_head int8 | precision=\"nf4\"",
                    of_now = "s | tradeoff | nf4+head:int8, dtype bfloat16 | precision=\"nf4\"";
  test::write_file(file_, std::string(kHead) +
                              OrderedJson{{"kind", "sample"}, {"key", of_old}, {"data", "x"}}.dump() + "\n" +
                              OrderedJson{{"kind", "sample"}, {"key", of_now}, {"data", "y"}}.dump() + "\n");
  const Journal journal(file_, "p", true);
  EXPECT_EQ(entries(journal, "sample", of_now.c_str()), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(entries(journal, "sample", of_old.c_str()), std::vector<std::string>{"x"});
}

TEST_F(JournalFile, HoldsALineForEachEntry) {
  Journal journal(file_, "p", false, clock());
  EXPECT_EQ(test::read_file(file_), kHead);
  EXPECT_FALSE(journal.has_resumed());
  journal.append("sample", "a", {{"n", 1}});
  now_ += std::chrono::milliseconds(2500);
  journal.append("done", "b\xff", true);
  EXPECT_EQ(test::read_file(file_),
            std::string(kHead) +
                "{\"kind\":\"sample\",\"key\":\"a\",\"data\":{\"n\":1},\"at_s\":0.0}\n"
                "{\"kind\":\"done\",\"key\":\"\\u000062ff\",\"data\":true,\"at_s\":2.5}\n");
  EXPECT_FALSE(journal.has("sample", "a")) << "of this run, not of an earlier one";
  // Begun again, it is empty.
  EXPECT_FALSE(Journal(file_, "q", false).has_resumed());
  EXPECT_EQ(test::read_file(file_), "{\"journal\":4,\"plan\":\"q\"}\n");
}

TEST_F(JournalFile, GivesItsEntriesInOrderAndGoesOn) {
  const std::string lines = std::string(kHead) +
                            "{\"kind\":\"k\",\"key\":\"a\",\"data\":\"1\"}\n"
                            "{\"kind\":\"k\",\"key\":\"b\",\"data\":\"2\"}\n"
                            "{\"kind\":\"k\",\"key\":\"a\",\"data\":\"3\"}\n";
  test::write_file(file_, lines + "{\"kind\":\"k\",\"key\":\"a\",");  // cut off
  {
    Journal journal(file_, "p", true, clock());
    EXPECT_TRUE(journal.has_resumed());
    EXPECT_EQ(journal.earlier_s(), 0) << "a journal of before does not tell";
    EXPECT_EQ(test::read_file(file_), lines) << "what was cut off is gone";
    EXPECT_EQ(entries(journal, "k", "a"), (std::vector<std::string>{"1", "3"}));
    EXPECT_EQ(entries(journal, "k", "b"), std::vector<std::string>{"2"});
    EXPECT_TRUE(entries(journal, "k", "c").empty());
    EXPECT_TRUE(entries(journal, "a", "k").empty());
    EXPECT_TRUE(journal.has("k", "a"));
    EXPECT_FALSE(journal.has("a", "k"));
    EXPECT_FALSE(journal.has("k", "c"));
    journal.append("k", "c", "4");
  }
  EXPECT_EQ(test::read_file(file_), lines + "{\"kind\":\"k\",\"key\":\"c\",\"data\":\"4\",\"at_s\":0.0}\n");
  EXPECT_EQ(refusal(lines), "");
  EXPECT_EQ(refusal(kHead), "");
}

TEST_F(JournalFile, IsReadFromItsText) {
  const std::string lines = std::string(kHead) +
                            "{\"kind\":\"k\",\"key\":\"\\u000061ff\",\"data\":\"1\"}\n"
                            "{\"kind\":\"l\",\"key\":\"b\",\"data\":[2]}\n{\"kind\":\"cut off";
  std::string all;
  const auto on_entry = [&](const std::string& kind, const std::string& key, const OrderedJson& data) {
    all += kind + " " + key + " " + data.dump() + "; ";
  };
  read_journal(lines, "j", "p", on_entry);
  EXPECT_EQ(all, "k a\xff \"1\"; l b [2]; ");
  for (const auto& [text, plan] : {std::pair(lines, "q"), {std::string(kHead) + "1\n", "p"}, {"{}", "p"}})
    EXPECT_THROW(read_journal(text, "j", plan, on_entry), JournalError) << text;
}

// Twice interrupted: what is told is the time of all, to the last entry, and what lies between does not
// count.
TEST_F(JournalFile, AddsUpTheSecondsOfInterruptedRuns) {
  {
    const TimePoint begin = now_;
    now_ += std::chrono::seconds(1);  // loading, before the journal was opened
    Journal journal(file_, "p", false, clock(), begin);
    EXPECT_EQ(journal.earlier_s(), 0);
    now_ += std::chrono::seconds(10);
    journal.append("k", "a", "1");
    now_ += std::chrono::seconds(100);  // a case was running when the process was killed
  }
  now_ += std::chrono::hours(1);
  {
    Journal journal(file_, "p", true, clock());
    EXPECT_EQ(journal.earlier_s(), 11);
    now_ += std::chrono::seconds(5);
    journal.append("k", "b", "2");
    EXPECT_EQ(journal.earlier_s(), 11);
  }
  EXPECT_EQ(Journal(file_, "p", true, clock()).earlier_s(), 16);
  for (const char* bad : {"-1", "\"1\"", "null", "1e300"})
    EXPECT_EQ(refusal(std::string(kHead) + R"({"kind":"k","key":"a","data":1,"at_s":)" + bad + "}\n"),
              file_.string() + ": line 2: expected at_s as a number of seconds from 0")
        << bad;
}

TEST_F(JournalFile, OneThatIsNotThereIsBegun) {
  const Journal journal(file_, "p", true);
  EXPECT_FALSE(journal.has_resumed());
  EXPECT_EQ(test::read_file(file_), kHead);
}

TEST_F(JournalFile, IsRefusedWhereItIsNone) {
  const std::string none =
      file_.string() + ": expected a journal that this program can resume, found something else";
  EXPECT_EQ(refusal(""), none);
  EXPECT_EQ(refusal("{\"journal\":4,\"plan\":\"p\"}"), none) << "the line is not whole";
  EXPECT_EQ(refusal("garbage\n"), none);
  EXPECT_EQ(refusal("[3]\n"), none);
  EXPECT_EQ(refusal("{\"plan\":\"p\"}\n"), none);
  EXPECT_EQ(refusal("{\"journal\":2,\"plan\":\"p\"}\n"), none);
  EXPECT_EQ(refusal("{\"journal\":3,\"plan\":\"p\"}\n"), none);
  const std::string other = file_.string() +
                            ": another plan was begun here: expected the same model and options; start the "
                            "run again from the beginning, or repeat it with those";
  EXPECT_EQ(refusal("{\"journal\":4,\"plan\":\"q\"}\n"), other);
  EXPECT_EQ(refusal("{\"journal\":4}\n"), other);
}

TEST_F(JournalFile, NamesTheLineOfABadEntry) {
  const std::string good = "{\"kind\":\"k\",\"key\":\"a\",\"data\":1}\n";
  for (const char* entry : {"garbage", "[1]", "", R"({"kind": 1, "key": "k", "data": 1})",
                            R"({"kind": "k", "key": 1, "data": 1})", R"({"kind": "k", "key": "k"})",
                            R"({"key": "k", "data": 1})", R"({"kind": "k", "data": 1})"})
    EXPECT_EQ(refusal(kHead + good + entry + "\n"),
              file_.string() + ": line 3: expected an entry of a journal with kind, key and data")
        << entry;
}

TEST_F(JournalFile, NamesTheEntryThatIsNotUnderstood) {
  test::write_file(file_, std::string(kHead) + "{\"kind\":\"k\",\"key\":\"a\",\"data\":1}\n");
  const Journal journal(file_, "p", true);
  try {
    entries(journal, "k", "a");
    FAIL();
  } catch (const JournalError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind(file_.string() + ": the entry 'k' of 'a' cannot be read: ", 0), 0U) << text;
    EXPECT_NE(text.find("expected a string, found 1; start the run again from the beginning"),
              std::string::npos)
        << text;
  }
}

TEST_F(JournalFile, ThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(Journal(folder_ / "no/such/folder/journal.jsonl", "p", false), Error);
}

}  // namespace
}  // namespace assay
