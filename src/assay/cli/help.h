// How the help texts are arranged: the group of each flag, and the name of its value.
#pragma once

#include <CLI/CLI.hpp>

namespace assay::cli {

// Gives every flag of the program and of its commands its group and the name of its value, where the command
// did not name them itself. A flag without a group stays under CLI11's own "Options".
void arrange_help(CLI::App& app);

}  // namespace assay::cli
