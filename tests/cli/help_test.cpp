// Help texts: the words of the field, the default in brackets, every flag in its group with the name of its
// value.
#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/program.h"

namespace assay::test {
namespace {

// The lines of a section of a help text, each flag or command with the lines it is continued on.
std::vector<std::string> entries_of(const std::string& help) {
  std::vector<std::string> entries;
  bool is_section = false;
  for (const std::string& line : lines_of(help)) {
    if (line.empty() || line[0] != ' ') {
      is_section = line.ends_with(":") && line != "Usage:";
    } else if (is_section && line.size() > 2 && line[2] != ' ') {
      entries.push_back(line);
    } else if (is_section && !entries.empty()) {
      entries.back() += "\n" + line;
    }
  }
  return entries;
}

std::vector<std::string> commands_of(const std::string& help) {
  std::vector<std::string> commands;
  bool is_section = false;
  for (const std::string& line : lines_of(help)) {
    if (line.empty() || line[0] != ' ')
      is_section = line.starts_with("Subcommands") || line.starts_with("SUBCOMMANDS");
    else if (is_section && line.size() > 2 && line[2] != ' ')
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return commands;
}

// The flags of a help text by section, in its order: "Device" with "-t,--threads N".
std::vector<std::pair<std::string, std::vector<std::string>>> sections_of(const std::string& help) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sections;
  for (const std::string& line : lines_of(help)) {
    if (line.ends_with(":") && line[0] != ' ') sections.push_back({line.substr(0, line.size() - 1), {}});
    if (line.starts_with("  -") && !sections.empty()) {
      const std::size_t end = std::min(line.find("  ", 2), line.size());
      sections.back().second.push_back(line.substr(2, end - 2));
    }
  }
  return sections;
}

// A flag that cli/help.cpp gives no group stands under "Options".
void expect_grouped(const std::string& help) {
  static const std::vector<std::string> kGroups{"Most used", "Model and text", "Precision", "Sampling",
                                                "Measuring", "Device",         "Output"};
  static const std::set<std::string> kValues{
      "DIR",     "JSON",    "FILE",  "K",    "LIST",    "MASK", "MB",   "MODEL", "N", "NAME", "P",
      "PATTERN", "PERCENT", "PHASE", "RULE", "SECONDS", "SIDE", "TEXT", "TIME",  "X", "X=0.5"};
  auto at = kGroups.begin();
  for (const auto& [section, flags] : sections_of(help)) {
    if (flags.empty()) continue;  // positionals, commands
    at = std::find(at, kGroups.end(), section);
    ASSERT_NE(at, kGroups.end()) << section << ": " << flags.front();
    for (const std::string& flag : flags)
      if (const std::size_t blank = flag.find(' '); blank != std::string::npos) {
        const std::string value = flag.substr(blank + 1, flag.find(' ', blank + 1) - blank - 1);
        EXPECT_TRUE(kValues.contains(value)) << flag;
      }
  }
  // TEXT is what CLI11 calls a value that nothing names.
  static const std::regex kUnnamed("--(?!prompt|text|base)[a-z-]+ TEXT\\b");
  std::smatch found;
  EXPECT_FALSE(std::regex_search(help, found, kUnnamed)) << found.str();
}

void expect_good_help(std::vector<std::string> command) {
  std::string name;
  for (const std::string& word : command) name += word + " ";
  SCOPED_TRACE(name);
  command.emplace_back("--help");
  const ProgramResult result = run_program(command);
  expect_success(result);
  static const std::regex kPrivate(
      "\\b(roofs?|doubts?|screen\\w*|remainder|equals|laborator\\w*|subject|worth|waste|tail|exercise|"
      "\\(?default:?)\\b");
  std::smatch found;
  EXPECT_FALSE(std::regex_search(result.out, found, kPrivate)) << found.str();
  const std::vector<std::string> entries = entries_of(result.out);
  EXPECT_FALSE(entries.empty()) << result.out;
  expect_grouped(result.out);
  command.pop_back();
  for (const std::string& word : commands_of(result.out)) {
    std::vector<std::string> longer = command;
    longer.push_back(word);
    expect_good_help(longer);
  }
}

TEST(CliHelp, SpeaksTheWordsOfTheFieldAndGroupsEveryFlag) {
  expect_good_help({});
}

TEST(CliHelp, OfRunBeginsWithTheTenMostUsedFlags) {
  const auto sections = sections_of(run_program({"run", "--help"}).out);
  ASSERT_GE(sections.size(), 2U);
  EXPECT_EQ(sections[0].first, "Positionals");
  EXPECT_EQ(sections[1].first, "Most used");
  ASSERT_EQ(sections[1].second.size(), 10U);
  EXPECT_EQ(sections[1].second.front(), "-o,--output DIR");
  EXPECT_EQ(sections[1].second.back(), "-t,--threads N");
}

TEST(CliHelp, BreaksLinesBetweenWordsWhereTheTerminalEnds) {
  for (const std::size_t columns : {60U, 90U})
    for (const std::string& line :
         lines_of(run_program({"generate", "--help"}, {.environment = {{"COLUMNS", std::to_string(columns)}}})
                      .out))
      EXPECT_LE(line.size(), columns) << line;
}

}  // namespace
}  // namespace assay::test
