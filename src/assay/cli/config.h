// Flags from a file: --config FILE, JSON or TOML, with the flags' long names as keys.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace assay::cli {

struct CommandLine {
  std::vector<std::string> words;  // without the program's name
  std::string file;                // that --config names; empty: none
  std::vector<std::string> flags;  // that the file gives: "--max-new-tokens"

  // A sentence about one of the file's flags, with the file's name in front.
  std::string with_place(const std::string& sentence) const;
};
// Puts the flags of the file that --config names among the words; flags that are there win. Throws Error for
// a file that cannot be read or parsed and for a key that is no flag of the command.
CommandLine with_config(const CLI::App& app, std::vector<std::string> words);

// The flags in force, as such a file in JSON: what a run keeps beside its results. Without those that do not
// change what is measured.
std::string config_of(const CLI::App& command);

}  // namespace assay::cli
