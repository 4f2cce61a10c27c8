// Every enumeration of the results has a complete table, and its names stand nowhere else in the source.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/results/named_json.h"
#include "assay/results/scenario.h"
#include "assay/results/status.h"
#include "assay/results/verdict.h"
#include "assay/results/warning.h"
#include "support/paths.h"

namespace assay {
namespace {

template <typename Info>
void expect_complete(std::span<const Info> table, int count) {
  ASSERT_EQ(table.size(), static_cast<std::size_t>(count));
  std::set<std::string_view> names;
  for (int i = 0; i < count; ++i) {
    const Info& info = table[static_cast<std::size_t>(i)];
    EXPECT_EQ(static_cast<int>(info.value), i) << info.name;
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.title.empty()) << info.name;
    EXPECT_TRUE(info.text.ends_with(".")) << info.name << ": a whole sentence says what it means";
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " stands twice";
    const nlohmann::ordered_json json = info.name;
    EXPECT_EQ(entry_at(table, json).value, info.value);
  }
  const nlohmann::ordered_json unknown = {{"what", "nonsense"}};
  try {
    entry_at(table, JsonReader(unknown, "f.json").at("what"));
    ADD_FAILURE() << "a name that no table has was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("f.json: what: expected one of "), std::string::npos);
  }
}

TEST(Names, TablesAreComplete) {
  expect_complete(scenarios(), kScenarios);
  expect_complete(row_statuses(), kRowStatuses);
  expect_complete(run_statuses(), kRunStatuses);
  expect_complete(audit_verdicts(), kAuditVerdicts);
  expect_complete(verdicts(), kVerdicts);
  expect_complete(warning_kinds(), kWarningKinds);
  for (const ScenarioInfo& info : scenarios()) EXPECT_FALSE(info.label_head.empty()) << info.name;
  for (const WarningInfo& info : warning_kinds())
    EXPECT_NE(info.remedy.empty(), info.value != WarningKind::other) << info.name;
}

TEST(Names, InFilesStayAsTheyAre) {
  EXPECT_EQ(name_of(Scenario::tradeoff), "trade-off");
  EXPECT_EQ(name_of(Scenario::step_times), "step times");
  EXPECT_EQ(name_of(Scenario::edge_prompts), "edge prompts");
  EXPECT_EQ(name_of(RowStatus::ok), "ok");
  EXPECT_EQ(name_of(RunStatus::interrupted), "interrupted");
  EXPECT_EQ(name_of(Verdict::cannot_tell), "cannot tell");
  EXPECT_EQ(name_of(AuditVerdict::differs_by_definition), "differs by definition");
}

// Compared as types, a misspelt scenario or status does not compile. Words that mean nothing else may stand
// in their table alone; others ("ok", "cache", and "trade-off", which is a study's name too) not beside the
// word scenario or status.
TEST(Names, NoLiteralNamesAScenarioOrStatusOutsideItsTable) {
  std::string names, own_words;
  const auto add = [](std::string& all, std::string_view name) {
    all += (all.empty() ? "" : "|") + std::string(name);
  };
  for (const ScenarioInfo& info : scenarios()) add(names, info.name);
  for (const auto& info : row_statuses()) add(names, info.name);
  for (const auto& info : run_statuses()) add(names, info.name);
  for (const auto& info : audit_verdicts()) add(names, info.name);
  for (const auto& info : verdicts()) add(names, info.name);
  for (const std::string_view name :
       {name_of(Scenario::step_times), name_of(Scenario::edge_prompts), name_of(Verdict::no_difference),
        name_of(Verdict::cannot_tell), name_of(Verdict::too_few), name_of(AuditVerdict::within_tolerance),
        name_of(AuditVerdict::differs_by_definition)})
    add(own_words, name);
  const std::regex beside("(scenario|status|verdict)\\w*\"?\\s*(==|!=|=|,)\\s*\"(" + names + ")\""),
      anywhere("\"(" + own_words + ")\"");
  const std::set<std::string> tables = {"scenario.cpp", "status.cpp", "verdict.cpp"};
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_folder() + "/src/assay")) {
    const std::string extension = entry.path().extension(), name = entry.path().filename();
    if (extension != ".cpp" && extension != ".h") continue;
    if (entry.path().parent_path().filename() == "results" && tables.count(name) > 0) continue;
    ++files;
    const std::string text = read_text_file(entry.path());
    for (const std::regex* words : {&beside, &anywhere}) {
      std::smatch found;
      if (std::regex_search(text, found, *words)) ADD_FAILURE() << entry.path() << ": " << found[0];
    }
  }
  EXPECT_GT(files, 100);
}

}  // namespace
}  // namespace assay
