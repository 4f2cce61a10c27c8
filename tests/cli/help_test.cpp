// Help texts: the words of the field, the default in brackets, and no more than two lines for a flag.
#include <regex>
#include <string>
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

void expect_plain(std::vector<std::string> command) {
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
  command.pop_back();
  for (const std::string& word : commands_of(result.out)) {
    std::vector<std::string> longer = command;
    longer.push_back(word);
    expect_plain(longer);
  }
}

TEST(CliHelp, SpeaksTheWordsOfTheField) {
  expect_plain({});
}

}  // namespace
}  // namespace assay::test
