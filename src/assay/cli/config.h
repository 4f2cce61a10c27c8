// Flags from a file: --config FILE, JSON or TOML, with the flags' long names as keys.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace assay::cli {

// The words of a command line (without the program's name), with those of the file that --config names put
// in; flags that are there win. Throws Error for a file that cannot be read or parsed and for a key that is
// no flag of the command.
std::vector<std::string> with_config(const CLI::App& app, std::vector<std::string> words);

// The flags in force, as such a file in JSON: what a run keeps beside its results. Without those that do not
// change what is measured.
std::string config_of(const CLI::App& command);

}  // namespace assay::cli
