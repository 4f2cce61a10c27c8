// How fast the machine itself was while a row was measured: what a comparison of two runs must not take for a
// change of the program.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "assay/results/results.h"

namespace assay {

// The logarithm of each process's median, by process; empty where the row does not say which sample is whose,
// or a median is not positive.
std::map<int, double> log_medians(const Row& row, std::string_view tag);

// Why the times of two rows cannot be compared, although the cases are the same: their threads needed
// different times to synchronize (a factor of kMoved), as happens where a hypervisor moves processors between
// dies. None where they can, and where a row does not tell.
inline constexpr double kMoved = 1.5;
std::optional<std::string> why_machine_differs(const Row& a, const Row& b);

// The effects on the logarithm of a time (of a rate with `is_rate`), B against A, over processes (Welch): as
// it was measured, then, where all rows hold them, in units of what the machine could read in the meantime
// and of what it could multiply. A machine that was slower is no slower program: what is said must hold in
// each unit. Of several rows the processes of a visit, which run at about the same time and share what the
// machine is like then, are one observation, the mean over the rows. Empty where there are fewer than two
// processes of either.
struct ComparedPair {
  const Row *a, *b;
};
std::vector<statistics::Effect> effects_beside_machine(std::span<const ComparedPair> rows,
                                                       std::string_view tag, bool is_rate);

}  // namespace assay
